import { expect } from 'vitest';

import { mustRefuse } from '../support/answers.js';
import { approveLocally, mustGrant } from '../support/grants.js';
import { request } from '../support/http.js';
import { field } from '../support/json.js';
import { createVerifier, mustRegister, redeemCode, redirectParameters, register } from '../support/oauth.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "POST /register" (RFC 7591) and the row of docs/contract.md.

const service = useService();

rule(
  ['spec/register/request', 'spec/register/response', 'wire/OAuth/register'],
  '201 with the registered metadata, client_id and client_id_issued_at',
  async () => {
    const answer = await register(service.place, { client_name: 'A program' });
    expect(answer.status, answer.text).toBe(201);
    expect(answer.headers['cache-control']).toContain('no-store');
    expect(answer.json).toMatchObject({
      client_id: expect.stringMatching(/^oac_[0-7][0-9A-HJKMNP-TV-Z]{25}$/),
      client_id_issued_at: expect.any(Number),
      client_name: 'A program',
      redirect_uris: ['http://127.0.0.1:49152/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none',
    });
    expect(field(answer.json, 'client_secret')).toBeUndefined();
    expect(Math.abs(Number(field(answer.json, 'client_id_issued_at')) - Date.now() / 1000)).toBeLessThan(60);
  },
);

rule('wire/OAuth/register', 'redirect URIs are https, this computer, or a reverse-domain scheme', async () => {
  for (const uri of [
    'http://127.0.0.1/cb',
    'http://127.0.0.1:1/cb?x=1',
    'http://[::1]:8080/cb',
    'http://localhost:8080/cb',
    'https://app.example/cb',
    'com.example.app:/cb',
  ])
    expect([uri, (await register(service.place, { redirect_uris: [uri] })).status]).toEqual([uri, 201]);
  const bad = [
    'http://localhost.evil.example/cb',
    'http://app.example/cb',
    'https:///x',
    'https:///name@evil.example/cb',
    'http://127.0.0.1.evil.example/cb',
    'http://127.1/cb',
    'http://user@127.0.0.1/cb',
    'https://user:pw@app.example/cb',
    'https://app.example/cb#fragment',
    'javascript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'myapp:/cb',
    'com.example.app:cb',
    '/cb',
    'app.example',
    ' https://app.example/cb',
    'https://app.example/c\nb',
    'https://*.example/cb',
    '',
  ];
  for (const uri of bad)
    mustRefuse(await register(service.place, { redirect_uris: [uri] }), 400, 'invalid_redirect_uri');
  mustRefuse(await register(service.place, { redirect_uris: [] }), 400, 'invalid_redirect_uri');
  mustRefuse(await register(service.place, { redirect_uris: 'https://app.example/cb' }), 400, 'invalid_redirect_uri');
});

rule(
  'wire/OAuth/register',
  'other grants, other methods and implicit responses are invalid_client_metadata',
  async () => {
    for (const overrides of [
      { grant_types: ['client_credentials'] },
      { grant_types: ['implicit'] },
      { grant_types: ['password'] },
      { token_endpoint_auth_method: 'client_secret_basic' },
      { response_types: ['token'] },
      { client_name: 1 },
    ])
      mustRefuse(await register(service.place, overrides), 400, 'invalid_client_metadata');
    const answer = await request(service.place.registerUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '[',
    });
    mustRefuse(answer, 400, 'invalid_client_metadata');
  },
);

rule('wire/OAuth/register', 'nothing else in the body has an effect', async () => {
  const answer = await register(service.place, {
    client_id: 'oac_mine',
    client_secret: 'mine',
    skip_consent: true,
    trusted: true,
    logo_uri: 'http://127.0.0.1:9/logo',
    jwks_uri: 'http://127.0.0.1:9/jwks',
  });
  expect(answer.status).toBe(201);
  expect(field(answer.json, 'client_id')).not.toBe('oac_mine');
  for (const name of ['client_secret', 'skip_consent', 'trusted']) expect(field(answer.json, name)).toBeUndefined();
});

rule(
  'wire/OAuth/register',
  'at authorization, the port of a loopback redirect URI may differ, but nothing else',
  async () => {
    const alice = await service.actor('alice');
    const clientId = await mustRegister(service.place, { redirect_uris: ['http://127.0.0.1:1111/cb'] });
    const { verifier, challenge } = createVerifier();
    const ask = (redirectUri: string) =>
      approveLocally(service.place, service.operator, { clientId, challenge, redirectUri, agentHandle: alice.handle });
    const redirectUri = 'http://127.0.0.1:2222/cb';
    const code = redirectParameters(await ask(redirectUri)).get('code') ?? '';
    const answer = await redeemCode(service.place, clientId, code, verifier, { redirect_uri: redirectUri });
    expect(answer.status, answer.text).toBe(200);
    for (const other of [
      'http://127.0.0.1:1111/cb/',
      'http://127.0.0.1:1111/CB',
      'http://127.0.0.1:1111/cb?x=1',
      'http://127.0.0.1:1111/%63b',
      'http://localhost:1111/cb',
      'http://[::1]:1111/cb',
      'https://127.0.0.1:1111/cb',
      'http://127.0.0.1.evil.example:1111/cb',
    ]) {
      const refused = await ask(other);
      expect([other, refused.status, refused.headers['location']]).toEqual([other, 400, undefined]);
    }
  },
);

rule('spec/register/request', 'the registered scope limits what a person can be asked for', async () => {
  const alice = await service.actor('alice');
  const clientId = await mustRegister(service.place, { scope: 'agents:read' });
  const { challenge } = createVerifier();
  const answer = await approveLocally(service.place, service.operator, {
    clientId,
    challenge,
    scope: 'agents:read sessions:write',
    agentHandle: alice.handle,
  });
  const parameters = answer.headers['location'] === undefined ? undefined : redirectParameters(answer);
  expect(parameters?.get('code') ?? null).toBeNull();
  const grant = await mustGrant(service.place, service.operator, alice.handle, { clientId, scope: 'agents:read' });
  expect(field(grant.json, 'scope')).toBe('agents:read');
});
