import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';
import type { AgentOptions } from './agent-change.js';

export { parse } from './agent-change.js';

export async function run(context: Context, { handle }: AgentOptions): Promise<void> {
  await callOperator(context, await requireLocalService(context), 'removeOperatorAgent', { path: { handle } });
  await context.output.document({ handle, removed: true }, (safe) => safe.handle);
}
