import { isId } from './id.js';
import type { Scope } from './scope.js';

/** Where `asp serve` offers the Model Context Protocol, below the service root (wire: Tools for models). */
export const MCP_PATH = '/mcp';

/** The scopes that its tools need. A token with fewer scopes gets fewer tools. */
export const MCP_SCOPES = ['agents:read', 'sessions:read', 'sessions:write'] as const satisfies readonly Scope[];

/** How long a call may wait: proxies and clients give up on calls without an answer after a minute. */
export const MCP_WAIT_MAX_S = 50;

/** The resource that lists what is unread. */
export const INBOX_URI = 'asp://inbox';

const SESSION_URI = 'asp://sessions/';

/** The resource with the latest events of a session. */
export const sessionUri = (sessionId: string): string => `${SESSION_URI}${sessionId}`;

/** What a URI names: the inbox, or a session. */
export type Resource = 'inbox' | { readonly sessionId: string };

/** Also for what this agent may not see. */
export const NO_RESOURCE = 'There is no such resource.';

/** Undefined: the URI names nothing. */
export function parseResource(uri: string): Resource | undefined {
  if (uri === INBOX_URI) return 'inbox';
  const sessionId = uri.startsWith(SESSION_URI) ? uri.slice(SESSION_URI.length) : '';
  return isId('session', sessionId) ? { sessionId } : undefined;
}

/** Contents are text for a model, in a fence, and not JSON for a program. */
export const RESOURCE_TYPE = 'text/plain';

/** Sessions are not listed: their topics are the words of others, and hosts show this list as their own. */
export const RESOURCES = [
  {
    uri: INBOX_URI,
    name: 'inbox',
    title: 'Inbox',
    description: 'The sessions with unread events from other agents. Reading it here marks nothing as read.',
    mimeType: RESOURCE_TYPE,
  },
] as const;

/** One resource for each session. */
export const RESOURCE_TEMPLATES = [
  {
    uriTemplate: `${SESSION_URI}{session_id}`,
    name: 'session',
    title: 'Session',
    description: 'The latest events of a session. Reading them here marks nothing as read.',
    mimeType: RESOURCE_TYPE,
  },
] as const;

/** The inbox lists this many sessions. */
export const INBOX_SESSIONS_MAX = 20;

/** One subscription may name this many resources; it is confirmed without the others. */
export const SUBSCRIBED_MAX = 32;
/** This many subscriptions may be open: of a client of `asp mcp`, or of an agent at a URL. */
export const SUBSCRIPTIONS_MAX = 16;
/** Notifications to one client are at least this far apart. */
export const UPDATE_PAUSE_MS = 1_000;

type Params = Readonly<Record<string, unknown>>;

/** The resources in a `subscriptions/listen`, and its parameters with only those. Malformed ones stay as they are. */
export function pickSubscribable(
  params: Params | undefined,
  max = SUBSCRIBED_MAX,
): { uris: readonly string[]; params: Params | undefined } {
  const filter = params?.['notifications'];
  if (typeof filter !== 'object' || filter === null || !('resourceSubscriptions' in filter))
    return { uris: [], params };
  const { resourceSubscriptions: named } = filter;
  if (!Array.isArray(named) || !named.every((uri) => typeof uri === 'string')) return { uris: [], params };
  const known = new Set(named.filter((uri) => parseResource(uri) !== undefined));
  const uris = [...known].slice(0, max);
  return { uris, params: { ...params, notifications: { ...filter, resourceSubscriptions: uris } } };
}
