import { createHome, type Home, type Running } from '../acceptance/program.js';
import { type SocketCutter, startSocketCutter } from './socket-cutter.js';

/** One of several services, connected to the database through a proxy that can be cut. */
export interface Node {
  readonly home: Home;
  readonly cutter: SocketCutter;
  /** A proxy in front of its bus that can be cut. */
  readonly busCutter: SocketCutter | undefined;
  readonly running: Running;
  readonly port: number;
  readonly baseUrl: string;
}

/** Several real services on one database. */
export interface Cluster {
  readonly nodes: readonly Node[];
  /** Starts a node again with the port and home of one that has ended, as this or a different program. */
  startAgain(node: Node, program?: string): Promise<void>;
  stop(): Promise<void>;
}

export interface ClusterOptions {
  readonly count: number;
  readonly databaseUrl: string;
  /** The application name of the nodes' database connections. */
  readonly name: string;
  /** A bus other than the database; each node connects to it through its own proxy. */
  readonly busUrl?: string | undefined;
  /** By default, the address of the first node. */
  readonly publicUrl?: string;
  /** More arguments of `asp serve`. */
  readonly options?: readonly string[];
}

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const nodes: Node[] = [];
  const database = new URL(options.databaseUrl);
  const start = async (
    { home, cutter, busCutter }: Pick<Node, 'home' | 'cutter' | 'busCutter'>,
    port: number,
    publicUrl?: string,
    program?: string,
  ): Promise<Node> => {
    const url = new URL(database);
    url.port = String(cutter.port);
    url.searchParams.set('application_name', options.name);
    const words = [
      'serve',
      '--port',
      String(port),
      '--data',
      // All nodes share one attachments folder.
      `${(nodes[0]?.home ?? home).directory}/data`,
      '--limits',
      'off',
      ...(busCutter === undefined ? [] : ['--bus', `nats://127.0.0.1:${busCutter.port}`]),
      ...(options.options ?? []),
    ];
    words.push(...(publicUrl === undefined ? [] : ['--public-url', publicUrl]));
    const settings = { environment: { ASP_DATABASE: url.href } };
    const running =
      program === undefined ? home.start(words, settings) : home.spawn(process.execPath, [program, ...words], settings);
    const [, address = ''] = await running.until('stdout', /^(http:\S+)$/m);
    const [, listening] = publicUrl === undefined ? [] : await running.until('stderr', /Listening on \S+:(\d+)\./);
    const own = Number(listening ?? new URL(address).port);
    return { home, cutter, busCutter, running, port: own, baseUrl: `http://127.0.0.1:${own}/v1` };
  };
  const publicUrlOf = (index: number): string | undefined => {
    const [first] = nodes;
    return options.publicUrl ?? (index === 0 ? undefined : `http://127.0.0.1:${first?.port}`);
  };
  const startCutter = async (port: number): Promise<SocketCutter> => {
    const cutter = await startSocketCutter('all');
    cutter.targetPort = port;
    return cutter;
  };
  const { busUrl } = options;
  for (let index = 0; index < options.count; index += 1) {
    const cutter = await startCutter(Number(database.port || 5432));
    const busCutter = busUrl === undefined ? undefined : await startCutter(Number(new URL(busUrl).port || 4222));
    nodes.push(await start({ home: createHome(), cutter, busCutter }, 0, publicUrlOf(index)));
  }
  return {
    nodes,
    async startAgain(node, program) {
      const index = nodes.indexOf(node);
      Object.assign(node, await start(node, node.port, publicUrlOf(index), program));
    },
    async stop() {
      for (const { home, cutter, busCutter } of nodes) {
        await home.dispose();
        await cutter.stop();
        await busCutter?.stop();
      }
    },
  };
}
