import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createTransport } from '../../../src/client/http/transport.js';
import { type Discovery, discover } from '../../../src/client/oauth/discover.js';
import { systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';
import { createHastyClock } from '../../support/hasty-clock.js';
import { type ScriptedServer, startScriptedServer } from '../../support/scripted-server.js';
import { createLoginPlace } from '../../support/signed-in.js';

let server: ScriptedServer;
const transport = createTransport({ clock: systemClock });

beforeEach(async () => {
  server = await startScriptedServer();
});
afterEach(() => server.finish());

const RESOURCE = '/v1/.well-known/oauth-protected-resource';
const SERVER = '/.well-known/oauth-authorization-server';
const baseUrl = (): string => `${server.origin}/v1`;
const resource = (overrides: object = {}) => ({
  method: 'GET',
  path: RESOURCE,
  body: { resource: baseUrl(), authorization_servers: [server.origin], ...overrides },
});
const metadata = (overrides: object = {}) => ({
  method: 'GET',
  path: SERVER,
  body: {
    issuer: server.origin,
    authorization_endpoint: `${server.origin}/oauth/authorize`,
    token_endpoint: `${server.origin}/token`,
    code_challenge_methods_supported: ['S256'],
    resource_servers: [{ resource: baseUrl() }, { resource: `${server.origin.replace('http', 'ws')}/connect` }],
    ...overrides,
  },
});
const find = (cacheDirectory?: string): Promise<Discovery> =>
  discover({ transport, random: systemRandom, cacheDirectory }, { baseUrl: baseUrl() });

describe('Authentication › Discovery', () => {
  it('goes from the base address to the authorization server and both resources', async () => {
    server.expect(resource(), metadata());
    expect(await find()).toMatchObject({
      issuer: server.origin,
      resources: { api: baseUrl(), ws: `${server.origin.replace('http', 'ws')}/connect` },
    });
  });

  it('is cached if there is a cache', async () => {
    const place = createLoginPlace();
    server.expect(resource(), metadata());
    expect(await find(place.directory)).toEqual(await find(place.directory));
    place.remove();
  });

  it('is retried like every request: after Retry-After, 5xx, and a broken connection', async () => {
    const clock = createHastyClock();
    const limited = { status: 429, headers: { 'retry-after': '7' }, body: '' };
    server.expect({ ...resource(), ...limited }, { ...resource(), fault: 'reset' }, resource());
    server.expect({ ...metadata(), status: 503, body: '' }, metadata());
    const context = { transport: createTransport({ clock }), random: systemRandom, retries: 2 };
    await expect(discover(context, { baseUrl: baseUrl() })).resolves.toMatchObject({ issuer: server.origin });
    expect(Math.max(...clock.waits)).toBeGreaterThanOrEqual(7000);
  });

  it('names what failed, and is ASP_DISCOVERY only if an answer was understood and wrong', async () => {
    const limited = { status: 429, headers: { 'retry-after': '7' }, body: '' };
    server.expect(resource(), { ...metadata(), ...limited });
    await expect(find()).rejects.toMatchObject({ code: 'RATE_LIMITED', status: 429, retryAfterMs: 7000 });
    server.expect({ ...resource(), status: 503, body: '' });
    await expect(find()).rejects.toMatchObject({ code: 'INTERNAL_ERROR', status: 503 });
    server.expect({ ...resource(), fault: 'reset' });
    await expect(find()).rejects.toMatchObject({ code: 'ASP_UNREACHABLE' });
    server.expect(resource({ resource: 'https://other.test/v1' }));
    await expect(find()).rejects.toMatchObject({ code: 'ASP_DISCOVERY' });
  });

  const refused: [title: string, scenes: () => object[]][] = [
    ['a base address that names itself differently', () => [resource({ resource: 'https://other.test/v1' })]],
    ['metadata of another issuer', () => [resource(), metadata({ issuer: 'https://evil.test' })]],
    ['a server without S256', () => [resource(), metadata({ code_challenge_methods_supported: ['plain'] })]],
    [
      'a server that says nothing of PKCE',
      () => [resource(), metadata({ code_challenge_methods_supported: undefined })],
    ],
    ['metadata that is larger than 256 KiB', () => [resource({ padding: 'x'.repeat(300_000) })]],
    ['a plain http token endpoint', () => [resource(), metadata({ token_endpoint: 'http://example.com/token' })]],
    [
      'an authorization endpoint that is no web address',
      () => [resource(), metadata({ authorization_endpoint: 'file:///x' })],
    ],
    ['a redirect to another host', () => [{ ...resource(), status: 302, headers: { location: 'https://evil.test/' } }]],
  ];
  for (const [title, scenes] of refused)
    it(`refuses ${title}`, async () => {
      server.expect(...(scenes() as Parameters<ScriptedServer['expect']>));
      await expect(find()).rejects.toMatchObject({ name: 'RequestError' });
    });
});
