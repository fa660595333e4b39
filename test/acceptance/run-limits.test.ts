import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { until } from '../support/until.js';
import {
  createHome,
  type Home,
  json,
  jsonLines,
  type Running,
  type ServiceProcess,
  startServe,
  stopAll,
} from './program.js';

const ME = '@demo.you';
const ONE = '@alice.one';
const TWO = '@bob.two';

interface Told {
  session_id: string;
  sequence: number;
  outcome: string;
  code: string | null;
}

interface Said {
  sender: string;
  content: string;
  metadata?: { hops?: number };
}

describe('asp run › agents that answer everything', () => {
  let home: Home;
  let service: ServiceProcess;
  let echo: string;
  const agents: Running[] = [];

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'demo.you,alice.one,bob.two', '--limits', 'off', '--port', '0']);
    for (const handle of [ME, ONE, TWO])
      expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
    echo = join(home.directory, 'echo.mjs');
    writeFileSync(
      echo,
      `import { readFileSync } from 'node:fs';
       console.log(JSON.parse(readFileSync(0, 'utf8')).payload.content + '.');`,
    );
  });
  afterEach(() => stopAll(agents));
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  const start = async (handle: string, command: string, ...words: string[]): Promise<Running> => {
    const agent = home.start(['run', '-a', handle, '--from', 'anyone', '--exec', command, ...words]);
    agents.push(agent);
    await agent.until('stderr', /Answering as/);
    return agent;
  };
  const told = (agent: Running) => jsonLines<Told>(agent.stdout());
  const limitsOf = (agent: Running) =>
    told(agent).flatMap(({ outcome, code }) => (outcome === 'limited' ? [code] : []));
  const asp = async (...words: string[]): Promise<string> => {
    const { status, stdout, stderr } = await home.run([...words, '-a', ME]);
    expect(stderr).not.toContain('error:');
    expect(status).toBe(0);
    return stdout.trim();
  };
  const said = async (sid: string): Promise<Said[]> =>
    json<{ items: Said[] }>(await asp('message', 'list', sid, '--all', '--json')).items;
  const countOf = (messages: readonly Said[], handle: string) =>
    messages.filter(({ sender }) => sender === handle).length;
  /** Creates a session with both agents and waits until the running ones have joined. */
  const begin = async (running: readonly string[] = [ONE, TWO]): Promise<string> => {
    const sid = await asp('session', 'create', ONE, TWO);
    for (const handle of running)
      await until(
        `${handle} joins`,
        async () => {
          const show = json<{ participants: { handle: string; status: string }[] }>(
            await asp('session', 'show', sid, '--json'),
          );
          return show.participants.some((one) => one.handle === handle && one.status === 'joined');
        },
        30_000,
      );
    return sid;
  };

  it('two echoes stop after exactly N replies each, across a restart, and continue when a human writes', async () => {
    const words = ['--max-replies', '4', '--max-hops', '0', '--human', ME];
    const one = await start(ONE, `node ${echo}`, ...words);
    const two = await start(TWO, `node ${echo}`, ...words);
    const sid = await begin();
    await asp('send', sid, 'go');
    const isOver = async () => limitsOf(one).length > 0 && limitsOf(two).length > 0;
    await until('both are stopped', isOver, 60_000);
    await one.until('stderr', /the limit max_replies is reached\. A message from an agent that --human names/);
    const first = await said(sid);
    expect([countOf(first, ONE), countOf(first, TWO)]).toEqual([4, 4]);
    expect(Math.max(...first.map(({ metadata }) => metadata?.hops ?? 0))).toBeGreaterThan(3);
    two.kill('SIGKILL');
    await two.ended;
    const again = await start(TWO, `node ${echo}`, ...words);
    await home.run(['send', sid, 'by itself', '-a', ONE]);
    await until('it counts on', async () => limitsOf(again).includes('max_replies'));
    const seen = [limitsOf(one).length, limitsOf(again).length];
    await asp('send', sid, 'go on');
    await until(
      'both are stopped again',
      async () => limitsOf(one).length > (seen[0] ?? 0) && limitsOf(again).length > (seen[1] ?? 0),
      60_000,
    );
    const all = await said(sid);
    expect([countOf(all, ONE), countOf(all, TWO)]).toEqual([9, 8]);
  });

  it('--on-limit stop ends the run with 11 and says how to continue; the next run takes later messages', async () => {
    const words = ['--max-replies', '1', '--human', ME, '--on-limit', 'stop'];
    const one = await start(ONE, 'echo pong', ...words);
    const sid = await begin([ONE]);
    await home.run(['session', 'join', sid, '-a', TWO]);
    for (const text of ['first', 'second']) await home.run(['send', sid, text, '-a', TWO]);
    const { status, stderr } = await one.ended;
    expect(status).toBe(11);
    expect(stderr).toMatch(
      /the limit max_replies is reached\. Its message gets no reply\.[\s\S]*--human[\s\S]*ASP_LIMIT · exit 11/,
    );
    expect(stderr.match(/the limit max_replies is reached/g)).toHaveLength(1);
    expect(limitsOf(one)).toEqual(['max_replies']);
    const next = await start(ONE, 'echo pong', ...words);
    await asp('send', sid, 'go on');
    await until('it answers the human', async () => told(next).length > 0);
    expect(told(next)).toMatchObject([{ outcome: 'replied' }]);
  });

  it('the same answer to answers stops at the third time', async () => {
    const one = await start(ONE, 'echo same');
    const two = await start(TWO, 'echo same');
    const sid = await begin();
    await asp('send', sid, 'go');
    // They may also answer each other in a session of an earlier test.
    const isOver = (agent: Running) => told(agent).some((it) => it.session_id === sid && it.code === 'repeated');
    await until('both are stopped', async () => isOver(one) && isOver(two), 60_000);
    expect(countOf(await said(sid), ONE)).toBe(2);
  });

  it('a restart does not reset the count of the same answer, but a human does', async () => {
    const startOne = (): Promise<Running> => start(ONE, 'echo same', '--human', ME);
    const again = async (running: Running): Promise<Running> => {
      running.kill('SIGKILL');
      await running.ended;
      return startOne();
    };
    /** Sends it and waits until the agent is done with it. After a kill, the agent may report an earlier message again. */
    const give = async (running: Running, sender: string, ...words: string[]): Promise<Told> => {
      const sent = await home.run(['send', sid, ...words, '-a', sender, '--json']);
      const { sequence } = json<{ sequence: number }>(sent.stdout);
      const find = () => told(running).find((one) => one.sequence === sequence);
      await until(`message ${sequence}`, async () => find() !== undefined);
      return find() as Told;
    };
    let one = await startOne();
    const sid = await begin([ONE]);
    await home.run(['session', 'join', sid, '-a', TWO]);
    for (const text of ['first', 'second']) {
      expect(await give(one, TWO, text, '--meta', 'hops=1')).toMatchObject({ outcome: 'replied' });
      one = await again(one);
    }
    const third = await give(one, TWO, 'third', '--meta', 'hops=1');
    expect(third).toMatchObject({ outcome: 'limited', code: 'repeated' });
    expect(countOf(await said(sid), ONE)).toBe(2);
    await give(one, ME, 'go on');
    one = await again(one);
    expect(await give(one, TWO, 'fourth', '--meta', 'hops=1')).toMatchObject({ outcome: 'replied' });
  });
});

describe('asp run › at a service with --loop-guard', () => {
  const LIMIT = 12;
  let home: Home;
  let service: ServiceProcess;
  const agents: Running[] = [];
  const words = ['--limits', 'off', '--port', '0', '--data', 'data', '--loop-guard', String(LIMIT)];
  const serve = (): Promise<ServiceProcess> => startServe(home, ['--seed', 'demo.you,alice.one,bob.two', ...words]);

  beforeAll(async () => {
    home = createHome();
    service = await serve();
    for (const handle of [ME, ONE, TWO])
      expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
  });
  afterAll(async () => {
    for (const agent of agents) agent.kill('SIGINT');
    await Promise.all(agents.map(({ ended }) => ended));
    await service.stop();
    await home.dispose();
  });

  it('agents without limits of their own stop after exactly N messages, and continue when a person writes', async () => {
    for (const handle of [ONE, TWO]) {
      const off = ['--max-replies', '0', '--max-hops', '0', '--from', 'anyone'];
      const agent = home.start(['run', '-a', handle, '--exec', 'echo $ASP_SEQUENCE', ...off]);
      agents.push(agent);
      await agent.until('stderr', /Answering as/);
    }
    const created = await home.run(['session', 'create', ONE, TWO, '-a', ME]);
    const sid = created.stdout.trim();
    const joined = async (): Promise<boolean> =>
      (await home.run(['session', 'show', sid, '-a', ME])).stdout.match(/joined/g)?.length === 3;
    await until('both join', joined);
    const said = async (): Promise<Said[]> =>
      json<{ items: Said[] }>((await home.run(['message', 'list', sid, '--all', '--json', '-a', ME])).stdout).items;
    const stopped = (agent: Running) => jsonLines<Told>(agent.stdout()).filter(({ outcome }) => outcome === 'limited');
    /** The agent that wrote last has nothing to answer, so it may not notice. */
    const mustStopAfter = async (count: number): Promise<void> => {
      await until('all that the limit allows is said', async () => (await said()).length === count, 60_000);
      const refused = await home.run(['send', sid, 'me too', '-a', ME]);
      expect(refused.status).toBe(11);
      expect(refused.stderr).toMatch(/12 messages in a row without one from a person[\s\S]*LOOP_GUARD · exit 11/);
      expect((await said()).length).toBe(count);
    };

    expect(await home.run(['send', sid, 'go', '-a', ME])).toMatchObject({ status: 0 });
    await mustStopAfter(LIMIT);
    await until('one is stopped', async () => agents.some((agent) => stopped(agent).length > 0), 60_000);
    expect(agents.flatMap(stopped)[0]).toMatchObject({ code: 'loop_guard', reply: null });
    expect(agents.map((agent) => agent.stderr()).join('')).toMatch(
      /the limit loop_guard is reached\. The service waits for a message from a person/,
    );

    const person = await home.run(['send', sid, 'go on', '--meta', 'sent_by=test', '-a', ME]);
    expect(person).toMatchObject({ status: 0 });
    await mustStopAfter(LIMIT + 1 + LIMIT);
  });
});
