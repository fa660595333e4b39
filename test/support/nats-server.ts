import { connect } from '@nats-io/transport-node';

/** `ASP_TEST_NATS` names another server. If it is empty, the tests use none. */
export const NATS_URL = process.env['ASP_TEST_NATS'] ?? 'nats://127.0.0.1:4222';

/** Returns why tests cannot use NATS, or undefined. A test that skips must print the reason. */
export async function whyNoNats(): Promise<string | undefined> {
  if (NATS_URL === '') return 'ASP_TEST_NATS is empty';
  try {
    const connection = await connect({ servers: NATS_URL, reconnect: false, timeout: 2_000 });
    await connection.close();
    return undefined;
  } catch (error) {
    return `no NATS answers at ${NATS_URL} (${error instanceof Error ? error.message : ''})`;
  }
}
