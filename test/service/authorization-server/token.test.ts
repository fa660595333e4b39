import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operate } from '../../support/actors.js';
import { formBody, postForm, request } from '../../support/http.js';
import { field, text } from '../../support/json.js';
import {
  AGENT_SCOPE,
  askClientToken,
  type ClientCredentials,
  claimsOf,
  createVerifier,
  isOAuthError,
  mustRegister,
  redeemCode,
  refresh,
  register,
} from '../../support/oauth.js';
import { ALICE, type Desk, openDesk, openDeskWithClient } from './desk.js';

let desk: Desk & { clientId: string };
let robot: ClientCredentials;
beforeAll(async () => {
  desk = await openDeskWithClient();
  const { operatorUrl: url, operatorSecret: secret } = desk.service;
  const client = await operate({ url, secret }, 'POST', '/clients', { handle: ALICE });
  robot = { clientId: text(client, 'client_id'), clientSecret: text(client, 'client_secret') };
});
afterAll(() => desk.stop());

const ask = (fields: Record<string, string | readonly string[] | undefined>, headers?: Record<string, string>) =>
  postForm(desk.place.tokenUrl, fields, headers);

describe('POST /token', () => {
  it('answers an authorization code with a token that names the agent and its account', async () => {
    const { code, verifier } = await desk.authorize(desk.clientId);
    const answer = await redeemCode(desk.place, desk.clientId, code, verifier);
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({
      token_type: 'Bearer',
      expires_in: 900,
      scope: AGENT_SCOPE.join(' '),
      agent_handle: 'alice.bot',
    });
    expect(text(answer.json, 'refresh_token')).toMatch(/^asp_rt_[A-Za-z0-9_-]{43}$/);
    expect(answer.headers).toMatchObject({ 'cache-control': 'no-store' });
    expect(answer.setCookies).toEqual([]);
    const issuedAt = Math.floor(desk.clock.now() / 1000);
    expect(claimsOf(text(answer.json, 'access_token'))).toMatchObject({
      iss: desk.place.issuer,
      sub: expect.stringMatching(/^acct_/),
      agent_id: expect.stringMatching(/^agt_/),
      azp: desk.clientId,
      scope: AGENT_SCOPE.join(' '),
      aud: desk.place.baseUrl,
      iat: issuedAt,
      exp: issuedAt + 900,
      token_type: 'access',
    });
  });

  it('answers client credentials without a refresh token; sub is the account that owns the agent', async () => {
    const answer = await askClientToken(desk.place, robot, desk.place.baseUrl, 'sessions:read');
    expect(answer.json).toMatchObject({ expires_in: 900, scope: 'sessions:read', agent_handle: 'alice.bot' });
    expect(field(answer.json, 'refresh_token')).toBeUndefined();
    expect(claimsOf(text(answer.json, 'access_token'))).toMatchObject({
      azp: robot.clientId,
      sub: expect.stringMatching(/^acct_/),
    });
  });

  it('sets aud to a string for one resource and an array for several', async () => {
    const { baseUrl, wsUrl } = desk.place;
    const both = await askClientToken(desk.place, robot, [baseUrl, wsUrl]);
    expect(field(claimsOf(text(both.json, 'access_token')), 'aud')).toEqual([baseUrl, wsUrl]);
    const twice = await askClientToken(desk.place, robot, [wsUrl, wsUrl]);
    expect(field(claimsOf(text(twice.json, 'access_token')), 'aud')).toBe(wsUrl);
  });

  it('answers account scopes with a token that names no agent', async () => {
    const scope = 'account:read account:agents:read';
    const clientId = await mustRegister(desk.place, { scope });
    const { code, verifier } = await desk.authorize(clientId, { scope });
    const answer = await redeemCode(desk.place, clientId, code, verifier);
    expect(field(answer.json, 'agent_handle')).toBeUndefined();
    const claims = claimsOf(text(answer.json, 'access_token'));
    expect(field(claims, 'agent_id')).toBeUndefined();
    expect(field(claims, 'scope')).toBe(scope);
    const refreshed = await refresh(desk.place, clientId, text(answer.json, 'refresh_token'));
    expect(field(claimsOf(text(refreshed.json, 'access_token')), 'agent_id')).toBeUndefined();
  });

  it('reads only a form in the body', async () => {
    const fields = { grant_type: 'client_credentials', client_id: robot.clientId, client_secret: robot.clientSecret };
    const inQuery = await request(`${desk.place.tokenUrl}?${formBody({ ...fields, resource: desk.place.baseUrl })}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    expect([inQuery.status, field(inQuery.json, 'error')]).toEqual([400, 'invalid_request']);
    for (const type of ['application/json', 'multipart/form-data; boundary=x', 'text/plain']) {
      const answer = await request(desk.place.tokenUrl, {
        method: 'POST',
        headers: { 'content-type': type },
        body: JSON.stringify(fields),
      });
      expect([answer.status, field(answer.json, 'error')]).toEqual([415, 'invalid_request']);
    }
    const get = await request(desk.place.tokenUrl);
    expect([get.status, get.headers['allow']]).toEqual([405, 'POST']);
  });

  it.each([
    ['no grant_type', { grant_type: undefined }, 400, 'invalid_request'],
    ['an unknown grant_type', { grant_type: 'password' }, 400, 'unsupported_grant_type'],
    ['no client_id', { client_id: undefined }, 400, 'invalid_request'],
    ['an unknown client', { client_id: 'oac_01J00000000000000000000000' }, 401, 'invalid_client'],
    ['a wrong secret', { client_secret: 'asp_cs_wrong' }, 401, 'invalid_client'],
    ['no secret', { client_secret: undefined }, 401, 'invalid_client'],
    ['an unknown scope', { scope: 'sessions:delete' }, 403, 'invalid_scope'],
    ['a scope of accounts', { scope: 'account:read' }, 403, 'invalid_scope'],
    ['a tab in scope', { scope: 'sessions:read\tagents:read' }, 403, 'invalid_scope'],
    ['10 kB of scope', { scope: 'a'.repeat(10_000) }, 403, 'invalid_scope'],
    ['an unknown resource', { resource: 'https://elsewhere.example/v1' }, 400, 'invalid_target'],
  ])('refuses %s', async (_what, change, status, error) => {
    const answer = await ask({
      grant_type: 'client_credentials',
      client_id: robot.clientId,
      client_secret: robot.clientSecret,
      resource: desk.place.baseUrl,
      ...change,
    });
    expect([answer.status, field(answer.json, 'error')]).toEqual([status, error]);
    expect(answer.headers['cache-control']).toBe('no-store');
  });

  it.each(['/', '#x', '?a=1'])('treats a resource with %s appended as a different one', async (suffix) => {
    const answer = await askClientToken(desk.place, robot, `${desk.place.baseUrl}${suffix}`);
    expect([answer.status, field(answer.json, 'error')]).toEqual([400, 'invalid_target']);
    const upper = await askClientToken(desk.place, robot, desk.place.baseUrl.toUpperCase());
    expect(isOAuthError(upper, 'invalid_target')).toBe(true);
  });

  it('folds repeated scopes and keeps the requested order', async () => {
    const answer = await askClientToken(
      desk.place,
      robot,
      desk.place.baseUrl,
      'sessions:write agents:read sessions:write',
    );
    expect(field(answer.json, 'scope')).toBe('sessions:write agents:read');
  });

  it('refuses every repeated parameter but resource', async () => {
    const fields = {
      grant_type: 'client_credentials',
      client_id: robot.clientId,
      client_secret: robot.clientSecret,
      resource: desk.place.baseUrl,
    };
    for (const name of ['grant_type', 'client_id', 'client_secret'] as const) {
      const answer = await ask({ ...fields, [name]: [fields[name], fields[name]] });
      expect([name, answer.status, field(answer.json, 'error')]).toEqual([name, 400, 'invalid_request']);
    }
  });

  it('does not let a public client act for itself or send a secret', async () => {
    const { clientId } = desk;
    const alone = await ask({ grant_type: 'client_credentials', client_id: clientId, resource: desk.place.baseUrl });
    expect([alone.status, field(alone.json, 'error')]).toEqual([400, 'unauthorized_client']);
    const { code, verifier } = await desk.authorize(clientId);
    const withSecret = await redeemCode(desk.place, clientId, code, verifier, { client_secret: 'guess' });
    expect([withSecret.status, field(withSecret.json, 'error')]).toEqual([401, 'invalid_client']);
    expect((await redeemCode(desk.place, clientId, code, verifier)).status).toBe(200);
  });

  describe('HTTP Basic client authentication (RFC 6749 §2.3.1, §5.2)', () => {
    const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` });
    const fields = { grant_type: 'client_credentials' };
    /** Encodes like a library that escapes everything except letters and digits. */
    const encode = (text: string) =>
      text.replace(/[^A-Za-z0-9]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);

    it('a confidential client gets a token, its id and secret form-encoded or plain', async () => {
      const { clientId, clientSecret } = robot;
      for (const text of [`${clientId}:${clientSecret}`, `${encode(clientId)}:${encode(clientSecret)}`])
        expect((await ask(fields, basic(text))).status).toBe(200);
      const named = await ask({ ...fields, client_id: clientId }, basic(`${clientId}:${clientSecret}`));
      expect(named.status).toBe(200);
      const lower = { authorization: basic(`${clientId}:${clientSecret}`).authorization.replace('Basic', 'basic') };
      expect((await ask(fields, lower)).status).toBe(200);
    });

    it('a public client sends an empty password', async () => {
      const { code, verifier } = await desk.authorize(desk.clientId);
      const answer = await ask(
        {
          grant_type: 'authorization_code',
          code,
          code_verifier: verifier,
          redirect_uri: 'http://127.0.0.1:49152/callback',
        },
        basic(`${desk.clientId}:`),
      );
      expect(answer.status, answer.text).toBe(200);
    });

    it.each([
      ['a wrong secret', () => basic(`${robot.clientId}:wrong`)],
      ['an empty secret', () => basic(`${robot.clientId}:`)],
      ['an unknown client', () => basic('oac_01J00000000000000000000000:x')],
      ['no colon', () => basic(robot.clientId)],
      ['no id', () => basic(`:${robot.clientSecret}`)],
      ['a broken escape', () => basic(`${robot.clientId}:%zz`)],
      ['text that is not base64', () => ({ authorization: 'Basic !!' })],
      ['another scheme', () => ({ authorization: `Bearer ${robot.clientSecret}` })],
      ['no credentials', () => ({ authorization: 'Basic' })],
    ])('%s is 401 invalid_client with a Basic challenge', async (_what, headers) => {
      const answer = await ask(fields, headers());
      expect([answer.status, field(answer.json, 'error')]).toEqual([401, 'invalid_client']);
      expect(answer.headers['www-authenticate']).toMatch(/^Basic realm="/);
    });

    it('a failure in the form carries no challenge', async () => {
      const answer = await ask({ ...fields, client_id: robot.clientId, client_secret: 'wrong' });
      expect([answer.status, answer.headers['www-authenticate']]).toEqual([401, undefined]);
    });

    it('an additional secret or a different client_id in the form is invalid_request', async () => {
      const headers = basic(`${robot.clientId}:${robot.clientSecret}`);
      for (const more of [{ client_secret: robot.clientSecret }, { client_id: desk.clientId }]) {
        const answer = await ask({ ...fields, ...more }, headers);
        expect([answer.status, field(answer.json, 'error')]).toEqual([400, 'invalid_request']);
      }
    });

    it('a public client can use it to revoke its token', async () => {
      const { refreshToken } = await desk.login(desk.clientId);
      const answer = await postForm(desk.place.revokeUrl, { token: refreshToken }, basic(`${desk.clientId}:`));
      expect(answer.status).toBe(200);
      expect((await refresh(desk.place, desk.clientId, refreshToken)).status).toBe(401);
    });
  });

  describe('a request that names no resource (RFC 8707 §2.2)', () => {
    const audienceOf = (answer: { json: unknown }) => field(claimsOf(text(answer.json, 'access_token')), 'aud');
    const none = { resource: undefined };

    it('gets a token for the REST API', async () => {
      const alone = await askClientToken(desk.place, robot, []);
      expect(audienceOf(alone)).toBe(desk.place.baseUrl);
      const { code, verifier } = await desk.authorize(desk.clientId);
      const first = await redeemCode(desk.place, desk.clientId, code, verifier, none);
      expect(audienceOf(first)).toBe(desk.place.baseUrl);
      const next = await refresh(desk.place, desk.clientId, text(first.json, 'refresh_token'), none);
      expect(audienceOf(next)).toBe(desk.place.baseUrl);
    });

    it('gets a token for the resources that its authorization named', async () => {
      const { wsUrl } = desk.place;
      const { code, verifier } = await desk.authorize(desk.clientId, { overrides: { resource: wsUrl } });
      const first = await redeemCode(desk.place, desk.clientId, code, verifier, none);
      expect(audienceOf(first)).toBe(wsUrl);
    });

    it('gets a token for the original resources when it refreshes', async () => {
      const { baseUrl, wsUrl } = desk.place;
      const { code, verifier } = await desk.authorize(desk.clientId);
      const both = { resource: [baseUrl, wsUrl] };
      const first = await redeemCode(desk.place, desk.clientId, code, verifier, both);
      const next = await refresh(desk.place, desk.clientId, text(first.json, 'refresh_token'), none);
      expect(audienceOf(next)).toEqual([baseUrl, wsUrl]);
      const moved = await refresh(desk.place, desk.clientId, text(next.json, 'refresh_token'));
      expect(audienceOf(moved)).toBe(baseUrl);
      const back = await refresh(desk.place, desk.clientId, text(moved.json, 'refresh_token'), none);
      expect(audienceOf(back)).toEqual([baseUrl, wsUrl]);
    });
  });

  it('never repeats input in an error', async () => {
    const sent = { client_id: 'CANARY-client', code: 'CANARY-code', code_verifier: 'CANARY-verifier', scope: 'CANARY' };
    for (const grant_type of ['authorization_code', 'refresh_token', 'CANARY']) {
      const answer = await ask({ ...sent, grant_type, refresh_token: 'CANARY-token', client_secret: 'CANARY-secret' });
      expect(answer.text).not.toContain('CANARY');
    }
  });

  it('allows a client 120 tokens per minute, and refuses more without consuming anything', async () => {
    const limited = await openDeskWithClient({ areLimitsOn: true });
    try {
      let { refreshToken } = await limited.login(limited.clientId);
      const { code, verifier } = await limited.authorize(limited.clientId);
      for (let count = 1; count < 120; count += 1) {
        const answer = await refresh(limited.place, limited.clientId, refreshToken);
        expect(answer.status).toBe(200);
        refreshToken = text(answer.json, 'refresh_token');
      }
      const refused = await refresh(limited.place, limited.clientId, refreshToken);
      expect([refused.status, field(refused.json, 'error')]).toEqual([429, 'temporarily_unavailable']);
      expect((await redeemCode(limited.place, limited.clientId, code, verifier)).status).toBe(429);
      const waitS = Number(refused.headers['retry-after']);
      limited.clock.advance(waitS * 1000);
      expect((await refresh(limited.place, limited.clientId, refreshToken)).status).toBe(200);
      if (waitS < 60) expect((await redeemCode(limited.place, limited.clientId, code, verifier)).status).toBe(200);
    } finally {
      await limited.stop();
    }
  });
});

describe('Authorization codes', () => {
  const errorOf = async (answer: Promise<{ status: number; json: unknown }>) => {
    const { status, json } = await answer;
    return [status, field(json, 'error')];
  };

  it.each([
    ['another redirect URI', { redirect_uri: 'http://127.0.0.1:49152/other' }],
    ['a wrong verifier', { code_verifier: createVerifier().verifier }],
    ['a verifier of 42 characters', { code_verifier: 'a'.repeat(42) }],
    ['a verifier of 129 characters', { code_verifier: 'a'.repeat(129) }],
  ])('a code is dead after %s', async (_what, change) => {
    const { code, verifier } = await desk.authorize(desk.clientId);
    expect(await errorOf(redeemCode(desk.place, desk.clientId, code, verifier, change))).toEqual([
      400,
      'invalid_grant',
    ]);
    expect(await errorOf(redeemCode(desk.place, desk.clientId, code, verifier))).toEqual([400, 'invalid_grant']);
  });

  it.each(['code', 'redirect_uri', 'code_verifier'])(
    'a request without %s is refused for that, and the code survives',
    async (name) => {
      const { code, verifier } = await desk.authorize(desk.clientId);
      const { status, json } = await redeemCode(desk.place, desk.clientId, code, verifier, { [name]: undefined });
      expect([status, field(json, 'error')]).toEqual([400, 'invalid_request']);
      expect(field(json, 'error_description')).toBe(`The ${name} parameter is missing.`);
      expect((await redeemCode(desk.place, desk.clientId, code, verifier)).status).toBe(200);
    },
  );

  it('is useless to another client, and survives its attempt', async () => {
    const { code, verifier } = await desk.authorize(desk.clientId);
    const other = await mustRegister(desk.place);
    expect(await errorOf(redeemCode(desk.place, other, code, verifier))).toEqual([400, 'invalid_grant']);
    expect((await redeemCode(desk.place, desk.clientId, code, verifier)).status).toBe(200);
  });

  it('is unharmed by an unknown resource', async () => {
    const { code, verifier } = await desk.authorize(desk.clientId);
    const wrong = redeemCode(desk.place, desk.clientId, code, verifier, { resource: 'https://elsewhere.example' });
    expect(await errorOf(wrong)).toEqual([400, 'invalid_target']);
    expect((await redeemCode(desk.place, desk.clientId, code, verifier)).status).toBe(200);
  });

  it('expires after 60 seconds', async () => {
    const early = await desk.authorize(desk.clientId);
    desk.clock.advance(59_999);
    expect((await redeemCode(desk.place, desk.clientId, early.code, early.verifier)).status).toBe(200);
    const late = await desk.authorize(desk.clientId);
    desk.clock.advance(60_000);
    expect(await errorOf(redeemCode(desk.place, desk.clientId, late.code, late.verifier))).toEqual([
      400,
      'invalid_grant',
    ]);
  });

  it('a second use revokes the tokens from the first one', async () => {
    const { code, verifier } = await desk.authorize(desk.clientId);
    const first = await redeemCode(desk.place, desk.clientId, code, verifier);
    expect(await errorOf(redeemCode(desk.place, desk.clientId, code, verifier))).toEqual([400, 'invalid_grant']);
    const token = text(first.json, 'refresh_token');
    expect(await errorOf(refresh(desk.place, desk.clientId, token))).toEqual([401, 'invalid_client']);
  });

  it('succeeds for exactly one of 64 at once, whose tokens are then revoked', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { code, verifier } = await desk.authorize(desk.clientId);
      const answers = await Promise.all(
        Array.from({ length: 64 }, () => redeemCode(desk.place, desk.clientId, code, verifier)),
      );
      const won = answers.filter(({ status }) => status === 200);
      expect(won).toHaveLength(1);
      const token = text(won[0]?.json, 'refresh_token');
      expect(await errorOf(refresh(desk.place, desk.clientId, token))).toEqual([401, 'invalid_client']);
    }
  });

  it('is bound to the resources of its authorization', async () => {
    const { baseUrl, wsUrl } = desk.place;
    const { code, verifier } = await desk.authorize(desk.clientId, { overrides: { resource: baseUrl } });
    expect(await errorOf(redeemCode(desk.place, desk.clientId, code, verifier, { resource: wsUrl }))).toEqual([
      400,
      'invalid_target',
    ]);
    const answer = await redeemCode(desk.place, desk.clientId, code, verifier);
    expect(answer.status).toBe(200);
    const moved = await refresh(desk.place, desk.clientId, text(answer.json, 'refresh_token'), { resource: wsUrl });
    expect(moved.status).toBe(400);
  });

  it('is useless once its agent is gone', async () => {
    const own = await openDesk();
    try {
      const clientId = text((await register(own.place)).json, 'client_id');
      const { refreshToken } = await own.login(clientId);
      const { code, verifier } = await own.authorize(clientId);
      const { operatorUrl: url, operatorSecret: secret } = own.service;
      await operate({ url, secret }, 'DELETE', `/agents/${encodeURIComponent(ALICE)}`);
      expect(await errorOf(redeemCode(own.place, clientId, code, verifier))).toEqual([400, 'invalid_grant']);
      expect(await errorOf(refresh(own.place, clientId, refreshToken))).toEqual([401, 'invalid_client']);
    } finally {
      await own.stop();
    }
  });
});
