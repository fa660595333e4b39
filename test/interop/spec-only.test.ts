import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client as McpClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { loadCommands } from '../../src/cli/command.js';
import { PROGRAM } from '../../src/cli/program.js';
import { connect, createAgent, createClientCredential } from '../../src/library/library.js';
import { createHome, type Home, jsonLines } from '../acceptance/program.js';
import { freshHome, type Ran, runWords } from '../cli/captured-run.js';
import { CASES } from '../cli/every-command/cases.js';
import type { Actor } from '../support/actors.js';
import { PROGRAM_FILE } from '../support/built-program-file.js';
import { field, list } from '../support/json.js';
import { type SpecService, startSpecService } from '../support/spec-service.js';
import { until } from '../support/until.js';

/** Files that commands read. */
const files = freshHome();
writeFileSync(join(files, 'note.txt'), 'a note\n');
writeFileSync(join(files, 'allow.txt'), '@carol.main\n');

let service: SpecService;
let alice: Actor;
let bob: Actor;
beforeAll(async () => {
  service = await startSpecService();
  [alice, bob] = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
});
afterAll(() => service.stop());
beforeEach(() => {
  service.missing = 'envelope';
  service.refused.length = 0;
});

/** Writes the settings of a user who knows this service by its four addresses. */
function furnish(home: string): void {
  const folder = join(home, '.config', 'asp-cli');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { baseUrl, authUrl, webUrl, wsUrl } = service;
  const spec = { base_url: baseUrl, auth_url: authUrl, web_url: webUrl, ws_url: wsUrl };
  const config = { default_profile: 'spec', profiles: { spec } };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config), { mode: 0o600 });
}

const environmentOf = (actor: Actor | undefined): Record<string, string> => ({
  ...{ PATH: process.env['PATH'] ?? '', ASP_TOKEN_STORE: 'file', ASP_RETRIES: '0' },
  ...(actor !== undefined && {
    ASP_CLIENT_ID: actor.credentials.clientId,
    ASP_CLIENT_SECRET: actor.credentials.clientSecret,
  }),
});

interface Running {
  readonly home?: string;
  readonly stdin?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Runs `asp` as an agent, or with the logins of a home. */
function asp(actor: Actor | undefined, line: string | readonly string[], running: Running = {}): Promise<Ran> {
  const home = running.home ?? freshHome();
  furnish(home);
  return runWords(line, {
    stdin: running.stdin ?? 'terminal',
    environment: { HOME: home, ...environmentOf(actor), ...running.environment },
    machine: { homeDirectory: home, workingDirectory: home },
  });
}

/** Creates a session in which both have joined, with a message of bob's. */
async function openSession(): Promise<string> {
  const id = await alice.mustCreate({ invite: [bob.handle], topic: 'plans' });
  await bob.mustJoin(id);
  await bob.mustSend(id, 'how is it going?');
  return id;
}

/** Commands for which the specification is enough: they must work completely. `says`: a part of the `--json` document. */
interface Works {
  readonly line: string;
  readonly says?: Readonly<Record<string, unknown>>;
  readonly stdin?: string;
  /** Before the command. */
  readonly given?: (sessionId: string) => Promise<unknown>;
}

const works = (line: string, more: Omit<Works, 'line'> = {}): Works => ({ line, ...more });
const block = () => alice.post('/blocks', { handle: '@spam.bot' });
const end = (id: string) => alice.mustEnd(id);
const knownAgent = (): Readonly<Record<string, unknown>> => ({ canonical_handle: bob.handle });

/** By command. `$S`: a session of both; `$BOB`: the handle of the other; `$FILES`: a folder. */
const WORKS: Readonly<Record<string, () => readonly Works[]>> = {
  'auth whoami': () => [works('whoami', { says: { handle: alice.handle } })],
  'auth token': () => [works('auth token')],
  'agent show': () => [
    works('agent show', { says: { canonical_handle: alice.handle, display_name: null } }),
    works('agent show $BOB', { says: knownAgent() }),
  ],
  'agent list': () => [works('agent list', { says: { items: [expect.objectContaining({ visibility: null })] } })],
  'agent search': () => [
    works('agent search bob', { says: { items: expect.arrayContaining([expect.objectContaining(knownAgent())]) } }),
  ],
  'message send': () => [
    works('send $BOB hello', { says: { invited: [bob.handle], omitted: [], created_session: true } }),
    works('send $BOB hello --end', { says: { state: 'ended' } }),
    works('send $BOB,nobody.here hello', { says: { invited: [bob.handle], omitted: ['@nobody.here'] } }),
    works('send $S hello', { says: { created_session: false } }),
    works('send $S --file $FILES/note.txt', { says: { attachments: [expect.stringMatching(/^att_/)] } }),
    works('send $S --lines', { stdin: 'one\ntwo\n' }),
  ],
  reply: () => [works('reply $S fine', { says: { in_reply_to: expect.stringMatching(/^msg_/) } })],
  inbox: () => [
    works('inbox', { says: { items: expect.arrayContaining([expect.objectContaining({ unread: 1 })]) } }),
    works('inbox --invited'),
  ],
  'inbox read': () => [
    works('inbox read $S', { says: { messages: [expect.objectContaining({ content: 'how is it going?' })] } }),
  ],
  'message list': () => [works('message list $S')],
  'session tail': () => [works('tail $S --no-follow')],
  'session list': () => [works('session list'), works('session list --state invited')],
  'session show': () => [works('session show $S', { says: { topic: 'plans', state: 'active' } })],
  'session create': () => [
    works('session create $BOB', { says: { invited: [bob.handle], omitted: [] } }),
    works('session create $BOB,nobody.here -m hi', { says: { invited: [bob.handle], omitted: ['@nobody.here'] } }),
  ],
  'session join': () => [works('session join $S')],
  'session invite': () => [
    works('session invite $S nobody.here', { says: { invited: [], omitted: ['@nobody.here'] } }),
    works('session invite $S $BOB', {
      given: (id) => bob.mustLeave(id),
      says: { invited: [bob.handle], omitted: [] },
    }),
  ],
  'session leave': () => [works('session leave $S', { says: { action: 'leave' } })],
  'session end': () => [works('session end $S', { says: { state: 'ended' } })],
  'session reopen': () => [works('session reopen $S -m again', { given: end, says: { state: 'active' } })],
  'session events': () => [works('session events $S')],
  'session wait': () => [works('session wait $S --for joined'), works('session wait $S --for message --after 0')],
  'session export': () => [works('session export $S -o out.jsonl'), works('session export $S -o out.md --format md')],
  'attachment upload': () => [works('attachment upload $FILES/note.txt')],
  'attachment list': () => [works('attachment list $S')],
  'allowlist list': () => [works('allowlist list', { says: { items: [{ entry: `@${alice.owner}.*` }] } })],
  'allowlist add': () => [
    works('allowlist add carol.main', {
      says: { added: ['@carol.main'], entries: [`@${alice.owner}.*`, '@carol.main'] },
    }),
  ],
  'allowlist check': () => [works('allowlist check carol.main', { says: { allowed: true, by: '@carol.main' } })],
  'allowlist remove': () => [
    works('allowlist remove carol.main', { says: { removed: ['@carol.main'], entries: [`@${alice.owner}.*`] } }),
  ],
  'allowlist apply': () => [
    works('allowlist apply $FILES/allow.txt', { says: { added: ['@carol.main'], applied: true } }),
  ],
  'block list': () => [
    works('block list', { given: block, says: { items: [expect.objectContaining({ created_at: null })] } }),
  ],
  'block add': () => [
    works('block add noise.bot', { says: { items: [expect.objectContaining({ blocked_handle: '@noise.bot' })] } }),
  ],
  'block remove': () => [works('block remove spam.bot', { given: block })],
  status: () => [works('status')],
  doctor: () => [works('doctor')],
  open: () => [works('open --no-browser')],
  api: () => [works('api agents/me', { says: { canonical_handle: alice.handle } })],
  replay: () => [works('replay $S --exec true')],
};

/** Commands that need an addition. The error says so, and nothing changes. `code` and `exit` only if they differ from the others. */
interface Refused {
  readonly line: string;
  readonly says: RegExp;
  readonly code?: string;
  readonly exit?: number;
  /** The requests beyond the specification that the command may send to find out. */
  readonly tries: readonly string[];
}

const DELIVERY = 'GET /sessions/{id}/delivery';
const NO_DELIVERY = /the service does not report the delivery of messages/i;
const ACCOUNT: Pick<Refused, 'code' | 'exit' | 'says' | 'tries'> = {
  ...{ code: 'ASP_NO_CREDENTIAL', exit: 4, says: /The account is not signed in/, tries: [] },
};
const ATTACHMENT = 'att_01ARZ3NDEKTSV4RRFFQ69G5FAV';
const LINK = { tries: ['GET /attachments/{id}'], says: /The service offers no download of att_/ } as const;

const REFUSED: Readonly<Record<string, () => readonly Refused[]>> = {
  'agent card': () => [
    { line: 'agent card $BOB', tries: ['GET /agents/{agent}/card'], says: /The service offers no cards/ },
  ],
  'agent update': () => [
    { line: 'agent update --description x', tries: ['PATCH /agents/me'], says: /does not offer PATCH \/agents\/me/ },
    { line: 'agent update $BOB --pause', ...ACCOUNT },
  ],
  'agent create': () => [{ line: 'agent create alice.new', ...ACCOUNT }],
  'agent remove': () => [{ line: 'agent remove alice.new --yes', ...ACCOUNT }],
  'webhook show': () => [{ line: 'webhook show', ...ACCOUNT }],
  'webhook set': () => [{ line: 'webhook set https://hooks.example/asp', ...ACCOUNT }],
  'webhook test': () => [{ line: 'webhook test', ...ACCOUNT }],
  'webhook remove': () => [{ line: 'webhook remove', ...ACCOUNT }],
  'session list': () => [{ line: 'session list --account', ...ACCOUNT }],
  'message search': () => [
    { line: 'message search hello', tries: ['GET /search/messages'], says: /The service does not search messages/ },
  ],
  'message send': () => [
    { line: 'send $S hello --wait-for taken', tries: [DELIVERY], says: NO_DELIVERY },
    { line: 'send $BOB hello --wait-for delivered', tries: [DELIVERY], says: NO_DELIVERY },
  ],
  'session show': () => [{ line: 'session show $S --delivery', tries: [DELIVERY], says: NO_DELIVERY }],
  'attachment show': () => [{ line: `attachment show ${ATTACHMENT}`, ...LINK }],
  'attachment download': () => [{ line: `attachment download ${ATTACHMENT}`, ...LINK }],
  'knock list': () => [
    { line: 'knock list', tries: ['GET /agents/{agent}/knocks'], says: /does not keep the invitations/ },
  ],
  'knock dismiss': () => [
    {
      ...{ line: 'knock dismiss spam.bot', says: /does not keep the invitations/ },
      tries: ['DELETE /agents/{agent}/knocks/%40spam.bot', 'GET /agents/{agent}/knocks'],
    },
  ],
};

/** Commands with their own tests, below. */
const BELOW = ['auth login', 'auth logout', 'auth refresh', 'ask', 'run', 'mock', 'chat', 'mcp'];

const { commands } = await loadCommands(PROGRAM);
/** Commands that talk to no service, or only to the local one that this user runs. */
const ELSEWHERE = Object.entries(CASES).flatMap(([command, cases]) =>
  cases.every(({ asks }) => asks === 'nobody' || asks === 'the operator') ? [command] : [],
);

/** What a value that a service left out looks like. The letters may also occur inside a token. */
const MISSING = /\b(?:undefined|null)\b|(?<![\w-])NaN(?![\w-])|\[object/;

const fill = (line: string, sessionId: string): string[] =>
  line.split(' ').map((word) => word.replace('$S', sessionId).replace('$BOB', bob.handle).replace('$FILES', files));

describe('every command of asp at a service that has only the specification', () => {
  it('is in these tables', () => {
    const tested = new Set([...Object.keys(WORKS), ...Object.keys(REFUSED), ...BELOW, ...ELSEWHERE, 'demo']);
    const forgotten = commands.map(({ path }) => path).filter((path) => !tested.has(path));
    expect(forgotten, 'add them to WORKS, or to REFUSED if the specification is not enough').toEqual([]);
  });

  for (const [command, listCases] of Object.entries(WORKS))
    it(`works without any addition: asp ${command}`, async () => {
      for (const { line, says, stdin, given } of listCases()) {
        const id = await openSession();
        await given?.(id);
        service.refused.length = 0;
        const words = fill(line, id);
        const ran = await asp(alice, [...words, '--json'], stdin === undefined ? {} : { stdin });
        expect({ line, code: ran.code, err: ran.code === 0 ? '' : ran.err }).toEqual({ line, code: 0, err: '' });
        if (says !== undefined) expect(JSON.parse(ran.out), line).toMatchObject(says);
        expect(
          service.refused.filter((one) => !one.endsWith('/taken')),
          line,
        ).toEqual([]);
        const again = await openSession();
        await given?.(again);
        const human = await asp(alice, fill(line, again), stdin === undefined ? {} : { stdin });
        expect(`${human.out}${human.err}`).not.toMatch(MISSING);
      }
    });

  for (const missing of ['envelope', 'page'] as const)
    describe(`which answers other addresses with ${missing === 'envelope' ? 'its error envelope' : 'a page'}`, () => {
      for (const [command, listCases] of Object.entries(REFUSED))
        it(`says that it does not offer asp ${command}`, async () => {
          for (const { line, says, code = 'ASP_NOT_OFFERED', exit = 5, tries } of listCases()) {
            const id = await openSession();
            const before = await alice.mustReplay(id);
            const sessions = list((await alice.get('/sessions?limit=100')).json, 'sessions').length;
            service.missing = missing;
            service.refused.length = 0;
            const ran = await asp(alice, [...fill(line, id), '--json']);
            expect({ line, code: ran.code, out: ran.out }).toEqual({ line, code: exit, out: '' });
            const { error } = JSON.parse(ran.err) as { error: Record<string, unknown> };
            expect(error).toMatchObject({ code, exit_code: exit, outcome: 'not_applied', retryable: false });
            expect(error['message']).toMatch(says);
            const asked = new Set(service.refused.map((one) => one.replace(/ with .*/, '')));
            if (missing === 'envelope') expect([...asked]).toEqual(tries);
            service.missing = 'envelope';
            expect(await alice.mustReplay(id)).toEqual(before);
            expect(list((await alice.get('/sessions?limit=100')).json, 'sessions')).toHaveLength(sessions);
            const human = await asp(alice, fill(line, id));
            expect(human.err).not.toMatch(/no agent|cannot see|not found/i);
          }
        });
    });

  it('still says that there is no such agent, block, entry and session', async () => {
    for (const [line, says] of [
      ['agent card nobody.here', /@nobody\.here does not exist, or it is private/],
      ['agent show nobody.here', /@nobody\.here does not exist, or it is private/],
      ['block remove nobody.here', /does not block @nobody\.here/],
      ['allowlist remove nobody.here', /@nobody\.here is not on the list/],
      ['allowlist check nobody.here', /No entry of the allowlist .* admits @nobody\.here/],
      ['session show sess_01ARZ3NDEKTSV4RRFFQ69G5FAV', /cannot see sess_/],
      ['send nobody.here hello', /could not be reached. Nothing was sent/],
    ] as const) {
      const { code, err } = await asp(alice, line);
      expect({ line, code }).toEqual({ line, code: 3 });
      expect(err).toMatch(says);
    }
  });

  it('asp inbox finds the news of a session with many events, whose last sequence the service does not say', async () => {
    const id = await openSession();
    await alice.mustSend(id, 'fine');
    for (let at = 0; at < 200; at += 1) await bob.mustSend(id, `${at}`);
    const { out } = await asp(alice, 'inbox --json');
    const { items } = JSON.parse(out) as { items: { session_id: string }[] };
    expect(items.find(({ session_id }) => session_id === id)).toMatchObject({
      ...{ unread: 200, has_more: false, last_event: { payload: { content: '199' } } },
    });
  });

  it('keeps the transcript of asp session export if its attachments cannot be downloaded', async () => {
    const id = await openSession();
    const attachment = await alice.mustUpload();
    await alice.mustSend(id, [{ type: 'file', attachment_id: attachment }]);
    const home = freshHome();
    const { code, err } = await asp(alice, ['session', 'export', id, '-o', 'out', '--with-attachments'], { home });
    expect(code).toBe(10);
    expect(err).toMatch(/The transcript is in .*; its attachments could not be downloaded/);
    expect(readdirSync(join(home, 'out'))).toContain(`${id}.jsonl`);
    expect(readFileSync(join(home, 'out', `${id}.jsonl`), 'utf8')).toContain(attachment);
  });
});

describe('signing in at a service that has only the specification', () => {
  /** A browser in which the person approves at once. */
  const browserIn = (home: string): string => {
    const path = join(home, 'browser.mjs');
    writeFileSync(
      path,
      `const headers = { authorization: 'Bearer ${service.operator.secret}' };
       const answer = await fetch(process.argv[2], { method: 'POST', redirect: 'manual', headers });
       await fetch(answer.headers.get('location'));`,
    );
    return `${process.execPath} ${path}`;
  };

  it('works in the browser, is renewed, and ends with asp logout', async () => {
    const home = freshHome();
    const login = ['login', alice.handle, '--browser', browserIn(home), '--timeout', '20s'];
    const signedIn = await asp(undefined, login, { home });
    expect({ code: signedIn.code, out: signedIn.out }).toEqual({ code: 0, out: `${alice.handle}\n` });
    const whoami = await asp(undefined, 'whoami --json', { home });
    expect(JSON.parse(whoami.out)).toMatchObject({ handle: alice.handle, source: 'login', store: 'file' });
    expect((await asp(undefined, 'auth refresh', { home })).code).toBe(0);
    const sent = await asp(undefined, ['send', bob.handle, 'hello', '--json'], { home });
    expect(JSON.parse(sent.out)).toMatchObject({ invited: [bob.handle] });
    const ended = await asp(undefined, 'logout --json', { home });
    expect(ended.code).toBe(0);
    expect(ended.out).toContain('"revoked":true');
    expect((await asp(undefined, 'whoami', { home })).code).toBe(4);
    expect(service.refused).toEqual([]);
  });

  it('notices that the browser approved another agent', async () => {
    const home = freshHome();
    const browser = join(home, 'other.mjs');
    writeFileSync(
      browser,
      `const url = new URL(process.argv[2]);
       url.searchParams.set('agent_handle', '${bob.handle}');
       const headers = { authorization: 'Bearer ${service.operator.secret}' };
       const answer = await fetch(url, { method: 'POST', redirect: 'manual', headers });
       await fetch(answer.headers.get('location'));`,
    );
    const words = ['login', alice.handle, '--browser', `${process.execPath} ${browser}`, '--timeout', '20s'];
    const { code, err } = await asp(undefined, words, { home });
    expect(code).toBe(6);
    expect(err).toContain(`The browser approved ${bob.handle}`);
  });

  it('says that there are no logins for accounts', async () => {
    const home = freshHome();
    const words = ['login', '--account', '--browser', browserIn(home), '--timeout', '20s'];
    const { code, err } = await asp(undefined, words, { home });
    expect(code).toBe(4);
    expect(err).toContain('The service does not grant account:read account:agents:read.');
    expect(err).toMatch(/try: {2}asp login\n/);
  });

  it('says which address is missing if the profile has only the base URL', async () => {
    const { code, err } = await asp(alice, 'whoami', { environment: { ASP_PROFILE: service.baseUrl } });
    expect(code).toBe(9);
    expect(err).toMatch(/--auth-url/);
  });
});

describe('live at a service whose events name no agent', () => {
  let home: Home;
  beforeAll(() => {
    home = createHome();
    furnish(home.directory);
  });
  afterAll(() => home.dispose());
  const as = (actor: Actor) => ({ environment: environmentOf(actor) });

  it('asp tail prints each event once, even after a cut, and ends when its agent leaves', async () => {
    const id = await openSession();
    const tail = home.start(['tail', id, '--after', '0', '--control'], as(alice));
    await tail.until('stdout', /"type":"asp.ready"/);
    await bob.mustSend(id, 'one');
    await tail.until('stdout', /"content":"one"/);
    service.cut();
    await bob.mustSend(id, 'two');
    await tail.until('stdout', /"content":"two"/);
    await alice.mustLeave(id);
    const { status, stdout } = await tail.ended;
    expect(status).toBe(0);
    const lines = jsonLines<{ type: string; sequence?: number; payload?: { content?: string } }>(stdout);
    const events = lines.filter(({ type }) => type.startsWith('session.'));
    const sequences = events.map(({ sequence }) => sequence);
    expect(sequences).toEqual([...new Set(sequences)].sort((one, other) => Number(one) - Number(other)));
    expect(events.flatMap(({ payload }) => payload?.content ?? [])).toEqual(['how is it going?', 'one', 'two']);
    expect(lines.map(({ type }) => type)).not.toContain('asp.gap');
    expect(lines.findLast(({ type }) => type === 'asp.end')).toMatchObject({ reason: 'left' });
  });

  it('asp tail --keep continues after a reopening, which has no event', async () => {
    const id = await openSession();
    const tail = home.start(['tail', id, '--keep', '--control'], as(alice));
    await tail.until('stdout', /"type":"asp.ready"/);
    await bob.mustEnd(id);
    await tail.until('stdout', /"reason":"ended"/);
    await bob.mustReopen(id);
    await alice.mustJoin(id);
    await bob.mustSend(id, 'on we go');
    await tail.until('stdout', /"content":"on we go"/);
    await bob.mustEnd(id);
    await until('the second end is reported', async () => tail.stdout().match(/"reason":"ended"/g)?.length === 2);
    tail.kill();
    await tail.ended;
  });

  it('asp tail --join joins a session that it is invited to', async () => {
    const tail = home.start(['tail', '--join', '--control'], as(bob));
    await tail.until('stdout', /"type":"asp.ready"/);
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'come in' } });
    await tail.until('stdout', /"content":"come in"/);
    tail.kill();
    await tail.ended;
    expect(field(await alice.mustRead(id), 'participants.1.status')).toBe('joined');
  });

  it('asp session wait sees who joins', async () => {
    const id = await alice.mustCreate({ invite: [bob.handle] });
    const wait = home.start(['session', 'wait', id, '--for', `joined:${bob.handle}`, '--timeout', '20s'], as(alice));
    await until('it listens', async () => service.received.includes('GET /sessions/{id}/events'));
    await bob.mustJoin(id);
    expect((await wait.ended).status).toBe(0);
  });

  it('asp run joins and answers, and asp ask gets the answer', async () => {
    const run = home.start(['run', '--from', 'anyone', '--exec', 'echo deployed'], as(bob));
    await run.until('stderr', /Answering as/);
    const asked = await home.asp(['ask', bob.handle, 'deploy now?', '--timeout', '30s', '--json'], as(alice));
    expect(asked.status).toBe(0);
    expect(JSON.parse(asked.stdout)).toMatchObject({ reply_matched: true, reply: { content: 'deployed' } });
    run.kill();
    await run.ended;
  });

  it('asp run --shared answers nothing, and says what the service does not offer', async () => {
    const run = home.start(['run', '--from', 'anyone', '--exec', 'echo deployed', '--shared'], as(bob));
    await run.until('stderr', /Answering as/);
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    await alice.mustSend(id, 'deploy now?');
    expect(await run.ended).toMatchObject({
      status: 5,
      stdout: '',
      stderr: expect.stringContaining('The service does not offer POST /sessions/{session_id}/claim.'),
    });
  });

  it('asp mock answers by its script', async () => {
    writeFileSync(
      join(home.directory, 'mock.json'),
      JSON.stringify({ rules: [{ when: { contains: 'ping' }, do: [{ reply: 'pong' }] }] }),
    );
    const mock = home.start(['mock', '--script', 'mock.json', '--from', 'anyone'], {
      ...as(bob),
      cwd: home.directory,
    });
    await mock.until('stderr', /Answering as/);
    const asked = await home.asp(['ask', bob.handle, 'ping', '--timeout', '30s'], as(alice));
    expect({ status: asked.status, stdout: asked.stdout }).toEqual({ status: 0, stdout: 'pong\n' });
    mock.kill();
    await mock.ended;
  });

  it('asp chat sends and shows what the other says', async () => {
    const id = await openSession();
    const chat = home.start(['chat', id], { ...as(alice), input: { isOpen: true } });
    await chat.until('stdout', /how is it going\?/);
    chat.child.stdin?.write('fine\n');
    await until('the line arrives', async () => JSON.stringify(await bob.mustReplay(id)).includes('"fine"'));
    await bob.mustSend(id, 'good to hear');
    await chat.until('stdout', /good to hear/);
    await bob.mustEnd(id);
    const { status, stdout } = await chat.ended;
    expect(status).toBe(0);
    expect(stdout).not.toMatch(/undefined/);
  });

  it('asp mcp sends, reads, waits, and says what is not offered', async () => {
    const transport = new StdioClientTransport({
      ...{ command: process.execPath, args: [PROGRAM_FILE, 'mcp', '--files', files], stderr: 'ignore' },
      env: { ...(home.environment as Record<string, string>), ...environmentOf(alice) },
    });
    const client = new McpClient({ name: 'test', version: '1' });
    await client.connect(transport);
    const call = async (name: string, given: Record<string, unknown>): Promise<Record<string, unknown>> => {
      const result = await client.callTool({ name, arguments: given });
      const [block] = result.content as { text: string }[];
      return (result.structuredContent ?? JSON.parse(block?.text ?? '')) as Record<string, unknown>;
    };
    try {
      const id = await openSession();
      expect(await call('whoami', {})).toMatchObject({ handle: alice.handle });
      expect(await call('agent_show', { handle: bob.handle })).toMatchObject({ canonical_handle: bob.handle });
      expect(field(await call('read', { session_id: id }), 'events')).toHaveLength(3);
      const sent = await call('send', { to: id, text: 'from a model' });
      expect(sent).toMatchObject({ session_id: id });
      const waiting = call('wait', { session_id: id, after: sent['sequence'], timeout_s: 20 });
      await bob.mustSend(id, 'to a model');
      expect(JSON.stringify(await waiting)).toContain('to a model');
      const invited = await call('session_invite', { session_id: id, invite: ['@nobody.here'] });
      expect(invited).toMatchObject({ omitted: ['@nobody.here'] });
      const refused = await call('attachment_download', { attachment_id: ATTACHMENT });
      expect(refused).toMatchObject({ error: { code: 'ASP_NOT_OFFERED', exit_code: 5 } });
    } finally {
      await client.close();
    }
  });

  it('an agent of the library joins and answers', async () => {
    const { baseUrl, authUrl, wsUrl } = service;
    const credential = createClientCredential({ service: { baseUrl, authUrl, wsUrl }, ...bob.credentials });
    const client = connect({ service: { baseUrl, authUrl, wsUrl }, credential });
    const agent = createAgent({ client, from: 'anyone' });
    agent.onMessage(async ({ text }) => `you said ${text}`);
    let ended: Promise<void> = Promise.resolve();
    await new Promise<void>((resolve, reject) => {
      ended = agent.run({ onReady: resolve });
      ended.catch(reject);
    });
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'hello' } });
    await until('the answer arrives', async () =>
      JSON.stringify(await alice.mustReplay(id)).includes('you said hello'),
    );
    await agent.close();
    await ended;
    await expect(client.call('getAgentCard', { path: { owner: alice.owner, name: alice.name } })).rejects.toMatchObject(
      {
        code: 'ASP_NOT_OFFERED',
        status: 404,
      },
    );
    await client.close();
  });
});
