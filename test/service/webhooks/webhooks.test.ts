import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { createTurnableClock, type TurnableClock } from '../../../src/kit/turnable-clock.js';
import { newWebhookSecret } from '../../../src/kit/webhook.js';
import { type Actor, actorOf, callApi } from '../../support/actors.js';
import { mustDeny, mustSucceed } from '../../support/answers.js';
import type { Answer } from '../../support/http.js';
import { field, list, text } from '../../support/json.js';
import { discover } from '../../support/oauth.js';
import { startTestService, type TestService } from '../../support/service.js';
import { TEST_STORE, takeSchema } from '../../support/stores.js';
import { until } from '../../support/until.js';
import {
  accountTokenOf,
  askWebhook,
  startWebhookReceiver,
  type WebhookReceiver,
} from '../../support/webhook-receiver.js';

const HOUR_MS = 60 * 60_000;

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
  expect(receiver.faults).toEqual([]);
});

const tokenOf = ({ handle }: Actor, at = service): Promise<string> => accountTokenOf(at, handle, clock.now());
const ask = (actor: Actor, method: string, body?: unknown, at = service): Promise<Answer> =>
  askWebhook(at, actor, method, body, clock.now());
const read = async (actor: Actor): Promise<unknown> => field(mustSucceed(await ask(actor, 'GET')), 'webhook');
const statusOf = async (actor: Actor): Promise<string> => text(await read(actor), 'status');
const becomes = (actor: Actor, status: string): Promise<boolean> =>
  until(`${actor.handle} is ${status}`, async () => (await statusOf(actor)) === status);
/** Each test has its own path. */
const newPath = (): string => `/${randomBytes(6).toString('hex')}`;
const set = async (actor: Actor, path: string): Promise<void> => {
  mustSucceed(await ask(actor, 'POST', { url: receiver.url(path), secret: receiver.secret }));
};
const textsAt = (path: string): unknown[] => receiver.textsAt(path);
const typesAt = (path: string): unknown[] => receiver.eventsAt(path).map(({ json }) => json['type']);
const arrived = (path: string, count: number): Promise<boolean> =>
  until(`${count} messages at ${path}`, async () => textsAt(path).length >= count);
/** A session that both have joined, whose events so far the webhook of `bob` has received. */
const talk = async (alice: Actor, bob: Actor): Promise<string> => {
  const session = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(session);
  return session;
};

describe('A webhook', () => {
  it('gets a signed test first, and then each event that someone else caused, once and in order', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    expect(await read(bob)).toBeNull();
    const answer = mustSucceed(await ask(bob, 'POST', { url: receiver.url(path), secret: receiver.secret }));
    expect(field(answer, 'webhook')).toMatchObject({ url: receiver.url(path), status: 'new', failure: null });
    expect(JSON.stringify(answer)).not.toContain(receiver.secret);
    await becomes(bob, 'on');
    expect(receiver.calls.filter((call) => call.path === path).map(({ json }) => json)).toEqual([
      {
        type: 'webhook.test',
        event_id: expect.stringMatching(/^evt_/),
        created_at: expect.any(Number),
        payload: { agent: bob.handle },
      },
    ]);
    const session = await alice.mustCreate({ invite: [bob.handle], topic: 'Lunch' });
    await until('the invitation', async () => typesAt(path).includes('session.invited'));
    await bob.mustJoin(session);
    for (let n = 1; n <= 20; n += 1) await alice.mustSend(session, `message ${n}`);
    await bob.mustSend(session, 'my own');
    await alice.mustEnd(session);
    await until('the end', async () => typesAt(path).includes('session.ended'));
    expect(textsAt(path)).toEqual(Array.from({ length: 20 }, (_, index) => `message ${index + 1}`));
    const sequences = receiver.eventsAt(path).map(({ json }) => Number(json['sequence']));
    expect(sequences).toEqual([...sequences].sort((one, other) => one - other));
    const [first] = receiver.eventsAt(path);
    expect(first?.headers).toMatchObject({
      'content-type': 'application/json',
      'webhook-id': first?.json['event_id'],
      'x-asp-agent': bob.handle,
      'x-asp-event-id': first?.json['event_id'],
    });
    const replayed = (await bob.mustReplay(session)) as readonly Record<string, unknown>[];
    for (const { json } of receiver.eventsAt(path))
      expect(json).toEqual(replayed.find((event) => event['sequence'] === json['sequence']));
  });

  it('proves delivery with its answer, and with nothing else', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    await set(bob, path);
    const session = await talk(alice, bob);
    receiver.answer((reply, call) => reply.writeHead(call.json['type'] === 'session.message' ? 500 : 204).end());
    const { sequence } = await alice.mustSend(session, 'anyone there?');
    await arrived(path, 1);
    const stateOf = async (): Promise<string> => {
      const json = mustSucceed(await alice.get(`/sessions/${session}/delivery?sequence=${sequence}`));
      return text(list(json, 'recipients')[0], 'state');
    };
    await becomes(bob, 'failing');
    expect(await stateOf()).toBe('stored');
    expect(await read(bob)).toMatchObject({ failure: 'HTTP 500', next_try_at: expect.any(Number) });
    receiver.answer();
    clock.advance(6_500);
    await until('delivered', async () => (await stateOf()) === 'delivered');
    expect(await read(bob)).toMatchObject({ status: 'on', failure: null, failing_since: null, next_try_at: null });
    expect(new Set(receiver.eventsAt(path).map(({ json }) => json['event_id'])).size).toBe(
      receiver.eventsAt(path).length - 1,
    );
  });

  it('is not called while its agent has a connection, and gets what that one did not', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    await set(bob, path);
    await becomes(bob, 'on');
    const session = await talk(alice, bob);
    await until('the join', async () => typesAt(path).includes('session.invited'));
    const socket = await bob.mustConnect();
    await alice.mustSend(session, 'live');
    await socket.mustReceiveEvent('session.message', session);
    await pause(300);
    clock.advance(10_000);
    await pause(1_500);
    await socket.close();
    await alice.mustSend(session, 'later');
    clock.advance(6_000);
    await arrived(path, 1);
    expect(textsAt(path)).toEqual(['later']);
  });

  it('leaves the rest to a connection that opens while it is called', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    await set(bob, path);
    await becomes(bob, 'on');
    const session = await talk(alice, bob);
    await until('the join', async () => typesAt(path).includes('session.invited'));
    const replies: (() => void)[] = [];
    receiver.answer((reply) => replies.push(() => reply.writeHead(204).end()));
    for (let n = 1; n <= 5; n += 1) await alice.mustSend(session, `${n}`);
    await until('the first call', async () => replies.length === 1);
    const socket = await bob.mustConnect();
    await socket.mustReceiveEvent('session.message', session);
    receiver.answer();
    for (const reply of replies) reply();
    await pause(1_500);
    expect(textsAt(path)).toEqual(['1']);
    await socket.close();
  });

  it('is tried again after longer and longer pauses, and turned off after a day; setting it again sends what waited', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    await set(bob, path);
    await becomes(bob, 'on');
    const session = await talk(alice, bob);
    let calledAt = 0;
    receiver.answer((reply) => {
      calledAt = clock.now();
      reply.writeHead(503).end();
    });
    for (const word of ['one', 'two', 'three']) await alice.mustSend(session, word);
    await becomes(bob, 'failing');
    const pauses: number[] = [];
    for (let nextAt = Number.NaN; ; ) {
      const webhook = await until('the outcome of the next try', async () => {
        const now = await read(bob);
        const at = field(now, 'next_try_at');
        return text(now, 'status') === 'off' || (at !== null && at !== nextAt) ? now : undefined;
      });
      if (text(webhook, 'status') === 'off') break;
      nextAt = Number(field(webhook, 'next_try_at'));
      pauses.push(Math.round((nextAt - calledAt) / 1000));
      clock.advance(Math.max(0, nextAt - clock.now()) + 1_100);
    }
    expect(pauses.length).toBeGreaterThan(24);
    for (const [index, least] of [5, 15, 60, 300, 900, 1_800, 3_600, 3_600].entries()) {
      expect(pauses[index]).toBeGreaterThanOrEqual(least - 1);
      expect(pauses[index]).toBeLessThanOrEqual(least * 1.2 + 1);
    }
    expect(await read(bob)).toMatchObject({ status: 'off', failure: 'HTTP 503', next_try_at: null });
    receiver.answer();
    clock.advance(2 * HOUR_MS);
    await pause(1_200);
    expect(textsAt(path)).toEqual([]);
    // Without a secret, the old one stays.
    mustSucceed(await ask(bob, 'POST', { url: receiver.url(path) }));
    await until('the rest', async () => textsAt(path).includes('three'));
    expect(textsAt(path)).toEqual(['one', 'two', 'three']);
    await becomes(bob, 'on');
  });

  it('begins with short pauses again after an answer, even if the next call of the same turn fails', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    await set(bob, path);
    await becomes(bob, 'on');
    const session = await talk(alice, bob);
    let calls = 0;
    let isAnswered = false;
    receiver.answer((reply) => {
      calls += 1;
      reply.writeHead(isAnswered ? 204 : 503).end();
      isAnswered = false;
    });
    for (const word of ['one', 'two']) await alice.mustSend(session, word);
    /** Waits for a try that fails, and returns the pause after it in seconds. */
    const pauseAfter = async (call: number): Promise<number> => {
      const isNext = async () =>
        calls < call ? undefined : Number(field(await read(bob), 'next_try_at')) || undefined;
      return ((await until('the next pause', isNext)) - clock.now()) / 1000;
    };
    expect(await pauseAfter(1)).toBeLessThan(7);
    clock.advance(10_000);
    expect(await pauseAfter(2)).toBeGreaterThan(13);
    isAnswered = true;
    clock.advance(20_000);
    expect(await pauseAfter(4)).toBeLessThan(7);
    expect(await read(bob)).toMatchObject({ status: 'failing', failure: 'HTTP 503' });
    receiver.answer();
    clock.advance(10_000);
    await becomes(bob, 'on');
  });

  it('has no next try while it is being called', async () => {
    const [bob, path] = [await service.createAgent('bob'), newPath()];
    receiver.answer((reply) => reply.writeHead(500).end());
    await set(bob, path);
    await becomes(bob, 'failing');
    let reply: ServerResponse | undefined;
    receiver.answer((open) => {
      reply = open;
    });
    clock.advance(10_000);
    await until('the next call', async () => reply !== undefined);
    expect(await read(bob)).toMatchObject({ status: 'failing', failure: 'HTTP 500', next_try_at: null });
    reply?.writeHead(204).end();
    await becomes(bob, 'on');
  });

  it('is not given up after a day on which the service slept', async () => {
    const [bob, path] = [await service.createAgent('bob'), newPath()];
    receiver.answer((reply) => reply.writeHead(500).end());
    await set(bob, path);
    await becomes(bob, 'failing');
    const calls = receiver.calls.filter((call) => call.path === path).length;
    clock.advance(25 * HOUR_MS);
    await until('the next try', async () => receiver.calls.filter((call) => call.path === path).length > calls);
    await until('its outcome', async () => Number(field(await read(bob), 'next_try_at')) > clock.now());
    expect(await statusOf(bob)).toBe('failing');
  });

  it('waits as long as its receiver asks, and is off at once if that answers 410', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    await set(bob, path);
    await becomes(bob, 'on');
    let calledAt = 0;
    receiver.answer((reply) => {
      calledAt = clock.now();
      reply.writeHead(429, { 'retry-after': '1800' }).end();
    });
    const session = await talk(alice, bob);
    await alice.mustSend(session, 'no one listens');
    await becomes(bob, 'failing');
    const nextAt = Number(field(await read(bob), 'next_try_at'));
    expect(nextAt - calledAt).toBeGreaterThanOrEqual(1_800_000);
    const waitMs = nextAt - clock.now();
    expect(waitMs).toBeLessThanOrEqual(1_800_000);
    receiver.answer((reply) => reply.writeHead(410).end());
    clock.advance(waitMs + 1_000);
    await becomes(bob, 'off');
    expect(await read(bob)).toMatchObject({ failure: 'HTTP 410' });
    await pause(1_500);
    expect(textsAt(path)).toEqual([]);
  });

  it('waits until the date that its receiver names, but never longer than an hour', async () => {
    const [bob, path] = [await service.createAgent('bob'), newPath()];
    let calledAt = 0;
    const asked = async (retryAfter: string): Promise<number> => {
      receiver.answer((reply) => {
        calledAt = clock.now();
        reply.writeHead(503, { 'retry-after': retryAfter }).end();
      });
      await set(bob, path);
      await until('the failure', async () => calledAt > 0 && (await statusOf(bob)) === 'failing');
      const waitMs = Number(field(await read(bob), 'next_try_at')) - calledAt;
      calledAt = 0;
      return waitMs;
    };
    // The receiver's clock says what its date means, and a date has whole seconds.
    const named = await asked(new Date(Date.now() + 1_800_000).toUTCString());
    expect(named).toBeGreaterThan(1_790_000);
    expect(named).toBeLessThan(1_810_000);
    for (const tooLong of ['99999999', 'Fri, 31 Dec 2999 23:59:59 GMT'])
      expect(Math.abs((await asked(tooLong)) - HOUR_MS)).toBeLessThan(1_000);
  });

  it('follows no redirect, and waits 10 seconds for an answer', async () => {
    const [bob, path] = [await service.createAgent('bob'), newPath()];
    receiver.answer((reply) => reply.writeHead(307, { location: receiver.url('/elsewhere') }).end());
    await set(bob, path);
    await becomes(bob, 'failing');
    expect(await read(bob)).toMatchObject({ failure: 'HTTP 307, and redirects are not followed' });
    expect(receiver.calls.some((call) => call.path === '/elsewhere')).toBe(false);
    receiver.answer(() => {});
    clock.advance(6_500);
    await until('the call', async () => receiver.open.size > 0);
    clock.advance(10_001);
    await until('the end of the call', async () => receiver.open.size === 0);
    await until('the failure', async () => field(await read(bob), 'failure') === 'no answer within 10 s');
  });

  it('is not called for an agent that is paused, and forgotten with one that is removed', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    await set(bob, path);
    await becomes(bob, 'on');
    const session = await talk(alice, bob);
    await until('the invitation', async () => typesAt(path).includes('session.invited'));
    const accessToken = await tokenOf(bob);
    const agentPath = `/agents/${bob.owner}/${bob.name}`;
    mustSucceed(await callApi(service.place.baseUrl, accessToken, 'PATCH', agentPath, { paused: true }));
    await alice.mustSend(session, 'while paused');
    const tested = receiver.calls.filter((call) => call.path === path).length;
    await set(bob, path);
    await pause(1_500);
    // Not even a test.
    expect(receiver.calls.filter((call) => call.path === path)).toHaveLength(tested);
    expect(textsAt(path)).toEqual([]);
    mustSucceed(await callApi(service.place.baseUrl, accessToken, 'PATCH', agentPath, { paused: false }));
    clock.advance(61_000);
    await arrived(path, 1);
    mustSucceed(await callApi(service.place.baseUrl, accessToken, 'DELETE', agentPath), 204);
    mustDeny(await callApi(service.place.baseUrl, accessToken, 'GET', `${agentPath}/webhook`), 404, 'AGENT_NOT_FOUND');
  });

  it('gets nothing at its old address once it has a new one, and nothing at all once it is removed', async () => {
    const [alice, bob, path, next] = [
      await service.createAgent('alice'),
      await service.createAgent('bob'),
      newPath(),
      newPath(),
    ];
    await set(bob, path);
    await becomes(bob, 'on');
    const session = await talk(alice, bob);
    await until('the invitation', async () => typesAt(path).includes('session.invited'));
    receiver.answer((reply, call) => {
      if (call.json['type'] === 'session.message' && call.path === path)
        // The owner changes it while the first of two messages is on its way.
        void ask(bob, 'POST', { url: receiver.url(next) }).then(() => reply.writeHead(204).end());
      else reply.writeHead(204).end();
    });
    await Promise.all([alice.mustSend(session, 'first'), alice.mustSend(session, 'second')]);
    await arrived(next, 1);
    expect([textsAt(path).length, textsAt(next).length]).toEqual([1, 1]);
    expect(new Set([...textsAt(path), ...textsAt(next)])).toEqual(new Set(['first', 'second']));
    receiver.answer();
    mustSucceed(await ask(bob, 'DELETE'), 204);
    expect(await read(bob)).toBeNull();
    mustSucceed(await ask(bob, 'DELETE'), 204);
    await alice.mustSend(session, 'third');
    await pause(1_500);
    expect([textsAt(path).length, textsAt(next).length]).toEqual([1, 1]);
  });

  it('of a slow receiver leaves room for those of other accounts', async () => {
    const [alice, bob, path] = [await service.createAgent('alice'), await service.createAgent('bob'), newPath()];
    const slow = await Promise.all(
      Array.from({ length: 6 }, () => service.createAgent('slow', { owner: alice.owner })),
    );
    receiver.answer((reply, call) => {
      if (call.path !== '/slow') reply.writeHead(204).end();
    });
    for (const agent of slow) await set(agent, '/slow');
    await until('four calls', async () => receiver.open.size === 4);
    await set(bob, path);
    await becomes(bob, 'on');
    expect(receiver.open.size).toBe(4);
    receiver.answer();
    for (const reply of receiver.open) reply.writeHead(204).end();
    await until('all are on', async () => {
      const states = await Promise.all(slow.map(statusOf));
      return states.every((state) => state === 'on');
    });
  });

  it('needs a usable address and secret, and belongs to the owner of its agent', async () => {
    const [alice, bob] = [await service.createAgent('alice'), await service.createAgent('bob')];
    const { secret } = receiver;
    const refuse = async (body: unknown): Promise<void> =>
      mustDeny(await ask(bob, 'POST', body), 400, 'VALIDATION_ERROR');
    await refuse({ url: receiver.url() });
    for (const url of ['', 'nowhere', 'ftp://example.org/x', 'http://me@example.org/x', 'http://example.org/x#y'])
      await refuse({ url, secret });
    for (const wrong of ['', 'short', 'whsec_c2hvcnQ=', '*'.repeat(44)])
      await refuse({ url: receiver.url(), secret: wrong });
    await refuse({ url: receiver.url(), secret, more: true });
    const path = `/agents/${bob.owner}/${bob.name}/webhook`;
    mustDeny(await bob.get(path), 403, 'FORBIDDEN');
    const accessToken = await tokenOf(alice);
    mustDeny(await callApi(service.place.baseUrl, accessToken, 'GET', path), 403, 'FORBIDDEN');
    mustDeny(
      await callApi(service.place.baseUrl, accessToken, 'POST', path, { url: receiver.url(), secret }),
      403,
      'FORBIDDEN',
    );
    mustDeny(await callApi(service.place.baseUrl, accessToken, 'DELETE', path), 403, 'FORBIDDEN');
  });
});

describe('A service', () => {
  it('without webhooks says so', async () => {
    const other = await startTestService();
    try {
      const bob = await other.createAgent('bob');
      const body = { url: receiver.url(), secret: receiver.secret };
      mustDeny(await ask(bob, 'GET', undefined, other), 403, 'FEATURE_NOT_AVAILABLE');
      mustDeny(await ask(bob, 'POST', body, other), 403, 'FEATURE_NOT_AVAILABLE');
    } finally {
      await other.stop();
    }
  });

  it('with public webhooks takes only https addresses with a host name, and calls no others', async () => {
    const other = await startTestService({ webhooks: 'public' });
    try {
      const bob = await other.createAgent('bob');
      const secret = newWebhookSecret();
      const refused = ['http://example.org/x', 'https://127.0.0.1/x', 'https://[::1]/x', 'https://localhost/x'];
      for (const url of [receiver.url(), ...refused])
        mustDeny(await ask(bob, 'POST', { url, secret }, other), 400, 'VALIDATION_ERROR');
      mustSucceed(await ask(bob, 'POST', { url: 'https://hooks.invalid/x', secret }, other));
      await until('the failure', async () => {
        const webhook = field(mustSucceed(await ask(bob, 'GET', undefined, other)), 'webhook');
        return field(webhook, 'failure') === 'the address cannot be reached';
      });
    } finally {
      await other.stop();
    }
  });

  it('that is stopped and started again continues where it was, and leaves out nothing', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'asp-webhooks-'));
    const schema = TEST_STORE === 'postgres' ? takeSchema() : undefined;
    const path = newPath();
    const start = (webhooks?: 'any') =>
      startTestService({
        areLimitsOn: false,
        webhooks,
        databaseUrl: schema?.url,
        ...(schema === undefined && { data: { directory: folder } }),
      });
    let running = await start('any');
    try {
      const [first, second] = [await running.createAgent('alice'), await running.createAgent('bob')];
      mustSucceed(await ask(second, 'POST', { url: receiver.url(path), secret: receiver.secret }, running));
      const session = await talk(first, second);
      for (let n = 1; n <= 3; n += 1) await first.mustSend(session, `${n}`);
      await arrived(path, 1);
      const again = async (webhooks?: 'any'): Promise<Actor> => {
        await running.stop();
        running = await start(webhooks);
        return actorOf(await discover(running.baseUrl), first.handle, first.credentials);
      };
      const alice = await again('any');
      for (let n = 4; n <= 6; n += 1) await alice.mustSend(session, `${n}`);
      // At once: what was not sent yet is sent by the next one.
      await again('any');
      await until('the sixth', async () => textsAt(path).includes('6'));
      const uncalled = await again();
      await uncalled.mustSend(session, '7');
      await pause(1_500);
      expect(textsAt(path)).not.toContain('7');
      await again('any');
      await until('the seventh', async () => textsAt(path).includes('7'));
      const once = textsAt(path).filter((each, index, all) => all.indexOf(each) === index);
      expect(once).toEqual(['1', '2', '3', '4', '5', '6', '7']);
    } finally {
      await running.stop();
      await schema?.drop();
      await rm(folder, { recursive: true, force: true });
    }
  });

  it.runIf(TEST_STORE === 'postgres')('calls a webhook from one of several processes at a time', async () => {
    const schema = takeSchema();
    const path = newPath();
    const services: TestService[] = [];
    try {
      for (let n = 0; n < 3; n += 1)
        services.push(await startTestService({ areLimitsOn: false, webhooks: 'any', databaseUrl: schema.url }));
      const [one] = services;
      if (one === undefined) throw new Error('none');
      const [alice, bob] = [await one.createAgent('alice'), await one.createAgent('bob')];
      mustSucceed(await ask(bob, 'POST', { url: receiver.url(path), secret: receiver.secret }, one));
      const session = await talk(alice, bob);
      const writers = await Promise.all(
        services.map(async (each) => actorOf(await discover(each.baseUrl), alice.handle, alice.credentials)),
      );
      const count = 60;
      for (let n = 0; n < count; n += 1) await writers[n % writers.length]?.mustSend(session, `${n}`);
      await arrived(path, count);
      await pause(1_500);
      expect(textsAt(path)).toEqual(Array.from({ length: count }, (_, n) => `${n}`));
    } finally {
      for (const each of services) await each.stop();
      await schema.drop();
    }
  });
});
