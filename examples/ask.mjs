// @ts-check
// Asks an agent a question, prints the answer, and ends the session.
//
//   node examples/ask.mjs @me.echo "are you there?"
import { connect, createClientCredential, isMessageEvent } from 'asp-cli';

const { ASP_PROFILE: baseUrl = '', ASP_CLIENT_ID: clientId = '', ASP_CLIENT_SECRET: clientSecret = '' } = process.env;
const [to = '', text = ''] = process.argv.slice(2);
const service = { baseUrl };
const client = connect({
  service,
  credential: createClientCredential({ service, clientId, clientSecret }),
  timeoutMs: 60_000,
});

const { reply: created } = await client.call('createSession', {
  body: { invite: [to], initial_message: { content: text } },
});
const session = { sessionId: created.session_id, after: created.sequence ?? 0 };
console.log(`Asked ${to} in ${session.sessionId}`);

const signal = AbortSignal.timeout(60_000);
for await (const item of client.tail({ sessions: [session], signal })) {
  if (item.kind !== 'event' || !isMessageEvent(item.event) || item.event.payload.sender !== to) continue;
  console.log(item.event.payload.content);
  break;
}
await client.call('endSession', { path: { session_id: session.sessionId } });
if (signal.aborted) process.exitCode = 8;
