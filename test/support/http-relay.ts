import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';

/** One request. The relay forwards it unless the hook does something else. */
export interface Relayed {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** Forwards the request, and returns a function that sends the service's answer to the client. */
  forward(): Promise<() => Promise<void>>;
  /** Answers instead of the service. */
  answer(status: number, headers: Readonly<Record<string, string>>, body: object): void;
  /** Cuts the connection without an answer. */
  drop(): void;
}

/** A relay for HTTP and WebSocket between a program and a service. The target can change. */
export interface HttpRelay {
  readonly port: number;
  targetPort: number;
  onRequest: ((relayed: Relayed) => Promise<void>) | undefined;
  /** Whether a WebSocket may open. Otherwise the answer is 500. */
  mayOpen: (() => boolean) | undefined;
  /** Cuts every connection but accepts new ones. */
  cut(): void;
  stop(): Promise<void>;
}

async function readAll(stream: AsyncIterable<unknown>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part as Uint8Array);
  return Buffer.concat(parts);
}

export async function startHttpRelay(): Promise<HttpRelay> {
  const sockets = new Set<Socket>();
  const track = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {}).once('close', () => sockets.delete(socket));
  };
  const send = async (
    { method, url, headers }: IncomingMessage,
    body: Buffer,
  ): Promise<{ answer: IncomingMessage; bytes: Buffer }> => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const onward = request({ port: relay.targetPort, host: '127.0.0.1', method, path: url, headers, agent: false });
      onward.once('response', resolve).once('error', reject).end(body);
    });
    return { answer, bytes: await readAll(answer) };
  };
  const serve = async (incoming: IncomingMessage, reply: ServerResponse): Promise<void> => {
    const body = await readAll(incoming);
    const relayed: Relayed = {
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: incoming.headers,
      answer: (status, more, body) =>
        void reply.writeHead(status, { 'content-type': 'application/json', ...more }).end(JSON.stringify(body)),
      drop: () => void incoming.socket.destroy(),
      async forward() {
        const { answer, bytes } = await send(incoming, body);
        return () =>
          new Promise((resolve) => {
            reply.once('close', resolve);
            reply.writeHead(answer.statusCode ?? 502, answer.rawHeaders).end(bytes);
          });
      },
    };
    if (relay.onRequest !== undefined) return relay.onRequest(relayed);
    await (await relayed.forward())();
  };
  const server = createServer((incoming, reply) => {
    serve(incoming, reply).catch(() => incoming.socket.destroy());
  });
  server.on('connection', track);
  server.on('upgrade', (incoming, socket, head) => {
    if (relay.mayOpen?.() === false)
      return void socket.end('HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
    const onward = connect(relay.targetPort, '127.0.0.1');
    track(onward);
    const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`];
    for (let index = 0; index < incoming.rawHeaders.length; index += 2)
      lines.push(`${incoming.rawHeaders[index]}: ${incoming.rawHeaders[index + 1]}`);
    onward.write(`${lines.join('\r\n')}\r\n\r\n`);
    onward.write(head);
    onward.pipe(socket).pipe(onward);
    onward.once('close', () => socket.destroy());
    socket.once('close', () => onward.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const relay: HttpRelay = {
    port: (server.address() as AddressInfo).port,
    targetPort: 0,
    onRequest: undefined,
    mayOpen: undefined,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async stop() {
      relay.cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return relay;
}
