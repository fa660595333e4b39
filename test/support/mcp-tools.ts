import { Client, StreamableHTTPClientTransport, type VersionNegotiationMode } from '@modelcontextprotocol/client';
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import type { Actor } from './actors.js';
import { type Answer, request } from './http.js';
import { text } from './json.js';
import { askClientToken, type Place } from './oauth.js';

/** The client's dialect: the first SDK, or the SDK of revision 2026-07-28 in one of its modes. */
export type Dialect = 'first SDK' | VersionNegotiationMode;

/** The newest revision, older ones through the same SDK, and the first SDK. */
export const DIALECTS: readonly Dialect[] = [{ pin: '2026-07-28' }, 'auto', 'legacy', 'first SDK'];

interface Event {
  readonly type: string;
  readonly sequence: number;
  readonly session_id: string;
  readonly payload: {
    readonly id: string;
    readonly content?: string;
    readonly sender?: string;
    readonly metadata?: object;
  };
}

export interface Result {
  readonly isError: boolean;
  readonly text: string;
  readonly value: {
    session_id: string;
    sequence: number;
    message_id: string;
    events: Event[];
    next_cursor: string;
    has_more: boolean;
    notice: string;
    reply: { content: string } | null;
    sessions: { session: { id: string }; unread: number; from: string[] }[];
    omitted: string[];
    handle: string;
    error: { code: string; message: string; retryable: boolean; retry_after_s?: number };
  };
}

/** A progress notification of a call. */
export interface Progress {
  readonly progress: number;
  readonly total?: number | undefined;
}

const rulesOf = (signal?: AbortSignal, onprogress?: (progress: Progress) => void) => ({
  timeout: 55_000,
  ...(signal && { signal }),
  ...(onprogress && { onprogress }),
});

export interface Tools {
  readonly names: readonly string[];
  call(
    name: string,
    given?: Record<string, unknown>,
    signal?: AbortSignal,
    onprogress?: (progress: Progress) => void,
  ): Promise<Result>;
  listResources(): Promise<string[]>;
  /** Returns the text of a resource. */
  readResource(uri: string): Promise<string>;
  /** Whether the server lets this client subscribe to resources. */
  readonly canSubscribe: boolean;
  close(): Promise<void>;
}

/** Returns an agent's token for one resource. */
export async function tokenFor(place: Place, actor: Actor, resource: string, scope?: string): Promise<string> {
  const answer = await askClientToken(place, actor.credentials, resource, scope);
  return text(answer.json, 'access_token');
}

/** Connects a real client that has listed the tools, as every host does. */
export async function connect(url: string, token: string, dialect: Dialect = { pin: '2026-07-28' }): Promise<Tools> {
  const options = { requestInit: { headers: { authorization: `Bearer ${token}` } } };
  if (dialect === 'first SDK') {
    const client = new FirstClient({ name: 'test', version: '1' });
    await client.connect(new FirstTransport(new URL(url), options));
    const { tools } = await client.listTools();
    return {
      names: tools.map(({ name }) => name),
      call: async (name, given = {}, signal, onprogress) =>
        readResult(await client.callTool({ name, arguments: given }, undefined, rulesOf(signal, onprogress))),
      listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
      readResource: async (uri) => textOf((await client.readResource({ uri })).contents),
      canSubscribe: client.getServerCapabilities()?.resources?.subscribe === true,
      close: () => client.close(),
    };
  }
  const client = new Client({ name: 'test', version: '2' }, { versionNegotiation: { mode: dialect } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
  const { tools } = await client.listTools();
  return {
    names: tools.map(({ name }) => name),
    call: async (name, given = {}, signal, onprogress) =>
      readResult(await client.callTool({ name, arguments: given }, rulesOf(signal, onprogress))),
    listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    readResource: async (uri) => textOf((await client.readResource({ uri })).contents),
    canSubscribe: client.getServerCapabilities()?.resources?.subscribe === true,
    close: () => client.close(),
  };
}

const textOf = ([block]: readonly object[]): string => text(block, 'text');

/** A subscription, and the resources for which it received updates. */
export interface Subscription {
  readonly heard: string[];
  readonly honored: readonly string[];
  readonly closed: Promise<'local' | 'graceful' | 'remote'>;
  close(): Promise<void>;
}

export async function subscribe(url: string, token: string, uris: readonly string[]): Promise<Subscription> {
  const client = new Client({ name: 'test', version: '2' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  const heard: string[] = [];
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri));
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const { honoredFilter, closed } = await client.listen({ resourceSubscriptions: [...uris] });
  return { heard, honored: honoredFilter.resourceSubscriptions ?? [], closed, close: () => client.close() };
}

function readResult(result: Readonly<Record<string, unknown>>): Result {
  const [block] = result['content'] as { text: string }[];
  const isError = result['isError'] === true;
  const said = block?.text ?? '';
  return { isError, text: said, value: isError ? JSON.parse(said.split('\n')[0] ?? '') : result['structuredContent'] };
}

/** Posts one message to the endpoint without a client. */
export function post(
  url: string,
  token: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return request(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body,
  });
}
