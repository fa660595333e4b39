import type { AgentSummary } from '../../../wire/agent.js';
import type { About } from '../../context/explain.js';
import type { Style } from '../../terminal/style.js';

/** What an agent can be reached by, in a word. */
export function reachText({ inactive, paused, is_online: isOnline }: AgentSummary): string {
  if (inactive) return 'removed';
  if (paused === true) return 'paused';
  return isOnline ? 'online' : 'offline';
}

/** An agent for people; its values are safe already. */
export function agentText(agent: AgentSummary, style: Style): string {
  const reach = reachText(agent);
  const one = (text: string): string => text.replace(/\s+/g, ' ');
  return [
    `${style.bold(agent.canonical_handle)}  ${reach === 'online' ? style.green(reach) : style.dim(reach)}`,
    `name     ${one(agent.display_name)}`,
    ...(agent.description === null ? [] : [`about    ${one(agent.description)}`]),
    `owner    ${one(agent.owner_display_name)} (${one(agent.owner_label)})`,
    `policy   ${agent.inbound_policy}, ${agent.visibility}`,
  ].join('\n');
}

/** What is said of a handle that does not resolve. It does not tell an unknown agent from a private one. */
export function aboutAgent(handle: string): About {
  return {
    subject: handle,
    messages: { AGENT_NOT_FOUND: `${handle} was not found.`, NOT_FOUND: `${handle} was not found.` },
    reasons: {
      AGENT_NOT_FOUND: 'the service gives one answer for an unknown handle and for an agent that is private.',
    },
    next: { AGENT_NOT_FOUND: ['asp', 'agent', 'search', handle.slice(handle.indexOf('.') + 1)] },
  };
}
