import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';

import type { ServiceOptions } from '../../../src/service/service.js';
import { operate } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import { createTestClock } from '../../support/clock.js';
import { type Answer, request } from '../../support/http.js';
import { text } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';

const SEEDS = [{ handle: '@zoe.bot' as const }, { handle: '@alice.bot' as const }];

describe('a link that signs in as a local account', () => {
  let service: TestService;
  afterEach(() => service.stop());
  const start = async (options: Partial<ServiceOptions> = {}): Promise<void> => {
    service = await startTestService({ seeds: SEEDS, ...options });
  };
  const ask = (body: object): Promise<Answer> =>
    request(`${service.operatorUrl}/sign-in-links`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.operatorSecret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const mustMake = async (body: object = {}): Promise<string> => text((await ask(body)).json, 'url');
  const dashboardOf = async (answer: Answer): Promise<string> => {
    const cookie = answer.setCookies.map((one) => one.split(';')[0]).join('; ');
    return (await request(`${service.webUrl}/dashboard/agents`, { headers: { cookie } })).text;
  };

  it('signs in once, as the account of the first seed, and opens the dashboard', async () => {
    await start();
    const made = await ask({});
    expect(made.json).toMatchObject({ account: 'zoe', expires_at: expect.any(Number) });
    const url = text(made.json, 'url');
    expect(url).not.toContain(service.operatorSecret);
    const entered = await request(url);
    expect(entered).toMatchObject({
      status: 303,
      headers: { location: '/dashboard', 'referrer-policy': 'no-referrer' },
    });
    expect(await dashboardOf(entered)).toContain('@zoe.bot');
    const again = await request(url);
    expect(again.status).toBe(403);
    expect(again.setCookies).toEqual([]);
    expect(again.text).toContain('This link has expired');
  });

  it('opens the operator’s area if the account is an operator, and otherwise says how to make it one', async () => {
    await start();
    const refused = await ask({ operator: true });
    mustDeny(refused, 400, 'VALIDATION_ERROR');
    expect(refused.text).toContain('asp serve account operator zoe yes');
    const operator = { url: service.operatorUrl, secret: service.operatorSecret };
    await operate(operator, 'PATCH', '/accounts/zoe', { operator: true });
    const entered = await request(await mustMake({ operator: true }));
    expect([entered.status, entered.headers['location']]).toEqual([303, '/dashboard/operator']);
  });

  it('signs in as the account that is named, or as the only one', async () => {
    await start();
    expect(await dashboardOf(await request(await mustMake({ account: 'alice' })))).toContain('@alice.bot');
    await service.stop();
    await start({ seeds: [{ handle: '@only.one' }] });
    expect(await dashboardOf(await request(await mustMake()))).toContain('@only.one');
  });

  it('is refused if several accounts exist and none is named, and for a missing one', async () => {
    await start({ seeds: [] });
    mustDeny(await ask({}), 400, 'VALIDATION_ERROR');
    for (const handle of ['@one.bot', '@two.bot']) await operate(service.operator, 'POST', '/agents', { handle });
    const several = await ask({});
    mustDeny(several, 400, 'VALIDATION_ERROR');
    expect(several.text).toContain('one, two');
    mustDeny(await ask({ account: 'three' }), 400, 'VALIDATION_ERROR');
    mustDeny(await ask({ account: '' }), 400, 'VALIDATION_ERROR');
  });

  it.skipIf(process.platform !== 'linux' || process.getuid?.() !== 0)(
    'works for the user who runs the service, and not for another who sees it on a command line',
    async () => {
      await start();
      const url = await mustMake();
      const script = "fetch(process.argv[1], { redirect: 'manual' }).then(({ status }) => console.log(status))";
      const visitAs = async (uid: number): Promise<string> =>
        (await promisify(execFile)(process.execPath, ['-e', script, url], { uid, cwd: '/' })).stdout.trim();
      expect(await visitAs(65_534)).toBe('403');
      expect(await visitAs(0)).toBe('303');
    },
  );

  it('is mentioned on the sign-in page for people at this machine, if there is a local account', async () => {
    await start();
    const ask = async (headers: Record<string, string> = {}): Promise<string> =>
      (await request(`${service.webUrl}/oauth/sign-in`, { headers })).text;
    expect(await ask()).toContain('<code>asp serve open</code>');
    expect(await ask({ 'x-forwarded-for': '192.0.2.1' })).not.toContain('asp serve open');
    await service.stop();
    await start({ seeds: [] });
    expect(await ask()).not.toContain('asp serve open');
  });

  it('is dead after a minute', async () => {
    const clock = createTestClock();
    await start({ clock });
    const url = await mustMake();
    clock.advance(60_001);
    expect((await request(url)).status).toBe(403);
  });

  it('does not work through a proxy, and is not created if pages have another address', async () => {
    await start();
    const url = await mustMake();
    expect((await request(url, { headers: { 'x-forwarded-for': '192.0.2.1' } })).status).toBe(403);
    expect((await request(url)).status).toBe(303);
    await service.stop();
    await start({ isBehindProxy: true });
    mustDeny(await ask({}), 400, 'VALIDATION_ERROR');
  });

  it('gets the page of a dead link if it is invented', async () => {
    await start();
    for (const query of ['', '?once=', '?once=x', `?once=${service.operatorSecret}`])
      expect((await request(`${service.webUrl}/oauth/sign-in-link${query}`)).status).toBe(403);
    expect((await request(`${service.webUrl}/oauth/sign-in-link`, { method: 'POST' })).status).toBe(405);
  });
});
