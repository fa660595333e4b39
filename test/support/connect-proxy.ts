import { createServer } from 'node:http';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';

/** A proxy like those in companies: it opens tunnels and does nothing else. */
export interface ConnectProxy {
  readonly port: number;
  /** The `host:port` and credentials of every request. */
  readonly asked: { readonly target: string; readonly authorization: string | undefined }[];
  close(): Promise<void>;
}

/** Starts a proxy that maps names to local ports and refuses all others. With `password`, it requires that password. */
export async function startConnectProxy(
  ports: Readonly<Record<string, number>>,
  password?: string,
): Promise<ConnectProxy> {
  const asked: { target: string; authorization: string | undefined }[] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => sockets.delete(socket));
  };
  const server = createServer((_, response) => response.writeHead(405).end());
  server.on('connect', (request, client: Socket, head: Buffer) => {
    keep(client);
    const target = request.url ?? '';
    const authorization = request.headers['proxy-authorization'];
    asked.push({ target, authorization });
    const expected = password === undefined ? undefined : `Basic ${Buffer.from(password).toString('base64')}`;
    if (authorization !== expected) {
      client.end('HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n');
      return;
    }
    const port = ports[target];
    if (port === undefined) {
      client.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const service = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      service.write(head);
      client.pipe(service).pipe(client);
    });
    keep(service);
    service.once('close', () => client.destroy());
    client.once('close', () => service.destroy());
  });
  const port = await listen(server);
  return {
    port,
    asked,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Listens on a free local port and returns the port. */
export function listen(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}
