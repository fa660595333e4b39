import { randomUUID } from 'node:crypto';

import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { actorOf, callApi } from '../support/actors.js';
import { mustDeny, mustRefuse, mustSucceed } from '../support/answers.js';
import { mustGetCode, mustGrant } from '../support/grants.js';
import { request } from '../support/http.js';
import { field, text } from '../support/json.js';
import { redeemCode, refresh } from '../support/oauth.js';
import { until } from '../support/until.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// Every rule of the specification that depends on time, on a service whose clock the test moves. Each test checks a
// boundary: something still holds one second before and no longer holds one second after.

const service = useService({ limits: 'on', clock: 'by hand' });
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Returns the same agent with a new token. */
const refreshed = (actor: Actor): Actor => actorOf(service.place, actor.handle, actor.credentials);
const grantTo = (handle: string) => mustGrant(service.place, service.operator, handle);

rule(
  [
    'spec/Failures/expired',
    'spec/Errors/TOKEN_EXPIRED',
    'spec/Constants/access-token',
    'spec/Constants/refresh-threshold',
    'spec/Client/UNAUTHORIZED',
  ],
  'an access token works for 15 minutes, then is 401 TOKEN_EXPIRED, and a new one works',
  async () => {
    const alice = await service.actor('alice');
    await alice.get('/agents/me');
    service.advance(14 * MINUTE);
    mustSucceed(await alice.get('/agents/me'));
    service.advance(59 * SECOND);
    mustSucceed(await alice.get('/agents/me'));
    service.advance(6 * SECOND);
    const answer = await alice.get('/agents/me');
    mustDeny(answer, 401, 'TOKEN_EXPIRED');
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer error="invalid_token"/);
    mustSucceed(await refreshed(alice).get('/agents/me'));
  },
);

rule(['spec/Refresh/socket', 'wire/Live/close-codes'], 'a socket closes with 1008 when its token ends', async () => {
  const alice = await service.actor('alice');
  const socket = await alice.mustConnect();
  service.advance(14 * MINUTE + 50 * SECOND);
  await socket.mustPing();
  service.advance(15 * SECOND);
  expect(await socket.mustBeClosed()).toBe(1008);
  const again = await refreshed(alice).mustConnect();
  await again.mustPing();
  await again.close();
});

rule(
  ['spec/Refresh/idle', 'spec/Failures/refresh-expired', 'spec/Constants/refresh-token'],
  'a refresh token ends after 30 days without use, counted from its last use',
  async () => {
    const alice = await service.actor('alice');
    const grant = await grantTo(alice.handle);
    service.advance(30 * DAY - SECOND);
    const first = mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
    service.advance(30 * DAY - SECOND);
    const second = mustSucceed(await refresh(service.place, grant.clientId, text(first, 'refresh_token')));
    service.advance(30 * DAY + SECOND);
    mustRefuse(await refresh(service.place, grant.clientId, text(second, 'refresh_token')), 401, 'invalid_client');
  },
);

rule('wire/OAuth/code', 'a code ends after 60 seconds', async () => {
  const alice = await service.actor('alice');
  const [early, late] = await Promise.all([1, 2].map(() => mustGetCode(service.place, service.operator, alice.handle)));
  if (early === undefined || late === undefined) throw new Error('unreachable');
  service.advance(59 * SECOND);
  mustSucceed(await redeemCode(service.place, early.clientId, early.code, early.verifier));
  service.advance(2 * SECOND);
  mustRefuse(await redeemCode(service.place, late.clientId, late.code, late.verifier), 400, 'invalid_grant');
});

rule('spec/Idempotency/rule-5', 'for a day, a key returns the first answer; then the request is new', async () => {
  const alice = await service.actor('alice');
  const key = randomUUID();
  const first = text(mustSucceed(await alice.post('/sessions', {}, { key }), 201), 'session_id');
  service.advance(DAY - SECOND);
  const again = mustSucceed(await refreshed(alice).post('/sessions', {}, { key }), 201);
  expect(field(again, 'session_id')).toBe(first);
  service.advance(2 * SECOND);
  const fresh = mustSucceed(await refreshed(alice).post('/sessions', {}, { key }), 201);
  expect(field(fresh, 'session_id')).not.toBe(first);
});

rule(
  ['spec/States/rule-4', 'spec/Constants/pending-attachment'],
  'an unreferenced attachment is gone after an hour; one in a message stays',
  async () => {
    const alice = await service.actor('alice');
    const session = await alice.mustCreate();
    const [pending, used] = [await alice.mustUpload(), await alice.mustUpload()];
    await alice.mustSend(session, [{ type: 'file', attachment_id: used }]);
    service.advance(59 * MINUTE);
    mustSucceed(await refreshed(alice).get(`/attachments/${pending}`));
    service.advance(MINUTE + SECOND);
    const later = refreshed(alice);
    mustDeny(await later.get(`/attachments/${pending}`), 404, 'NOT_FOUND');
    const content = [{ type: 'file', attachment_id: pending }];
    mustDeny(await later.post(`/sessions/${session}/messages`, { content }), 404, 'NOT_FOUND');
    service.advance(DAY);
    mustSucceed(await refreshed(alice).get(`/attachments/${used}`));
  },
);

rule(
  ['spec/Constants/download-url', 'wire/Attachments/url'],
  'a download address ends after five minutes',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustUpload();
    const url = text(mustSucceed(await alice.get(`/attachments/${id}`)), 'url');
    service.advance(4 * MINUTE + 59 * SECOND);
    expect((await request(url)).status).toBe(200);
    service.advance(12 * SECOND);
    expect((await request(url)).status).toBe(404);
    const fresh = text(mustSucceed(await alice.get(`/attachments/${id}`)), 'url');
    expect((await request(fresh)).status).toBe(200);
  },
);

rule(
  ['spec/Rate/back-off', 'spec/Client/RATE_LIMITED', 'spec/Errors/retry-after'],
  'waiting exactly Retry-After is enough, a second less is not',
  async () => {
    const alice = await service.actor('alice');
    const attempts: (() => Promise<{ status: number; headers: Readonly<Record<string, string | undefined>> }>)[] = [
      () => refreshed(alice).post('/sessions', {}),
      () => refreshed(alice).get('/search/agents?q=ab'),
    ];
    for (const attempt of attempts) {
      let answer = await attempt();
      for (let count = 0; answer.status !== 429; count += 1) {
        if (count > 40) throw new Error('never limited');
        service.advance(733);
        answer = await attempt();
      }
      const waitS = Number(answer.headers['retry-after']);
      if (waitS > 1) {
        service.advance((waitS - 1) * SECOND);
        expect((await attempt()).status).toBe(429);
        service.advance(SECOND);
      } else service.advance(waitS * SECOND);
      expect((await attempt()).status).not.toBe(429);
    }
  },
);

rule(['spec/Rate/send', 'spec/Client/RATE_LIMITED'], 'refused calls do not extend the wait', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  for (let count = 0; count < 60; count += 1) await alice.mustSend(id, 'x');
  for (let count = 0; count < 20; count += 1)
    mustDeny(await alice.post(`/sessions/${id}/messages`, { content: 'x' }), 429, 'RATE_LIMITED');
  service.advance(30 * SECOND);
  const refused = await alice.post(`/sessions/${id}/messages`, { content: 'x' });
  mustDeny(refused, 429, 'RATE_LIMITED');
  expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(30);
  service.advance(30 * SECOND);
  await alice.mustSend(id, 'again');
});

rule('spec/Refresh/stateless', 'after reuse ends its family, a socket stays open until its token expires', async () => {
  const alice = await service.actor('alice');
  const { baseUrl, wsUrl } = service.place;
  const grant = await mustGrant(service.place, service.operator, alice.handle, { resource: [baseUrl, wsUrl] });
  const socket = await alice.mustConnect(grant.accessToken);
  mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
  mustRefuse(await refresh(service.place, grant.clientId, grant.refreshToken), 401, 'invalid_client');
  service.advance(14 * MINUTE);
  await socket.mustPing();
  mustSucceed(await callApi(baseUrl, grant.accessToken, 'GET', '/agents/me'));
  service.advance(MINUTE + 5 * SECOND);
  expect(await socket.mustBeClosed()).toBe(1008);
});

rule('spec/Attachment/private', 'the bytes of a removed attachment are removed with it', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustUpload();
  service.advance(58 * MINUTE);
  const url = text(mustSucceed(await refreshed(alice).get(`/attachments/${id}`)), 'url');
  service.advance(2 * MINUTE + SECOND);
  // The address itself is valid for three minutes.
  let waited = 0;
  await until('the bytes are gone', async () => {
    waited += 5 * SECOND;
    expect(waited).toBeLessThan(2 * MINUTE + 30 * SECOND);
    service.advance(5 * SECOND);
    return (await request(url)).status === 404;
  });
});
