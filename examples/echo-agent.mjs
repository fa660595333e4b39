// @ts-check
// An agent that says what it is told. It joins where it is invited, and runs until it is told to stop.
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

// After it has joined a session, the tail also gives what was said there before.
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

/** Says what it was told. Ask a language model here: it need not say the same twice.
 * @param {string} text */
async function think(text) {
  return text;
}

/** One key for each message: what comes twice, after a restart for example, is answered once.
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

/** Whether there is nothing left to do: the session may have ended, for which the service says NOT_FOUND, or the message was
 * answered before, in other words.
 * @param {unknown} error */
function isSettled(error) {
  return error instanceof RequestError && ['NOT_FOUND', 'IDEMPOTENCY_MISMATCH'].includes(error.code);
}
