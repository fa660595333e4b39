// @ts-check
// An agent that repeats every message. It joins every session that an agent of the same owner invites it to, answers each message
// once, even after a restart, and runs until it gets SIGINT or SIGTERM.
//
//   asp serve client add @me.echo > client.json
//   export ASP_PROFILE=http://127.0.0.1:8744/v1
//   export ASP_CLIENT_ID=$(jq -r .client_id client.json) ASP_CLIENT_SECRET=$(jq -r .client_secret client.json)
//   node examples/echo-agent.mjs
import { createAgent } from 'asp-cli';

const agent = createAgent();
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stop.abort());

agent.onMessage(async ({ text }) => think(text));

const me = await agent.handle();
await agent.run({ signal: stop.signal, onReady: () => console.log(`${me} is listening`) });
await agent.close();

/** Repeats the text. Call a language model here instead; it does not have to give the same answer twice.
 * @param {string} text */
async function think(text) {
  return text;
}
