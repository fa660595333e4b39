import { existsSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { startService, type TestService, type TestServiceOptions } from '../../src/testing/testing.js';
import { isMessageEvent } from '../../src/wire/event.js';
import { connect, post } from '../support/mcp-tools.js';

const services: TestService[] = [];
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.close()));
});

const start = async (options: TestServiceOptions = { agents: ['alice.bot', 'bob.bot'] }): Promise<TestService> => {
  const service = await startService(options);
  services.push(service);
  return service;
};
const INVITE_BOB = { body: { invite: ['@bob.bot'], initial_message: { content: 'hi' } } };
const ME = {};

describe('a service for tests', () => {
  it('has agents with ready clients that can talk to each other', async () => {
    const service = await start();
    const { reply } = await service.client('@alice.bot').call('createSession', INVITE_BOB);
    const bob = service.client('bob.bot');
    await bob.call('joinSession', { path: { session_id: reply.session_id } });
    const seen: unknown[] = [];
    for await (const item of bob.tail({ sessions: [{ sessionId: reply.session_id }], isFollowing: false }))
      if (item.kind === 'event' && isMessageEvent(item.event)) seen.push(item.event.payload.content);
    expect(seen).toEqual(['hi']);
  });

  it('runs at the same time as others and shares nothing with them', async () => {
    const [one, two] = await Promise.all([start(), start({ agents: ['alice.bot'] })]);
    one.clock.advance('1d');
    one.inject({ kind: 503 });
    expect(one.clock.now() - two.clock.now()).toBeGreaterThan(80_000_000);
    const alice = two.client('@alice.bot', { retries: 0 });
    expect((await alice.call('getActingAgent', ME)).reply.canonical_handle).toBe('@alice.bot');
    await expect(alice.call('createSession', INVITE_BOB)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('has tools for models, with a token for each agent', async () => {
    const service = await start();
    const token = await service.mcpToken('bob.bot');
    const tools = await connect(service.mcpUrl, token);
    await service.client('@alice.bot').call('createSession', INVITE_BOB);
    expect((await tools.call('whoami')).value.handle).toBe('@bob.bot');
    expect((await tools.call('inbox')).text).toContain('@alice.bot');
    await tools.close();
    await expect(service.mcpToken('eve.bot')).rejects.toThrow('@eve.bot is not on this service.');
    const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
    expect((await post(service.mcpUrl, token, list)).status).toBe(200);
    service.clock.advance('16m');
    expect((await post(service.mcpUrl, token, list)).status).toBe(401);
    expect((await post(service.mcpUrl, await service.mcpToken('bob.bot'), list)).status).toBe(200);
  });

  it('has no limits unless enabled', async () => {
    const create = async (service: TestService): Promise<string> => {
      const alice = service.client('@alice.bot', { retries: 0 });
      for (let count = 0; count < 31; count += 1)
        try {
          await alice.call('createSession', INVITE_BOB);
        } catch (error) {
          return `${count} ${(error as { code: string }).code}`;
        }
      return 'all';
    };
    expect(await create(await start())).toBe('all');
    const limited = await start({ agents: ['alice.bot', 'bob.bot'], areLimitsOn: true });
    expect(await create(limited)).toBe('30 RATE_LIMITED');
    limited.clock.advance('1h');
    expect(await create(limited)).not.toMatch(/^0 /);
  });

  it('adds agents later, and one with an allowlist turns strangers away', async () => {
    const service = await start();
    await service.addAgent('carol.bot', { policy: 'allowlist' });
    const invite = { body: { invite: ['@carol.bot'] } };
    await expect(service.client('@alice.bot').call('createSession', invite)).rejects.toMatchObject({ status: 404 });
    expect((await service.client('@carol.bot').call('listSessions', {})).reply.sessions).toEqual([]);
  });

  it.each([
    [429, 'RATE_LIMITED', 'not_applied', 0],
    [500, 'INTERNAL_ERROR', 'unknown', 0],
    ['lost', 'INTERNAL_ERROR', 'unknown', 1],
    ['cut', 'ASP_UNREACHABLE', 'unknown', 1],
  ] as const)('fails with %s, once, and only for the named operation', async (kind, code, outcome, sessions) => {
    const service = await start();
    const alice = service.client('@alice.bot', { retries: 0 });
    service.inject({ kind, on: 'createSession', times: 1 });
    await alice.call('getActingAgent', ME);
    await expect(alice.call('createSession', INVITE_BOB)).rejects.toMatchObject({ code, outcome });
    expect((await alice.call('listSessions', {})).reply.sessions).toHaveLength(sessions);
    await alice.call('createSession', INVITE_BOB);
  });

  it('stops failing when a fault is removed', async () => {
    const service = await start();
    const alice = service.client('@alice.bot', { retries: 0 });
    const stop = service.inject({ kind: 503 });
    await expect(alice.call('getActingAgent', ME)).rejects.toMatchObject({ status: 503 });
    stop();
    await alice.call('getActingAgent', ME);
    service.inject({ kind: 500, every: 2 });
    await alice.call('getActingAgent', ME);
    await expect(alice.call('getActingAgent', ME)).rejects.toMatchObject({ status: 500 });
  });

  it('breaks the event stream right after an event, and a tail continues', async () => {
    const service = await start();
    const alice = service.client('@alice.bot');
    const session_id = (await alice.call('createSession', INVITE_BOB)).reply.session_id;
    service.inject({ kind: 'drop', times: 1 });
    const kinds: string[] = [];
    for await (const item of alice.tail({ sessions: [{ sessionId: session_id }] })) {
      kinds.push(item.kind === 'event' ? String(item.event.payload['content'] ?? item.event.type) : item.kind);
      if (item.kind === 'ready')
        await alice.call('sendMessage', { path: { session_id }, body: { content: String(kinds.length) } });
      if (kinds.includes('reconnecting') && kinds.at(-1) === String(kinds.indexOf('ready', 5) + 1)) break;
    }
    expect(kinds.filter((kind) => kind === 'ready')).toHaveLength(2);
    expect(new Set(kinds.filter((kind) => /^\d/.test(kind))).size).toBe(2);
  });

  it('moves its clock: a token expires, and the client gets another', async () => {
    const service = await start();
    const alice = service.client('@alice.bot');
    const before = Date.now();
    await alice.call('getActingAgent', ME);
    service.clock.advance('1d');
    const { headers } = await alice.raw({ method: 'GET', path: '/agents/me' });
    expect(Date.parse(headers['date'] ?? '') - before).toBeGreaterThanOrEqual(86_400_000 - 1_000);
    expect(service.clock.now() - before).toBeGreaterThanOrEqual(86_400_000);
  });

  it('ends the tails of its clients when it is closed, and cancels their calls', async () => {
    const service = await start();
    const alice = service.client('@alice.bot');
    const items = alice.tail()[Symbol.asyncIterator]();
    expect((await items.next()).value).toMatchObject({ kind: 'ready' });
    const next = items.next();
    service.inject({ kind: 'delay', for: '1h' });
    const call = expect(alice.call('getActingAgent', ME)).rejects.toMatchObject({ code: 'ASP_ABORTED' });
    await service[Symbol.asyncDispose]();
    expect(await next).toEqual({ done: true, value: undefined });
    await call;
    await expect(alice.call('getActingAgent', ME)).rejects.toMatchObject({ code: 'ASP_ABORTED' });
    await expect(fetch(service.baseUrl)).rejects.toThrow('fetch failed');
  });

  it('removes the folder of its child processes', async () => {
    const service = await start();
    const { XDG_STATE_HOME: folder = '' } = service.env('@alice.bot');
    const root = folder.slice(0, folder.lastIndexOf('/'));
    expect(existsSync(root)).toBe(true);
    await service.close();
    expect(existsSync(root)).toBe(false);
  });

  it('says what is wrong', async () => {
    await expect(startService({ agents: ['Alice'] })).rejects.toThrow("'Alice' is not a handle: write the owner");
    await expect(startService({ agents: ['a.b', '@a.b'] })).rejects.toThrow('@a.b is already on this service.');
    const service = await start();
    expect(() => service.client('@carol.bot')).toThrow(
      "@carol.bot is not on this service. Its agents: @alice.bot, @bob.bot. Add it with startService({ agents: ['carol.bot'] }) or addAgent.",
    );
    expect(() => service.clock.advance('soon')).toThrow("advance 'soon' is not a duration: write 500ms, 30s");
    expect(() => service.inject({ kind: 'delay', for: '-1' })).toThrow("delay '-1' is not a duration");
    expect(() => service.inject({ kind: 'delay' } as never)).toThrow("A delay needs a duration: { kind: 'delay', for");
    expect(() => service.inject({ kind: 500, times: 1, chance: 0.5 })).toThrow('one of times, every and chance');
    expect(() => service.inject({ kind: 500, chance: 2 })).toThrow('chance 2 is not between 0 and 1.');
    expect(() => service.inject({ kind: 500, times: 0 })).toThrow('0 is not a number of calls');
    expect(() => service.inject({ kind: 500, on: 'sendMesage' as 'sendMessage' })).toThrow("'sendMesage' is not an op");
    const [retry, time] = [{ retrys: 1 } as object, { kind: 500, time: 1 } as const];
    expect(() => service.client('@alice.bot', retry)).toThrow("client has no option 'retrys'. Did you mean retries?");
    expect(() => service.inject(time)).toThrow("inject has no option 'time'. Did you mean times?");
    const open = { polcy: 'open' } as object;
    await expect(service.addAgent('c.d', open)).rejects.toThrow("addAgent has no option 'polcy'. Did you mean policy?");
    await expect(startService({ agent: [] } as object)).rejects.toThrow("startService has no option 'agent'. Did you");
    expect(() => service.inject({ kind: 418 as 429 })).toThrow("'418' is not a fault: use lost, cut, delay, drop or");
    await service.close();
    expect(() => service.client('@alice.bot')).toThrow('This service was closed.');
  });
});
