import type { JSONRPCMessage, RequestId, Server } from '@modelcontextprotocol/server';
import { RequestError } from '../../../client/http/request-error.js';
import { createCalm } from '../../../kit/calm.js';
import { toResourceResult } from '../../../kit/tool-result.js';
import { findActor } from '../../../wire/event.js';
import {
  INBOX_SESSIONS_MAX,
  INBOX_URI,
  NO_RESOURCE,
  parseResource,
  pickSubscribable,
  RESOURCE_TEMPLATES,
  RESOURCE_TYPE,
  RESOURCES,
  type Resource,
  SUBSCRIBED_MAX,
  SUBSCRIPTIONS_MAX,
  sessionUri,
  UPDATE_PAUSE_MS,
} from '../../../wire/mcp.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import { cutToLast } from '../../../wire/schemas/tool.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { readLastEvents } from '../session/session-events.js';
import type { Inbox } from './inbox.js';
import { CODE } from './toolbox.js';

/** Notifies subscribers of changes. It keeps the names of their resources and no events. */
export interface Subscriptions {
  noteEvent(event: EventEnvelope): void;
  /** Sees each message of the client on its way to the package, which confirms what is left of a subscription. */
  receive(message: JSONRPCMessage): JSONRPCMessage;
  /** A subscription has ended or was refused. */
  forget(id: RequestId): void;
  /** Notifies a server of changes until it is closed. A client of an older revision subscribes by adding to the set. */
  attach(server: Server): Set<string>;
  end(): void;
}

/** `written` resolves when the client has taken what was written for it: meanwhile, nothing piles up. */
export function createSubscriptions(
  { clock }: Pick<Context, 'clock'>,
  me: string,
  written: () => Promise<void>,
): Subscriptions {
  const listening = new Map<RequestId, ReadonlySet<string>>();
  const servers = new Map<Server, Set<string>>();
  const calm = createCalm(clock, UPDATE_PAUSE_MS, async (uris) => {
    await written();
    // With the newest revision, the package passes each one on to the subscriptions that name it.
    for (const server of servers.keys()) for (const uri of uris) await server.sendResourceUpdated({ uri });
  });
  const note = (uri: string): void => {
    if ([...listening.values(), ...servers.values()].some((uris) => uris.has(uri))) calm.note(uri);
  };
  return {
    noteEvent(event) {
      if (findActor(event) !== me) note(INBOX_URI);
      note(sessionUri(event.session_id));
    },
    receive(message) {
      if (!('method' in message)) return message;
      const { method, params } = message;
      if (method === 'notifications/cancelled') listening.delete(params?.['requestId'] as RequestId);
      if (method !== 'subscriptions/listen' || !('id' in message)) return message;
      const picked = pickSubscribable(params);
      if (listening.size < SUBSCRIPTIONS_MAX) listening.set(message.id, new Set(picked.uris));
      return { ...message, params: picked.params } as JSONRPCMessage;
    },
    forget: (id) => void listening.delete(id),
    attach(server) {
      const uris = new Set<string>();
      servers.set(server, uris);
      server.onclose = () => void servers.delete(server);
      return uris;
    },
    end: calm.end,
  };
}

interface Parts {
  readonly context: Context;
  readonly inbox: Inbox;
  readonly subscriptions: Subscriptions;
  /** Stops all waiting. */
  readonly soft: AbortSignal;
}

/** Loads what lets a server answer for the inbox and the sessions. */
export async function loadResources({ context, inbox, subscriptions, soft }: Parts) {
  const { ProtocolError, ProtocolErrorCode, ResourceNotFoundError } = await import('@modelcontextprotocol/server');
  const find = (uri: string): Resource => {
    const found = parseResource(uri);
    if (found === undefined) throw new ResourceNotFoundError(uri, NO_RESOURCE);
    return found;
  };
  return (server: Server, era: 'legacy' | 'modern'): void => {
    server.setRequestHandler('resources/list', () => ({ resources: [...RESOURCES] }));
    server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [...RESOURCE_TEMPLATES] }));
    server.setRequestHandler('resources/read', async ({ params: { uri } }, { mcpReq }) => {
      const resource = find(uri);
      const signal = AbortSignal.any([mcpReq.signal, soft]);
      try {
        const value = await readResource({ ...context, signal }, inbox, resource);
        return toResourceResult(context.random, uri, RESOURCE_TYPE, value);
      } catch (error) {
        if (!(error instanceof RequestError || error instanceof CliError)) throw error;
        if (error.code === 'NOT_FOUND') throw new ResourceNotFoundError(uri, NO_RESOURCE);
        // A service may have put anything else into the error.
        const code = CODE.test(error.code) ? error.code : 'another error';
        const message = `The resource cannot be read now: ${code}.`;
        throw new ProtocolError(ProtocolErrorCode.InternalError, message, { code, retryable: error.isRetryable });
      }
    });
    const uris = subscriptions.attach(server);
    if (era === 'modern') return;
    server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
      find(uri);
      if (!uris.has(uri) && uris.size === SUBSCRIBED_MAX)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There are too many subscriptions: end one first.');
      uris.add(uri);
      return {};
    });
    server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
      uris.delete(uri);
      return {};
    });
  };
}

async function readResource(context: Context, inbox: Inbox, resource: Resource): Promise<object> {
  if (resource === 'inbox') return inbox.listUnread(INBOX_SESSIONS_MAX, context.signal);
  return cutToLast(await readLastEvents(context, resource.sessionId));
}
