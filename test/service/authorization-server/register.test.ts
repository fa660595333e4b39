import { createServer } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { request } from '../../support/http.js';
import { field, text } from '../../support/json.js';
import { register } from '../../support/oauth.js';
import { type Desk, openDesk } from './desk.js';

let desk: Desk;
beforeAll(async () => {
  desk = await openDesk();
});
afterAll(() => desk.stop());

describe('POST /register', () => {
  it('answers 201 with the effective metadata, and a client_id unlike any account id', async () => {
    const answer = await register(desk.place);
    expect(answer.status).toBe(201);
    expect(answer.headers['cache-control']).toBe('no-store');
    expect(answer.json).toMatchObject({
      client_id: expect.stringMatching(/^oac_[0-9A-Z]{26}$/),
      client_id_issued_at: Math.floor(desk.clock.now() / 1000),
      client_name: 'Conformance',
      redirect_uris: ['http://127.0.0.1:49152/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    });
    expect(field(answer.json, 'client_secret')).toBeUndefined();
  });

  it.each([
    ['none', []],
    ['a text', 'http://127.0.0.1/callback'],
    ['missing', undefined],
    ['eleven', Array.from({ length: 11 }, (_, index) => `https://app.example/${index}`)],
    ['2 kB', [`https://app.example/${'a'.repeat(2048)}`]],
    ['a fragment', ['https://app.example/#x']],
    ['user information', ['https://user@app.example/']],
    ['a relative one', ['/callback']],
    ['a wildcard', ['https://*.app.example/']],
    ['plain http elsewhere', ['http://app.example/callback']],
    ['a name that begins with localhost', ['http://localhost.evil.example/callback']],
    ['user information before localhost', ['http://localhost:1234@evil.example/callback']],
    ['an empty host', ['https:///x']],
    ['user information behind an empty host', ['https:///accounts.google.com@evil.example/callback']],
    ['two empty path segments in place of a host', ['https:////evil.example']],
    ['user information behind a port', ['https://app.example:443@evil.example/']],
    ['another loopback spelling', ['http://127.1/callback']],
    ['a hexadecimal address', ['http://0x7f000001/callback']],
    ['a port out of range', ['http://127.0.0.1:70000/callback']],
    ['script', ['javascript:alert(1)']],
    ['script in capitals', ['JavaScript:alert(1)']],
    ['data', ['data:text/html,x']],
    ['vbscript', ['vbscript:x']],
    ['a file', ['file:///etc/passwd']],
    ['a blob', ['blob:https://app.example/1']],
    ['a private-use scheme of one word', ['myapp:/callback']],
    ['a private-use scheme without a path', ['com.example.app:callback']],
    ['a private-use scheme with user information', ['com.example.app://user@evil.example/callback']],
    ['a private-use scheme in capitals', ['com.Example.app:/callback']],
    ['capitals in the scheme', ['HTTPS://app.example/']],
    ['a space before it', [' https://app.example/']],
    ['a line feed in it', ['https://app.example/\n']],
    ['a backslash', ['https://app.example\\@evil.example/']],
    ['one good and one bad', ['https://app.example/', 'http://app.example/']],
  ])('refuses redirect_uris: %s', async (_what, redirect_uris) => {
    const answer = await register(desk.place, { redirect_uris });
    expect([answer.status, field(answer.json, 'error')]).toEqual([400, 'invalid_redirect_uri']);
  });

  it.each([
    'http://127.0.0.1/callback',
    'http://127.0.0.1:1/',
    'http://127.0.0.1:65535',
    'http://[::1]:8080/callback',
    'https://app.example/callback?keep=this',
    'https://app.example:8443/',
    'https://app.example?a=b@c',
    'http://localhost:1234/callback',
    'http://localhost/callback',
    'com.example.app:/callback',
    'com.example.app://callback',
  ])('accepts the redirect URI %s', async (uri) => {
    expect((await register(desk.place, { redirect_uris: [uri] })).status).toBe(201);
  });

  it.each([
    ['client_credentials', { grant_types: ['authorization_code', 'client_credentials'] }],
    ['implicit', { grant_types: ['implicit'] }],
    ['password', { grant_types: ['password'] }],
    ['refreshing alone', { grant_types: ['refresh_token'] }],
    ['a secret', { token_endpoint_auth_method: 'client_secret_post' }],
    ['tokens from the front', { response_types: ['code', 'token'] }],
    ['scopes nobody knows', { scope: 'openid profile' }],
    ['10 kB of a name', { client_name: 'x'.repeat(10_000) }],
    ['a number for a name', { client_name: 7 }],
  ])('refuses %s as invalid_client_metadata', async (_what, overrides) => {
    const answer = await register(desk.place, overrides);
    expect([answer.status, field(answer.json, 'error')]).toEqual([400, 'invalid_client_metadata']);
  });

  it('drops unknown scopes and reports the rest', async () => {
    const answer = await register(desk.place, { scope: 'openid sessions:read profile account:organizations:read' });
    expect([answer.status, field(answer.json, 'scope')]).toEqual([201, 'sessions:read account:organizations:read']);
  });

  it.each(['', '[]', 'null', '{', '"x"', '[1,2]'])('refuses the body %j', async (body) => {
    const answer = await request(desk.place.registerUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    expect(answer.status).toBe(400);
    expect(text(answer.json, 'error')).toMatch(/^invalid_/);
  });

  it('members that ask for more than allowed have no effect', async () => {
    const answer = await request(desk.place.registerUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"redirect_uris":["https://app.example/"],"client_id":"mine","client_secret":"s","trusted":true,"skip_consent":true,"__proto__":{"scope":"x"},"constructor":{}}',
    });
    expect(answer.status).toBe(201);
    expect(text(answer.json, 'client_id')).not.toBe('mine');
    expect(field(answer.json, 'client_secret')).toBeUndefined();
    expect(field(answer.json, 'trusted')).toBeUndefined();
  });

  it('never fetches an address of the metadata', async () => {
    const fetched: (string | undefined)[] = [];
    const listener = createServer((incoming, answer) => {
      fetched.push(incoming.url);
      answer.end('{}');
    });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const address = listener.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    const members = ['logo_uri', 'jwks_uri', 'sector_identifier_uri', 'client_uri', 'policy_uri'];
    const answer = await register(desk.place, {
      ...Object.fromEntries(members.map((name) => [name, `${url}/${name}`])),
      request_uris: [`${url}/request`],
    });
    expect(answer.status).toBe(201);
    await new Promise((resolve) => listener.close(resolve));
    expect(fetched).toEqual([]);
  });

  it('accepts 20 per hour from one address, and says when to come back', async () => {
    const limited = await openDesk({ areLimitsOn: true });
    try {
      for (let count = 0; count < 20; count += 1) expect((await register(limited.place)).status).toBe(201);
      const refused = await register(limited.place);
      expect([refused.status, field(refused.json, 'error')]).toEqual([429, 'temporarily_unavailable']);
      limited.clock.advance(Number(refused.headers['retry-after']) * 1000);
      expect((await register(limited.place)).status).toBe(201);
    } finally {
      await limited.stop();
    }
  });
});
