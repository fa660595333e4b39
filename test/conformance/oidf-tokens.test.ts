import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, test } from 'vitest';

import { callApi } from '../support/actors.js';
import { type Code, mustGetCode, mustGrant } from '../support/grants.js';
import { type Answer, postForm, request } from '../support/http.js';
import { field, text } from '../support/json.js';
import { createVerifier, mustRegister, redeemCode, refresh } from '../support/oauth.js';
import { EXPECTED_DIFFERENCES, NOT_APPLICABLE, TESTED_ELSEWHERE } from './oidf/modules.js';
import { oidfModule, reportVerdicts } from './oidf/oidf-module.js';
import { useService } from './service.js';

// The modules of the OpenID Foundation's suite for the token endpoint and the use of its tokens, and checks of the
// lists in oidf/modules.ts. oidf-time.test.ts has the modules that need time to pass.

const service = useService();
reportVerdicts('oidf-tokens');

const FAPI = 'fapi2-security-profile-final';

async function getCode(clientId?: string): Promise<Code> {
  const { handle } = await service.actor('oidf');
  return mustGetCode(service.place, service.operator, handle, clientId === undefined ? {} : { clientId });
}
async function grant() {
  const { handle } = await service.actor('oidf');
  return mustGrant(service.place, service.operator, handle);
}
const mustBe =
  (...errors: string[]) =>
  (answer: Answer): void => {
    expect([answer.status, answer.text]).toEqual([expect.toBeOneOf([400, 401]), expect.stringContaining('error')]);
    expect(field(answer.json, 'error')).toBeOneOf(errors);
    expect(answer.json).not.toHaveProperty('access_token');
  };

oidfModule('oidcc-codereuse', 'a code is good for one use', {
  look: async () => {
    const { clientId, code, verifier } = await getCode();
    const first = await redeemCode(service.place, clientId, code, verifier);
    return { first, second: await redeemCode(service.place, clientId, code, verifier) };
  },
  asks({ first, second }) {
    expect(first.status).toBe(200);
    mustBe('invalid_grant')(second);
  },
});

oidfModule(`${FAPI}-ensure-authorization-code-is-bound-to-client`, 'another client cannot use a code', {
  look: async () => {
    const { code, verifier } = await getCode();
    return redeemCode(service.place, await mustRegister(service.place), code, verifier);
  },
  asks: mustBe('invalid_grant', 'invalid_client'),
});

oidfModule(`${FAPI}-ensure-client-id-in-token-endpoint`, 'a token request names its client', {
  look: async () => {
    const { code, verifier } = await getCode();
    return redeemCode(service.place, '', code, verifier, { client_id: undefined });
  },
  asks: mustBe('invalid_client', 'invalid_request'),
});

oidfModule(`${FAPI}-ensure-pkce-code-verifier-required`, 'no code without its verifier', {
  look: async () => {
    const { clientId, code } = await getCode();
    return redeemCode(service.place, clientId, code, '', { code_verifier: undefined });
  },
  asks: mustBe('invalid_grant', 'invalid_request'),
});

oidfModule(`${FAPI}-incorrect-pkce-code-verifier-rejected`, 'no code with another verifier', {
  look: async () => {
    const { clientId, code } = await getCode();
    return redeemCode(service.place, clientId, code, createVerifier().verifier);
  },
  asks: mustBe('invalid_grant', 'invalid_request'),
});

oidfModule('oidcc-refresh-token', 'a refresh token works only for its own client', {
  look: async () => {
    const { clientId, accessToken, refreshToken } = await grant();
    const foreign = await refresh(service.place, await mustRegister(service.place), refreshToken);
    const own = await refresh(service.place, clientId, refreshToken);
    const used = await callApi(service.place.baseUrl, text(own.json, 'access_token'), 'GET', '/agents/me');
    return { accessToken, foreign, own, used };
  },
  asks({ accessToken, foreign, own, used }) {
    mustBe('invalid_grant', 'invalid_client', 'invalid_request')(foreign);
    expect([own.status, field(own.json, 'token_type'), used.status]).toEqual([200, 'Bearer', 200]);
    expect(field(own.json, 'access_token')).not.toBe(accessToken);
  },
});

oidfModule(`${FAPI}-refresh-token`, 'a refresh token before and after its use', {
  look: async () => {
    const { clientId, refreshToken } = await grant();
    const first = await refresh(service.place, clientId, refreshToken);
    const again = await refresh(service.place, clientId, text(first.json, 'refresh_token'));
    const anonymous = await postForm(service.place.tokenUrl, {
      grant_type: 'refresh_token',
      refresh_token: text(again.json, 'refresh_token'),
      resource: service.place.baseUrl,
    });
    return { refreshToken, first, again, anonymous };
  },
  asks: ({ refreshToken, first }) =>
    expect(field(first.json, 'refresh_token') ?? refreshToken, 'the refresh token').toBe(refreshToken),
  answers({ refreshToken, first, again, anonymous }) {
    const given = [refreshToken, text(first.json, 'refresh_token'), text(again.json, 'refresh_token')];
    expect(new Set(given).size).toBe(3);
    mustBe('invalid_client', 'invalid_request')(anonymous);
  },
});

const askMe = (accessToken: string, scheme: string): Promise<Answer> =>
  request(`${service.place.baseUrl}/agents/me`, { headers: { authorization: `${scheme} ${accessToken}` } });

oidfModule(`${FAPI}-access-token-type-header-case-sensitivity`, 'the scheme may be in any case', {
  look: async () => {
    const { accessToken } = await grant();
    return Promise.all(['Bearer', 'bearer', 'bEaReR'].map((scheme) => askMe(accessToken, scheme)));
  },
  asks: (answers) => expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]),
});

oidfModule(`${FAPI}-ensure-holder-of-key-required`, 'an access token without a proof', {
  look: async () => askMe((await grant()).accessToken, 'Bearer'),
  asks: ({ status }) => expect(status).toBeGreaterThanOrEqual(400),
  answers: ({ status }) => expect(status).toBe(200),
});

describe('The lists of modules', () => {
  const folder = fileURLToPath(new URL('.', import.meta.url));
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const named = (text: string): string[] =>
    [...text.matchAll(/(['`])((?:oidcc-|\$\{FAPI\}-)[\w-]+)\1/g)].map(([, , name = '']) =>
      name.replace(`\${FAPI}`, FAPI),
    );
  const files = readdirSync(folder).filter((name) => /^oidf.*\.test\.ts$/.test(name));
  const tested = new Set(files.flatMap((name) => named(readFileSync(`${folder}${name}`, 'utf8'))));

  test('no module is on two lists, and a module with a test is not listed as inapplicable', () => {
    const elsewhere = [...Object.keys(TESTED_ELSEWHERE), ...Object.values(NOT_APPLICABLE).flat()];
    expect(new Set(elsewhere).size).toBe(elsewhere.length);
    const listed = elsewhere.filter((name) => tested.has(name) && !TESTED_ELSEWHERE[name]);
    expect(listed).toEqual([]);
  });

  test('every expected difference has its test and its decision', () => {
    const topics = readdirSync(`${root}docs/decisions`).map((topic) =>
      readFileSync(`${root}docs/decisions/${topic}`, 'utf8'),
    );
    const headings = topics.join('\n').matchAll(/^## (D-\d+):/gm);
    const decisions = new Set([...headings].map(([, number = '']) => number));
    for (const [name, { decision }] of Object.entries(EXPECTED_DIFFERENCES)) {
      expect([name, tested.has(name)]).toEqual([name, true]);
      expect([decision, decisions.has(decision)]).toEqual([decision, true]);
    }
  });

  test('a module that is tested elsewhere has a test with its name there', () => {
    for (const [name, file] of Object.entries(TESTED_ELSEWHERE)) {
      expect(existsSync(`${root}${file}`), file).toBe(true);
      expect(readFileSync(`${root}${file}`, 'utf8')).toContain(`'${name}`);
    }
  });
});
