import { expect, it } from 'vitest';

import { runWords } from '../captured-run.js';

it('A service that others could reach in the clear does not start, and names both ways to encrypt', async () => {
  const { code, out, err } = await runWords('serve --port 0 --data memory --host 0.0.0.0');
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toContain('On 0.0.0.0, passwords and tokens would cross the network in the clear.');
  expect(err).toContain('--tls-cert');
  expect(err).toContain('--behind-proxy');
});
