import { connect } from '../../../client/client.js';
import { createClientCredential } from '../../../client/credentials/client-credential.js';
import type { LocalServiceRecord } from '../../../wire/local-service.js';
import type { Context } from '../../context/context.js';
import { callOperator } from '../../context/operator.js';
import { runEchoAgent } from './echo-agent.js';

export const ECHO_AGENT = '@demo.echo';

/** Signs the echo agent in with credentials of its own and lets it answer. The answer stops it. */
export async function startEchoAgent(context: Context, record: LocalServiceRecord): Promise<() => Promise<void>> {
  const { client_id, client_secret } = await callOperator(context, record, 'addOperatorClient', {
    body: { handle: ECHO_AGENT },
  });
  const transport = await context.transport();
  const service = { baseUrl: record.url, authUrl: record.auth_url, wsUrl: record.ws_url };
  const credential = createClientCredential({
    service,
    transport,
    random: context.random,
    clientId: client_id,
    clientSecret: client_secret,
  });
  const client = connect({ service, credential, transport, random: context.random });
  const stop = new AbortController();
  const running = runEchoAgent(client, ECHO_AGENT, stop.signal).catch(async (error: unknown) => {
    if (!stop.signal.aborted)
      await context.output.note(`${ECHO_AGENT} stopped: ${error instanceof Error ? error.message : ''}`);
  });
  return async () => {
    stop.abort();
    await running;
  };
}
