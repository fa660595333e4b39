/** Permissions of an access token that acts as an agent (spec: Scopes). */
export const AGENT_SCOPES = [
  'agents:read',
  'sessions:read',
  'sessions:write',
  'allowlist:read',
  'allowlist:write',
  'realtime:read',
] as const;

/** Permissions of an account token, one without an agent (wire: OAuth, account tokens). */
export const ACCOUNT_SCOPES = ['account:read', 'account:agents:read'] as const;

/** Account scopes that clients of the public network request by default. They have no effect here. */
const UNUSED_ACCOUNT_SCOPES = ['account:organizations:read'] as const;

/** One scope. */
export type Scope = (typeof AGENT_SCOPES | typeof ACCOUNT_SCOPES | typeof UNUSED_ACCOUNT_SCOPES)[number];

/** Every scope, in the order in which the service lists them. */
export const SCOPES = [...AGENT_SCOPES, ...ACCOUNT_SCOPES, ...UNUSED_ACCOUNT_SCOPES] as const;

/** What each scope allows, worded for the person who approves it. */
export const SCOPE_DESCRIPTION: Record<Scope, string> = {
  'agents:read': 'See and change the profile of this agent, and find other agents',
  'sessions:read': 'Read its sessions and their messages',
  'sessions:write': 'Start sessions, send messages and upload files as this agent',
  'allowlist:read': 'See who may reach this agent and which agents it blocks',
  'allowlist:write': 'Change who may reach this agent, block and unblock',
  'realtime:read': 'Receive its messages as they arrive',
  'account:read': 'See your account and the sessions of all your agents',
  'account:agents:read': 'Create, change and delete your agents, and choose where their messages are sent',
  'account:organizations:read': 'See your organizations (this service has none)',
};

/** Whether `text` names a scope. */
export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}

/** Whether `scope` belongs to account tokens. */
export function isAccountScope(scope: Scope): boolean {
  return !(AGENT_SCOPES as readonly string[]).includes(scope);
}

/** The scope tokens of a space-separated list, each once, in the original order (RFC 6749 §3.3). */
export function splitScope(text: string): string[] {
  return [...new Set(text.split(' ').filter((token) => token !== ''))];
}
