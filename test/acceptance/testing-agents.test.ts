import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { until } from '../support/until.js';
import {
  createHome,
  type Home,
  isRunning,
  jsonLines,
  type Running,
  type ServiceProcess,
  startServe,
} from './program.js';

const YOU = '@t.you';
const BOT = '@t.bot';

describe('asp mock and asp replay', () => {
  let home: Home;
  let service: ServiceProcess;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 't.you,t.bot', '--limits', 'off']);
    for (const handle of [YOU, BOT]) expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  const write = (name: string, text: string): string => {
    const path = join(home.directory, name);
    writeFileSync(path, text);
    chmodSync(path, 0o755);
    return path;
  };

  const mock = async (script: object, words: readonly string[] = []): Promise<Running> => {
    const path = write('mock.json', JSON.stringify(script));
    const one = home.start(['mock', BOT, '--script', path, ...words]);
    await one.until('stderr', /Answering as @t\.bot/);
    return one;
  };

  const ask = async (text: string): Promise<string> => {
    const { status, stdout } = await home.run(['send', BOT, text, '-a', YOU, '--wait']);
    expect(status).toBe(0);
    return stdout.trim();
  };

  const GREETING = { name: 'greeting', required: true, when: { contains: 'hello' }, do: [{ reply: 'hi' }] };

  it('a signal ends a mock, and its exit code says whether the required rules were used', async () => {
    const unused = await mock({ rules: [GREETING] });
    unused.kill('SIGTERM');
    const ended = await unused.ended;
    expect(ended).toMatchObject({ status: 13, signal: null });
    expect(ended.stderr).toContain("'greeting' was used 0 of 1 times.");
    const used = await mock({ rules: [GREETING] });
    expect(await ask('hello')).toBe('hi');
    await used.until('stdout', /"rule":"greeting"/);
    used.kill('SIGINT');
    expect(await used.ended).toMatchObject({ status: 0, signal: null });
  });

  it('a shell script tests a program against a mock', async () => {
    write('mock.json', JSON.stringify({ rules: [GREETING] }));
    const line = [
      'asp mock @t.bot --script mock.json --until-met --timeout 60s > seen.jsonl & mock=$!',
      'asp send @t.bot "hello there" -a t.you --wait',
      'wait $mock; echo "exit $?"',
    ].join('\n');
    const { stdout } = await home.shell(line);
    expect(stdout).toBe('hi\nexit 0\n');
  });

  it('a killed mock does not keep the next one from answering', async () => {
    const killed = await mock({ rules: [GREETING] });
    killed.kill('SIGKILL');
    await killed.ended;
    const next = await mock({ rules: [GREETING] }, ['--until-met']);
    expect(await ask('hello')).toBe('hi');
    expect(await next.ended).toMatchObject({ status: 0 });
  });

  it('a replay repeats what asp run did, from the service and from a file, and writes nothing there', async () => {
    const agent = write('agent.sh', '#!/bin/sh\necho "$ASP_ACTOR, you said $(wc -c) bytes"\n');
    const run = home.start(['run', '-a', BOT, '--exec', agent, '--from', YOU, '--count', '1']);
    await run.until('stderr', /Answering as/);
    expect(await ask('how much?')).toMatch(/^@t\.you, you said +\d+ bytes$/);
    // The run may first report a message that a mock has answered without confirming its delivery.
    const session = jsonLines<{ session_id: string }>((await run.ended).stdout).at(-1)?.session_id ?? '';
    const events = async (): Promise<string> =>
      (await home.run(['session', 'events', session, '--after', '0', '-a', BOT])).stdout;
    const before = await events();
    expect(await home.asp(['replay', session, '-a', BOT, '--exec', agent])).toMatchObject({ status: 0 });
    await home.run(['session', 'export', session, '-o', 'recorded.jsonl', '-a', BOT]);
    // Only the service knows the sender's relation, which is part of the input, so its length differs.
    const file = ['replay', 'recorded.jsonl', '-a', BOT, '--ignore', '[0-9]+', '--exec'];
    expect(await home.asp([...file, agent])).toMatchObject({ status: 0 });
    const changed = await home.asp([...file, `${agent} | sed s/bytes/octets/`, '--json']);
    expect(changed.status).toBe(13);
    expect(jsonLines<{ outcome: string }>(changed.stdout)).toMatchObject([{ outcome: 'different' }]);
    expect(await events()).toBe(before);
  });

  it('the command of a replay ends with it, no matter how it ends', async () => {
    const message = { id: 'msg_1', session_id: 'sess_1', sender: YOU, sequence: 1, content: 'x', created_at: 1 };
    const about = { session_id: 'sess_1', event_id: 'evt_1', sequence: 1, created_at: 1 };
    const lines = [
      { type: 'session.invited', ...about, payload: { invitee: BOT, by: YOU } },
      { type: 'session.message', ...about, payload: message },
    ];
    write('slow.jsonl', lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const pidFile = join(home.directory, 'pid');
    for (const signal of ['SIGINT', 'SIGKILL'] as const) {
      writeFileSync(pidFile, '');
      const exec = `echo $$ > ${pidFile}; exec sleep 600`;
      const one = home.start(['replay', 'slow.jsonl', '-a', BOT, '--exec', exec]);
      const pid = await until('the command runs', async () => Number(readFileSync(pidFile, 'utf8')) || undefined);
      one.kill(signal);
      expect(await one.ended).toMatchObject({ signal });
      await until('the command ended', async () => !isRunning(pid));
    }
  });
});
