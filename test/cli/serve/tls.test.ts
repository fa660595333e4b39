import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { createAuthority } from '../../support/certificates.js';
import { runWords } from '../captured-run.js';

it('A service that others could reach in the clear does not start, and names both ways to encrypt', async () => {
  const { code, out, err } = await runWords('serve --port 0 --data memory --host 0.0.0.0');
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toContain('On 0.0.0.0, passwords and tokens would cross the network in the clear.');
  expect(err).toContain('--tls-cert');
  expect(err).toContain('--behind-proxy');
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

it.skipIf(!hasOpenssl)('A certificate for another name is refused with the option that names the service', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'asp-tls-'));
  const { certificate, key } = createAuthority(folder).issue('asp.test');
  const { code, err } = await runWords(
    `serve --port 0 --data memory --host 0.0.0.0 --tls-cert ${certificate} --tls-key ${key}`,
  );
  rmSync(folder, { recursive: true });
  expect(code).toBe(2);
  expect(err).toContain('is for asp.test, not for 127.0.0.1.');
  expect(err).toContain('clients use the name in --public-url');
});
