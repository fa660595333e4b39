import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type RawData, WebSocket, WebSocketServer } from 'ws';

import { type RunningService, startService } from '../../src/service/service.js';
import { type Actor, type AgentOptions, createActor, type Operator } from './actors.js';
import type { Place } from './oauth.js';

/**
 * A service that offers what the specification says and nothing else: `asp serve` behind a proxy that refuses every
 * request and drops every member that the tables of this file do not list. The tables are written from the
 * specification alone, never from the sources. Where it names no members ("not shown"), an answer is empty, or has
 * only the one member without which it would say nothing.
 */
export interface SpecService {
  readonly baseUrl: string;
  readonly authUrl: string;
  readonly webUrl: string;
  readonly wsUrl: string;
  readonly operator: Operator;
  /** The requests that the specification does not have, in order: `GET /agents/{owner}/{name}/card`. */
  readonly refused: string[];
  /** Every request to the REST interface, in order. */
  readonly received: string[];
  /** How it answers a path that it does not have: with the error envelope, or with a page. */
  missing: 'envelope' | 'page';
  createAgent(name: string, options?: AgentOptions): Promise<Actor>;
  /** Cuts every WebSocket. */
  cut(): void;
  stop(): Promise<void>;
}

/** The members that pass: all of a value, those of each item, or those with these names. */
type Shape = true | readonly [Shape] | { readonly [member: string]: Shape };

const PARTICIPANT = { handle: true, status: true, joined_at: true, left_at: true } as const;
const SESSION = {
  ...{ id: true, state: true, topic: true, participants: [PARTICIPANT], created_at: true, ended_at: true },
} as const satisfies Shape;
const PART = { type: true, text: true, attachment_id: true, data: true } as const;
const MESSAGE = {
  ...{ id: true, session_id: true, sender: true, sequence: true, content: [PART], metadata: true, created_at: true },
} as const satisfies Shape;
const ENVELOPE = {
  ...{ type: true, session_id: true, event_id: true, sequence: true, created_at: true, payload: true },
} as const satisfies Shape;
/** The payload of each event type; of those that are not listed, the specification knows nothing. */
const PAYLOAD: Readonly<Record<string, Shape>> = {
  'session.message': MESSAGE,
  'session.invited': {},
  'session.joined': {},
  'session.left': { reason: true },
  'session.ended': {},
};
const ATTACHMENT = { id: true, filename: true, content_type: true, size: true } as const;
/** Fields of agents and blocks are not shown: only their names. */
const AGENT = { canonical_handle: true } as const;
const BLOCK = { blocked_handle: true } as const;

interface Route {
  readonly method: string;
  readonly path: string;
  readonly query?: readonly string[];
  /** The members that the body may have; others are a mistake of the client. */
  readonly body?: Shape | 'file';
  readonly reply: Shape;
  /** Its success has no body at all. */
  readonly isEmpty?: true;
}

const INITIAL = { content: [PART], metadata: true } as const;

/** (spec: Endpoints) */
const ROUTES: readonly Route[] = [
  {
    ...{ method: 'POST', path: '/sessions', reply: { session_id: true, sequence: true } },
    body: { invite: true, topic: true, initial_message: INITIAL, end_after_send: true },
  },
  {
    ...{ method: 'GET', path: '/sessions', query: ['state', 'limit', 'cursor'] },
    reply: { sessions: [SESSION], next_cursor: true },
  },
  { method: 'GET', path: '/sessions/{}', reply: SESSION },
  { method: 'POST', path: '/sessions/{}/join', body: {}, reply: {} },
  { method: 'POST', path: '/sessions/{}/invite', body: { invite: true }, reply: {}, isEmpty: true },
  {
    ...{ method: 'POST', path: '/sessions/{}/messages', body: { content: [PART], metadata: true } },
    reply: { message_id: true, sequence: true },
  },
  { method: 'POST', path: '/sessions/{}/leave', body: {}, reply: {} },
  { method: 'POST', path: '/sessions/{}/end', body: {}, reply: {} },
  { method: 'POST', path: '/sessions/{}/reopen', body: { invite: true, initial_message: INITIAL }, reply: {} },
  {
    ...{ method: 'GET', path: '/sessions/{}/events', query: ['after_sequence', 'limit'] },
    reply: { events: [ENVELOPE], next_cursor: true },
  },
  {
    ...{ method: 'GET', path: '/accounts/me/sessions', query: ['state', 'limit', 'cursor'] },
    reply: { sessions: [{ session: SESSION, acting_handle: true }], next_cursor: true },
  },
  { method: 'POST', path: '/attachments', body: 'file', reply: ATTACHMENT },
  { method: 'GET', path: '/agents/me', reply: AGENT },
  { method: 'GET', path: '/agents', query: ['q', 'limit', 'cursor'], reply: { agents: [AGENT], next_cursor: true } },
  { method: 'GET', path: '/agents/{}/{}', reply: { agent: AGENT } },
  { method: 'GET', path: '/search/agents', query: ['q', 'limit', 'cursor'], reply: { agents: [AGENT] } },
  { method: 'GET', path: '/agents/{}/{}/allowlist', reply: { entries: true } },
  { method: 'POST', path: '/agents/{}/{}/allowlist', body: { entries: true }, reply: {}, isEmpty: true },
  { method: 'DELETE', path: '/agents/{}/{}/allowlist/{}', reply: {} },
  { method: 'GET', path: '/blocks', query: ['limit', 'cursor'], reply: { blocks: [BLOCK] } },
  { method: 'POST', path: '/blocks', body: { handle: true }, reply: {}, isEmpty: true },
  { method: 'DELETE', path: '/blocks/{}', reply: {} },
];

const BASE_PATH = '/v1';
const METADATA = '/.well-known/oauth-authorization-server';
const JWKS = '/.well-known/jwks.json';
const AUTHORIZE = '/oauth/authorize';
const SOCKET = '/connect';

/** (spec: Discovery; POST /register; POST /token; POST /revoke) */
const OAUTH: Readonly<Record<string, Shape>> = {
  [`GET ${METADATA}`]: {
    ...{ token_endpoint: true, authorization_endpoint: true, registration_endpoint: true, revocation_endpoint: true },
    ...{ jwks_uri: true, grant_types_supported: true, code_challenge_methods_supported: true },
  },
  [`GET ${JWKS}`]: true,
  'POST /register': { client_id: true },
  'POST /token': { access_token: true, token_type: true, expires_in: true, scope: true, refresh_token: true },
  'POST /revoke': {},
};
const OAUTH_ERROR = { error: true, error_description: true } as const;
const ERROR = { error: { code: true, message: true } } as const;

/** (spec: Scopes) */
const SCOPES = [
  ...['agents:read', 'sessions:read', 'sessions:write', 'allowlist:read', 'allowlist:write', 'realtime:read'],
];

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value without the members that the shape does not have. */
function keep(shape: Shape, value: unknown): unknown {
  if (shape === true) return value;
  if (Array.isArray(shape)) {
    const [item] = shape as readonly [Shape];
    return Array.isArray(value) ? value.map((one) => keep(item, one)) : value;
  }
  if (!isRecord(value)) return value;
  const members = shape as Readonly<Record<string, Shape>>;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) => {
      const inner = Object.hasOwn(members, name) ? members[name] : undefined;
      return inner === undefined ? [] : [[name, keep(inner, member)]];
    }),
  );
}

/** An event as the specification has it; undefined if it does not have that type. */
function keepEvent(event: unknown): unknown {
  if (!isRecord(event)) return undefined;
  const payload = PAYLOAD[String(event['type'])];
  if (payload === undefined) return undefined;
  return { ...(keep(ENVELOPE, event) as object), payload: keep(payload, event['payload']) };
}

function keepReply({ path, reply }: Route, body: unknown): unknown {
  const kept = keep(reply, body);
  if (path !== '/sessions/{}/events' || !isRecord(kept) || !Array.isArray(kept['events'])) return kept;
  return { ...kept, events: kept['events'].map(keepEvent).filter((event) => event !== undefined) };
}

function findRoute(method: string, path: string): Route | undefined {
  const fits = (route: Route): boolean =>
    route.method === method && new RegExp(`^${route.path.replaceAll('{}', '[^/]+')}$`).test(path);
  const found = ROUTES.filter(fits);
  return found.find((route) => !route.path.includes('{}')) ?? found[0];
}

/** The part of a request that the specification does not have; undefined if there is none. */
function findExcess(route: Route, query: URLSearchParams, body: Buffer): string | undefined {
  const parameter = [...query.keys()].find((name) => route.query?.includes(name) !== true);
  if (parameter !== undefined) return `query parameter ${parameter}`;
  if (route.body === 'file' || body.length === 0) return undefined;
  if (route.body === undefined) return 'a body';
  const given: unknown = JSON.parse(body.toString('utf8'));
  const kept = keep(route.body, given);
  return JSON.stringify(kept) === JSON.stringify(given) ? undefined : `members beyond ${JSON.stringify(kept)}`;
}

/** The path of a request, with its ids and handles left out. */
const nameOf = (method: string, path: string): string =>
  `${method} ${path.replace(/(sess|att|agt)_\w+/g, '{id}').replace(/(?<=\/agents\/)(?!me)[\w-]+\/[\w-]+/, '{agent}')}`;

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
}

const json = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Answer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

async function readAll(stream: AsyncIterable<unknown>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

/** The headers that the specification, or HTTP itself, gives an answer. */
function keepHeaders(headers: IncomingMessage['headers']): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of ['retry-after', 'cache-control'] as const) {
    const value = headers[name];
    if (value !== undefined) kept[name] = value;
  }
  const error = /\berror="[\w-]+"/.exec(headers['www-authenticate'] ?? '')?.[0];
  if (error !== undefined) kept['www-authenticate'] = `Bearer ${error}`;
  return kept;
}

export async function startSpecService(): Promise<SpecService> {
  const server = createServer((incoming, reply) => {
    serve(incoming, reply).catch((error: unknown) => {
      reply.writeHead(500, { 'content-type': 'text/plain' }).end(String(error));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  const inner: RunningService = await startService({
    ...{ host: '127.0.0.1', port: 0, data: 'memory', publicUrl: origin, areLimitsOn: false },
  });
  const innerPort = new URL(inner.operatorUrl).port;
  const operator: Operator = { url: inner.operatorUrl, secret: inner.operatorSecret };
  const wsUrl = `${origin.replace('http', 'ws')}${SOCKET}`;
  const place: Place = {
    ...{ baseUrl: `${origin}${BASE_PATH}`, wsUrl, issuer: origin, tokenUrl: `${origin}/token` },
    ...{ authorizeUrl: `${origin}${AUTHORIZE}`, registerUrl: `${origin}/register`, revokeUrl: `${origin}/revoke` },
    jwksUrl: `${origin}${JWKS}`,
  };

  async function forward({ method, url, headers }: IncomingMessage, body: Buffer): Promise<[IncomingMessage, Buffer]> {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const onward = request({ port: innerPort, host: '127.0.0.1', method, path: url, headers, agent: false });
      onward.once('response', resolve).once('error', reject).end(body);
    });
    return [answer, await readAll(answer)];
  }

  async function answerApi(incoming: IncomingMessage, url: URL, body: Buffer): Promise<Answer> {
    const method = incoming.method ?? '';
    const path = url.pathname.slice(BASE_PATH.length);
    service.received.push(nameOf(method, path));
    const route = findRoute(method, path);
    if (route === undefined) {
      service.refused.push(nameOf(method, path));
      return service.missing === 'envelope'
        ? json(404, { error: { code: 'NOT_FOUND', message: 'Not found.' } })
        : { status: 404, headers: { 'content-type': 'text/plain' }, body: `Cannot ${method} ${url.pathname}` };
    }
    const excess = findExcess(route, url.searchParams, body);
    if (excess !== undefined) {
      service.refused.push(`${nameOf(method, path)} with ${excess}`);
      return json(400, { error: { code: 'VALIDATION_ERROR', message: `Unknown: ${excess}.` } });
    }
    const [answer, bytes] = await forward(incoming, body);
    const status = answer.statusCode ?? 0;
    if (status < 300 && route.isEmpty === true) return { status: 204, headers: {}, body: '' };
    const given: unknown = bytes.length === 0 ? {} : JSON.parse(bytes.toString('utf8'));
    return json(status, status < 300 ? keepReply(route, given) : keep(ERROR, given), keepHeaders(answer.headers));
  }

  async function answerOAuth(incoming: IncomingMessage, shape: Shape, body: Buffer): Promise<Answer> {
    const isRegistration = incoming.url === '/register';
    const asked = isRegistration
      ? String((JSON.parse(body.toString('utf8')) as Record<string, unknown>)['scope'] ?? '')
      : (new URLSearchParams(body.toString('utf8')).get('scope') ?? '');
    const unknown = asked.split(' ').find((scope) => scope !== '' && !SCOPES.includes(scope));
    if (unknown !== undefined)
      return isRegistration
        ? json(400, { error: 'invalid_client_metadata', error_description: `There is no scope ${unknown}.` })
        : json(403, { error: 'invalid_scope', error_description: `There is no scope ${unknown}.` });
    const [answer, bytes] = await forward(incoming, body);
    const status = answer.statusCode ?? 0;
    const given: unknown = bytes.length === 0 ? {} : JSON.parse(bytes.toString('utf8'));
    return json(status, keep(status < 300 ? shape : OAUTH_ERROR, given), keepHeaders(answer.headers));
  }

  /** The page for people is not part of the interface. Where it sends the browser is. */
  async function answerPage(incoming: IncomingMessage, url: URL, body: Buffer): Promise<Answer> {
    const asked = url.searchParams.get('scope') ?? '';
    const back = url.searchParams.get('redirect_uri');
    if (asked.split(' ').some((scope) => scope !== '' && !SCOPES.includes(scope)) && back !== null) {
      const location = new URL(back);
      location.searchParams.set('error', 'invalid_scope');
      location.searchParams.set('state', url.searchParams.get('state') ?? '');
      return { status: 302, headers: { location: location.href }, body: '' };
    }
    const [answer, bytes] = await forward(incoming, body);
    const { location } = answer.headers;
    const headers: Record<string, string> = {
      ...(answer.headers['content-type'] !== undefined && { 'content-type': answer.headers['content-type'] }),
    };
    if (location !== undefined) {
      const to = new URL(location, origin);
      const isAnswer = to.searchParams.has('code') || to.searchParams.has('error');
      for (const name of isAnswer ? [...to.searchParams.keys()] : [])
        if (!['code', 'state', 'error'].includes(name)) to.searchParams.delete(name);
      headers['location'] = to.href;
    }
    return { status: answer.statusCode ?? 0, headers, body: bytes };
  }

  async function serve(incoming: IncomingMessage, reply: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', origin);
    const body = await readAll(incoming);
    const oauth = OAUTH[`${incoming.method} ${url.pathname}`];
    const answered =
      oauth !== undefined
        ? await answerOAuth(incoming, oauth, body)
        : url.pathname === AUTHORIZE
          ? await answerPage(incoming, url, body)
          : url.pathname.startsWith(`${BASE_PATH}/`)
            ? await answerApi(incoming, url, body)
            : { status: 404, headers: { 'content-type': 'text/plain' }, body: 'Not found' };
    reply.writeHead(answered.status, answered.headers).end(answered.body);
  }

  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  server.on('upgrade', (incoming, socket, head) => {
    const { authorization = '' } = incoming.headers;
    const onward = new WebSocket(`ws://127.0.0.1:${innerPort}${SOCKET}`, {
      ...{ headers: { authorization, host: new URL(origin).host }, perMessageDeflate: false },
    });
    socket.on('error', () => onward.terminate());
    onward.on('error', () => socket.destroy());
    onward.once('unexpected-response', async (_request, answer: IncomingMessage) => {
      const given: unknown = JSON.parse((await readAll(answer)).toString('utf8'));
      const { status, headers, body } = json(answer.statusCode ?? 0, keep(ERROR, given), keepHeaders(answer.headers));
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      const length = `content-length: ${Buffer.byteLength(body)}`;
      socket.end([`HTTP/1.1 ${status} Refused`, ...lines, length, 'connection: close', '', body].join('\r\n'));
    });
    const early: RawData[] = [];
    const keepEarly = (data: RawData): void => void early.push(data);
    onward.on('message', keepEarly);
    onward.once('open', () => {
      sockets.handleUpgrade(incoming, socket, head, (client) => {
        const pass = (data: RawData): void => {
          const event = keepEvent(JSON.parse(String(data)));
          if (event !== undefined) client.send(JSON.stringify(event));
        };
        onward.off('message', keepEarly).on('message', pass);
        for (const data of early) pass(data);
        onward.once('close', (code: number) => client.close(code >= 1000 && code !== 1006 ? code : 1011));
        client.once('close', () => onward.terminate());
        client.on('error', () => onward.terminate());
      });
    });
  });

  const service: SpecService = {
    ...{ baseUrl: place.baseUrl, authUrl: origin, webUrl: origin, wsUrl, operator },
    ...{ refused: [], received: [], missing: 'envelope' },
    createAgent: (name, options) => createActor(place, operator, name, options),
    cut() {
      for (const client of sockets.clients) client.terminate();
    },
    async stop() {
      service.cut();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await inner.stop();
    },
  };
  return service;
}
