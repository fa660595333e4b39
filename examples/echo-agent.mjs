// @ts-check
// An agent that repeats every message. It joins every session it is invited to, and runs until it gets SIGINT or SIGTERM.
//
//   asp serve client add @me.echo > client.json
//   export ASP_PROFILE=http://127.0.0.1:8744/v1
//   export ASP_CLIENT_ID=$(jq -r .client_id client.json) ASP_CLIENT_SECRET=$(jq -r .client_secret client.json)
//   node examples/echo-agent.mjs
import { connect, createClientCredential, isMessageEvent, RequestError } from 'asp-cli';

const { ASP_PROFILE: baseUrl = '', ASP_CLIENT_ID: clientId = '', ASP_CLIENT_SECRET: clientSecret = '' } = process.env;
const service = { baseUrl };
const client = connect({ service, credential: createClientCredential({ service, clientId, clientSecret }) });

const controller = new AbortController();
const { signal } = controller;
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => controller.abort());

const { reply: agent } = await client.call('getActingAgent', { signal });
const me = agent.canonical_handle;

// Once the agent has joined a session, the tail also delivers the messages sent before that.
for await (const item of client.tail({ signal })) {
  if (item.kind === 'ready' && !item.isReconnect) console.log(`${me} is listening`);
  if (item.kind !== 'event') continue;
  const { event } = item;
  try {
    if (event.type === 'session.invited' && event.payload['invitee'] === me)
      await client.call('joinSession', { path: { session_id: event.session_id }, signal });
    await answer(event);
  } catch (error) {
    if (!signal.aborted && !isSettled(error)) throw error;
  }
}

/** Repeats the text. Call a language model here instead; it does not have to give the same answer twice.
 * @param {string} text */
async function think(text) {
  return text;
}

/** One key for each message: a message that arrives twice, for example after a restart, is answered once.
 * @param {import('asp-cli').EventEnvelope} event */
async function answer(event) {
  if (!isMessageEvent(event) || event.payload.sender === me || typeof event.payload.content !== 'string') return;
  const { id, content } = event.payload;
  await client.call('sendMessage', {
    path: { session_id: event.session_id },
    body: { content: await think(content), metadata: { in_reply_to: id } },
    idempotencyKey: `echo-${id}`,
    signal,
  });
}

/** Whether there is nothing left to do: the session has ended, which the service reports as NOT_FOUND, or the message was
 * already answered with a different text.
 * @param {unknown} error */
function isSettled(error) {
  return error instanceof RequestError && ['NOT_FOUND', 'IDEMPOTENCY_MISMATCH'].includes(error.code);
}
