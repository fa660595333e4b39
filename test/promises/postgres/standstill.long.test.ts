import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, callApi, createActor } from '../../support/actors.js';
import { type Cluster, type Node, startCluster } from '../../support/cluster.js';
import { mustGrant } from '../../support/grants.js';
import { field } from '../../support/json.js';
import { discover, type Place, revoke } from '../../support/oauth.js';
import { operatorOf } from '../../support/operator.js';
import type { LiveSocket } from '../../support/socket.js';
import { createSchema } from '../../support/stores.js';
import { until } from '../../support/until.js';

const STANDSTILL_MS = 90_000;
const NOTICED_WITHIN_MS = 15_000;
const LOST_WITHIN_MS = 30_000;
const STOP_WITHIN_MS = 20_000;

const schema = createSchema();
let cluster: Cluster;
let one: Node;
let two: Node;
let place: Place;
let bob: Actor;

beforeAll(async () => {
  cluster = await startCluster({ count: 2, databaseUrl: schema.url, name: 'standstill' });
  const [first, second] = cluster.nodes;
  if (first === undefined || second === undefined) throw new Error('no nodes');
  [one, two] = [first, second];
  place = await discover(one.baseUrl);
  bob = await createActor(place, operatorOf(one.home), 'bob');
});
afterAll(async () => {
  await cluster?.stop();
  await schema.drop();
});

const connectTo = (node: Node, token?: string): Promise<LiveSocket> =>
  bob.mustConnect(token, `ws://127.0.0.1:${node.port}/connect`);
const isOnline = async (): Promise<boolean> =>
  field((await callApi(one.baseUrl, await bob.token(), 'GET', '/agents/me')).json, 'is_online') === true;

describe('in real time', () => {
  it('a service that was stopped for a minute and a half closes its sockets when it resumes', async () => {
    const grant = await mustGrant(place, operatorOf(one.home), bob.handle, { resource: place.wsUrl });
    const sockets = [await connectTo(two), await connectTo(two, grant.accessToken)];
    expect(await isOnline()).toBe(true);
    two.running.kill('SIGSTOP');
    await pause(STANDSTILL_MS);
    expect(await isOnline()).toBe(false);
    expect((await revoke(place, grant.clientId, grant.refreshToken)).status).toBe(200);
    two.running.kill('SIGCONT');
    const codes = await Promise.all(sockets.map((socket) => socket.mustBeClosed(NOTICED_WITHIN_MS)));
    expect(codes).toEqual([1013, 1013]);
    const again = await connectTo(two);
    expect(await isOnline()).toBe(true);
    await pause(NOTICED_WITHIN_MS);
    await again.mustPing();
    expect(await isOnline()).toBe(true);
    await again.close();
  });

  it.each(['refused', 'silent'])('a service that loses its database closes its sockets: %s', async (kind) => {
    const { targetPort } = two.cutter;
    const socket = await connectTo(two);
    if (kind === 'refused') two.cutter.targetPort = 1;
    else two.cutter.cutAfter(0, 'silence');
    expect(two.cutter.cutAll(kind === 'refused' ? 'reset' : 'silence')).toBeGreaterThan(0);
    expect(await socket.mustBeClosed(LOST_WITHIN_MS)).toBe(1013);
    two.cutter.targetPort = targetPort;
    two.cutter.cutAfter(undefined);
    await until(
      'it takes sockets again, and they count',
      async () => {
        const opened = await bob.connect(undefined, `ws://127.0.0.1:${two.port}/connect`).catch(() => undefined);
        if (opened === undefined || 'status' in opened) return false;
        await opened.mustPing();
        await opened.close();
        return true;
      },
      60_000,
    );
    await until('nobody counts who is not there', async () => !(await isOnline()), 60_000);
  });

  it('a service without its database ends in 20 s', async () => {
    const socket = await connectTo(two);
    two.cutter.cutAfter(0, 'silence');
    two.cutter.cutAll('silence');
    two.running.kill('SIGTERM');
    const late = pause(STOP_WITHIN_MS, undefined, { ref: false });
    expect(await socket.mustBeClosed(STOP_WITHIN_MS)).toBe(1001);
    expect(await Promise.race([two.running.ended, late])).toMatchObject({ status: 0, signal: null });
  });
});
