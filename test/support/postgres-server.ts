import pg from 'pg';

/** `ASP_TEST_POSTGRES` names another server, with a superuser. If it is empty, the tests use none. */
export const POSTGRES_URL = process.env['ASP_TEST_POSTGRES'] ?? 'postgres://postgres@127.0.0.1:5432/test';

/** Returns why tests cannot use PostgreSQL, or undefined. A test that skips must print the reason. */
export async function whyNoPostgres(): Promise<string | undefined> {
  if (POSTGRES_URL === '') return 'ASP_TEST_POSTGRES is empty';
  const client = new pg.Client({ connectionString: POSTGRES_URL, connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return undefined;
  } catch (error) {
    const shown = POSTGRES_URL.replace(/:[^:@/]*@/, '@');
    return `no PostgreSQL answers at ${shown} (${error instanceof Error ? error.message : ''})`;
  } finally {
    await client.end().catch(() => {});
  }
}
