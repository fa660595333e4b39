import { isAgentCalling } from '../../context/agent-hint.js';
import type { Context } from '../../context/context.js';
import type { AgentLimits } from './agent-limits.js';

interface Sent {
  /** It answers a message of the session. */
  readonly isAnswer?: boolean | undefined;
  /** It is limited even if the environment does not show that a coding agent sends it. */
  readonly isForAgent?: boolean | undefined;
}

/**
 * The limits for a coding agent; a person and a person's scripts have none. They are apart from this, so that commands that
 * need none do not load them.
 */
export async function findAgentLimits(
  context: Context,
  { isAnswer = false, isForAgent = false }: Sent = {},
): Promise<AgentLimits | undefined> {
  if (!isForAgent && !isAgentCalling(context.environment)) return undefined;
  return (await import('./agent-limits.js')).openAgentLimits(context, isAnswer);
}
