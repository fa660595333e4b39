import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AGENT_SCOPES, SCOPES } from '../../../src/wire/scope.js';
import { linksOf } from '../../support/html-form.js';
import { request } from '../../support/http.js';
import { field } from '../../support/json.js';
import {
  type AuthorizationParameters,
  authorizationUrl,
  createVerifier,
  mustRegister,
  REDIRECT_URI,
  redeemCode,
} from '../../support/oauth.js';
import { ALICE, type Desk, openDeskWithClient } from './desk.js';

let desk: Desk & { clientId: string };
beforeAll(async () => {
  desk = await openDeskWithClient();
});
afterAll(() => desk.stop());

const { challenge } = createVerifier();
const urlWith = (overrides: AuthorizationParameters['overrides'] = {}, clientId = desk.clientId): string =>
  authorizationUrl(desk.place, { clientId, challenge, overrides });
const show = (overrides?: AuthorizationParameters['overrides'], clientId?: string) =>
  request(urlWith(overrides, clientId));

describe('GET authorization endpoint, an invalid client or redirect URI', () => {
  it.each([
    ['another redirect_uri', { redirect_uri: 'https://elsewhere.example/callback' }],
    ['no redirect_uri', { redirect_uri: undefined }],
    ['no client_id', { client_id: undefined }],
    ['an unknown client_id', { client_id: 'oac_01J00000000000000000000000' }],
    ['another path', { redirect_uri: 'http://127.0.0.1:49152/other' }],
    ['another query', { redirect_uri: `${REDIRECT_URI}?more=1` }],
    ['a slash behind it', { redirect_uri: `${REDIRECT_URI}/` }],
    ['an escaped letter', { redirect_uri: 'http://127.0.0.1:49152/c%61llback' }],
    ['localhost', { redirect_uri: 'http://localhost:49152/callback' }],
    ['a name that starts alike', { redirect_uri: 'http://127.0.0.1.evil.example/callback' }],
    ['another spelling of the address', { redirect_uri: 'http://127.1:49152/callback' }],
    ['user information', { redirect_uri: 'http://evil@127.0.0.1:49152/callback' }],
  ])('%s: a page with status 400, never a redirect', async (_what, overrides) => {
    const answer = await show(overrides);
    expect([answer.status, answer.headers['location']]).toEqual([400, undefined]);
    expect(answer.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(answer.text).not.toContain('evil');
  });

  it.each(['client_id', 'redirect_uri'])('a repeated %s: a page, too', async (name) => {
    const answer = await request(`${urlWith()}&${name}=x`);
    expect([answer.status, answer.headers['location']]).toEqual([400, undefined]);
  });

  it('the port of a loopback redirect URI may differ from the registered one', async () => {
    expect((await show({ redirect_uri: 'http://127.0.0.1:50000/callback' })).status).toBe(200);
    expect((await show({ redirect_uri: 'http://127.0.0.1/callback' })).status).toBe(200);
    expect((await show({ redirect_uri: 'http://127.0.0.1:99999/callback' })).status).toBe(400);
  });
});

describe('GET authorization endpoint, errors reported to the client', () => {
  it.each([
    ['no response_type', { response_type: undefined }, 'invalid_request'],
    ['response_type token', { response_type: 'token' }, 'unsupported_response_type'],
    ['response_type code token', { response_type: 'code token' }, 'unsupported_response_type'],
    ['response_mode fragment', { response_mode: 'fragment' }, 'invalid_request'],
    ['response_mode form_post', { response_mode: 'form_post' }, 'invalid_request'],
    ['no code_challenge', { code_challenge: undefined }, 'invalid_request'],
    ['method plain', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['no method', { code_challenge_method: undefined }, 'invalid_request'],
    ['a challenge of 42 characters', { code_challenge: 'a'.repeat(42) }, 'invalid_request'],
    ['a challenge that is no base64url', { code_challenge: '+'.repeat(43) }, 'invalid_request'],
    ['an unknown scope', { scope: 'openid' }, 'invalid_scope'],
    ['a scope beyond the registration', { scope: 'account:read' }, 'invalid_scope'],
    ['an unknown resource', { resource: 'https://elsewhere.example' }, 'invalid_target'],
    ['a malformed agent_handle', { agent_handle: '@Alice' }, 'invalid_request'],
  ])('%s: redirected with error, state and iss', async (_what, overrides, error) => {
    const answer = await show(overrides);
    expect(answer.status).toBe(303);
    const back = new URL(answer.headers['location'] ?? '');
    expect(`${back.origin}${back.pathname}`).toBe(REDIRECT_URI);
    expect(Object.fromEntries(back.searchParams)).toMatchObject({ error, state: 'the-state', iss: desk.place.issuer });
    expect(answer.headers).toMatchObject({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' });
  });

  it('to a foreign https address: a page with a link, never a redirect before the person is asked (D-122)', async () => {
    const uri = 'https://app.example/callback?app=one';
    const clientId = await mustRegister(desk.place, { redirect_uris: [uri] });
    for (const response_type of [undefined, 'token']) {
      const answer = await show({ redirect_uri: uri, response_type, state: '"><b>' }, clientId);
      expect([answer.status, answer.headers['location']]).toEqual([400, undefined]);
      const [link] = linksOf(answer.text).filter(({ href }) => href.startsWith(uri));
      expect(link?.label).toBe('Go to app.example');
      const told = Object.fromEntries(new URL(link?.href ?? '').searchParams);
      const error = response_type === undefined ? 'invalid_request' : 'unsupported_response_type';
      expect(told).toMatchObject({ app: 'one', error, state: '"><b>', iss: desk.place.issuer });
      expect(answer.text).not.toContain('<b>');
    }
  });

  it('reach an app on this device through a link that the person follows', async () => {
    const uri = 'com.example.app:/callback';
    const clientId = await mustRegister(desk.place, { redirect_uris: [uri] });
    const answer = await show({ redirect_uri: uri, response_type: 'token' }, clientId);
    expect([answer.status, answer.headers['location']]).toEqual([400, undefined]);
    const [link] = linksOf(answer.text).filter(({ href }) => href.startsWith(uri));
    expect(link?.label).toBe('Go back to the app');
    expect(new URL(link?.href ?? '').searchParams.get('error')).toBe('unsupported_response_type');
  });

  it.each(['state', 'scope', 'code_challenge', 'response_type'])('a repeated %s is invalid_request', async (name) => {
    const answer = await request(`${urlWith()}&${name}=x`);
    expect(new URL(answer.headers['location'] ?? '').searchParams.get('error')).toBe('invalid_request');
  });
});

describe('GET authorization endpoint', () => {
  it('ignores unknown parameters', async () => {
    expect((await show({ prompt: 'login', nonce: 'x', request_uri: 'http://127.0.0.1:1/' })).status).toBe(200);
  });

  it('accepts only GET and POST, and refuses other origins', async () => {
    for (const method of ['HEAD', 'OPTIONS', 'PUT', 'DELETE']) {
      const answer = await request(urlWith(), { method, headers: { origin: 'https://evil.example' } });
      expect([method, answer.status, answer.headers['allow']]).toEqual([method, 405, 'GET, POST']);
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
    }
    const shown = await request(urlWith(), { headers: { origin: 'https://evil.example' } });
    expect(shown.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('keeps a registered query and appends the answer', async () => {
    const uri = 'http://127.0.0.1:49152/callback?app=one';
    const clientId = await mustRegister(desk.place, { redirect_uris: [uri] });
    const answer = await desk.approve({ clientId, redirectUri: uri });
    expect(answer.headers['location']).toMatch(/^http:\/\/127\.0\.0\.1:49152\/callback\?app=one&code=/);
    expect((await desk.approve({ clientId, redirectUri: `${uri}&x=1` })).status).toBe(400);
  });

  it('returns any state unchanged, and no state splits a header', async () => {
    const states = [
      'a b+c%20d&e=f#g',
      '~!@$^*()[]{}|\\:;"\'<>,.?/`',
      'x'.repeat(2048),
      'a\r\nset-cookie: b=c',
      'žluť 🐍',
    ];
    for (const state of states) {
      const answer = await desk.approve({ clientId: desk.clientId, state });
      expect(answer.status).toBe(303);
      expect(answer.setCookies).toEqual([]);
      expect(new URL(answer.headers['location'] ?? '').searchParams.get('state')).toBe(state);
    }
  });

  it('does not return parameters that were not sent', async () => {
    const answer = await desk.approve({ clientId: desk.clientId, overrides: { state: undefined } });
    expect(new URL(answer.headers['location'] ?? '').searchParams.has('state')).toBe(false);
  });
});

describe('The scopes of an authorization', () => {
  const granted = async (scope: string, registered: string | undefined = undefined) => {
    const clientId = await mustRegister(desk.place, { scope: registered });
    const { code, verifier } = await desk.authorize(clientId, { scope });
    const { json } = await redeemCode(desk.place, clientId, code, verifier);
    return field(json, 'scope');
  };
  const everything = SCOPES.join(' ');

  it('an unknown scope is dropped, and the answer says what was granted', async () => {
    expect(await granted('openid agents:read offline_access sessions:read')).toBe('agents:read sessions:read');
  });

  it('account scopes next to agent scopes are dropped', async () => {
    expect(await granted('account:read sessions:read agents:read')).toBe('sessions:read agents:read');
    expect(await granted(everything)).toBe(AGENT_SCOPES.join(' '));
    expect(await granted(everything, 'agents:read account:read').catch(String)).toContain('invalid_scope');
  });

  it('account:organizations:read is granted to an account', async () => {
    const scope = 'account:read account:agents:read account:organizations:read';
    expect(await granted(scope, scope)).toBe(scope);
  });
});

describe('POST authorization endpoint with the secret of the local service', () => {
  it('approves as the local account that owns the agent', async () => {
    const answer = await desk.approve({ clientId: desk.clientId });
    expect(answer.status).toBe(303);
    const back = new URL(answer.headers['location'] ?? '').searchParams;
    expect(back.get('iss')).toBe(desk.place.issuer);
    expect(back.get('code')).toMatch(/^asp_ac_[A-Za-z0-9_-]{43}$/);
  });

  it('refuses a wrong secret, and says nothing of the request', async () => {
    const answer = await desk.approve({ clientId: 'anything' }, 'wrong');
    expect([answer.status, field(answer.json, 'error')]).toEqual([401, 'access_denied']);
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer /);
  });

  it('refuses requests forwarded by a proxy', async () => {
    for (const header of ['x-forwarded-for', 'forwarded']) {
      const answer = await request(urlWith({ agent_handle: ALICE }), {
        method: 'POST',
        headers: { authorization: `Bearer ${desk.service.operatorSecret}`, [header]: 'for=127.0.0.1' },
      });
      expect(answer.status).toBe(403);
    }
  });

  it.each([
    ['no agent', undefined],
    ['an unknown agent', '@alice.nobody'],
  ])('denies %s with a redirect', async (_what, agentHandle) => {
    const answer = await desk.approve({ clientId: desk.clientId, overrides: { agent_handle: agentHandle } });
    expect(new URL(answer.headers['location'] ?? '').searchParams.get('error')).toBe('access_denied');
  });

  it('answers errors that cannot be redirected as JSON', async () => {
    const answer = await desk.approve({ clientId: desk.clientId, redirectUri: 'https://elsewhere.example' });
    expect([answer.status, field(answer.json, 'error')]).toEqual([400, 'invalid_redirect_uri']);
  });

  it('returns a code bound to its redirect address', async () => {
    const redirectUri = 'http://127.0.0.1:50123/callback';
    const { code, verifier } = await desk.authorize(desk.clientId, { redirectUri });
    const answer = await redeemCode(desk.place, desk.clientId, code, verifier, { redirect_uri: redirectUri });
    expect(answer.status).toBe(200);
  });
});
