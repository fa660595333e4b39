import { readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, type ServiceProcess, startServe } from './program.js';

const PROCESSES = 20;
const { DatabaseSync } = createRequire(import.meta.url)(
  '@photostructure/sqlite',
) as typeof import('@photostructure/sqlite');

/** Counts the refresh tokens that the service has ever issued, and the live families. */
function countTokens(data: string): { tokens: number; families: number } {
  const database = new DatabaseSync(join(data, 'asp.sqlite'), { readOnly: true });
  const count = (sql: string): number => Number((database.prepare(sql).get() as { n: number }).n);
  const counts = {
    tokens: count('SELECT count(*) AS n FROM refresh_token'),
    families: count('SELECT count(*) AS n FROM refresh_family WHERE revoked_at IS NULL'),
  };
  database.close();
  return counts;
}

describe('Refresh › one refresh at a time', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--demo', '--limits', 'off']);
    expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  it(`${PROCESSES} processes without an access token at once: one token request, all succeed, the family lives`, async () => {
    const cache = join(home.environment['XDG_RUNTIME_DIR'] ?? '', 'asp-cli/tokens');
    for (let round = 0; round < 2; round += 1) {
      expect(readdirSync(cache)).toHaveLength(1);
      rmSync(cache, { recursive: true });
      const before = countTokens(service.data);
      const ended = await Promise.all(
        Array.from({ length: PROCESSES }, () => home.asp(['session', 'list', '--json', '--quiet'])),
      );
      expect(ended.map(({ status, stderr }) => [status, stderr])).toEqual(
        Array.from({ length: PROCESSES }, () => [0, '']),
      );
      expect(countTokens(service.data)).toEqual({ tokens: before.tokens + 1, families: 1 });
    }
  });
});
