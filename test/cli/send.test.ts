import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';

import { type RunOptions, runWords } from './captured-run.js';
import { type Expected, envelope, type Received, type ScriptedService, startScript } from './scripted-service.js';

const SESSION = `sess_${'0'.repeat(26)}`;
const MESSAGE = `msg_${'0'.repeat(26)}`;
const CREATED = { call: 'POST /sessions', status: 201, reply: { session_id: SESSION, sequence: 2 } };
const SENT = {
  call: `POST /sessions/${SESSION}/messages`,
  status: 201,
  reply: { message_id: MESSAGE, sequence: 7 },
};
const UUID_4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ME = { canonical_handle: '@me.bot' };

let service: ScriptedService | undefined;
afterEach(async () => {
  const open = service;
  service = undefined;
  await open?.close();
});

async function runAgainst(script: readonly Expected[], words: string | string[], options: RunOptions = {}) {
  service = await startScript(script);
  const environment = { ...service.environment, ...options.environment };
  return { ...(await runWords(words, { ...options, environment })), received: service.received };
}

const bodies = (received: readonly Received[]): unknown[] => received.map(({ body }) => body);

describe('A sent message', () => {
  const table: [title: string, words: string | string[], script: Expected[], sent: unknown[], stdin?: string][] = [
    [
      'to a handle a session is created with the message in it',
      'send alice.bot hi',
      [CREATED],
      [{ invite: ['@alice.bot'], initial_message: { content: 'hi' } }],
    ],
    [
      '--end to a handle is one atomic create-send-end',
      'send @alice.bot hi --end',
      [CREATED],
      [{ invite: ['@alice.bot'], initial_message: { content: 'hi' }, end_after_send: true }],
    ],
    [
      '--topic names the new session',
      'send alice.bot hi --topic "a topic"',
      [CREATED],
      [{ invite: ['@alice.bot'], topic: 'a topic', initial_message: { content: 'hi' } }],
    ],
    ['into a session the message is sent', `send ${SESSION} hi`, [SENT], [{ content: 'hi' }]],
    [
      '--end into a session sends, then ends',
      `send ${SESSION} hi --end`,
      [SENT, { call: `POST /sessions/${SESSION}/end`, reply: { ok: true } }],
      [{ content: 'hi' }, undefined],
    ],
    [
      'standard input is the text, without its last line feed',
      `send ${SESSION}`,
      [SENT],
      [{ content: 'a\nb\n' }],
      'a\nb\n\n',
    ],
    ['-F - reads standard input', `send ${SESSION} -F -`, [SENT], [{ content: 'text' }], 'text\r\n'],
    ['- as the message reads standard input', `send ${SESSION} -`, [SENT], [{ content: 'piped' }], 'piped\n'],
    ['-m - reads standard input', `send ${SESSION} -m -`, [SENT], [{ content: 'piped' }], 'piped\n'],
    [
      '-m - of a new session reads standard input',
      'session create alice.bot -m -',
      [{ ...CREATED, reply: { session_id: SESSION } }],
      [{ invite: ['@alice.bot'], initial_message: { content: 'piped' } }],
      'piped\n',
    ],
    ['an argument keeps its line feeds', ['send', SESSION, 'a\n'], [SENT], [{ content: 'a\n' }]],
    [
      '--meta becomes metadata',
      `send ${SESSION} hi --meta a=1 --meta b=`,
      [SENT],
      [{ content: 'hi', metadata: { a: '1', b: '' } }],
    ],
    [
      '--data is next to the text',
      ['send', SESSION, 'hi', '--data', '{"a":[1]}'],
      [SENT],
      [
        {
          content: [
            { type: 'text', text: 'hi' },
            { type: 'data', data: { a: [1] } },
          ],
        },
      ],
    ],
    [
      '--data needs no text',
      ['send', SESSION, '--data', '-'],
      [SENT],
      [{ content: [{ type: 'data', data: {} }] }],
      '{}',
    ],
    [
      '--parts is the whole message',
      ['send', SESSION, '--parts', '[{"type":"text","text":"x"}]'],
      [SENT],
      [{ content: [{ type: 'text', text: 'x' }] }],
    ],
    [
      '--attach refers to what was uploaded',
      `send ${SESSION} hi --attach att_${'0'.repeat(26)}`,
      [SENT],
      [
        {
          content: [
            { type: 'text', text: 'hi' },
            { type: 'file', attachment_id: `att_${'0'.repeat(26)}` },
          ],
        },
      ],
    ],
  ];
  for (const [title, words, script, sent, stdin] of table)
    it(title, async () => {
      const { code, received, err } = await runAgainst(script, words, stdin === undefined ? {} : { stdin });
      expect(err).not.toContain('error');
      expect(code).toBe(0);
      expect(bodies(received)).toEqual(sent);
      for (const { key } of received) expect(key).toMatch(UUID_4);
    });

  it('carries the given bearer token', async () => {
    const { received } = await runAgainst([SENT], `send ${SESSION} hi`);
    expect(received[0]?.bearer).toBe('Bearer a-token');
  });

  it('--file uploads first, images as image, and keeps the order', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'asp-file-'));
    writeFileSync(join(folder, 'a.png'), Buffer.from('89504e470d0a1a0a00', 'hex'));
    writeFileSync(join(folder, 'b.txt'), 'text');
    const upload = (name: string, letter: string): Expected => ({
      call: 'POST /attachments',
      status: 201,
      reply: { id: `att_${letter.repeat(26)}`, filename: name, content_type: 'x', size: 1 },
    });
    const words = ['send', SESSION, 'see', '--file', join(folder, 'a.png'), '--file', join(folder, 'b.txt'), '--json'];
    const { received, out } = await runAgainst([upload('a.png', 'A'), upload('b.txt', 'B'), SENT], words);
    expect(received[2]?.body).toEqual({
      content: [
        { type: 'text', text: 'see' },
        { type: 'image', attachment_id: `att_${'A'.repeat(26)}` },
        { type: 'file', attachment_id: `att_${'B'.repeat(26)}` },
      ],
    });
    expect(JSON.parse(out)).toMatchObject({ attachments: [`att_${'A'.repeat(26)}`, `att_${'B'.repeat(26)}`] });
  });

  it('--lines sends one message per line, the first of them with the creation', async () => {
    const { received, out, err } = await runAgainst([CREATED, SENT, SENT], 'send alice.bot --lines', {
      stdin: 'a\n\nb\r\nc',
    });
    expect(bodies(received)).toEqual([
      { invite: ['@alice.bot'], initial_message: { content: 'a' } },
      { content: 'b' },
      { content: 'c' },
    ]);
    expect(out).toBe(`${SESSION}\n${MESSAGE}\n${MESSAGE}\n`);
    expect(err.split('\n')).toEqual([expect.stringContaining('Sent to @alice.bot'), 'Sent 3 messages.', '']);
  });

  it('--lines says what it sent before a line that is too large', async () => {
    const { code, err } = await runAgainst([CREATED, SENT], 'send alice.bot --lines', {
      stdin: `a\nb\n${'x'.repeat(256 * 1024 + 1)}`,
    });
    expect(code).toBe(10);
    expect(err).toContain('Line 3 was not sent: A line is larger than 256 KiB. Sent before it: 2.');
    expect(err).not.toContain('Nothing was sent');
  });

  it.each([
    ['a byte that is no text', [0xff, 0x0a, 0x63, 0x0a]],
    ['the first byte of a character that is cut off at the end', [0x63, 0xc3]],
  ])('--lines sends the lines before %s, and refuses the rest', async (_, bytes) => {
    const stdin = Buffer.from([0x61, 0x0a, 0x62, 0x0a, ...bytes]);
    const { received, code, err } = await runAgainst([CREATED, SENT], 'send alice.bot --lines', { stdin });
    expect(bodies(received)).toHaveLength(2);
    expect(code).toBe(10);
    expect(err).toContain('Line 3 was not sent: Standard input is not UTF-8 text. Sent before it: 2.');
  });

  it('--lines sends every line even if --jq fails on what it prints', async () => {
    const words = ['send', 'alice.bot', '--lines', '--jq', '.session_id|error'];
    const { received, code, out, err } = await runAgainst([CREATED, SENT, SENT], words, { stdin: 'a\nb\nc\n' });
    expect(bodies(received)).toHaveLength(3);
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).session_id),
    ).toEqual([SESSION, SESSION, SESSION]);
    expect(code).toBe(10);
    expect(err).toContain('The command is done, but --jq failed on what it prints');
  });

  it('--lines says that nothing was sent if the first line is not UTF-8', async () => {
    const { code, err } = await runAgainst([], 'send alice.bot --lines', { stdin: Uint8Array.of(0xff, 0x0a) });
    expect(code).toBe(2);
    expect(err).toContain('error: Standard input is not UTF-8 text. Nothing was sent.');
  });
});

describe('refused before anything is sent:', () => {
  const folder = mkdtempSync(join(tmpdir(), 'asp-bad-'));
  writeFileSync(join(folder, 'fake.png'), 'no picture');
  writeFileSync(join(folder, 'program.exe'), 'x');
  writeFileSync(join(folder, 'empty.txt'), '');
  writeFileSync(join(folder, 'large.txt'), Buffer.alloc(10 * 1024 * 1024 + 1, 'x'));
  const table: [title: string, words: string[], code: string, options?: RunOptions][] = [
    ['an empty message', ['send', SESSION, ''], 'ASP_USAGE'],
    ['empty standard input', ['send', SESSION], 'ASP_USAGE', { stdin: '\n' }],
    ['no message at a terminal', ['send', SESSION], 'ASP_USAGE'],
    ['standard input that is no UTF-8', ['send', SESSION], 'ASP_USAGE', { stdin: Uint8Array.of(0xff, 0xfe) }],
    ['a text above 256 KiB', ['send', SESSION], 'ASP_FILE_TOO_LARGE', { stdin: 'x'.repeat(256 * 1024 + 2) }],
    ['a file that is not there', ['send', SESSION, '--file', join(folder, 'none.txt')], 'ASP_USAGE'],
    ['a file of no supported type', ['send', SESSION, '--file', join(folder, 'program.exe')], 'ASP_FILE_TYPE'],
    [
      'a file without the signature of its type',
      ['send', SESSION, '--file', join(folder, 'fake.png')],
      'ASP_FILE_TYPE',
    ],
    ['an empty file', ['send', SESSION, '--file', join(folder, 'empty.txt')], 'ASP_USAGE'],
    ['a file above 10 MB', ['send', SESSION, '--file', join(folder, 'large.txt')], 'ASP_FILE_TOO_LARGE'],
    ['--data that is an array', ['send', SESSION, '--data', '[1]'], 'ASP_USAGE'],
    ['--data that is no JSON', ['send', SESSION, '--data', '{'], 'ASP_USAGE'],
    ['--parts with an unknown part', ['send', SESSION, '--parts', '[{"type":"video"}]'], 'ASP_USAGE'],
    ['--lines without a line', ['send', SESSION, '--lines'], 'ASP_USAGE', { stdin: '\n\n' }],
  ];
  for (const [title, words, expected, options] of table)
    it(title, async () => {
      const { code, out, err, received } = await runAgainst([], [...words, '--json'], options);
      expect(JSON.parse(err)).toMatchObject({ error: { code: expected, exit_code: 2, outcome: 'not_applied' } });
      expect({ code, out, received }).toEqual({ code: 2, out: '', received: [] });
    });
});

describe('The output', () => {
  it('is the id of a new session, with the rest on stderr', async () => {
    const { out, err } = await runAgainst([CREATED], 'send alice.bot hi');
    expect(out).toBe(`${SESSION}\n`);
    expect(err).toBe('Sent to @alice.bot.\n');
  });

  it('is the message id if the session existed', async () => {
    const { out, err } = await runAgainst([SENT], `send ${SESSION} hi -q`);
    expect(out).toBe(`${MESSAGE}\n`);
    expect(err).toBe('');
  });

  it('with --json has every member of its shape', async () => {
    const { out, err, received } = await runAgainst([CREATED], 'send alice.bot hi --end --json');
    expect(JSON.parse(out)).toEqual({
      session_id: SESSION,
      message_id: null,
      sequence: 2,
      state: 'ended',
      created_session: true,
      invited: ['@alice.bot'],
      omitted: [],
      attachments: [],
      idempotency_key: received[0]?.key,
      attempts: 1,
      as: null,
    });
    expect(err).toBe('');
  });

  it('names invitees that were left out', async () => {
    const participants = [{ handle: '@alice.bot', status: 'invited', joined_at: null, left_at: null }];
    const session = { id: SESSION, state: 'active', topic: null, participants, created_at: 1, ended_at: null };
    const script = [CREATED, { call: `GET /sessions/${SESSION}`, reply: session }];
    const { code, out, err } = await runAgainst(script, 'send alice.bot,bob.bot hi --strict');
    expect(out).toBe(`${SESSION}\n`);
    expect(err).toContain('Left out: @bob.bot.');
    expect(err).toContain('ASP_PARTIAL · exit 10');
    expect(code).toBe(10);
  });

  it('contains with --fields only the named members', async () => {
    const { out } = await runAgainst([SENT], `send ${SESSION} hi --fields message_id,sequence`);
    expect(out).toBe(`{"message_id":"${MESSAGE}","sequence":7}\n`);
  });

  it('shows the request with --dry-run, and nothing is sent', async () => {
    const { out, err, received } = await runAgainst([], 'send alice.bot hi --end --dry-run --json --idempotency-key k');
    expect(JSON.parse(out)).toEqual({
      method: 'POST',
      url: expect.stringMatching(/\/v1\/sessions$/),
      idempotency_key: 'k',
      body: { invite: ['@alice.bot'], initial_message: { content: 'hi' }, end_after_send: true },
    });
    expect(err).toContain('Nothing was sent');
    expect(received).toEqual([]);
  });
});

describe('keys', () => {
  const keyOf = async (words: string): Promise<string | undefined> => {
    const script = words.includes('--once') ? [{ call: 'GET /agents/me', reply: agentRecord() }, SENT] : [SENT];
    const { received } = await runAgainst(script, words);
    await service?.close();
    service = undefined;
    return received.at(-1)?.key;
  };

  it('--idempotency-key is sent as it is', async () => {
    expect(await keyOf(`send ${SESSION} hi --idempotency-key my-key`)).toBe('my-key');
  });

  it('--once produces the same key for the same agent, endpoint and name, and another for another name', async () => {
    const first = await keyOf(`send ${SESSION} hi --once deploy-1`);
    const second = await keyOf(`send ${SESSION} other --once deploy-1`);
    const third = await keyOf(`send ${SESSION} hi --once deploy-2`);
    expect(first).toMatch(UUID_4);
    expect(second).toBe(first);
    expect(third).not.toBe(first);
  });

  it('all tries carry one key, and the outcome says how many there were', async () => {
    const busy = { ...SENT, status: 503, reply: envelope('INTERNAL_ERROR'), headers: { 'retry-after': '0' } };
    const { out, received } = await runAgainst([busy, SENT], `send ${SESSION} hi --json`);
    expect(new Set(received.map(({ key }) => key)).size).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ attempts: 2, idempotency_key: received[0]?.key });
  });
});

function agentRecord(): object {
  return {
    ...ME,
    display_name: 'me',
    description: null,
    image_url: null,
    visibility: 'public',
    inbound_policy: 'open',
    inactive: false,
    is_online: false,
    owner_label: 'me',
    owner_display_name: 'me',
    owner_image_url: null,
    id: `agt_${'0'.repeat(26)}`,
    local_name: 'bot',
    namespace: 'me',
    owner_type: 'account',
    owner_id: `acct_${'0'.repeat(26)}`,
    scope: 'personal',
    can_initiate_sessions: true,
    paused: false,
    card_body: null,
    skills: [],
    created_at: 1,
    updated_at: 1,
  };
}

describe('failures', () => {
  it('an unreachable agent is named, with the fact that nothing was sent, and no guess why', async () => {
    const script = [{ ...CREATED, status: 404, reply: envelope('NOT_FOUND', 'Not found.') }];
    const { code, out, err } = await runAgainst(script, 'send alice.bot hi');
    expect(err).toBe(
      [
        'error: @alice.bot could not be reached. Nothing was sent.',
        '  why:  the service gives one answer for an unknown handle, a block, an allowlist and a paused agent; it does not say which.',
        '  try:  asp agent show alice.bot',
        '  code: NOT_FOUND · exit 3',
        '',
      ].join('\n'),
    );
    expect({ code, out }).toEqual({ code: 3, out: '' });
  });

  it('an attachment that cannot be used is not blamed on the recipient', async () => {
    const id = `att_${'0'.repeat(26)}`;
    const refused = { status: 404, reply: envelope('NOT_FOUND', 'Not found.') };
    const { code, err } = await runAgainst([{ ...CREATED, ...refused }], `send alice.bot hi --attach ${id}`);
    expect(err).toBe(
      [
        `error: @alice.bot or ${id} could not be reached. Nothing was sent.`,
        '  why:  the service does not say which; an unused attachment is deleted after an hour.',
        `  try:  asp attachment show ${id}`,
        '  code: NOT_FOUND · exit 3',
        '',
      ].join('\n'),
    );
    expect(code).toBe(3);
  });

  it('an unknown outcome says so and repeats with the same key', async () => {
    const broken = { ...SENT, status: 500, reply: envelope('INTERNAL_ERROR') };
    const { code, err, received } = await runAgainst([broken], `send ${SESSION} hi --retries 0 --json`);
    const key = received[0]?.key;
    expect(JSON.parse(err)).toMatchObject({
      error: {
        code: 'INTERNAL_ERROR',
        http_status: 500,
        exit_code: 9,
        retryable: true,
        outcome: 'unknown',
        profile: expect.stringContaining('http://127.0.0.1'),
        source: 'ASP_TOKEN',
        next: ['asp', 'send', SESSION, 'hi', '--retries', '0', '--json', '--idempotency-key', key],
        request: { method: 'POST', path: expect.stringContaining('/messages'), idempotency_key: key, attempts: 1 },
      },
    });
    expect(JSON.parse(err).error.message).toMatch(/It may have been sent\.$/);
    expect(code).toBe(9);
  });

  const codes: [code: string, status: number, exit: number][] = [
    ['VALIDATION_ERROR', 400, 2],
    ['INVALID_HANDLE', 400, 2],
    ['MISSING_IDEMPOTENCY_KEY', 400, 2],
    ['NOT_FOUND', 404, 3],
    ['AGENT_NOT_FOUND', 404, 3],
    ['UNAUTHORIZED', 401, 4],
    ['TOKEN_EXPIRED', 401, 4],
    ['FORBIDDEN', 403, 5],
    ['INSUFFICIENT_SCOPE', 403, 5],
    ['FEATURE_NOT_AVAILABLE', 403, 5],
    ['DUPLICATE_HANDLE', 409, 6],
    ['IDEMPOTENCY_MISMATCH', 400, 6],
    ['RATE_LIMITED', 429, 7],
    ['INTERNAL_ERROR', 500, 9],
    ['SOMETHING_NEW', 418, 2],
    ['SOMETHING_NEW', 502, 9],
  ];
  for (const [name, status, exit] of codes)
    it(`${name} (${status}) ends with exit ${exit}, in at most four lines`, async () => {
      const script = [
        { ...SENT, status, reply: envelope(name), headers: status === 429 ? { 'retry-after': '7' } : {} },
        // The command reads the session to find out why the message was refused.
        ...(name === 'NOT_FOUND' ? [{ call: `GET /sessions/${SESSION}`, status, reply: envelope(name) }] : []),
      ];
      const { code, err, out } = await runAgainst(script, `send ${SESSION} hi --retries 0`);
      expect({ code, out }).toEqual({ code: exit, out: '' });
      expect(err.trimEnd().split('\n').length).toBeLessThanOrEqual(4);
      expect(err).toContain(`exit ${exit}`);
    });

  it('an unreachable service ends with exit 9', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:1/v1', ASP_TOKEN: 'x' };
    const { code, err } = await runWords(`send ${SESSION} hi --retries 0 --json`, { environment });
    expect(JSON.parse(err)).toMatchObject({ error: { code: 'ASP_UNREACHABLE', outcome: 'not_applied' } });
    expect(code).toBe(9);
  });

  it('names agent, profile and credential when you need to sign in', async () => {
    const script = [{ ...SENT, status: 401, reply: envelope('UNAUTHORIZED') }];
    const { err } = await runAgainst(script, `send ${SESSION} hi --retries 0`);
    expect(err).toMatch(/why: .*profile http.*credential from ASP_TOKEN/);
  });

  it('without any credential ends with exit 4 and says how to sign in', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:1/v1' };
    const { code, err } = await runWords(`send ${SESSION} hi`, { environment });
    expect(err).toContain('asp login');
    expect(code).toBe(4);
  });

  it('without any service ends with exit 2 and names both ways out', async () => {
    const { code, err } = await runWords(`send ${SESSION} hi`);
    expect(err).toContain('asp profile add');
    expect(err).toContain('asp serve');
    expect(code).toBe(2);
  });

  it('the deadline ends with exit 8', async () => {
    service = await startScript([]);
    const { createServer } = await import('node:net');
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x' };
    const { code, err } = await runWords(`send ${SESSION} hi --timeout 200ms --json`, { environment });
    silent.close();
    expect(JSON.parse(err)).toMatchObject({ error: { code: 'ASP_TIMEOUT', outcome: 'unknown' } });
    expect(code).toBe(8);
  });
});
