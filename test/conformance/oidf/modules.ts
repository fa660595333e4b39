/**
 * The modules of the OpenID Foundation's conformance suite (openid-certification/conformance-suite: the plans
 * `oidcc-basic-`, `oidcc-config-`, `oidcc-dynamic-certification-test-plan`, and
 * `fapi2-security-profile-final-test-plan`) as far as they apply to this service, which is an OAuth 2.1 authorization
 * server and not an OpenID provider (D-123). For each module that applies, `../oidf*.test.ts` has a test with its name.
 */

/**
 * What a module expects, what this service answers on purpose, and the decision that gives the reason (docs/decisions).
 */
export interface ExpectedDifference {
  readonly asks: string;
  readonly answers: string;
  readonly decision: string;
}

/** Reviewed. A test asserts both halves of each difference, so remove it from this list when it disappears. */
export const EXPECTED_DIFFERENCES: Readonly<Record<string, ExpectedDifference>> = {
  'oidcc-server': { asks: 'an ID token', answers: 'the same flow without one', decision: 'D-123' },
  'oidcc-discovery-endpoint-verification': {
    asks: 'the metadata of an OpenID provider',
    answers: 'RFC 8414 metadata at its own address',
    decision: 'D-123',
  },
  'oidcc-prompt-login': {
    asks: 'that a signed-in person signs in again',
    answers: 'the consent page: prompt is unknown here',
    decision: 'D-123',
  },
  'oidcc-prompt-none-not-logged-in': {
    asks: 'error login_required without a page',
    answers: 'the sign-in page: prompt is unknown here',
    decision: 'D-123',
  },
  'oidcc-prompt-none-logged-in': {
    asks: 'a code without a page',
    answers: 'the consent page: consent is asked every time',
    decision: 'D-123',
  },
  'oidcc-ensure-post-request-succeeds': {
    asks: 'that a request may be posted',
    answers: 'a refusal: what is posted there is the answer of the consent page',
    decision: 'D-123',
  },
  'oidcc-registration-logo-uri': {
    asks: 'the logo on the page',
    answers: 'a page without anything from elsewhere',
    decision: 'D-124',
  },
  'oidcc-registration-policy-uri': {
    asks: 'a link to the policy on the page',
    answers: 'a page without links to elsewhere',
    decision: 'D-124',
  },
  'oidcc-registration-tos-uri': {
    asks: 'a link to the terms on the page',
    answers: 'a page without links to elsewhere',
    decision: 'D-124',
  },
  'oidcc-codereuse-30seconds': {
    asks: 'that the access token of the first use is refused from then on',
    answers: 'it lives to its end, at most 15 minutes; the refresh token is dead',
    decision: 'D-49',
  },
  'fapi2-security-profile-final-discovery-end-point-verification': {
    asks: 'pushed requests, sender-constrained tokens, private_key_jwt',
    answers: 'S256 and iss in the answer, and none of these',
    decision: 'D-125',
  },
  'fapi2-security-profile-final-ensure-unsigned-authorization-request-without-using-par-fails': {
    asks: 'a refusal of requests that were not pushed',
    answers: 'the page: PKCE, exact redirect URIs and iss carry the weight',
    decision: 'D-125',
  },
  'fapi2-security-profile-final-ensure-holder-of-key-required': {
    asks: 'a proof of possession with every access token',
    answers: 'bearer tokens, as the specification has them',
    decision: 'D-125',
  },
  'fapi2-security-profile-final-refresh-token': {
    asks: 'refresh tokens that stay the same',
    answers: 'a new one at every use, as the specification has them',
    decision: 'D-26',
  },
};

/** Modules whose tests need access to the service's internals. Those tests have the modules' names. */
export const TESTED_ELSEWHERE: Readonly<Record<string, string>> = {
  'oidcc-server-rotate-keys': 'test/service/access-token/access-token.test.ts',
};

/** Modules that do not apply here, by reason. */
export const NOT_APPLICABLE: Readonly<Record<string, readonly string[]>> = {
  'there are no ID tokens and no user information': [
    'oidcc-idtoken-signature',
    'oidcc-idtoken-unsigned',
    'oidcc-idtoken-rs256',
    'oidcc-userinfo-get',
    'oidcc-userinfo-post-header',
    'oidcc-userinfo-post-body',
    'oidcc-userinfo-rs256',
    'oidcc-scope-profile',
    'oidcc-scope-email',
    'oidcc-scope-address',
    'oidcc-scope-phone',
    'oidcc-scope-all',
    'oidcc-claims-essential',
    'oidcc-id-token-hint',
    'oidcc-max-age-1',
    'oidcc-max-age-10000',
    'oidcc-registration-sector-uri',
    'oidcc-registration-sector-bad',
  ],
  'there are no request objects; the suite skips these where the metadata names none': [
    'oidcc-request-uri-unsigned',
    'oidcc-request-uri-signed-rs256',
    'oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported',
    'oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported',
    'oidcc-ensure-request-object-with-redirect-uri',
    'fapi2-security-profile-final-ensure-different-state-inside-and-outside-request-object',
    'fapi2-security-profile-final-ensure-different-nonce-inside-and-outside-request-object',
    'fapi2-security-profile-final-state-only-outside-request-object-not-used',
    'fapi2-security-profile-final-ensure-request-object-without-redirect-uri-fails',
  ],
  'clients have no keys: public with PKCE, or confidential with a secret for client_credentials alone': [
    'oidcc-server-client-secret-post',
    'oidcc-registration-jwks-uri',
    'oidcc-refresh-token-rp-key-rotation',
    'oidcc-ensure-client-assertion-with-iss-aud-succeeds',
    'fapi2-security-profile-final-ensure-client-assertion-in-token-endpoint',
    'fapi2-security-profile-final-ensure-invalid-client-assertions-fail',
  ],
  'there is no DPoP': [
    'fapi2-security-profile-final-ensure-mismatched-dpop-jkt-fails',
    'fapi2-security-profile-final-ensure-token-endpoint-fails-with-mismatched-dpop-proof-jkt',
    'fapi2-security-profile-final-dpop-negative-tests',
    'fapi2-security-profile-final-happy-flow',
  ],
  'there are no pushed requests': [
    'fapi2-security-profile-final-par-attempt-reuse-request_uri',
    'fapi2-security-profile-final-par-attempt-to-use-expired-request_uri',
    'fapi2-security-profile-final-par-attempt-to-use-request_uri-for-different-client',
    'fapi2-security-profile-final-par-ensure-reused-request-uri-prior-to-auth-completion-succeeds',
    'fapi2-security-profile-final-par-attempt-invalid-http-method',
    'fapi2-security-profile-final-par-authorization-request-containing-request_uri-form-param',
    'fapi2-security-profile-final-par-without-duplicate-parameters',
    'fapi2-security-profile-final-plain-fapi-tolerate-unregistered-redirect-uri',
  ],
};
