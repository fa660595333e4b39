import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, callApi, createActor } from '../../support/actors.js';
import { type Cluster, type Node, startCluster } from '../../support/cluster.js';
import { type Answer, request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { discover } from '../../support/oauth.js';
import { operatorOf } from '../../support/operator.js';
import { type PrivatePostgres, startPrivatePostgres, whyNoPrivatePostgres } from '../../support/private-postgres.js';
import { until } from '../../support/until.js';

const reason = whyNoPrivatePostgres();
if (reason !== undefined) process.stderr.write(`No failover of PostgreSQL is tried: ${reason}\n`);
/** Generous, because the machine may be busy. No service may need a restart. */
const PATIENCE_MS = 60_000;

const isReady = async (node: Node): Promise<boolean> =>
  (await request(`http://127.0.0.1:${node.port}/ready`).catch(() => undefined))?.status === 200;

describe.skipIf(reason !== undefined)('two services whose PostgreSQL fails over', () => {
  let primary: PrivatePostgres;
  let standby: PrivatePostgres;
  let cluster: Cluster;
  let alice: Actor;
  let session: string;
  const acknowledged: string[] = [];
  beforeAll(async () => {
    primary = await startPrivatePostgres();
    standby = await primary.createStandby();
    cluster = await startCluster({ count: 2, databaseUrl: primary.url, name: 'failover' });
    const [one] = cluster.nodes;
    if (one === undefined) throw new Error('no node');
    alice = await createActor(await discover(one.baseUrl), operatorOf(one.home), 'alice');
    session = await alice.mustCreate();
  });
  afterAll(async () => {
    await cluster?.stop();
    await standby?.stop();
    await primary?.stop();
  });

  let count = 0;
  /** Makes one write at a node, without retries. */
  const write = async (node: Node): Promise<Answer> => {
    count += 1;
    const content = `message ${count}`;
    const answer = await callApi(node.baseUrl, await alice.token(), 'POST', `/sessions/${session}/messages`, {
      content,
    });
    if (answer.status === 201) acknowledged.push(content);
    return answer;
  };
  const leadTo = (server: PrivatePostgres): void => {
    for (const { cutter } of cluster.nodes) {
      cutter.targetPort = server.port;
      cutter.cutAll('reset');
    }
  };
  const mustWriteEverywhere = (): Promise<unknown> =>
    until(
      'every service writes and is ready again',
      async () => {
        const answers = await Promise.all(cluster.nodes.map(write));
        const ready = await Promise.all(cluster.nodes.map(isReady));
        return answers.every(({ status }) => status === 201) && ready.every(Boolean);
      },
      PATIENCE_MS,
    );
  const mustRefuseEverywhere = async (): Promise<void> => {
    await until(
      'no service is ready',
      async () => !(await Promise.all(cluster.nodes.map(isReady))).some(Boolean),
      PATIENCE_MS,
    );
    for (const node of cluster.nodes) {
      const answer = await write(node);
      expect(answer.status).toBe(503);
      expect(answer.headers['retry-after']).toBe('2');
      expect(field(answer.json, 'error.code')).toBe('INTERNAL_ERROR');
      const read = await callApi(node.baseUrl, await alice.token(), 'GET', `/sessions/${session}/events`);
      expect(read.status).toBe(503);
    }
  };

  it('services that reach only a standby refuse with 503, are not ready, read nothing stale, and continue once they reach the primary again', async () => {
    for (const node of cluster.nodes) expect((await write(node)).status).toBe(201);
    leadTo(standby);
    // Light traffic keeps connections in use all the time.
    const traffic = new AbortController();
    const calls = (async () => {
      while (!traffic.signal.aborted) {
        for (const node of cluster.nodes) await write(node).catch(() => undefined);
        await pause(100);
      }
    })();
    await mustRefuseEverywhere();
    leadTo(primary);
    await mustWriteEverywhere();
    traffic.abort();
    await calls;
  });

  it('after a standby is promoted, every service writes again, and everything acknowledged and replicated is there', async () => {
    const kept = [...acknowledged];
    await pause(1_000);
    await primary.crash();
    await mustRefuseEverywhere();
    await standby.promote();
    leadTo(standby);
    const promotedAt = performance.now();
    await mustWriteEverywhere();
    process.stderr.write(`every service writes ${Math.round(performance.now() - promotedAt)} ms after the promotion\n`);
    const contents = (await alice.mustReplay(session)).map((event) => field(event, 'payload.content'));
    expect(contents).toEqual(expect.arrayContaining(kept));
  });
});

describe.skipIf(reason !== undefined)('a service with two PostgreSQL hosts', () => {
  it('a service finds the primary among several hosts, and the new one after a promotion', async () => {
    const primary = await startPrivatePostgres();
    const standby = await primary.createStandby();
    const { openPostgres } = await import('../../../src/service/store/postgres.js');
    const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`;
    const database = await openPostgres(`postgres://postgres@${hosts}/postgres?target_session_attrs=read-write`);
    const write = (): Promise<unknown> =>
      database.write((transaction) => transaction.run('UPDATE service_key SET secret = secret'));
    await write();
    await primary.crash();
    await standby.promote();
    await until(
      'it writes again',
      () =>
        write().then(
          () => true,
          () => false,
        ),
      PATIENCE_MS,
    );
    await database.close();
    await standby.stop();
    await primary.stop();
  });
});
