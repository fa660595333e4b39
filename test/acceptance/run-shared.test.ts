import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { actorIn } from '../support/operator.js';
import { IS_LONG } from '../support/tally.js';
import { until } from '../support/until.js';
import { createHome, type Home, jsonLines, type Running, type ServiceProcess, startServe, stopAll } from './program.js';

const KILLS = IS_LONG ? 100 : 4;
const ME = '@demo.you';
const BOT = '@demo.bot';

interface Payload {
  readonly id: string;
  readonly sender: string;
  readonly content: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** One start of the command. */
interface Begun {
  readonly worker: string;
  readonly session: string;
  readonly event: string;
  readonly attempt: string;
  readonly pid: number;
}

// Writes down that it began, waits while the file `hold` exists, does not answer messages that say "quiet", and fails for
// those that say "fails in" with the name of its worker.
const COMMAND = `echo "$WORKER $ASP_SESSION_ID $ASP_EVENT_ID $ASP_TRY $$" >> begun.log
message=$(cat)
while [ -e hold ]; do sleep 0.1; done
case "$message" in *quiet*) ;; *"fails in $WORKER"*) exit 1 ;; *) echo "done by $WORKER" ;; esac`;

describe('asp run --shared', () => {
  let home: Home;
  let service: ServiceProcess;
  let me: Actor;
  let bot: Actor;
  const workers = new Map<string, Running>();

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--limits', 'off', '--seed', 'demo.you,demo.bot']);
    expect(await home.run(['login', BOT, '--yes'])).toMatchObject({ status: 0 });
    [me, bot] = [await actorIn(home, service.url, ME), await actorIn(home, service.url, BOT)];
    writeFileSync(join(home.directory, 'answer.sh'), COMMAND);
  });
  afterEach(async () => {
    await stopAll([...workers.values()]);
    workers.clear();
    for (const name of ['hold', 'begun.log']) rmSync(join(home.directory, name), { force: true });
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  const start = async (worker: string, ...words: string[]): Promise<Running> => {
    const line = [
      'run',
      '--exec',
      'sh answer.sh',
      '--shared',
      '--from',
      'anyone',
      '--max-replies',
      '0',
      '--cursor-file',
      `${worker}.json`,
    ];
    const running = home.start([...line, ...words], { environment: { WORKER: worker } });
    workers.set(worker, running);
    await running.until('stderr', /Answering as/);
    return running;
  };
  const begun = (): Begun[] => {
    const path = join(home.directory, 'begun.log');
    const lines = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
    return lines.map((line) => {
      const [worker = '', session = '', event = '', attempt = '', pid] = line.split(' ');
      return { worker, session, event, attempt, pid: Number(pid) };
    });
  };
  const begunIn = (sid: string) => async (): Promise<Begun | undefined> =>
    begun().find(({ session }) => session === sid);
  /** What the agent has said in a session, in order. */
  const answers = async (sid: string): Promise<Payload[]> => {
    const events = (await me.mustReplay(sid)) as readonly { type: string; payload: Payload }[];
    return events.flatMap(({ type, payload }) =>
      type === 'session.message' && payload.sender === BOT ? [payload] : [],
    );
  };
  const answered = (sid: string, count: number) =>
    until(`${count} answers`, async () => (await answers(sid)).length >= count, 40_000);
  /** A session that the agent has joined. */
  const open = async (): Promise<string> => {
    const sid = await me.mustCreate({ invite: [BOT] });
    await bot.mustJoin(sid);
    return sid;
  };

  it('gives each message to one of the runs, in the order of its session, and all of them work', async () => {
    await Promise.all(['one', 'two', 'three'].map((worker) => start(worker)));
    const sids = await Promise.all(Array.from({ length: 12 }, open));
    const asked = new Map<string, string[]>();
    for (const round of [1, 2, 3, 4])
      await Promise.all(
        sids.map(async (sid) => {
          const { id } = await me.mustSend(sid, round === 2 ? 'quiet' : `message ${round}`);
          if (round !== 2) asked.set(sid, [...(asked.get(sid) ?? []), id]);
        }),
      );
    for (const sid of sids) await answered(sid, 3);
    await until('the quiet messages', async () => begun().length >= 48, 40_000);
    expect(begun().map(({ event }) => event)).toHaveLength(new Set(begun().map(({ event }) => event)).size);
    expect(begun().every(({ attempt }) => attempt === '1')).toBe(true);
    expect(new Set(begun().map(({ worker }) => worker)).size).toBeGreaterThan(1);
    for (const sid of sids)
      expect((await answers(sid)).map(({ metadata }) => metadata?.['in_reply_to'])).toEqual(asked.get(sid));
    const told = [...workers.values()].flatMap((worker) => jsonLines<{ event_id: string }>(worker.stdout()));
    expect(told.map(({ event_id: id }) => id).sort()).toEqual(
      begun()
        .map(({ event }) => event)
        .sort(),
    );
  });

  it('continues the work of a run that was killed, says that it is not the first attempt, and answers once', async () => {
    await Promise.all([start('one'), start('two')]);
    const sid = await open();
    writeFileSync(join(home.directory, 'hold'), '');
    await me.mustSend(sid, 'hello');
    const first = await until('the command', begunIn(sid));
    const other = first.worker === 'one' ? 'two' : 'one';
    workers.get(first.worker)?.kill('SIGKILL');
    await until('the other run', async () => begun().length === 2, 40_000);
    expect(begun()[1]).toMatchObject({ worker: other, event: first.event, attempt: '2' });
    rmSync(join(home.directory, 'hold'));
    await answered(sid, 1);
    await me.mustSend(sid, 'and again');
    await answered(sid, 2);
    await start(first.worker);
    await me.mustSend(sid, 'all here');
    await answered(sid, 3);
    expect((await answers(sid)).slice(0, 2).map(({ content }) => content)).toEqual(Array(2).fill(`done by ${other}`));
    expect(begun()).toHaveLength(4);
  });

  it('keeps a session as long as its command runs, and hands over the message if it has to stop the command', async () => {
    await Promise.all([start('one', '--grace', '0s'), start('two', '--grace', '0s')]);
    const sid = await open();
    writeFileSync(join(home.directory, 'hold'), '');
    await me.mustSend(sid, 'hello');
    const first = await until('the command', begunIn(sid));
    // Longer than a claim lasts.
    await setTimeout(18_000);
    expect(begun()).toHaveLength(1);
    workers.get(first.worker)?.kill('SIGINT');
    await workers.get(first.worker)?.ended;
    rmSync(join(home.directory, 'hold'));
    await answered(sid, 1);
    expect(begun()[1]).toMatchObject({ event: first.event, attempt: '2' });
    expect(await answers(sid)).toHaveLength(1);
  });

  it('answers each message once while runs are killed, and marks each command that is not the first', async () => {
    const names = ['one', 'two', 'three'];
    await Promise.all(names.map((worker) => start(worker)));
    const sids = await Promise.all(Array.from({ length: 6 }, open));
    const asked = new Map(sids.map((sid) => [sid, [] as string[]]));
    /** How many commands had begun at each kill. */
    const killedAt: number[] = [];
    for (let kill = 0; kill < KILLS; kill += 1) {
      for (const sid of sids) asked.get(sid)?.push((await me.mustSend(sid, `message ${kill}`)).id);
      await setTimeout(300 + 150 * (kill % 5));
      const name = names[kill % names.length] ?? '';
      workers.get(name)?.kill('SIGKILL');
      killedAt.push(begun().length);
      await workers.get(name)?.ended;
      await start(name);
    }
    for (const sid of sids) await answered(sid, KILLS);
    for (const sid of sids)
      expect((await answers(sid)).map(({ metadata }) => metadata?.['in_reply_to'])).toEqual(asked.get(sid));
    // A run can also be killed between its mark and the first line of its command. Nothing else leaves a mark without one.
    const seen = new Map<string, number>();
    for (const [index, { event, attempt }] of begun().entries()) {
      const before = seen.get(event) ?? 0;
      const kills = killedAt.filter((at) => at <= index).length;
      expect(Number(attempt), event).toBeGreaterThan(before);
      expect(Number(attempt), event).toBeLessThanOrEqual(1 + kills);
      seen.set(event, Number(attempt));
    }
  });

  it('loses no message that one run has waiting and another one, started later, never saw', async () => {
    await start('one', '--concurrency', '1');
    const [busy, waiting] = [await open(), await open()];
    writeFileSync(join(home.directory, 'hold'), '');
    await me.mustSend(busy, 'hello');
    await until('the command', begunIn(busy));
    await me.mustSend(waiting, 'quiet first');
    await start('two');
    await me.mustSend(waiting, 'second');
    rmSync(join(home.directory, 'hold'));
    await answered(waiting, 1);
    await until('all three commands', async () => begun().length === 3, 40_000);
    expect(new Set(begun().map(({ event }) => event)).size).toBe(3);
  });

  it('leaves later messages to the others after a run was suspended for longer than its claim', async () => {
    await Promise.all([start('one'), start('two')]);
    const sid = await open();
    writeFileSync(join(home.directory, 'hold'), '');
    await me.mustSend(sid, 'message 1');
    const first = await until('the command', begunIn(sid));
    workers.get(first.worker)?.kill('SIGSTOP');
    for (const number of [2, 3, 4]) await me.mustSend(sid, `message ${number}`);
    await until('the other run', async () => begun().length === 2, 40_000);
    rmSync(join(home.directory, 'hold'));
    workers.get(first.worker)?.kill('SIGCONT');
    await answered(sid, 4);
    // Only the message that was in progress may have run twice.
    expect(
      begun()
        .slice(2)
        .map(({ attempt }) => attempt),
    ).toEqual(['1', '1', '1']);
    expect(new Set(begun().map(({ event }) => event)).size).toBe(4);
    expect(await answers(sid)).toHaveLength(4);
  });

  it('does not call a message failed that another run has answered in the meantime', async () => {
    const one = await start('one');
    const sid = await open();
    writeFileSync(join(home.directory, 'hold'), '');
    await me.mustSend(sid, 'fails in one');
    await until('the command', begunIn(sid));
    one.kill('SIGSTOP');
    await start('two', '--since', '1m');
    await until('the other run', async () => begun().length === 2, 40_000);
    rmSync(join(home.directory, 'hold'));
    await answered(sid, 1);
    one.kill('SIGCONT');
    await one.until('stdout', /\n/);
    expect(jsonLines(one.stdout())).toMatchObject([{ outcome: 'answered', code: null }]);
    expect(one.stderr()).not.toContain('no reply was sent');
    expect(await answers(sid)).toMatchObject([{ content: 'done by two' }]);
  });

  it('ends without touching a message if the service refuses its claim', async () => {
    writeFileSync(join(home.directory, 'odd.json'), JSON.stringify({ since: Date.now(), sessions: {}, worker: 'a b' }));
    const odd = await start('odd');
    const sid = await open();
    await me.mustSend(sid, 'hello');
    expect(await odd.ended).toMatchObject({ status: 2, stderr: expect.stringContaining('"worker"') });
    expect(begun()).toEqual([]);
    await start('one', '--since', '1m');
    await answered(sid, 1);
  });

  it('refuses --count, --acp, and a second run with the same progress file', async () => {
    await start('one');
    const line = ['run', '--exec', 'true', '--shared', '--cursor-file', 'one.json'];
    for (const words of [
      [...line, '--count', '1'],
      ['run', '--acp', 'true', '--shared'],
    ])
      expect(await home.asp(words)).toMatchObject({ status: 2 });
    expect(await home.asp(line)).toMatchObject({ status: 6 });
  });
});
