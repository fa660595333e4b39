import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';

import {
  type Client,
  connect,
  createAgent,
  createClientCredential,
  createTokenCredential,
  type EventEnvelope,
  type RequestErrorCode,
  type UploadSource,
} from '../../src/library/library.js';
import { startService, type TestService } from '../../src/testing/testing.js';

let service: TestService;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'asp-connect-'));
  service = await startService({ agents: ['me.bot', 'me.boss'] });
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(() => vi.unstubAllEnvs());

const actAs = (handle: string): void => {
  for (const [name, value] of Object.entries(service.env(handle))) vi.stubEnv(name, value);
};
const whoIs = async (client: Client): Promise<string> => (await client.call('getActingAgent')).reply.canonical_handle;

describe('a client without credentials of its own', () => {
  it('finds service and credentials as asp does, and has every method', async () => {
    actAs('@me.boss');
    await using client = connect({ timeoutMs: 10_000 });
    expect(await whoIs(client)).toBe('@me.boss');
    const { reply } = await client.call('createSession', { body: { initial_message: { content: 'hi' } } });
    for await (const { sessions } of client.pages('listSessions')) expect(sessions).toHaveLength(1);
    for await (const item of client.tail({ sessions: [{ sessionId: reply.session_id, after: 0 }] })) {
      expect(item).toMatchObject({ kind: 'event', event: { session_id: reply.session_id } });
      break;
    }
    const { reply: attachment } = await client.upload(Buffer.from('a,b'), { filename: 'a.csv' });
    const { body, contentType } = await client.download(attachment.id);
    const parts: Uint8Array[] = [];
    for await (const part of body) parts.push(part);
    expect([contentType, Buffer.concat(parts).toString()]).toEqual(['text/csv', 'a,b']);
    expect(await client.raw({ method: 'GET', path: '/agents/me' })).toMatchObject({ status: 200 });
  });

  it('is refused if the credential acts as another agent, or if only half of a connection is given', async () => {
    actAs('@me.boss');
    const other = connect({ handle: 'me.bot' });
    await expect(whoIs(other)).rejects.toMatchObject({
      code: 'ASP_USAGE',
      message: expect.stringContaining('@me.bot'),
    });
    await other.close();
    const half = { service: { baseUrl: service.baseUrl } } as unknown as Parameters<typeof connect>[0];
    expect(() => connect(half)).toThrow('connect needs both a service and a credential');
  });

  it('and the client of an agent refuse calls at once after they are closed', async () => {
    actAs('@me.boss');
    const client = connect();
    const agent = createAgent();
    const ofAgent = await agent.client();
    await Promise.all([whoIs(client), whoIs(ofAgent)]);
    await Promise.all([client.close(), agent.close()]);
    for (const closed of [client, ofAgent])
      await expect(whoIs(closed)).rejects.toMatchObject({ code: 'ASP_ABORTED', message: 'The client was closed.' });
  });
});

describe('a client', () => {
  it('accepts a base URL that ends with a slash', async () => {
    const { ASP_CLIENT_ID: clientId = '', ASP_CLIENT_SECRET: clientSecret = '' } = service.env('@me.bot');
    const at = { baseUrl: `${service.baseUrl}/` };
    await using client = connect({
      service: at,
      credential: createClientCredential({ service: at, clientId, clientSecret }),
    });
    expect(await whoIs(client)).toBe('@me.bot');
  });

  it('tells programs without types that a name is not an operation', async () => {
    const call = service.client('@me.bot').call as unknown as (name: string) => Promise<unknown>;
    await expect(call('getNothing')).rejects.toThrow("'getNothing' is not an operation. Operations are sendMessage,");
    await expect(call('listSession')).rejects.toThrow("'listSession' is not an operation. Did you mean listSessions?");
  });

  it('tells programs without types which option they have misspelled', async () => {
    const client = service.client('@me.bot');
    const wrong = (option: string): object => ({ [option]: 1 });
    const fails = (work: () => unknown, message: string) =>
      expect((async () => work())()).rejects.toThrow(new TypeError(message));
    await fails(() => connect(wrong('timeout')), "connect has no option 'timeout'. Did you mean timeoutMs?");
    const { credential, ...at } = { credential: createTokenCredential({ api: 'x', ws: 'x' }), ...wrong('baseURL') };
    await fails(
      () => connect({ service: at as { baseUrl: string }, credential }),
      "The service of connect has no option 'baseURL'. Did you mean baseUrl?",
    );
    await fails(
      () =>
        createClientCredential(wrong('clientID') as { service: typeof at; clientId: ''; clientSecret: '' } as never),
      "createClientCredential has no option 'clientID'. Did you mean clientId?",
    );
    await fails(
      () => client.call('listSessions', wrong('querry')),
      "listSessions has no option 'querry'. Did you mean query?",
    );
    await fails(
      () => client.upload(Buffer.of(1), wrong('name')),
      "upload has no option 'name'. The options are filename, isText, idempotencyKey, signal, retries.",
    );
    await fails(
      () => client.download('att_1', wrong('maxbytes')),
      "download has no option 'maxbytes'. Did you mean maxBytes?",
    );
    await fails(
      () => client.tail(wrong('session'))[Symbol.asyncIterator]().next(),
      "tail has no option 'session'. Did you mean sessions?",
    );
    const sessions = [{ sessionId: 'sess_1', ...wrong('afer') }];
    await fails(
      () => client.tail({ sessions })[Symbol.asyncIterator]().next(),
      "A session of tail has no option 'afer'. Did you mean after?",
    );
    await fails(
      () =>
        client
          .tail({ sessions: ['sess_1' as unknown as (typeof sessions)[0]] })
          [Symbol.asyncIterator]()
          .next(),
      'A session of tail takes an object with these options: sessionId, after, last, epoch.',
    );
    const pages = () => client.pages('listSessions', wrong('querry'))[Symbol.asyncIterator]().next();
    await fails(pages, "listSessions has no option 'querry'. Did you mean query?");
  });

  it('has types that know every event and every code, and content that can be sent back', async () => {
    const event = { type: 'session.ended', payload: { ended_by: '@me.bot' } } as unknown as EventEnvelope;
    if (event.type === 'session.ended') expect(event.payload.ended_by satisfies string).toBe('@me.bot');
    // @ts-expect-error a misspelled type of event
    expect(event.type === 'session.end').toBe(false);
    const codes: RequestErrorCode[] = ['RATE_LIMITED', 'invalid_grant', 'ASP_TIMEOUT', 'ASP_NO_ANSWER'];
    // @ts-expect-error a misspelled code
    expect(codes[0] === 'RATELIMITED').toBe(false);
    const client = service.client('@me.bot');
    const path = { session_id: (await client.call('createSession', { body: {} })).reply.session_id };
    await client.call('sendMessage', { path, body: { content: [{ type: 'text', text: 'hi' }] } });
    const { reply } = await client.call('replayEvents', { path });
    for (const { type, payload } of reply.events)
      if (type === 'session.message') {
        for (const part of payload.content)
          if (typeof part === 'object' && part.type === 'text') expect(part.text satisfies string).toBe('hi');
        await client.call('sendMessage', { path, body: { content: payload.content } });
      }
    expect(reply.events.map(({ type }) => type)).toContain('session.message');
  });
});

describe('a file to upload', () => {
  const png = Buffer.from('89504e470d0a1a0a0000', 'hex');
  const write = (name: string, bytes: string | Buffer): string => {
    writeFileSync(join(folder, name), bytes);
    return join(folder, name);
  };
  const upload = async (source: UploadSource, options?: Parameters<Client['upload']>[1]) => {
    const { filename, content_type: type, size } = (await service.client('@me.bot').upload(source, options)).reply;
    return { filename, type, size };
  };

  it('is a path, a URL, a Blob, a File, bytes, or a function that reads it', async () => {
    const path = write('a.csv', 'a,b');
    const csv = { type: 'text/csv', size: 3 };
    expect(await upload(path)).toEqual({ ...csv, filename: 'a.csv' });
    expect(await upload(pathToFileURL(path))).toEqual({ ...csv, filename: 'a.csv' });
    expect(await upload(path, { filename: 'b.csv' })).toEqual({ ...csv, filename: 'b.csv' });
    expect(await upload(new File(['a,b'], 'c.csv'))).toEqual({ ...csv, filename: 'c.csv' });
    expect(await upload(new Uint8Array([97, 44, 98]), { filename: 'd.csv' })).toEqual({ ...csv, filename: 'd.csv' });
    expect(await upload(new Blob(['a,b'], { type: 'text/csv;charset=utf-8' }))).toEqual({
      ...csv,
      filename: 'file.csv',
    });
    const open = async function* () {
      yield Buffer.from('a,b');
    };
    expect(await upload({ filename: 'e.csv', contentType: 'text/csv', size: 3, open })).toEqual({
      ...csv,
      filename: 'e.csv',
    });
    expect(await upload(new File([png], 'x.png'))).toEqual({ filename: 'x.png', type: 'image/png', size: 10 });
  });

  it('of another type can be sent as text, and a file that the service would refuse is not sent', async () => {
    const path = write('main.rs', 'fn main() {}');
    await expect(upload(path)).rejects.toMatchObject({
      code: 'ASP_FILE_TYPE',
      message: expect.stringMatching(
        /^main\.rs has an unsupported file type\. Supported: pdf, .*, csv\. To send it as plain text, set isText\.$/,
      ),
    });
    expect(await upload(path, { isText: true })).toEqual({ filename: 'main.rs', type: 'text/plain', size: 12 });
    const refuse = (source: UploadSource, options?: Parameters<Client['upload']>[1]) =>
      expect(upload(source, options)).rejects;
    await refuse(write('x.rs', 'a\0b'), { isText: true }).toMatchObject({ message: 'x.rs is not a text file.' });
    await refuse(write('x.png', 'not one')).toMatchObject({ code: 'ASP_FILE_TYPE' });
    await refuse(write('big.txt', Buffer.alloc(10 * 1024 ** 2 + 1, 97))).toMatchObject({ code: 'ASP_FILE_TOO_LARGE' });
    await refuse(join(folder, 'none.txt')).toMatchObject({ code: 'ENOENT' });
    await refuse(folder).toThrow('is a folder');
    await refuse(png).toThrow('Bytes need a name');
    await refuse(new Blob(['a'])).toThrow('needs a name');
    await refuse(createReadStream(path) as unknown as string).toThrow('upload needs the path of a file');
    await refuse(undefined as unknown as string).toThrow('upload needs the path of a file');
  });
});
