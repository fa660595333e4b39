import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** How to break a connection. */
type Cut = 'reset' | 'end' | 'silence';

/** A TCP proxy that breaks connections: only WebSockets, or all of them. */
export interface SocketCutter {
  readonly port: number;
  /** The port to forward to. Set it before the first connection. */
  targetPort: number;
  /** The number of connections that have sent data to the client; for a WebSocket, more than the handshake's answer. */
  readonly carrying: number;
  /** Breaks every open connection. Returns how many there were. */
  cutAll(how: Cut): number;
  /** Breaks every new connection after this number of bytes from the target; undefined breaks none. */
  cutAfter(bytes: number | undefined, how?: Cut): void;
  /** The number of connections broken so far. */
  readonly cuts: number;
  stop(): Promise<void>;
}

interface Pair {
  readonly client: Socket;
  readonly upstream: Socket;
  isSocket: boolean;
  isSilent: boolean;
  /** The number of chunks received from the target. */
  pieces: number;
}

/** Starts a proxy to a local port. */
export async function startSocketCutter(breaks: 'sockets' | 'all' = 'sockets'): Promise<SocketCutter> {
  const pairs = new Set<Pair>();
  let targetPort = 0;
  let cuts = 0;
  let limit: { readonly bytes: number; readonly how: Cut } | undefined;

  const breakPair = (pair: Pair, how: Cut): void => {
    if (!pairs.delete(pair) || pair.isSilent) return;
    cuts += 1;
    if (how === 'silence') {
      pair.isSilent = true;
      pair.client.pause();
      pair.upstream.destroy();
      silent.add(pair.client);
      return;
    }
    if (how === 'reset') pair.client.resetAndDestroy();
    else pair.client.end();
    pair.upstream.destroy();
  };
  const silent = new Set<Socket>();

  const server = createServer((client) => {
    const pair: Pair = {
      client,
      upstream: connect(targetPort, '127.0.0.1'),
      isSocket: breaks === 'all',
      isSilent: false,
      pieces: 0,
    };
    pairs.add(pair);
    let passed = 0;
    client.on('data', (chunk) => {
      pair.isSocket ||= /^upgrade: *websocket/im.test(chunk.toString('latin1'));
      pair.upstream.write(chunk);
    });
    pair.upstream.on('data', (chunk) => {
      if (pair.isSilent || !pairs.has(pair)) return;
      const mine = pair.isSocket ? limit : undefined;
      const left = mine === undefined ? chunk.length : mine.bytes - passed;
      passed += chunk.length;
      pair.pieces += 1;
      client.write(chunk.subarray(0, Math.max(0, left)));
      if (mine !== undefined && passed >= mine.bytes) breakPair(pair, mine.how);
    });
    const finish = (): void => {
      if (pair.isSilent) return;
      pairs.delete(pair);
      client.destroy();
      pair.upstream.destroy();
    };
    for (const socket of [client, pair.upstream]) {
      socket.on('error', finish);
      socket.on('close', finish);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get carrying() {
      const least = breaks === 'all' ? 1 : 2;
      return [...pairs].filter((pair) => pair.isSocket && pair.pieces >= least).length;
    },
    cutAll(how) {
      const open = [...pairs].filter((pair) => pair.isSocket);
      for (const pair of open) breakPair(pair, how);
      return open.length;
    },
    cutAfter(bytes, how = 'reset') {
      limit = bytes === undefined ? undefined : { bytes, how };
    },
    get targetPort() {
      return targetPort;
    },
    set targetPort(port) {
      targetPort = port;
    },
    get cuts() {
      return cuts;
    },
    async stop() {
      for (const pair of [...pairs]) breakPair(pair, 'reset');
      for (const socket of silent) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
