import { describe, expect, it } from 'vitest';

import { freshHome, runWords, writeFileIn } from '../captured-run.js';

const NEEDED = /others can reach the metrics, so --metrics-host needs --metrics-token-file/;

describe('metrics for another machine', () => {
  const home = freshHome();
  const write = (name: string, text: string, mode?: number): string => writeFileIn(home, name, text, mode);

  it.each([
    ['without a token', '--metrics-port 0 --metrics-host 0.0.0.0', NEEDED],
    ['without a token, on IPv6', '--metrics-port 0 --metrics-host ::', NEEDED],
    ['with an address and no port', '--metrics-host 0.0.0.0', /--metrics-host needs --metrics-port/],
    ['with a token and no port', `--metrics-token-file x`, /--metrics-token-file needs --metrics-port/],
    ['with a file that is missing', '--metrics-port 0 --metrics-token-file /nowhere', /nowhere .* does not exist/],
    [
      'with a token that is too short',
      `--metrics-port 0 --metrics-token-file ${write('short', 'a'.repeat(31))}`,
      /contains no token that is hard to guess.*at least 32/s,
    ],
    [
      'with a token that no header can hold',
      `--metrics-port 0 --metrics-token-file ${write('lines', `${'a'.repeat(32)}\n${'b'.repeat(32)}`)}`,
      /contains no token/,
    ],
    [
      'with a token that others can read',
      `--metrics-port 0 --metrics-token-file ${write('open', 'a'.repeat(32), 0o644)}`,
      /other users can read or write it/,
    ],
  ])('%s, a service does not start, and says why', async (_, words, reason) => {
    const { code, out, err } = await runWords(`serve --port 0 --data memory ${words}`);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(reason);
  });
});
