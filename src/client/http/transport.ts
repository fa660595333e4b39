import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { Agent, buildConnector, Client, type Dispatcher } from 'undici';
import type { Clock } from '../../kit/clock.js';
import { isLoopbackHost } from '../../kit/loopback.js';
import { hidePasswords } from '../../kit/sanitize.js';
import { secureUrl } from './address.js';
import { type Outcome, RequestError, toFailure } from './request-error.js';

/** One line about network activity, already redacted. */
export interface TraceEntry {
  readonly kind: 'request' | 'answer' | 'failure' | 'retry' | 'socket';
  readonly text: string;
}

/** Receives the trace of `--debug`. */
type Trace = (entry: TraceEntry) => void;

const SHOWN_BYTES_MAX = 2048;
const SECRET_NAME =
  /^(authorization|proxy-authorization|cookie|set-cookie|code_verifier|.*token|.*secret|password|passphrase|signature|sig|assertion|.*api[-_]key)$/i;
/** In JSON these names mean an error code and a session state, not secrets. */
const FORM_SECRET_NAME = /^(code|state)$/i;
const PUBLIC_NAME = /^(token_type|token_type_hint)$/i;
const TOKEN = /eyJ[\w-]{8,}(\.[\w-]*)*/g;
const BEARER = /\b(Bearer|Basic)\s+(?![\w-]+=")[\w.~+/=-]+/gi;
const QUERY = /([?&;][\w.-]+=)[^&\s"'<>]+/g;

const PUBLIC_QUERY = /^[?&;](limit|after_sequence)=\d+$/;

/** Shorter texts are too common to remove. */
const SECRET_MIN_LENGTH = 8;

/** `text` without bearer tokens, JSON web tokens, passwords in addresses and query values. */
export function redactText(text: string): string {
  return hidePasswords(text)
    .replace(BEARER, '$1 [redacted]')
    .replace(TOKEN, '[redacted]')
    .replace(QUERY, (found, name: string) => (PUBLIC_QUERY.test(found) ? found : `${name}[redacted]`));
}

/** `url` without the values of its query: some of them are signatures, some are codes. */
export function redactUrl(url: string): string {
  return redactText(url.replace(/#.*$/, ''));
}

/** Headers on one line, secrets removed. */
export function redactHeaders(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${isSecretName(name) ? '[redacted]' : redactText(value)}`)
    .join('; ');
}

/** A JSON or form body with secrets removed; for other bodies, only the length. */
export function redactBody(contentType: string | undefined, body: string | Uint8Array): string {
  const text = typeof body === 'string' ? body : Buffer.from(body).toString('utf8');
  const bytes = `${Buffer.byteLength(text)} bytes`;
  if (contentType?.includes('json') === true) {
    try {
      const json = JSON.stringify(
        JSON.parse(text, (key, value: unknown) => (isSecretName(key) ? '[redacted]' : value)),
      );
      return json.length > SHOWN_BYTES_MAX ? bytes : redactText(json);
    } catch {
      return bytes;
    }
  }
  if (contentType?.includes('x-www-form-urlencoded') !== true) return bytes;
  return [...new URLSearchParams(text)]
    .map(
      ([name, value]) =>
        `${name}=${isSecretName(name) || FORM_SECRET_NAME.test(name) ? '[redacted]' : redactText(value)}`,
    )
    .join('&');
}

/** The secrets in a request: its credential, and body members with such a name. */
export function listSecrets(
  headers: Readonly<Record<string, string>> | undefined,
  body?: string | Uint8Array | AsyncIterable<Uint8Array>,
): string[] {
  const credential = headers?.['authorization']?.replace(/^\S+\s+/, '') ?? '';
  return [credential, ...(typeof body === 'string' ? secretsOfBody(headers?.['content-type'], body) : [])].filter(
    (secret) => secret.length >= SECRET_MIN_LENGTH,
  );
}

function secretsOfBody(contentType: string | undefined, body: string): string[] {
  if (contentType?.includes('x-www-form-urlencoded') === true)
    return [...new URLSearchParams(body)].flatMap(([name, value]) =>
      isSecretName(name) || FORM_SECRET_NAME.test(name) ? [value] : [],
    );
  return [];
}

/** `text` with all of these removed, in case an answer repeats them. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce(
    (rest, secret) => rest.replaceAll(secret, '[redacted]').replaceAll(encodeURIComponent(secret), '[redacted]'),
    text,
  );
}

function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !PUBLIC_NAME.test(name);
}

/** TLS options for services and proxies. Setting them here overrides NODE_TLS_REJECT_UNAUTHORIZED. */
export const VERIFIED_TLS = { rejectUnauthorized: true, minVersion: 'TLSv1.2' } as const;

const BODY_MAX_BYTES = 64 * 1024 * 1024;
const HEADERS_MAX_BYTES = 16 * 1024;
const CONNECT_TIMEOUT_MS = 10_000;
const SILENCE_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_MS = 4_000;
const REDIRECTS_MAX = 3;
const CONNECTIONS_MAX = 16;

/** One HTTP request, without retries or credentials of its own. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | 'HEAD';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Return a redirect as the answer, and request nothing from its address. */
  readonly isRedirectAnAnswer?: boolean | undefined;
  /** Refuse an answer larger than this many bytes (default 64 MiB). Ignored by `open`. */
  readonly maxBytes?: number | undefined;
  /** How long the service may be silent, before and during its answer (default 30 s). */
  readonly silenceTimeoutMs?: number | undefined;
}

/** An answer. Header names are lower case; a repeated header is joined by `, `. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** An answer whose body is read as it arrives. */
export interface HttpStream {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** A pause before the next attempt of a request, as it begins. */
export interface RetryPause {
  /** How long it lasts, in milliseconds. */
  readonly delayMs: number;
  /** The number of attempts so far. */
  readonly attempts: number;
  /** Why the last attempt did not succeed. */
  readonly failure: RequestError;
}

/**
 * Sends HTTP requests over pooled connections. It refuses plain http beyond loopback, verifies certificates regardless
 * of the environment, follows redirects only for GET within one origin (at most 3), and uses the configured proxy.
 * The outcome of a failure says whether the request may have reached the service.
 */
export interface Transport {
  /** @throws RequestError `ASP_UNREACHABLE`, `ASP_TLS`, `ASP_TIMEOUT`, `ASP_ABORTED`, `ASP_INSECURE_ADDRESS`, `ASP_BAD_ANSWER`. */
  send(request: HttpRequest): Promise<HttpAnswer>;
  /** Like `send`, but resolves once the headers have arrived. @throws RequestError */
  open(request: HttpRequest): Promise<HttpStream>;
  /**
   * A TLS connection to the host of `url` through its proxy; undefined if no proxy is used. For protocols other than
   * HTTP. @throws RequestError
   */
  tunnel(url: URL, signal?: AbortSignal): Promise<Socket | undefined>;
  readonly clock: Clock;
  readonly trace: Trace | undefined;
  /** The latest time to start a retry, on the monotonic clock, in milliseconds. */
  readonly deadline: number | undefined;
  /** Called when a retry starts to wait. */
  readonly onPause: ((pause: RetryPause) => void) | undefined;
  /** Closes all connections. Idle connections do not keep the process alive. */
  close(): Promise<void>;
}

/** Options of {@link createTransport}. */
export interface TransportOptions {
  /** The clock; `systemClock` except in tests. */
  readonly clock: Clock;
  /** Which proxy to use for an address (default: none); see {@link proxyFromEnvironment}. */
  readonly proxy?: ProxyRule | undefined;
  /** Receives a redacted line for every network event. */
  readonly trace?: Trace | undefined;
  /** The `User-Agent` header (default `asp-cli`). */
  readonly userAgent?: string | undefined;
  /** The latest time for a next attempt to start, on the clock's monotonic scale, in milliseconds. */
  readonly deadline?: number | undefined;
  /** Called when a request starts to wait for its next attempt, so that a person can see it. */
  readonly onPause?: ((pause: RetryPause) => void) | undefined;
}

/** Creates a transport on undici. The first request opens the connections. */
export function createTransport(options: TransportOptions): Transport {
  const { clock, trace, proxy = () => undefined, userAgent = 'asp-cli', deadline, onPause } = options;
  const connectDirectly = buildConnector({ ...VERIFIED_TLS, timeout: CONNECT_TIMEOUT_MS });
  const agent = new Agent({
    connections: CONNECTIONS_MAX,
    pipelining: 1,
    maxHeaderSize: HEADERS_MAX_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MS,
    connect(target, done) {
      const address = proxy(new URL(`${target.protocol}//${target.host ?? target.hostname}`));
      if (address === undefined) return connectDirectly(target, done);
      openTunnel(address, target.hostname, target.port).then(
        (httpSocket) => connectDirectly({ ...target, httpSocket }, done),
        (error: unknown) => done(toFailure(error, address.host, 'not_applied'), null),
      );
    },
  });

  const open = async (request: HttpRequest, redirects = 0): Promise<HttpStream> => {
    const url = secureUrl(request.url);
    const headers = { 'user-agent': userAgent, ...request.headers };
    trace?.({ kind: 'request', text: describe(request, headers) });
    const startedAt = clock.monotonic();
    let answer: OpenAnswer;
    try {
      answer = await exchange(agent, url, { ...request, headers });
    } catch (error) {
      trace?.({ kind: 'failure', text: error instanceof RequestError ? `${error.code} ${error.message}` : 'failure' });
      throw error;
    }
    const { status, headers: head, body } = answer;
    if (trace !== undefined) {
      const shown = redactSecrets(redactHeaders(head), listSecrets(request.headers, request.body));
      trace({ kind: 'answer', text: `${status} after ${Math.round(clock.monotonic() - startedAt)} ms ${shown}` });
    }
    const location = head['location'];
    const isRedirect = status >= 300 && status < 400 && status !== 304 && location !== undefined;
    if (!isRedirect || request.isRedirectAnAnswer === true) return answer;
    body.destroy();
    const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined;
    if (request.method !== 'GET' || next?.origin !== url.origin || redirects >= REDIRECTS_MAX)
      throw badAnswer(`${url.origin} answered with a redirect, which asp does not follow here.`, 'not_applied', status);
    return open({ ...request, url: next.href }, redirects + 1);
  };

  return {
    clock,
    trace,
    deadline,
    onPause,
    open: (request) => open(request),
    async send(request): Promise<HttpAnswer> {
      const stream = await open(request);
      const body = await collect(stream.body, request.maxBytes ?? BODY_MAX_BYTES, new URL(request.url).origin);
      const { status, headers } = stream;
      const answer = status < 400 ? { status, headers, body } : withoutEcho(request, { status, headers, body });
      if (trace !== undefined && body.length > 0)
        trace({ kind: 'answer', text: redactBody(headers['content-type'], answer.body) });
      return answer;
    },
    async tunnel(url, signal) {
      const address = proxy(url);
      if (address === undefined) return undefined;
      const port = url.port === '' ? '443' : url.port;
      try {
        const httpSocket = await openTunnel(address, url.hostname, port, signal);
        const target = { protocol: 'https:', hostname: url.hostname, host: url.host, port, httpSocket };
        return await new Promise<Socket>((resolve, reject) =>
          connectDirectly(target, (error, socket) => (error === null ? resolve(socket) : reject(error))),
        );
      } catch (error) {
        throw toFailure(error, address.host, 'not_applied', { signal });
      }
    },
    close: () => agent.destroy(),
  };
}

interface OpenAnswer extends HttpStream {
  readonly body: Readable;
}

/**
 * One request on a pooled connection. undici calls `onRequestStart` right before it writes the first byte: a request
 * that fails earlier was never sent, whatever the reason, and one that fails later may have been carried out.
 */
function exchange(agent: Agent, url: URL, request: HttpRequest): Promise<OpenAnswer> {
  const { method, signal, headers = {}, silenceTimeoutMs = SILENCE_TIMEOUT_MS } = request;
  return new Promise((resolve, reject) => {
    let outcome: Outcome = 'not_applied';
    let controller: Dispatcher.DispatchController | undefined;
    let answer: Readable | undefined;
    let isOver = false;
    let sourceError: { readonly error: unknown } | undefined;

    const end = (): void => {
      isOver = true;
      signal?.removeEventListener('abort', onAbort);
    };
    const fail = (error: unknown): void => {
      if (isOver) return;
      end();
      const failure =
        sourceError?.error ?? toFailure(error, url.origin, outcome, { signal, wasSent: controller !== undefined });
      const reason = failure instanceof Error ? failure : new Error('the request failed');
      if (answer === undefined) reject(failure);
      else answer.destroy(reason);
      controller?.abort(reason);
    };
    const onAbort = (): void => fail(signal?.reason);
    const source = async function* (body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      try {
        yield* body;
      } catch (error) {
        sourceError = { error };
        throw error;
      }
    };

    if (signal?.aborted === true) return fail(signal.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    const { body } = request;
    const isWhole = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
    agent.dispatch(
      {
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method,
        headers,
        body: isWhole ? (body ?? null) : Readable.from(source(body), { objectMode: false }),
        headersTimeout: silenceTimeoutMs,
        bodyTimeout: silenceTimeoutMs,
      },
      {
        onRequestStart(started) {
          if (isOver) return started.abort(new Error('canceled before it was sent'));
          controller = started;
          if (method !== 'GET' && method !== 'HEAD') outcome = 'unknown';
        },
        onResponseStart(started, status, received) {
          if (status < 200) return;
          answer = new Readable({
            read: () => started.resume(),
            destroy(error, done) {
              end();
              started.abort(error ?? new Error('the reader of the answer is gone'));
              done(error);
            },
          });
          outcome = 'unknown';
          resolve({ status, headers: flatten(received), body: answer });
        },
        onResponseData(started, chunk) {
          if (answer?.push(chunk) === false) started.pause();
        },
        onResponseEnd() {
          end();
          answer?.push(null);
        },
        onResponseError: (_, error) => fail(error),
      },
    );
  });
}

async function collect(body: AsyncIterable<Uint8Array>, maxBytes: number, origin: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > maxBytes) throw badAnswer(`The answer of ${origin} is larger than ${maxBytes} bytes.`, 'unknown');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

/** A refusal that repeats the refused credential must not show it to the reader. */
function withoutEcho(request: HttpRequest, { status, headers, body }: HttpAnswer): HttpAnswer {
  const secrets = listSecrets(request.headers, request.body);
  const clean = Object.entries(headers).map(([name, value]) => [name, redactSecrets(value, secrets)]);
  const isEchoed = secrets.some((secret) => body.includes(secret) || body.includes(encodeURIComponent(secret)));
  return {
    status,
    headers: Object.fromEntries(clean),
    body: isEchoed ? Buffer.from(redactSecrets(body.toString('utf8'), secrets)) : body,
  };
}

function flatten(received: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(received))
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  return headers;
}

function badAnswer(message: string, outcome: Outcome, status?: number): RequestError {
  return new RequestError({ code: 'ASP_BAD_ANSWER', message, outcome, status, isRetryable: false });
}

function describe(request: HttpRequest, headers: Readonly<Record<string, string>>): string {
  const { body } = request;
  const isShown = typeof body === 'string' || body instanceof Uint8Array;
  const shown = isShown ? ` ${redactBody(headers['content-type'], body)}` : body === undefined ? '' : ' (stream)';
  return `${request.method} ${redactUrl(request.url)} ${redactHeaders(headers)}${shown}`;
}

/** The address of the proxy to use for `url`; undefined for none. */
export type ProxyRule = (url: URL) => URL | undefined;

/**
 * The proxy that `HTTPS_PROXY`, or else `ALL_PROXY`, names (lower case too), except for the hosts in `NO_PROXY`: `*`, a
 * host, a domain with or without its leading dot (including subdomains), either with `:port`, or an IPv4 range such as
 * `10.0.0.0/8`. Loopback addresses never use a proxy. Plain http goes to loopback only, so `HTTP_PROXY`, which a CGI
 * program must not trust, is never read.
 */
export function proxyFromEnvironment(environment: Readonly<Record<string, string | undefined>>): ProxyRule {
  const proxy = findProxy(environment)?.address;
  if (proxy === undefined) return () => undefined;
  const exceptions = (environment['no_proxy'] ?? environment['NO_PROXY'] ?? '')
    .split(/[\s,]+/)
    .filter((entry) => entry !== '');
  return (url) =>
    isLoopbackHost(url.hostname) || exceptions.some((entry) => isExcepted(entry.toLowerCase(), url))
      ? undefined
      : proxy;
}

/** The variable that names a proxy, and the address of the proxy; undefined if it is not that of an HTTP proxy. */
export function findProxy(
  environment: Readonly<Record<string, string | undefined>>,
): { readonly name: string; readonly address: URL | undefined } | undefined {
  const names = ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'];
  const name = names.find((each) => (environment[each] ?? '') !== '');
  if (name === undefined) return undefined;
  const named = environment[name] ?? '';
  const text = named.includes('://') ? named : `http://${named}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return { name, address: url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined };
}

function isExcepted(entry: string, url: URL): boolean {
  if (entry === '*') return true;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const range = /^(\d+\.\d+\.\d+\.\d+)\/(\d+)$/.exec(entry);
  if (range !== null) return isInRange(host, range[1] ?? '', Number(range[2]));
  const withPort = /^(.*?)(?::(\d+))?$/.exec(entry.replace(/^\[([^\]]*)\]/, '$1'));
  const port = url.port === '' ? '443' : url.port;
  if (withPort?.[2] !== undefined && !entry.includes('::') && withPort[2] !== port) return false;
  const domain = (withPort?.[1] ?? entry).replace(/^\*?\./, '');
  return host === domain || host.endsWith(`.${domain}`);
}

function isInRange(host: string, network: string, bits: number): boolean {
  const [address, base] = [ipv4(host), ipv4(network)];
  if (address === undefined || base === undefined || bits > 32) return false;
  const size = 2 ** (32 - bits);
  return Math.floor(address / size) === Math.floor(base / size);
}

function ipv4(text: string): number | undefined {
  const parts = text.split('.').map(Number);
  if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) return undefined;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

/**
 * A connection to `hostname` through an HTTP proxy (RFC 9110 §9.3.6). The proxy's own credentials come from its address
 * and go nowhere else.
 */
async function openTunnel(proxy: URL, hostname: string, port: string, signal?: AbortSignal): Promise<Socket> {
  const host = `${hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname}:${port || '443'}`;
  const headers: Record<string, string> = { host };
  if (proxy.username !== '') {
    const login = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
    headers['proxy-authorization'] = `Basic ${Buffer.from(login).toString('base64')}`;
  }
  const client = new Client(proxy.origin, {
    headersTimeout: CONNECT_TIMEOUT_MS,
    maxHeaderSize: HEADERS_MAX_BYTES,
    connect: { ...VERIFIED_TLS, timeout: CONNECT_TIMEOUT_MS },
  });
  const { statusCode, socket } = await client.connect({ path: host, headers, signal });
  if (statusCode === 200 && socket instanceof Socket) return socket;
  socket.destroy();
  throw new RequestError({
    code: 'ASP_UNREACHABLE',
    message:
      statusCode === 407
        ? 'The proxy requires a user and a password, or refused the ones in HTTPS_PROXY (status 407).'
        : `The proxy refused the connection with status ${statusCode}.`,
    isRetryable: statusCode >= 500,
  });
}
