import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { connect, createClientCredential, type EventEnvelope, type TailItem } from '../../../src/library/library.js';
import { readDatabaseAddress } from '../../../src/service/store/database-address.js';
import { NEXT, NEXT_VERSION } from '../../service/store/next-release.js';
import { type Actor, createActor } from '../../support/actors.js';
import { type Balancer, startBalancer } from '../../support/balancer.js';
import { type Cluster, type Node, startCluster } from '../../support/cluster.js';
import { request } from '../../support/http.js';
import { buildNextProgram } from '../../support/next-program.js';
import { discover } from '../../support/oauth.js';
import { operatorOf } from '../../support/operator.js';
import { createSchema, type Schema } from '../../support/stores.js';
import { createTally, IS_LONG, quantile } from '../../support/tally.js';
import { until } from '../../support/until.js';

const NODES = 3;
const [ROUNDS, WRITERS, TAILS] = IS_LONG ? [10, 16, 6] : [1, 6, 3];
/** Events that an upgrade finds besides those of the test. */
const STORED = Number(process.env['ASP_TEST_EVENTS'] ?? (IS_LONG ? 1_000_000 : 5_000));

const schema = createSchema();
let balancer: Balancer;
let cluster: Cluster;
let alice: Actor;
let session: string;

beforeAll(async () => {
  balancer = await startBalancer();
  const publicUrl = `http://127.0.0.1:${balancer.port}`;
  cluster = await startCluster({ count: NODES, databaseUrl: schema.url, name: 'rolling-restart', publicUrl });
  balancer.targets = cluster.nodes.map(({ port }) => port);
  const [first] = cluster.nodes;
  if (first === undefined) throw new Error('no node');
  alice = await createActor(await discover(`${publicUrl}/v1`), operatorOf(first.home), 'alice');
  session = await alice.mustCreate();
});
afterAll(async () => {
  await cluster?.stop();
  await balancer?.stop();
  await schema.drop();
});

/** Creates a client of the library with its default number of tries. */
const createClient = () => {
  const service = { baseUrl: `http://127.0.0.1:${balancer.port}/v1` };
  return connect({ service, credential: createClientCredential({ service, ...alice.credentials }) });
};

interface Load {
  readonly acknowledged: Map<string, number>;
  readonly failed: string[];
  /** The number of requests after the first one of each call. */
  retries: number;
  reads: number;
}

/** Alternates between sending and reading until `isOver`. Counts anything thrown as a failure. */
async function speak(load: Load, name: string, isOver: () => boolean): Promise<void> {
  const client = createClient();
  const path = { session_id: session };
  for (let index = 0; !isOver(); index += 1)
    try {
      const content = `${name} ${index}`;
      const sent = await client.call('sendMessage', { path, body: { content } });
      load.acknowledged.set(content, sent.reply.sequence);
      const read = await client.call('replayEvents', { path, query: { after_sequence: sent.reply.sequence - 1 } });
      load.reads += 1;
      load.retries += sent.attempts + read.attempts - 2;
      if (read.reply.events[0]?.sequence !== sent.reply.sequence) throw new Error('what was acknowledged is not read');
    } catch (error) {
      load.failed.push(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
    }
}

/** Collects everything that a tail yields until `signal`. */
async function follow(items: TailItem[], signal: AbortSignal): Promise<void> {
  for await (const item of createClient().tail({ sessions: [{ sessionId: session }], signal })) items.push(item);
}

const eventsOf = (items: readonly TailItem[]): EventEnvelope[] =>
  items.flatMap((item) => (item.kind === 'event' ? [item.event] : []));

/** Stops a node with SIGTERM under load and starts another in its place, perhaps a different program. */
async function restart(node: Node, program?: string): Promise<number> {
  const socket = await alice.mustConnect(undefined, `ws://127.0.0.1:${node.port}/connect`);
  const before = performance.now();
  node.running.kill('SIGTERM');
  expect(await socket.mustBeClosed(20_000)).toBe(1001);
  expect(await node.running.ended).toMatchObject({ status: 0, signal: null });
  const took = performance.now() - before;
  await cluster.startAgain(node, program);
  const ready = `http://127.0.0.1:${node.port}/ready`;
  await until('it is ready', async () => (await request(ready).catch(() => undefined))?.status === 200);
  return took;
}

/** Runs `work` while clients write, read and follow, and checks what they saw. */
async function underLoad(title: string, work: (load: Load, stops: number[]) => Promise<void>): Promise<void> {
  const tally = createTally(title);
  const load: Load = { acknowledged: new Map(), failed: [], retries: 0, reads: 0 };
  const stop = new AbortController();
  let isOver = false;
  const tails = Array.from({ length: TAILS }, (): TailItem[] => []);
  const followers = tails.map((items) => follow(items, stop.signal));
  const speakers = Array.from({ length: WRITERS }, (_, index) => speak(load, `${title} ${index}`, () => isOver));

  const stops: number[] = [];
  await work(load, stops);
  for (const _ of stops) tally.fired('restart');
  isOver = true;
  await Promise.all(speakers);
  const last = Math.max(...load.acknowledged.values());
  await until(
    'every tail has everything',
    async () => tails.every((items) => eventsOf(items).some(({ sequence }) => sequence === last)),
    60_000,
  );
  stop.abort();
  await Promise.all(followers);

  const reconnects = tails.map((items) => items.filter(({ kind }) => kind === 'reconnecting').length);
  tally.finish(['restart'], {
    acknowledged: load.acknowledged.size,
    reads: load.reads,
    failed: load.failed.length,
    retries: load.retries,
    reconnects,
    stop_ms_max: Math.round(quantile(stops, 1)),
  });
  expect(load.failed).toEqual([]);
  const everything = Array.from({ length: last }, (_, index) => index + 1);
  for (const items of tails) {
    expect(items.filter(({ kind }) => kind === 'gap' || kind === 'end')).toEqual([]);
    expect(eventsOf(items).map(({ sequence }) => sequence)).toEqual(everything);
  }
  const said = new Map(
    eventsOf(tails[0] ?? []).map(({ sequence, payload }) => ['content' in payload ? payload.content : '', sequence]),
  );
  for (const [content, sequence] of load.acknowledged) expect(said.get(content)).toBe(sequence);
  expect(Math.min(...reconnects)).toBeGreaterThan(0);
}

const thereIsLoad = async ({ acknowledged }: Load): Promise<void> => {
  const { size } = acknowledged;
  await until('there is load', async () => acknowledged.size > size + 2 * WRITERS, 60_000);
};

describe(`${NODES} services on one database, replaced one after another under load`, () => {
  it(
    `fail no operation of clients that retry, close sockets with 1001, and continue tails with each event once and in order: ${ROUNDS} rounds`,
    () =>
      underLoad('rolling restart', async (load, stops) => {
        for (let round = 0; round < ROUNDS; round += 1)
          for (const node of cluster.nodes) {
            await thereIsLoad(load);
            stops.push(await restart(node));
          }
      }),
    IS_LONG ? 1_800_000 : 180_000,
  );

  it(
    `fail no operation while the next version migrates ${STORED} events and then takes their places`,
    async () => {
      const [next, client] = [await buildNextProgram(NEXT), await connectTo(schema)];
      try {
        await client.query(
          `INSERT INTO event (session_id, sequence, id, type, created_at, payload)
           SELECT 'copy' || number / 1000, number, 'copy' || number, 'session.message', number, '{"content":"${'old '.repeat(40)}"}'
           FROM generate_series(1, ${STORED}) AS number`,
        );
        // PostgreSQL does so itself after a while.
        await client.query('ANALYZE event');
        const { home } = cluster.nodes[0] as Node;
        await underLoad('upgrade', async (load, stops) => {
          await thereIsLoad(load);
          const migrated = await home.spawn(process.execPath, [next.file, 'serve', 'migrate', '--json'], {
            environment: { ASP_DATABASE: schema.url },
          }).ended;
          expect(migrated, migrated.stderr).toMatchObject({ status: 0 });
          const done = JSON.parse(migrated.stdout) as { steps: { rows: number }[] };
          expect(done).toMatchObject({ target_version: NEXT_VERSION, in_the_way: 0 });
          // An estimate.
          expect(done.steps[0]?.rows).toBeGreaterThan(STORED / 2);
          for (const node of cluster.nodes) {
            await thereIsLoad(load);
            stops.push(await restart(node, next.file));
          }
          await thereIsLoad(load);
        });
        const { rows } = await client.query('SELECT DISTINCT schema_version FROM server_process WHERE seen_at > 0');
        expect(rows).toEqual([{ schema_version: NEXT_VERSION }]);
        const unfilled = await client.query(
          "SELECT 1 FROM event WHERE session_id LIKE 'copy%' AND day IS NULL LIMIT 1",
        );
        expect(unfilled.rows).toEqual([]);
      } finally {
        await client.end();
        next.remove();
      }
    },
    IS_LONG ? 3_600_000 : 180_000,
  );
});

async function connectTo({ url }: Schema): Promise<pg.Client> {
  const { connectionStrings, schema: name } = readDatabaseAddress(url);
  const client = new pg.Client({ connectionString: connectionStrings[0] });
  await client.connect();
  await client.query(`SET search_path = ${name}`);
  return client;
}
