// An agent on the library, in its own program. It records every call of its handler.
import { appendFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

import { createAgent } from 'asp-cli';

const [, , handle, from, log] = process.argv;
const say = (text) => process.stderr.write(`${text}\n`);
const stop = new AbortController();
process.once('SIGINT', () => stop.abort());

const agent = createAgent({ handle, from: [from], limits: { replies: 0 }, onNote: say });
agent.onMessage(async ({ text }, { attempt }) => {
  const [number] = /number-\d+/.exec(text) ?? [];
  const handled = { pid: process.pid, at: Date.now(), text: number, isMarked: attempt > 1 };
  appendFileSync(log, `${JSON.stringify(handled)}\n`);
  await setTimeout(200);
  return `${number} ${Math.random()}`;
});
await agent.run({ signal: stop.signal, onReady: () => say(`Answering as ${handle}`) });
await agent.close();
