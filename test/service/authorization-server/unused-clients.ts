import type { openStage } from '../sessions/stage.js';

/** Adds clients that no one has approved. */
export const addUnusedClients = (
  { write, clock }: Pick<Awaited<ReturnType<typeof openStage>>, 'write' | 'clock'>,
  many: number,
): Promise<unknown> =>
  write((transaction) =>
    transaction.run(
      `INSERT INTO oauth_client (id, kind, name, redirect_uris, scope, created_at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
       SELECT 'oac_' || n, 'public', 'app', '[]', 'sessions:read', $2 FROM numbers`,
      many,
      clock.now(),
    ),
  );
