import { afterEach, describe, expect, it } from 'vitest';
import type { Client } from '../../src/client/client.js';
import { createAgent } from '../../src/library/create-agent.js';
import { startService, type TestService } from '../../src/testing/testing.js';
import { isMessageEvent } from '../../src/wire/event.js';

const ALICE = { owner: 'alice', name: 'bot' };

const services: TestService[] = [];
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.close()));
});

const start = async (): Promise<TestService> => {
  const service = await startService({ agents: ['alice.bot', 'bob.bot', 'carol.bot'] });
  services.push(service);
  return service;
};
/** Returns the session. */
const ask = async (client: Client, invite: string[], content: string): Promise<string> =>
  (await client.call('createSession', { body: { invite, initial_message: { content } } })).reply.session_id;
const failureOf = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => expect.fail('It was fulfilled.'),
    (error: Error) => error,
  );

describe('expectMessage', () => {
  it('waits for the message that an agent sends later', async () => {
    const service = await start();
    await using bob = createAgent({ client: service.client('@bob.bot'), from: 'anyone' });
    bob.onMessage(({ text }) => text.toUpperCase());
    await new Promise<void>((onReady) => void bob.run({ onReady }));
    const answer = service.expectMessage({ from: 'bob.bot', matching: 'HELLO', timeout: '30s' });
    const sessionId = await ask(service.client('@alice.bot'), ['@bob.bot'], 'hello');
    expect(await answer).toMatchObject({ sender: '@bob.bot', text: 'HELLO', session_id: sessionId });
  });

  it('finds a message that came before, and each message once', async () => {
    const service = await start();
    const alice = service.client('@alice.bot');
    const session_id = await ask(alice, ['@bob.bot'], 'one');
    await alice.call('sendMessage', { path: { session_id }, body: { content: [{ type: 'text', text: 'two' }] } });
    expect((await service.expectMessage()).text).toBe('one');
    expect((await service.expectMessage()).text).toBe('two');
    const third = service.expectMessage({ timeout: '30s' });
    await alice.call('sendMessage', { path: { session_id }, body: { content: 'three' } });
    expect((await third).text).toBe('three');
  });

  it('gives one message to one of those who wait for it at the same time', async () => {
    const service = await start();
    const both = Promise.all([/^t/, ''].map((matching) => service.expectMessage({ matching, timeout: '30s' })));
    const alice = service.client('@alice.bot');
    await ask(alice, ['@bob.bot'], 'two');
    await ask(alice, ['@bob.bot'], 'one');
    expect((await both).map(({ text }) => text)).toEqual(['two', 'one']);
  });

  it('matches the sender, the recipients, the session, and the text by its words, a pattern or a function', async () => {
    const service = await start();
    const alice = service.client('@alice.bot');
    await ask(alice, ['@bob.bot'], 'build 1 failed');
    const sessionId = await ask(alice, ['@bob.bot', '@carol.bot'], 'build 2 failed');
    await ask(service.client('@bob.bot'), ['@carol.bot'], 'build 3 failed');
    const find = async (expected: Parameters<TestService['expectMessage']>[0]): Promise<string> => {
      const text = (await service.expectMessage({ ...expected, timeout: 0 }).catch(() => ({ text: 'none' }))).text;
      return text.replace(/\D/g, '') || text;
    };
    expect(await find({ from: '@alice.bot', to: 'carol.bot' })).toBe('2');
    expect(await find({ sessionId })).toBe('none');
    expect(await find({ to: '@alice.bot' })).toBe('none');
    expect(await find({ matching: /build [23]/g })).toBe('3');
    expect(await find({ matching: ({ text, sequence }) => sequence > 0 && text.endsWith('failed') })).toBe('1');
  });

  it('that is not fulfilled lists what came instead, at the line of the test', async () => {
    const service = await start();
    const empty = await failureOf(service.expectMessage({ timeout: '10ms' }));
    expect(empty.message).toBe('No message arrived within 0.01 s. No message was sent at all.');
    const alice = service.client('@alice.bot');
    const session = await ask(alice, ['@bob.bot', '@carol.bot'], 'hello');
    await service.expectMessage();
    const alone = await ask(service.client('@bob.bot'), [], `a "${'b'.repeat(300)}"`);
    const failure = await failureOf(
      service.expectMessage({ from: 'bob.bot', to: 'alice.bot', matching: 'HELLO', timeout: '10ms' }),
    );
    expect(failure.message).toBe(
      [
        'No message from @bob.bot to @alice.bot with "HELLO" arrived within 0.01 s. These messages were sent:',
        `  @alice.bot → @bob.bot, @carol.bot in ${session}: "hello" (an earlier expectMessage returned it)`,
        `  @bob.bot → no one in ${alone}: "a \\"${'b'.repeat(197)}…"`,
      ].join('\n'),
    );
    expect(failure.stack?.split('\n    at ')[1]).toContain('expect-message.test.ts');
    for (let count = 0; count < 11; count += 1) await ask(alice, ['@bob.bot'], `number ${count}`);
    const { message } = await failureOf(service.expectMessage({ matching: /x/, timeout: 0 }));
    expect(message).toContain('No message that matches /x/ arrived within 0 s.');
    expect(message.split('\n')).toHaveLength(12);
    expect(message).toMatch(/"number 10"\n {2}… and 3 before them$/);
  });

  it('fails when its function fails, when the service is reset or closed, and when an option is misspelled', async () => {
    const service = await start();
    const wrong = service.expectMessage({
      matching: () => {
        throw new Error('oops');
      },
    });
    const first = failureOf(wrong);
    await ask(service.client('@alice.bot'), [], 'x');
    expect((await first).message).toBe('oops');
    const reset = failureOf(service.expectMessage({ from: '@bob.bot' }));
    await service.reset();
    expect((await reset).message).toContain('No message from @bob.bot had arrived when the service was reset. ');
    const closed = failureOf(service.expectMessage());
    await service.close();
    expect((await closed).message).toBe(
      'No message had arrived when the service was closed. No message was sent at all.',
    );
    const after = await failureOf(service.expectMessage({ from: '@me.bot', timeout: '1h' }));
    expect(after.message).toBe('No message from @me.bot can come: this service was closed.');
    const misspelled = { form: '@bob.bot' } as object;
    await expect(service.expectMessage(misspelled)).rejects.toThrow(
      "expectMessage has no option 'form'. Did you mean from?",
    );
    await expect(service.expectMessage({ from: 'Bob' })).rejects.toThrow("'Bob' is not a handle");
    await expect(service.expectMessage({ timeout: 'soon' })).rejects.toThrow("timeout 'soon' is not a duration");
  });
});

describe('the list of events', () => {
  it('has everything that happened in all sessions, as soon as the call that caused it returns', async () => {
    const service = await start();
    const session_id = await ask(service.client('@alice.bot'), ['@bob.bot'], 'hi');
    expect(service.events().filter(isMessageEvent)).toMatchObject([{ session_id, payload: { content: 'hi' } }]);
    await service.client('@bob.bot').call('joinSession', { path: { session_id } });
    await ask(service.client('@carol.bot'), ['@bob.bot'], 'me too');
    const types = service.events().map(({ type }) => type);
    expect(types.filter((type) => type === 'session.message')).toHaveLength(2);
    expect(types.indexOf('session.joined')).toBeGreaterThan(types.indexOf('session.invited'));
    const { reply } = await service.client('@alice.bot').call('replayEvents', { path: { session_id } });
    expect(service.events().filter((event) => event.session_id === session_id)).toEqual(reply.events);
  });
});

describe('reset', () => {
  it('deletes what happened and stops all faults, and agents, clients and open streams keep running', async () => {
    const service = await start();
    const alice = service.client('@alice.bot', { retries: 0 });
    await using bob = createAgent({ client: service.client('@bob.bot'), from: 'anyone' });
    bob.onMessage(({ text }) => `re: ${text}`);
    await new Promise<void>((onReady) => void bob.run({ onReady }));
    const idempotencyKey = 'the-same-key-in-every-test';
    const body = { invite: ['@bob.bot'], initial_message: { content: 'hi' } };
    const sessions: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      sessions.push((await alice.call('createSession', { body, idempotencyKey })).reply.session_id);
      expect((await service.expectMessage({ from: '@bob.bot', timeout: '30s' })).text).toBe('re: hi');
      await alice.call('addToAllowlist', { path: ALICE, body: { entries: ['@carol.*'] } });
      await alice.call('blockAgent', { body: { handle: '@carol.bot' } });
      service.inject({ kind: 503 });
      await service.reset();
      expect(service.events()).toEqual([]);
      expect((await alice.call('listSessions')).reply.sessions).toEqual([]);
      expect((await alice.call('listAllowlist', { path: ALICE })).reply.entries).toEqual([]);
      expect((await alice.call('listBlocks')).reply.blocks).toEqual([]);
      const path = { session_id: sessions.at(-1) ?? '' };
      await expect(alice.call('getSession', { path })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    }
    expect(new Set(sessions).size).toBe(3);
  });

  it('lets messages be found and unread by their words afterwards', async () => {
    const service = await start();
    const alice = service.client('@alice.bot');
    await ask(alice, ['@bob.bot'], 'walrus one');
    await service.reset();
    const session = await ask(alice, ['@bob.bot'], 'walrus two');
    const bob = service.client('@bob.bot');
    expect((await bob.call('listSessions')).reply.sessions.map(({ id }) => id)).toEqual([session]);
    const found: string[] = [];
    while (found.length === 0)
      for (const { content } of (await alice.call('searchMessages', { query: { q: 'walrus' } })).reply.messages)
        found.push(String(content));
    expect(found).toEqual(['walrus two']);
  });
});

describe('cut', () => {
  it('breaks the event streams of one agent, which then connect again', async () => {
    const service = await start();
    const [alice, bob] = [service.client('@alice.bot'), service.client('@bob.bot')];
    const session_id = await ask(alice, ['@bob.bot'], 'hi');
    await bob.call('joinSession', { path: { session_id } });
    const follow = async (client: Client, onReady: (times: number) => void): Promise<string[]> => {
      const kinds: string[] = [];
      for await (const item of client.tail({ sessions: [{ sessionId: session_id }] })) {
        kinds.push(item.kind);
        if (item.kind === 'ready') onReady(kinds.filter((kind) => kind === 'ready').length);
        if (item.kind === 'event' && isMessageEvent(item.event) && item.event.payload.content === 'end') break;
      }
      return kinds;
    };
    let connected = (_times: number): void => {};
    const untilReady = (times: number): Promise<void> =>
      new Promise((resolve) => {
        connected = (count) => count === times && resolve();
      });
    let isReady = (): void => {};
    const aliceReady = new Promise<void>((resolve) => {
      isReady = resolve;
    });
    const aliceTail = follow(alice, isReady);
    const first = untilReady(1);
    const bobTail = follow(bob, (times) => connected(times));
    await Promise.all([aliceReady, first]);
    const second = untilReady(2);
    expect(await service.cut('bob.bot')).toBe(1);
    await second;
    await alice.call('sendMessage', { path: { session_id }, body: { content: 'end' } });
    expect(await bobTail).toContain('reconnecting');
    expect(await aliceTail).not.toContain('reconnecting');
    expect(await service.cut('@carol.bot')).toBe(0);
    await expect(service.cut('@eve.bot')).rejects.toThrow('@eve.bot is not on this service.');
  });
});
