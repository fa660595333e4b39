import Fastify from 'fastify';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ServiceContext } from '../../../src/service/core/context.js';
import { createMemoryLimits } from '../../../src/service/core/rate-limits.js';
import { createOtherMethods } from '../../../src/service/http/answers.js';
import { openSigningKeys, type SigningKeys } from '../../../src/service/oauth/access-tokens.js';
import { createConfidentialClient, revokeConfidentialClient } from '../../../src/service/oauth/clients.js';
import { createSignInLinks } from '../../../src/service/oauth/server.js';
import { createFamilyId, startFamily } from '../../../src/service/oauth/token.js';
import { findOAuthClient } from '../../../src/service/store/oauth-clients.js';
import { insertShareLink } from '../../../src/service/store/share-links.js';
import { createPageTurns } from '../../../src/service/web/api-scope.js';
import { registerAuthorizationServer, sweep } from '../../../src/service/web/authorization-server.js';
import { createTestClock } from '../../support/clock.js';
import { request } from '../../support/http.js';
import { field, text } from '../../support/json.js';
import { authorizationUrl, createVerifier, mustRegister, redeemCode, refresh, revoke } from '../../support/oauth.js';
import { until } from '../../support/until.js';
import { createHandClock, openStage } from '../sessions/stage.js';
import { type Desk, openDesk, openDeskWithClient } from './desk.js';
import { addUnusedClients } from './unused-clients.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

type Stage = Awaited<ReturnType<typeof openStage>>;

/** Opens an app with only the authorization server. */
async function openApp(context: ServiceContext, keys: SigningKeys) {
  const app = Fastify();
  const options = { keys, localSecret: 'secret', signInLinks: createSignInLinks(context) };
  registerAuthorizationServer({ fastify: app, otherMethods: createOtherMethods() }, context, options);
  await app.ready();
  return app;
}

describe('What the authorization server forgets', () => {
  let stage: Stage;
  beforeEach(async () => {
    stage = await openStage();
  });
  afterEach(() => stage.close());

  const register = async (context: ServiceContext, keys: SigningKeys): Promise<string> => {
    const app = await openApp(context, keys);
    const answer = await app.inject({
      method: 'POST',
      url: '/register',
      headers: { 'content-type': 'application/json' },
      payload: { redirect_uris: ['https://app.example/'] },
    });
    await app.close();
    return text(answer.json(), 'client_id');
  };
  const count = (table: string) =>
    stage.read(async (query) => (await query.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`))?.n);

  it('only registrations that were unused for 30 days', async () => {
    const keys = await openSigningKeys(stage.context);
    await register(stage.context, keys);
    const account = await stage.addAccount('alice');
    const { agentId } = await stage.addAgent(account, 'bot');
    await stage.write((transaction) =>
      createConfidentialClient(stage.context, transaction, {
        name: 'ci',
        accountId: account.id,
        agentId,
        scopes: ['sessions:read'],
      }),
    );
    stage.clock.advance(30 * DAY_MS);
    await sweep(stage.context);
    expect(await count('oauth_client')).toBe(2);
    stage.clock.advance(1);
    await sweep(stage.context);
    expect(await count('oauth_client')).toBe(1);
  });

  it('no client that was approved: it works for as long as it is used', async () => {
    const clock = createTestClock();
    const desk = await openDeskWithClient({ clock });
    const { place, clientId } = desk;
    const unused = await mustRegister(place);
    const { refreshToken } = await desk.login(clientId);
    clock.advance(20 * DAY_MS);
    const rotated = await refresh(place, clientId, refreshToken);
    clock.advance(20 * DAY_MS);
    const isForgotten = async () => (await redeemCode(place, unused, 'x', createVerifier().verifier)).status === 401;
    await until('the other client is forgotten', isForgotten);
    expect((await refresh(place, clientId, text(rotated.json, 'refresh_token'))).status).toBe(200);
    await desk.stop();
  });

  it('links to sessions when they end', async () => {
    const account = await stage.addAccount('alice');
    const now = stage.clock.now();
    await stage.write((transaction) =>
      insertShareLink(transaction, {
        ...{ id: 'a', secret_hash: 'b', account_id: account.id, session_id: 'c' },
        ...{ through_sequence: 1, last_sequence: 1, created_at: now, expires_at: now + DAY_MS, view_handle: null },
      }),
    );
    const left: unknown[] = [];
    for (const ms of [DAY_MS - 1, 1]) {
      stage.clock.advance(ms);
      await sweep(stage.context);
      left.push(await count('share_link'));
    }
    expect(left).toEqual([1, 0]);
  });

  it('unused registrations in pages', async () => {
    await addUnusedClients(stage, 1_234);
    stage.clock.advance(30 * DAY_MS + 1);
    const write = vi.spyOn(stage.context.database, 'write');
    await sweep(stage.context);
    expect(await count('oauth_client')).toBe(0);
    expect(write).toHaveBeenCalledTimes(4);
  });

  it('unused registrations beyond 10,000, but none of the last hour: then it refuses new ones', async () => {
    const app = await openApp(stage.context, await openSigningKeys(stage.context));
    const ask = () =>
      app.inject({
        method: 'POST',
        url: '/register',
        headers: { 'content-type': 'application/json' },
        payload: { redirect_uris: ['https://app.example/'] },
      });
    await addUnusedClients(stage, 9_999);
    stage.clock.advance(30 * 60_000);
    const last = await ask();
    expect(last.statusCode).toBe(201);
    const refused = await ask();
    expect([refused.statusCode, field(refused.json(), 'error')]).toEqual([429, 'temporarily_unavailable']);
    expect(refused.headers['retry-after']).toBe('1800');
    stage.clock.advance(30 * 60_000 + 1);
    expect((await ask()).statusCode).toBe(201);
    expect(await count('oauth_client')).toBe(9_901);
    const kept = await stage.read((query) => findOAuthClient(query, text(last.json(), 'client_id')));
    expect(kept).toBeDefined();
    await app.close();
  });

  it('a revoked client, which gets no more tokens and whose sockets are marked to close', async () => {
    const keys = await openSigningKeys(stage.context);
    const account = await stage.addAccount('alice');
    const { agentId } = await stage.addAgent(account, 'bot');
    const { clientId, clientSecret } = await stage.write((transaction) =>
      createConfidentialClient(stage.context, transaction, {
        name: 'ci',
        accountId: account.id,
        agentId,
        scopes: ['sessions:read'],
      }),
    );
    const app = await openApp(stage.context, keys);
    const ask = () =>
      app.inject({
        method: 'POST',
        url: '/token',
        headers: FORM,
        payload: new URLSearchParams({
          grant_type: 'client_credentials',
          client_id: clientId,
          client_secret: clientSecret,
          resource: 'http://h/v1',
        }).toString(),
      });
    expect((await ask()).statusCode).toBe(200);
    const isRevoked = await stage.write((transaction) =>
      revokeConfidentialClient(stage.context, transaction, clientId),
    );
    expect(isRevoked).toBe(true);
    expect(stage.signals).toContainEqual({ kind: 'revoked', grantId: clientId });
    const refused = await ask();
    expect([refused.statusCode, field(refused.json(), 'error')]).toEqual([401, 'invalid_client']);
    await app.close();
  });
});

describe('Limits › Token issuance', () => {
  it('120 per minute for a client, from any address; a refused refresh rotates nothing', async () => {
    const clock = createHandClock();
    const stage = await openStage({ limits: createMemoryLimits(clock) });
    const app = await openApp(stage.context, await openSigningKeys(stage.context));
    const account = await stage.addAccount('alice');
    const { agentId } = await stage.addAgent(account, 'bot');
    const { clientId, clientSecret } = await stage.write((transaction) =>
      createConfidentialClient(stage.context, transaction, {
        name: 'ci',
        accountId: account.id,
        agentId,
        scopes: ['sessions:read'],
      }),
    );
    const ask = async (fields: Record<string, string>, remoteAddress: string) =>
      app.inject({
        method: 'POST',
        url: '/token',
        headers: FORM,
        remoteAddress,
        payload: new URLSearchParams({
          client_id: clientId,
          client_secret: clientSecret,
          resource: 'http://h/v1',
          ...fields,
        }).toString(),
      });
    const refreshToken = await stage.write((transaction) =>
      startFamily(stage.context, transaction, createFamilyId(stage.context), {
        client_id: clientId,
        account_id: account.id,
        agent_id: agentId,
        scope: 'sessions:read',
        resources: '{"allowed":["http://h/v1"],"usual":["http://h/v1"]}',
        last_network: null,
        last_program: null,
      }),
    );
    for (let index = 0; index < 120; index += 1) {
      const answer = await ask({ grant_type: 'client_credentials' }, `10.0.0.${index % 4}`);
      expect(answer.statusCode).toBe(200);
    }
    const refused = await ask({ grant_type: 'refresh_token', refresh_token: refreshToken }, '10.0.1.1');
    expect([refused.statusCode, field(refused.json(), 'error')]).toEqual([429, 'temporarily_unavailable']);
    clock.advance(Number(refused.headers['retry-after']) * 1000);
    const granted = await ask({ grant_type: 'refresh_token', refresh_token: refreshToken }, '10.0.1.1');
    expect(granted.statusCode).toBe(200);
    await app.close();
    await stage.close();
  });
});

describe('A store that fails', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage();
  });
  afterAll(() => stage.close());

  it('/revoke, /token and /register answer 500 in the shape of RFC 6749, never 200 (RFC 7009 §2.2.1)', async () => {
    const keys = await openSigningKeys(stage.context);
    const broken = (): Promise<never> => Promise.reject(new Error('the disk is full'));
    const logged: string[] = [];
    const app = await openApp(
      {
        ...stage.context,
        database: { ...stage.context.database, read: broken, write: broken },
        log: { info: () => {}, warn: () => {}, error: (event) => logged.push(event) },
      },
      keys,
    );
    const token = new URLSearchParams({ grant_type: 'refresh_token', client_id: 'c', refresh_token: 't', token: 't' });
    for (const url of ['/revoke', '/token']) {
      const answer = await app.inject({ method: 'POST', url, headers: FORM, payload: token.toString() });
      expect([answer.statusCode, answer.json()]).toEqual([
        500,
        { error: 'server_error', error_description: 'The service failed. Try again.' },
      ]);
    }
    const page = await app.inject({ url: '/oauth/authorize?client_id=x' });
    expect(page.statusCode).toBe(500);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(page.body).not.toContain('disk');
    expect(logged).toContain('oauth_request_failed');
    await app.close();
  });
});

describe('The authorization server does not affect the rest of the service:', () => {
  it('its parsers, hooks and error answers stay within its own paths', async () => {
    const stage = await openStage();
    const app = Fastify();
    app.post('/elsewhere', async (incoming) => incoming.body);
    const keys = await openSigningKeys(stage.context);
    const signInLinks = createSignInLinks(stage.context);
    const options = { keys, localSecret: 's', signInLinks };
    registerAuthorizationServer({ fastify: app, otherMethods: createOtherMethods() }, stage.context, options);
    const answer = await app.inject({ method: 'POST', url: '/elsewhere', payload: { a: 1 } });
    expect(answer.json()).toEqual({ a: 1 });
    expect(answer.headers['pragma']).toBeUndefined();
    await app.close();
    await stage.close();
  });
});

describe('Pages that a crowd asks for at once', () => {
  it('begin 16 in each turn of the event loop until all have begun, and so do those of the next crowd', async () => {
    const takeTurn = createPageTurns();
    const turn = () => new Promise(setImmediate);
    for (let round = 0; round < 2; round += 1) {
      let begun = 0;
      const pages = Array.from({ length: 40 }, async () => {
        await takeTurn();
        begun += 1;
      });
      for (const most of [16, 32, 40]) {
        await Promise.resolve();
        expect(begun).toBe(most);
        await turn();
      }
      await Promise.all(pages);
      await turn();
    }
  });
});

describe('Limits besides the table of the specification', () => {
  let desk: Desk & { clientId: string };
  beforeAll(async () => {
    desk = await openDeskWithClient({ areLimitsOn: true });
  });
  afterAll(() => desk.stop());

  it('one address may leave 200 open authorization requests in ten minutes', async () => {
    const url = authorizationUrl(desk.place, { clientId: desk.clientId, challenge: createVerifier().challenge });
    for (let index = 0; index < 200; index += 1) expect((await request(url)).status).toBe(200);
    const refused = await request(url);
    expect(refused.status).toBe(429);
    expect(refused.headers['content-type']).toBe('text/html; charset=utf-8');
    desk.clock.advance(Number(refused.headers['retry-after']) * 1000);
    expect((await request(url)).status).toBe(200);
  });

  it('failing uses up the budget of the address that fails, not the client’s', async () => {
    const other = await openDesk({ areLimitsOn: true });
    try {
      const clientId = await mustRegister(other.place);
      for (let index = 0; index < 120; index += 1) {
        expect((await refresh(other.place, clientId, `guess-${index}`)).status).toBe(401);
      }
      expect((await refresh(other.place, clientId, 'guess')).status).toBe(429);
      expect((await revoke(other.place, clientId, 'guess')).status).toBe(200);
    } finally {
      await other.stop();
    }
  });

  it('unregistered clients share one count, because each invented id would otherwise add one', async () => {
    const other = await openDesk({ areLimitsOn: true });
    try {
      for (let index = 0; index < 120; index += 1) {
        expect((await refresh(other.place, `oac_${index}`, 'guess')).status).toBe(401);
      }
      expect((await refresh(other.place, 'oac_another', 'guess')).status).toBe(429);
      expect((await refresh(other.place, await mustRegister(other.place), 'guess')).status).toBe(401);
    } finally {
      await other.stop();
    }
  });
});
