import { describe, expect, it } from 'vitest';

import { readFaults } from '../../../src/cli/commands/serve/settings.js';
import { runWords } from '../captured-run.js';

describe('--inject', () => {
  const read: [text: string, plan: object][] = [
    ['429:10%', { faults: [{ kind: 'refuse', status: 429, rate: { chance: 0.1 } }], seed: undefined }],
    ['503:1/20', { faults: [{ kind: 'refuse', status: 503, rate: { every: 20 } }] }],
    ['lost:0.5%,cut:100%', { faults: [{ kind: 'lost', rate: { chance: 0.005 } }, { kind: 'cut' }] }],
    ['delay:200ms', { faults: [{ kind: 'delay', delayMs: 200, rate: { every: 1 } }] }],
    ['delay:2s@1/3', { faults: [{ kind: 'delay', delayMs: 2000, rate: { every: 3 } }] }],
    [
      'drop:1m, drop:5%',
      {
        faults: [
          { kind: 'expire', afterMs: 60_000 },
          { kind: 'drop', rate: { chance: 0.05 } },
        ],
      },
    ],
    ['500:5%,seed:42', { faults: [{ kind: 'refuse', status: 500 }], seed: 42 }],
  ];
  for (const [text, plan] of read) it(text, () => expect(readFaults('--inject', text)).toMatchObject(plan));

  const refused: [text: string, said: RegExp][] = [
    ['everything', /'everything' is not a fault/],
    ['404:10%', /faults: 429, 500/],
    ['429', /is not a fault/],
    ['429:often', /'often' is not a frequency/],
    ['429:0%', /is not a frequency/],
    ['429:101%', /is not a frequency/],
    ['lost:1/0', /is not a frequency/],
    ['delay:soon', /a delay looks like/],
    ['delay:1s@never', /is not a frequency/],
    ['drop:twice', /sockets drop after a time/],
    ['500:5%,', /'' is not a fault/],
    ['500:5%,seed:x', /seed 'x' is not a whole number/],
    ['seed:1', /contains no fault/],
  ];
  for (const [text, said] of refused)
    it(`'${text}' is refused with exit 2, before anything starts`, async () => {
      const { code, out, err } = await runWords(['serve', '--port', '0', '--data', 'memory', '--inject', text]);
      expect(err).toMatch(said);
      expect({ code, out }).toEqual({ code: 2, out: '' });
    });

  it('may have several parts', async () => {
    const { code, out } = await runWords(['serve', '--inject', '429:1%', '--inject', 'drop:1m', '--print-config']);
    expect(code).toBe(0);
    expect(out).toContain('429:1%,drop:1m');
  });
});
