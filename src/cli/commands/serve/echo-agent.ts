import { type Client, connect } from '../../../client/client.js';
import { createClientCredential } from '../../../client/credentials/client-credential.js';
import { RequestError } from '../../../client/http/request-error.js';
import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import type { LocalServiceRecord } from '../../../wire/local-service.js';
import type { Content } from '../../../wire/message.js';
import type { Context } from '../../context/context.js';
import { callOperator } from '../../context/operator.js';

export const ECHO_AGENT = '@demo.echo';

/** Signs the echo agent in with credentials of its own and lets it answer; the result stops it. */
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

/**
 * An agent that joins where it is invited and answers every message of others with what it got, until `signal`. The key
 * of an answer is made of the message's id: however often an event is delivered, it is answered once.
 */
async function runEchoAgent(client: Client, handle: string, signal: AbortSignal): Promise<void> {
  for await (const item of client.tail({ signal })) {
    if (item.kind !== 'event') continue;
    try {
      await react(client, handle, item.event, signal);
    } catch (error) {
      // The session may have ended meanwhile, or be at its limit; the next event is answered all the same.
      if (signal.aborted || !(error instanceof RequestError)) throw error;
    }
  }
}

async function react(client: Client, handle: string, event: EventEnvelope, signal: AbortSignal): Promise<void> {
  const { session_id } = event;
  if (event.type === 'session.message') return answer(client, handle, event, signal);
  if (event.type !== 'session.invited' || event.payload['invitee'] !== handle) return;
  await client.call('joinSession', { path: { session_id }, idempotencyKey: `echo-join-${event.event_id}`, signal });
  // What was said before it joined is in the replay alone.
  for (let after: number | undefined = 0; after !== undefined; ) {
    const query: { after_sequence: number } = { after_sequence: after };
    const { reply } = await client.call('replayEvents', { path: { session_id }, query, signal });
    for (const earlier of reply.events) await answer(client, handle, earlier, signal);
    after = reply.next_cursor === null ? undefined : Number(reply.next_cursor);
  }
}

async function answer(client: Client, handle: string, event: EventEnvelope, signal: AbortSignal): Promise<void> {
  if (!isMessageEvent(event) || event.payload.sender === handle) return;
  await client.call('sendMessage', {
    path: { session_id: event.session_id },
    body: { content: echoOf(event.payload.content) },
    idempotencyKey: `echo-${event.payload.id}`,
    signal,
  });
}

/** Text comes back as it was; of parts, the text and data, since a file can be attached only once. */
function echoOf(content: string | { type: string }[]): Content {
  if (typeof content === 'string') return content;
  const kept = content.flatMap((part): Exclude<Content, string> => {
    if (part.type === 'text' && 'text' in part && typeof part.text === 'string')
      return [{ type: 'text', text: part.text }];
    return [];
  });
  return kept.length > 0 ? kept : `(${content.map((part) => part.type).join(', ')})`;
}
