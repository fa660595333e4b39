import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isPublicAddress, type OutsideNetwork, PUBLIC_INTERNET } from '../../../src/service/core/public-internet.js';
import { createClientDocuments, isDocumentUrl } from '../../../src/service/oauth/client-documents.js';
import { makeRoom } from '../../../src/service/oauth/unused-clients.js';
import { findOAuthClient } from '../../../src/service/store/oauth-clients.js';
import { OWN_RATE_LIMIT } from '../../../src/wire/limit.js';
import { createHome } from '../../acceptance/program.js';
import { type Authority, createAuthority } from '../../support/certificates.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { visibleText } from '../../support/html-form.js';
import { type Answer, request } from '../../support/http.js';
import { field, text } from '../../support/json.js';
import { authorizationUrl, claimsOf, createVerifier, redeemCode, refresh } from '../../support/oauth.js';
import { until } from '../../support/until.js';
import { openStage, type Stage } from '../sessions/stage.js';
import { createBrowser } from './browser.js';
import { ALICE, BOB, type Desk, openDesk } from './desk.js';
import { addUnusedClients } from './unused-clients.js';

const HOST = 'client.example';
const REDIRECT = 'https://app.example/callback';

let folder: string;
let authority: Authority;
let server: Server;
/** The requests that reached the client's server. */
let asked: string[];
let answer: (incoming: IncomingMessage, reply: ServerResponse) => void;
let connections: number;
let desk: Desk;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'asp-documents-'));
  authority = createAuthority(folder);
  const own = authority.issue(HOST);
  server = createServer({ cert: readFileSync(own.certificate), key: readFileSync(own.key) }, (incoming, reply) => {
    asked.push(incoming.url ?? '');
    answer(incoming, reply);
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

beforeEach(() => {
  asked = [];
  connections = 0;
  answer = (_incoming, reply) => send(reply, document());
});
afterEach(() => desk.stop());

const port = (): number => (server.address() as AddressInfo).port;
const url = (path = '/app.json', host = HOST): string => `https://${host}:${port()}${path}`;
const document = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  client_id: url(),
  client_name: 'Example App',
  redirect_uris: [REDIRECT],
  ...changes,
});
function send(reply: ServerResponse, body: unknown, headers: Record<string, string> = {}): void {
  reply.writeHead(200, { 'content-type': 'application/json', ...headers });
  reply.end(typeof body === 'string' ? body : JSON.stringify(body));
}

/** Resolves the name to this machine, which only tests allow. */
const hereOnly = (): OutsideNetwork => ({
  resolve: async (hostname) => (hostname === HOST ? ['127.0.0.1'] : []),
  isAllowed: (address) => address === '127.0.0.1',
  ca: readFileSync(authority.file, 'utf8'),
});
const open = async (network: Partial<OutsideNetwork> = {}, areLimitsOn = false): Promise<void> => {
  desk = await openDesk({ outsideNetwork: { ...hereOnly(), ...network }, areLimitsOn });
};
const authorizeUrl = (clientId = url(), redirectUri = REDIRECT): string =>
  authorizationUrl(desk.place, { clientId, redirectUri, challenge: createVerifier().challenge, agentHandle: ALICE });
const show = (clientId?: string, redirectUri?: string): Promise<Answer> => request(authorizeUrl(clientId, redirectUri));

/** Expects an error page instead of a sign-in. */
async function mustBeRefused(clientId: string, sentence: RegExp): Promise<void> {
  const page = await show(clientId);
  expect([page.status, page.headers['location']], page.text).toEqual([400, undefined]);
  expect(visibleText(page.text)).toMatch(sentence);
}

const UNREACHABLE = /cannot fetch the description of the application from its client_id/;

describe('A client id that is the URL of a document replaces a registration', () => {
  it('an app signs in, refreshes and is named by its URL in its tokens', async () => {
    await open();
    const metadata = await request(`${desk.place.issuer}/.well-known/oauth-authorization-server`);
    expect(field(metadata.json, 'client_id_metadata_document_supported')).toBe(true);

    const { code, verifier } = await desk.authorize(url(), { redirectUri: REDIRECT });
    const tokens = await redeemCode(desk.place, url(), code, verifier, { redirect_uri: REDIRECT });
    expect(tokens.status, tokens.text).toBe(200);
    expect(claimsOf(text(tokens.json, 'access_token'))).toMatchObject({ azp: url(), client_id: url() });
    expect((await refresh(desk.place, url(), text(tokens.json, 'refresh_token'))).status).toBe(200);
  });

  it('one account cannot use up the tokens of all its users', async () => {
    await open({}, true);
    const signIn = async (agentHandle: string): Promise<string> => {
      const { code, verifier } = await desk.authorize(url(), { redirectUri: REDIRECT, agentHandle });
      const tokens = await redeemCode(desk.place, url(), code, verifier, { redirect_uri: REDIRECT });
      return text(tokens.json, 'refresh_token');
    };
    const others = await signIn(BOB);
    let own = await signIn(ALICE);
    const { count } = OWN_RATE_LIMIT.issueTokenToAccount;
    for (let issued = 1; issued < count; issued += 1)
      own = text((await refresh(desk.place, url(), own)).json, 'refresh_token');
    const refused = await refresh(desk.place, url(), own);
    expect([refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([429, true]);
    expect((await refresh(desk.place, url(), others)).status).toBe(200);
  });

  it('the consent page names the host and the URL of the document', async () => {
    await open();
    const browser = createBrowser(desk.service.webUrl);
    const first = await browser.get(authorizeUrl());
    const person = { username: 'maria', display_name: 'Maria', password: 'correct horse battery' };
    const consent = await browser.follow(await browser.submit(first, '/oauth/sign-up', person));
    const seen = visibleText(consent.text);
    expect(seen).toMatch(/Let “ ?Example App ?” act as your agent/);
    expect(seen).toContain(
      `This app is described by ${HOST}:${port()} , at ${url()} . This service has not verified it.`,
    );
    expect(seen).toContain('You will be returned to app.example');
    const allowed = { decision: 'allow', agent: 'new', agent_name: 'inbox' };
    const back = await browser.submit(consent, '/oauth/authorize', allowed);
    expect(back.headers['location']).toMatch(/^https:\/\/app\.example\/callback\?code=asp_ac_/);
  });

  it('a document needs no name or scopes, and members for other servers are ignored', async () => {
    await open();
    answer = (_incoming, reply) =>
      send(reply, {
        client_id: url(),
        redirect_uris: ['vscode://callback', 'http://127.0.0.1:33418/', REDIRECT],
        grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        logo_uri: url('/logo.png'),
        jwks_uri: url('/keys'),
      });
    expect((await show()).status).toBe(200);
    expect((await show(url(), 'http://127.0.0.1:5000/')).status).toBe(200);
    expect((await show(url(), 'vscode://callback')).status).toBe(400);
    expect(asked).toEqual(['/app.json']);
  });

  it('the scopes of the document limit what the app can request', async () => {
    await open();
    answer = (_incoming, reply) => send(reply, document({ scope: 'openid agents:read' }));
    const asks = (scope: string) => desk.approve({ clientId: url(), redirectUri: REDIRECT, scope });
    expect((await asks('agents:read')).headers['location']).toContain('code=');
    expect((await asks('sessions:write')).headers['location']).toContain('error=invalid_scope');
  });
});

describe('A document is refused', () => {
  it.each([
    ['that names another client_id', { client_id: 'https://client.example/other.json' }, /names another client_id/],
    ['without a client_id', { client_id: undefined }, /malformed/],
    ['without redirect URIs', { redirect_uris: undefined }, /malformed/],
    ['with no usable redirect URI', { redirect_uris: ['myapp:/cb', 'http://app.example/'] }, /no redirect URI/],
    ['of a client with a secret', { token_endpoint_auth_method: 'client_secret_basic' }, /secret or a key/],
    ['of a client with a key', { token_endpoint_auth_method: 'private_key_jwt' }, /secret or a key/],
    ['that holds a secret', { client_secret: 's' }, /secret or a key/],
    ['for another grant', { grant_types: ['client_credentials'] }, /does not use authorization codes/],
    ['with unknown scopes alone', { scope: 'openid profile' }, /knows none of the scopes/],
    ['with a number for a name', { client_name: 7 }, /malformed/],
  ])('%s', async (_what, changes, sentence) => {
    await open();
    answer = (_incoming, reply) => send(reply, document(changes));
    await mustBeRefused(url(), sentence);
  });

  it.each<[string, (incoming: IncomingMessage, reply: ServerResponse) => void]>([
    ['text that is not JSON', (_incoming, reply) => send(reply, '{')],
    ['a list', (_incoming, reply) => send(reply, [])],
    ['null', (_incoming, reply) => send(reply, 'null')],
  ])('with %s', async (_what, respond) => {
    await open();
    answer = respond;
    await mustBeRefused(url(), /malformed/);
  });

  it.each<[string, (incoming: IncomingMessage, reply: ServerResponse) => void]>([
    ['not found', (_incoming, reply) => reply.writeHead(404, { 'content-type': 'application/json' }).end('{}')],
    ['a page', (_incoming, reply) => send(reply, document(), { 'content-type': 'text/html' })],
    ['without a type', (_incoming, reply) => reply.writeHead(200).end(JSON.stringify(document()))],
    ['encoded', (_incoming, reply) => send(reply, document(), { 'content-encoding': 'gzip' })],
    ['larger than 5 KB', (_incoming, reply) => send(reply, document({ client_uri: 'x'.repeat(5 * 1024) }))],
    [
      'larger than 5 KB and endless',
      (_incoming, reply) => {
        reply.writeHead(200, { 'content-type': 'application/json' });
        const write = (): void => void (reply.writable && reply.write(' '.repeat(1024), () => setImmediate(write)));
        write();
      },
    ],
    [
      'cut off',
      (_incoming, reply) => reply.writeHead(200, { 'content-length': '100' }).write('{', () => reply.destroy()),
    ],
    ['with endless headers', (_incoming, reply) => send(reply, document(), { 'x-long': 'x'.repeat(10_000) })],
  ])('that is %s', async (_what, respond) => {
    await open();
    answer = respond;
    await mustBeRefused(url(), UNREACHABLE);
  });

  it('behind a redirect, which is never followed', async () => {
    await open();
    answer = (incoming, reply) => {
      if (incoming.url === '/app.json') reply.writeHead(302, { location: url('/real.json') }).end();
      else send(reply, document());
    };
    await mustBeRefused(url(), UNREACHABLE);
    expect(asked).toEqual(['/app.json']);
  });

  it('of a server without a valid certificate', async () => {
    await open({ ca: readFileSync(createAuthority(await mkdtemp(join(folder, 'other-'))).file, 'utf8') });
    await mustBeRefused(url(), UNREACHABLE);
    expect(asked).toEqual([]);
  });

  it('of a server that does not answer within three seconds', async () => {
    const clock = createTestClock();
    desk = await openDesk({ outsideNetwork: hereOnly(), clock });
    for (const stall of [
      () => {},
      (_incoming: IncomingMessage, reply: ServerResponse) =>
        void reply.writeHead(200, { 'content-type': 'application/json' }).write('{'),
    ]) {
      asked = [];
      answer = stall;
      const refused = mustBeRefused(url(), UNREACHABLE);
      await until('the client’s server is asked', async () => asked.length > 0);
      clock.advance(3_000);
      await refused;
    }
  });

  it('of a name that the DNS does not answer for', async () => {
    const clock = createTestClock();
    let isAsked = false;
    const resolve: OutsideNetwork['resolve'] = (_hostname, signal) =>
      new Promise((_resolve, reject) => {
        isAsked = true;
        signal.addEventListener('abort', () => reject(new Error('cancelled')));
      });
    desk = await openDesk({ outsideNetwork: { ...hereOnly(), resolve }, clock });
    const refused = mustBeRefused(url(), UNREACHABLE);
    await until('the DNS is asked', async () => isAsked);
    clock.advance(3_000);
    await refused;
  });
});

describe('Only the public internet is asked for documents', () => {
  it.each([
    '127.0.0.1',
    '10.0.0.1',
    '100.64.0.1',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '0.0.0.0',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::1',
    '::',
    'fe80::1',
    'fd00::1',
    'ff02::1',
    '::ffff:127.0.0.1',
    '::ffff:8.8.8.8',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001:db8::1',
    '2001::1',
    '3fff::1',
    'not an address',
    '',
  ])('%s is not part of it', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  it.each([
    '8.8.8.8',
    '1.1.1.1',
    '172.15.0.1',
    '172.32.0.1',
    '100.128.0.1',
    '2606:4700:4700::1111',
    '2001:4860:4860::8888',
  ])('%s is part of it', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it('a name that resolves to a private address, even among others, is not asked', async () => {
    for (const addresses of [['127.0.0.1'], ['::1'], ['8.8.8.8', '127.0.0.1'], ['::ffff:127.0.0.1'], []]) {
      await open({ resolve: async () => addresses, isAllowed: PUBLIC_INTERNET.isAllowed });
      await mustBeRefused(url(), UNREACHABLE);
      await desk.stop();
    }
    expect(connections).toBe(0);
    await open();
  });

  it('the connection goes to the checked address, even if the name resolves differently a moment later', async () => {
    let count = 0;
    await open({
      resolve: async () => {
        count += 1;
        return count === 1 ? ['127.0.0.1'] : ['127.0.0.2'];
      },
    });
    expect((await show()).status).toBe(200);
    expect([count, connections]).toEqual([1, 1]);
  });

  it.each([
    ['http', 'http://client.example/app.json'],
    ['no path', 'https://client.example/'],
    ['no path and no slash', 'https://client.example'],
    ['a fragment', 'https://client.example/app.json#x'],
    ['an empty fragment', 'https://client.example/app.json#'],
    ['user information', 'https://user@client.example/app.json'],
    ['a dot segment', 'https://client.example/../app.json'],
    ['an escaped dot segment', 'https://client.example/%2e%2e/app.json'],
    ['capitals in the host', 'https://Client.example/app.json'],
    ['the default port', 'https://client.example:443/app.json'],
    ['an IPv4 address', 'https://127.0.0.1/app.json'],
    ['an IPv4 address as a number', 'https://2130706433/app.json'],
    ['an IPv6 address', 'https://[::1]/app.json'],
    ['a name without a dot', 'https://localhost/app.json'],
    ['a trailing dot', 'https://client.example./app.json'],
    ['600 characters', `https://client.example/${'a'.repeat(600)}`],
  ])('a client id with %s is not the URL of a document', (_what, clientId) => {
    expect(isDocumentUrl(clientId)).toBe(false);
  });

  it('a running asp serve never asks this machine, no matter what its environment says', async () => {
    await open();
    const home = createHome({ NODE_EXTRA_CA_CERTS: authority.file, NODE_TLS_REJECT_UNAUTHORIZED: '0' });
    try {
      const program = home.start(['serve', '--port', '0', '--data', 'memory', '--json']);
      const [, serviceUrl] = await program.until('stdout', /"url":"([^"]+)\/v1"/);
      for (const host of ['localhost', '127.0.0.1', '[::1]', 'localhost.localdomain']) {
        const query = new URLSearchParams({ client_id: url('/app.json', host), redirect_uri: REDIRECT });
        const page = await request(`${serviceUrl}/oauth/authorize?${query}`);
        expect([host, page.status]).toEqual([host, 400]);
      }
    } finally {
      await home.dispose();
    }
    expect(connections).toBe(0);
  });
});

describe('Documents are cached within bounds', () => {
  const wait = (seconds: number): void => desk.clock.advance(seconds * 1000);

  it.each([
    [undefined, 3600],
    ['max-age=600', 600],
    ['max-age=1', 60],
    ['no-store', 60],
    ['public, max-age=99999999', 86_400],
  ])('with Cache-Control %s for %d seconds', async (cacheControl, seconds) => {
    await open();
    answer = (_incoming, reply) =>
      send(reply, document(), cacheControl === undefined ? {} : { 'cache-control': cacheControl });
    await show();
    wait(seconds - 1);
    expect((await show()).status).toBe(200);
    expect(asked).toHaveLength(1);
    wait(1);
    await show();
    expect(asked).toHaveLength(2);
  });

  it('many requests at once ask once', async () => {
    await open();
    const pages = await Promise.all(Array.from({ length: 20 }, () => show()));
    expect(new Set(pages.map(({ status }) => status))).toEqual(new Set([200]));
    expect(asked).toHaveLength(1);
  });

  it('a failure is not kept, and a change of the document counts once it is fetched again', async () => {
    await open();
    answer = (_incoming, reply) => reply.writeHead(500).end();
    expect((await show()).status).toBe(400);
    answer = (_incoming, reply) => send(reply, document());
    expect((await show()).status).toBe(200);
    const moved = 'https://app.example/moved';
    answer = (_incoming, reply) => send(reply, document({ redirect_uris: [moved] }));
    wait(3600);
    expect((await show(url(), REDIRECT)).status).toBe(400);
    expect((await show(url(), moved)).status).toBe(200);
  });

  it('one network may cause 60 fetches an hour, and cached documents cost nothing', async () => {
    await open({}, true);
    await show();
    answer = (_incoming, reply) => reply.writeHead(404).end();
    for (let count = 1; count < 60; count += 1) expect((await show(url(`/${count}.json`))).status).toBe(400);
    const refused = await show(url('/one-more.json'));
    expect(refused.status).toBe(429);
    expect((await show()).status).toBe(200);
    wait(Number(refused.headers['retry-after']));
    expect((await show(url('/one-more.json'))).status).toBe(400);
  });
});

describe('Apps that no one approved, with their documents', () => {
  const MAX = 10_000;
  let stage: Stage;
  beforeEach(async () => {
    await open();
    stage = await openStage();
  });
  afterEach(() => stage.close());

  const caller = { network: undefined, admit: async () => {} };
  const isStored = async () => (await stage.read((query) => findOAuthClient(query, url()))) !== undefined;

  it('are 10,000 at most, like those that register: then new ones are refused, but not the known ones', async () => {
    const documents = createClientDocuments(stage.context, hereOnly());
    await addUnusedClients(stage, MAX - 1);
    await documents.learn(url(), caller);
    answer = (_incoming, reply) => send(reply, document({ client_id: url('/new.json') }));
    await expect(documents.learn(url('/new.json'), caller)).rejects.toMatchObject({ status: 429 });
    answer = (_incoming, reply) => send(reply, document());
    await createClientDocuments(stage.context, hereOnly()).learn(url(), caller);
    expect(await isStored()).toBe(true);
  });

  it('are fetched again if they were deleted to make room', async () => {
    const documents = createClientDocuments(stage.context, hereOnly());
    answer = (_incoming, reply) => send(reply, document(), { 'cache-control': 'max-age=86400' });
    await documents.learn(url(), caller);
    stage.clock.advance(2 * 3_600_000);
    await addUnusedClients(stage, MAX);
    await stage.write((transaction) => makeRoom(transaction, stage.clock.now()));
    expect(await isStored()).toBe(false);
    stage.clock.advance(2 * 3_600_000);
    await documents.learn(url(), caller);
    expect(await isStored()).toBe(true);
  });
});

describe('Servers that do not answer leave room for other apps', () => {
  type ByIndex = (index: number) => string;
  let clock: TestClock;
  let waiting: number;
  let pages: Promise<Answer>[];
  /** Names that begin with `slow` do not resolve until the three seconds are over. */
  const resolve: OutsideNetwork['resolve'] = (hostname, signal) => {
    if (!hostname.startsWith('slow')) return hereOnly().resolve(hostname, signal);
    waiting += 1;
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('cancelled'))));
  };
  beforeEach(async () => {
    waiting = 0;
    pages = [];
    clock = createTestClock();
    const outsideNetwork = { ...hereOnly(), resolve };
    desk = await openDesk({ outsideNetwork, clock, areLimitsOn: true, isBehindProxy: true });
  });
  const showTo = (address: string, clientId?: string): Promise<Answer> =>
    request(authorizeUrl(clientId), { headers: { 'x-forwarded-for': address } });
  /** Asks for documents of slow servers and returns how many callers were refused at once; the others wait. */
  const countRefused = async (
    count: number,
    { host = (index) => `slow${index}.example`, address }: { host?: ByIndex; address: ByIndex },
  ): Promise<number> => {
    let refused = 0;
    for (let index = 0; index < count; index += 1) {
      const page = showTo(address(index), url(`/${index}.json`, host(index)));
      pages.push(page);
      void page.then(({ status }) => {
        if (status === 429) refused += 1;
      });
    }
    await until('each is refused or waits', async () => waiting + refused === count);
    return refused;
  };
  const endAll = async (): Promise<void> => {
    clock.advance(3_000);
    for (const { status, headers } of await Promise.all(pages))
      expect([status, headers['retry-after']]).toEqual(status === 429 ? [429, '1'] : [400, undefined]);
  };

  it('one caller has four documents fetched at once, and what is refused does not use up its hour', async () => {
    const caller = '203.0.113.7';
    expect(await countRefused(70, { address: () => caller })).toBe(66);
    expect((await showTo(caller)).status).toBe(429);
    expect((await showTo('203.0.113.8')).status).toBe(200);
    await endAll();
    expect((await showTo(caller, url('/other.json'))).status).toBe(400);
    expect((await showTo(caller)).status).toBe(200);
  });

  it('addresses of one IPv6 /48 count as one caller', async () => {
    expect(await countRefused(6, { address: (index) => `2001:db8:7:${index}::1` })).toBe(2);
    expect((await showTo('2001:db8:8::1')).status).toBe(200);
    await endAll();
  });

  it('one host is asked for eight documents at once, no matter who asks', async () => {
    const address = (index: number): string => `203.0.113.${index}`;
    expect(await countRefused(10, { host: () => 'slow.example', address })).toBe(2);
    expect((await showTo('203.0.113.99')).status).toBe(200);
    await endAll();
  });

  it('64 documents are fetched at once', async () => {
    expect(await countRefused(64, { address: (index) => `203.0.113.${index}` })).toBe(0);
    // A separate connection, because the other 64 are waiting.
    const refused = await fetch(authorizeUrl(), { headers: { 'x-forwarded-for': '203.0.113.99' } });
    expect(refused.status).toBe(429);
    await endAll();
    expect((await showTo('203.0.113.99')).status).toBe(200);
  });
});
