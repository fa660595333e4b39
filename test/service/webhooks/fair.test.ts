import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { createTurnableClock, type TurnableClock } from '../../../src/kit/turnable-clock.js';
import type { Actor } from '../../support/actors.js';
import { mustSucceed } from '../../support/answers.js';
import { startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/until.js';
import { askWebhook, startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.js';

/** A turn ends after 10 seconds, so it contains two events of such a receiver. */
const SLOW_MS = 9_000;

let service: TestService;
let receiver: WebhookReceiver;
let clock: TurnableClock;
beforeAll(async () => {
  clock = createTurnableClock(systemClock);
  receiver = await startWebhookReceiver();
  service = await startTestService({ areLimitsOn: false, webhooks: 'any', clock });
});
afterAll(async () => {
  await service.stop();
  await receiver.close();
});
afterEach(() => {
  receiver.answer();
});

const set = async (actor: Actor, path: string): Promise<void> => {
  const body = { url: receiver.url(path), secret: receiver.secret };
  mustSucceed(await askWebhook(service, actor, 'POST', body, clock.now()));
  await until('the test', async () => receiver.calls.some((call) => call.path === path));
};
const textsAt = (path: string): unknown[] => receiver.textsAt(path);

describe('A webhook with a slow receiver', () => {
  it('gets the events of all its sessions, though one of them never ends', async () => {
    const [alice, bob] = [await service.createAgent('alice'), await service.createAgent('bob')];
    await set(bob, '/one');
    // In the order of the calls.
    const sessions = [];
    for (let n = 0; n < 3; n += 1) sessions.push(await alice.mustCreate({ invite: [bob.handle] }));
    for (const session of sessions) await bob.mustJoin(session);
    await until('the invitations', async () => receiver.eventsAt('/one').length >= 3);
    const [loud = '', ...quiet] = sessions.sort();
    for (let n = 0; n < 8; n += 1) await alice.mustSend(loud, 'loud');
    for (const session of quiet) await alice.mustSend(session, 'quiet');
    receiver.answer((reply) => {
      clock.advance(SLOW_MS);
      reply.writeHead(204).end();
    });
    await until('all', async () => textsAt('/one').length >= 10);
    expect(textsAt('/one').lastIndexOf('quiet')).toBeLessThan(8);
  });

  it('does not keep the other agents of its account waiting', async () => {
    const alice = await service.createAgent('alice');
    const agents: Actor[] = [];
    for (let n = 0; n < 6; n += 1) agents.push(await service.createAgent(`bob${n}`, { owner: alice.owner }));
    for (const agent of agents) await set(agent, `/${agent.name}`);
    const sessions: string[] = [];
    for (const agent of agents) {
      const session = await alice.mustCreate({ invite: [agent.handle] });
      await agent.mustJoin(session);
      sessions.push(session);
    }
    await until('the invitations', async () => agents.every(({ name }) => receiver.eventsAt(`/${name}`).length > 0));
    const open: ServerResponse[] = [];
    receiver.answer((reply) => open.push(reply));
    for (let n = 0; n < 6; n += 1) for (const session of sessions) await alice.mustSend(session, `${n}`);
    // A call that was on its way as the clock jumped is repeated.
    const differentAt = (name: string): unknown[] => [...new Set(textsAt(`/${name}`))];
    const isServed = (count: number) => agents.every(({ name }) => differentAt(name).length >= count);
    for (let round = 0; round < 6 && !isServed(1); round += 1) {
      await until('four calls', async () => open.length >= 4);
      clock.advance(SLOW_MS);
      for (const reply of open.splice(0)) reply.writeHead(204).end();
    }
    expect(agents.map(({ name }) => textsAt(`/${name}`).length)).not.toContain(0);
    receiver.answer();
    for (const reply of open.splice(0)) reply.writeHead(204).end();
    await until('all', async () => isServed(6));
    for (const { name } of agents) expect(differentAt(name)).toEqual(['0', '1', '2', '3', '4', '5']);
  });
});
