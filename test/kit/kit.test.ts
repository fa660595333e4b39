import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAsyncQueue } from '../../src/kit/async-queue.js';
import { systemClock, wait } from '../../src/kit/clock.js';
import { formatBytes, formatQuantity } from '../../src/kit/format.js';
import { createIds } from '../../src/kit/ids.js';
import { toJsonLine } from '../../src/kit/json-line.js';
import { randomToken, randomUuid, systemRandom } from '../../src/kit/random.js';
import { ANY_CHARACTER } from '../support/hostile-text.js';

describe('JSON lines › a record is one line for every reader', () => {
  it('escapes invisible characters, which parse back, except joiners between letters and emoji', () => {
    const hidden = 'a\u{e0041}\u{e01ef}\u00ad\u3164\u115f\u200bb\u200dc';
    const line = toJsonLine(hidden);
    expect(line).toBe(String.raw`"a\udb40\udc41\udb40\uddef\u00ad\u3164\u115f\u200bb\u200dc"`);
    expect(JSON.parse(line)).toBe(hidden);
    expect(toJsonLine('\u{1f468}\u200d\u{1f469} \u0645\u200c\u0645')).toBe(
      '"\u{1f468}\u200d\u{1f469} \u0645\u200c\u0645"',
    );
  });

  it('parses back to the same value and holds no character that a reader could act on', () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.oneof(
            ANY_CHARACTER,
            fc.constantFrom(
              '\u001b',
              '\u0085',
              '\u2028',
              '\u2029',
              '\u202e',
              '\u2066',
              '\u200b',
              '\ufeff',
              '\r',
              '\n',
              '\u007f',
              '\ud800',
            ),
          ),
        }),
        (text) => {
          const line = toJsonLine({ [text]: text });
          expect(JSON.parse(line)).toEqual({ [text]: text });
          expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\u200b-\u200f\ufeff]/);
          expect(line).not.toMatch(/\p{Surrogate}/u);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('async queue', () => {
  it('yields every value once, in order, no matter how fast the writer and reader are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(3000), fc.boolean()), { maxLength: 6 }), async (bursts) => {
        const queue = createAsyncQueue<number>();
        let next = 0;
        const produce = async (): Promise<void> => {
          for (const [count, isPausing] of bursts) {
            for (let index = 0; index < count; index += 1) queue.push(next++);
            if (isPausing) await Promise.resolve();
          }
          queue.end();
        };
        const read: number[] = [];
        const producing = produce();
        for await (const value of queue) read.push(value);
        await producing;
        expect(read).toEqual(Array.from({ length: next }, (_, index) => index));
      }),
      { numRuns: 100 },
    );
  });

  it('yields what came before a failure, then throws it', async () => {
    const queue = createAsyncQueue<number>();
    queue.push(1);
    queue.fail(new Error('cut'));
    const read: number[] = [];
    await expect(
      (async () => {
        for await (const value of queue) read.push(value);
      })(),
    ).rejects.toThrow('cut');
    expect(read).toEqual([1]);
  });

  it('ends when the reader stops, and accepts nothing more', async () => {
    const queue = createAsyncQueue<number>();
    queue.push(1);
    queue.push(2);
    for await (const _ of queue) break;
    queue.push(3);
    expect(queue.size).toBe(0);
  });

  it('reports when the reader comes back after a value', async () => {
    let done = 0;
    const queue = createAsyncQueue<number>(undefined, () => {
      done += 1;
    });
    queue.push(0);
    queue.push(1);
    queue.end();
    for await (const value of queue) expect(done).toBe(value);
    expect(done).toBe(2);
  });

  it('reports when the last waiting value is taken', async () => {
    let drained = 0;
    const queue = createAsyncQueue<number>(() => {
      drained += 1;
    });
    queue.push(1);
    queue.push(2);
    queue.end();
    for await (const value of queue) expect(drained).toBe(value === 2 ? 1 : 0);
    expect(drained).toBe(1);
  });
});

describe('clock', () => {
  it('rejects a wait with the reason of its signal, before and during', async () => {
    const reason = new Error('stopped');
    await expect(wait(systemClock, 1e9, AbortSignal.abort(reason))).rejects.toBe(reason);
    const controller = new AbortController();
    const waiting = wait(systemClock, 1e9, controller.signal);
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
  });
});

describe('ids and random values', () => {
  it('returns increasing ids, even within one millisecond and when the clock steps back', () => {
    let now = 5;
    const ids = createIds({ ...systemClock, now: () => now }, systemRandom);
    const given = Array.from({ length: 1000 }, (_, index) => {
      if (index === 500) now = 1;
      return ids.ulid();
    });
    expect([...given].sort()).toEqual(given);
    expect(new Set(given).size).toBe(1000);
  });

  it('returns version 4 UUIDs and base64url tokens of the requested length', () => {
    expect(randomUuid(systemRandom)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(randomToken(systemRandom, 32)).toMatch(/^[\w-]{43}$/);
  });

  it('never gives the same bytes twice, whatever is asked for in between', () => {
    const tokens = Array.from({ length: 1000 }, (_, index) => randomToken(systemRandom, 16 + (index % 100)));
    expect(new Set(tokens.map((token) => token.slice(0, 16))).size).toBe(1000);
    for (const token of tokens) expect(token).not.toMatch(/AAAAAAAA/);
  });
});

describe('Numbers for people', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1 KB'],
    [1025, '2 KB'],
    [1024 ** 2, '1 MB'],
    [1.5 * 1024 ** 2, '1.5 MB'],
    [2 * 1024 ** 3, '2 GB'],
  ])('%d bytes are %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it('put a noun in the plural, except after 1', () => {
    expect([0, 1, 2].map((count) => formatQuantity(count, 'new session'))).toEqual([
      '0 new sessions',
      '1 new session',
      '2 new sessions',
    ]);
  });
});
