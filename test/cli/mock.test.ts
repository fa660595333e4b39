import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Actor } from '../support/actors.js';
import { captureStreams } from '../support/captured-streams.js';
import { until } from '../support/until.js';
import { type Stage, startStage } from './acting.js';
import { freshHome, type Ran, runWords } from './captured-run.js';

interface Message {
  readonly id: string;
  readonly sender: string;
  readonly content: unknown;
  readonly metadata?: Record<string, unknown>;
}

interface Playing {
  readonly ended: Promise<Ran>;
  err(): string;
  records(): Record<string, unknown>[];
  stop(): void;
}

let stage: Stage;
beforeAll(async () => {
  stage = await startStage({ areLimitsOn: false });
});
afterAll(() => stage.stop());

let alice: Actor;
let bob: Actor;
const playing: Playing[] = [];
beforeEach(async () => {
  [alice, bob] = await Promise.all([stage.service.createAgent('alice'), stage.service.createAgent('bob')]);
});
afterEach(async () => {
  for (const one of playing.splice(0)) {
    one.stop();
    await one.ended;
  }
});

function scriptOf(script: unknown): string {
  const path = join(freshHome(), 'script.json');
  writeFileSync(path, typeof script === 'string' ? script : JSON.stringify(script));
  return path;
}

/** Starts `asp mock` as bob with these rules. */
function begin(rules: readonly unknown[], words: readonly string[] = []): Playing {
  const streams = captureStreams({ stdin: 'terminal' });
  const stop = new AbortController();
  const line = ['mock', '--script', scriptOf({ rules }), '--from', 'anyone', ...words];
  const one: Playing = {
    ended: stage.as(bob, line, { streams, signal: stop.signal }),
    err: () => streams.err(),
    records: () =>
      streams
        .out()
        .split('\n')
        .slice(0, -1)
        .map((text) => JSON.parse(text) as Record<string, unknown>),
    stop: () => stop.abort(new Error('stopped by SIGINT')),
  };
  playing.push(one);
  return one;
}

/** Starts `asp mock` with these rules and waits until it is ready. */
async function play(rules: readonly unknown[], words: readonly string[] = []): Promise<Playing> {
  const one = begin(rules, words);
  await until('the mock answers', async () => one.err().includes('Answering as'));
  return one;
}

async function openSession(): Promise<string> {
  const session = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(session);
  return session;
}

const messagesIn = async (session: string): Promise<Message[]> =>
  ((await alice.mustReplay(session)) as { type: string; payload: Message }[])
    .filter(({ type }) => type === 'session.message')
    .map(({ payload }) => payload);

/** Returns what bob sent, once he has reported this number of messages. */
async function heard(session: string, one: Playing, reports: number): Promise<unknown[]> {
  await until(`${reports} reports`, async () => one.records().length >= reports);
  return (await messagesIn(session)).filter(({ sender }) => sender === bob.handle).map(({ content }) => content);
}

const stateOf = async (session: string): Promise<unknown> =>
  ((await alice.get(`/sessions/${session}`)).json as { state: string }).state;

describe('asp mock', () => {
  it('answers with the first rule that fits: by text, pattern, sender, data and the number of the message', async () => {
    const session = await openSession();
    const one = await play([
      { when: { from: '@nobody.here' }, do: [{ reply: 'never' }] },
      { when: { data: { kind: 'order', item: { id: 7 } } }, do: [{ reply: 'an order' }] },
      { when: { matches: '^order \\d+$' }, do: [{ reply: 'a number' }] },
      { when: { contains: 'price', from: ['@nobody.here', alice.handle] }, do: [{ reply: '20 EUR' }] },
      { when: { nth: 4 }, do: [{ reply: 'the fourth' }] },
      { do: [{ reply: 'anything' }] },
    ]);
    await alice.mustSend(session, 'What is the price?');
    await alice.mustSend(session, 'order 12');
    const data = { kind: 'order', item: { id: 7, color: 'red' } };
    await alice.post(`/sessions/${session}/messages`, { content: [{ type: 'data', data }] });
    await alice.mustSend(session, 'Price?');
    await alice.mustSend(session, 'order 12!');
    expect(await heard(session, one, 5)).toEqual(['20 EUR', 'a number', 'an order', 'the fourth', 'anything']);
    expect(one.records().map(({ rule, outcome }) => [rule, outcome])).toEqual(
      [3, 2, 1, 4, 5].map((index) => [`rules[${index}]`, 'replied']),
    );
  });

  it('does the actions of a rule in order: messages that name what they answer, a question, the end', async () => {
    const session = await openSession();
    const one = await play([
      {
        name: 'all',
        do: [
          { reply: 'first' },
          { delay: '10ms' },
          { reply: [{ type: 'data', data: { n: 2 } }], metadata: { lang: 'en' } },
          { ask: 'Which size?', choices: ['S', 'M'] },
          { delay: '10ms' },
          'end',
        ],
      },
    ]);
    const { id } = await alice.mustSend(session, 'go');
    expect(await heard(session, one, 1)).toEqual(['first', [{ type: 'data', data: { n: 2 } }], 'Which size?']);
    const said = (await messagesIn(session)).filter(({ sender }) => sender === bob.handle);
    expect(said.map(({ metadata }) => metadata)).toEqual([
      { in_reply_to: id, hops: 1 },
      { lang: 'en', in_reply_to: id, hops: 1 },
      { choices: ['S', 'M'], in_reply_to: id, hops: 1 },
    ]);
    expect(await stateOf(session)).toBe('ended');
    expect(one.records()).toMatchObject([{ rule: 'all', outcome: 'replied', reply: { message_id: said[2]?.id } }]);
  });

  it('leaves a session, fails like a command, and stays silent', async () => {
    const [first, second, third] = [await openSession(), await openSession(), await openSession()];
    const one = await play([
      { when: { contains: 'leave' }, do: ['leave'] },
      { when: { contains: 'fail' }, do: [{ reply: 'wait' }, 'fail'] },
      { do: [] },
    ]);
    await alice.mustSend(first, 'leave');
    await alice.mustSend(second, 'fail');
    await alice.mustSend(third, 'hello');
    await until('three reports', async () => one.records().length === 3);
    expect(
      one
        .records()
        .map(({ outcome }) => outcome)
        .sort(),
    ).toEqual(['failed', 'silent', 'silent']);
    const { participants } = (await alice.mustRead(first)) as { participants: { handle: string; status: string }[] };
    expect(participants).toContainEqual(expect.objectContaining({ handle: bob.handle, status: 'left' }));
    const said = (await messagesIn(second)).slice(1);
    expect(said.map(({ content }) => content)).toEqual(['wait', 'Sorry, I could not process this message.']);
    expect(said[1]?.metadata).toMatchObject({ failed: true });
    expect(await messagesIn(third)).toHaveLength(1);
    expect(one.err()).not.toContain('no rule');
  });

  it('uses a rule up to its `times`, then the next one that fits', async () => {
    const session = await openSession();
    const one = await play([{ times: 2, do: [{ reply: 'busy' }] }, { do: [{ reply: 'done' }] }]);
    for (const text of ['a', 'b', 'c']) await alice.mustSend(session, text);
    expect(await heard(session, one, 3)).toEqual(['busy', 'busy', 'done']);
  });

  it('ignores an invitation, or joins and leaves, and joins without a rule', async () => {
    const one = await play([
      { on: 'invitation', when: { contains: 'spam' }, do: 'ignore' },
      { on: 'invitation', when: { contains: 'brief', from: alice.handle }, do: 'leave' },
      { on: 'invitation', when: { from: '@nobody.here' }, do: 'ignore' },
      { do: [{ reply: 'hello' }] },
    ]);
    const invite = (topic: string): Promise<string> => alice.mustCreate({ invite: [bob.handle], topic });
    const ids = [await invite('spam'), await invite('be brief'), await invite('work')];
    const statuses = (): Promise<unknown[]> =>
      Promise.all(
        ids.map(async (id) => {
          const { participants } = (await alice.mustRead(id)) as { participants: { handle: string; status: string }[] };
          return participants.find(({ handle }) => handle === bob.handle)?.status;
        }),
      );
    await until('all three', async () => (await statuses()).join() === 'invited,left,joined');
    expect(one.err()).toContain(`${ids[0]}: the invitation was answered with ignore (rules[0]).`);
  });

  it('reports a message without a matching rule on stderr, and continues', async () => {
    const session = await openSession();
    const one = await play([{ when: { contains: 'hello' }, do: [{ reply: 'hi' }] }]);
    await alice.mustSend(session, 'bye\nnow');
    await alice.mustSend(session, 'hello');
    expect(await heard(session, one, 2)).toEqual(['hi']);
    expect(one.err()).toMatch(/evt_\w+: no rule fits this message of @alice\S+: bye now\n/);
    expect(one.records()[0]).toMatchObject({ rule: null, outcome: 'silent' });
    one.stop();
    expect((await one.ended).code).toBe(0);
  });

  it('--strict exits with 13 at a message without a matching rule', async () => {
    const session = await openSession();
    const one = await play([{ when: { contains: 'hello' }, do: [] }], ['--strict', '--json']);
    await alice.mustSend(session, 'hello');
    await alice.mustSend(session, 'bye');
    const { code, err } = await one.ended;
    expect(code).toBe(13);
    const { error } = JSON.parse(err.trim().split('\n').at(-1) ?? '') as { error: { code: string; message: string } };
    expect(error).toMatchObject({ code: 'ASP_NOT_AS_EXPECTED', message: expect.stringContaining('bye') });
  });

  it('exits with 13 at its end if a required rule was not used often enough, and names it', async () => {
    const session = await openSession();
    const one = await play([
      { name: 'greeting', required: true, times: 2, when: { contains: 'hello' }, do: [] },
      { name: 'farewell', required: true, when: { contains: 'bye' }, do: [] },
    ]);
    await alice.mustSend(session, 'hello');
    await alice.mustSend(session, 'bye');
    await until('two reports', async () => one.records().length === 2);
    one.stop();
    const { code, err } = await one.ended;
    expect(code).toBe(13);
    expect(err).toContain('1 of 2 required rules');
    expect(err).toContain("'greeting' was used 1 of 2 times.");
    expect(err).not.toContain('farewell');
  });

  it('--until-met exits with 0 once the required rules are used, even by an invitation, and with 13 at the deadline', async () => {
    const rules = [
      { on: 'invitation', required: true, do: 'join' },
      { required: true, when: { contains: 'hello' }, do: [{ reply: 'hi' }] },
    ];
    const one = await play(rules, ['--until-met']);
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await alice.mustSend(session, 'hello');
    expect((await one.ended).code).toBe(0);
    expect((await messagesIn(session)).map(({ content }) => content)).toEqual(['hello', 'hi']);
    const late = begin([rules[1]], ['--until-met', '--timeout', '300ms']);
    expect(await late.ended).toMatchObject({ code: 13, err: expect.stringMatching(/'\S+' was used 0 of 1 times/) });
    const unasked = begin([{ do: [] }], ['--until-met']);
    expect(await unasked.ended).toMatchObject({ code: 2, err: expect.stringContaining('--until-met needs a rule') });
    const timed = begin([{ do: [] }], ['--timeout', '300ms']);
    expect((await timed.ended).code).toBe(8);
  });

  it('is not stopped by a pattern that backtracks forever', async () => {
    const session = await openSession();
    const one = await play([
      { name: 'careless', when: { matches: '^(a+)+$' }, do: [{ reply: 'matched' }] },
      { do: [{ reply: 'no match' }] },
    ]);
    await alice.mustSend(session, `${'a'.repeat(60)}!`);
    expect(await heard(session, one, 1)).toEqual(['no match']);
    expect(one.err()).toContain('careless: its pattern took longer than a second');
  });

  it('does not answer alongside an asp run of the same agent', async () => {
    await play([{ do: [] }]);
    const second = begin([{ do: [] }]);
    expect(await second.ended).toMatchObject({ code: 6, err: expect.stringContaining('ASP_ALREADY_RUNNING') });
  });

  it('answers as the agent of its argument, and refuses another one in --as', async () => {
    const home = freshHome();
    const ran = await runWords([
      'mock',
      alice.handle,
      '--as',
      bob.handle,
      '--script',
      scriptOf({ rules: [{ do: [] }] }),
    ]);
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(`${alice.handle} is not the agent of --as`) });
    const environment = { ASP_PROFILE: stage.service.baseUrl, ASP_TOKEN: await bob.token('api') };
    const words = ['mock', alice.handle.slice(1), '--script', scriptOf({ rules: [{ do: [] }] })];
    const wrong = await runWords(words, { environment, machine: { homeDirectory: home } });
    expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining(`You asked for ${alice.handle}`) });
  });
});

describe('a script with a mistake', () => {
  const refusals: readonly (readonly [string, string])[] = [
    ['', '1 cannot be parsed as JSON: it is empty.'],
    ['{\n  "rules": [\n    { "do": [] }\n    { "do": [] }\n  ]\n}', '4 cannot be parsed as JSON: comma expected.'],
    ['[]', '1: the script must be an object with rules.'],
    ['{}', '1: rules is missing.'],
    ['{ "rules": [] }', '1: rules must not be empty.'],
    ['{ "rules": [\n  { "do": [], "wen": {} }\n] }', '2: rules[0].wen is not a known field.'],
    ['{ "rules": [\n  {}\n] }', '2: rules[0].do is missing.'],
    ['{ "rules": [\n  { "do": "end" }\n] }', '2: rules[0].do must be a list of actions.'],
    ['{ "rules": [\n  { "when": {\n "from": "alice" }, "do": [] }\n] }', '3: rules[0].when.from must be a handle'],
    [
      '{ "rules": [\n  { "when": {\n "from": ["a.b", 7] }, "do": [] }\n] }',
      '3: rules[0].when.from[1] must be a handle',
    ],
    [
      '{ "rules": [\n  { "when": {\n "matches": "(" }, "do": [] }\n] }',
      '3: rules[0].when.matches is not a regular expression.',
    ],
    ['{ "rules": [\n  { "when": { "nth": 0 }, "do": [] }\n] }', '2: rules[0].when.nth must be at least 1.'],
    ['{ "rules": [\n  { "do": ["stop"] }\n] }', '2: rules[0].do[0] must be "end", "leave", "fail", or an object'],
    ['{ "rules": [\n  { "do": [\n{ "repl": "x" }] }\n] }', '3: rules[0].do[0].repl is not a known field.'],
    ['{ "rules": [\n  { "do": [\n{ "reply": "" }] }\n] }', '3: rules[0].do[0].reply is not valid.'],
    [
      '{ "rules": [\n  { "do": [\n{ "reply": "x", "delay": "1s" }] }\n] }',
      '3: rules[0].do[0] must have exactly one of',
    ],
    ['{ "rules": [\n  { "do": [{ "delay":\n"soon" }] }\n] }', '3: rules[0].do[0].delay must be a duration'],
    ['{ "rules": [\n  { "do": [{ "ask": "?" }] }\n] }', '2: rules[0].do[0] must have ask and choices together.'],
    [
      '{ "rules": [\n  { "do": [{ "ask": "?", "choices": ["a"] }] }\n] }',
      '2: rules[0].do[0].choices must be 2 to 10 choices.',
    ],
    [
      '{ "rules": [\n  { "do": [{ "ask": "?", "choices": ["a", "A"] }] }\n] }',
      '2: rules[0].do[0].choices must not repeat a choice.',
    ],
    [
      '{ "rules": [\n  { "do": ["end", { "reply": "x" }] }\n] }',
      '2: rules[0].do must have "end", "leave" and "fail" last.',
    ],
    ['{ "rules": [\n  { "on": "invitation", "do": [] }\n] }', '2: rules[0].do must be "join", "leave" or "ignore".'],
    ['{ "rules": [\n  { "on": "message ", "do": [] }\n] }', '2: rules[0].on must be "message" or "invitation".'],
    [
      '{ "rules": [\n  { "on": "invitation", "when": { "nth": 1 }, "do": "join" }\n] }',
      '2: rules[0].when.nth is not a known field.',
    ],
  ];
  it.each(refusals)('is refused with its line and field: %j', async (text, what) => {
    const path = scriptOf(text);
    const { code, err } = await runWords(['mock', '--script', path]);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(`${path}:${what}`) });
  });

  it('is not refused for comments, a trailing comma or a byte order mark', async () => {
    const text = '\ufeff// a mock\n{ "rules": [{ "do": [] }, /* all */], }';
    const { err } = await runWords(['mock', '--script', '-'], { stdin: text });
    expect(err).toContain('No service is chosen.');
  });

  it('is refused if it does not exist or is too large', async () => {
    const refusal = async (path: string): Promise<string> => {
      const { err } = await runWords(['mock', '--script', path, '--json']);
      return (JSON.parse(err) as { error: { message: string } }).error.message;
    };
    expect(await refusal('/nowhere.json')).toBe('/nowhere.json does not exist.');
    const large = scriptOf(`{ "rules": [${' '.repeat(1024 * 1024)}] }`);
    expect(await refusal(large)).toBe(`${large} is larger than 1 MiB.`);
    expect((await runWords(['mock'])).err).toContain('There is no script.');
  });
});
