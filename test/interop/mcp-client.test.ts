import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { auth, extractWWWAuthenticateParams, type OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/sdk/shared/auth.js';
import type { Browser } from 'playwright-core';
import { afterAll, describe, expect, it } from 'vitest';

import { missing } from '../acceptance/program.js';
import { useService } from '../conformance/service.js';
import { callApi } from '../support/actors.js';
import { mustDeny } from '../support/answers.js';
import { newPerson } from '../support/browser.js';
import { createAuthority } from '../support/certificates.js';
import { launchChromium, noChromium } from '../support/chromium.js';
import { claimsOf, type Place } from '../support/oauth.js';
import { startTestService } from '../support/service.js';
import { type Approval, approve, freeRedirectUri, mustTalk } from './stage.js';

const service = useService();

/** The provider that the MCP SDK requires of a client. It stores what it gets and sends the person to the page. */
class MemoryProvider implements OAuthClientProvider {
  readonly redirectUrl: string;
  readonly clientMetadataUrl?: string;
  validateResourceURL?: () => Promise<URL>;
  sentTo: URL | undefined;
  #client: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';

  constructor(redirectUrl: string, clientMetadataUrl?: string) {
    this.redirectUrl = redirectUrl;
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl;
  }
  get clientMetadata() {
    return { client_name: 'An MCP client', redirect_uris: [this.redirectUrl], token_endpoint_auth_method: 'none' };
  }
  clientInformation = () => this.#client;
  saveClientInformation = (client: OAuthClientInformationMixed): void => {
    this.#client = client;
  };
  tokens = () => this.#tokens;
  saveTokens = (tokens: OAuthTokens): void => {
    this.#tokens = tokens;
  };
  redirectToAuthorization = (url: URL): void => {
    this.sentTo = url;
  };
  saveCodeVerifier = (verifier: string): void => {
    this.#verifier = verifier;
  };
  codeVerifier = () => this.#verifier;
}

/** Runs the whole flow as the SDK’s transports do: a refused call, discovery, a client, the page, a code, tokens. */
async function signIn(place: Place, provider: MemoryProvider): Promise<Approval> {
  const refused = await fetch(`${place.baseUrl}/agents/me`);
  const { resourceMetadataUrl } = extractWWWAuthenticateParams(refused);
  if (resourceMetadataUrl === undefined) throw new Error('the refusal does not say where the metadata is');
  const options = { serverUrl: place.baseUrl, resourceMetadataUrl };
  expect(await auth(provider, options)).toBe('REDIRECT');
  const approval = await approve(provider.sentTo ?? '');
  await finish(place, provider, approval.callback);
  return approval;
}

async function finish(place: Place, provider: MemoryProvider, callback: URL): Promise<void> {
  const authorizationCode = callback.searchParams.get('code') ?? '';
  expect(await auth(provider, { serverUrl: place.baseUrl, authorizationCode })).toBe('AUTHORIZED');
}

/** The SDK binds its tokens to one resource, so the socket requires a second sign-in of the same person. */
async function socketToken(place: Place, approval: Approval): Promise<string> {
  const provider = new MemoryProvider(await freeRedirectUri());
  provider.validateResourceURL = async () => new URL(place.wsUrl);
  expect(await auth(provider, { serverUrl: place.baseUrl })).toBe('REDIRECT');
  await finish(place, provider, await approval.again(provider.sentTo ?? ''));
  return provider.tokens()?.access_token ?? '';
}

describe('The MCP SDK’s client', () => {
  it('registers and signs in with only the address of the REST API, refreshes, and gets events', async () => {
    const provider = new MemoryProvider(await freeRedirectUri('localhost'));
    const approval = await signIn(service.place, provider);
    expect(provider.clientInformation()?.client_id).toMatch(/^oac_/);
    const first = provider.tokens();
    expect(first?.scope?.split(' ')).toContain('realtime:read');
    expect(await auth(provider, { serverUrl: service.place.baseUrl })).toBe('AUTHORIZED');
    const rest = provider.tokens()?.access_token ?? '';
    expect(rest).not.toBe(first?.access_token);
    await mustTalk(service.place, approval.handle, { rest, socket: await socketToken(service.place, approval) });
  });

  it('gets a token by client credentials', async () => {
    const alice = await service.actor('alice');
    const provider = new ClientCredentialsProvider({ ...alice.credentials, expectedIssuer: service.place.issuer });
    expect(await auth(provider, { serverUrl: service.place.baseUrl })).toBe('AUTHORIZED');
    const rest = provider.tokens()?.access_token ?? '';
    await mustTalk(service.place, alice.handle, { rest, socket: await alice.token('ws') });
  });

  const noOpenssl = missing('openssl');
  it.skipIf(noOpenssl !== undefined)(
    `signs in by the URL of its metadata document, without registering ${noOpenssl ?? ''}`,
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'asp-mcp-'));
      const authority = createAuthority(folder);
      const redirectUri = await freeRedirectUri('localhost');
      const { server, url } = await publishDocument(authority.issue('client.example'), redirectUri);
      const inProcess = await startTestService({
        outsideNetwork: {
          resolve: async () => ['127.0.0.1'],
          isAllowed: (address) => address === '127.0.0.1',
          ca: readFileSync(authority.file, 'utf8'),
        },
      });
      try {
        const provider = new MemoryProvider(redirectUri, url);
        const approval = await signIn(inProcess.place, provider);
        expect(provider.clientInformation()?.client_id).toBe(url);
        expect(await auth(provider, { serverUrl: inProcess.place.baseUrl })).toBe('AUTHORIZED');
        const rest = provider.tokens()?.access_token ?? '';
        const socket = await socketToken(inProcess.place, approval);
        await mustTalk(inProcess.place, approval.handle, { rest, socket });
      } finally {
        await inProcess.stop();
        await new Promise((resolve) => server.close(resolve));
        await rm(folder, { recursive: true, force: true });
      }
    },
  );
});

/** A client at the address of the tools that has not signed in yet. */
interface Host {
  connect(): Promise<void>;
  finishAuth(callback: URL): Promise<void>;
  call(name: string, given: Record<string, unknown>): Promise<Readonly<Record<string, unknown>>>;
  close(): Promise<void>;
}

const HOSTS: Readonly<Record<string, (url: URL, authProvider: MemoryProvider) => Host>> = {
  'the SDK of revision 2026-07-28'(url, authProvider) {
    const client = new Client({ name: 'test', version: '2' }, { versionNegotiation: { mode: 'auto' } });
    const transport = new StreamableHTTPClientTransport(url, { authProvider });
    return {
      connect: () => client.connect(transport),
      finishAuth: ({ searchParams }) => transport.finishAuth(searchParams),
      call: (name, given) => client.callTool({ name, arguments: given }),
      close: () => client.close(),
    };
  },
  'the SDK before it'(url, authProvider) {
    const client = new FirstClient({ name: 'test', version: '1' });
    const transport = new FirstTransport(url, { authProvider });
    return {
      connect: () => client.connect(transport),
      finishAuth: ({ searchParams }) => transport.finishAuth(searchParams.get('code') ?? ''),
      call: (name, given) => client.callTool({ name, arguments: given }),
      close: () => client.close(),
    };
  },
};

const IN_CHROMIUM = `An MCP host that knows only the URL of the tools, in Chromium ${noChromium ?? ''}`;

describe.skipIf(noChromium !== undefined)(IN_CHROMIUM, () => {
  let browser: Browser | undefined;
  afterAll(() => browser?.close());

  /** Opens the host’s link as a person who has no account yet, and follows the pages to the redirect. */
  async function approveInChromium(authorizationUrl: URL): Promise<{ callback: URL; handle: string }> {
    browser = await launchChromium();
    const { username, password, handle } = newPerson('person');
    const page = await browser.newPage();
    await page.goto(authorizationUrl.href);
    const signUp = page.getByRole('form', { name: 'Create an account', includeHidden: true });
    if (!(await signUp.isVisible())) await page.getByText('New here? Create an account').click();
    await signUp.locator('[name=username]').fill(username);
    await signUp.locator('[name=display_name]').fill(username);
    await signUp.locator('[name=password]').fill(password);
    await signUp.getByRole('button', { name: 'Create account' }).click();
    await page.locator('[name=agent_name]').fill(handle.replace(/^.*\./, ''));
    expect(await page.getByRole('main').innerText()).toContain('An MCP client');
    const redirectUri = authorizationUrl.searchParams.get('redirect_uri') ?? '';
    const sentBack = page.waitForRequest((request) => request.url().startsWith(redirectUri));
    await page.getByRole('button', { name: 'Allow', exact: true }).click();
    return { callback: new URL((await sentBack).url()), handle };
  }

  it.each(Object.keys(HOSTS))('signs a person in, acts as their agent and renews its token: %s', async (name) => {
    const open = HOSTS[name];
    if (open === undefined) throw new Error(name);
    const { place } = service;
    const url = new URL('/mcp', place.issuer);
    const provider = new MemoryProvider(await freeRedirectUri('localhost'));
    const stranger = open(url, provider);
    await expect(stranger.connect()).rejects.toThrow(/unauthori[sz]ed/i);
    expect(provider.sentTo?.searchParams.get('resource')).toBe(url.href);
    expect(provider.sentTo?.searchParams.get('scope')).toBe('agents:read sessions:read sessions:write');
    if (provider.sentTo === undefined) throw new Error('the host sent no one to the sign-in page');
    const { callback, handle } = await approveInChromium(provider.sentTo);
    await stranger.finishAuth(callback);
    await stranger.close();
    const host = open(url, provider);
    await host.connect();
    expect(await host.call('whoami', {})).toMatchObject({ structuredContent: { handle } });
    const first = provider.tokens()?.access_token ?? '';
    expect(claimsOf(first)).toMatchObject({ aud: url.href });
    // The consent was for the tools, so the REST API refuses the token.
    mustDeny(await callApi(place.baseUrl, first, 'GET', '/agents/me'), 401, 'UNAUTHORIZED');
    provider.saveTokens({ ...provider.tokens(), access_token: 'expired', token_type: 'Bearer' });
    const alice = await service.actor('alice');
    const sent = await host.call('send', { to: alice.handle, text: 'hello' });
    expect(sent).toMatchObject({ structuredContent: { session_id: expect.stringMatching(/^sess_/) } });
    expect(provider.tokens()?.access_token).not.toBe('expired');
    await host.close();
  });
});

async function publishDocument(
  { certificate, key }: { readonly certificate: string; readonly key: string },
  redirectUri: string,
): Promise<{ server: Server; url: string }> {
  let url = '';
  const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (_request, reply) => {
    reply.setHeader('content-type', 'application/json');
    reply.end(JSON.stringify({ client_id: url, client_name: 'An MCP client', redirect_uris: [redirectUri] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `https://client.example:${(server.address() as AddressInfo).port}/mcp.json`;
  return { server, url };
}
