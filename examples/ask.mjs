// @ts-check
// Asks an agent a question, prints the answer, and ends the session.
//
//   node examples/ask.mjs @me.echo "are you there?"
import { createAgent } from 'asp-cli';

const [to = '', text = ''] = process.argv.slice(2);
const agent = createAgent();
const answer = await agent.ask(to, text, { timeout: '1m' });
console.log(`Asked ${to} in ${answer.sessionId}`);
console.log(answer.text);
await agent.close();
