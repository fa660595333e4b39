import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One expected call, and its answer. */
export interface Expected {
  /** The method, the path below the base URL, and the query: `POST /sessions`. */
  readonly call: string;
  readonly status?: number;
  readonly reply?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A received call. */
export interface Received {
  readonly call: string;
  readonly key: string | undefined;
  readonly bearer: string | undefined;
  readonly body: unknown;
}

export interface ScriptedService {
  readonly baseUrl: string;
  readonly received: Received[];
  /** The environment of a program that uses this service with a token. */
  readonly environment: Readonly<Record<string, string>>;
  /** Throws if an unexpected call came or an expected one did not. */
  close(): Promise<void>;
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Uint8Array[] = [];
  for await (const part of request) parts.push(part as Uint8Array);
  const text = Buffer.concat(parts).toString();
  if (text === '') return undefined;
  return request.headers['content-type']?.startsWith('application/json') === true ? JSON.parse(text) : text;
}

/** Starts a service that plays a script, call by call. */
export async function startScript(script: readonly Expected[]): Promise<ScriptedService> {
  const waiting = [...script];
  const received: Received[] = [];
  const surprises: string[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const call = `${request.method} ${(request.url ?? '').replace(/^\/v1/, '')}`;
    const body = await bodyOf(request);
    const key = request.headers['idempotency-key'];
    received.push({
      call,
      key: typeof key === 'string' ? key : undefined,
      bearer: request.headers.authorization,
      body,
    });
    const expected = waiting.shift();
    if (expected?.call !== call) surprises.push(`${call} came instead of ${expected?.call ?? 'nothing'}`);
    const { status = 200, reply = {}, headers = {} } = expected ?? { status: 418 };
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof reply === 'string' ? reply : JSON.stringify(reply));
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return {
    baseUrl,
    received,
    environment: { ASP_PROFILE: baseUrl, ASP_TOKEN: 'a-token', ASP_WS_TOKEN: 'a-socket-token' },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      if (surprises.length > 0) throw new Error(surprises.join('; '));
      if (waiting.length > 0) throw new Error(`${waiting.map(({ call }) => call).join(', ')} did not come`);
    },
  };
}

/** Returns the error envelope of a service. */
export function envelope(code: string, message = 'said by the service'): { error: { code: string; message: string } } {
  return { error: { code, message } };
}
