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

for await (const item of client.tail({ signal })) {
  if (item.kind === 'ready' && !item.isReconnect) console.log(`${me} is listening`);
  if (item.kind !== 'event') continue;
  const { event } = item;
  try {
    if (event.type === 'session.invited' && event.payload['invitee'] === me) await join(event.session_id);
    await answer(event);
  } catch (error) {
    // It may have ended meanwhile: the service says NOT_FOUND of all that cannot be reached.
    if (!signal.aborted && !(error instanceof RequestError && error.code === 'NOT_FOUND')) throw error;
  }
}

/** What was said before it joined is there to be read afterwards.
 * @param {string} sessionId */
async function join(sessionId) {
  await client.call('joinSession', { path: { session_id: sessionId }, signal });
  for await (const item of client.tail({ sessions: [{ sessionId }], isFollowing: false, signal }))
    if (item.kind === 'event') await answer(item.event);
}

/** One key for each message that is answered: an event that comes twice is answered once.
 * @param {import('asp-cli').EventEnvelope} event */
async function answer(event) {
  if (!isMessageEvent(event) || event.payload.sender === me || typeof event.payload.content !== 'string') return;
  await client.call('sendMessage', {
    path: { session_id: event.session_id },
    body: { content: event.payload.content },
    idempotencyKey: `echo-${event.payload.id}`,
    signal,
  });
}
