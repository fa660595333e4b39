import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { actorOf } from '../support/actors.js';
import { noChromium } from '../support/chromium.js';
import { askClientToken, discover, type Place } from '../support/oauth.js';
import { type BrowserStage, openBrowserStage } from './browser-stage.js';
import { createHome, type Home, type ServiceProcess } from './program.js';

const CRAMPED = { width: 390, height: 844 };

describe.skipIf(noChromium !== undefined)(`the dashboard in a real browser ${noChromium ?? ''}`, () => {
  let stage: BrowserStage;
  let home: Home;
  let service: ServiceProcess;
  let place: Place;
  let web: string;
  let page: Page;
  const complaints: string[] = [];

  beforeAll(async () => {
    stage = await openBrowserStage();
    ({ home, service } = stage);
    place = await discover(service.url);
    web = new URL(place.authorizeUrl).origin;
    page = await stage.browser.newPage();
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
  });
  afterAll(async () => {
    await stage?.close();
  });

  const press = (name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click();
  const go = (name: string): Promise<void> => page.getByRole('link', { name, exact: true }).click();
  const heading = (name: string | RegExp): Promise<void> => page.getByRole('heading', { name, level: 1 }).waitFor();
  const told = (text: string): Promise<void> => page.getByRole('status').getByText(text).waitFor();

  it('signing up leads to the dashboard', async () => {
    await page.goto(web);
    await heading('Create your account');
    await page.getByLabel('Username').first().fill('wanda');
    await page.getByLabel('Your name').fill('Wanda Maximoff');
    await page.locator('#new-password').fill('correct horse battery');
    await press('Create account');
    await heading('Agents');
    await page.getByText('No agents yet').waitFor();
    expect(new URL(page.url()).pathname).toBe('/dashboard/agents');
  });

  it('an agent is created with only the keyboard', async () => {
    await go('Create an agent');
    await heading('New agent');
    await page.keyboard.press('Tab');
    const focused = (): Promise<string> =>
      page.evaluate('document.activeElement.textContent.trim() || document.activeElement.name');
    expect(await focused()).toBe('Skip to content');
    await page.keyboard.press('Enter');
    for (let step = 0; step < 3 && (await focused()) !== 'name'; step += 1) await page.keyboard.press('Tab');
    await page.keyboard.type('Not A Name');
    await page.keyboard.press('Tab');
    await page.keyboard.type('Helper');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    expect([await focused(), await page.title()]).toEqual(['name', 'Problem: New agent · asp']);
    await page.keyboard.press('Control+A');
    await page.keyboard.type('helper');
    await page.keyboard.press('Enter');
    await told('The agent was created.');
    await heading('Helper');
    expect(await page.getByText('@wanda.helper').first().isVisible()).toBe(true);
  });

  it('an agent is edited, paused and resumed; an unavailable choice says why', async () => {
    await go('Profile');
    await page.getByLabel('Description').fill('Helps.');
    await page.getByLabel('Skill 1', { exact: true }).fill('Sorting');
    await press('Save profile');
    await told('Your changes were saved.');
    await page.getByText('Helps.').waitFor();
    await press('Pause');
    await told('The agent is paused');
    await press('Resume');
    await told('The agent can be invited again.');
    await page.getByRole('radio', { name: 'Only you' }).check();
    await press('Save');
    await told('Your changes were saved.');
    expect(await page.getByRole('radio', { name: 'Only you' }).isChecked()).toBe(true);
    const open = page.getByRole('radio', { name: 'only accounts that the operator of this service trusts' });
    expect(await open.isDisabled()).toBe(true);
    expect(await page.getByRole('radio', { name: /^Only agents on the allowlist(?!, and)/ }).isChecked()).toBe(true);
  });

  it('an agent’s allowlist and blocks decide who reaches it', async () => {
    await go('Allowlist');
    await page.getByLabel('Add to allowlist').fill('@demo.echo');
    await press('Add');
    await told('Added @demo.echo to the allowlist.');
    await page.getByLabel('Add to allowlist').fill('@bob.helper not-a-handle @carol.*');
    await press('Add');
    await page.getByRole('alert').filter({ hasText: '“not-a-handle” is not a handle.' }).waitFor();
    expect(await page.getByLabel('Add to allowlist').inputValue()).toBe('@bob.helper not-a-handle @carol.*');
    await press('Remove @wanda.*');
    await told('Removed from the allowlist.');
    expect(await page.getByRole('button', { name: /^Remove/ }).count()).toBe(1);
    await go('Blocks');
    await page.getByLabel('Block an agent').fill('@spam.bot');
    await press('Block');
    await told('Blocked @spam.bot. Any sessions you shared go on without them.');
    await press('Unblock @spam.bot');
    await told('The block was lifted.');
    await page.getByText('No one is blocked').waitFor();
  });

  it('a client’s secret is shown once, and its program sends; revoking cuts it off', async () => {
    await go('Credentials');
    await go('Create an API credential');
    await page.getByLabel('Name').fill('Nightly');
    await page.getByRole('button', { name: 'Create API credential' }).dblclick();
    await heading('Nightly');
    const clientSecret = await page.locator('#client-secret').innerText();
    const clientId = new URL(page.url()).pathname.split('/').at(-1) ?? '';
    expect(clientSecret).toMatch(/^asp_cs_[\w-]{43}$/);
    await page.reload();
    await heading('Nightly');
    expect(await page.content()).not.toContain(clientSecret);

    const environment = { ASP_PROFILE: service.url, ASP_CLIENT_ID: clientId, ASP_CLIENT_SECRET: clientSecret };
    const sent = await home.asp(['send', '@demo.echo', 'from a job', '--wait', '--timeout', '20s'], { environment });
    expect(sent).toMatchObject({ status: 0, stdout: 'from a job\n' });
    const actor = actorOf(place, '@wanda.helper', { clientId, clientSecret });
    const socket = await actor.mustConnect();
    await page.goto(`${web}/dashboard/clients`);
    expect(await page.getByRole('link', { name: 'Nightly' }).count()).toBe(1);
    await page.getByText('Last used').waitFor();
    await go('Nightly');
    await go('Revoke this API credential…');
    // A name is in a separate box so that it does not wrap, and `innerText` surrounds boxes with spaces.
    await heading(/^Revoke “ ?Nightly ?”\?$/);
    await press('Revoke API credential');
    await told('The API credential was revoked');
    expect(await socket.mustBeClosed(10_000)).toBe(1008);
    expect((await askClientToken(place, actor.credentials, place.baseUrl)).status).toBe(401);
    // The first home's token lives for another quarter of an hour. Another home needs a new one.
    const other = createHome();
    expect(await other.asp(['send', '@demo.echo', 'again'], { environment })).toMatchObject({ status: 4, stdout: '' });
    await other.dispose();
  });

  it('an allowed application is listed; once disconnected, it must ask again', async () => {
    const login = home.start(['login', '--no-browser']);
    const [, url = ''] = await login.until('stderr', /^\s*(http:\S+)$/m);
    await page.goto(url);
    await press('Allow');
    await heading('You are signed in');
    expect(await login.ended).toMatchObject({ status: 0, stdout: '@wanda.helper\n' });
    await page.goto(`${web}/dashboard/applications`);
    await page.getByText('acts as @wanda.helper', { exact: true }).waitFor();
    await page.getByText('Permissions').click();
    await page.getByText('Receive its messages as they arrive').waitFor();
    await page.getByRole('link', { name: /^Disconnect/ }).click();
    await press('Disconnect');
    await told('The app was disconnected');
    await page.getByText('No connected apps').waitFor();
    expect(await home.asp(['auth', 'refresh'])).toMatchObject({ status: 4, stdout: '' });
  });

  it('every page fits a phone', async () => {
    await page.setViewportSize(CRAMPED);
    const parts = ['agents', 'new-agent', 'agents/helper', 'agents/helper/profile', 'agents/helper/allowlist'];
    for (const part of [
      ...parts,
      'agents/helper/remove',
      'clients',
      'new-client',
      'applications',
      'settings',
      'settings/delete',
      'none',
    ]) {
      await page.goto(`${web}/dashboard/${part}`);
      const overflow = await page.evaluate(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      expect([part, overflow]).toEqual([part, 0]);
    }
  });

  it('signing out closes open pages', async () => {
    await page.goto(`${web}/dashboard/agents`);
    await page.getByRole('button', { name: 'Account: wanda' }).click();
    await press('Sign out');
    await heading('Sign in');
    await page.goto(`${web}/dashboard/clients`);
    await heading('Sign in');
    await page.getByLabel('Username').first().fill('wanda');
    await page.locator('#password').fill('correct horse battery');
    await press('Sign in');
    await heading('API credentials');
  });

  it('the browser reports no errors', () => {
    // Someone who is quicker than the page keeps the focus.
    const expected = /status of (400|403|404)|Cleared data types|Autofocus processing was blocked/;
    const unexpected = complaints.filter((text) => !expected.test(text));
    expect(unexpected).toEqual([]);
  });
});
