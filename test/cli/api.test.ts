import { afterEach, describe, expect, it } from 'vitest';

import { optionsOf, type RunOptions, runWords } from './captured-run.js';
import { type Expected, envelope, type ScriptedService, startScript } from './scripted-service.js';

let service: ScriptedService | undefined;
afterEach(async () => {
  const open = service;
  service = undefined;
  await open?.close();
});

async function runAgainst(script: readonly Expected[], words: string | string[], options: RunOptions = {}) {
  service = await startScript(script);
  return { ...(await runWords(words, { ...options, environment: service.environment })), received: service.received };
}

describe('the words of api', () => {
  it.each([
    ['api agents/me', { method: 'GET', path: 'agents/me', fields: [] }],
    ['api /sessions --field topic=a=b', { method: 'POST', path: 'sessions', fields: [['topic', 'a=b']] }],
    ['api x -X patch --typed paused=true', { method: 'PATCH', fields: [['paused', true]] }],
    ["api x -H 'X-One: two' -i", { headers: { 'x-one': 'two' }, showsHead: true }],
  ])('asp %s', async (line, options) => expect(await optionsOf(line)).toMatchObject(options));

  it.each([
    ['api https://elsewhere.example/x', /is an address/],
    ['api //elsewhere.example/x', /is an address/],
    ['api x -X TRACE', /not a method/],
    ["api x -H 'Authorization: Bearer x'", /cannot set authorization/],
    ["api x -H 'Idempotency-Key: x'", /cannot set idempotency-key/],
    ['api x -H nonsense', /not a header/],
    ['api x --typed a=b', /not JSON/],
    ['api x --field a', /name=value/],
    ['api x --paginate -X POST', /for GET/],
    ['api x --input - --field a=b', /cannot be used together/],
  ])('asp %s is refused with exit 2', async (line, said) => {
    const { code, err } = await runWords(line);
    expect(err).toMatch(said);
    expect(code).toBe(2);
  });
});

describe('a raw request', () => {
  it('reads with a query and the bearer token', async () => {
    const { code, out, received } = await runAgainst(
      [{ call: 'GET /sessions?state=active&limit=2', reply: { a: 1 } }],
      'api sessions -X GET --typed limit=2 --field state=active',
    );
    expect({ code, out }).toEqual({ code: 0, out: '{\n  "a": 1\n}\n' });
    expect(received[0]).toMatchObject({ bearer: 'Bearer a-token', key: undefined });
  });

  it('prints the beginning of an error message, no matter how long it is', async () => {
    const reply = { error: { code: 'NOT_FOUND', message: 'long '.repeat(20_000) } };
    const { code, err } = await runAgainst([{ call: 'GET /sessions', status: 404, reply }], 'api sessions');
    expect(code).toBe(3);
    expect(err).toMatch(/long long/);
    expect(err.length).toBeLessThan(1000);
  });

  it('writes a JSON body with a key; --input sends its file unchanged', async () => {
    const { received } = await runAgainst(
      [{ call: 'POST /sessions', status: 201, reply: {} }],
      `api sessions --field topic=x --typed 'invite=["@a.b"]' --idempotency-key k1`,
    );
    expect(received[0]).toMatchObject({ key: 'k1', body: { topic: 'x', invite: ['@a.b'] } });
    await service?.close();
    const given = await runAgainst([{ call: 'POST /x', reply: {} }], 'api x --input -', { stdin: '{"raw":1}' });
    expect(given.received[0]).toMatchObject({ body: { raw: 1 }, key: expect.any(String) });
  });

  it('prints the answer to a refused request, and exits with its code', async () => {
    const refused = envelope('DUPLICATE_HANDLE', 'taken');
    const { code, out, err } = await runAgainst(
      [{ call: 'POST /agents', status: 409, reply: refused }],
      'api agents --field a=b --json',
    );
    expect(code).toBe(6);
    expect(JSON.parse(out)).toEqual(refused);
    expect(JSON.parse(err).error).toMatchObject({ code: 'DUPLICATE_HANDLE', http_status: 409, outcome: 'not_applied' });
  });

  it('--paginate follows next_cursor, one document per page', async () => {
    const { out, code } = await runAgainst(
      [
        { call: 'GET /sessions', reply: { sessions: [1], next_cursor: 'c/2' } },
        { call: 'GET /sessions?cursor=c%2F2', reply: { sessions: [2], next_cursor: null } },
      ],
      'api sessions --paginate --json',
    );
    expect(code).toBe(0);
    expect(
      out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).sessions),
    ).toEqual([[1], [2]]);
  });

  it('-i shows status and headers; --dry-run sends nothing', async () => {
    const { out } = await runAgainst([{ call: 'GET /x', reply: {}, headers: { 'x-one': 'two' } }], 'api x -i');
    expect(out).toMatch(/^HTTP 200\n[\s\S]*x-one: two\n[\s\S]*\n\n\{\}\n$/);
    await service?.close();
    const dry = await runAgainst([], 'api x --field a=b --dry-run --json');
    expect(JSON.parse(dry.out)).toMatchObject({ method: 'POST', body: '{"a":"b"}' });
    const shown = await runAgainst([], "api x --field a=b -H 'X-Mine: yes' --idempotency-key mine --dry-run");
    expect(shown.out).toMatch(
      /^POST http\S+\/x\ncontent-type: application\/json\nx-mine: yes\nIdempotency-Key: mine\n\{"a":"b"\}\n$/,
    );
    expect((await runAgainst([], 'api x --dry-run')).out).toMatch(/^GET \S+\n$/);
  });

  it('a path that leaves the base URL is refused, and nothing is sent', async () => {
    const { code } = await runAgainst([], 'api ../operator/status');
    expect(code).toBe(2);
  });

  it('an answer cannot control the terminal, and parses back to the same value', async () => {
    const hostile = { text: '\u001b[2J\u202e\u2028\u0085', '\u009b': '\r' };
    const { out } = await runAgainst([{ call: 'GET /x', reply: hostile }], 'api x', { isTerminal: true });
    expect(out).not.toMatch(/[\u001b\u0080-\u009f\u202e\u2028\r]/);
    expect(JSON.parse(out)).toEqual(hostile);
    await service?.close();
    const plain = await runAgainst([{ call: 'GET /x', reply: '\u001b[2Jtext' }], 'api x');
    expect(plain.out).toBe('[2Jtext\n');
  });
});
