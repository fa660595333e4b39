import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type RunningService, startService } from '../../../src/service/service.js';
import { UPLOADS_PER_AGENT_MAX, UPLOADS_WAITING_MAX } from '../../../src/wire/limit.js';
import { type Actor, createActor } from '../../support/actors.js';
import { field } from '../../support/json.js';
import { multipart } from '../../support/multipart.js';
import { discover } from '../../support/oauth.js';
import { rawBytes } from '../../support/raw-http.js';
import { until } from '../../support/until.js';

let directory: string;
let service: RunningService;
let alice: Actor;
let bob: Actor;
let port: number;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'asp-hostile-'));
  service = await startService({ host: '127.0.0.1', port: 0, data: { directory }, areLimitsOn: false });
  const operator = { url: service.operatorUrl, secret: service.operatorSecret };
  const place = await discover(service.baseUrl);
  [alice, bob] = [await createActor(place, operator, 'alice'), await createActor(place, operator, 'bob')];
  port = service.port;
});
afterAll(async () => {
  await service.stop();
  rmSync(directory, { recursive: true, force: true });
});

const stored = (): string[] => readdirSync(join(directory, 'attachments')).filter((name) => name.startsWith('att_'));

async function headOf(contentType: string, length: number | 'chunked'): Promise<string> {
  const size = length === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${length}`;
  return [
    'POST /v1/attachments HTTP/1.1',
    `host: 127.0.0.1:${port}`,
    'connection: close',
    `authorization: Bearer ${await alice.token()}`,
    `idempotency-key: ${randomUUID()}`,
    `content-type: ${contentType}`,
    size,
    '\r\n',
  ].join('\r\n');
}

const PART = 'content-disposition: form-data; name="file"; filename="f.txt"\r\ncontent-type: text/plain\r\n\r\n';

async function post(contentType: string, body: string): Promise<string> {
  const bytes = Buffer.from(body);
  const head = await headOf(contentType, bytes.length);
  return (await rawBytes('127.0.0.1', port, Buffer.concat([Buffer.from(head), bytes]))).toString();
}

describe('Attachments › a body that is not an upload', () => {
  const form = 'multipart/form-data; boundary=b';
  const nested = `--b\r\ncontent-disposition: form-data; name="file"; filename="f.txt"\r\ncontent-type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nx\r\n--c--\r\n--b--\r\n`;
  it.each([
    ['no boundary', 'multipart/form-data', `--b\r\n${PART}x\r\n--b--\r\n`],
    ['another boundary', 'multipart/form-data; boundary=other', `--b\r\n${PART}x\r\n--b--\r\n`],
    ['nothing', form, ''],
    ['no part', form, '--b--\r\n'],
    ['an end that never comes', form, `--b\r\n${PART}x`],
    ['headers that never end', form, `--b\r\ncontent-disposition: form-data; name="file"; filename="f.txt"\r\n`],
    ['many headers', form, `--b\r\n${'x-a: y\r\n'.repeat(5000)}${PART}x\r\n--b--\r\n`],
    ['a header of a megabyte', form, `--b\r\nx-a: ${'y'.repeat(1024 * 1024)}\r\n${PART}x\r\n--b--\r\n`],
    ['a part without a name', form, '--b\r\ncontent-type: text/plain\r\n\r\nx\r\n--b--\r\n'],
    ['a multipart within', form, nested],
    ['ten thousand parts', form, `${`--b\r\n${PART}x\r\n`.repeat(10_000)}--b--\r\n`],
    ['a prototype for a name', form, `--b\r\n${PART.replace('"file"', '"__proto__"')}x\r\n--b--\r\n`],
  ])('%s is 400 or 415, and leaves nothing', async (_, type, body) => {
    const answer = await post(type, body);
    expect(answer).toMatch(/^HTTP\/1\.1 4(00|15) /);
    expect(answer).toContain('"code":"VALIDATION_ERROR"');
    await until('no file is left', async () => stored().length === 0);
  });

  it('a boundary of 70 characters works', async () => {
    const boundary = 'b'.repeat(70);
    const answer = await post(
      `multipart/form-data; boundary=${boundary}`,
      `--${boundary}\r\n${PART}x\r\n--${boundary}--\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 201 /);
    for (const name of stored()) rmSync(join(directory, 'attachments', name));
  });
});

describe('Attachments › a text whose type names a character set', () => {
  const send = async (type: string, bytes: Buffer) => {
    const { type: contentType, body } = multipart([{ type, bytes }]);
    const answer = await alice.post('/attachments', body, { headers: { 'content-type': contentType } });
    for (const name of stored()) rmSync(join(directory, 'attachments', name));
    return { status: answer.status, type: field(answer.json, 'content_type') };
  };

  it.each(['text/plain; charset=utf-8', 'text/plain;charset="UTF-8"', 'TEXT/Plain; charset=utf-7', 'text/plain; x=y'])(
    '%s is text/plain in UTF-8 for everyone who downloads it',
    async (type) => {
      expect(await send(type, Buffer.from('plain'))).toEqual({ status: 201, type: 'text/plain' });
    },
  );

  it('is refused if its bytes are not UTF-8, whatever charset it names', async () => {
    for (const charset of ['utf-16', 'utf-8']) {
      const bytes = Buffer.from('\ufeffhällo', 'utf16le');
      expect((await send(`text/plain; charset=${charset}`, bytes)).status).toBe(400);
    }
    expect((await send('text/plain; charset=latin1', Buffer.from('hällo', 'latin1'))).status).toBe(400);
  });
});

describe('Attachments › a sender that disconnects', () => {
  it.each(['length', 'chunked'])('in the middle of the file (%s) leaves nothing', async (kind) => {
    const head = await headOf('multipart/form-data; boundary=b', kind === 'chunked' ? 'chunked' : 1_000_000);
    const begin = `--b\r\n${PART}${'a'.repeat(200_000)}`;
    const body = kind === 'chunked' ? `${begin.length.toString(16)}\r\n${begin}\r\n` : begin;
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => {});
    socket.write(head + body);
    await until('the file has begun', async () => stored().length === 1);
    socket.destroy();
    await until('no file is left', async () => stored().length === 0);
  });

  it('more than 10 MB is refused while it is still being sent', async () => {
    const head = await headOf('multipart/form-data; boundary=b', 'chunked');
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => {});
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk.toString();
    });
    const chunk = Buffer.alloc(256 * 1024, 'a');
    const send = (bytes: Buffer | string): void => {
      socket.write(`${Buffer.byteLength(bytes).toString(16)}\r\n`);
      socket.write(bytes);
      socket.write('\r\n');
    };
    socket.write(head);
    send(`--b\r\n${PART}`);
    for (let count = 0; count < 42; count += 1) send(chunk);
    await until('an answer', async () => answer !== '');
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    socket.destroy();
    await until('no file is left', async () => stored().length === 0);
  });
});

describe('Attachments › uploads of one agent at once', () => {
  it('are bounded: others wait their turn, up to a bound, and hold up no other agent', async () => {
    const begin = async (count: number): Promise<Socket[]> => {
      const heads = await Promise.all(
        Array.from({ length: count }, () => headOf('multipart/form-data; boundary=b', 1_000)),
      );
      return heads.map((head) => {
        const socket = connect({ host: '127.0.0.1', port });
        socket.on('error', () => {});
        socket.write(`${head}--b\r\n${PART}x`);
        return socket;
      });
    };
    const running = await begin(UPLOADS_PER_AGENT_MAX);
    await until('all have begun', async () => stored().length === UPLOADS_PER_AGENT_MAX);
    const fickle = await begin(UPLOADS_PER_AGENT_MAX);
    const answers: string[] = [];
    const say = async (): Promise<unknown> =>
      answers.push(await post('multipart/form-data; boundary=b', `--b\r\n${PART}x\r\n--b--\r\n`));
    const patient = UPLOADS_WAITING_MAX - fickle.length;
    const waiting = Array.from({ length: patient + 5 }, say);
    await until('those beyond the line are refused', async () => answers.length === 5);
    for (const refused of answers)
      expect(refused).toMatch(/^HTTP\/1\.1 429 .*\r\nretry-after: [1-9]\d*\r\n.*"RATE_LIMITED"/is);
    expect(stored()).toHaveLength(UPLOADS_PER_AGENT_MAX);
    const { type, body } = multipart([{ bytes: 'plain' }]);
    const other = await bob.post('/attachments', body, { headers: { 'content-type': type } });
    expect(other.status).toBe(201);
    expect(answers).toHaveLength(5);
    for (const socket of fickle) socket.destroy();
    running.pop()?.destroy();
    await Promise.all(waiting);
    for (const answer of answers.slice(5)) expect(answer).toMatch(/^HTTP\/1\.1 201 /);
    for (const socket of running) socket.destroy();
    await until('only what was finished is left', async () => stored().length === patient + 1);
  });
});
