import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createClientCredential } from '../../../src/client/credentials/credential.js';
import { systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';
import { type Client, type Credential, connect, createTransport } from '../../../src/library/library.js';
import { startTestService, type TestService } from '../../support/service.js';

let service: TestService;
let client: Client;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  const alice = await service.createAgent('alice');
  const transport = createTransport({ clock: systemClock });
  const at = { baseUrl: service.baseUrl };
  const credential = createClientCredential({ transport, random: systemRandom, service: at, ...alice.credentials });
  client = connect({ service: at, credential, transport, timeoutMs: 20_000 });
});
afterAll(() => service.stop());

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  for (const part of text.match(/.{1,7}/gs) ?? []) yield Buffer.from(part);
}
const collect = async (body: AsyncIterable<Uint8Array>): Promise<string> => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
};

describe('the endpoints', () => {
  it('take path, query and body, and return decoded replies', async () => {
    const created = await client.call('createSession', { body: { topic: 'tea' } });
    expect(created).toMatchObject({ attempts: 1, idempotencyKey: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    const path = { session_id: created.reply.session_id };
    const read = await client.call('getSession', { path });
    expect(read).toMatchObject({ reply: { topic: 'tea' }, idempotencyKey: undefined });
    const { reply } = await client.call('listSessions', { query: { limit: 1, state: 'active' } });
    expect(reply.sessions).toHaveLength(1);
  });

  it('answer a repeated key with the first answer', async () => {
    const idempotencyKey = '7f9d1a6e-6c0f-4f36-8a5f-0d8f0a3b8f11';
    const [one, two] = [
      await client.call('createSession', { body: {}, idempotencyKey }),
      await client.call('createSession', { body: {}, idempotencyKey }),
    ];
    expect(two.reply).toEqual(one.reply);
  });

  it('fail with the code of the envelope and a description of the request', async () => {
    const path = { session_id: 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV' };
    await expect(client.call('endSession', { path })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      status: 404,
      outcome: 'not_applied',
      isRetryable: false,
      attempts: 1,
      request: { method: 'POST', path: `/v1/sessions/${path.session_id}/end` },
    });
  });
});

describe('attachments', () => {
  it('are uploaded while they are read, and come back unchanged', async () => {
    const text = 'line\n'.repeat(1000);
    const file = {
      filename: 'a "b".txt',
      contentType: 'text/plain',
      size: text.length,
      open: () => bytesOf(text),
    } as const;
    const { reply } = await client.upload(file);
    expect(reply).toMatchObject({ content_type: 'text/plain', size: text.length });
    const download = await client.download(reply.id);
    expect(download.size).toBe(text.length);
    expect(await collect(download.body)).toBe(text);
  });

  it.each([
    ['shrinks', 100, 'it has 50 bytes instead of 100.'],
    ['grows', 10, 'it has more than 10 bytes.'],
  ])('fail once, and say why, if the file %s while it is uploaded', async (_, size, why) => {
    const open = () => bytesOf('line\n'.repeat(10));
    await expect(client.upload({ filename: 'a.txt', contentType: 'text/plain', size, open })).rejects.toMatchObject({
      code: 'ASP_USAGE',
      message: `a.txt changed while it was uploaded: ${why}`,
      outcome: 'not_applied',
      isRetryable: false,
    });
  });
});

describe('an id that is malformed', () => {
  it('names something that does not exist, not something that the service does not offer', async () => {
    await expect(client.download('att_none')).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const delivery = client.call('getDelivery', { path: { session_id: 'sess_none' }, query: { sequence: 1 } });
    await expect(delivery).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('raw requests', () => {
  it('carry the bearer token, and a key for writes; any status is an answer', async () => {
    const headers = { 'content-type': 'application/json' };
    expect(await client.raw({ method: 'POST', path: '/sessions', headers, body: '{}' })).toMatchObject({ status: 201 });
    const missing = await client.raw({ method: 'GET', path: 'sessions/nothing' });
    expect(missing).toMatchObject({ status: 404, attempts: 1, idempotencyKey: undefined });
  });

  it.each(['/../operator/status', '/%2e%2e/health', '/sessions/../../health'])(
    'never leave the base URL: %s',
    async (path) => {
      await expect(client.raw({ method: 'GET', path })).rejects.toMatchObject({ code: 'ASP_INSECURE_ADDRESS' });
    },
  );
});

describe('the deadline of a call', () => {
  it('ends it with the known outcome', async () => {
    const transport = createTransport({ clock: systemClock });
    const accessToken: Credential['accessToken'] = (_, { signal } = {}) =>
      new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    const credential = { source: 'environment', accessToken } as const;
    const slow = connect({ service: { baseUrl: service.baseUrl }, credential, transport, timeoutMs: 50 });
    const failing = Promise.race([
      slow.call('createSession', { body: {} }).catch((error: unknown) => error),
      new Promise((resolve) => setTimeout(resolve, 3000, 'hangs')),
    ]);
    expect(await failing).toMatchObject({ code: 'ASP_TIMEOUT', outcome: 'not_applied' });
  });
});
