import { randomBytes, randomUUID } from 'node:crypto';

import { ACCESS_TOKEN_LIFETIME_S } from '../../src/wire/limit.js';
import { type Answer, request } from './http.js';
import { text } from './json.js';
import { AGENT_SCOPE, askClientToken, type ClientCredentials, type Place } from './oauth.js';
import { type LiveSocket, openSocket } from './socket.js';
import { createVerbs, type Verbs } from './verbs.js';

/** The service's operator, who can prepare agents and clients in ways the specification does not cover. */
export interface Operator {
  readonly url: string;
  readonly secret: string;
}

export interface CallOptions {
  /** The idempotency key. `null` sends none; by default each write gets a new one. */
  readonly key?: string | null;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An agent together with the program that acts for it: it can call and listen. */
export interface Actor extends Verbs {
  readonly handle: string;
  readonly owner: string;
  readonly name: string;
  readonly credentials: ClientCredentials;
  call(method: string, path: string, body?: unknown, options?: CallOptions): Promise<Answer>;
  get(path: string, options?: CallOptions): Promise<Answer>;
  post(path: string, body?: unknown, options?: CallOptions): Promise<Answer>;
  patch(path: string, body?: unknown, options?: CallOptions): Promise<Answer>;
  delete(path: string, options?: CallOptions): Promise<Answer>;
  /** Returns a token of this agent for a resource and scopes. */
  token(resource?: 'api' | 'ws', scopes?: readonly string[]): Promise<string>;
  /** Opens a socket, or returns the answer that refused it. */
  connect(token?: string, url?: string): Promise<LiveSocket | Answer>;
  mustConnect(token?: string, url?: string): Promise<LiveSocket>;
}

export interface AgentOptions {
  readonly policy?: 'open' | 'allowlist' | 'hold';
  /** Creates the agent for this existing owner instead of a new account. */
  readonly owner?: string;
}

/** Calls one of the operator's endpoints. */
export function askOperator(operator: Operator, method: string, path: string, body?: unknown): Promise<Answer> {
  return request(`${operator.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${operator.secret}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** Calls one of the operator's endpoints and expects success. */
export async function operate(operator: Operator, method: string, path: string, body?: unknown): Promise<unknown> {
  const answer = await askOperator(operator, method, path, body);
  if (answer.status >= 300) throw new Error(`operator ${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.text === '' ? undefined : answer.json;
}

/** Creates an agent with a name like `@alice-3f9c21.main` and a client that acts for it. */
export async function createActor(
  place: Place,
  operator: Operator,
  name: string,
  { policy = 'open', owner }: AgentOptions = {},
): Promise<Actor> {
  const suffix = randomBytes(4).toString('hex');
  const handle = owner === undefined ? `@${name}-${suffix}.main` : `@${owner}.${name}-${suffix}`;
  await operate(operator, 'POST', '/agents', { handle, inbound_policy: policy });
  const client = await operate(operator, 'POST', '/clients', { handle });
  return actorOf(place, handle, {
    clientId: text(client, 'client_id'),
    clientSecret: text(client, 'client_secret'),
  });
}

/** Long tests take longer than a token lives. */
const TOKEN_KEPT_MS = (ACCESS_TOKEN_LIFETIME_S - 60) * 1_000;

/** Returns the actor for existing credentials. */
export function actorOf(place: Place, handle: string, credentials: ClientCredentials): Actor {
  const tokens = new Map<string, { readonly token: Promise<string>; readonly askedAt: number }>();

  async function fetchToken(resource: 'api' | 'ws', scopes: readonly string[]): Promise<string> {
    const address = resource === 'api' ? place.baseUrl : place.wsUrl;
    const answer = await askClientToken(place, credentials, address, scopes.join(' '));
    if (answer.status !== 200) throw new Error(`no token for ${handle}: ${answer.status} ${answer.text}`);
    return text(answer.json, 'access_token');
  }

  function token(resource: 'api' | 'ws' = 'api', scopes: readonly string[] = AGENT_SCOPE): Promise<string> {
    const name = `${resource} ${scopes.join(' ')}`;
    const known = tokens.get(name);
    if (known !== undefined && performance.now() < known.askedAt + TOKEN_KEPT_MS) return known.token;
    const token = fetchToken(resource, scopes);
    tokens.set(name, { token, askedAt: performance.now() });
    return token;
  }

  const call: Actor['call'] = async (method, path, body, options = {}) =>
    callApi(place.baseUrl, options.token ?? (await token()), method, path, body, options);

  async function connect(given?: string, url: string = place.wsUrl): Promise<LiveSocket | Answer> {
    return openSocket(url, { authorization: `Bearer ${given ?? (await token('ws'))}` });
  }

  const [owner = '', name = ''] = handle.slice(1).split('.');
  return {
    handle,
    owner,
    name,
    credentials,
    call,
    token,
    connect,
    ...createVerbs(call),
    get: (path, options) => call('GET', path, undefined, options),
    post: (path, body, options) => call('POST', path, body, options),
    patch: (path, body, options) => call('PATCH', path, body, options),
    delete: (path, options) => call('DELETE', path, undefined, options),
    async mustConnect(given, url) {
      const socket = await connect(given, url);
      if ('status' in socket) throw new Error(`${handle} was refused a socket: ${socket.status} ${socket.text}`);
      return socket;
    },
  };
}

/** Makes one REST call. Sends a string or bytes as they are and anything else as JSON. */
export function callApi(
  baseUrl: string,
  token: string | undefined,
  method: string,
  path: string,
  body?: unknown,
  { key, headers = {} }: CallOptions = {},
): Promise<Answer> {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  const newKey = method === 'GET' || key === null ? undefined : (key ?? randomUUID());
  return request(`${baseUrl}${path}`, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(newKey === undefined ? {} : { 'idempotency-key': newKey }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }),
  });
}
