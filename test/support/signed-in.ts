import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Login, LoginContext, LoginKey } from '../../src/client/credentials/login.js';
import { openLogins } from '../../src/client/credentials/open-logins.js';
import { obtainClientId } from '../../src/client/credentials/register-client.js';
import { toCached } from '../../src/client/credentials/token-cache.js';
import { createTransport } from '../../src/client/http/transport.js';
import { createAuthorizationRequest, readCallback } from '../../src/client/oauth/authorization-request.js';
import { discover } from '../../src/client/oauth/discover.js';
import { exchangeCode } from '../../src/client/oauth/token-endpoint.js';
import { systemClock } from '../../src/kit/clock.js';
import { systemRandom } from '../../src/kit/random.js';
import { AGENT_SCOPES } from '../../src/wire/scope.js';
import { request } from './http.js';
import type { TestService } from './service.js';

/** A place for logins that is removed after the test. */
export interface LoginPlace {
  readonly directory: string;
  readonly context: LoginContext;
  remove(): void;
}

/** Creates a place that keeps logins as files in a separate directory. */
export function createLoginPlace(overrides: Partial<LoginContext> = {}): LoginPlace {
  const directory = mkdtempSync(join(tmpdir(), 'asp-logins-'));
  const context: LoginContext = {
    transport: createTransport({ clock: systemClock }),
    random: systemRandom,
    kind: 'file',
    directories: { state: `${directory}/state`, runtime: `${directory}/run`, locks: `${directory}/locks` },
    platform: process.platform,
    environment: {},
    ...overrides,
  };
  return { directory, context, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/** Signs in as an agent of the service without a browser and stores the login, optionally with its access token. */
export async function signIn(
  service: TestService,
  context: LoginContext,
  handle: string,
  isTokenKept = false,
  isLocal = false,
): Promise<Login> {
  const { transport, random } = context;
  const key: LoginKey = { baseUrl: service.baseUrl, handle };
  const discovery = await discover({ transport, random }, { baseUrl: service.baseUrl });
  const clientId = await obtainClientId(context, discovery, { clientName: 'asp', scopes: AGENT_SCOPES });
  const redirectUri = 'http://127.0.0.1:49153/callback';
  const wish = { clientId, redirectUri, scopes: AGENT_SCOPES, agentHandle: handle };
  const asked = createAuthorizationRequest(discovery, wish, random);
  const headers = { authorization: `Bearer ${service.operatorSecret}` };
  const approved = await request(asked.url, { method: 'POST', headers });
  const callback = readCallback(asked, approved.headers['location'] ?? '');
  if (callback.kind !== 'code') throw new Error(`no code: ${approved.status} ${JSON.stringify(callback)}`);
  const tokens = await exchangeCode({ transport, random, discovery }, asked, callback, service.baseUrl);
  return openLogins(context).save({
    ...key,
    issuer: discovery.issuer,
    clientId,
    wsUrl: discovery.resources.ws ?? null,
    scopes: AGENT_SCOPES,
    agentId: null,
    accountId: null,
    isLocal,
    refreshToken: tokens.refreshToken ?? '',
    accessTokens: isTokenKept ? { api: toCached(tokens) } : {},
  });
}
