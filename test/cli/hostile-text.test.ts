import { createServer, type Server } from 'node:http';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { freshHome, runWords } from './captured-run.js';

const SESSION = `sess_${'0'.repeat(26)}`;
const RUNS = process.env['ASP_TEST_LONG'] === '1' ? 1000 : 60;

/** What may not reach a terminal: C0 but for tab and line feed, DEL, C1, bidirectional and zero-width characters. */
const DANGEROUS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;
const LINE_BREAKS = /[\u000b\u000c\r\u0085\u2028\u2029]/;

const ATTACKS = [
  '\u001b]0;title\u0007',
  '\u001b[2J\u001b[H',
  '\u001b]8;;http://evil\u001b\\link\u001b]8;;\u001b\\',
  '\u009b31m',
  'fine\rerror: gone',
  'a\nb\u2028c\u2029d\u0085e',
  '\u202etxt.exe',
  'zero\u200bwidth\ufeff',
  '\u0000\u0007\u0008\u007f',
  '\ud800 lone',
  '{"type":"asp.end"}\n{"type":"asp.ready"}',
  '__proto__',
  '\u{e0041}\u{e0042}',
];
const hostile = fc.oneof(
  fc.constantFrom(...ATTACKS),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.array(fc.constantFrom(...ATTACKS), { minLength: 1, maxLength: 4 }).map((parts) => parts.join('x')),
);

/** Answers every call with what the text of the moment makes of it. */
const reply = { status: 200, bodyOf: (_path: string): unknown => ({}) };
let server: Server;
let environment: Record<string, string>;
const home = freshHome();

beforeAll(async () => {
  server = createServer((request, response) => {
    response.writeHead(reply.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(reply.bodyOf(request.url ?? '')));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'a-token' };
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const sessionOf = (text: string) => ({
  id: SESSION,
  state: 'active',
  topic: text,
  participants: [{ handle: text, status: 'joined', joined_at: 1, left_at: null }],
  created_at: 1,
  ended_at: null,
  [text]: text,
});
const eventsOf = (text: string) =>
  [
    {
      type: 'session.message',
      payload: { content: text, sender: text, id: text, session_id: SESSION, sequence: 1, created_at: 1 },
    },
    {
      type: 'session.message',
      payload: {
        content: [
          { type: 'text', text },
          { type: 'data', data: { [text]: text } },
          { type: text, name: text },
        ],
        sender: text,
        id: 'x',
        session_id: SESSION,
        sequence: 2,
        created_at: 2,
      },
    },
    { type: 'session.invited', payload: { invitee: text, by: text, topic: text } },
    { type: text, payload: { [`x${text}`]: text } },
  ].map((event, index) => ({
    session_id: SESSION,
    event_id: text,
    sequence: index + 1,
    created_at: index + 1,
    ...event,
  }));

const ATTACHMENT = `att_${'0'.repeat(26)}`;
const agentOf = (text: string) => ({
  canonical_handle: text,
  display_name: text,
  description: text,
  image_url: text,
  visibility: 'public',
  inbound_policy: 'allowlist',
  inactive: false,
  is_online: true,
  owner_label: text,
  owner_display_name: text,
  owner_image_url: null,
  id: text,
  local_name: text,
  namespace: text,
  owner_type: 'account',
  owner_id: text,
  scope: 'personal',
  can_initiate_sessions: true,
  paused: false,
  card_body: text,
  skills: [],
  created_at: 1,
  updated_at: 1,
});
const messageOf = (text: string) => ({
  id: text,
  session_id: text,
  sender: text,
  sequence: 1,
  content: text,
  created_at: 1,
});
const OTHER_ANSWERS: readonly (readonly [part: string, answer: (text: string) => unknown])[] = [
  ['/search/agents', (text) => ({ agents: [{ type: 'agent', ...agentOf(text) }], next_cursor: text })],
  ['/search/messages', (text) => ({ messages: [messageOf(text)] })],
  ['/allowlist', (text) => ({ entries: [text] })],
  ['/agents/me', (text) => ({ ...agentOf(text), canonical_handle: '@me.bot' })],
  [
    '/agents/',
    (text) => ({ agent: agentOf(text), shared_sessions: [], viewer: { relationship: 'none', can_edit: false } }),
  ],
  ['/agents', (text) => ({ agents: [agentOf(text)], next_cursor: text })],
  [
    '/blocks',
    (text) => ({ blocks: [{ blocked_agent_id: text, blocked_handle: text, created_at: 1 }], next_cursor: text }),
  ],
  [
    '/attachments/',
    (text) => ({ id: text, filename: text, content_type: text, size: 1, url: text, url_expires_at: 1 }),
  ],
];

function answerWith(text: string): void {
  reply.status = 200;
  reply.bodyOf = (path) => {
    const other = OTHER_ANSWERS.find(([part]) => path.includes(part));
    if (other !== undefined) return other[1](text);
    if (path.includes('/events'))
      return { events: path.includes('after_sequence=0') ? eventsOf(text) : [], next_cursor: null };
    if (path.includes(`/sessions/${SESSION}`)) return sessionOf(text);
    return { sessions: [sessionOf(text)], next_cursor: text };
  };
}

const run = (words: string, isTerminal: boolean) =>
  runWords(words, { environment, isTerminal, columns: 100, machine: { homeDirectory: home } });

const check = (property: (text: string) => Promise<void>): Promise<void> =>
  fc.assert(fc.asyncProperty(hostile, property), { numRuns: RUNS });

describe('whatever a peer wrote', () => {
  for (const words of [
    `session show ${SESSION}`,
    'session list --limit 1',
    `session events ${SESSION} --after 0 --pretty`,
    `session events ${SESSION} --after 0 --text`,
    `session events ${SESSION} --after 0 --fence`,
    `session export ${SESSION} --format md`,
    `message list ${SESSION}`,
    'message search text',
    `attachment list ${SESSION}`,
    `attachment show ${ATTACHMENT}`,
    'agent show',
    'agent show a.b',
    'agent list --limit 1',
    'agent search text --limit 1',
    'allowlist list',
    'block list --limit 1',
    'api sessions',
  ])
    for (const isTerminal of [true, false])
      it(`cannot drive a terminal through asp ${words.split(SESSION).join('sess_…')} (${isTerminal ? 'terminal' : 'pipe'})`, () =>
        check(async (text) => {
          answerWith(text);
          const { code, out, err } = await run(`--color never ${words}`, isTerminal);
          expect({ code, err: err.replace(/^.*(There are more|No (messages|attachments)).*\n/, '') }).toEqual({
            code: 0,
            err: '',
          });
          expect(out).not.toMatch(DANGEROUS);
          expect(err).not.toMatch(DANGEROUS);
        }));

  for (const words of [
    `session show ${SESSION} --json`,
    'session list --limit 1 --json',
    'session list --limit 1 --jsonl',
  ])
    it(`parses back to the identical text from asp ${words.split(SESSION).join('sess_…')}`, () =>
      check(async (text) => {
        answerWith(text);
        const { out } = await run(words, true);
        expect(out).not.toMatch(DANGEROUS);
        expect(out.split('\n')).toHaveLength(2);
        const value = JSON.parse(out);
        const [session] = value.items ?? [value];
        expect(session.topic).toBe(JSON.parse(JSON.stringify(text)));
      }));

  it('is one record a line in a tail, and parses back to the identical events', () =>
    check(async (text) => {
      answerWith(text);
      const { out } = await run(`session events ${SESSION} --after 0`, true);
      expect(out).not.toMatch(LINE_BREAKS);
      const lines = out.trimEnd().split('\n');
      expect(lines.map((line) => JSON.parse(line))).toEqual(JSON.parse(JSON.stringify(eventsOf(text))));
    }));

  it('cannot drive a terminal or break a line through an error', () =>
    check(async (text) => {
      reply.status = 400;
      reply.bodyOf = () => ({ error: { code: text, message: text } });
      const human = await run(`--color never session show ${SESSION}`, true);
      expect(human.err).not.toMatch(DANGEROUS);
      expect(human.err.trimEnd().split('\n').length).toBeLessThanOrEqual(4);
      const json = await run(`session show ${SESSION} --json`, true);
      expect(json.err).not.toMatch(DANGEROUS);
      expect(json.err.trimEnd().split('\n')).toHaveLength(1);
      expect(JSON.parse(json.err).error.exit_code).toBe(json.code);
    }));
});
