import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { connect, createClientCredential, type TailItem } from '../../../src/library/library.js';
import { type Actor, actorOf, callApi, createActor } from '../../support/actors.js';
import { type Balancer, startBalancer } from '../../support/balancer.js';
import { type Cluster, type Node, startCluster } from '../../support/cluster.js';
import { request } from '../../support/http.js';
import { field, list } from '../../support/json.js';
import { createLedger, findFaults } from '../../support/ledger.js';
import { NATS_URL, whyNoNats } from '../../support/nats-server.js';
import { discover } from '../../support/oauth.js';
import { operatorOf } from '../../support/operator.js';
import { type PrivatePostgres, startPrivatePostgres, whyNoPrivatePostgres } from '../../support/private-postgres.js';
import { createSchema, type Schema } from '../../support/stores.js';
import { createTally, IS_LONG, quantile } from '../../support/tally.js';
import { until } from '../../support/until.js';

const NODES = 3;
const [ROUNDS, WRITERS, SESSIONS] = IS_LONG ? [10, 32, 10] : [1, 9, 3];
/** One in this many acknowledged writes is read at another node at once. */
const READ_BACK_EVERY = 10;
const HEALED_WITHIN_MS = 60_000;
const [READERS, TAILS_EACH] = [2, 4];
/** The other services notice within 70 s that one has died, and the sockets that it had are gone. */
const OFFLINE_WITHIN_MS = 90_000;

/** A private server if one can be started. The shared server must not be restarted. */
let server: PrivatePostgres | undefined;
const NO_RESTART = whyNoPrivatePostgres();
if (NO_RESTART !== undefined) process.stderr.write(`PostgreSQL as a whole is not restarted: ${NO_RESTART}\n`);
const NO_BUS = await whyNoNats();
if (NO_BUS !== undefined) process.stderr.write(`The bus is not cut: ${NO_BUS}\n`);
let schema: Schema;
let balancer: Balancer;
let cluster: Cluster;
let name: string;

beforeAll(async () => {
  server = NO_RESTART === undefined ? await startPrivatePostgres() : undefined;
  schema = createSchema(server?.url);
  name = new URL(schema.url).searchParams.get('search_path') ?? '';
  balancer = await startBalancer();
  cluster = await startCluster({
    count: NODES,
    databaseUrl: schema.url,
    name,
    busUrl: NO_BUS === undefined ? NATS_URL : undefined,
    publicUrl: `http://127.0.0.1:${balancer.port}`,
  });
  balancer.targets = cluster.nodes.map(({ port }) => port);
});
afterAll(async () => {
  await cluster?.stop();
  await balancer?.stop();
  if (server === undefined) await schema?.drop();
  await server?.stop();
});

const isOnline = async (baseUrl: string, actor: Actor): Promise<boolean> =>
  field((await callApi(baseUrl, await actor.token(), 'GET', '/agents/me')).json, 'is_online') === true;

const isReady = async (node: Node): Promise<boolean> => {
  const late = pause(2_000, undefined, { ref: false });
  const answer = await Promise.race([request(`http://127.0.0.1:${node.port}/ready`).catch(() => undefined), late]);
  return answer?.status === 200;
};

/** Follows all sessions as the library does, and so `asp tail`. Adds what it shows to `items`, until `signal`. */
async function follow({ credentials }: Actor, sessions: readonly string[], items: TailItem[], signal: AbortSignal) {
  const service = { baseUrl: `http://127.0.0.1:${balancer.port}/v1` };
  const client = connect({ service, credential: createClientCredential({ service, ...credentials }) });
  for await (const item of client.tail({ sessions: sessions.map((sessionId) => ({ sessionId })), signal }))
    items.push(item);
}

/** Compares what a tail showed of a session with its log. Returns every difference. */
function findTailFaults(session: string, items: readonly TailItem[], last: number): string[] {
  const faults = items.flatMap(({ kind }) =>
    ['gap', 'end', 'restored'].includes(kind) ? [`a tail says ${kind}`] : [],
  );
  const shown = items.flatMap((item) =>
    item.kind === 'event' && item.event.session_id === session ? [item.event.sequence] : [],
  );
  const wrong = shown.findIndex((sequence, index) => sequence !== index + 1);
  if (wrong >= 0) faults.push(`event ${wrong + 1} of a tail of ${session} is ${shown[wrong]}`);
  if (shown.length !== last) faults.push(`a tail of ${session} shows ${shown.length} of ${last} events`);
  return faults;
}

/** Cuts the bus of these nodes. They notify each other through the database until it is back. */
async function cutBus(nodes: readonly Node[], holdMs: number): Promise<number> {
  const cutters = nodes.flatMap(({ busCutter }) => busCutter ?? []);
  const ports = cutters.map(({ targetPort }) => targetPort);
  let count = 0;
  for (const cutter of cutters) {
    cutter.targetPort = 1;
    count += cutter.cutAll('reset');
  }
  await pause(holdMs);
  for (const [index, cutter] of cutters.entries()) cutter.targetPort = ports[index] ?? 0;
  return count;
}

/** Too short for the others to consider it dead. */
const STOPPED_MS = 30_000;

/** Breaks a node. Resolves when the fault is over, with the number of times it took effect. */
type Fault = (node: Node, holdMs: number) => Promise<number>;

const EVERY_FAULT = {
  async kill(node, holdMs) {
    node.running.kill('SIGKILL');
    await node.running.ended;
    await pause(holdMs);
    await cluster.startAgain(node);
    return 1;
  },
  async stop(node) {
    node.running.kill('SIGSTOP');
    await pause(STOPPED_MS);
    node.running.kill('SIGCONT');
    return 1;
  },
  async reset(node, holdMs) {
    const { targetPort } = node.cutter;
    node.cutter.targetPort = 1;
    const count = node.cutter.cutAll('reset');
    await pause(holdMs);
    node.cutter.targetPort = targetPort;
    return count;
  },
  async silence(node) {
    return node.cutter.cutAll('silence');
  },
  bus: (node, holdMs) => cutBus([node], holdMs),
  buses: (_, holdMs) => cutBus(cluster.nodes, holdMs),
  async terminate() {
    const client = new pg.Client({ connectionString: schema.url });
    await client.connect();
    // Only the connections of this test's services have this application name.
    const { rowCount } = await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE application_name = $1 AND pid <> pg_backend_pid()`,
      [name],
    );
    await client.end();
    return rowCount ?? 0;
  },
  async restart() {
    await server?.restartImmediately();
    return server === undefined ? 0 : 1;
  },
} satisfies Readonly<Record<string, Fault>>;
/** Every change runs only the faults that are over quickly. */
const { stop: _, silence: __, ...QUICK } = EVERY_FAULT;
const FAULTS: Readonly<Record<string, Fault>> = Object.fromEntries(
  Object.entries(IS_LONG ? EVERY_FAULT : QUICK).filter(
    ([kind]) => (kind !== 'restart' || NO_RESTART === undefined) && (!kind.startsWith('bus') || NO_BUS === undefined),
  ),
);

describe(`${NODES} services on one database, while things break`, () => {
  it(
    `lose and double nothing acknowledged, keep one order without gaps, show it to every tail, and know what any of them acknowledged: ${ROUNDS} rounds of ${Object.keys(FAULTS).join(', ')}`,
    async () => {
      const tally = createTally('three services on one database');
      const { nodes } = cluster;
      const [one] = nodes;
      if (one === undefined) throw new Error('no node');
      const place = await discover(`http://127.0.0.1:${balancer.port}/v1`);
      let alice: Actor = await createActor(place, operatorOf(one.home), 'alice');
      let token = await alice.token();
      const readers: Actor[] = [];
      for (let index = 0; index < READERS; index += 1)
        readers.push(await createActor(place, operatorOf(one.home), `reader${index}`));
      /** On a busy machine, ten rounds take longer than a token lasts. */
      const renewTokens = async (): Promise<void> => {
        alice = actorOf(place, alice.handle, alice.credentials);
        token = await alice.token();
        for (const [index, { handle, credentials }] of readers.entries())
          readers[index] = actorOf(place, handle, credentials);
      };
      const invite = readers.map(({ handle }) => handle);
      const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => alice.mustCreate({ invite })));
      for (const session of sessions) for (const reader of readers) await reader.mustJoin(session);
      const stop = new AbortController();
      const tails = Array.from({ length: READERS * TAILS_EACH }, (): TailItem[] => []);
      const endings = new Map<number, unknown>();
      const followers = tails.map((items, index) =>
        follow(readers[index % READERS] ?? alice, sessions, items, stop.signal).catch((error) => {
          endings.set(index, error);
        }),
      );
      const ledger = createLedger();
      let isOver = false;
      const reads = { fresh: 0, stale: 0, unanswered: 0 };

      const readBack = async (session: string, sequence: number, id: string, notAt: Node): Promise<void> => {
        const other = tally.random.pick(nodes.filter((node) => node !== notAt));
        const path = `/sessions/${session}/events?after_sequence=${sequence - 1}&limit=1`;
        const late = pause(8_000, undefined, { ref: false });
        const asked = callApi(other.baseUrl, token, 'GET', path).catch(() => undefined);
        const answer = await Promise.race([asked, late]);
        if (answer?.status !== 200) reads.unanswered += 1;
        else if (field(answer.json, 'events.0.payload.id') === id) reads.fresh += 1;
        else reads.stale += 1;
      };
      const writers = Array.from({ length: WRITERS }, (_, index) => {
        const session = sessions[index % SESSIONS] ?? '';
        let node = one;
        return ledger.writeUntil(
          () => isOver,
          session,
          ({ key, content }) => {
            node = tally.random.pick(nodes);
            return callApi(node.baseUrl, token, 'POST', `/sessions/${session}/messages`, { content }, { key });
          },
          async (_write, { sequence, id }) => {
            if (tally.random.below(READ_BACK_EVERY) === 0) await readBack(session, sequence, id, node);
          },
        );
      });

      const healing: Record<string, number[]> = {};
      for (let round = 0; round < ROUNDS; round += 1) {
        await renewTokens();
        for (const [name, fault] of Object.entries(FAULTS)) {
          const { ok } = ledger.counts;
          await until('the services work', async () => ledger.counts.ok > ok + 2 * WRITERS, HEALED_WITHIN_MS);
          const node = tally.random.pick(nodes);
          const count = await fault(node, 200 + tally.random.below(IS_LONG ? 4_000 : 800));
          if (count > 0) tally.fired(name);
          const before = performance.now();
          const acknowledged = ledger.counts.ok;
          await until(
            `all are ready and write again after ${name}`,
            async () =>
              (await Promise.all(nodes.map(isReady))).every(Boolean) && ledger.counts.ok > acknowledged + WRITERS,
            HEALED_WITHIN_MS,
          );
          healing[name] = [...(healing[name] ?? []), performance.now() - before];
        }
      }
      isOver = true;
      await Promise.all(writers);
      await renewTokens();

      const faults: string[] = [];
      const logs = new Set<string>();
      const lastSequences = new Map<string, number>();
      let events = 0;
      for (const session of sessions) {
        const log = await alice.mustReplay(session);
        events += log.length;
        faults.push(...findFaults(session, log, ledger));
        lastSequences.set(session, log.length);
        for (const node of nodes) {
          const path = `/sessions/${session}/events?after_sequence=${log.length - 1}&limit=1`;
          logs.add(`${session} ${(await callApi(node.baseUrl, token, 'GET', path)).text}`);
        }
      }
      // Every reader's list, at every node.
      for (const reader of readers)
        for (const { baseUrl } of nodes) {
          const answer = await callApi(baseUrl, await reader.token(), 'GET', '/sessions');
          const listed = new Map(
            list(answer.json, 'sessions').map((session) => [field(session, 'id'), field(session, 'last_sequence')]),
          );
          if (!isDeepStrictEqual(listed, new Map<unknown, unknown>(lastSequences)))
            faults.push(`${reader.handle} lists ${answer.text}`);
        }
      const findLacking = (): string[] =>
        tails.flatMap((items, index) => {
          const notes = items.filter(({ kind }) => kind !== 'event');
          const shown = items.length - notes.length;
          const end = endings.get(index) ?? '';
          return shown >= events
            ? []
            : [`tail ${index} has ${shown} of ${events}: ${JSON.stringify(notes.slice(-3))} ${end}`];
        });
      await until('every tail has everything', async () => findLacking().length === 0, HEALED_WITHIN_MS).catch(
        (late) => {
          throw new Error([String(late), ...findLacking()].join('\n'));
        },
      );
      const areOnline = async (): Promise<boolean[]> =>
        Promise.all(nodes.flatMap(({ baseUrl }) => readers.map((reader) => isOnline(baseUrl, reader))));
      await until('all readers are online at all nodes', async () => (await areOnline()).every(Boolean));
      stop.abort();
      await Promise.all(followers);
      for (const [index, error] of endings) faults.push(`tail ${index} has ended: ${error}`);
      for (const [session, last] of lastSequences)
        for (const items of tails) faults.push(...findTailFaults(session, items, last));
      const stoppedAt = performance.now();
      await until('no reader is online at any node', async () => !(await areOnline()).some(Boolean), OFFLINE_WITHIN_MS);
      const offlineMs = performance.now() - stoppedAt;
      const healed = Object.entries(healing).map(([name, times]) => [name, Math.round(quantile(times, 1))]);
      tally.finish(Object.keys(FAULTS), {
        ...ledger.counts,
        events,
        wrong: faults.length,
        reads,
        reconnects: tails.map((items) => items.filter(({ kind }) => kind === 'reconnecting').length),
        offline_ms: Math.round(offlineMs),
        healed_ms_max: Object.fromEntries(healed),
      });
      expect(faults).toEqual([]);
      expect(logs.size).toBe(SESSIONS);
      expect(reads.stale).toBe(0);
      expect(reads.fresh).toBeGreaterThan(0);
    },
    IS_LONG ? 3_600_000 : 300_000,
  );
});
