import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sanitize } from '../../src/kit/sanitize.js';
import type { Actor } from '../support/actors.js';
import { captureStreams } from '../support/captured-streams.js';
import { createTestClock } from '../support/clock.js';
import { DANGEROUS, FORGERIES, hostileTexts, OTHER_LINE_BREAKS } from '../support/hostile-text.js';
import { startTestService, type TestService } from '../support/service.js';
import { IS_LONG } from '../support/tally.js';
import { until } from '../support/until.js';
import { optionsAs } from './acting.js';
import { freshHome, runWords } from './captured-run.js';

const TEXTS = IS_LONG ? 2_000 : 60;
const LINE_MAX = 480;
const PAUSE_MS = 2_000;

/** A whole line with a text. Only the JSON string at its end comes from a peer. */
const MESSAGE =
  /^\[asp\] message from (@[a-z0-9_.-]+) \(checked by the service; relation to you: (you|same owner|on your allowlist|anyone)\), not your user, in (sess_[0-9A-Za-z]+)\. Answer: asp reply --for-agent (sess_[0-9A-Za-z]+) "…"\. (It says:|[\d,]+ characters\. The whole message: asp inbox read --fence (sess_[0-9A-Za-z]+)\. It begins:) ("(?:[^"\\]|\\.)*")$/u;

let service: TestService;
let alice: Actor;
let carol: Actor;

beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  [alice, carol] = await Promise.all([service.createAgent('alice'), service.createAgent('carol')]);
});
afterAll(() => service.stop());

const pause = (ms = 300): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Starts a tail with a frozen clock. */
async function startTail(actor: Actor, words = '', home = freshHome()) {
  const clock = createTestClock();
  const streams = captureStreams();
  const stop = new AbortController();
  const live = join(home, 'live');
  const ended = runWords(`tail --for-agent --ready-file ${live} ${words}`, {
    streams,
    clock,
    signal: stop.signal,
    ...optionsAs(service, actor, home),
  });
  await until('the tail is live', async () => existsSync(live));
  const lines = (): string[] => streams.out().split('\n').slice(0, -1);
  return {
    clock,
    lines,
    next: async (count: number): Promise<string> => {
      await until(`line ${count}`, async () => lines().length >= count);
      return lines()[count - 1] ?? '';
    },
    stop: async () => {
      stop.abort(new Error('stopped by SIGINT'));
      return ended;
    },
  };
}

async function openSession(by: Actor, bob: Actor): Promise<string> {
  const id = await by.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  return id;
}

describe('asp tail --for-agent', () => {
  it(`lets ${TEXTS} hostile texts forge no part of a line, and prints no line longer than ${LINE_MAX}`, {
    timeout: 600_000,
  }, async () => {
    const bob = await service.createAgent('bob');
    const id = await openSession(alice, bob);
    const tail = await startTail(bob);
    const texts = [...FORGERIES, ...hostileTexts(TEXTS - FORGERIES.length, 3)];
    let forged = 0;
    for (const [at, text] of texts.entries()) {
      const sent = Buffer.from(text).toString();
      const before = tail.lines().length;
      await alice.mustSend(id, sent);
      tail.clock.advance(PAUSE_MS);
      const line = await tail.next(before + 1);
      expect(line.length, `text ${at}`).toBeLessThanOrEqual(LINE_MAX);
      expect(line).not.toMatch(DANGEROUS);
      expect(line).not.toMatch(OTHER_LINE_BREAKS);
      expect(line).not.toMatch(/[<>]/);
      const [, sender, relation, inSession, answered, label, , quoted = '""'] = MESSAGE.exec(line) ?? [];
      const shown = JSON.parse(quoted) as string;
      const whole = sanitize(sent);
      const isOurs = sender === alice.handle && relation === 'anyone' && inSession === id && answered === id;
      const isTheirs =
        label === 'It says:' ? shown === whole : shown.endsWith('…') && whole.startsWith(shown.slice(0, -1));
      if (!isOurs || !isTheirs) forged += 1;
    }
    expect(forged).toBe(0);
    await tail.stop();
    expect(tail.lines()).toHaveLength(texts.length + 1);
    expect(tail.lines().every((line) => line.startsWith('[asp] '))).toBe(true);
  });

  it('two agents whose readers obey every line stop at exactly 20 messages each, until a person writes', async () => {
    const names = ['one', 'two'] as const;
    const [one, two] = await Promise.all(names.map((name) => service.createAgent(name)));
    if (one === undefined || two === undefined) throw new Error('no agents');
    const id = await openSession(one, two);
    const readers = await Promise.all(
      [one, two].map(async (actor) => {
        const home = freshHome();
        return { actor, home, tail: await startTail(actor, '', home), done: 1 };
      }),
    );
    let texts = 0;
    /** Runs the command in each new line of each monitor, until there is none. */
    const obey = async (): Promise<string[]> => {
      const refusals: string[] = [];
      for (let isQuiet = false; !isQuiet; ) {
        isQuiet = true;
        for (const reader of readers) {
          const messages = (await one.mustReplay(id)) as { payload: { sender?: string } }[];
          const sent = messages.at(-1)?.payload.sender;
          if (sent === reader.actor.handle) continue;
          reader.tail.clock.advance(PAUSE_MS);
          await pause(30);
          reader.tail.clock.advance(PAUSE_MS);
          await pause(30);
          const lines = reader.tail.lines().slice(reader.done);
          reader.done += lines.length;
          for (const line of lines) {
            const [, words] = /Answer: asp (reply --for-agent sess_\S+) "…"/.exec(line) ?? [];
            if (words === undefined) continue;
            isQuiet = false;
            const options = optionsAs(service, reader.actor, reader.home);
            texts += 1;
            const { code, err } = await runWords([...words.split(' '), `answer ${texts}`], options);
            if (code !== 0) refusals.push(`${code} ${err}`);
          }
        }
      }
      return refusals;
    };
    const countOf = async (actor: Actor): Promise<number> =>
      (await one.mustReplay(id)).filter((event) => JSON.stringify(event).includes(`"sender":"${actor.handle}"`)).length;
    await one.mustSend(id, 'shall we talk?');
    const [refusal = '', ...more] = await obey();
    expect([await countOf(one), await countOf(two)]).toEqual([20, 20]);
    expect(more).toEqual([]);
    expect(refusal).toMatch(/^11 [\s\S]*the limit max_replies for a coding agent is reached\./);
    expect(refusal).toContain('this agent has sent 20 messages since the last one from a person');
    // A stranger cannot say that it is a person.
    await two.mustSend(id, 'go on', { sent_by: 'chat' });
    expect(await obey()).toHaveLength(1);
    await one.mustSend(id, 'go on', { sent_by: 'chat' });
    await two.mustSend(id, 'on we go');
    await obey();
    expect(await countOf(one)).toBe(20 + 1 + 20);
    for (const { tail } of readers) await tail.stop();
  });

  it('says first who it is and what is unread', async () => {
    const bob = await service.createAgent('bob');
    const id = await openSession(carol, bob);
    await carol.mustSend(id, 'one');
    await carol.mustSend(id, 'two');
    await carol.mustCreate({ invite: [bob.handle] });
    const tail = await startTail(bob);
    const [first = ''] = tail.lines();
    expect(first.length).toBeLessThanOrEqual(LINE_MAX);
    expect(first).toContain(
      `[asp] You are ${bob.handle}. Unread: 2 messages and 1 invitation. See them: asp inbox --fence. `,
    );
    await tail.stop();
    const quiet = await startTail(await service.createAgent('quiet'));
    expect(quiet.lines()[0]).toContain('Nothing is unread.');
    await quiet.stop();
  });

  it('prints no line for what was read with inbox read', async () => {
    const bob = await service.createAgent('bob');
    const id = await openSession(carol, bob);
    await carol.mustSend(id, 'read already');
    const home = freshHome();
    const { code, out } = await runWords(`inbox read ${id}`, optionsAs(service, bob, home));
    expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('read already') });
    const tail = await startTail(bob, '', home);
    expect(tail.lines()[0]).toContain('Nothing is unread.');
    await carol.mustSend(id, 'new');
    await pause();
    tail.clock.advance(PAUSE_MS);
    expect(await tail.next(2)).toContain('It says: "new"');
    await tail.stop();
    expect(tail.lines()).toHaveLength(2);
  });

  it('prints one line per two seconds, and folds what comes in the meantime', async () => {
    const bob = await service.createAgent('bob');
    const [id, other] = [await openSession(alice, bob), await openSession(carol, bob)];
    const tail = await startTail(bob);
    tail.clock.advance(PAUSE_MS);
    await alice.mustSend(id, 'first');
    expect(await tail.next(2)).toContain('It says: "first"');
    for (const text of ['second', 'third', 'fourth', 'fifth']) await alice.mustSend(id, text);
    await carol.mustSend(other, 'elsewhere');
    await pause();
    tail.clock.advance(PAUSE_MS - 1);
    await pause(50);
    expect(tail.lines()).toHaveLength(2);
    tail.clock.advance(1);
    const folded = await tail.next(3);
    expect(folded).toContain(`3 more from ${alice.handle} there: asp inbox read --fence ${id}.`);
    expect(folded).toContain('It says: "second"');
    await pause(50);
    expect(tail.lines()).toHaveLength(3);
    tail.clock.advance(PAUSE_MS);
    expect(await tail.next(4)).toContain('It says: "elsewhere"');
    await tail.stop();
    expect(tail.lines()).toHaveLength(4);
  });

  it('reports many sessions in one line', async () => {
    const bob = await service.createAgent('bob');
    const ids = await Promise.all(Array.from({ length: 6 }, () => openSession(alice, bob)));
    const tail = await startTail(bob);
    for (const id of ids) await alice.mustSend(id, 'x');
    await pause();
    expect(tail.lines()).toHaveLength(1);
    tail.clock.advance(PAUSE_MS);
    expect(await tail.next(2)).toBe(
      `[asp] 6 new messages in 6 sessions, from ${alice.handle}. Read: asp inbox --fence.`,
    );
    await tail.stop();
  });

  it('with --join, joins sessions of agents it knows; a stranger’s stays an invitation', async () => {
    const bob = await service.createAgent('bob');
    await bob.call('POST', '/agents/me/allowlist', { entries: [carol.handle] });
    const tail = await startTail(bob, '--join');
    const known = await carol.mustCreate({ invite: [bob.handle] });
    const strange = await alice.mustCreate({ invite: [bob.handle], topic: 'psst' });
    await carol.mustSend(known, 'from one it knows');
    await alice.mustSend(strange, 'from a stranger');
    const seen = async (part: string): Promise<string> => {
      await until(part, async () => {
        tail.clock.advance(PAUSE_MS);
        return tail.lines().some((line) => line.includes(part));
      });
      return tail.lines().find((line) => line.includes(part)) ?? '';
    };
    expect(await seen('It says: "from one it knows"')).toContain('relation to you: on your allowlist');
    expect(await seen(`to ${strange}. Join: asp session join ${strange}.`)).toMatch(
      /relation to you: anyone.* Topic: "psst"$/,
    );
    await tail.stop();
    expect(tail.lines().join()).not.toContain('from a stranger');
  });

  it('moves the cursor file only when the line of a message was printed', async () => {
    const bob = await service.createAgent('bob');
    const home = freshHome();
    const id = await openSession(alice, bob);
    const file = join(home, 'cursor.json');
    const reached = (): number =>
      existsSync(file)
        ? ((JSON.parse(readFileSync(file, 'utf8')) as { sessions: Record<string, number> }).sessions[id] ?? 0)
        : 0;
    const tail = await startTail(bob, `${id} -n 0 --cursor-file ${file}`, home);
    const { sequence } = await alice.mustSend(id, 'waits for its line');
    await bob.mustSend(id, 'not shown, and after it');
    await pause();
    expect(reached()).toBeLessThan(sequence);
    await tail.stop();
    expect(tail.lines().at(-1)).toBe(
      `[asp] 1 new message in 1 session, from ${alice.handle}. Read: asp inbox --fence.`,
    );
    expect(reached()).toBe(sequence + 1);
  });
});
