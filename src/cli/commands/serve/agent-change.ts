import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';

/** The one agent that is paused, resumed or removed. */
export interface AgentOptions {
  readonly handle: string;
}

export function parse(words: Words): AgentOptions {
  return { handle: readHandle(words.arguments[0] ?? '') };
}

/** Pauses or resumes, and prints the handle. */
export async function setPaused(context: Context, { handle }: AgentOptions, paused: boolean): Promise<void> {
  const record = await requireLocalService(context);
  const agent = await callOperator(context, record, 'updateOperatorAgent', { path: { handle }, body: { paused } });
  await context.output.document(agent, (safe) => safe.handle);
}
