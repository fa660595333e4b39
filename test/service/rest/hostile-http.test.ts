import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isErrorCode } from '../../../src/wire/error.js';
import type { Actor } from '../../support/actors.js';
import { ANY_CHARACTER } from '../../support/hostile-text.js';
import { request } from '../../support/http.js';
import { field, list } from '../../support/json.js';
import { rawBytes } from '../../support/raw-http.js';
import { startTestService, type TestService } from '../../support/service.js';

let service: TestService;
let alice: Actor;
let token: string;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  alice = await service.createAgent('alice');
  token = await alice.token();
});
afterAll(() => service.stop());

const host = (): string => `127.0.0.1:${service.port}`;
const send = (bytes: string | Uint8Array, deadlineMs = 2_000): Promise<string> =>
  rawBytes('127.0.0.1', service.port, bytes, deadlineMs).then((answer) => answer.toString('latin1'));

const ANSWER = /HTTP\/1\.1 (\d{3})[\s\S]*?\r\n\r\n([\s\S]*?)(?=HTTP\/1\.1 \d{3} |$)/g;

/** Expects no 5xx among the answers, and an error envelope in every refusal. */
function mustBeRefusals(bytes: string, what: string): void {
  for (const match of bytes.matchAll(ANSWER)) {
    const status = Number(match[1]);
    expect(status, what).toBeLessThan(500);
    if (status < 400) continue;
    const body: unknown = JSON.parse(match[2] ?? '');
    expect(isErrorCode(String(field(body, 'error.code'))), what).toBe(true);
    expect(typeof field(body, 'error.message'), what).toBe('string');
  }
}

/**
 * Request lines and headers that no client sends, with the expected status. Without one, the connection may just end.
 */
const MALFORMED: [what: string, bytes: () => string, status?: number][] = [
  ['no request at all', () => 'hello\r\n\r\n', 400],
  ['HTTP/0.9', () => 'GET /health\r\n\r\n', 400],
  ['HTTP/2 preface', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['an unknown method', () => `BREW / HTTP/1.1\r\nhost: ${host()}\r\n\r\n`, 400],
  ['a method of WebDAV', () => `PROPFIND /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`, 404],
  ['no Host', () => 'GET /health HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
  ['an empty Host', () => 'GET /health HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n', 400],
  ['another Host', () => 'GET /health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n', 403],
  ['a Host with a path', () => `GET /health HTTP/1.1\r\nhost: ${host()}/x\r\nconnection: close\r\n\r\n`, 400],
  ['a space before the colon', () => `GET /health HTTP/1.1\r\nhost : ${host()}\r\n\r\n`, 400],
  ['a bare line feed', () => `GET /health HTTP/1.1\nhost: ${host()}\n\n`],
  ['a folded header', () => `GET /health HTTP/1.1\r\nhost: ${host()}\r\nx: a\r\n b\r\n\r\n`],
  ['a NUL in a header', () => `GET /health HTTP/1.1\r\nhost: ${host()}\r\nx: a\0b\r\n\r\n`, 400],
  [
    'both lengths',
    () =>
      `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
    400,
  ],
  [
    'two lengths',
    () => `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}`,
    400,
  ],
  ['a negative length', () => `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\ncontent-length: -1\r\n\r\n{}`, 400],
  [
    'a length that is no number',
    () => `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\ncontent-length: 0x2\r\n\r\n{}`,
    400,
  ],
  [
    'a chunk size that is no number',
    () =>
      `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\nauthorization: Bearer ${token}\r\nidempotency-key: k\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`,
    400,
  ],
  ['an unknown coding', () => `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\ntransfer-encoding: gzip\r\n\r\n`, 400],
  ['endless headers', () => `GET /health HTTP/1.1\r\nhost: ${host()}\r\n${'x: y\r\n'.repeat(10_000)}\r\n`, 431],
  ['a header of 32 KiB', () => `GET /health HTTP/1.1\r\nhost: ${host()}\r\nx: ${'y'.repeat(32_768)}\r\n\r\n`, 431],
  ['a path of 32 KiB', () => `GET /${'x'.repeat(32_768)} HTTP/1.1\r\nhost: ${host()}\r\n\r\n`, 431],
  [
    'a path of 8 KiB',
    () => `GET /v1/sessions/${'x'.repeat(8_192)} HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`,
    404,
  ],
  [
    'a path that is no UTF-8',
    () => `GET /v1/sessions/%ff HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`,
    401,
  ],
  ['a path with raw bytes', () => `GET /v1/\xff\xfe HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`],
  ['a whole URL', () => `GET http://evil.example/health HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`, 403],
  ['an asterisk', () => `OPTIONS * HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`, 404],
  ['a tunnel', () => `CONNECT evil.example:443 HTTP/1.1\r\nhost: ${host()}\r\n\r\n`, 405],
  [
    'an expectation',
    () => `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\nexpect: the-impossible\r\ncontent-length: 2\r\n\r\n{}`,
    417,
  ],
  ['two Hosts', () => `GET /health HTTP/1.1\r\nhost: ${host()}\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`, 400],
  [
    'a WebSocket where there is none',
    () => `GET /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`,
    404,
  ],
  [
    'a WebSocket without a key',
    () => `GET /connect HTTP/1.1\r\nhost: ${host()}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`,
    400,
  ],
  [
    'two tokens',
    () =>
      `GET /v1/agents/me HTTP/1.1\r\nhost: ${host()}\r\nauthorization: Bearer ${token}, Bearer ${token}\r\nconnection: close\r\n\r\n`,
    401,
  ],
  [
    'a token of 10 KB',
    () =>
      `GET /v1/agents/me HTTP/1.1\r\nhost: ${host()}\r\nauthorization: Bearer ${'x'.repeat(10_000)}\r\nconnection: close\r\n\r\n`,
    401,
  ],
];

describe('A proposal of another protocol is ignored, and the request is answered normally (RFC 9110 §7.8),', () => {
  const proposal = 'connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAA\r\n';

  it('as are later ones on the connection', async () => {
    const first = `GET /health HTTP/1.1\r\nhost: ${host()}\r\n${proposal}\r\n`;
    const second = `GET /nowhere HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`;
    const answers = await send(first + first + second);
    expect([...answers.matchAll(ANSWER)].map(([, status, body]) => [status, body])).toEqual([
      ['200', '{"ok":true}'],
      ['200', '{"ok":true}'],
      ['404', expect.stringContaining('NOT_FOUND')],
    ]);
  });

  it('and costs the connection no memory, no matter how many follow', async () => {
    const warnings: Error[] = [];
    const collect = (warning: Error): void => void warnings.push(warning);
    process.on('warning', collect);
    const proposed = `GET /health HTTP/1.1\r\nhost: ${host()}\r\n${proposal}\r\n`;
    const last = `GET /health HTTP/1.1\r\nhost: ${host()}\r\nconnection: close\r\n\r\n`;
    const answers = await send(proposed.repeat(50) + last);
    process.off('warning', collect);
    expect([...answers.matchAll(ANSWER)]).toHaveLength(51);
    // Node.js counts the listeners of a socket.
    expect(warnings).toEqual([]);
  });

  it('with its body, no matter how that arrives', async () => {
    const topic = 'x'.repeat(400);
    const body = JSON.stringify({ topic });
    const head = `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\nauthorization: Bearer ${token}\r\nidempotency-key: h2c\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n${proposal}\r\n`;
    const socket = connect({ host: '127.0.0.1', port: service.port, noDelay: true });
    for (const piece of [head.slice(0, 90), head.slice(90) + body.slice(0, 7), body.slice(7)]) {
      socket.write(piece);
      await pause(20);
    }
    const [answer] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 201 /);
    expect(list((await alice.get('/sessions')).json, 'sessions').map((session) => field(session, 'topic'))).toEqual([
      topic,
    ]);
  });
});

describe('a malformed request', () => {
  it.each(MALFORMED)('is refused with the envelope: %s', async (what, bytes, status) => {
    const answer = await send(bytes());
    mustBeRefusals(answer, what);
    if (status !== undefined) expect(answer, what).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  });

  it('does not harm the service, whatever its bytes are', async () => {
    const fragment = fc.oneof(
      fc.constantFrom(
        'GET ',
        'POST ',
        '/v1/sessions',
        '/connect',
        ' HTTP/1.1\r\n',
        '\r\n',
        '\r\n\r\n',
        'content-length: 5\r\n',
      ),
      fc.constantFrom(
        'transfer-encoding: chunked\r\n',
        'upgrade: websocket\r\nconnection: upgrade\r\n',
        '5\r\nhello\r\n',
        '0\r\n\r\n',
        '{}',
      ),
      fc.constantFrom(
        'content-type: multipart/form-data; boundary=b\r\n',
        '--b\r\n',
        '--b--',
        'authorization: Bearer x\r\n',
        'host: x\r\n',
      ),
      fc.string({ unit: ANY_CHARACTER, maxLength: 20 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fragment, { maxLength: 12 }), async (fragments) => {
        mustBeRefusals(await send(Buffer.from(fragments.join(''), 'latin1'), 30), JSON.stringify(fragments));
      }),
      { numRuns: 150 },
    );
    expect((await request(`${service.authUrl}/health`)).status).toBe(200);
  });

  it('may end at any point', async () => {
    const whole = `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\nauthorization: Bearer ${token}\r\nidempotency-key: k\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"topic":"never`;
    for (let length = 1; length < whole.length; length += 37)
      await new Promise<void>((resolve) => {
        const socket = connect({ host: '127.0.0.1', port: service.port });
        socket.on('error', () => {});
        socket.on('close', () => resolve());
        socket.write(whole.slice(0, length), () => socket.resetAndDestroy());
      });
    const topics = list((await alice.get('/sessions')).json, 'sessions').map((session) => field(session, 'topic'));
    expect(topics).not.toContainEqual(expect.stringContaining('never'));
  });

  it('may send its answer before the unread body ends', async () => {
    const head = `POST /v1/sessions HTTP/1.1\r\nhost: ${host()}\r\ncontent-type: application/json\r\ncontent-length: 1000000000\r\nconnection: close\r\n\r\n`;
    const answer = await send(`${head}${'x'.repeat(100_000)}`);
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
  });
});
