import { expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustGetCode } from '../support/grants.js';
import type { Answer } from '../support/http.js';
import { field, text } from '../support/json.js';
import { redeemCode, refresh } from '../support/oauth.js';
import { oidfModule, reportVerdicts } from './oidf/oidf-module.js';
import { useService } from './service.js';

// The modules of the OpenID Foundation's suite that wait, on a service whose clock the test moves; see oidf/modules.ts.

const service = useService({ clock: 'by hand' });
reportVerdicts('oidf-time');

const FAPI = 'fapi2-security-profile-final';
const SECOND = 1000;

/** Uses a code twice. Returns what the tokens from the first use are good for after the second. */
async function useTwice(pauseMs: number) {
  const { handle } = await service.actor('oidf');
  const { clientId, code, verifier } = await mustGetCode(service.place, service.operator, handle);
  const first = await redeemCode(service.place, clientId, code, verifier);
  service.advance(pauseMs);
  const second = await redeemCode(service.place, clientId, code, verifier);
  const refreshed = await refresh(service.place, clientId, text(first.json, 'refresh_token'));
  const used = await callApi(service.place.baseUrl, text(first.json, 'access_token'), 'GET', '/agents/me');
  return { first, second, refreshed, used };
}

function mustBeInvalidGrant(answer: Answer): void {
  expect([answer.status, field(answer.json, 'error')]).toEqual([400, 'invalid_grant']);
}

oidfModule('oidcc-codereuse-30seconds', 'a second use 30 seconds later ends the refresh token, not the access token', {
  look: () => useTwice(30 * SECOND),
  asks: ({ used }) => expect(used.status).toBeGreaterThanOrEqual(400),
  answers({ first, second, refreshed, used }) {
    expect(first.status).toBe(200);
    mustBeInvalidGrant(second);
    expect([refreshed.status, used.status]).toEqual([401, 200]);
  },
});

oidfModule(`${FAPI}-attempt-reuse-authorization-code-after-one-second`, 'a second use after a second is refused', {
  look: () => useTwice(SECOND),
  asks({ first, second, refreshed }) {
    expect(first.status).toBe(200);
    mustBeInvalidGrant(second);
    expect(refreshed.status).toBe(401);
  },
});

oidfModule(`${FAPI}-ensure-token-endpoint-fails-with-expired-auth-code`, 'an expired code is refused', {
  look: async () => {
    const { handle } = await service.actor('oidf');
    const { clientId, code, verifier } = await mustGetCode(service.place, service.operator, handle);
    service.advance(61 * SECOND);
    return redeemCode(service.place, clientId, code, verifier);
  },
  asks: mustBeInvalidGrant,
});
