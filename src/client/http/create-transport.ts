import {
  Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from 'node:http';

import { secureUrl } from './address.js';
import { failureOf, timeout } from './failure.js';
import { noProxy } from './proxy.js';
import { type Outcome, RequestError } from './request-error.js';
import { redactBody, redactHeaders, redactSecrets, redactUrl, secretsOf } from './trace.js';
import type { HttpAnswer, HttpRequest, HttpStream, Transport, TransportOptions } from './transport.js';
import { VERIFIED } from './verified.js';

const BODY_MAX_BYTES = 64 * 1024 * 1024;
const CONNECT_TIMEOUT_MS = 10_000;
const SILENCE_TIMEOUT_MS = 30_000;
const REDIRECTS_MAX = 3;
const SOCKETS_MAX = 16;
const IDLE_MS = 4_000;
const AGENT_OPTIONS = { keepAlive: true, maxSockets: SOCKETS_MAX, timeout: IDLE_MS } as const;

interface Connections {
  readonly plain: Agent;
  secure: Agent | undefined;
}

/** A transport on Node's own HTTP client; TLS and proxies are loaded when the first address asks for them. */
export function createTransport(options: TransportOptions): Transport {
  const { clock, trace, proxy = noProxy, userAgent = 'asp-cli' } = options;
  const connections: Connections = { plain: new Agent(AGENT_OPTIONS), secure: undefined };

  const open = async (request: HttpRequest, redirects = 0): Promise<HttpStream> => {
    const url = secureUrl(request.url);
    const headers = { 'user-agent': userAgent, ...request.headers };
    trace?.({ kind: 'request', text: describe(request, headers) });
    const startedAt = clock.monotonic();
    let answer: IncomingMessage;
    try {
      answer = await exchange(connections, transport, url, { ...request, headers });
    } catch (error) {
      trace?.({ kind: 'failure', text: error instanceof RequestError ? `${error.code} ${error.message}` : 'failure' });
      throw error;
    }
    const status = answer.statusCode ?? 0;
    const head = flatten(answer);
    if (trace !== undefined) {
      const shown = redactSecrets(redactHeaders(head), secretsOf(request.headers, request.body));
      trace({ kind: 'answer', text: `${status} after ${Math.round(clock.monotonic() - startedAt)} ms ${shown}` });
    }
    const isRedirect = status >= 300 && status < 400 && status !== 304 && head['location'] !== undefined;
    if (!isRedirect || request.isRedirectAnAnswer === true)
      return { status, headers: head, body: readBody(answer, url, request.signal) };
    answer.resume();
    const next = URL.canParse(head['location'] ?? '', url.href) ? new URL(head['location'] ?? '', url) : undefined;
    if (request.method !== 'GET' || next?.origin !== url.origin || redirects >= REDIRECTS_MAX)
      throw badAnswer(`${url.origin} answered with a redirect, which is not followed here.`, 'not_applied', status);
    return open({ ...request, url: next.href }, redirects + 1);
  };

  const transport: Transport = {
    proxy,
    clock,
    trace,
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
    async close() {
      connections.plain.destroy();
      connections.secure?.destroy();
    },
  };
  return transport;
}

/** A refusal that repeats the credential it refuses must not lead it to whoever reads the refusal. */
function withoutEcho(request: HttpRequest, { status, headers, body }: HttpAnswer): HttpAnswer {
  const secrets = secretsOf(request.headers, request.body);
  const clean = Object.entries(headers).map(([name, value]) => [name, redactSecrets(value, secrets)]);
  const isEchoed = secrets.some((secret) => body.includes(secret) || body.includes(encodeURIComponent(secret)));
  return {
    status,
    headers: Object.fromEntries(clean),
    body: isEchoed ? Buffer.from(redactSecrets(body.toString('utf8'), secrets)) : body,
  };
}

async function exchange(
  connections: Connections,
  transport: Transport,
  url: URL,
  request: HttpRequest,
): Promise<IncomingMessage> {
  const { signal } = request;
  if (signal?.aborted === true) throw failureOf(undefined, url.origin, 'not_applied', signal);
  const options: RequestOptions = {
    method: request.method,
    headers: { ...request.headers, ...lengthOf(request.body) },
    agent: connections.plain,
  };
  let send = httpRequest;
  if (url.protocol === 'https:') {
    const https = await import('node:https');
    send = https.request;
    connections.secure ??= new https.Agent({ ...AGENT_OPTIONS, ...VERIFIED });
    options.agent = connections.secure;
    const proxy = transport.proxy.proxyFor(url);
    if (proxy !== undefined) {
      const { openTunnel } = await import('./tunnel.js');
      const tunnel = await openTunnel(proxy, url, request.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, signal).catch(
        (error: unknown) => Promise.reject(failureOf(error, proxy.host, 'not_applied', signal)),
      );
      // With an agent, be it none of ours, the connection that is given would not be used.
      delete options.agent;
      options.createConnection = () => tunnel;
    }
  }
  return await attempt(send(url, options), transport, url, request);
}

function attempt(
  sending: ClientRequest,
  transport: Transport,
  url: URL,
  request: HttpRequest,
): Promise<IncomingMessage> {
  const { signal } = request;
  const { clock } = transport;
  let outcome: Outcome = 'not_applied';
  return new Promise((resolve, reject) => {
    const giveUp = (error: RequestError): void => {
      reject(error);
      sending.destroy(error);
    };
    const stopClock = clock.schedule(request.connectTimeoutMs ?? CONNECT_TIMEOUT_MS, () =>
      giveUp(timeout(outcome, `${url.origin} did not take the connection in time.`)),
    );
    const onAbort = (): void => giveUp(failureOf(undefined, url.origin, outcome, signal));
    signal?.addEventListener('abort', onAbort, { once: true });
    const onConnected = (): void => {
      stopClock();
      outcome = request.method === 'GET' || request.method === 'HEAD' ? 'not_applied' : 'unknown';
    };
    sending.once('socket', (socket) => {
      if (sending.reusedSocket) onConnected();
      else socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', onConnected);
    });
    sending.setTimeout(request.silenceTimeoutMs ?? SILENCE_TIMEOUT_MS);
    sending.on('timeout', () => {
      const readBefore = sending.socket?.bytesRead;
      // After a standstill this is due before what came meanwhile is read, which the loop does next: an answer to a refresh
      // that is thrown away costs the login.
      setImmediate(() => {
        if (sending.socket?.bytesRead === readBefore) giveUp(timeout(outcome, `${url.origin} did not answer in time.`));
      });
    });
    sending.once('error', (error) => reject(failureOf(error, url.origin, outcome, signal)));
    sending.once('close', () => {
      stopClock();
      signal?.removeEventListener('abort', onAbort);
    });
    sending.once('response', resolve);
    void writeBody(sending, request.body).catch((error: unknown) => {
      reject(error);
      sending.destroy();
    });
  });
}

async function writeBody(sending: ClientRequest, body: HttpRequest['body']): Promise<void> {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    sending.end(body);
    return;
  }
  for await (const chunk of body) {
    if (sending.destroyed) return;
    if (!sending.write(chunk))
      await new Promise<void>((resolve) => {
        sending.once('drain', resolve);
        sending.once('close', resolve);
      });
  }
  sending.end();
}

function lengthOf(body: HttpRequest['body']): Record<string, string> {
  if (typeof body === 'string') return { 'content-length': String(Buffer.byteLength(body)) };
  return body instanceof Uint8Array ? { 'content-length': String(body.byteLength) } : {};
}

async function* readBody(answer: IncomingMessage, url: URL, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  const onAbort = (): void => void answer.destroy(new Error('aborted'));
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    for await (const chunk of answer) yield chunk as Buffer;
  } catch (error) {
    throw failureOf(error, url.origin, 'unknown', signal);
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
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

function flatten(answer: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(answer.headers))
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
