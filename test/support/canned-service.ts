import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';

import { ENDPOINT, type EndpointRow, type Operation } from '../../src/wire/endpoint.js';
import type { EventType } from '../../src/wire/event.js';
import { acknowledgment } from '../../src/wire/schemas/base.js';
import { endpointSchemas } from '../../src/wire/schemas/endpoint.js';
import { EVENT_PAYLOAD } from '../../src/wire/schemas/event.js';
import { OPERATOR_ENDPOINT, type OperatorOperation } from '../../src/wire/schemas/operator.js';
import { eventsOf, FILE_BYTES, OPERATOR_REPLY, REPLY, type Wording } from './canned-replies.js';
import { type LeavingOut, leaveOut } from './leave-out.js';

/** How the service refuses every request: with the API's envelope, or with an OAuth error on OAuth endpoints. */
export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly message?: string;
  /** The `error` of OAuth answers. Without it, OAuth endpoints also answer with the envelope. */
  readonly oauthError?: string;
  /** Refuses only the WebSocket. */
  readonly isForSocket?: boolean;
  /** Refuses metadata requests too. */
  readonly isEverything?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A service that gives each endpoint's complete answer, or refuses everything. It records only the requests. */
export interface CannedService {
  readonly origin: string;
  readonly baseUrl: string;
  readonly wsUrl: string;
  readonly operatorUrl: string;
  /** The operation of each request, or its method and path if there is no such operation. */
  readonly received: string[];
  /** The text that peers write. */
  text: string;
  refusal: Refusal | undefined;
  /** Makes the person deny access. The redirect says so with `text`. */
  isDenied: boolean;
  /** Delays every answer by this time, for tests of what appears during slow requests. */
  delayMs: number;
  /** Leaves out optional members of the API's answers, or sets them to null. Drops a body that repeats the status. */
  leavesOut: LeavingOut | undefined;
  /** Extra headers for every answer, in Latin-1. */
  headers: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

type Handled = { readonly name: string; readonly status: number; readonly body: unknown };

const patternOf = (path: string): RegExp => new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`);
const API = (Object.entries(ENDPOINT) as [Operation, EndpointRow][]).map(([name, row]) => ({
  name,
  row,
  pattern: patternOf(row.path),
}));
const OPERATOR = (
  Object.entries(OPERATOR_ENDPOINT) as [OperatorOperation, (typeof OPERATOR_ENDPOINT)[OperatorOperation]][]
).map(([name, { method, path }]) => ({ name, method, pattern: patternOf(path) }));

/** Finds the operation of a request. A literal path takes precedence over one with a parameter. */
function findOperation(method: string, path: string): Operation | undefined {
  const found = API.filter(({ row, pattern }) => row.method === method && pattern.test(path));
  return (found.find(({ row }) => !row.path.includes('{')) ?? found[0])?.name;
}

export async function startCannedService(port = 0): Promise<CannedService> {
  const server = createServer((request, response) => void answer(service, request, response));
  const sockets = new WebSocketServer({ noServer: true });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const service: CannedService = {
    origin,
    baseUrl: `${origin}/v1`,
    wsUrl: `${origin.replace('http', 'ws')}/connect`,
    operatorUrl: `${origin}/operator`,
    received: [],
    text: 'said',
    refusal: undefined,
    isDenied: false,
    delayMs: 0,
    leavesOut: undefined,
    headers: {},
    close: () => close(server, sockets),
  };
  server.on('upgrade', (request, socket, head) => {
    service.received.push('connect');
    const { refusal } = service;
    if (refusal !== undefined) {
      const body = JSON.stringify(envelopeOf(refusal));
      const type = 'content-type: application/json\r\nconnection: close';
      socket.end(
        `HTTP/1.1 ${refusal.status} No\r\n${type}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
      return;
    }
    sockets.handleUpgrade(request, socket, head, (live) => {
      const { leavesOut } = service;
      for (const event of eventsOf(service))
        live.send(JSON.stringify(leavesOut === undefined ? event : shortenEvent(event, leavesOut)));
    });
  });
  return service;
}

async function close(server: Server, sockets: WebSocketServer): Promise<void> {
  for (const client of sockets.clients) client.terminate();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

const envelopeOf = ({ code, message = 'refused by the service' }: Refusal): unknown => ({ error: { code, message } });

async function answer(service: CannedService, request: IncomingMessage, response: ServerResponse): Promise<void> {
  for await (const _ of request);
  if (service.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, service.delayMs));
  const url = new URL(request.url ?? '/', service.origin);
  const method = request.method ?? '';
  const isMetadata = url.pathname.includes('/.well-known/');
  const { refusal } = service;
  const handled = handle(service, method, url);
  service.received.push(handled.name);
  for (const [name, value] of Object.entries(service.headers)) response.setHeader(name, value);
  if (refusal !== undefined && refusal.isForSocket !== true && (!isMetadata || refusal.isEverything === true))
    return refuse(refusal, url, response);
  if (handled.status === 302) {
    response.writeHead(302, { location: String(handled.body) }).end();
    return;
  }
  const isText = typeof handled.body === 'string';
  response.writeHead(handled.status, { 'content-type': isText ? 'text/markdown' : 'application/json' });
  response.end(isText ? String(handled.body) : handled.body === undefined ? '' : JSON.stringify(handled.body));
}

function refuse(refusal: Refusal, url: URL, response: ServerResponse): void {
  const { status, oauthError, message = 'refused by the service', headers = {} } = refusal;
  const isOAuth = oauthError !== undefined && /^\/(register|token|revoke)$/.test(url.pathname);
  const body = isOAuth ? { error: oauthError, error_description: message } : envelopeOf(refusal);
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

function handle(service: CannedService, method: string, url: URL): Handled {
  const { pathname, searchParams } = url;
  const wording: Wording = { text: service.text, filesUrl: `${service.origin}/files/1?signature=signed` };
  if (pathname.startsWith('/operator/')) {
    const path = pathname.slice('/operator'.length);
    const found = OPERATOR.find((row) => row.method === method && row.pattern.test(path));
    if (found !== undefined) return { name: found.name, status: 200, body: OPERATOR_REPLY[found.name](wording) };
  }
  if (pathname.startsWith('/v1/') && !pathname.includes('.well-known')) {
    const name = findOperation(method, pathname.slice('/v1'.length));
    if (name !== undefined) {
      const body = REPLY[name](wording, searchParams);
      return service.leavesOut === undefined
        ? { name, status: ENDPOINT[name].status, body }
        : { name, ...shorten(name, body, service.leavesOut) };
    }
  }
  const other = OTHER[`${method} ${pathname}`]?.(service, searchParams);
  return { name: `${method} ${pathname}`, status: 404, body: envelopeOf({ status: 404, code: 'NOT_FOUND' }), ...other };
}

/** Reduces an answer to the minimum that a service may send. */
function shorten(name: Operation, body: unknown, how: LeavingOut): { status: number; body: unknown } {
  const { status }: EndpointRow = ENDPOINT[name];
  const { answer: schema } = endpointSchemas(name);
  if (schema === undefined) return { status, body };
  if (acknowledgment(schema) !== undefined) return { status: 204, body: undefined };
  return { status, body: leaveOut(schema, withShortEvents(body, how), how) };
}

function withShortEvents(body: unknown, how: LeavingOut): unknown {
  if (typeof body !== 'object' || body === null || !('events' in body) || !Array.isArray(body.events)) return body;
  return { ...body, events: body.events.map((event) => shortenEvent(event, how)) };
}

function shortenEvent(event: Record<string, unknown>, how: LeavingOut): Record<string, unknown> {
  const payload = EVENT_PAYLOAD[String(event['type']) as EventType];
  return payload === undefined ? event : { ...event, payload: leaveOut(payload, event['payload'], how) };
}

const tokenReply = ({ text }: CannedService): Record<string, unknown> => ({
  access_token: 'canned-access-token',
  token_type: 'Bearer',
  expires_in: 3600,
  refresh_token: 'canned-refresh-token',
  scope: `sessions:read sessions:write ${text.replace(/[^\w]/g, '')}`,
});

const OTHER: Readonly<
  Record<string, (service: CannedService, query: URLSearchParams) => { status: number; body: unknown }>
> = {
  'GET /v1/.well-known/oauth-protected-resource': ({ baseUrl, origin }) => ({
    status: 200,
    body: { resource: baseUrl, authorization_servers: [origin], scopes_supported: [] },
  }),
  'GET /.well-known/oauth-authorization-server': ({ origin, baseUrl, wsUrl }) => ({
    status: 200,
    body: {
      issuer: origin,
      authorization_endpoint: `${origin}/oauth/authorize`,
      token_endpoint: `${origin}/token`,
      registration_endpoint: `${origin}/register`,
      revocation_endpoint: `${origin}/revoke`,
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
      resource_servers: [{ resource: baseUrl }, { resource: wsUrl }],
    },
  }),
  'POST /register': () => ({ status: 201, body: { client_id: 'canned-client' } }),
  'POST /token': (service) => ({ status: 200, body: tokenReply(service) }),
  'POST /revoke': () => ({ status: 200, body: {} }),
  'GET /oauth/authorize': ({ origin, isDenied, text }, query) => {
    const back = new URL(query.get('redirect_uri') ?? origin);
    const answer = isDenied ? { error: 'access_denied', error_description: text } : { code: 'canned-code' };
    back.search = new URLSearchParams({ ...answer, state: query.get('state') ?? '', iss: origin }).toString();
    return { status: 302, body: back.href };
  },
  'GET /files/1': () => ({ status: 200, body: FILE_BYTES }),
};
