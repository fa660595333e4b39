import { expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustSucceed } from '../support/answers.js';
import { newPerson, openBrowser } from '../support/browser.js';
import { request } from '../support/http.js';
import { field, text } from '../support/json.js';
import {
  type AuthorizationParameters,
  authorizationUrl,
  createVerifier,
  mustRegister,
  redeemCode,
  redirectParameters,
} from '../support/oauth.js';
import { allow, deny, mustFindForm, signIn, signUp, signUpAndAllow } from '../support/person.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "GET authorization endpoint" and the row of docs/contract.md, from the view of a person with a
// browser: it reads the real forms, fills them in, and presses their buttons.

const service = useService();

/** Sends an authorization request of a new client. */
async function ask(parameters: Partial<AuthorizationParameters> = {}) {
  const clientId = parameters.clientId ?? (await mustRegister(service.place));
  const { verifier, challenge } = createVerifier();
  const url = authorizationUrl(service.place, { challenge, ...parameters, clientId });
  return { clientId, verifier, url };
}

rule(
  [
    'spec/authorize/consent',
    'spec/authorize/redirect',
    'spec/Service/rule-1',
    'wire/OAuth/authorization',
    'spec/Flows/authorization_code',
  ],
  'a person creates an account and an agent and approves, and the client gets code, state and iss for that agent',
  async () => {
    const [browser, person] = [openBrowser(), newPerson('alice')];
    const state = `~state with "odd" +&=%20 characters ${'x'.repeat(500)}`;
    const { clientId, verifier, url } = await ask({ state });
    const page = await signUpAndAllow(browser, url, person);
    expect(page.answer.status).toBe(303);
    expect(page.answer.headers['location']).toMatch(/^http:\/\/127\.0\.0\.1:49152\/callback\?/);
    expect(page.answer.headers['cache-control']).toContain('no-store');
    expect(page.answer.headers['referrer-policy']).toBe('no-referrer');
    const parameters = redirectParameters(page.answer);
    expect([...parameters.keys()].sort()).toEqual(['code', 'iss', 'state']);
    expect(parameters.get('state')).toBe(state);
    expect(parameters.get('iss')).toBe(service.place.issuer);
    const json = mustSucceed(await redeemCode(service.place, clientId, parameters.get('code') ?? '', verifier));
    expect(field(json, 'agent_handle')).toBe(person.handle.slice(1));
    const me = await callApi(service.place.baseUrl, text(json, 'access_token'), 'GET', '/agents/me');
    expect(mustSucceed(me)).toMatchObject({ canonical_handle: person.handle, inbound_policy: 'allowlist' });
  },
);

rule('wire/OAuth/authorization', 'denying sends access_denied, with state and iss and no code', async () => {
  const browser = openBrowser();
  const { url } = await ask({ state: 'mine' });
  const consent = await signUp(browser, await browser.open(url), newPerson('alice'));
  const parameters = redirectParameters((await deny(browser, consent)).answer);
  expect(parameters.get('error')).toBe('access_denied');
  expect(parameters.get('state')).toBe('mine');
  expect(parameters.get('iss')).toBe(service.place.issuer);
  expect(parameters.get('code')).toBeNull();
});

rule('spec/authorize/consent', 'the page names the client, where the answer goes, and what is requested', async () => {
  const browser = openBrowser();
  const clientId = await mustRegister(service.place, { client_name: '<script>alert(1)</script> & "friends"' });
  const { url } = await ask({ clientId });
  const consent = await signUp(browser, await browser.open(url), newPerson('alice'));
  expect(consent.answer.text).not.toContain('<script>alert(1)');
  expect(consent.text).toContain('<script>alert(1)</script> & "friends"');
  expect(consent.text).toContain('127.0.0.1:49152');
  expect(consent.text).toMatch(/not verified/i);
  const policy = consent.answer.headers['content-security-policy'];
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(consent.answer.headers['x-frame-options']).toBe('DENY');
  expect(consent.answer.headers['access-control-allow-origin']).toBeUndefined();
});

rule(
  'spec/authorize/consent',
  'a returning person signs in; a wrong password and an unknown name get the same answer',
  async () => {
    const person = newPerson('alice');
    const { url } = await ask();
    await signUpAndAllow(openBrowser(), url, person);
    const browser = openBrowser();
    const again = await ask();
    const wrong = await signIn(browser, await browser.open(again.url), { ...person, password: 'not the one' });
    const stranger = openBrowser();
    const unknown = await signIn(stranger, await stranger.open(again.url), { ...newPerson('nobody'), password: 'x' });
    expect(wrong.answer.status).toBe(unknown.answer.status);
    expect(wrong.text.replaceAll(person.username, '')).toBe(unknown.text.replaceAll(/nobody-\w+/g, ''));
    const consent = await signIn(browser, wrong, person);
    expect(consent.text).toContain(person.handle);
    const page = await allow(browser, consent, { agent: person.handle });
    expect(redirectParameters(page.answer).get('code')).not.toBeNull();
  },
);

rule(
  'wire/OAuth/authorization',
  'agent_handle preselects, intent=select_agent asks, consent is asked every time',
  async () => {
    const [browser, person] = [openBrowser(), newPerson('alice')];
    await signUpAndAllow(browser, (await ask()).url, person);
    const second = await browser.open((await ask()).url);
    await allow(browser, second, { agent: 'new', agent_name: 'second' });
    const preselected = await browser.open((await ask({ agentHandle: `@${person.username}.second` })).url);
    expect(mustFindForm(preselected, /^allow$/i).values['agent']).toBe(`@${person.username}.second`);
    const picker = await browser.open((await ask({ overrides: { intent: 'select_agent' } })).url);
    const offered = mustFindForm(picker, /^allow$/i).choices['agent']?.map(({ value }) => value);
    expect(offered).toEqual(expect.arrayContaining([person.handle, `@${person.username}.second`]));
  },
);

rule('spec/authorize/consent', 'someone else’s agent cannot be picked', async () => {
  const victim = await service.actor('victim');
  const browser = openBrowser();
  const { url } = await ask({ agentHandle: victim.handle });
  const consent = await signUp(browser, await browser.open(url), newPerson('mallory'));
  const foreign = await allow(browser, consent, { agent: victim.handle });
  const missing = await allow(browser, consent, { agent: '@no.body' });
  for (const page of [foreign, missing]) expect(page.answer.headers['location'] ?? '').not.toContain('code=');
  expect(foreign.answer.status).toBe(missing.answer.status);
});

rule('spec/authorize/consent', 'approval needs the page’s own token and the person’s own session', async () => {
  const [browser, person] = [openBrowser(), newPerson('alice')];
  const consent = await signUp(browser, await browser.open((await ask()).url), person);
  const form = mustFindForm(consent, /^allow$/i);
  const choice = { agent: 'new', agent_name: 'main' };
  const other = openBrowser();
  await signUp(other, await other.open((await ask()).url), newPerson('mallory'));
  const attempts = [
    await browser.submit(consent, form, { ...choice, csrf: 'wrong' }, /^allow$/i),
    await other.submit(consent, form, choice, /^allow$/i),
    await openBrowser().submit(consent, form, choice, /^allow$/i),
  ];
  for (const { answer } of attempts) {
    expect(answer.headers['location'] ?? '').not.toContain('code=');
    expect(answer.status).toBeGreaterThanOrEqual(400);
  }
  const page = await allow(browser, consent, choice);
  expect(redirectParameters(page.answer).get('code')).not.toBeNull();
  const replayed = await browser.submit(consent, form, { agent: person.handle }, /^allow$/i);
  expect(replayed.answer.headers['location'] ?? '').not.toContain('code=');
});

rule('wire/OAuth/authorization', 'a bad client or redirect URI is a page, never a redirect', async () => {
  const { clientId, url } = await ask();
  const other = authorizationUrl(service.place, { clientId, challenge: 'x', redirectUri: 'https://evil.example/' });
  const bare = new URL(url);
  bare.searchParams.delete('redirect_uri');
  const twice = new URL(url);
  twice.searchParams.append('redirect_uri', 'https://evil.example/');
  const unknown = new URL(url);
  unknown.searchParams.set('client_id', 'oac_01ARZ3NDEKTSV4RRFFQ69G5FAV');
  const anonymous = new URL(url);
  anonymous.searchParams.delete('client_id');
  for (const address of [other, bare.href, twice.href, unknown.href, anonymous.href]) {
    const answer = await request(address);
    expect([address, answer.status, answer.headers['location']]).toEqual([address, 400, undefined]);
    expect(answer.headers['content-type']).toMatch(/^text\/html/);
    expect(answer.text).not.toContain('href="https://evil.example');
  }
});

rule(
  ['spec/authorize/parameters', 'spec/Flows/PKCE'],
  'other mistakes go back to the client as errors with state and iss',
  async () => {
    const mistakes: readonly (readonly [Readonly<Record<string, string | undefined>>, string])[] = [
      [{ response_type: undefined }, 'invalid_request'],
      [{ response_type: 'token' }, 'unsupported_response_type'],
      [{ code_challenge: undefined }, 'invalid_request'],
      [{ code_challenge: 'short' }, 'invalid_request'],
      [{ code_challenge_method: 'plain' }, 'invalid_request'],
      [{ code_challenge_method: undefined }, 'invalid_request'],
      [{ scope: 'everything' }, 'invalid_scope'],
    ];
    for (const [overrides, error] of mistakes) {
      const { url } = await ask({ state: 'mine', overrides });
      const answer = await request(url);
      expect([overrides, answer.status]).toEqual([overrides, expect.toBeOneOf([302, 303])]);
      const parameters = redirectParameters(answer);
      expect([overrides, parameters.get('error')]).toEqual([overrides, error]);
      expect([parameters.get('state'), parameters.get('iss')]).toEqual(['mine', service.place.issuer]);
      expect(parameters.get('code')).toBeNull();
    }
  },
);

rule(
  'spec/authorize/parameters',
  'a repeated parameter is refused, an unknown one ignored, other methods are 405',
  async () => {
    const { url } = await ask();
    const repeated = await request(`${url}&state=again`);
    expect(repeated.headers['location'] ?? 'error=invalid_request').toContain('error=invalid_request');
    expect(repeated.status).not.toBe(200);
    expect((await openBrowser().open(`${url}&unknown=1`)).answer.status).toBe(200);
    for (const method of ['PUT', 'DELETE']) expect((await request(url, { method })).status).toBe(405);
  },
);

rule('spec/authorize/redirect', 'a redirect URI keeps its own query', async () => {
  const redirectUri = 'https://app.example/cb?tenant=7';
  const clientId = await mustRegister(service.place, { redirect_uris: [redirectUri] });
  const { url } = await ask({ clientId, redirectUri });
  const page = await signUpAndAllow(openBrowser(), url, newPerson('alice'));
  const parameters = redirectParameters(page.answer);
  expect(parameters.get('tenant')).toBe('7');
  expect(parameters.get('code')).not.toBeNull();
});
