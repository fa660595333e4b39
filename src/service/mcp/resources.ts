import type { ServerEventBus } from '@modelcontextprotocol/server';
import { createCalm } from '../../kit/calm.js';
import { ACCESS_TOKEN_LIFETIME_S } from '../../wire/limit.js';
import { INBOX_SESSIONS_MAX, parseResource, type Resource, UPDATE_PAUSE_MS } from '../../wire/mcp.js';
import type { Scope } from '../../wire/scope.js';
import { requireScopes } from '../http/pipeline.js';
import type { Watch } from './news.js';
import { type Caller, createLookout, listUnread, readLatest, type ToolGround } from './unread.js';

const SCOPES: readonly Scope[] = ['sessions:read'];

/** A token without the scope has none. */
export const hasResources = ({ actor }: Caller): boolean => SCOPES.every((scope) => actor.scopes.includes(scope));

export function readResource(ground: ToolGround, caller: Caller, resource: Resource): Promise<object> {
  requireScopes(SCOPES, caller.actor);
  if (resource === 'inbox') return listUnread(ground, caller, { limit: INBOX_SESSIONS_MAX, waitMs: 0 });
  return readLatest(ground.context, caller.actor, resource.sessionId);
}

/**
 * Feeds the stream of one subscription, which the package opens and closes. `close` ends it: when the service stops, when its
 * token is revoked, and when the token can no longer be valid. A client that does not read is cut off like any other.
 */
export async function createFeed(
  { context, news }: ToolGround,
  caller: Caller,
  uris: readonly string[],
  close: () => void,
): Promise<ServerEventBus> {
  const resources = new Map(uris.map((uri) => [uri, parseResource(uri)]));
  const lookout = createLookout(context, caller.actor);
  const look = async (uri: string): Promise<boolean> => {
    const resource = resources.get(uri);
    return resource !== undefined && lookout.hasChanged(resource);
  };
  for (const uri of uris) await look(uri);
  const begin = (notify: (uri: string) => void): (() => void) => {
    const over = new AbortController();
    const calm = createCalm(context.clock, UPDATE_PAUSE_MS, async (changed) => {
      try {
        await caller.recheck();
        for (const uri of changed) if (await look(uri)) notify(uri);
      } catch {
        close();
      }
    });
    const follow = async (uri: string, watch: Watch): Promise<void> => {
      while (!over.signal.aborted) {
        // Also at the beginning: something may have happened since the first look.
        calm.note(uri);
        await watch.next(over.signal);
      }
      watch.end();
    };
    for (const [uri, resource] of resources)
      void follow(uri, news.watch(typeof resource === 'object' ? resource : { agentId: caller.actor.agentId }));
    const cancel = context.clock.schedule(ACCESS_TOKEN_LIFETIME_S * 1000, close, true);
    caller.gone.addEventListener('abort', close, { once: true });
    // The package has no stream to close before this function returns.
    if (caller.gone.aborted) queueMicrotask(close);
    return () => {
      caller.gone.removeEventListener('abort', close);
      cancel();
      over.abort();
      calm.end();
    };
  };
  return {
    publish: () => {},
    subscribe: (listener) => begin((uri) => listener({ kind: 'resource_updated', uri })),
  };
}
