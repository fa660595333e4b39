import { describe, expect, it } from 'vitest';

import { isRegisteredRedirectUri, withParameters } from '../../../src/service/oauth/clients.js';

describe('Redirect URIs (RFC 9700 §2.1; RFC 8252 §7.3)', () => {
  it.each([
    ['http://127.0.0.1/callback', 'http://127.0.0.1:5000/callback', true],
    ['http://127.0.0.1:4000/callback', 'http://127.0.0.1:5000/callback', true],
    ['http://[::1]/callback', 'http://[::1]:5000/callback', true],
    ['http://127.0.0.1:4000', 'http://127.0.0.1:5000', true],
    ['http://localhost/callback', 'http://localhost:5000/callback', true],
    ['com.example.app:/callback', 'com.example.app:/callback', true],
    ['com.example.app:/callback', 'com.example.app:/callback2', false],
    ['com.example.app:/callback', 'com.example.app://callback', false],
    ['http://localhost/callback', 'http://127.0.0.1:5000/callback', false],
    ['http://127.0.0.1/callback', 'http://localhost:5000/callback', false],
    ['http://localhost/callback', 'http://localhost:5000@evil.example/callback', false],
    ['http://localhost/callback', 'http://localhost.evil.example:5000/callback', false],
    ['https://app.example/callback', 'https://app.example/callback', true],
    ['http://127.0.0.1/callback', 'http://[::1]:5000/callback', false],
    ['http://127.0.0.1/callback', 'https://127.0.0.1:5000/callback', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:5000/callback/', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:5000/CALLBACK', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:5000/callback?x=1', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:5000/callback#x', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:5000/callback%2e', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:5000@evil.example/callback', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:0/callback', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1:/callback', false],
    ['http://127.0.0.1/callback', 'http://127.0.0.1.evil.example/callback', false],
    ['http://127.0.0.1/callback', 'HTTP://127.0.0.1/callback', false],
    ['https://app.example/callback', 'https://app.example:8443/callback', false],
    ['https://app.example/callback', 'https://app.example/callback/../other', false],
    ['https://app.example/callback', 'https://app.example/callback2', false],
    ['https://app.example/callback', 'https://app.example', false],
  ])('registered %s, asked for %s: %s', (registered, requested, isTheSame) => {
    expect(isRegisteredRedirectUri(requested, [registered])).toBe(isTheSame);
  });

  it('the answer follows the existing query', () => {
    expect(withParameters('https://a.example/cb', { code: 'x', state: null })).toBe('https://a.example/cb?code=x');
    expect(withParameters('https://a.example/cb?k=v', { code: 'x' })).toBe('https://a.example/cb?k=v&code=x');
    expect(withParameters('https://a.example/cb?', { code: 'x' })).toBe('https://a.example/cb?code=x');
  });
});
