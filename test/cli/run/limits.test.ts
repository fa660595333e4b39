import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

import { type LimitRules, type Limits, openLimits, type Ticket } from '../../../src/agent/limits.js';
import { createTestClock } from '../../support/clock.js';

const HOUR_MS = 60 * 60_000;
const NONE: LimitRules = { replies: 0, repliesPerHour: 0, hops: 0, tokens: 0, cost: 0, humans: ['@ada.human'] };

const folder = mkdtempSync(join(tmpdir(), 'asp-limits-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const from = (sender: string, session = 'a', hops = 1) => ({ session_id: session, sender, metadata: { hops } });
const program = (session = 'a', hops = 1) => from('@bob.program', session, hops);
const human = (session = 'a') => from('@ada.human', session, 0);
const open = (rules: Partial<LimitRules>, clock = createTestClock(), path?: string): Promise<Limits> =>
  openLimits({ ...NONE, ...rules }, clock, path);

/** Begins an answer, which no limit may prevent. */
function mustBegin(limits: Limits, message: Parameters<Limits['begin']>[0] = program()): Ticket {
  const begun = limits.begin(message);
  if (typeof begun === 'string') throw new Error(begun);
  return begun;
}
/** Sends a reply. */
const reply = (limits: Limits, message = program(), sequence?: number): void =>
  mustBegin(limits, message).close(true, sequence);
const used = (tokens: number | null, amount: number | null = null, currency = 'USD') => ({
  tokens,
  cost: amount === null ? null : { amount, currency },
});

describe('asp run › its limits', () => {
  it('without limits, everything may be answered', async () => {
    const limits = await open({});
    for (let count = 0; count < 200; count += 1) {
      const ticket = mustBegin(limits, program('a', 1000 + count));
      expect(ticket.spend(used(1e9, 1e9))).toEqual([]);
      ticket.close(true);
    }
  });

  it('replies in progress count, and those that were not sent do not', async () => {
    const limits = await open({ replies: 2 });
    const [first, second] = [mustBegin(limits), mustBegin(limits)];
    expect(limits.begin(program())).toBe('max_replies');
    first.close(false);
    const third = mustBegin(limits);
    second.close(true);
    third.close(true);
    expect(limits.begin(program())).toBe('max_replies');
    expect(typeof limits.begin(program('b'))).toBe('object');
  });

  it('a message of a human begins the count of its session again, and of no other', async () => {
    const limits = await open({ replies: 1 });
    for (const session of ['a', 'b']) reply(limits, program(session));
    limits.notice(human());
    reply(limits);
    expect([limits.begin(program()), limits.begin(program('b'))]).toEqual(['max_replies', 'max_replies']);
    reply(limits, human('b'));
    limits.notice(program('b'));
    expect(limits.begin(program('b'))).toBe('max_replies');
  });

  it('the replies of an hour count in all sessions together, until the hour is over', async () => {
    const clock = createTestClock();
    const limits = await open({ repliesPerHour: 2 }, clock);
    reply(limits, program('a'));
    clock.advance(HOUR_MS / 2);
    const second = mustBegin(limits, program('b'));
    expect(limits.begin(program('c'))).toBe('max_replies_per_hour');
    expect(limits.begin(undefined)).toBe('max_replies_per_hour');
    second.close(true);
    clock.advance(HOUR_MS / 2 - 1);
    expect(limits.begin(human('c'))).toBe('max_replies_per_hour');
    clock.advance(1);
    reply(limits, program('c'));
    expect(limits.begin(program('c'))).toBe('max_replies_per_hour');
  });

  it('times from before the clock was set back do not count', async () => {
    const path = join(folder, 'clock.json');
    const clock = createTestClock();
    const counts = { replies: {}, sent_at: [clock.now() + 1, clock.now()] };
    writeFileSync(path.replace('.json', '.limits.json'), JSON.stringify(counts));
    const limits = await open({ repliesPerHour: 2 }, clock, path);
    reply(limits);
    expect(limits.begin(program())).toBe('max_replies_per_hour');
  });

  it('a chain of answers ends at its limit', async () => {
    const limits = await open({ hops: 3 });
    reply(limits, program('a', 2));
    expect(limits.begin(program('a', 3))).toBe('max_hops');
    expect(typeof limits.begin(undefined)).toBe('object');
  });

  it('the same text in answer to answers stops at the third, but not to a person, with another between, or elsewhere', async () => {
    const limits = await open({});
    const say = (text: string, message = program()): string | undefined => {
      const ticket = mustBegin(limits, message);
      const reached = ticket.checkText(text);
      ticket.close(reached === undefined);
      return reached;
    };
    expect(['x', 'x', 'y', 'x', 'x', 'x'].map((text) => say(text))).toEqual([...Array(5), 'repeated']);
    expect(say('x', program('b'))).toBeUndefined();
    expect(say('x', from('@bob.program', 'a', 0))).toBeUndefined();
    expect(['x', 'x'].map((text) => say(text))).toEqual([undefined, 'repeated']);
    limits.notice(human());
    expect(['x', 'x', 'x'].map((text) => say(text))).toEqual([undefined, undefined, 'repeated']);
  });

  it('a text that was not sent does not count', async () => {
    const limits = await open({});
    for (let count = 0; count < 4; count += 1) {
      const ticket = mustBegin(limits);
      expect(ticket.checkText('x')).toBeUndefined();
      ticket.close(false);
    }
  });

  it('tokens and costs of all sessions together stop it; each currency counts for itself', async () => {
    const tokens = await open({ tokens: 10 });
    expect(mustBegin(tokens, program('a')).spend(used(4))).toEqual([]);
    expect(mustBegin(tokens, program('b')).spend(used(5))).toEqual([]);
    mustBegin(tokens).spend(used(1));
    expect([tokens.begin(program('c')), tokens.begin(undefined)]).toEqual(['max_tokens', 'max_tokens']);

    const cost = await open({ cost: 10 });
    // A program reports what its session has cost until then, and one that started over begins at zero.
    for (const amount of [3, 4, 2]) expect(mustBegin(cost, program('a')).spend(used(1, amount))).toEqual([]);
    mustBegin(cost, program('b')).spend(used(1, 3));
    mustBegin(cost, program('b')).spend(used(1, 9, 'EUR'));
    expect(typeof cost.begin(program('c'))).toBe('object');
    mustBegin(cost, program('b')).spend(used(1, 4));
    expect(cost.begin(program('c'))).toBe('max_cost');
  });

  it('says once for each budget that it has no effect, if the program does not report what it uses', async () => {
    const limits = await open({ tokens: 10, cost: 10 });
    expect(mustBegin(limits).spend(used(null, 1))).toEqual(['max_tokens']);
    expect(mustBegin(limits).spend(used(null, null))).toEqual(['max_cost']);
    expect(mustBegin(limits).spend(used(null, null))).toEqual([]);
    expect(typeof limits.begin(program())).toBe('object');
    expect(typeof (await open({ tokens: 1 })).begin(undefined)).toBe('object');
    expect(mustBegin(await open({})).spend(used(null, null))).toEqual([]);
  });

  it('a restart changes no count, and a reply of the earlier run counts once', async () => {
    const path = join(folder, 'restart.json');
    const clock = createTestClock();
    const rules = { replies: 2, repliesPerHour: 3 };
    const first = await open(rules, clock, path);
    const ticket = mustBegin(first);
    ticket.checkText('x');
    ticket.close(true, 5);
    reply(first, program('b'), 7);
    await first.written();
    const stored = JSON.parse(readFileSync(join(folder, 'restart.limits.json'), 'utf8'));
    expect(stored).toMatchObject({
      replies: { a: 1, b: 1 },
      last: { a: 5, b: 7 },
      sent_at: [clock.now(), clock.now()],
    });
    const second = await open(rules, clock, path);
    second.recover({ ...program(), sequence: 5 }, 'x');
    second.recover({ ...program(), sequence: 4 }, 'x');
    second.recover({ ...program('b'), sequence: 8 }, 'x');
    expect([second.begin(program('b')), second.begin(program('c'))]).toEqual(['max_replies', 'max_replies_per_hour']);
    clock.advance(HOUR_MS);
    expect(typeof second.begin(program('a'))).toBe('object');
  });

  it('a restart undoes nothing that a human began again', async () => {
    const path = join(folder, 'human.json');
    const first = await open({ replies: 1 }, createTestClock(), path);
    for (const session of ['a', 'b']) {
      const ticket = mustBegin(first, program(session));
      ticket.checkText('x');
      ticket.close(true);
    }
    await first.written();
    first.notice(human());
    await first.written();
    const second = await open({ replies: 1 }, createTestClock(), path);
    expect([typeof second.begin(program()), second.begin(program('b'))]).toEqual(['object', 'max_replies']);
  });

  it('a message that begins a session still counts for its hour after a restart', async () => {
    const path = join(folder, 'begin.json');
    const clock = createTestClock();
    const first = await open({ replies: 1, repliesPerHour: 1 }, clock, path);
    const ticket = first.begin(undefined);
    if (typeof ticket === 'string') throw new Error(ticket);
    expect([ticket.checkText('x'), ticket.spend(used(null))]).toEqual([undefined, []]);
    ticket.close(true);
    await first.written();
    const second = await open({ repliesPerHour: 1 }, clock, path);
    expect([first.begin(program()), second.begin(undefined)]).toEqual(['max_replies_per_hour', 'max_replies_per_hour']);
  });

  it('a message of a human that an earlier run answered begins the count again, too', async () => {
    const limits = await open({ replies: 2 });
    for (const sequence of [1, 2]) limits.recover({ ...program(), sequence }, undefined);
    expect(limits.begin(program())).toBe('max_replies');
    limits.recover({ ...human(), sequence: 3 }, undefined);
    reply(limits);
    limits.recover({ ...human(), sequence: 3 }, undefined);
    expect(limits.begin(program())).toBe('max_replies');
  });

  it('after a restore, the messages that come again count again', async () => {
    const limits = await open({ replies: 3 });
    for (const sequence of [5, 8]) reply(limits, program(), sequence);
    limits.goBack('a', 9);
    limits.goBack('b', 9);
    reply(limits, program(), 8);
    limits.goBack('a', 6);
    reply(limits, program(), 6);
    reply(limits, program(), 7);
    expect(limits.begin(program())).toBe('max_replies');
    for (const sequence of [5, 6, 7]) reply(limits, program('b'), sequence);
    expect(limits.begin(program('b'))).toBe('max_replies');
  });

  it('a file without valid counts is ignored', async () => {
    writeFileSync(join(folder, 'broken.limits.json'), '{"replies":{"a":-1},"sent_at":[]}');
    const limits = await open({ replies: 1 }, createTestClock(), join(folder, 'broken.json'));
    reply(limits);
    expect(limits.begin(program())).toBe('max_replies');
  });
});
