import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  createHome,
  type Home,
  isRunning,
  json,
  jsonLines,
  missing,
  type Running,
  type ServiceProcess,
  startServe,
} from '../acceptance/program.js';
import { type Actor, actorOf, operate } from '../support/actors.js';
import { text } from '../support/json.js';
import { discover } from '../support/oauth.js';
import { operatorOf } from '../support/operator.js';
import { createTally, IS_LONG } from '../support/tally.js';
import { until } from '../support/until.js';

const PROGRAMS = fileURLToPath(new URL('../support/programs/', import.meta.url));
const [MESSAGES, KILLS] = IS_LONG ? [1_000, 100] : [60, 8];
const [REPLIES, ECHO_KILLS] = IS_LONG ? [100, 40] : [8, 4];
const SESSIONS_EACH = 3;
const ME = '@demo.you';
const WAIT_MS = 60_000;
/** A killed runner's command may still begin until its guard ends it. */
const GUARD_MS = 3_000;

type Kind = 'run' | 'handler' | 'service';
const KINDS: readonly Kind[] = ['run', 'handler', 'run', 'service'];

/** A message in the input of a handler. */
interface Handled {
  readonly pid: number;
  readonly at: number;
  /** The message's number. */
  readonly text: string;
  /** Its input, `ASP_TRY` or `attempt` says that it was given out before. */
  readonly isMarked: boolean;
}

/** One of five agents that have nothing in common but the engine. */
interface Agent {
  readonly name: string;
  readonly handle: string;
  /** Part of the command line of a process that handles messages; undefined: the agent's own process does. */
  readonly handler?: string;
  start(): Running;
  handled(): readonly Handled[];
}

interface Envelope {
  readonly type: string;
  readonly created_at: number;
  readonly payload: {
    readonly id: string;
    readonly sender: string;
    readonly content: string;
    readonly metadata?: { readonly in_reply_to?: string; readonly failed?: boolean };
  };
}

/** What `asp run` prints about a message. */
interface Told {
  readonly sequence: number;
  readonly code: string | null;
}

const TRIES = ['--tries', '20', '--max-replies', '0', '--from', ME];

function createAgents(home: Home): readonly Agent[] {
  const logOf = (name: string): string => join(home.directory, `${name}.jsonl`);
  const read = <Entry>(name: string): Entry[] =>
    existsSync(logOf(name)) ? jsonLines<Entry>(readFileSync(logOf(name), 'utf8').replace(/[^\n]*$/, '')) : [];
  const command = join(home.directory, 'answer.sh');
  const record = `{"pid":%s,"at":%s,"text":"%s","isMarked":%s}\\n`;
  const lines = [
    '#!/bin/bash',
    `number=$(grep -o '"content":"[^"]*' | grep -o 'number-[0-9]*')`,
    'marked=$([ "$ASP_TRY" -gt 1 ] && echo true || echo false)',
    `printf '${record}' $$ "$(date +%s%3N)" "$number" "$marked" >> ${logOf('shell')}`,
    'sleep 0.4',
    'echo "$number $RANDOM"',
  ];
  writeFileSync(command, `${lines.join('\n')}\n`);
  chmodSync(command, 0o755);
  const run = (handle: string, ...words: string[]) => home.start(['run', '-a', handle, ...TRIES, ...words]);
  const python = `python3 ${PROGRAMS}acp-handler.py ${logOf('python')}`;
  const sdk = `node ${PROGRAMS}acp-sdk-agent.mjs ${logOf('sdk')}`;
  const library = [`${PROGRAMS}library-agent.mjs`, '@demo.library', ME, logOf('library')];
  return [
    {
      ...{ name: 'a shell command for each message', handle: '@demo.shell', handler: 'answer.sh' },
      start: () => run('@demo.shell', '--exec', command),
      handled: () => read<Handled>('shell'),
    },
    {
      ...{ name: 'a Python program that keeps running', handle: '@demo.python', handler: 'acp-handler.py' },
      start: () => run('@demo.python', '--acp', python),
      handled: () => read<Handled>('python'),
    },
    {
      ...{ name: 'a program on the SDK of ACP', handle: '@demo.sdk', handler: 'acp-sdk-agent.mjs' },
      start: () => run('@demo.sdk', '--acp', sdk),
      handled: () =>
        read<Omit<Handled, 'isMarked'> & { what: string }>('sdk')
          .filter(({ what }) => what === 'prompt')
          .map(({ pid, at, text: prompt }) => ({
            ...{ pid, at, text: /number-\d+/.exec(prompt)?.[0] ?? '' },
            isMarked: prompt.includes('that turn was cut off'),
          })),
    },
    {
      ...{ name: 'a program that exchanges lines', handle: '@demo.lines', handler: 'line-handler.py' },
      start: () => run('@demo.lines', '--exec', `python3 ${PROGRAMS}line-handler.py ${logOf('lines')}`, '--lines'),
      // It also writes down its end.
      handled: () => read<Handled>('lines').filter(({ text: number }) => number !== undefined),
    },
    {
      ...{ name: 'a program on the library', handle: '@demo.library' },
      start: () => home.spawn(process.execPath, library),
      handled: () => read<Handled>('library'),
    },
  ];
}

/** Whether a process is one of a program, and not a later one with its number. */
function isProcessOf(pid: number, program: string): boolean {
  try {
    return isRunning(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(program);
  } catch {
    return false;
  }
}

/** False if it has just ended. */
function tryKill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}

describe.skipIf(missing('python3', 'bash') !== undefined)('Agents that are killed with kill -9', () => {
  let home: Home;
  let service: ServiceProcess;
  let me: Actor;

  const serve = (url?: string): Promise<ServiceProcess> => startServe(home, ['--limits', 'off'], url);
  const signIn = async (credentials?: Actor['credentials']): Promise<Actor> => {
    const place = await discover(service.url);
    if (credentials !== undefined) return actorOf(place, ME, credentials);
    const client = await operate(operatorOf(home), 'POST', '/clients', { handle: ME });
    return actorOf(place, ME, { clientId: text(client, 'client_id'), clientSecret: text(client, 'client_secret') });
  };
  /** Retries an unanswered request, as a client does; its token may have expired. */
  const persist = <Value>(work: () => Promise<Value | undefined>): Promise<Value> => {
    const attempt = async (): Promise<Value | undefined> => {
      const value = await work().catch(() => undefined);
      if (value === undefined) me = await signIn(me.credentials).catch(() => me);
      return value;
    };
    return until('the service answers', attempt, WAIT_MS);
  };
  const messagesIn = async (sessionId: string): Promise<readonly Envelope[]> => {
    const events = (await persist(() => me.mustReplay(sessionId))) as readonly Envelope[];
    return events.filter(({ type }) => type === 'session.message');
  };
  const killService = async (): Promise<void> => {
    service.running.kill('SIGKILL');
    await service.running.ended;
    service = await serve(service.url);
  };

  beforeAll(async () => {
    home = createHome();
    const handles = [
      ME,
      '@demo.shell',
      '@demo.python',
      '@demo.sdk',
      '@demo.lines',
      '@demo.library',
      '@demo.one',
      '@demo.two',
    ];
    const seed = handles.map((handle) => handle.slice(1)).join(',');
    service = await startServe(home, ['--limits', 'off', '--seed', seed]);
    for (const handle of handles) expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
    me = await signIn();
  }, 180_000);
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  it(
    `answer each of ${MESSAGES} messages once and in order, and repeat work only after a kill, marked: five agents, ${KILLS} kills`,
    async () => {
      const tally = createTally('killed agents');
      const { random } = tally;
      const agents = createAgents(home);
      const runs = new Map<string, Running>();
      const kills: { readonly agent: string | undefined; readonly at: number }[] = [];
      for (const agent of agents) runs.set(agent.handle, agent.start());
      for (const run of runs.values()) await run.until('stderr', /Answering as/);
      const places = await Promise.all(
        agents.flatMap((agent) =>
          Array.from({ length: SESSIONS_EACH }, async () => ({
            agent,
            sessionId: await me.mustCreate({ invite: [agent.handle] }),
          })),
        ),
      );
      const sent = new Map<string, { readonly number: string; readonly at: number; readonly agent: Agent }>();
      let count = 0;
      const send = async ({ agent, sessionId }: (typeof places)[number]): Promise<string> => {
        count += 1;
        const number = `number-${count}`;
        const key = randomUUID();
        const at = Date.now();
        const { message_id: id } = await persist(async () => {
          const answer = await me.post(`/sessions/${sessionId}/messages`, { content: `pause ${number}` }, { key });
          return answer.status < 300 ? (answer.json as { message_id: string }) : undefined;
        });
        sent.set(id, { number, at, agent });
        return number;
      };
      const timesOf = (agent: Agent, number: string): number =>
        agent.handled().filter((one) => one.text === number).length;
      /** An agent may be killed, but it must never end on its own. */
      const expectNoneEnded = async (): Promise<void> => {
        for (const [handle, { child, ended }] of runs)
          if (child.exitCode !== null) throw new Error(`${handle} ended: ${(await ended).stderr}`);
      };
      const killRun = async (agent: Agent): Promise<void> => {
        kills.push({ agent: agent.handle, at: Date.now() });
        const run = runs.get(agent.handle);
        run?.kill('SIGKILL');
        await run?.ended;
        runs.set(agent.handle, agent.start());
      };
      /** Kills the process that handles a message; false if none did. */
      const killHandler = async (agent: Agent, since: number): Promise<boolean> => {
        const program = agent.handler ?? '';
        const deadline = performance.now() + 20_000;
        while (performance.now() < deadline) {
          const last = agent.handled().at(-1);
          if (last !== undefined && last.at >= since && isProcessOf(last.pid, program)) {
            kills.push({ agent: agent.handle, at: Date.now() });
            return tryKill(last.pid);
          }
          await pause(20);
        }
        return false;
      };

      for (let number = 0; number < KILLS; number += 1) {
        const kind = KINDS[number % KINDS.length] ?? 'run';
        const target = random.pick(kind === 'handler' ? agents.filter(({ handler }) => handler !== undefined) : agents);
        const begin = Date.now();
        const batch = Math.floor(((number + 1) * MESSAGES) / KILLS) - Math.floor((number * MESSAGES) / KILLS);
        const chosen = Array.from({ length: batch }, () => random.pick(places));
        // There is something to interrupt.
        if (kind !== 'service') chosen[0] = random.pick(places.filter(({ agent }) => agent === target));
        const sending = Promise.all(chosen.map(send));
        if (kind === 'handler') {
          const [isKilled] = await Promise.all([killHandler(target, begin), sending]);
          if (!isKilled) await killRun(target);
          tally.fired(isKilled ? 'kill of a handler' : 'kill of a run');
        } else {
          await pause(random.below(600));
          if (kind === 'run') await killRun(target);
          else await killService();
          tally.fired(kind === 'run' ? 'kill of a run' : 'kill of the service');
          await sending;
        }
        await expectNoneEnded();
      }

      const answersIn = async (sessionId: string): Promise<readonly Envelope[]> =>
        (await messagesIn(sessionId)).filter(({ payload }) => payload.sender !== ME);
      const countAnswers = async (): Promise<number> => {
        let answers = 0;
        for (const { sessionId } of places) answers += (await answersIn(sessionId)).length;
        return answers;
      };
      const expectAll = async (): Promise<void> => {
        let [last, lastAt] = [-1, performance.now()];
        for (;;) {
          const answers = await countAnswers();
          await expectNoneEnded();
          if (answers >= sent.size) return;
          if (answers > last) [last, lastAt] = [answers, performance.now()];
          // The comparison below names the others.
          if (performance.now() - lastAt > WAIT_MS) return;
          await pause(200);
        }
      };
      await expectAll();
      // Each run dies while it has a message in its hands.
      for (const agent of agents) {
        let number: string;
        do {
          number = await send(random.pick(places.filter((one) => one.agent === agent)));
          await until(`${agent.name} gets ${number}`, async () => timesOf(agent, number) > 0, WAIT_MS);
          await killRun(agent);
          tally.fired('kill of a run at work');
          await expectAll();
        } while (timesOf(agent, number) < 2);
      }
      // A last run of each finds nothing left to do but a last message.
      for (const agent of agents) {
        await killRun(agent);
        tally.fired('last kill of a run');
        await send(random.pick(places.filter((one) => one.agent === agent)));
      }
      await expectAll();

      const faults: string[] = [];
      const answeredAt = new Map<string, number>();
      for (const { agent, sessionId } of places) {
        const messages = await messagesIn(sessionId);
        const questions = messages.filter(({ payload }) => payload.sender === ME).map(({ payload }) => payload.id);
        const answers = messages.filter(({ payload }) => payload.sender === agent.handle);
        const named = answers.map(({ payload }) => payload.metadata?.in_reply_to);
        if (JSON.stringify(named) !== JSON.stringify(questions))
          for (const id of questions) {
            const times = named.filter((one) => one === id).length;
            if (times !== 1) faults.push(`${agent.name}: ${sent.get(id)?.number} has ${times} answers`);
          }
        if (named.length === questions.length && named.some((id, index) => id !== questions[index]))
          faults.push(`${agent.name}: the answers in ${sessionId} are not in order`);
        for (const { payload, created_at: at } of answers) {
          const number = sent.get(payload.metadata?.in_reply_to ?? '')?.number ?? '';
          if (payload.metadata?.failed === true || !new RegExp(`\\b${number}\\b`).test(payload.content))
            faults.push(`${agent.name}: ${number} is answered with ${payload.content}`);
          answeredAt.set(number, at);
        }
      }
      let repeated = 0;
      for (const agent of agents) {
        const handled = agent.handled();
        const killsOf = kills.filter((kill) => kill.agent === agent.handle);
        for (const { number, at: sentAt } of [...sent.values()].filter((one) => one.agent === agent)) {
          const turns = handled.filter((one) => one.text === number);
          if (turns.length === 0) faults.push(`${agent.name}: ${number} was never handled`);
          repeated += Math.max(0, turns.length - 1);
          turns.forEach(({ at, isMarked }, index) => {
            const earlier = turns[index - 1];
            // A kill between the mark and the handler's first line leaves only the mark.
            if (earlier === undefined && isMarked && !killsOf.some((kill) => kill.at >= sentAt && kill.at <= at))
              faults.push(`${agent.name}: ${number} is marked, but nothing was killed`);
            if (earlier === undefined) return;
            if (!isMarked) faults.push(`${agent.name}: ${number} came again, unmarked`);
            if (at > (answeredAt.get(number) ?? Number.POSITIVE_INFINITY))
              faults.push(`${agent.name}: ${number} came again after its answer`);
            const isCutOff = killsOf.some((kill) => kill.at >= earlier.at - GUARD_MS && kill.at <= at);
            if (!isCutOff) faults.push(`${agent.name}: ${number} came again, but nothing was killed`);
          });
        }
      }
      for (const run of runs.values()) {
        run.kill('SIGINT');
        expect(await run.ended).toMatchObject({ status: 0 });
      }
      tally.finish(['kill of a run', 'kill of a handler', 'kill of the service', 'kill of a run at work'], {
        messages: sent.size,
        repeated_after_a_kill: repeated,
        wrong: faults.length,
      });
      expect(faults).toEqual([]);
    },
    IS_LONG ? 3_600_000 : 300_000,
  );

  it(
    `stop at exactly ${REPLIES} replies each: two echoes, ${ECHO_KILLS} kills`,
    async () => {
      const tally = createTally('killed echoes');
      const { random } = tally;
      const [ONE, TWO] = ['@demo.one', '@demo.two'];
      const command = `jq -r '.payload.content + "."' | tail -c 200`;
      const words = ['--exec', command, '--max-replies', String(REPLIES), '--max-hops', '0', '--from', 'anyone'];
      const start = (handle: string): Running => home.start(['run', '-a', handle, '--human', ME, ...words]);
      const runs = new Map([ONE, TWO].map((handle) => [handle, start(handle)]));
      for (const run of runs.values()) await run.until('stderr', /Answering as/);
      const sessionId = await me.mustCreate({ invite: [ONE, TWO] });
      await until(
        'both join',
        async () => {
          const { participants } = (await me.mustRead(sessionId)) as { participants: { status: string }[] };
          return participants.every(({ status }) => status === 'joined');
        },
        WAIT_MS,
      );
      await me.mustSend(sessionId, 'go');
      const counts = async (): Promise<readonly number[]> => {
        const messages = await messagesIn(sessionId);
        return [ONE, TWO].map((handle) => messages.filter(({ payload }) => payload.sender === handle).length);
      };
      const total = async (): Promise<number> => (await counts()).reduce((sum, one) => sum + one, 0);
      const again = async (handle: string): Promise<void> => {
        const run = runs.get(handle);
        run?.kill('SIGKILL');
        await run?.ended;
        runs.set(handle, start(handle));
      };
      for (let number = 0; number < ECHO_KILLS; number += 1) {
        const before = Math.floor((number * REPLIES * 2) / ECHO_KILLS);
        await until(`reply ${before}`, async () => (await total()) >= before, WAIT_MS);
        await pause(random.below(400));
        await again(random.pick([ONE, TWO]));
        tally.fired('kill of a run');
      }
      const isOver = async (): Promise<boolean> => (await counts()).every((count) => count >= REPLIES);
      await until('both have used their replies', isOver, WAIT_MS);
      // Neither answers one more, not even after a restart.
      for (const handle of runs.keys()) await again(handle);
      for (const [handle, other] of [
        [ONE, TWO],
        [TWO, ONE],
      ] as const) {
        const { sequence } = json<{ sequence: number }>(
          (await home.asp(['send', sessionId, 'one more', '--json', '-a', other])).stdout,
        );
        const findRecord = async (): Promise<Told | undefined> => {
          const records = jsonLines<Told>((runs.get(handle)?.stdout() ?? '').replace(/[^\n]*$/, ''));
          return records.find((one) => one.sequence === sequence);
        };
        expect(await until(`${handle} takes it`, findRecord, WAIT_MS)).toMatchObject({ code: 'max_replies' });
      }
      // Each sent one message itself.
      expect(await counts()).toEqual([REPLIES + 1, REPLIES + 1]);
      for (const run of runs.values()) {
        run.kill('SIGINT');
        expect(await run.ended).toMatchObject({ status: 0 });
      }
      tally.finish(['kill of a run'], { replies: REPLIES });
    },
    IS_LONG ? 1_800_000 : 180_000,
  );
});
