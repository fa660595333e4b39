import type { Context } from '../../context/context.js';
import { type AgentOptions, setPaused } from './agent-change.js';

export { parse } from './agent-change.js';

export async function run(context: Context, options: AgentOptions): Promise<void> {
  await setPaused(context, options, false);
}
