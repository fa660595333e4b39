import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

import { openProgress, type ProgressFile } from '../../../src/agent/progress-file.js';
import { AWAITS_REPLY, IN_REPLY_TO } from '../../../src/wire/message.js';
import type { EventEnvelope } from '../../../src/wire/schemas/event.js';

const folder = mkdtempSync(join(tmpdir(), 'asp-progress-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const at = (timeMs: number) => async () => timeMs;
const read = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));

describe('asp run › its progress', () => {
  it('begins now, and is on disk, and private, before anything is done', async () => {
    const path = join(folder, 'new', 'one.json');
    const progress = await openProgress(path, at(1000));
    expect(read(path)).toEqual({ since: 1000, sessions: {} });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    progress.advance('a', { after: 0 });
    progress.advance('b', { after: 7 });
    progress.advance('b', { after: 5 });
    await progress.written();
    expect(read(path)).toEqual({ since: 1000, sessions: { a: 0, b: 7 } });
    const again = await openProgress(path, at(9000));
    expect([again.sinceMs, ...again.sessions]).toEqual([1000, ['a', { after: 0 }], ['b', { after: 7 }]]);
  });

  it('only moves forward, and forgets ended sessions', async () => {
    const path = join(folder, 'two.json');
    writeFileSync(path, '{"since":1000,"sessions":{"a":1,"b":2}}');
    const progress = await openProgress(path, at(0));
    progress.settleUpTo(500, ['b']);
    await progress.written();
    expect(read(path)).toEqual({ since: 1000, sessions: { a: 1, b: 2 } });
    progress.settleUpTo(2000, ['a']);
    await progress.written();
    expect(read(path)).toEqual({ since: 2000, sessions: { b: 2 } });
  });

  it('counts how often a message was given out, across runs, until it is done', async () => {
    const path = join(folder, 'begun.json');
    const message = { session_id: 'a', event_id: 'evt_1' };
    const first = await openProgress(path, at(1000));
    expect(await first.begin(message)).toBe(1);
    expect(await first.begin(message)).toBe(2);
    expect(read(path)).toMatchObject({ begun: { a: { event: 'evt_1', times: 2 } } });
    const second = await openProgress(path, at(0));
    expect(await second.begin(message)).toBe(3);
    expect(await second.begin({ session_id: 'b', event_id: 'evt_1' })).toBe(1);
    second.advance('a', { after: 1 });
    expect(await second.begin({ session_id: 'a', event_id: 'evt_2' })).toBe(1);
    second.advance('a', { after: 2 });
    second.advance('b', { after: 1 });
    await second.written();
    expect(read(path)).toEqual({ since: 1000, sessions: { a: 2, b: 1 } });
  });

  it('accepts a cursor file of asp tail, from now on; any other file is refused and unchanged', async () => {
    const path = join(folder, 'three.json');
    writeFileSync(path, '{"sessions":{"a":4}}');
    expect((await openProgress(path, at(3000))).sinceMs).toBe(3000);
    for (const text of ['[]', '{', '{"sessions":{"a":-1}}', '{"since":"x","sessions":{}}', '{"sessions":[1.5]}']) {
      writeFileSync(path, text);
      await expect(openProgress(path, at(0))).rejects.toMatchObject({ code: 'ASP_USAGE' });
      expect(readFileSync(path, 'utf8')).toBe(text);
    }
  });

  it('keeps the epoch of each session, the name of its worker, and its guard', async () => {
    const path = join(folder, 'kept.json');
    const first = await openProgress(path, at(1000));
    expect([first.isNew, first.nameWorker('w1'), first.nameWorker('w2')]).toEqual([true, 'w1', 'w1']);
    const guard = { pid: 7, start: 'then' };
    await first.written();
    first.guardBy(guard);
    await first.written();
    first.advance('a', { after: 1, epoch: 'one' });
    first.advance('b', { after: 2 });
    first.advance('c', { after: 3, epoch: 'two' });
    first.advance('d', { after: 4, epoch: 'two' });
    await first.written();
    const second = await openProgress(path, at(0));
    expect([second.isNew, second.nameWorker('w3'), second.guard]).toEqual([false, 'w1', guard]);
    expect(Object.fromEntries(second.sessions)).toEqual({
      a: { after: 1, epoch: 'one' },
      b: { after: 2, epoch: undefined },
      c: { after: 3, epoch: 'two' },
      d: { after: 4, epoch: 'two' },
    });
  });

  it('goes back after a restore, also across runs', async () => {
    const path = join(folder, 'restored.json');
    const first = await openProgress(path, at(1000));
    first.advance('a', { after: 9, epoch: 'one' });
    await first.written();
    first.goBack('a', { after: 4, epoch: 'two' });
    await first.written();
    const second = await openProgress(path, at(0));
    expect(second.sessions.get('a')).toEqual({ after: 4, epoch: 'two' });
    second.advance('a', { after: 5, epoch: 'two' });
    await second.written();
    expect(read(path)).toMatchObject({ sessions: { a: 5 } });
  });
});

const ME = '@me.agent';
const PEER = '@peer.agent';
const event = (sequence: number, sender: string, metadata = {}, content = 'x', session = 'a'): EventEnvelope =>
  ({
    type: 'session.message',
    session_id: session,
    event_id: `evt_${sequence}`,
    sequence,
    created_at: 1,
    payload: { id: `msg_${sequence}`, session_id: session, sequence, sender, content, created_at: 1, metadata },
  }) as EventEnvelope;
const question = (sequence: number, choices?: string[], session?: string): EventEnvelope =>
  event(sequence, ME, { [AWAITS_REPLY]: true, ...(choices && { choices }) }, 'which?', session);
const naming = (sequence: number, asked: number): EventEnvelope =>
  event(sequence, PEER, { [IN_REPLY_TO]: `msg_${asked}` });

describe('asp run › replies that another program of the agent waits for', () => {
  let files = 0;
  const open = (): Promise<ProgressFile> => {
    files += 1;
    return openProgress(join(folder, `awaited-${files}.json`), at(1000));
  };
  /** What a run that starts again knows. */
  const reopen = async (progress: ProgressFile): Promise<ProgressFile> => {
    await progress.written();
    return openProgress(join(folder, `awaited-${files}.json`), at(0));
  };
  const take = async (progress: ProgressFile, events: readonly EventEnvelope[], among = true): Promise<boolean[]> => {
    const taken: boolean[] = [];
    for (const one of events) taken.push(await progress.awaited.take(one, ME, async () => among));
    return taken;
  };

  it('are those that name its question, even later, and the first one after it that names none', async () => {
    const progress = await open();
    const events = [
      event(1, PEER),
      question(2),
      event(2, PEER),
      event(3, PEER),
      event(4, PEER),
      naming(5, 2),
      naming(6, 1),
    ];
    expect(await take(progress, events)).toEqual([false, false, false, true, false, true, false]);
    const again = await reopen(progress);
    expect(await take(again, events.slice(2))).toEqual([false, true, false, true, false]);
  });

  it('name the question if anyone else is in the session', async () => {
    const progress = await open();
    expect(await take(progress, [question(2), event(3, PEER), naming(4, 2)], false)).toEqual([false, false, true]);
    expect(await take(progress, [event(5, PEER)])).toEqual([true]);
  });

  it('end with one of the choices', async () => {
    const progress = await open();
    await take(progress, [question(1, ['yes', 'no'])]);
    const again = await reopen(progress);
    const events = [event(2, PEER, {}, 'why?'), event(3, PEER, {}, 'Yes'), event(4, PEER, {}, 'no')];
    expect(await take(again, events)).toEqual([true, true, false]);
    expect(await take(await reopen(again), events)).toEqual([true, true, false]);
  });

  it('end with the next message of the agent, except those that name the question', async () => {
    const progress = await open();
    expect(await take(progress, [question(1), event(2, ME), event(3, PEER), naming(4, 1)])).toEqual([
      false,
      false,
      false,
      true,
    ]);
    const again = await reopen(progress);
    expect(await take(again, [event(3, PEER), naming(4, 1)])).toEqual([false, true]);
    // The same question again, as after a new connection, changes nothing.
    expect(await take(again, [question(1), event(5, PEER)])).toEqual([false, false]);
    expect(await take(again, [question(6), event(7, PEER), naming(8, 1)])).toEqual([false, true, true]);
  });

  it('concern no other session, and no event but a message', async () => {
    const progress = await open();
    const joined = { ...event(3, PEER), type: 'session.joined' } as EventEnvelope;
    expect(await take(progress, [question(2), event(3, PEER, {}, 'x', 'b'), joined, event(4, PEER)])).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });

  it('end with the session, also for the next run, but not those to a later question', async () => {
    const progress = await open();
    await take(progress, [question(2), question(9), question(1, undefined, 'b')]);
    progress.awaited.endAt('a', 2);
    progress.awaited.endAt('b', 1);
    progress.awaited.endAt('c', 1);
    const again = await reopen(progress);
    expect(await take(again, [naming(10, 2), naming(11, 9), event(2, PEER, {}, 'x', 'b')])).toEqual([
      false,
      true,
      false,
    ]);
    again.awaited.endAt('a', 9);
    expect(await take(again, [naming(12, 9)])).toEqual([false]);
    await again.written();
    expect(read(join(folder, `awaited-${files}.json`))).not.toHaveProperty('awaited');
  });

  it('are awaited again after a restore that removed them, but not if it removed the question', async () => {
    const progress = await open();
    await take(progress, [question(2), event(3, PEER), question(7, ['yes', 'no']), event(8, PEER, {}, 'yes')]);
    await progress.written();
    progress.goBack('a', { after: 7 });
    const later = [event(8, PEER), event(9, PEER, {}, 'yes'), event(10, PEER)];
    expect(await take(await reopen(progress), later)).toEqual([true, true, false]);
    progress.goBack('a', { after: 3 });
    expect(await take(progress, [naming(4, 7), event(5, PEER), naming(6, 2)])).toEqual([false, false, true]);
    progress.goBack('a', { after: 2 });
    expect(await take(await reopen(progress), [event(3, PEER), event(4, PEER)])).toEqual([true, false]);
  });
});
