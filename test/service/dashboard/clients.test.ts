import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { actorOf } from '../../support/actors.js';
import { mustRefuse, mustSucceed } from '../../support/answers.js';
import type { Page } from '../../support/browser.js';
import { type Answer, formBody, request } from '../../support/http.js';
import { text } from '../../support/json.js';
import { askClientToken, refresh } from '../../support/oauth.js';
import { mustFindForm, signIn } from '../../support/person.js';
import { bodyOf, cookieOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
beforeAll(async () => {
  stage = await openStage();
  ada = await stage.enter('ada');
});
afterAll(() => stage.close());

const CREATE = /^create api credential$/i;
const SAVE = /^save changes$/i;
const newClient = (visitor: Visitor, values = {}): Promise<Page> =>
  visitor.press('/dashboard/new-client', CREATE, { name: 'nightly', agent: visitor.handle, ...values });
const secretOf = ({ answer }: Page): string | undefined => /asp_cs_[A-Za-z0-9_-]{43}/.exec(answer.text)?.[0];
const idOf = (page: Page): string => pathOf(page).split('/').at(-1) ?? '';
const credentialsOf = (page: Page) => ({ clientId: idOf(page), clientSecret: secretOf(page) ?? '' });

describe('A client', () => {
  it('its secret is shown once, and gets tokens for its agent and its scopes', async () => {
    const page = await newClient(ada, { scope: ['agents:read', 'sessions:read'] });
    const credentials = credentialsOf(page);
    expect(page.answer.headers['cache-control']).toBe('no-store');
    const granted = mustSucceed(await askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl));
    expect(text(granted, 'agent_handle')).toBe(ada.handle.slice(1));
    expect(text(granted, 'scope')).toBe('agents:read sessions:read');
    for (const again of [await ada.open(pathOf(page)), await ada.open('/dashboard/clients')]) {
      expect(again.text).toContain('nightly');
      expect(secretOf(again)).toBeUndefined();
    }
    expect((await ada.open('/dashboard/clients')).text).toContain('Last used just now');
  });

  it('a double click creates one client and shows its secret; later, the form no longer shows it', async () => {
    const page = await ada.open('/dashboard/new-client');
    const form = mustFindForm(page, CREATE);
    const send = (name = 'double') => ada.browser.submit(page, form, { name, agent: ada.handle }, CREATE);
    const [first, second] = [await send(), await send()];
    expect(credentialsOf(second)).toEqual(credentialsOf(first));
    expect(secretOf(second)).toBeDefined();
    stage.desk.clock.advance(30_000);
    const late = await send();
    expect([idOf(late), secretOf(late)]).toEqual([idOf(first), undefined]);
    const other = await send('another');
    expect(idOf(other)).not.toBe(idOf(first));
    expect(secretOf(other)).not.toBe(secretOf(first));
    expect((await ada.open('/dashboard/clients')).text.match(/double/g)).toHaveLength(1);
  });

  it('gets a new secret, while the old one works as long as its owner chooses', async () => {
    const zoe = await stage.enter('zoe');
    const page = await newClient(zoe, { name: 'rotated' });
    const old = credentialsOf(page);
    const statusOf = async (credentials: typeof old): Promise<number> =>
      (await askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl)).status;
    const rotate = /^create new secret$/i;
    const question = await zoe.open(`${pathOf(page)}/rotate`);
    const send = (overlap: string) => zoe.browser.submit(question, mustFindForm(question, rotate), { overlap }, rotate);
    const [first, second] = [await send('3600'), await send('3600')];
    const fresh = credentialsOf(first);
    expect([fresh.clientId, fresh.clientSecret === old.clientSecret]).toEqual([old.clientId, false]);
    expect(credentialsOf(second)).toEqual(fresh);
    expect(first.text).toMatch(/Old secret\s*Works until/);
    expect(secretOf(await zoe.open(pathOf(page)))).toBeUndefined();
    expect([await statusOf(old), await statusOf(fresh)]).toEqual([200, 200]);
    stage.desk.clock.advance(3_600_000);
    expect([await statusOf(old), await statusOf(fresh)]).toEqual([401, 200]);
    const last = credentialsOf(await zoe.press(`${pathOf(page)}/rotate`, rotate, { overlap: '0' }));
    expect([await statusOf(fresh), await statusOf(last)]).toEqual([401, 200]);
  });

  it('expires when its owner chooses, and says so', async () => {
    const zoe = await stage.enter('zoe');
    const page = await newClient(zoe, { name: 'short-lived', expiry: '30' });
    const credentials = credentialsOf(page);
    const ask = () => askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl);
    expect((await ask()).status).toBe(200);
    stage.desk.clock.advance(30 * 24 * 3_600_000);
    expect((await ask()).json).toMatchObject({ error: 'invalid_client' });
    await signIn(zoe.browser, await zoe.open('/dashboard/clients'), zoe);
    expect((await zoe.open('/dashboard/clients')).text).toContain('Expired');
    expect((await zoe.open(pathOf(page))).text).toContain('Expired');
    ada = await stage.enter('ada');
  });

  it('gets a new name, and keeps what was typed if it is invalid', async () => {
    const page = await newClient(ada, { name: 'one' });
    const path = pathOf(page);
    const hostile = '<b>"two"</b>';
    const renamed = await ada.press(path, SAVE, { name: ` ${hostile} ` });
    expect(renamed.text).toContain('Your changes were saved.');
    expect(bodyOf(renamed)).not.toContain('<b>"two"');
    expect(mustFindForm(renamed, SAVE).values['name']).toBe(hostile);
    const refused = await ada.press(path, SAVE, { name: 'x'.repeat(101), scope: 'agents:read', expiry: '90' });
    expect([refused.answer.status, mustFindForm(refused, SAVE).values['name']]).toEqual([400, 'x'.repeat(101)]);
    expect(mustFindForm(refused, SAVE).ticked['scope']).toEqual(['agents:read']);
    expect(mustFindForm(refused, SAVE).values['expiry']).toBe('90');
    expect((await ada.press(path, SAVE, { scope: undefined })).text).toContain('Choose at least one permission.');
    expect(mustFindForm(await ada.open(path), SAVE).values['name']).toBe(hostile);
  });

  it('gets other permissions: new tokens have them, and its sockets close if it may no longer receive', async () => {
    const page = await newClient(ada, { name: 'narrowed' });
    const credentials = credentialsOf(page);
    const actor = actorOf(stage.desk.place, ada.handle, credentials);
    const socket = await actor.mustConnect();
    const scopeOf = async () =>
      text(mustSucceed(await askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl)), 'scope');
    await ada.press(pathOf(page), SAVE, { scope: ['sessions:read', 'realtime:read'] });
    expect(await scopeOf()).toBe('sessions:read realtime:read');
    await socket.mustPing();
    await ada.press(pathOf(page), SAVE, { scope: ['sessions:read', 'account:read'] });
    expect(await scopeOf()).toBe('sessions:read');
    expect(await socket.mustBeClosed(10_000)).toBe(1008);
    const denied = await askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl, 'allowlist:write');
    mustRefuse(denied, 403, 'invalid_scope');
  });

  it('gets another expiry, or none, and works again', async () => {
    const zoe = await stage.enter('zoe');
    const page = await newClient(zoe, { name: 'extended', expiry: '30' });
    const credentials = credentialsOf(page);
    const ask = async () => (await askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl)).status;
    stage.desk.clock.advance(29 * 24 * 3_600_000);
    await signIn(zoe.browser, await zoe.open('/dashboard/clients'), zoe);
    await zoe.press(pathOf(page), SAVE, { expiry: '30' });
    stage.desk.clock.advance(2 * 24 * 3_600_000);
    expect(await ask()).toBe(200);
    await zoe.press(pathOf(page), SAVE, { name: 'unchanged otherwise' });
    stage.desk.clock.advance(29 * 24 * 3_600_000);
    expect(await ask()).toBe(401);
    await signIn(zoe.browser, await zoe.open('/dashboard/clients'), zoe);
    await zoe.press(pathOf(page), SAVE, { expiry: 'never' });
    expect(await ask()).toBe(200);
    expect((await zoe.open(pathOf(page))).text).toMatch(/Expires Never/);
    ada = await stage.enter('ada');
  });

  it('a window that was opened before a change does not undo it', async () => {
    const path = pathOf(await newClient(ada, { name: 'contested' }));
    const stale = await ada.open(path);
    await ada.press(path, SAVE, { scope: 'agents:read' });
    const save = (page: Page, values = {}) => ada.browser.submit(page, mustFindForm(page, SAVE), values, SAVE);
    const shown = await save(stale, { name: 'mine' });
    expect([shown.answer.status, shown.text.includes('Another window changed this API credential.')]).toEqual([
      409,
      true,
    ]);
    expect(mustFindForm(shown, SAVE).ticked['scope']).toEqual(['agents:read']);
    expect((await save(shown, { name: 'mine' })).text).toContain('Your changes were saved.');
    expect(mustFindForm(await ada.open(path), SAVE).ticked['scope']).toEqual(['agents:read']);
    for (const seen of [undefined, '', '["contested"]'])
      expect((await ada.press(path, SAVE, { seen })).answer.status).toBe(409);
  });

  it('is created only once, even if the form is sent many times at once', async () => {
    const page = await ada.open('/dashboard/new-client');
    const form = mustFindForm(page, CREATE);
    const pages = await Promise.all(
      Array.from({ length: 6 }, () => ada.browser.submit(page, form, { name: 'crowd', agent: ada.handle }, CREATE)),
    );
    expect(new Set(pages.map(idOf)).size).toBe(1);
    expect((await ada.open('/dashboard/clients')).text.match(/crowd/g)).toHaveLength(1);
  });

  it('a page that was never displayed does not use up the secret of the displayed one', async () => {
    const page = await ada.open('/dashboard/new-client');
    const form = mustFindForm(page, CREATE);
    const fields = { ...form.ticked, ...form.values, name: 'raced', agent: ada.handle };
    const session = cookieOf(ada);
    const post = () =>
      request(`${stage.web}/dashboard/new-client`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: session },
        body: formBody(fields),
      });
    const pairsOf = (answer: Answer) => answer.setCookies.map((cookie) => cookie.split(';')[0] ?? '');
    const show = (location: string, cookies: readonly string[]) =>
      request(`${stage.web}${location}`, { headers: { cookie: [session, ...cookies].join('; ') } });
    const [first, second] = [await post(), await post()];
    const location = first.headers['location'] ?? '';
    expect(second.headers['location']).toBe(location);
    for (const cookie of first.setCookies)
      expect(cookie).toContain(`; Path=${location}; Max-Age=60; HttpOnly; SameSite=Strict`);
    const unseen = await show(location, pairsOf(first));
    expect(unseen.text).toContain('asp_cs_');
    const gone = new Set(unseen.setCookies.map((cookie) => cookie.split('=')[0]));
    const kept = [...pairsOf(first), ...pairsOf(second)].filter((pair) => !gone.has(pair.split('=')[0]));
    const seen = await show(location, kept);
    expect(seen.text).toContain('asp_cs_');
    expect(seen.setCookies.every((cookie) => cookie.includes('Max-Age=0'))).toBe(true);
    expect((await show(location, [])).text).not.toContain('asp_cs_');
    const stranger = await stage.enter('mallory');
    const theirs = [...stranger.browser.cookies].map(([name, value]) => `${name}=${value}`);
    const answer = await request(`${stage.web}${location}`, {
      headers: { cookie: [...theirs, ...pairsOf(second)].join('; ') },
    });
    expect([answer.status, answer.text.includes('asp_cs_')]).toEqual([404, false]);
  });

  it('the cookie that lets a page show the secret is useless to another browser or another client', async () => {
    const page = await ada.open('/dashboard/new-client');
    const form = mustFindForm(page, CREATE);
    const made = await ada.browser.submit(page, form, { name: 'mine', agent: ada.handle }, CREATE);
    const other = await newClient(ada, { name: 'other' });
    const again = await ada.browser.submit(page, form, { name: 'mine', agent: ada.handle }, CREATE);
    expect(secretOf(again)).toBe(secretOf(made));
    expect(secretOf(await ada.open(pathOf(other)))).toBeUndefined();
    const answer = await ada.open(pathOf(made));
    expect(secretOf(answer)).toBeUndefined();
  });

  it('acts only as one of the account’s own agents, and needs at least one permission', async () => {
    const eve = await stage.enter('eve');
    for (const agent of [eve.handle, '@nobody.here', `@${ada.username}.nobody`, 'nobody', 'Not A Name']) {
      const page = await newClient(ada, { agent, name: 'kept' });
      expect([agent, page.answer.status]).toEqual([agent, 400]);
      expect(page.text).toContain('You have no agent with this name.');
      expect(mustFindForm(page, CREATE).values).toMatchObject({ name: 'kept' });
    }
    for (const values of [
      { name: '' },
      { name: 'x'.repeat(101) },
      { agent: '' },
      { scope: undefined },
      { scope: 'account:read' },
    ]) {
      const page = await newClient(ada, values);
      expect([values, page.answer.status]).toEqual([values, 400]);
    }
    expect((await eve.open('/dashboard/clients')).text).toContain('No API credentials yet');
  });

  it('can act as any of an account’s many agents, whose names the field suggests', async () => {
    const max = await stage.enter('max');
    for (let index = 0; index < 50; index += 1) await max.createAgent(`agent-${index}`);
    const page = await max.open('/dashboard/new-client');
    expect(page.answer.text).not.toContain('<select id="agent"');
    expect(page.answer.text).toMatch(/<input [^>]*id="agent"[^>]*list="agent-suggestions"/);
    const suggested = [...page.answer.text.matchAll(/<option value="([^"]+)"><\/option>/g)].map(([, name]) => name);
    expect(suggested).toEqual(['main', ...Array.from({ length: 50 }, (_, index) => `agent-${index}`)]);
    const submit = (agent: string) =>
      max.browser.submit(page, mustFindForm(page, CREATE), { name: 'n', agent }, CREATE);
    for (const agent of ['agent-49', `@${max.username}.agent-49`])
      expect((await submit(agent)).text).toContain(`acts as @${max.username}.agent-49`);
    const refused = await submit('agent-50');
    expect(refused.answer.text).toMatch(/id="agent-mistake" role="alert">You have no agent with this name\.</);
    expect(mustFindForm(refused, CREATE).values).toMatchObject({ agent: 'agent-50' });
    const chosen = await max.open('/dashboard/new-client?agent=agent-7');
    expect(mustFindForm(chosen, CREATE).values).toMatchObject({ agent: 'agent-7' });
  });

  it('needs an agent, and says so if there is none', async () => {
    const noah = await stage.enter('noah');
    await noah.press('/dashboard/agents/main/remove', /^remove agent$/i);
    expect((await noah.open('/dashboard/new-client')).text).toContain('You need an agent first');
    expect((await noah.open('/dashboard/agents')).text).toContain('No agents yet');
  });

  it('is revoked after a question: its sockets close, it gets no tokens, and others continue', async () => {
    const revoked = await newClient(ada, { name: 'leaving' });
    const kept = await newClient(ada, { name: 'staying' });
    const credentials = credentialsOf(revoked);
    const socket = await actorOf(stage.desk.place, ada.handle, credentials).mustConnect();
    const bystander = await actorOf(stage.desk.place, ada.handle, credentialsOf(kept)).mustConnect();
    const asked = await ada.open(`${pathOf(revoked)}/revoke`);
    expect(asked.text).toMatch(/Revoke “ ?leaving ?”\?/);
    await socket.mustPing();
    const list = await ada.browser.submit(
      asked,
      mustFindForm(asked, /^revoke api credential$/i),
      {},
      /^revoke api credential$/i,
    );
    expect(pathOf(list)).toBe('/dashboard/clients');
    expect(list.text).not.toContain('leaving');
    expect(await socket.mustBeClosed(10_000)).toBe(1008);
    mustRefuse(await askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl), 401, 'invalid_client');
    expect((await ada.open(pathOf(revoked))).answer.status).toBe(404);
    await bystander.mustPing();
    await bystander.close();
  });

  it('has a list that continues on the next page, newest first', async () => {
    const bea = await stage.enter('bea');
    for (let index = 0; index < 27; index += 1) await newClient(bea, { name: `c${index}.` });
    const first = await bea.open('/dashboard/clients');
    const second = await bea.browser.follow(first, /^next page$/i);
    const listed = [first, second].flatMap((page) => page.text.match(/\bc\d+\./g) ?? []);
    expect(listed).toEqual(Array.from({ length: 27 }, (_, index) => `c${26 - index}.`));
  });
});

describe('A connected application', () => {
  it('is listed under the name it gave itself, harmless, with what it may do and since when', async () => {
    const uma = await stage.enter('uma');
    await stage.connect(uma, '<script>alert(1)</script>\u202eevil');
    stage.desk.clock.advance(3 * 60 * 60 * 1000);
    const page = await uma.open('/dashboard/applications');
    expect(bodyOf(page)).not.toContain('<script');
    expect(page.answer.text).not.toContain('\u202e');
    expect(page.text).toContain('<script>alert(1)</script>evil');
    expect(page.text).toContain(`acts as ${uma.handle}`);
    expect(page.text).toContain('Start sessions, send messages');
    expect(page.text).toContain('Allowed 3 hours ago');
    expect(page.answer.text).toMatch(
      /<time datetime="\d{4}-\d\d-\d\dT[\d:.]+Z" title="[^"]+ UTC" data-form="age">3 hours ago<\/time>/,
    );
  });

  it('names only the network of an IPv6 address: the rest of it belongs to one device', async () => {
    const proxied = await openStage({ isBehindProxy: true });
    const uma = await proxied.enter('uma');
    const { clientId, refreshToken } = await proxied.connect(uma, 'laptop');
    const { tokenUrl, baseUrl: resource } = proxied.desk.place;
    mustSucceed(
      await request(tokenUrl, {
        method: 'POST',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          'x-forwarded-for': '2001:db8:1:2:a11:ce0:b0b:1',
        },
        body: formBody({ grant_type: 'refresh_token', client_id: clientId, refresh_token: refreshToken, resource }),
      }),
    );
    const page = await uma.open('/dashboard/applications');
    expect(page.text).toContain('Last token from 2001:db8:1:2::/64');
    expect(page.answer.text).not.toContain('a11:ce0');
    await proxied.close();
  });

  it('says from which network and with which program it last got a token, and so does the export', async () => {
    const uma = await stage.enter('uma');
    const { clientId, refreshToken } = await stage.connect(uma, 'laptop');
    const { tokenUrl: url, baseUrl: resource } = stage.desk.place;
    const body = formBody({ grant_type: 'refresh_token', client_id: clientId, refresh_token: refreshToken, resource });
    const program = 'asp-cli/9.9.9 (linux) <b>';
    const type = 'application/x-www-form-urlencoded';
    const renew = (userAgent: string, form: string) =>
      request(url, { method: 'POST', headers: { 'content-type': type, 'user-agent': userAgent }, body: form });
    const renewed = mustSucceed(await renew(program, body));
    const page = await uma.open('/dashboard/applications');
    expect(page.text).toContain('Last token from 127.0.0.1 with asp-cli/9.9.9 (linux) <b>');
    const { answer } = await uma.press('/dashboard/settings', /^download your data$/i);
    const [app] = (JSON.parse(answer.text) as { connected_apps: unknown[] }).connected_apps;
    expect(app).toMatchObject({ name: 'laptop', last_network: '127.0.0.1', last_program: program });
    const next = { grant_type: 'refresh_token', client_id: clientId, refresh_token: text(renewed, 'refresh_token') };
    const browser = mustSucceed(
      await renew('Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0', formBody({ ...next, resource })),
    );
    expect((await uma.open('/dashboard/applications')).text).toContain(
      'Last token from 127.0.0.1 with Firefox on Linux',
    );
    const last = { ...next, refresh_token: text(browser, 'refresh_token') };
    mustSucceed(await renew('a'.repeat(300), formBody({ ...last, resource })));
    const all = await uma.press('/dashboard/settings', /^download your data$/i);
    const [cut] = (JSON.parse(all.answer.text) as { connected_apps: unknown[] }).connected_apps;
    expect(cut).toMatchObject({ last_program: 'a'.repeat(200) });
  });

  it('is disconnected: its sockets close, its tokens are refused; another one stays', async () => {
    const { place } = stage.desk;
    const uma = await stage.enter('uma');
    const [gone, kept] = [await stage.connect(uma, 'leaving'), await stage.connect(uma, 'staying')];
    const rotated = mustSucceed(await refresh(place, gone.clientId, gone.refreshToken, { resource: place.wsUrl }));
    const actor = actorOf(place, uma.handle, { clientId: '', clientSecret: '' });
    const socket = await actor.mustConnect(text(rotated, 'access_token'));
    const name = new RegExp(`disconnect leaving ?, which acts as ${uma.handle}$`, 'i');
    const asked = await uma.browser.follow(await uma.open('/dashboard/applications'), name);
    expect(asked.text).toMatch(/Disconnect “ ?leaving ?” ?\?/);
    await socket.mustPing();
    const list = await uma.browser.submit(asked, mustFindForm(asked, /^disconnect$/i), {}, /^disconnect$/i);
    expect(list.text).toContain('The app was disconnected');
    expect(list.text).not.toContain('leaving');
    expect(list.text).toContain('staying');
    expect(await socket.mustBeClosed(10_000)).toBe(1008);
    mustRefuse(await refresh(place, gone.clientId, text(rotated, 'refresh_token')), 401, 'invalid_client');
    mustSucceed(await refresh(place, kept.clientId, kept.refreshToken));
  });

  it('that was not used for 30 days is no longer connected', async () => {
    const uma = await stage.enter('uma');
    await stage.connect(uma, 'forgotten');
    const before = await uma.open('/dashboard/applications');
    expect(before.text).toContain('forgotten');
    stage.desk.clock.advance(30 * 24 * 60 * 60 * 1000 + 1);
    const signedOut = await uma.open('/dashboard/applications');
    const page = await signIn(uma.browser, signedOut, uma);
    expect(pathOf(page)).toBe('/dashboard/applications');
    expect(page.text).toContain('No connected apps');
    expect(page.text).toContain(stage.desk.service.mcpUrl);
  });
});
