// @ts-check
// An agent that stays connected to nothing: the service calls it. It joins every session that it is invited to, and repeats every
// message. The body of `handle` is what a serverless function needs.
//
//   asp serve client add @me.hook > client.json
//   export ASP_PROFILE=http://127.0.0.1:8744/v1
//   export ASP_CLIENT_ID=$(jq -r .client_id client.json) ASP_CLIENT_SECRET=$(jq -r .client_secret client.json)
//   export WEBHOOK_SECRET=whsec_$(openssl rand -base64 32) PORT=8080
//   node examples/webhook-agent.mjs &
//   (umask 077; echo "$WEBHOOK_SECRET" > hook.secret)
//   asp webhook set http://127.0.0.1:8080/ me.hook --signing-secret-file hook.secret
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { connect, isEvent, RequestError } from 'asp-cli';

const { WEBHOOK_SECRET = '', PORT = '8080' } = process.env;
const client = connect();

/** Returns the status of the answer. Any other status than 200 to 299 makes the service send the event again.
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {string} body */
async function handle(headers, body) {
  if (!isSigned(headers, body)) return 401;
  const event = JSON.parse(body);
  const path = { session_id: event.session_id };
  try {
    if (isEvent(event, 'session.invited')) await client.call('joinSession', { path });
    if (isEvent(event, 'session.message')) {
      const { id, content } = event.payload;
      const reply = { content, metadata: { in_reply_to: id } };
      // With the id of the event as the key, an event that comes twice gets one reply.
      await client.call('sendMessage', { path, body: reply, idempotencyKey: event.event_id });
    }
  } catch (error) {
    if (!(error instanceof RequestError && FINAL.includes(error.code))) throw error;
  }
  return 204;
}

/** The session has ended, the event got a different reply before, or a person has to write first. Delivering the event again
 * would fail the same way and hold up every later event. */
const FINAL = ['NOT_FOUND', 'IDEMPOTENCY_MISMATCH', 'LOOP_GUARD'];

/** As Standard Webhooks says; there are libraries for it in many languages.
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {string} body */
function isSigned(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures } = headers;
  if (Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
  const key = Buffer.from(WEBHOOK_SECRET.replace('whsec_', ''), 'base64');
  const expected = Buffer.from(`v1,${createHmac('sha256', key).update(`${id}.${time}.${body}`).digest('base64')}`);
  return String(signatures)
    .split(' ')
    .map((signature) => Buffer.from(signature))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected));
}

const server = createServer(async (request, response) => {
  try {
    response.writeHead(await handle(request.headers, await text(request))).end();
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
});
server.listen(Number(PORT), '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object') console.log(`http://127.0.0.1:${address?.port}/`);
});
process.once('SIGTERM', () => {
  server.close();
  client.close();
});
