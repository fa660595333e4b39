import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One expected request, and how the server handles it. */
export interface Scene {
  readonly method: string;
  readonly path: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON unless it is text. */
  readonly body?: unknown;
  /** `reset` cuts the connection after reading the request; `half` cuts it in the middle of the answer's body. */
  readonly fault?: 'reset' | 'half';
}

interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
}

export interface ScriptedServer {
  readonly origin: string;
  readonly received: readonly ReceivedRequest[];
  expect(...scenes: Scene[]): void;
  /** Closes the server. Fails if a request was not in the script or a scene was never played. */
  finish(): Promise<void>;
}

/** Starts a real HTTP server on a free port of 127.0.0.1 that plays a script. */
export async function startScriptedServer(...script: Scene[]): Promise<ScriptedServer> {
  const scenes = [...script];
  const received: ReceivedRequest[] = [];
  const complaints: string[] = [];
  const server = createServer((request, response) => {
    void play(request, response).catch((error: unknown) => complaints.push(String(error)));
  });
  const play = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    const { method = '' } = request;
    const headers = request.headers as Record<string, string | undefined>;
    const body = Buffer.concat(chunks).toString('utf8');
    received.push({ method, path: url.pathname, query: url.searchParams, headers, body });
    const scene = scenes.shift();
    if (scene === undefined || scene.method !== method || scene.path !== url.pathname) {
      const expected = scene === undefined ? 'nothing more' : `${scene.method} ${scene.path}`;
      complaints.push(`${method} ${url.pathname} came, expected was ${expected}`);
      response.writeHead(599).end();
      return;
    }
    answer(scene, response);
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    received,
    expect: (...more) => void scenes.push(...more),
    async finish() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      for (const scene of scenes) complaints.push(`${scene.method} ${scene.path} never came`);
      if (complaints.length > 0) throw new Error(complaints.join('; '));
    },
  };
}

function answer(scene: Scene, response: ServerResponse): void {
  if (scene.fault === 'reset') {
    response.socket?.resetAndDestroy();
    return;
  }
  const isText = typeof scene.body === 'string';
  const body = isText ? String(scene.body) : scene.body === undefined ? '' : JSON.stringify(scene.body);
  const type = isText ? 'text/plain' : 'application/json';
  response.writeHead(scene.status ?? 200, { 'content-type': type, 'content-length': body.length, ...scene.headers });
  if (scene.fault !== 'half') {
    response.end(body);
    return;
  }
  response.write(body.slice(0, Math.floor(body.length / 2)), () => response.socket?.resetAndDestroy());
}
