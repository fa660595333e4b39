import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP load balancer for local ports. It skips targets that refuse the connection. */
export interface Balancer {
  readonly port: number;
  /** Used in turn. */
  targets: readonly number[];
  stop(): Promise<void>;
}

export async function startBalancer(): Promise<Balancer> {
  const open = new Set<Socket>();
  let turn = 0;
  const join = (client: Socket, tries: number): void => {
    if (tries === 0) return void client.destroy();
    turn += 1;
    const upstream = connect(balancer.targets[turn % balancer.targets.length] ?? 0, '127.0.0.1');
    let isOpen = false;
    upstream.once('connect', () => {
      isOpen = true;
      client.pipe(upstream).pipe(client);
    });
    upstream.on('error', () => {});
    upstream.once('close', () => {
      if (isOpen) client.destroy();
      else join(client, tries - 1);
    });
    client.once('close', () => upstream.destroy());
  };
  const server = createServer((client) => {
    open.add(client);
    client.on('error', () => {}).once('close', () => open.delete(client));
    join(client, balancer.targets.length);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const balancer: Balancer = {
    port: (server.address() as AddressInfo).port,
    targets: [],
    async stop() {
      for (const client of open) client.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  return balancer;
}
