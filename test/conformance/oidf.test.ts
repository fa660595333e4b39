import { expect } from 'vitest';

import { newPerson, openBrowser } from '../support/browser.js';
import { type Answer, postForm, request } from '../support/http.js';
import { field, list } from '../support/json.js';
import {
  type AuthorizationParameters,
  authorizationUrl,
  createVerifier,
  mustRegister,
  REDIRECT_URI,
  redeemCode,
  redirectParameters,
  register,
} from '../support/oauth.js';
import { allow, deny, signUp, signUpAndAllow } from '../support/person.js';
import { oidfModule, reportVerdicts } from './oidf/oidf-module.js';
import { useService } from './service.js';

// The modules of the OpenID Foundation's suite for metadata, registration and the authorization endpoint; see oidf/modules.ts.

const service = useService();
reportVerdicts('oidf');

const FAPI = 'fapi2-security-profile-final';

async function ask(overrides: AuthorizationParameters['overrides'] = {}, metadata: Record<string, unknown> = {}) {
  const clientId = await mustRegister(service.place, metadata);
  const { verifier, challenge } = createVerifier();
  return { clientId, verifier, url: authorizationUrl(service.place, { clientId, challenge, overrides }) };
}

/** Returns the answer to a request before anyone is asked to approve it. */
const ofRequest = (overrides: AuthorizationParameters['overrides'], metadata?: Record<string, unknown>) => async () =>
  request((await ask(overrides, metadata)).url);

/** Goes from the request to the tokens as a person with a browser. */
async function complete(overrides: AuthorizationParameters['overrides'] = {}, metadata?: Record<string, unknown>) {
  const { clientId, verifier, url } = await ask(overrides, metadata);
  const { answer } = await signUpAndAllow(openBrowser(), url, newPerson('oidf'));
  const redirectUri = overrides['redirect_uri'] ?? REDIRECT_URI;
  const code = redirectParameters(answer).get('code') ?? '';
  const token = await redeemCode(service.place, clientId, code, verifier, { redirect_uri: redirectUri });
  return { answer, token };
}
type Completed = Awaited<ReturnType<typeof complete>>;

function mustHaveSucceeded({ answer, token }: Completed): void {
  expect(redirectParameters(answer).get('iss')).toBe(service.place.issuer);
  expect([token.status, field(token.json, 'token_type')]).toEqual([200, 'Bearer']);
  expect(field(token.json, 'access_token')).toEqual(expect.any(String));
}

const mustBeAPage = (answer: Answer): void => {
  expect([answer.status, answer.headers['location']]).toEqual([400, undefined]);
  expect(answer.headers['content-type']).toMatch(/^text\/html/);
};
const mustBeToldTheClient =
  (...errors: string[]) =>
  (answer: Answer): void => {
    const told = redirectParameters(answer);
    expect(told.get('error')).toBeOneOf(errors);
    expect([told.get('state'), told.get('iss'), told.get('code')]).toEqual(['the-state', service.place.issuer, null]);
  };

oidfModule('oidcc-discovery-endpoint-verification', 'the metadata', {
  look: async () => ({
    openid: await request(`${service.place.issuer}/.well-known/openid-configuration`),
    oauth: await request(`${service.place.issuer}/.well-known/oauth-authorization-server`),
  }),
  asks: ({ openid }) => expect(openid.status).toBe(200),
  answers({ openid, oauth }) {
    expect([openid.status, oauth.status]).toEqual([404, 200]);
    expect(oauth.headers['content-type']).toMatch(/^application\/json/);
    expect(oauth.json).toMatchObject({ issuer: service.place.issuer, response_types_supported: ['code'] });
    expect(list(oauth.json, 'scopes_supported')).not.toContain('openid');
  },
});

oidfModule(`${FAPI}-discovery-end-point-verification`, 'the metadata', {
  look: () => request(`${service.place.issuer}/.well-known/oauth-authorization-server`),
  asks: ({ json }) => expect(field(json, 'pushed_authorization_request_endpoint')).toEqual(expect.any(String)),
  answers: ({ json }) =>
    expect(json).toMatchObject({
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
    }),
});

oidfModule('oidcc-server', 'the whole flow', {
  look: () => complete(),
  asks: ({ token }) => expect(field(token.json, 'id_token')).toEqual(expect.any(String)),
  answers(completed) {
    mustHaveSucceeded(completed);
    expect(redirectParameters(completed.answer).get('state')).toBe('the-state');
    expect(completed.token.json).not.toHaveProperty('id_token');
    expect(completed.token.json).toMatchObject({ expires_in: 900, refresh_token: expect.any(String) });
    expect(completed.token.headers['cache-control']).toBe('no-store');
  },
});

const SUCCEEDS: readonly (readonly [name: string, says: string, overrides: Record<string, string>])[] = [
  ['oidcc-ensure-request-with-unknown-parameter-succeeds', 'an unknown parameter is ignored', { extra: 'foobar' }],
  ['oidcc-ensure-request-without-nonce-succeeds-for-code-flow', 'no nonce is needed', {}],
  ['oidcc-ensure-request-with-valid-pkce-succeeds', 'PKCE works', {}],
  ['oidcc-ensure-request-with-acr-values-succeeds', 'acr_values are no obstacle', { acr_values: '1 2' }],
  ['oidcc-ensure-other-scope-order-succeeds', 'scopes in any order', { scope: 'sessions:write agents:read' }],
  ['oidcc-display-page', 'display=page is no obstacle', { display: 'page' }],
  ['oidcc-display-popup', 'display=popup is no obstacle', { display: 'popup' }],
  ['oidcc-login-hint', 'a login_hint is no obstacle', { login_hint: 'somebody@app.example' }],
  ['oidcc-ui-locales', 'ui_locales are no obstacle', { ui_locales: 'se' }],
  ['oidcc-claims-locales', 'claims_locales are no obstacle', { claims_locales: 'se' }],
  [`${FAPI}-ensure-authorization-request-without-nonce-success`, 'no nonce is needed', {}],
  [`${FAPI}-ensure-other-scope-order-succeeds`, 'scopes in any order', { scope: 'sessions:read agents:read' }],
];
for (const [name, says, overrides] of SUCCEEDS)
  oidfModule(name, says, { look: () => complete(overrides), asks: mustHaveSucceeded });

oidfModule(`${FAPI}-ensure-authorization-request-without-state-success`, 'without a state, none comes back', {
  look: () => complete({ state: undefined }),
  asks(completed) {
    mustHaveSucceeded(completed);
    expect(redirectParameters(completed.answer).has('state')).toBe(false);
  },
});

const LONG_STATE = 'l'.repeat(384);
oidfModule(`${FAPI}-ensure-authorization-request-with-long-state`, '384 characters of state come back', {
  look: () => complete({ state: LONG_STATE }),
  asks(completed) {
    mustHaveSucceeded(completed);
    expect(redirectParameters(completed.answer).get('state')).toBe(LONG_STATE);
  },
});

oidfModule('oidcc-response-type-missing', 'an error is reported to the client', {
  look: ofRequest({ response_type: undefined }),
  asks: mustBeToldTheClient('invalid_request', 'unsupported_response_type'),
});
oidfModule(`${FAPI}-ensure-response-type-token-fails`, 'response_type=token is refused', {
  look: ofRequest({ response_type: 'token' }),
  asks: mustBeToldTheClient('unsupported_response_type', 'invalid_request', 'unauthorized_client'),
});
oidfModule(`${FAPI}-ensure-response-type-code-idtoken-fails`, 'response_type=code id_token is refused', {
  look: ofRequest({ response_type: 'code id_token' }),
  asks: mustBeToldTheClient('unsupported_response_type', 'invalid_request', 'unauthorized_client'),
});
oidfModule(`${FAPI}-par-ensure-pkce-required`, 'no request without a code_challenge', {
  look: ofRequest({ code_challenge: undefined, code_challenge_method: undefined }),
  asks: mustBeToldTheClient('invalid_request'),
});
oidfModule(`${FAPI}-par-plain-pkce-rejected`, 'no request with the method plain', {
  look: ofRequest({ code_challenge_method: 'plain' }),
  asks: mustBeToldTheClient('invalid_request'),
});

const QUERY_URI = `${REDIRECT_URI}?foo=bar`;
const withQuery = { redirect_uris: [QUERY_URI] };
oidfModule('oidcc-ensure-registered-redirect-uri', 'another redirect_uri is a page', {
  look: ofRequest({ redirect_uri: 'https://app.example/unregistered' }),
  asks: mustBeAPage,
});
for (const name of [
  'oidcc-ensure-redirect-uri-in-authorization-request',
  `${FAPI}-ensure-redirect-uri-in-authorization-request`,
])
  oidfModule(name, 'no redirect_uri is a page', { look: ofRequest({ redirect_uri: undefined }), asks: mustBeAPage });
oidfModule('oidcc-redirect-uri-query-OK', 'a registered query is kept', {
  look: () => complete({ redirect_uri: QUERY_URI }, withQuery),
  asks(completed) {
    mustHaveSucceeded(completed);
    expect(redirectParameters(completed.answer).get('foo')).toBe('bar');
  },
});
oidfModule('oidcc-redirect-uri-query-mismatch', 'a query other than the registered one is a page', {
  look: ofRequest({ redirect_uri: `${REDIRECT_URI}?bar=foo` }, withQuery),
  asks: mustBeAPage,
});
oidfModule('oidcc-redirect-uri-query-added', 'a query that was not registered is a page', {
  look: ofRequest({ redirect_uri: QUERY_URI }),
  asks: mustBeAPage,
});
oidfModule('oidcc-redirect-uri-regfrag', 'a redirect_uri with a fragment cannot be registered', {
  look: () => register(service.place, { redirect_uris: [`${REDIRECT_URI}#fragment`] }),
  asks(answer) {
    expect(answer.status).toBe(400);
    expect(field(answer.json, 'error')).toBeOneOf([
      'invalid_redirect_uri',
      'invalid_request',
      'invalid_client_metadata',
    ]);
  },
});

for (const [name, member] of [
  ['oidcc-registration-logo-uri', 'logo_uri'],
  ['oidcc-registration-policy-uri', 'policy_uri'],
  ['oidcc-registration-tos-uri', 'tos_uri'],
] as const)
  oidfModule(name, `a client with ${member}`, {
    look: async () => {
      const { url } = await ask({}, { [member]: 'https://app.example/there' });
      const browser = openBrowser();
      return signUp(browser, await browser.open(url), newPerson('oidf'));
    },
    asks: ({ answer }) => expect(answer.text).toContain('https://app.example/there'),
    answers({ answer, text }) {
      expect([answer.status, answer.text]).toEqual([200, expect.not.stringContaining('app.example')]);
      expect(text).toContain('Conformance');
    },
  });

oidfModule(`${FAPI}-user-rejects-authentication`, 'access_denied is reported to the client', {
  look: async () => {
    const browser = openBrowser();
    const consent = await signUp(browser, await browser.open((await ask()).url), newPerson('oidf'));
    return (await deny(browser, consent)).answer;
  },
  asks: mustBeToldTheClient('access_denied'),
});

/** Returns what a signed-in person sees. */
async function openSignedIn(overrides: AuthorizationParameters['overrides']) {
  const [browser, person] = [openBrowser(), newPerson('oidf')];
  await signUpAndAllow(browser, (await ask()).url, person);
  const page = await browser.open((await ask(overrides)).url);
  return { page, decide: () => allow(browser, page, { agent: person.handle }) };
}
oidfModule('oidcc-prompt-login', 'prompt=login for a signed-in person', {
  look: () => openSignedIn({ prompt: 'login' }),
  asks: ({ page }) => expect(page.text).toMatch(/password/i),
  answers: ({ page }) => expect([page.answer.status, page.text]).toEqual([200, expect.stringMatching(/allow/i)]),
});
oidfModule('oidcc-prompt-none-logged-in', 'prompt=none for a signed-in person', {
  look: async () => {
    const { page, decide } = await openSignedIn({ prompt: 'none' });
    return { page, decided: (await decide()).answer };
  },
  asks: ({ page }) => expect(redirectParameters(page.answer).get('code')).toEqual(expect.any(String)),
  answers({ page, decided }) {
    expect(page.answer.status).toBe(200);
    expect(redirectParameters(decided).get('code')).toEqual(expect.any(String));
  },
});
oidfModule('oidcc-prompt-none-not-logged-in', 'prompt=none for a stranger', {
  look: async () => openBrowser().open((await ask({ prompt: 'none' })).url),
  asks: ({ answer }) => expect(redirectParameters(answer).get('error')).toBe('login_required'),
  answers: ({ answer, text }) => expect([answer.status, text]).toEqual([200, expect.stringMatching(/password/i)]),
});
oidfModule('oidcc-ensure-post-request-succeeds', 'a posted request', {
  look: async () => {
    const { url } = await ask();
    return postForm(service.place.authorizeUrl, Object.fromEntries(new URL(url).searchParams));
  },
  asks: ({ status }) => expect(status).toBe(200),
  answers({ status, headers }) {
    expect(status).toBeGreaterThanOrEqual(400);
    expect([status < 500, headers['location']]).toEqual([true, undefined]);
  },
});
oidfModule(`${FAPI}-ensure-unsigned-authorization-request-without-using-par-fails`, 'a request without a push', {
  look: ofRequest({}),
  asks: ({ status }) => expect(status).not.toBe(200),
  answers: ({ status, headers }) => expect([status, headers['location']]).toEqual([200, undefined]),
});
