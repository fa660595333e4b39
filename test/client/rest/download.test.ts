import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/kit/clock.js';
import { connect, createTokenCredential, createTransport } from '../../../src/library/library.js';
import { type Scene, type ScriptedServer, startScriptedServer } from '../../support/scripted-server.js';

const ID = `att_${'0'.repeat(26)}`;
const TEXT = 'abcdefghij';

let server: ScriptedServer | undefined;
afterEach(async () => {
  await server?.finish();
  server = undefined;
});

const linkTo = (path: string, size = TEXT.length): Scene => ({
  method: 'GET',
  path: `/v1/attachments/${ID}`,
  body: {
    id: ID,
    filename: 'a.txt',
    content_type: 'text/plain',
    size,
    url: `${server?.origin}${path}`,
    url_expires_at: 1,
  },
});

async function download(script: () => readonly Scene[], retries = 2, maxBytes?: number): Promise<string> {
  server = await startScriptedServer();
  server.expect(...script());
  const client = connect({
    service: { baseUrl: `${server.origin}/v1` },
    credential: createTokenCredential({ api: 'a-token', ws: undefined }),
    transport: createTransport({ clock: systemClock }),
    retries,
  });
  const { body } = await client.download(ID, { maxBytes });
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

describe('a download', () => {
  it('sends no bearer to the signed address', async () => {
    expect(await download(() => [linkTo('/files/1'), { method: 'GET', path: '/files/1', body: TEXT }])).toBe(TEXT);
    expect(server?.received.map(({ headers }) => headers['authorization'])).toEqual(['Bearer a-token', undefined]);
  });

  it('that is interrupted continues where it stopped, from a new address', async () => {
    const got = await download(() => [
      linkTo('/files/1'),
      { method: 'GET', path: '/files/1', body: TEXT, fault: 'half' },
      linkTo('/files/2'),
      {
        method: 'GET',
        path: '/files/2',
        status: 206,
        headers: { 'content-range': 'bytes 5-9/10' },
        body: TEXT.slice(5),
      },
    ]);
    expect(got).toBe(TEXT);
    expect(server?.received.at(-1)?.headers['range']).toBe('bytes=5-');
  });

  it('skips the bytes it already has if the server starts over', async () => {
    const got = await download(() => [
      linkTo('/files/1'),
      { method: 'GET', path: '/files/1', body: TEXT, fault: 'half' },
      linkTo('/files/2'),
      { method: 'GET', path: '/files/2', body: TEXT },
    ]);
    expect(got).toBe(TEXT);
  });

  it('asks again once if the address has expired', async () => {
    const got = await download(() => [
      linkTo('/files/1'),
      { method: 'GET', path: '/files/1', body: TEXT, fault: 'half' },
      linkTo('/files/2'),
      { method: 'GET', path: '/files/2', status: 404, body: 'gone' },
      linkTo('/files/3'),
      { method: 'GET', path: '/files/3', body: TEXT },
    ]);
    expect(got).toBe(TEXT);
  });

  it('that is longer than the attachment, or changes, is refused', async () => {
    const longer = download(() => [linkTo('/files/1', 4), { method: 'GET', path: '/files/1', body: TEXT }]);
    await expect(longer).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER' });
    await server?.finish();
    const other = download(() => [
      linkTo('/files/1'),
      { method: 'GET', path: '/files/1', body: TEXT, fault: 'half' },
      linkTo('/files/2', 11),
      { method: 'GET', path: '/files/2', body: TEXT },
    ]);
    await expect(other).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER' });
  });

  it('of more than 10 MiB is refused before its bytes are requested, unless more is allowed', async () => {
    const size = 10 * 1024 * 1024 + 1;
    await expect(download(() => [linkTo('/files/1', size)])).rejects.toMatchObject({
      code: 'ASP_FILE_TOO_LARGE',
      message: expect.stringContaining(String(size)),
    });
    await server?.finish();
    const file: Scene = { method: 'GET', path: '/files/1', body: TEXT };
    await expect(download(() => [linkTo('/files/1', 10)], 2, 9)).rejects.toMatchObject({ code: 'ASP_FILE_TOO_LARGE' });
    await server?.finish();
    expect(await download(() => [linkTo('/files/1', 10), file], 2, 10)).toBe(TEXT);
  });

  it('that is interrupted repeatedly fails after the retries', async () => {
    const broken = (path: string): Scene => ({ method: 'GET', path, fault: 'reset' });
    const got = download(
      () => [
        linkTo('/files/1'),
        { method: 'GET', path: '/files/1', body: TEXT, fault: 'half' },
        linkTo('/files/2'),
        broken('/files/2'),
      ],
      1,
    );
    await expect(got).rejects.toMatchObject({ code: 'ASP_UNREACHABLE' });
  });
});
