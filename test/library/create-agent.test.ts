import { getEventListeners, once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  type Agent,
  type AnswerResult,
  type Client,
  type CreateAgentOptions,
  createAgent,
  isMessageEvent,
  RequestError,
} from '../../src/library/library.js';
import { startService, type TestService } from '../../src/testing/testing.js';
import { SOCKETS_PER_AGENT_MAX } from '../../src/wire/limit.js';
import type { JsonObject } from '../../src/wire/schemas/requests.js';
import { until } from '../support/until.js';

let service: TestService;
let folder: string;
const agents: Agent[] = [];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'asp-agents-'));
  service = await startService({ agents: ['me.bot', 'me.boss', 'other.one'] });
});
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.close()));
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const notes: string[] = [];
const create = (options: CreateAgentOptions = {}, handle = '@me.bot'): Agent => {
  notes.length = 0;
  const client = service.client(handle);
  const progressFile = join(folder, `${handle}.json`);
  const agent = createAgent({ client, progressFile, onNote: (text) => notes.push(text), ...options });
  agents.push(agent);
  return agent;
};
/** Resolves when the agent is ready. The promise of its end is wrapped in an object so that it is not awaited here. */
const start = async (agent: Agent): Promise<{ readonly ended: Promise<void> }> => {
  let ended: Promise<void> = Promise.resolve();
  await new Promise<void>((resolve, reject) => {
    ended = agent.run({ onReady: resolve });
    ended.catch(reject);
  });
  return { ended };
};
const boss = (): Agent => create({ progressFile: undefined }, '@me.boss');

describe('an agent of the library', () => {
  it('answers a question with what its handler returns, and the asker gets it', async () => {
    const agent = create();
    agent.onMessage(async (message, session) => {
      const { text } = message;
      expect([session.relation, session.attempt, message.sender]).toEqual(['same owner', 1, '@me.boss']);
      expect((await session.history()).map((one) => one.text)).toEqual([text]);
      return `you said ${text}`;
    });
    await start(agent);
    const answer = await boss().ask('me.bot', 'hello');
    expect(answer).toMatchObject({ text: 'you said hello', message: { sender: '@me.bot' } });
    const { reply } = await service.client('@me.boss').call('getSession', { path: { session_id: answer.sessionId } });
    expect(reply.state).toBe('ended');
  });

  it('can tell the messages of the history that came after the one being answered, by their sequence', async () => {
    const seen: string[][] = [];
    const both = new AbortController();
    const agent = create();
    agent.onMessage(async ({ text, sequence }, session) => {
      if (!both.signal.aborted) await once(both.signal, 'abort');
      const history = await session.history();
      const earlier = history.filter((one) => one.sequence <= sequence);
      seen.push([text, ...[history, earlier].map((messages) => messages.map((one) => one.text).join())]);
    });
    await start(agent);
    const client = service.client('@me.boss');
    const { reply } = await client.call('createSession', {
      body: { invite: ['@me.bot'], initial_message: { content: 'one' } },
    });
    await client.call('sendMessage', { path: { session_id: reply.session_id }, body: { content: 'two' } });
    both.abort();
    await until('both answers', async () => seen.length === 2);
    expect(seen).toEqual([
      ['one', 'one,two', 'one'],
      ['two', 'one,two', 'one,two'],
    ]);
  });

  it('gives the asker its answer even if it ends the session itself', async () => {
    await start(create({ ends: true }).onMessage(({ text }) => `you said ${text}`));
    const asker = boss();
    for (const text of ['one', 'two', 'three', 'four', 'five'])
      expect((await asker.ask('@me.bot', text)).text).toBe(`you said ${text}`);
  });

  it('needs no file for its progress', async () => {
    const agent = create({ progressFile: undefined }).onMessage(({ text }) => text.toUpperCase());
    const { ended } = await start(agent);
    expect((await boss().ask('@me.bot', 'hello')).text).toBe('HELLO');
    await agent.close();
    await ended;
  });

  it('answers with parts, sends several messages, and sends nothing if there is no answer', async () => {
    const results: AnswerResult[] = [];
    const agent = create().onResult((result) => results.push(result));
    agent.onMessage(async (message, session) => {
      if (message.text === 'quiet') return undefined;
      await session.send('first');
      return [
        { type: 'text', text: 'second' },
        { type: 'data', data: { n: 3 } },
      ];
    });
    await start(agent);
    const asker = boss();
    await expect(asker.ask('@me.bot', 'quiet', { timeout: '300ms' })).rejects.toMatchObject({
      code: 'ASP_TIMEOUT',
      outcome: 'applied',
      sessionId: expect.stringMatching(/^sess_/),
      message: expect.stringMatching(/^@me\.bot did not answer within 0\.3 s\. The question is in sess_/),
    });
    const answer = await asker.ask('@me.bot', 'speak', { keepsSession: true });
    expect(answer.text).toBe('first');
    await expect.poll(() => results.map(({ outcome }) => outcome)).toEqual(['silent', 'replied']);
    const path = { session_id: answer.sessionId };
    const { reply } = await service.client('@me.boss').call('replayEvents', { path });
    expect(reply.events.filter(isMessageEvent).at(-1)?.payload.content).toEqual([
      { type: 'text', text: 'second' },
      { type: 'data', data: { n: 3 } },
    ]);
  });

  it('answers each message once when it starts again, and answers what came in the meantime', async () => {
    let calls = 0;
    const answering = (): Agent =>
      create().onMessage(() => {
        calls += 1;
        return `answer ${calls} ${Math.random()}`;
      });
    const first = answering();
    await start(first);
    const asker = service.client('@me.boss');
    const { sessionId } = await boss().ask('@me.bot', 'one', { keepsSession: true });
    await first.close();
    const path = { session_id: sessionId };
    await asker.call('sendMessage', { path, body: { content: 'two' } });
    await start(answering());
    const texts = async (): Promise<unknown[]> => {
      const { reply } = await asker.call('replayEvents', { path });
      return reply.events.filter(({ type }) => type === 'session.message').map(({ payload }) => payload['sender']);
    };
    await expect.poll(texts).toEqual(['@me.boss', '@me.bot', '@me.boss', '@me.bot']);
    expect(calls).toBe(2);
  });

  it('runs only once: a second one with the same progress does not start, but can continue after the first', async () => {
    const first = create().onMessage(() => 'a');
    await start(first);
    const second = create().onMessage(() => 'b');
    await expect(second.run()).rejects.toMatchObject({
      code: 'ASP_ALREADY_RUNNING',
      message: expect.stringContaining('Another process already answers as @me.bot.'),
    });
    await first.close();
    await start(second);
    expect((await boss().ask('@me.bot', 'x')).text).toBe('b');
  });

  it('answers only agents of the same owner, unless others are named', async () => {
    const stranger = create({ progressFile: undefined }, '@other.one');
    const closed = create().onMessage(() => 'never');
    await start(closed);
    await expect(stranger.ask('@me.bot', 'x', { timeout: '500ms' })).rejects.toMatchObject({ code: 'ASP_TIMEOUT' });
    await expect.poll(() => notes.join()).toContain('Not answering @other.one: it has a different owner');
    expect(notes.join()).toContain('name it in the option from');
    await closed.close();
    await start(create({ from: ['other.one'], progressFile: join(folder, 'open.json') }).onMessage(() => 'now'));
    expect((await stranger.ask('@me.bot', 'x')).text).toBe('now');
  });

  it('calls a handler that fails again, then notifies sender and owner', async () => {
    const errors: unknown[] = [];
    const attempts: number[] = [];
    const agent = create({ tries: 2 }).onError((error, message) => errors.push([String(error), message?.text]));
    agent.onMessage((_, { attempt }) => {
      attempts.push(attempt);
      throw new Error('no model');
    });
    await start(agent);
    await expect(boss().ask('@me.bot', 'x')).rejects.toMatchObject({
      code: 'ASP_NO_ANSWER',
      message: expect.stringContaining('@me.bot could not process the message'),
    });
    expect(attempts).toEqual([1, 2]);
    expect(errors).toEqual([
      ['Error: no model', 'x'],
      ['Error: no model', 'x'],
    ]);
  });

  it('sends nothing for blank text or null, and reports a reply that cannot be sent as a failure', async () => {
    const results: string[] = [];
    const errors: string[] = [];
    const replies: Record<string, unknown> = {
      null: null,
      blank: ' \n',
      number: 42,
      object: { content: 'hello' },
      part: [{ type: 'text' }],
      large: 'x'.repeat(300_000),
    };
    const agent = create().onMessage(({ text }) => replies[text] as string);
    agent.onResult(({ outcome }) => results.push(outcome));
    agent.onError((error) => errors.push(String(error)));
    await start(agent);
    const asker = boss();
    for (const name of ['null', 'blank'])
      await expect(asker.ask('@me.bot', name, { timeout: '300ms' })).rejects.toMatchObject({ code: 'ASP_TIMEOUT' });
    for (const name of ['number', 'object', 'part', 'large'])
      await expect(asker.ask('@me.bot', name)).rejects.toMatchObject({ code: 'ASP_NO_ANSWER' });
    expect(results).toEqual(['silent', 'silent', 'failed', 'failed', 'failed', 'failed']);
    expect(errors).toEqual([
      'TypeError: The handler returned a reply that cannot be sent: It is neither text nor a list of parts.',
      'TypeError: The handler returned a reply that cannot be sent: It is neither text nor a list of parts.',
      'TypeError: The handler returned a reply that cannot be sent: "0.text" must be of type string.',
      'RangeError: The handler returned a reply larger than 256 KiB.',
    ]);
    expect(notes.at(-1)).toMatch(
      /^evt_\S+: The handler returned a reply larger than 256 KiB; the sender is notified\.$/,
    );
  });

  it('notifies the sender if the service refuses the reply, and says so only if that is true', async () => {
    const results: AnswerResult[] = [];
    const file = { type: 'file' as const, attachment_id: 'att_01JZZZZZZZZZZZZZZZZZZZZZZZ' };
    const agent = create().onResult((result) => results.push(result));
    agent.onMessage(async ({ text, session_id: sessionId }, { client }) => {
      if (text === 'end') await client.call('endSession', { path: { session_id: sessionId } });
      return [file];
    });
    await start(agent);
    await expect(boss().ask('@me.bot', 'file')).rejects.toMatchObject({ code: 'ASP_NO_ANSWER' });
    expect(results).toMatchObject([{ outcome: 'refused', code: 'NOT_FOUND', reply: { sequence: expect.any(Number) } }]);
    expect(notes.at(-1)).toMatch(/^evt_\S+: the reply was refused: NOT_FOUND \(.+\); the sender is notified\.$/);
    await expect(boss().ask('@me.bot', 'end')).rejects.toMatchObject({ code: 'ASP_NO_ANSWER' });
    await expect.poll(() => results).toHaveLength(2);
    expect(results[1]).toMatchObject({ outcome: 'refused', reply: null });
    await expect.poll(() => notes.at(-1)).toMatch(/; no reply was sent\.$/);
  });

  it('notifies the sender after a restart if the reply of the earlier run was refused', async () => {
    const client = service.client('@me.bot');
    let isRefused = false;
    const failing = Object.create(client, {
      call: {
        async value(...input: Parameters<Client['call']>) {
          const isSending = input[0] === 'sendMessage';
          // The notice never leaves: a request that is cut off on its way could still arrive.
          if (isSending && isRefused) throw new RequestError({ code: 'ASP_UNREACHABLE', message: 'It is gone.' });
          return client.call(...input).catch((error: unknown) => {
            isRefused ||= isSending;
            throw error;
          });
        },
      },
    }) as Client;
    const first = create({ client: failing, grace: '50ms' });
    first.onMessage(() => [{ type: 'file', attachment_id: 'att_01JZZZZZZZZZZZZZZZZZZZZZZZ' }]);
    const { ended } = await start(first);
    const asked = expect(boss().ask('@me.bot', 'file')).rejects.toMatchObject({ code: 'ASP_NO_ANSWER' });
    await expect.poll(() => isRefused).toBe(true);
    await first.close();
    await ended;
    const results: AnswerResult[] = [];
    const second = create().onResult((result) => results.push(result));
    second.onMessage(() => 'something different');
    await start(second);
    await asked;
    expect(results).toMatchObject([{ outcome: 'refused', code: 'IDEMPOTENCY_MISMATCH', tries: 1 }]);
  });

  it('needs one event stream for all questions that wait', async () => {
    const released = new AbortController();
    let asked = 0;
    const agent = create({ concurrency: 64 }).onMessage(async ({ text }) => {
      asked += 1;
      if (!released.signal.aborted) await once(released.signal, 'abort');
      return `you said ${text}`;
    });
    await start(agent);
    const asker = boss();
    const names = Array.from({ length: SOCKETS_PER_AGENT_MAX + 4 }, (_, at) => `question ${at}`);
    const answers = Promise.all(names.map((name) => asker.ask('@me.bot', name, { timeout: '20s' })));
    await until('all questions', async () => asked === names.length);
    const streams = Array.from({ length: SOCKETS_PER_AGENT_MAX - 1 }, async () => {
      for await (const item of service.client('@me.boss').tail({})) return item.kind;
      return undefined;
    });
    expect(new Set(await Promise.all(streams))).toEqual(new Set(['ready']));
    released.abort();
    expect((await answers).map(({ text }) => text)).toEqual(names.map((name) => `you said ${name}`));
  });

  it('leaves nothing on a signal that many questions share', async () => {
    await start(create().onMessage(() => 'yes'));
    const { signal } = new AbortController();
    for (const question of ['one', 'two']) await boss().ask('@me.bot', question, { signal });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    // Node.js keeps an entry for each signal that AbortSignal.any makes from this one.
    const kept: { size?: number }[] = Object.getOwnPropertySymbols(signal).map(
      (name) => Reflect.get(signal, name) ?? {},
    );
    expect(kept.map(({ size = 0 }) => size).filter((size) => size > 0)).toEqual([]);
  });

  it('does not wait for a handler that ignores its signal, and tells the next one that it got the message', async () => {
    const reasons: unknown[] = [];
    const agent = create({ timeout: '100ms', grace: '50ms' }).onError((error) => reasons.push(String(error)));
    agent.onMessage(() => new Promise(() => {}));
    await start(agent);
    await expect(boss().ask('@me.bot', 'x')).rejects.toMatchObject({ code: 'ASP_NO_ANSWER' });
    expect(reasons).toEqual(['Error: the handler took longer than 0.1 s']);
    await agent.close();
    let isCalled = false;
    const stuck = create({ grace: '50ms' }).onMessage(() => {
      isCalled = true;
      return new Promise(() => {});
    });
    await start(stuck);
    const asked = boss().ask('@me.bot', 'x', { timeout: '5s' });
    await expect.poll(() => isCalled).toBe(true);
    await stuck.close();
    await start(create().onMessage((_, { attempt }) => `at last: ${attempt}`));
    expect((await asked).text).toBe('at last: 2');
    expect((await boss().ask('@me.bot', 'y')).text).toBe('at last: 1');
  });

  it('stops answering at its limit, and says so', async () => {
    const results: string[] = [];
    const agent = create({ limits: { replies: 1 } }).onResult(({ outcome, code }) =>
      results.push(`${outcome} ${code}`),
    );
    await start(agent.onMessage(() => 'again'));
    const { sessionId } = await boss().ask('@me.bot', 'one', { keepsSession: true });
    const path = { session_id: sessionId };
    await service.client('@me.boss').call('sendMessage', { path, body: { content: 'two' } });
    await expect.poll(() => results).toEqual(['replied null', 'limited max_replies']);
    expect(notes.join()).toContain('limits.humans');
  });

  it('emits typed events by name, and survives a listener that fails', async () => {
    const seen: string[] = [];
    const errors: unknown[] = [];
    const agent = create().onMessage(() => 'bye');
    agent.onError((error) => errors.push(error));
    agent.on('session.ended', ({ payload }) => void seen.push(`ended by ${payload.ended_by}`));
    agent.on('session.message', ({ payload }) => {
      seen.push(`${payload.sender}`);
      throw new Error('listener');
    });
    await start(agent);
    await boss().ask('@me.bot', 'hello');
    await expect.poll(() => seen).toEqual(['@me.boss', '@me.bot', 'ended by @me.boss']);
    expect(errors).toHaveLength(2);
  });

  it('can be closed by its handler, which still answers, and by a listener', async () => {
    const agent = create();
    agent.onMessage(async () => {
      await agent.close();
      return 'bye';
    });
    const { ended } = await start(agent);
    expect((await boss().ask('@me.bot', 'stop', { keepsSession: true })).text).toBe('bye');
    await ended;
    const other = create().onMessage(() => 'hello');
    const { ended: otherEnded } = await start(other.on('session.ended', () => other.close()));
    await boss().ask('@me.bot', 'hello');
    await otherEnded;
    await other.close();
  });

  it('does not wait forever for a listener, neither when it is closed nor before it answers', async () => {
    let isCalled = false;
    const stuck = (): Promise<void> => {
      isCalled = true;
      return new Promise(() => {});
    };
    const agent = create({ grace: '50ms' }).onMessage(() => 'hello');
    const { ended } = await start(agent.on('session.message', stuck));
    const asked = boss().ask('@me.bot', 'x', { timeout: '10s' });
    await expect.poll(() => isCalled).toBe(true);
    await agent.close();
    await ended;
    const errors: string[] = [];
    const next = create({ timeout: '100ms' }).onError((error) => errors.push(String(error)));
    await start(next.onMessage(() => 'hello').on('session.message', stuck));
    expect((await asked).text).toBe('hello');
    expect(errors).toContain('Error: the listener took longer than 0.1 s');
  });

  it('answers while its onReady waits for an answer', async () => {
    const agent = create().onMessage(({ text }) => `you said ${text}`);
    const answer = await new Promise<string>((resolve, reject) => {
      const onReady = async (): Promise<void> => {
        const { text } = await boss().ask('@me.bot', 'hello', { timeout: '10s' });
        resolve(text);
      };
      agent.run({ onReady: () => onReady().catch(reject) }).catch(reject);
    });
    expect(answer).toBe('you said hello');
  });

  it('reports what an onReady throws later, and keeps answering', async () => {
    const errors: unknown[] = [];
    const agent = create().onMessage(() => 'hello');
    agent.onError((error) => errors.push(error));
    const broken = new Error('no database');
    const run = agent.run({ onReady: () => Promise.reject(broken) });
    expect((await boss().ask('@me.bot', 'x')).text).toBe('hello');
    expect(errors).toEqual([broken]);
    await agent.close();
    await run;
  });

  it('keeps answering while the service fails', async () => {
    service.inject({ kind: 503, every: 3 });
    service.inject({ kind: 'lost', on: 'sendMessage', every: 2 });
    await start(create().onMessage(({ text }) => `re: ${text}`));
    const asker = boss();
    const texts = await Promise.all(['a', 'b', 'c', 'd'].map(async (text) => (await asker.ask('@me.bot', text)).text));
    expect(texts).toEqual(['re: a', 're: b', 're: c', 're: d']);
  });

  it('waits for the service with what its handler sends before the reply, too', async () => {
    const results: AnswerResult[] = [];
    const agent = create({ client: service.client('@me.bot', { retries: 0 }) });
    agent
      .onResult((result) => results.push(result))
      .onMessage(async (_, session) => {
        await session.send('first');
        return 'second';
      });
    await start(agent);
    service.inject({ kind: 503, on: 'sendMessage', times: 1 });
    expect((await boss().ask('@me.bot', 'hello', { keepsSession: true })).text).toBe('first');
    expect(await service.expectMessage({ from: '@me.bot', matching: 'second' })).toBeDefined();
    await expect.poll(() => results).toMatchObject([{ outcome: 'replied', tries: 1 }]);
  });

  it('ends a question when the agent is closed, and survives a listener of results that fails', async () => {
    const errors: unknown[] = [];
    const agent = create().onMessage(() => 'yes');
    agent.onError((error) => errors.push(String(error)));
    agent.onResult(() => {
      throw new Error('listener');
    });
    await start(agent);
    const asker = boss();
    expect((await asker.ask('@me.bot', 'x')).text).toBe('yes');
    await expect.poll(() => errors).toEqual(['Error: listener']);
    const asked = expect(asker.ask('@other.one', 'x')).rejects.toThrow();
    await expect
      .poll(async () => (await service.client('@other.one').call('listSessions', {})).reply.sessions.length)
      .toBe(1);
    await asker.close();
    await asked;
  });

  it('survives listeners that fail later, and reports what they throw', async () => {
    const [errors, notes]: [string[], string[]] = [[], []];
    const agent = create({ onNote: (text) => notes.push(text) }).onMessage(() => 'yes');
    agent.onResult(async () => {
      throw new Error('late');
    });
    agent.onError(async (error) => {
      errors.push(String(error));
      throw new Error('no log');
    });
    await start(agent);
    const asker = boss();
    expect((await asker.ask('@me.bot', 'x')).text).toBe('yes');
    await expect.poll(() => errors).toEqual(['Error: late']);
    await expect
      .poll(() => notes)
      .toContainEqual(expect.stringContaining('A listener of onError failed: Error: no log'));
    expect((await asker.ask('@me.bot', 'y')).text).toBe('yes');
  });

  it('names the function that failed if nothing listens to errors', async () => {
    const fail = (): never => {
      throw new Error('oops');
    };
    await start(create().onMessage(fail).on('session.joined', fail).onResult(fail));
    const asked = boss().ask('@me.bot', 'x');
    await expect(asked).rejects.toMatchObject({ code: 'ASP_NO_ANSWER' });
    for (const which of ['A listener of session.joined', 'The handler of onMessage', 'A listener of onResult'])
      await expect.poll(() => notes).toContainEqual(expect.stringContaining(`${which} failed: Error: oops`));
  });

  it('says that the client was closed while a question was open', async () => {
    const client = service.client('@me.boss');
    const asked = expect(create({ client }).ask('@other.one', 'x')).rejects.toMatchObject({
      code: 'ASP_ABORTED',
      outcome: 'applied',
      message: expect.stringMatching(/^The client was closed before @other\.one answered \(sess_\w+\)\.$/),
    });
    await service.expectMessage({ from: '@me.boss' });
    await pause(200);
    await client.close();
    await asked;
  });

  it('offers choices, and only one of them is the answer', async () => {
    const bot = service.client('@me.bot');
    const asking = boss().ask('@me.bot', 'deploy?', { choices: ['Yes', 'No'], timeout: '20s' });
    const { session_id, id, metadata } = await service.expectMessage({ matching: 'deploy?' });
    expect(metadata).toMatchObject({ choices: ['Yes', 'No'], awaits_reply: true });
    const path = { session_id };
    await bot.call('joinSession', { path });
    for (const content of ['Which version?', 'no'])
      await bot.call('sendMessage', { path, body: { content, metadata: { in_reply_to: id } } });
    expect(await asking).toMatchObject({ text: 'no', choice: 'No' });
    const one = boss();
    for (const choices of [['only'], ['a', 'A'], ['', 'b'], 'yes,no', [1, 2]])
      await expect(one.ask('@me.bot', 'x', { choices: choices as string[] })).rejects.toThrow(
        'choices takes 2 to 10 different texts of 1 to 80 visible characters.',
      );
  });

  it('ends a question at once if the other agent leaves, and names the agent that left', async () => {
    const bot = service.client('@me.bot');
    const asked = async (text: string, leave: (path: { session_id: string }) => Promise<unknown>): Promise<unknown> => {
      const asking = boss().ask('@me.bot', text, { timeout: '20s' });
      const caught = asking.catch((error: unknown) => error);
      const { session_id } = await service.expectMessage({ matching: text });
      await leave({ session_id });
      return caught;
    };
    const left = await asked('one', async (path) => {
      await bot.call('joinSession', { path });
      await bot.call('leaveSession', { path });
    });
    expect(left).toMatchObject({ code: 'ASP_NO_ANSWER', message: expect.stringMatching(/^@me\.bot left without an/) });
    const path = { session_id: (left as RequestError).sessionId ?? '' };
    expect((await service.client('@me.boss').call('getSession', { path })).reply.state).toBe('ended');
    const removed = await asked('two', () => bot.call('blockAgent', { body: { handle: '@me.boss' } }));
    const before = expect.stringMatching(/^@me\.bot did not answer before @me\.boss left the session/);
    expect(removed).toMatchObject({ code: 'ASP_NO_ANSWER', message: before });
  });

  it('keeps waiting if the other agent leaves, but another one that it brought in answers', async () => {
    const [bot, one] = [service.client('@me.bot'), service.client('@other.one')];
    const asking = boss().ask('@me.bot', 'one', { timeout: '20s' });
    const { session_id, id } = await service.expectMessage({ matching: 'one' });
    const path = { session_id };
    await bot.call('joinSession', { path });
    await bot.call('inviteToSession', { path, body: { invite: ['@other.one'] } });
    await bot.call('leaveSession', { path });
    await one.call('joinSession', { path });
    await one.call('sendMessage', { path, body: { content: 'for bot', metadata: { in_reply_to: id } } });
    expect((await asking).text).toBe('for bot');
  });

  it('says that the caller canceled a question, and where it is', async () => {
    const asker = boss();
    const stop = new AbortController();
    const asked = asker.ask('@other.one', 'x', { signal: stop.signal });
    const refused = expect(asked).rejects.toMatchObject({
      code: 'ASP_ABORTED',
      outcome: 'applied',
      sessionId: expect.stringMatching(/^sess_/),
      message: expect.stringMatching(/^Canceled before @other\.one answered\. The question is in sess_\w+\.$/),
    });
    await service.expectMessage({ from: '@me.boss' });
    await pause(200);
    stop.abort(new Error('enough'));
    await refused;
  });

  it('says that there was no answer before the time limit in the signal of the caller, and where the question is', async () => {
    const late = boss().ask('@other.one', 'x', { signal: AbortSignal.timeout(500), timeout: '1m' });
    await expect(late).rejects.toMatchObject({
      code: 'ASP_TIMEOUT',
      outcome: 'applied',
      message: expect.stringMatching(/^@other\.one did not answer in time\. The question is in sess_\w+\.$/),
    });
  });

  it('sends a question once under one name', async () => {
    await start(create().onMessage(() => 'yes'));
    const [one, two] = await Promise.all(
      [1, 2].map(() => boss().ask('@me.bot', 'ready?', { once: 'today', keepsSession: true })),
    );
    expect(one?.sessionId).toBe(two?.sessionId);
  });

  it('says what is wrong', async () => {
    expect(() => createAgent({ from: ['Nobody'] })).toThrow("from: 'Nobody' is not a handle, such as alice.bot.");
    expect(() => createAgent({ timeout: 'soon' })).toThrow("timeout 'soon' is not a duration");
    expect(() => createAgent({ concurrency: 0 })).toThrow('concurrency 0 is not a whole number of at least 1.');
    expect(() => createAgent({ limits: { replies: Number.POSITIVE_INFINITY } })).toThrow(
      'limits.replies Infinity is not a whole number of at least 0; 0 means no limit.',
    );
    await expect(create().run()).rejects.toThrow('This agent has no handler: call onMessage before run.');
    await expect(boss().ask('Alice', 'x')).rejects.toThrow("ask: 'Alice' is not a handle, such as alice.bot.");
    await expect(boss().ask('no.body', 'x')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/^@no\.body could not be reached\./),
    });
    // @ts-expect-error a misspelled type of event
    expect(() => create().on('session.mesage', () => {})).toThrow(
      "'session.mesage' is not an event type. Did you mean session.message?",
    );
    const misspelled = { concurency: 2 } as object;
    expect(() => createAgent(misspelled)).toThrow("createAgent has no option 'concurency'. Did you mean concurrency?");
    const limits = { maxHops: 2 } as object;
    expect(() => createAgent({ limits })).toThrow(
      "limits has no option 'maxHops'. The options are replies, repliesPer",
    );
    expect(() => createAgent('@me.bot' as unknown as object)).toThrow(
      'createAgent takes an object with these options: handle, p',
    );
    await expect(boss().ask(undefined as unknown as string, 'x')).rejects.toThrow("ask: 'undefined' is not a handle");
    for (const nothing of [undefined, null, '', ' \n', []] as string[])
      await expect(boss().ask('@me.bot', nothing)).rejects.toThrow('ask needs a question: text or parts.');
    const none = undefined as unknown as () => undefined;
    expect(() => create().onMessage(none)).toThrow('onMessage needs a function.');
    expect(() => create().on('session.ended', none)).toThrow('on needs a function.');
    expect(() => create().onResult(none)).toThrow('onResult needs a function.');
    expect(() => create().onError(none)).toThrow('onError needs a function.');
    expect(() => createAgent({ onFailure: 'retry' as 'skip' })).toThrow("onFailure 'retry' is not one of reply, skip");
    await expect(create().run({ onReddy: () => {} } as object)).rejects.toThrow('Did you mean onReady?');
    await expect(boss().ask('@me.bot', 'x', { timeoutMs: 1 } as object)).rejects.toThrow('Did you mean timeout?');
    await expect(create({ handle: '@me.boss' }).handle()).rejects.toMatchObject({ code: 'ASP_WRONG_AGENT' });
    const agent = create().onMessage(() => 'x');
    expect(() => agent.onMessage(() => 'y')).toThrow('already has a message handler');
    await agent.close();
    await expect(agent.run()).rejects.toThrow('This agent was closed.');
  });
});

describe('replies that another program of the agent waits for', () => {
  it('are not messages: also after a restart, for the choices of a question, and without a name among two', async () => {
    const me = service.client('@me.bot');
    const other = service.client('@other.one');
    const heard: string[] = [];
    const begin = async () => {
      const agent = create({ from: 'anyone' }).onMessage(({ text }) => void heard.push(text));
      await start(agent);
      return agent;
    };
    const say = async (client: Client, id: string, content: string, metadata?: JsonObject): Promise<string> => {
      const body = { content, ...(metadata && { metadata }) };
      return (await client.call('sendMessage', { path: { session_id: id }, body })).reply.message_id;
    };
    let agent = await begin();
    const { reply } = await me.call('createSession', { body: { invite: ['@other.one', '@me.boss'] } });
    const id = reply.session_id;
    const path = { session_id: id };
    await other.call('joinSession', { path });
    const named = await say(me, id, 'which?', { awaits_reply: true });
    await say(other, id, 'unrelated');
    const unmarked = await say(me, id, 'by the way');
    await say(other, id, 'about that', { in_reply_to: unmarked });
    await until('both are heard', async () => heard.length === 2);
    await agent.close();
    await say(other, id, 'the red one', { in_reply_to: named });
    agent = await begin();
    await say(other, id, 'the red one, really', { in_reply_to: named });
    await service.client('@me.boss').call('joinSession', { path });
    await service.client('@me.boss').call('leaveSession', { path });
    await say(me, id, 'sure?', { awaits_reply: true, choices: ['yes', 'no'] });
    for (const text of ['let me see', 'YES', 'something new']) await say(other, id, text);
    await until('the new one is heard', async () => heard.length === 3);
    await say(me, id, 'anything else?', { awaits_reply: true });
    await agent.close();
    await say(other, id, 'no');
    await say(other, id, 'but thanks');
    agent = await begin();
    await until('the last one is heard', async () => heard.length === 4);
    expect(heard).toEqual(['unrelated', 'about that', 'something new', 'but thanks']);
    await me.call('endSession', { path });
    await until('nothing is kept', async () => !readFileSync(join(folder, '@me.bot.json'), 'utf8').includes('awaited'));
  });

  it('asks say that they wait', async () => {
    const heard: unknown[] = [];
    const agent = create().onMessage(({ metadata }) => {
      heard.push(metadata);
      return 'fine';
    });
    await start(agent);
    await boss().ask('me.bot', 'how are you?');
    expect(heard).toEqual([{ awaits_reply: true }]);
  });
});
