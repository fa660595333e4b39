import { splitHandle } from '../../../wire/handle.js';
import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { aboutAgent, agentText } from './agent-view.js';

export interface ShowAgentOptions {
  /** Undefined: the acting agent. */
  readonly handle: string | undefined;
}

export function parse(words: Words): ShowAgentOptions {
  const [handle] = words.arguments;
  return { handle: handle === undefined ? undefined : readHandle(handle) };
}

export async function run(context: Context, { handle }: ShowAgentOptions): Promise<void> {
  if (handle === undefined) {
    const own = await read(context, 'getActingAgent', {});
    return context.output.document(own, (safe, style) => agentText(safe, style));
  }
  const view = await read(context, 'getAgent', { path: splitHandle(handle) }, aboutAgent(handle));
  await context.output.document(view.agent, (safe, style) => agentText(safe, style));
  const { length } = view.shared_sessions;
  if (length > 0) await context.output.note(`You share ${length === 1 ? 'a session' : `${length} sessions`}.`);
  await rememberWords(context, 'handles', [handle]);
}
