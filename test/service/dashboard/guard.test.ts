import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { PAGE_ROWS } from '../../../src/service/web/dashboard/dashboard.js';
import { openBrowser, type Page } from '../../support/browser.js';
import { formBody, request } from '../../support/http.js';
import { mustFindForm, signIn } from '../../support/person.js';
import { bodyOf, cookieOf, csrfOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
let eve: Visitor;
beforeAll(async () => {
  stage = await openStage({ webhooks: 'any' });
  [ada, eve] = [await stage.enter('ada'), await stage.enter('eve')];
});
afterAll(() => stage.close());

const filled = (path: string): string => path.replace(':name', 'main').replace(/:\w+/, 'none');
const shown = PAGE_ROWS.filter(({ show }) => show !== undefined).map(({ path }) => path);
const acting = PAGE_ROWS.filter(({ act }) => act !== undefined).map(({ path }) => path);

const cookiesOf = (visitor: Visitor): Record<string, string> => ({ cookie: cookieOf(visitor) });
const post = (path: string, headers: Record<string, string>, fields: Record<string, string> = {}) =>
  request(`${stage.web}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: formBody(fields),
  });

describe('Who is let in', () => {
  it.each(shown)('%s asks a stranger to sign in, and then continues there', async (path) => {
    const asked = await request(`${stage.web}${filled(path)}?after=x`);
    expect([asked.status, asked.text]).toEqual([303, '']);
    const browser = openBrowser();
    const page = await browser.open(`${stage.web}${filled(path)}`);
    expect(pathOf(page)).toBe('/oauth/sign-in');
    if (path !== '/dashboard/clients') return;
    const arrived = await signIn(browser, page, ada);
    expect(pathOf(arrived)).toBe(path);
  });

  it('leads back to the view of one agent after a sign-in', async () => {
    const answer = await post('/dashboard/sessions/none/end?as=main&x=1', {});
    const onward = decodeURIComponent(answer.headers['location'] ?? '');
    expect(onward).toMatch(/\/dashboard\/sessions\/none\/end\?as=main$/);
  });

  it.each(acting)('%s does nothing for a stranger', async (path) => {
    const answer = await post(filled(path), {});
    expect([answer.status, answer.headers['location']?.split('?')[0]]).toEqual([303, '/oauth/sign-in']);
  });

  it('the web origin leads to the dashboard', async () => {
    expect(pathOf(await ada.open('/'))).toBe('/dashboard/agents');
  });

  it.each([
    'https://evil.example/',
    '//evil.example/dashboard',
    '/\\evil.example',
    '/dashboard//evil.example',
    '/dashboard/../oauth/sign-in',
    '/dashboard/%2e%2e/oauth/authorize?client_id=x',
    '/dashboard/agents/%2E%2E/%2e./oauth/sign-in-link?once=x',
    '/dashboardx',
    '/oauth/sign-out',
    '/dashboard/\r\nx',
    `/dashboard/${'a'.repeat(600)}`,
  ])('signing in never leads to %j', async (address) => {
    const browser = openBrowser();
    const page = await browser.open(`${stage.web}/oauth/sign-in?return_to=${encodeURIComponent(address)}`);
    const arrived = await signIn(browser, page, ada);
    expect(arrived.url).toBe(`${stage.web}/dashboard/agents`);
    const again = await browser.open(`${stage.web}/oauth/sign-in?return_to=${encodeURIComponent(address)}`);
    expect(again.url).toBe(`${stage.web}/dashboard/agents`);
  });

  it('a signed-out browser is a stranger, even with the old cookie', async () => {
    const zoe = await stage.enter('zoe');
    const before = cookiesOf(zoe);
    const left = await zoe.press('/dashboard/agents', /^sign out$/i);
    expect(pathOf(left)).toBe('/oauth/sign-in');
    const answer = await request(`${stage.web}/dashboard/agents`, { headers: before });
    expect(answer.status).toBe(303);
  });
});

describe('Forms', () => {
  it.each(acting)('%s accepts no form without its secret, or from elsewhere', async (path) => {
    const own = cookiesOf(ada);
    const csrf = await csrfOf(ada);
    const answers = [
      await post(filled(path), own),
      await post(filled(path), own, { csrf: 'wrong' }),
      await post(filled(path), own, { csrf: await csrfOf(eve) }),
      await post(filled(path), { ...own, origin: 'https://evil.example' }, { csrf }),
      await post(filled(path), { ...own, 'sec-fetch-site': 'cross-site' }, { csrf }),
      await post(filled(path), { ...own, origin: 'null' }, { csrf }),
    ];
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 403));
    for (const { text } of answers) expect(text).toContain('href="/dashboard"');
  });

  it('no change can be made with GET', async () => {
    const showing = new Set(shown);
    for (const path of acting.filter((one) => !showing.has(one))) {
      const answer = await request(`${stage.web}${filled(path)}`, { headers: cookiesOf(ada) });
      expect([path, answer.status, answer.headers['allow']]).toEqual([path, 405, 'POST']);
    }
    expect((await ada.open('/dashboard/agents')).text).toContain(ada.handle);
  });

  it('a page answers 405 to every method that it does not have, whatever is sent', async () => {
    const json = { headers: { ...cookiesOf(ada), 'content-type': 'application/json' }, body: '{}' };
    for (const path of new Set([...shown, ...acting])) {
      const allowed = [...(shown.includes(path) ? ['GET'] : []), ...(acting.includes(path) ? ['POST'] : [])];
      for (const method of ['HEAD', 'GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter(
        (one) => !allowed.includes(one),
      )) {
        const sent = ['HEAD', 'GET'].includes(method) ? { headers: cookiesOf(ada) } : json;
        const answer = await request(`${stage.web}${filled(path)}`, { method, ...sent });
        expect([method, path, answer.status, answer.headers['allow']]).toEqual([method, path, 405, allowed.join(', ')]);
        expect(answer.headers['content-type']).toBe('text/html; charset=utf-8');
      }
    }
  });

  it('a form with a repeated field is refused', async () => {
    const csrf = await csrfOf(ada);
    const answer = await request(`${stage.web}/dashboard/new-agent`, {
      method: 'POST',
      headers: { ...cookiesOf(ada), 'content-type': 'application/x-www-form-urlencoded' },
      body: `csrf=${csrf}&key=k&name=one&name=two&display_name=x`,
    });
    expect(answer.status).toBe(400);
    expect((await ada.open('/dashboard/agents')).text).not.toContain(`@${ada.username}.one`);
  });
});

describe('A form whose sign-in has ended', () => {
  const typed = { name: 'kept', display_name: 'The “kept” one', description: 'Two\nlines' };

  it('keeps what was typed until the same person has signed in again', async () => {
    const zoe = await stage.enter('zoe');
    const page = await zoe.open('/dashboard/new-agent');
    await zoe.press('/dashboard/agents', /^sign out$/i);
    const send = (from: Page, button: RegExp, values = {}) =>
      zoe.browser.submit(from, mustFindForm(from, button), values, button);
    const waiting = await send(page, /^create agent$/i, typed);
    expect([waiting.answer.status, waiting.text.includes('You were signed out')]).toEqual([403, true]);
    expect((await send(waiting, /^continue$/i)).text).toContain('You were signed out');
    await signIn(zoe.browser, await zoe.open('/oauth/sign-in'), zoe);
    const shown = await send(waiting, /^continue$/i);
    expect(shown.text).toContain('You signed in again after you opened this page.');
    expect(mustFindForm(shown, /^create agent$/i).values).toMatchObject(typed);
    expect((await zoe.open('/dashboard/agents')).text).not.toContain('The “kept” one');
    expect((await send(shown, /^create agent$/i)).text).toContain('The agent was created.');
  });

  it('that is only a button leads back to its page, which says once that nothing was changed', async () => {
    const yan = await stage.enter('yan');
    const path = `/dashboard/agents/${yan.agentName}`;
    const page = await yan.open(path);
    await yan.press('/dashboard/agents', /^sign out$/i);
    const lost = await yan.browser.submit(page, mustFindForm(page, /^pause$/i), {}, /^pause$/i);
    const back = await signIn(yan.browser, lost, yan);
    expect(new URL(back.url).pathname).toBe(path);
    expect(back.text).toContain('Nothing was changed: you were signed out. You can try again now.');
    expect((await yan.open(path)).text).not.toContain('Nothing was changed');
  });

  it.each([
    ['/dashboard/agents/main/allowlist/remove', '/dashboard/agents/main/allowlist'],
    ['/dashboard/settings/passkeys/confirm', '/dashboard/settings'],
    ['/dashboard/sessions/sess_1/end', '/dashboard/sessions/sess_1/end'],
    ['/dashboard/operator/invitations', '/dashboard/operator/invitations'],
    ['/dashboard/operator/accounts/zoe/agents/main/pause', '/dashboard/operator/accounts/zoe/agents/main/pause'],
  ])('returns from %s to %s', async (address, to) => {
    const answer = await post(address, { 'sec-fetch-site': 'same-origin' }, { csrf: 'x' });
    expect(answer.headers['location']).toBe(`/oauth/sign-in?return_to=${encodeURIComponent(to)}`);
  });

  it('returns no password, and nothing sent by another page', async () => {
    const fields = { username: 'zoe', password: 'a secret phrase' };
    const site = { 'sec-fetch-site': 'same-origin' };
    const answer = await post('/dashboard/settings/delete', site, fields);
    expect([answer.status, answer.text.includes('value="zoe"')]).toEqual([403, true]);
    expect(answer.text).not.toContain('a secret phrase');
    expect((await post('/dashboard/new-agent', {}, typed)).status).toBe(303);
    for (const elsewhere of ['cross-site', 'same-site', 'none']) {
      const forged = await post('/dashboard/new-agent', { 'sec-fetch-site': elsewhere }, typed);
      expect([forged.status, forged.text.includes('kept')]).toEqual([403, false]);
    }
  });
});

describe('Every page', () => {
  it.each([...shown.filter((path) => !path.includes(':id')), '/dashboard/none'])(
    '%s runs only the script named by its policy, cannot be framed, is not cached, and leaks no address',
    async (path) => {
      const { answer } = await ada.open(filled(path));
      const policy = answer.headers['content-security-policy'] ?? '';
      expect(policy).toMatch(/^default-src 'none'; style-src 'self'; img-src data:; form-action 'self';/);
      expect(policy).toContain("frame-ancestors 'none'; base-uri 'none'");
      expect(policy).not.toContain('unsafe');
      const scripts = [...answer.text.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, script = '']) => script);
      const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
      expect(/; script-src ([^;]+)(?:; connect-src 'self')?$/.exec(policy)?.[1]).toBe(hashes.join(' '));
      expect(answer.headers).toMatchObject({
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
        'cross-origin-opener-policy': 'same-origin',
      });
      const markup = answer.text.replaceAll(/<script>[\s\S]*?<\/script>/g, '');
      expect(markup).not.toMatch(/ style=| on\w+=|javascript:/i);
    },
  );

  it('an unknown address is a page for a person, and an error for a program', async () => {
    for (const path of ['/nowhere?a=%3Cb%3E', '/%zz', '/%ff']) {
      const shown = await request(`${stage.web}${path}`, { headers: { accept: 'text/html,*/*;q=0.8' } });
      expect([shown.status, shown.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8']);
      expect(shown.headers['content-security-policy']).toContain("default-src 'none'");
      expect(shown.text).toContain('Page not found');
      expect(shown.text).toContain('href="/dashboard"');
    }
    for (const accept of ['*/*', 'application/json']) {
      const told = await request(`${stage.web}/nowhere`, { headers: { accept } });
      expect([told.status, told.text]).toEqual([404, '{"error":{"code":"NOT_FOUND","message":"Not found."}}']);
    }
    expect((await post('/nowhere', { accept: 'text/html' })).text).toContain('NOT_FOUND');
  });

  it('an address with a slash at its end, as Firefox completes it, leads to the page without it', async () => {
    await eve.createAgent('slashed');
    for (const [path, page] of [
      ['/dashboard/agents/slashed/', '/dashboard/agents/slashed'],
      ['/dashboard/agents//', '/dashboard/agents'],
      ['/dashboard/search/?q=a/', '/dashboard/search?q=a/'],
    ] as const) {
      const shown = await eve.open(path);
      expect([shown.answer.status, new URL(shown.url).pathname + new URL(shown.url).search]).toEqual([200, page]);
    }
    expect((await eve.open('/dashboard/nowhere/')).answer.status).toBe(404);
  });

  it('neither a form nor a field is called invalid to a screen reader before anyone has filled it in', async () => {
    await eve.createAgent('unfilled');
    const lists = ['allowlist', 'blocks', 'webhook'].map((page) => `/dashboard/agents/unfilled/${page}`);
    const pages = ['new-agent', 'new-client', 'new-session', 'settings/delete'].map((page) => `/dashboard/${page}`);
    for (const path of [...pages, ...lists]) {
      const { answer } = await eve.open(path);
      const forms = answer.text.match(/<form(?:(?!<\/form>)[\s\S])* required(?:(?!<\/form>)[\s\S])*/g) ?? [];
      const fields = forms.flatMap((form) => form.match(/<(?:input|select)[^>]* required[^>]*>/g) ?? []);
      expect([path, fields.length > 0]).toEqual([path, true]);
      for (const form of forms) expect(form).toMatch(/^<form[^>]* aria-label(?:ledby)?="/);
      for (const field of fields) expect(field).toContain(' aria-invalid="false"');
    }
  });

  it('a missing page, a removed one and one of another account look the same', async () => {
    await eve.createAgent('hers');
    const key = await eve.press('/dashboard/new-client', /^create api credential$/i, {
      name: 'hers',
      agent: eve.handle,
    });
    const family = await stage.connect(eve, 'hers');
    expect(family.refreshToken).not.toBe('');
    const [, hers = ''] =
      /applications\/(fam_\w+)\/disconnect/.exec((await eve.open('/dashboard/applications')).answer.text) ?? [];
    const addresses = [
      '/dashboard/none',
      '/dashboard/agents/hers',
      '/dashboard/agents/hers/profile',
      '/dashboard/agents/hers/allowlist',
      '/dashboard/agents/hers/knocks',
      '/dashboard/agents/hers/blocks',
      '/dashboard/agents/hers/webhook',
      '/dashboard/agents/hers/webhook/secret',
      '/dashboard/agents/hers/webhook/remove',
      '/dashboard/agents/main/webhook/secret',
      '/dashboard/agents/main/webhook/remove',
      '/dashboard/agents/hers/remove',
      '/dashboard/agents/Not%20A%20Name',
      `/dashboard/agents/${encodeURIComponent('../../oauth/sign-in')}`,
      pathOf(key),
      `${pathOf(key)}/revoke`,
      `${pathOf(key)}/rotate`,
      '/dashboard/clients/oac_01ARZ3NDEKTSV4RRFFQ69G5FAV',
      `/dashboard/applications/${hers}/disconnect`,
      '/dashboard/applications/fam_01ARZ3NDEKTSV4RRFFQ69G5FAV/disconnect',
    ];
    expect(pathOf(key)).toMatch(/^\/dashboard\/clients\/oac_/);
    expect(hers).toMatch(/^fam_/);
    const answers = await Promise.all(addresses.map(async (path) => (await ada.open(path)).answer));
    const kinds = new Set(answers.map(({ status, text }) => `${status} ${text}`));
    expect([kinds.size, answers[0]?.status]).toEqual([1, 404]);

    const csrf = await csrfOf(ada);
    const writes = [
      '/dashboard/agents/hers',
      '/dashboard/agents/hers/pause',
      '/dashboard/agents/hers/remove',
      '/dashboard/agents/hers/webhook/secret',
      '/dashboard/agents/hers/webhook/remove',
      `${pathOf(key)}/revoke`,
      `${pathOf(key)}/rotate`,
      `/dashboard/applications/${hers}/disconnect`,
    ];
    const stranger = { csrf, sender: '@some.one' };
    for (const verb of ['allow', 'dismiss', 'block']) {
      const path = `/dashboard/agents/hers/knocks/${verb}`;
      expect([path, (await post(path, cookiesOf(ada), stranger)).status]).toEqual([path, 404]);
    }
    for (const path of writes) expect([path, (await post(path, cookiesOf(ada), { csrf })).status]).toEqual([path, 404]);
    expect((await eve.open(pathOf(key))).answer.status).toBe(200);
    expect((await eve.open('/dashboard/agents/hers')).answer.status).toBe(200);
    expect((await eve.open(`/dashboard/applications/${hers}/disconnect`)).answer.status).toBe(200);
  });
});

describe('The result of a form', () => {
  it('is shown once, and is not in any address', async () => {
    const page = await ada.press('/dashboard/agents/main', /^pause$/i);
    expect([page.text.includes('The agent is paused. No one can invite it.'), new URL(page.url).search]).toEqual([
      true,
      '',
    ]);
    for (const path of [
      '/dashboard/agents/main',
      '/dashboard/agents/main?note=removed',
      '/dashboard/agents?note=removed',
    ]) {
      const again = await ada.open(path);
      expect(bodyOf(again)).not.toContain('class="done"');
    }
  });
});
