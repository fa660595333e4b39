import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { mustDeny } from '../../support/answers.js';
import { createTestClock } from '../../support/clock.js';
import { type Answer, request } from '../../support/http.js';
import { field, list } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';

const MARIA = 'm'.repeat(32);
const SCRIPT = 's'.repeat(40);
const TOKENS = [
  { name: 'maria', token: MARIA },
  { name: '', token: SCRIPT },
];
const REMOTE = { host: '127.0.0.1', port: 0, tokens: TOKENS };

describe('operators on other machines', () => {
  const clock = createTestClock();
  const security: { readonly event: string; readonly fields: object }[] = [];
  const silent = { info: () => {}, warn: () => {}, error: () => {} };
  const log = { ...silent, security: (event: string, fields: object) => void security.push({ event, fields }) };
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({ clock, log, remoteOperators: REMOTE });
    await service.createAgent('alice');
  });
  afterAll(() => service.stop());

  const ask = (method: string, path: string, token?: string, more: object = {}): Promise<Answer> => {
    const { body, ...headers } = more as { body?: object };
    return request(`${service.remoteOperatorUrl}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
  };

  it('are not served by default, nor on the port of the service', async () => {
    const usual = await startTestService();
    expect(usual.remoteOperatorUrl).toBeUndefined();
    await usual.stop();
    const own = `${service.operatorUrl}/status`;
    mustDeny(await request(own, { headers: { authorization: `Bearer ${MARIA}` } }), 401, 'UNAUTHORIZED');
  });

  it('can do what operators on this machine can, with any of the tokens, and through a tunnel', async () => {
    for (const token of [MARIA, SCRIPT]) {
      expect((await ask('GET', '/status', token)).status).toBe(200);
      expect(list((await ask('GET', '/agents', token, { host: 'tunnel.example:9000' })).json, 'agents')).toHaveLength(
        1,
      );
      expect((await ask('GET', '/accounts', token, { 'x-forwarded-for': '198.51.100.7' })).status).toBe(200);
    }
    const added = await ask('POST', '/agents', MARIA, { body: { handle: '@bob.bot', inbound_policy: 'open' } });
    expect(field(added.json, 'handle')).toBe('@bob.bot');
  });

  it('cannot do what needs the machine', async () => {
    for (const path of ['/stop', '/sign-in-links', '/clock', '/events'])
      mustDeny(await ask('POST', path, MARIA, { body: {} }), 404, 'NOT_FOUND');
  });

  it('appear in the security log with the name of the token and the address', async () => {
    security.length = 0;
    await ask('PATCH', '/accounts/bob', MARIA, { body: { suspended: true } });
    await ask('PATCH', '/accounts/bob', SCRIPT, { body: { suspended: false } });
    const fields = { operation: 'updateOperatorAccount', target: 'bob', address: '127.0.0.1', outcome: 'done' };
    expect(security).toMatchObject([
      { event: 'operator_acted', fields: { ...fields, operator_token: 'maria' } },
      { event: 'operator_acted', fields: { ...fields, operator_token: '' } },
    ]);
  });

  it('get 401 for wrong tokens and, after 20 in a minute, 429 for the right one too', async () => {
    security.length = 0;
    mustDeny(await ask('GET', '/status'), 401, 'UNAUTHORIZED');
    const wrong = [service.operatorSecret, MARIA.slice(1), `${MARIA}x`, 'maria'];
    for (let count = 0; count < 20; count += 1)
      mustDeny(await ask('GET', '/status', wrong[count % wrong.length]), 401, 'UNAUTHORIZED');
    expect(security).toHaveLength(20);
    expect(security[0]).toMatchObject({
      event: 'operator_refused',
      fields: { address: '127.0.0.1', outcome: 'wrong_token' },
    });
    for (const token of ['x'.repeat(32), MARIA]) {
      const refused = await ask('GET', '/status', token);
      mustDeny(refused, 429, 'RATE_LIMITED');
      expect(refused.headers['retry-after']).toBe('60');
    }
    clock.advance(60_000);
    expect((await ask('GET', '/status', MARIA)).status).toBe(200);
  });

  it('behind a proxy, are told apart by the address that it names', async () => {
    const proxied = await startTestService({ isBehindProxy: true, remoteOperators: REMOTE });
    const statusFor = async (address: string, token: string): Promise<number> =>
      (
        await request(`${proxied.remoteOperatorUrl}/status`, {
          headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': address },
        })
      ).status;
    for (let count = 0; count < 20; count += 1) expect(await statusFor('198.51.100.7', 'wrong')).toBe(401);
    expect(await statusFor('198.51.100.7', MARIA)).toBe(429);
    expect(await statusFor('198.51.100.8', MARIA)).toBe(200);
    await proxied.stop();
  });

  it('are no longer served when the service has stopped', async () => {
    const other = await startTestService({ remoteOperators: REMOTE });
    await other.stop();
    await expect(request(`${other.remoteOperatorUrl}/status`)).rejects.toThrow();
  });
});
