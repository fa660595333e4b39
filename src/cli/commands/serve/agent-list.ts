import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';

export function parse(): Record<never, never> {
  return {};
}

export async function run(context: Context): Promise<void> {
  const { agents } = await callOperator(context, await requireLocalService(context), 'listOperatorAgents');
  await context.output.list({ items: agents, next_cursor: null }, [
    { title: 'handle', value: (agent) => agent.handle },
    { title: 'policy', value: (agent) => agent.inbound_policy },
    { title: 'state', value: (agent) => (agent.paused ? 'paused' : agent.is_online ? 'online' : 'offline') },
  ]);
}
