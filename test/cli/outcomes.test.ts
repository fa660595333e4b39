import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { loadCommands } from '../../src/cli/command.js';
import { everyOption } from '../../src/cli/options.js';
import { PROGRAM } from '../../src/cli/program.js';
import { type RunningService, startService } from '../../src/service/service.js';
import { type Actor, createActor, operate } from '../support/actors.js';
import { captureStreams } from '../support/captured-streams.js';
import { createTestClock, type TestClock } from '../support/clock.js';
import { mustGrant } from '../support/grants.js';
import { type HttpRelay, type Relayed, startHttpRelay } from '../support/http-relay.js';
import { discover, type Place } from '../support/oauth.js';
import { until } from '../support/until.js';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.js';
import { freshHome, type Ran, type RunOptions, runWords } from './captured-run.js';

/** How the writes of a command fail, and what the command then reports. */
const TROUBLES = {
  'is limited for an hour': { exit: 7, code: 'RATE_LIMITED', outcome: 'not_applied', retryable: true },
  'answers 500 after the change was made': { exit: 9, code: 'INTERNAL_ERROR', outcome: 'unknown', retryable: true },
  'breaks the connection after the change': { exit: 9, code: 'ASP_UNREACHABLE', outcome: 'unknown', retryable: true },
  'answers after the deadline': { exit: 8, code: 'ASP_TIMEOUT', outcome: 'unknown', retryable: true },
  'is not there': { exit: 9, code: 'ASP_UNREACHABLE', outcome: 'not_applied', retryable: true },
} as const;
type Trouble = keyof typeof TROUBLES;

let relay: HttpRelay;
let service: RunningService;
let place: Place;
let alice: Actor;
let bob: Actor;
let receiver: WebhookReceiver;
let trouble: Trouble | undefined;
/** The time of a command whose deadline passes as soon as its change is made. */
let clock: TestClock | undefined;
/** Sends the answers that are held back. */
let release = (): void => {};
const home = freshHome();
const file = join(home, 'note.txt');
const webhookSecret = join(home, 'webhook.secret');
const NOTE = 'a note\n';

beforeAll(async () => {
  writeFileSync(file, NOTE);
  receiver = await startWebhookReceiver();
  writeFileSync(webhookSecret, receiver.secret, { mode: 0o600 });
  relay = await startHttpRelay();
  relay.onRequest = meet;
  const publicUrl = `http://127.0.0.1:${relay.port}`;
  service = await startService({
    host: '127.0.0.1',
    port: 0,
    data: 'memory',
    areLimitsOn: false,
    publicUrl,
    webhooks: 'any',
  });
  relay.targetPort = service.port;
  place = await discover(service.baseUrl);
  alice = await newAgent('alice');
  bob = await newAgent('bob');
  // Load everything first, because that takes longer than the deadlines below.
  const warm = await session('joined');
  await asAlice(['send', warm, 'hello', '--wait', '--timeout', '3s']);
  await asAlice(['session', 'wait', warm, '--for', 'ended', '--timeout', '100ms']);
});
afterEach(calm);
afterAll(async () => {
  await relay.stop();
  await service.stop();
  await receiver.close();
});

const newAgent = (name: string): Promise<Actor> =>
  createActor(place, { url: service.operatorUrl, secret: service.operatorSecret }, name);

function calm(): void {
  trouble = undefined;
  clock = undefined;
  release();
}

const DEADLINE_MS = 20_000;

/** What a command is run with that meets this trouble. */
function meeting(name: Trouble): Pick<RunOptions, 'clock' | 'environment'> {
  trouble = name;
  clock = name === 'answers after the deadline' ? createTestClock(Date.now()) : undefined;
  return { ...(clock && { clock }), environment: name === 'is not there' ? NOBODY : {} };
}

/** Nothing listens on the port of this address. */
const NOBODY = { ASP_PROFILE: 'http://127.0.0.1:1/v1' };

async function meet(request: Relayed): Promise<void> {
  const isWrite = request.method !== 'GET' && request.path.startsWith('/v1/');
  if (!isWrite || trouble === undefined) return (await request.forward())();
  switch (trouble) {
    case 'is not there':
      return;
    case 'is limited for an hour':
      return request.answer(429, { 'retry-after': '3600' }, { error: { code: 'RATE_LIMITED', message: 'Too many.' } });
    case 'answers 500 after the change was made':
      await request.forward();
      return request.answer(500, {}, { error: { code: 'INTERNAL_ERROR', message: 'Something broke.' } });
    case 'breaks the connection after the change':
      await request.forward();
      return request.drop();
    case 'answers after the deadline':
      await request.forward();
      await new Promise<void>((resolve) => {
        release = resolve;
        clock?.advance(DEADLINE_MS);
      });
      return request.drop();
  }
}

/** Runs as alice, with a token for only the REST API by default. */
async function asAlice(words: readonly string[], options: RunOptions & { token?: string } = {}): Promise<Ran> {
  const environment = {
    ASP_PROFILE: place.baseUrl,
    ASP_TOKEN: options.token ?? (await alice.token('api')),
    XDG_RUNTIME_DIR: join(home, 'run'),
    ...options.environment,
  };
  return runWords(words, { ...options, environment, machine: { homeDirectory: home, workingDirectory: home } });
}

interface Told {
  readonly code: string;
  readonly message: string;
  readonly exit_code: number;
  readonly retryable: boolean;
  readonly outcome: string;
  readonly session_id?: string;
  readonly hint?: string;
  readonly next?: readonly string[];
  readonly request?: { readonly idempotency_key?: string };
}
const errorIn = ({ err }: Ran): Told => (JSON.parse(err.trim().split('\n').at(-1) ?? '') as { error: Told }).error;

/** A command with its own data, and a counter of how often the service applied it. */
interface Subject {
  readonly words: readonly string[];
  /** Used instead of alice's token. Commands of the account need a token of the account. */
  readonly token?: string;
  readonly stdin?: string;
  count(): Promise<number>;
}

/** Creates a session of alice's, in which bob may be invited or joined. */
async function session(bobIs?: 'invited' | 'joined'): Promise<string> {
  const id = await alice.mustCreate(bobIs === undefined ? {} : { invite: [bob.handle] });
  if (bobIs === 'joined') await bob.mustJoin(id);
  return id;
}

const textOf = async (path: string): Promise<string> => (await alice.get(path)).text;
const countIn = async (path: string, marker: string): Promise<number> =>
  (await textOf(path)).split(JSON.stringify(marker)).length - 1;
const messages = (id: string, marker: string) => () => countIn(`/sessions/${id}/events`, marker);
const topics = (marker: string) => () => countIn('/sessions?limit=100', marker);
const stateIs = (id: string, state: string) => async () =>
  Number((await textOf(`/sessions/${id}`)).includes(`"${state}"`));
const statusIs = (id: string, handle: string, status: string) => async () => {
  const { participants } = (await alice.get(`/sessions/${id}`)).json as {
    participants: { handle: string; status: string }[];
  };
  return participants.filter((one) => one.handle === handle && one.status === status).length;
};
const listed = (path: string, handle: string) => () => countIn(path, handle);

/** Returns a token of alice's account. */
async function accountToken(): Promise<string> {
  const operator = { url: service.operatorUrl, secret: service.operatorSecret };
  const { accessToken } = await mustGrant(place, operator, alice.handle, { scope: 'account:read account:agents:read' });
  return accessToken;
}

/** Creates another agent of alice's account. */
const sibling = async (): Promise<string> =>
  (
    await createActor(place, { url: service.operatorUrl, secret: service.operatorSecret }, 'other', {
      owner: alice.owner,
    })
  ).handle;

/** Returns a function that counts the agents with this handle. */
const exists = (handle: string) => async () =>
  Number((await alice.get(`/agents/${handle.slice(1).replace('.', '/')}`)).status === 200);

/** Counts the files that the service has stored. */
async function storedFiles(): Promise<number> {
  const operator = { url: service.operatorUrl, secret: service.operatorSecret };
  const [owner = ''] = alice.handle.slice(1).split('.');
  const account = (await operate(operator, 'GET', `/accounts/${owner}`)) as { attachment_bytes: number };
  return account.attachment_bytes / NOTE.length;
}

/** An agent of alice's account, an address for its webhook, and how to set and read it. */
async function webhookOfSibling() {
  const [handle, token] = [await sibling(), await accountToken()];
  const path = `/agents/${handle.slice(1).replace('.', '/')}/webhook`;
  return {
    ...{ url: receiver.url(`/${randomUUID()}`), token },
    webhook: {
      handle,
      set: (url: string) => alice.post(path, { url, secret: receiver.secret }, { token }),
      read: async () => (await alice.get(path, { token })).text,
    },
  };
}

async function inSession(more: (id: string, marker: string) => readonly string[], stdin?: string): Promise<Subject> {
  const [id, marker] = [await session(), randomUUID()];
  const words = more(id, marker);
  return { words, ...(stdin !== undefined && { stdin: marker }), count: messages(id, marker) };
}

/** Every command that makes one change on the service. */
const COMMANDS: Readonly<Record<string, () => Promise<Subject>>> = {
  'send to a handle': async () => {
    const topic = randomUUID();
    return { words: ['send', bob.handle, 'hi', '--topic', topic], count: topics(topic) };
  },
  'send to a handle, and end': async () => {
    const topic = randomUUID();
    return { words: ['send', bob.handle, 'hi', '--end', '--topic', topic], count: topics(topic) };
  },
  'send into a session': () => inSession((id, marker) => ['send', id, marker]),
  'send into a session, and end it': () => inSession((id, marker) => ['send', id, marker, '--end']),
  'send a file': () => inSession((id, marker) => ['send', id, marker, '--file', file]),
  'send data': () => inSession((id, marker) => ['send', id, '--data', JSON.stringify({ marker })]),
  reply: async () => {
    const [id, marker] = [await session('joined'), randomUUID()];
    await bob.mustSend(id, 'a question');
    return { words: ['reply', id, marker], count: messages(id, marker) };
  },
  'session create': async () => {
    const topic = randomUUID();
    return { words: ['session', 'create', bob.handle, '--topic', topic], count: topics(topic) };
  },
  'session join': async () => {
    const id = await bob.mustCreate({ invite: [alice.handle] });
    return { words: ['session', 'join', id], count: statusIs(id, alice.handle, 'joined') };
  },
  'session invite': async () => {
    const id = await session();
    return { words: ['session', 'invite', id, bob.handle], count: statusIs(id, bob.handle, 'invited') };
  },
  'session leave': async () => {
    const id = await session('joined');
    return { words: ['session', 'leave', id], count: statusIs(id, alice.handle, 'left') };
  },
  'session end': async () => {
    const id = await session();
    return { words: ['session', 'end', id], count: stateIs(id, 'ended') };
  },
  'session reopen': async () => {
    const id = await session();
    await alice.mustEnd(id);
    return { words: ['session', 'reopen', id], count: stateIs(id, 'active') };
  },
  'knock dismiss': async () => {
    const { handle, post } = await newAgent('peer');
    const path = `/agents/${alice.owner}/${alice.name}`;
    const token = await accountToken();
    await alice.patch(path, { inbound_policy: 'hold' }, { token });
    await post('/sessions', { invite: [alice.handle] });
    await alice.patch(path, { inbound_policy: 'open' }, { token });
    const isListed = listed(`${path}/knocks`, handle);
    return { words: ['knock', 'dismiss', handle], count: async () => 1 - (await isListed()) };
  },
  'allowlist add': async () => {
    const { handle } = await newAgent('peer');
    return { words: ['allowlist', 'add', handle], count: listed('/agents/me/allowlist', handle) };
  },
  'allowlist remove': async () => {
    const { handle } = await newAgent('peer');
    await alice.post('/agents/me/allowlist', { entries: [handle] });
    const isListed = listed('/agents/me/allowlist', handle);
    return { words: ['allowlist', 'remove', handle], count: async () => 1 - (await isListed()) };
  },
  'allowlist apply': async () => {
    const { handle } = await newAgent('peer');
    const { entries } = (await alice.get('/agents/me/allowlist')).json as { entries: string[] };
    const wanted = join(home, `${handle}.txt`);
    writeFileSync(wanted, [...entries, handle].join('\n'));
    return { words: ['allowlist', 'apply', wanted], count: listed('/agents/me/allowlist', handle) };
  },
  'block add': async () => {
    const { handle } = await newAgent('peer');
    return { words: ['block', 'add', handle], count: listed('/agents/me/blocks', handle) };
  },
  'block remove': async () => {
    const { handle } = await newAgent('peer');
    await alice.post('/agents/me/blocks', { handle });
    const isListed = listed('/agents/me/blocks', handle);
    return { words: ['block', 'remove', handle], count: async () => 1 - (await isListed()) };
  },
  'agent update': async () => {
    const marker = randomUUID();
    return { words: ['agent', 'update', '--description', marker], count: () => countIn('/agents/me', marker) };
  },
  'agent update by the account': async () => {
    const [handle, marker, token] = [await sibling(), randomUUID(), await accountToken()];
    const path = `/agents/${handle.slice(1).replace('.', '/')}`;
    return { words: ['agent', 'update', handle, '--description', marker], token, count: () => countIn(path, marker) };
  },
  'agent create': async () => {
    const handle = `@${alice.owner}.n${randomUUID().slice(0, 8)}`;
    return { words: ['agent', 'create', handle], token: await accountToken(), count: exists(handle) };
  },
  'agent remove': async () => {
    const [handle, token] = [await sibling(), await accountToken()];
    const isThere = exists(handle);
    return { words: ['agent', 'remove', handle, '--yes'], token, count: async () => 1 - (await isThere()) };
  },
  'webhook set': async () => {
    const { url, token, webhook } = await webhookOfSibling();
    const words = ['webhook', 'set', url, webhook.handle, '--signing-secret-file', webhookSecret];
    return { words, token, count: async () => Number((await webhook.read()).includes(url)) };
  },
  'webhook remove': async () => {
    const { url, token, webhook } = await webhookOfSibling();
    await webhook.set(url);
    const count = async () => Number(!(await webhook.read()).includes(url));
    return { words: ['webhook', 'remove', webhook.handle, '--yes'], token, count };
  },
  'attachment upload': async () => {
    const before = await storedFiles();
    return { words: ['attachment', 'upload', file], count: async () => (await storedFiles()) - before };
  },
  api: () =>
    inSession((id, marker) => ['api', `sessions/${id}/messages`, '-X', 'POST', '--field', `content=${marker}`]),
};

/** Why these commands have no entry. */
const LEFT_OUT = {
  ask: 'it waits for an answer, too: ask.test.ts',
  'webhook test': 'each call makes another test',
} as const;

it('each command whose write can be repeated under its key has an entry', async () => {
  const { commands } = await loadCommands(PROGRAM);
  const paths = commands.filter((command) => everyOption(command).some(isKeyOption)).map(({ path }) => path);
  const typed = Object.keys(COMMANDS);
  const named = (path: string): boolean => typed.some((name) => name.startsWith(path.replace('message send', 'send')));
  const forgotten = paths.filter((path) => !named(path) && !Object.hasOwn(LEFT_OUT, path));
  expect(forgotten, 'add them to COMMANDS, with how to count their changes').toEqual([]);
});

const isKeyOption = ({ flags }: { readonly flags: string }): boolean => flags.startsWith('--idempotency-key');

describe.each(Object.keys(TROUBLES) as Trouble[])('when the service %s', (name) => {
  const expected = TROUBLES[name];
  const limits = ['--timeout', `${DEADLINE_MS}ms`, '--retries', '1'];

  it.each(Object.keys(COMMANDS))('asp %s says what really happened, and how to continue', async (command) => {
    const subject = await COMMANDS[command]?.();
    if (subject === undefined) throw new Error(command);
    const { words, stdin, token, count } = subject;
    const given = { ...(stdin !== undefined && { stdin }), ...(token !== undefined && { token }) };
    const ran = await asAlice([...words, ...limits, '--json'], { ...given, ...meeting(name) });
    calm();
    const { exit, ...facts } = expected;
    expect(ran.code, ran.err).toBe(exit);
    // `asp api` prints every answer, even an error.
    if (command !== 'api') expect(ran.out).toBe('');
    const error = errorIn(ran);
    expect(error).toMatchObject(facts);
    const happened = await count();
    if (error.outcome === 'not_applied') expect(happened).toBe(0);
    if (name.includes('after the change') && command !== 'send a file') expect(happened).toBe(1);
    // The suggested command runs and ends, and the change has been made exactly once.
    const again = error.outcome === 'unknown' ? error.next?.slice(1) : words;
    if (again === undefined) throw new Error(`no next: ${ran.err}`);
    const second = await asAlice([...again, '--json'], given);
    expect(second.code, second.err).toBe(0);
    expect(await count()).toBe(1);
  });

  it.each(Object.keys(COMMANDS))('asp %s reports that to a person', async (command) => {
    const subject = await COMMANDS[command]?.();
    if (subject === undefined) throw new Error(command);
    const { words, stdin, token, count } = subject;
    const ran = await asAlice([...words, ...limits], {
      ...(stdin !== undefined && { stdin }),
      ...(token !== undefined && { token }),
      ...meeting(name),
    });
    calm();
    expect(ran.code, ran.err).toBe(expected.exit);
    const isUnknown = expected.outcome === 'unknown';
    // `asp api` prints the answer, and these commands read the current state before they change it.
    const isRead =
      (/^(allowlist|knock|reply|webhook set)/.test(command) || command === 'agent create') && name === 'is not there';
    if (command !== 'api' && !isRead)
      expect(ran.err).toMatch(isUnknown ? /may have been (sent|made)/ : /Nothing was (sent|changed)/);
    expect(ran.err).toContain(`code: ${expected.code} · exit ${expected.exit}`);
    if (!isUnknown) expect(await count()).toBe(0);
  });
});

describe('asp send --lines', () => {
  const LINES = ['one', 'two', 'three', 'four'].join('\n');
  /** Makes the service fail from the third message on. */
  const limitThird = (how: Trouble): void => {
    let count = 0;
    relay.onRequest = async (request) => {
      if (request.method === 'POST' && request.path.endsWith('/messages')) count += 1;
      trouble = count >= 3 ? how : undefined;
      return meet(request);
    };
  };
  afterEach(() => {
    relay.onRequest = meet;
  });

  it.each([
    ['is limited for an hour', 'applied', 'Line 3 was not sent'],
    ['answers 500 after the change was made', 'unknown', 'Line 3 may have been sent'],
  ] as const)('can be repeated after a failure in the middle when the service %s', async (how, outcome, text) => {
    const id = await session();
    limitThird(how);
    const first = await asAlice(['send', id, '--lines', '--retries', '0', '--json'], { stdin: LINES });
    relay.onRequest = meet;
    calm();
    expect(first.code).toBe(10);
    const error = errorIn(first);
    expect(error).toMatchObject({ code: 'ASP_PARTIAL', outcome, retryable: false, session_id: id });
    expect(error.message).toMatch(`${text}: `);
    expect(error.message).toMatch(/Sent before it: 2\.$/);
    const key = /--idempotency-key (\S+):/.exec(error.hint ?? '')?.[1] ?? '';
    const second = await asAlice(['send', id, '--lines', '--idempotency-key', key, '--json'], { stdin: LINES });
    expect(second.code, second.err).toBe(0);
    for (const line of LINES.split('\n')) expect(await countIn(`/sessions/${id}/events`, line), line).toBe(1);
  });

  it('runs once under one name, no matter how often it is repeated', async () => {
    const topic = randomUUID();
    const words = ['send', bob.handle, '--lines', '--topic', topic, '--once', topic, '--json'];
    const [first, second] = [await asAlice(words, { stdin: LINES }), await asAlice(words, { stdin: LINES })];
    expect([first.code, second.code], first.err + second.err).toEqual([0, 0]);
    expect(second.out.replaceAll(/"attempts":\d+/g, '')).toBe(first.out.replaceAll(/"attempts":\d+/g, ''));
    expect(await topics(topic)()).toBe(1);
  });
});

describe('a credential that may send but not listen', () => {
  const SENDER = ['sessions:read', 'sessions:write', 'agents:read'];

  it.each(['--wait', '--end-after-reply'])('still gets its reply with %s', async (flag) => {
    const token = await alice.token('api', SENDER);
    const id = await session('joined');
    const asking = asAlice(['send', id, 'are you there?', flag, '--json'], { token });
    const answering = setInterval(() => void bob.mustSend(id, 'yes').catch(() => {}), 500);
    const { code, out, err } = await asking.finally(() => clearInterval(answering));
    expect(code, err).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ session_id: id, reply: { content: 'yes' } });
  });

  it('can still wait in a session and follow it', async () => {
    const token = await alice.token('api', SENDER);
    const id = await session('joined');
    await bob.mustSend(id, 'hello');
    const waited = await asAlice(['session', 'wait', id, '--for', 'reply', '--after', '1'], { token });
    expect(waited).toMatchObject({ code: 0, out: 'hello\n' });
    const tailed = await asAlice(['tail', id, '--type', 'message', '-c', '1', '--control'], { token });
    expect(tailed.code, tailed.err).toBe(0);
    expect(tailed.out).toContain('"hello"');
  });

  it('is reported by a tail of every session, which needs the stream', async () => {
    const { code, err } = await asAlice(['tail', '--json', '-c', '1'], { environment: { ASP_RETRIES: '0' } });
    expect(code).toBe(4);
    expect(errorIn({ code, out: '', err }).message).toContain('ASP_WS_TOKEN');
  });

  it('reports that the message was sent if the credential cannot read either', async () => {
    const token = await alice.token('api', ['sessions:write', 'agents:read']);
    const [id, marker] = [await session('joined'), randomUUID()];
    const ran = await asAlice(['send', id, marker, '--wait', '--json', '--timeout', '5s'], { token });
    expect(ran.code).toBe(5);
    const error = errorIn(ran);
    expect(error).toMatchObject({ outcome: 'applied', retryable: false, session_id: id });
    expect(error.message).toMatch(/lacks the scope sessions:read\. Your message was sent\.$/);
    expect(await messages(id, marker)()).toBe(1);
  });
});

describe('waiting', () => {
  it('for a reply that does not come ends with a command that keeps waiting, which ends, too', async () => {
    const id = await session('joined');
    const ran = await asAlice(['send', id, 'hi', '--wait', '--timeout', '1500ms', '--json']);
    expect(ran.code).toBe(8);
    const { outcome, next = [], session_id } = errorIn(ran);
    expect({ outcome, session_id }).toEqual({ outcome: 'applied', session_id: id });
    expect(next.slice(0, 6)).toEqual(['asp', 'session', 'wait', id, '--for', 'reply']);
    expect(next.slice(-2)).toEqual(['--timeout', '1500ms']);
    expect((await asAlice(next.slice(1))).code).toBe(8);
    await bob.mustSend(id, 'here I am');
    expect(await asAlice(next.slice(1))).toMatchObject({ code: 0, out: 'here I am\n' });
  });

  it('for more than a second says what it waits for, and for how long at most', async () => {
    const id = await session();
    const ran = await asAlice(['session', 'wait', id, '--for', 'message', '--timeout', '1500ms']);
    expect(ran.code).toBe(8);
    expect(ran.err.split('\n')[0]).toBe(`Waiting for a message in ${id} (up to 1500ms).`);
    const quiet = await asAlice(['session', 'wait', id, '--for', 'ended', '--timeout', '1200ms', '--quiet']);
    expect(quiet.err).not.toContain('Waiting');
  });

  it('says when there is no connection, and when there is one again', async () => {
    const id = await session('joined');
    const streams = captureStreams();
    const words = ['session', 'wait', id, '--for', 'message', '--retries', '0', '--timeout', '30s'];
    const waiting = asAlice(words, { streams });
    let asked = 0;
    let isAway = false;
    relay.onRequest = async (request) => {
      if (!request.path.includes(`${id}/events`)) return meet(request);
      asked += 1;
      return isAway ? request.drop() : meet(request);
    };
    await until('it follows the session', async () => asked > 1);
    isAway = true;
    await until('it says so', async () => streams.err().includes('Cannot connect to the service'));
    isAway = false;
    await until('it is back', async () => /Connected again after \d+ s\./.test(streams.err()));
    await bob.mustSend(id, 'there you are');
    expect(await waiting).toMatchObject({ code: 0, out: 'there you are\n' });
    relay.onRequest = meet;
  });

  it('for an event that can no longer happen ends at once', async () => {
    const id = await session();
    await alice.mustEnd(id);
    const ran = await asAlice(['session', 'wait', id, '--for', 'message', '--json']);
    expect(ran.code).toBe(3);
    expect(errorIn(ran)).toMatchObject({ code: 'NOT_FOUND', retryable: false, outcome: 'not_applied' });
  });

  it('for a reply that the service interrupts proposes a command that keeps waiting', async () => {
    const id = await session('joined');
    relay.onRequest = async (request) => {
      if (!request.path.includes(`${id}/events`)) return meet(request);
      request.answer(500, {}, { error: { code: 'INTERNAL_ERROR', message: 'The service failed.' } });
    };
    const ran = await asAlice(['send', id, 'are you there?', '--wait', '--json', '--retries', '0']);
    relay.onRequest = meet;
    expect(ran.code).toBe(9);
    const { message, outcome, next = [] } = errorIn(ran);
    expect(message).toBe(`${id}: The service failed. Your message was sent.`);
    expect(outcome).toBe('applied');
    expect(next.slice(0, 6)).toEqual(['asp', 'session', 'wait', id, '--for', 'reply']);
    await bob.mustSend(id, 'here I am');
    expect(await asAlice(next.slice(1))).toMatchObject({ code: 0, out: 'here I am\n' });
  });

  it.each([
    ['tries to open the event stream as often as --retries allows', 2, '2', 0],
    ['fails when it may not try to open the event stream again', 1, '0', 9],
    ['fails when the event stream stays closed', 9, '2', 9],
  ])('for a reply %s', async (_, failures, retries, code) => {
    const id = await session('joined');
    let opened = 0;
    relay.mayOpen = () => {
      opened += 1;
      return opened > failures;
    };
    const asking = asAlice(['send', id, 'are you there?', '--wait', '--json', '--retries', retries]);
    await until('it has tried', async () => opened >= Math.min(failures + 1, Number(retries) + 1));
    if (code === 0) await bob.mustSend(id, 'here I am');
    expect(await asking).toMatchObject({ code });
    expect(opened).toBe(Math.min(failures + 1, Number(retries) + 1));
    relay.mayOpen = undefined;
  });

  it('for a reply in a session that the other side ends reports this, and that the message was sent', async () => {
    const id = await session('joined');
    const asking = asAlice(['send', id, 'hi', '--wait', '--json']);
    setTimeout(() => void bob.mustEnd(id), 500);
    const ran = await asking;
    expect(ran.code).toBe(3);
    const error = errorIn(ran);
    expect(error).toMatchObject({ outcome: 'applied', retryable: false, session_id: id });
    expect(error.message).toBe(`${id}: the session ended without a reply. Your message was sent.`);
  });

  it('for a reply in a session that everyone else leaves reports this, and that the message was sent', async () => {
    const id = await session('joined');
    const asking = asAlice(['send', id, 'hi', '--wait', '--json']);
    setTimeout(() => void bob.mustLeave(id), 500);
    const ran = await asking;
    expect(ran.code).toBe(3);
    const error = errorIn(ran);
    expect(error).toMatchObject({ outcome: 'applied', retryable: false, session_id: id });
    expect(error.message).toBe(`${id}: everyone else left without a reply. Your message was sent.`);
  });
});

describe('The second of two changes', () => {
  it('is reported if it fails, with a command that does not send the message again', async () => {
    const [id, marker] = [await session(), randomUUID()];
    relay.onRequest = async (request) => {
      trouble = request.path.endsWith('/end') ? 'is limited for an hour' : undefined;
      return meet(request);
    };
    const ran = await asAlice(['send', id, marker, '--end', '--json', '--retries', '0']);
    relay.onRequest = meet;
    calm();
    expect(ran.code).toBe(7);
    const error = errorIn(ran);
    expect(error).toMatchObject({ outcome: 'applied', retryable: false, next: ['asp', 'session', 'end', id] });
    expect((await asAlice(['session', 'end', id])).code).toBe(0);
    expect(await messages(id, marker)()).toBe(1);
  });

  it('that fails after a reply still prints the reply', async () => {
    const id = await session('joined');
    relay.onRequest = async (request) => {
      trouble = request.path.endsWith('/end') ? 'is limited for an hour' : undefined;
      return meet(request);
    };
    const asking = asAlice(['send', id, 'ready?', '--end-after-reply', '--json', '--retries', '0']);
    const answering = setInterval(() => void bob.mustSend(id, 'yes').catch(() => {}), 500);
    const ran = await asking.finally(() => clearInterval(answering));
    relay.onRequest = meet;
    calm();
    expect(ran.code).toBe(7);
    expect(errorIn(ran).message).toContain('The reply came; the session was not ended.');
    expect(JSON.parse(ran.out)).toMatchObject({ session_id: id, state: 'active', reply: { content: 'yes' } });
  });
});

describe('an agent that is invited and has not joined', () => {
  it('must join before it writes or reads', async () => {
    const id = await bob.mustCreate({ invite: [alice.handle], initial_message: { content: 'join us' } });
    const join = ['asp', 'session', 'join', id];
    const sent = await asAlice(['send', id, 'my answer', '--json']);
    expect(sent.code).toBe(3);
    expect(errorIn(sent)).toMatchObject({ outcome: 'not_applied', next: join });
    expect(errorIn(sent).message).toBe(`You are invited to ${id} and have not joined. Nothing was sent.`);
    expect(errorIn(await asAlice(['session', 'invite', id, '@a.b', '--json'])).next).toEqual(join);
    for (const noun of ['message', 'attachment'])
      expect((await asAlice([noun, 'list', id])).err).toContain(`asp session join ${id}`);
    expect((await asAlice(join.slice(1))).code).toBe(0);
    expect((await asAlice(['send', id, 'my answer'])).code).toBe(0);
  });
});

describe('a change that was already made', () => {
  it('is a success: ending, reopening, or leaving a session a second time', async () => {
    const id = await session('joined');
    for (const [verb, state, text] of [
      ['end', 'ended', 'has already ended'],
      ['reopen', 'active', 'is already active'],
    ] as const) {
      expect((await asAlice(['session', verb, id])).code).toBe(0);
      const again = await asAlice(['session', verb, id, '--json']);
      expect(again.code, again.err).toBe(0);
      expect(JSON.parse(again.out)).toMatchObject({ session_id: id, action: verb, state, changed: false });
      expect((await asAlice(['session', verb, id, '--as', alice.handle])).err).toBe(`${id} ${text}.\n`);
    }
    await asAlice(['session', 'leave', id]);
    expect(JSON.parse((await asAlice(['session', 'leave', id, '--json'])).out)).toMatchObject({ changed: false });
  });

  it('is refused if it includes anything more', async () => {
    const id = await session();
    const ran = await asAlice(['session', 'reopen', id, '-m', 'hello', '--json']);
    expect(ran.code).toBe(3);
    expect(errorIn(ran)).toMatchObject({ outcome: 'not_applied', retryable: false });
    expect(errorIn(ran).message).toMatch(/is already active\. No agent was invited and nothing was sent\.$/);
  });

  it('does not hide why a message cannot be sent', async () => {
    const id = await session();
    await alice.mustEnd(id);
    const ran = await asAlice(['send', id, 'too late', '--json']);
    expect(errorIn(ran)).toMatchObject({ code: 'NOT_FOUND', next: ['asp', 'session', 'show', id] });
    expect(errorIn(ran).message).toBe(`${id} has ended. Nothing was sent.`);
  });
});
