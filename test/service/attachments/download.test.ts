import fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { getAttachment } from '../../../src/service/attachments/attachments.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import { readByteRange, registerDownloads } from '../../../src/service/http/downloads.js';
import { deletePendingAttachment } from '../../../src/service/store/attachments.js';
import { openStage, type Stage } from '../sessions/stage.js';
import { type Given, upload } from './desk.js';

let stage: Stage;
let app: FastifyInstance;
let alice: AgentActor;

beforeEach(async () => {
  stage = await openStage();
  alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
  app = fastify();
  app.setErrorHandler((error, _request, reply) => {
    const known = error instanceof ServiceError ? error : new ServiceError('INTERNAL_ERROR');
    return reply.code(known.status).send({ error: { code: known.code, message: known.message } });
  });
  app.setNotFoundHandler(() => {
    throw new ServiceError('NOT_FOUND');
  });
  registerDownloads(app, stage.context);
});
afterEach(async () => {
  await app.close();
  await stage.close();
});

async function addressOf(given: Given = {}): Promise<URL> {
  const { id } = await upload(stage, alice, given);
  const link = await stage.read((query) => getAttachment(stage.context, alice, { path: { attachment_id: id } }, query));
  return new URL(link.url);
}
const fetchIt = (url: URL, headers: Record<string, string> = {}) =>
  app.inject({ method: 'GET', url: url.pathname + url.search, headers });

describe('Attachments › the signed address', () => {
  it('returns the bytes as a download that no browser displays, runs, sniffs, or embeds', async () => {
    const answer = await fetchIt(await addressOf({ filename: 'my report.txt', bytes: 'hällo' }));
    expect([answer.statusCode, answer.body]).toEqual([200, 'hällo']);
    expect(answer.headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-length': '6',
      'content-disposition': `attachment; filename="my report.txt"; filename*=UTF-8''my%20report.txt`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': 'private, no-store',
    });
  });

  it('answers HEAD with the headers alone', async () => {
    const url = await addressOf({ filename: 'my report.txt', bytes: 'hällo' });
    const ask = async (method: 'GET' | 'HEAD', address = url) => {
      const { statusCode, headers, body } = await app.inject({ method, url: address.pathname + address.search });
      return { statusCode, headers: { ...headers, date: undefined }, body };
    };
    expect(await ask('HEAD')).toEqual({ ...(await ask('GET')), body: '' });
    url.searchParams.set('signature', 'invented');
    expect((await ask('HEAD')).statusCode).toBe(404);
  });

  it('is valid for 5 minutes', async () => {
    const url = await addressOf();
    stage.clock.advance(5 * 60_000 - 1);
    expect((await fetchIt(url)).statusCode).toBe(200);
    stage.clock.advance(1);
    expect((await fetchIt(url)).statusCode).toBe(404);
  });

  it('gets the same answer whether it is altered, expired, swept, or invented', async () => {
    const url = await addressOf();
    const other = await addressOf();
    const change = (edit: (copy: URL) => void): URL => {
      const copy = new URL(url);
      edit(copy);
      return copy;
    };
    const signature = String(url.searchParams.get('signature'));
    const expires = Number(url.searchParams.get('expires'));
    const flipped = (signature.startsWith('A') ? 'B' : 'A') + signature.slice(1);
    const changed = [
      change((copy) => copy.searchParams.set('expires', String(expires + 1))),
      change((copy) => copy.searchParams.set('expires', `${expires}.0`)),
      change((copy) => copy.searchParams.set('expires', '9999999999999')),
      change((copy) => copy.searchParams.delete('expires')),
      change((copy) => copy.searchParams.append('expires', String(expires))),
      change((copy) => copy.searchParams.set('signature', flipped)),
      change((copy) => copy.searchParams.set('signature', signature.slice(0, -1))),
      change((copy) => copy.searchParams.set('signature', `${signature}=`)),
      change((copy) => copy.searchParams.set('signature', '')),
      change((copy) => copy.searchParams.delete('signature')),
      change((copy) => {
        copy.pathname = other.pathname;
      }),
      change((copy) => {
        copy.pathname = '/attachments/att_01ARZ3NDEKTSV4RRFFQ69G5FAV';
      }),
      change((copy) => {
        copy.pathname = '/attachments/%2e%2e%2fasp.sqlite';
      }),
    ];
    const missing = await fetchIt(new URL('http://h/nothing'));
    const describeIt = (answer: typeof missing) => ({
      status: answer.statusCode,
      headers: { ...answer.headers, date: '' },
      body: answer.body,
    });
    for (const address of changed)
      expect(describeIt(await fetchIt(address)), address.href).toEqual(describeIt(missing));
    const id = String(url.pathname.split('/').at(-1));
    await stage.write((transaction) => deletePendingAttachment(transaction, id));
    expect(describeIt(await fetchIt(url))).toEqual(describeIt(missing));
  });

  it('returns parts of the file', async () => {
    const url = await addressOf({ bytes: '0123456789' });
    const part = await fetchIt(url, { range: 'bytes=2-4' });
    expect([part.statusCode, part.body, part.headers['content-range']]).toEqual([206, '234', 'bytes 2-4/10']);
    expect(part.headers['content-length']).toBe('3');
    const beyond = await fetchIt(url, { range: 'bytes=10-' });
    expect([beyond.statusCode, beyond.headers['content-range']]).toEqual([416, 'bytes */10']);
    const validator = String(part.headers['etag']);
    expect((await fetchIt(url, { range: 'bytes=2-4', 'if-range': validator })).statusCode).toBe(206);
    expect((await fetchIt(url, { range: 'bytes=2-4', 'if-range': '"other"' })).body).toBe('0123456789');
  });
});

describe('RFC 9110 §14 › ranges of 10 bytes', () => {
  const table: readonly (readonly [string | undefined, ReturnType<typeof readByteRange>])[] = [
    [undefined, undefined],
    ['bytes=0-', { first: 0, last: 9 }],
    ['bytes=0-0', { first: 0, last: 0 }],
    ['bytes=5-100', { first: 5, last: 9 }],
    ['bytes=-3', { first: 7, last: 9 }],
    ['bytes=-100', { first: 0, last: 9 }],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=10-', 'unsatisfiable'],
    ['bytes=10-20', 'unsatisfiable'],
    ['bytes=4-2', undefined],
    ['bytes=-', undefined],
    ['bytes=0-1,4-5', undefined],
    ['bytes=a-b', undefined],
    ['lines=0-1', undefined],
    ['bytes=99999999999999999-', undefined],
    ['bytes=0x1-2', undefined],
  ];
  it.each(table)('%s', (header, range) => {
    expect(readByteRange(header, 10)).toEqual(range);
  });
});
