import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { noChromium } from '../support/chromium.js';
import { type BrowserStage, openBrowserStage } from './browser-stage.js';
import { createHome, type Home, missing, type Running, type ServiceProcess } from './program.js';

const noPython = missing('python3');

/** Starts `asp login` and returns the address that it prints. */
async function startLogin(home: Home, words: readonly string[] = []): Promise<{ login: Running; url: string }> {
  const login = home.start(['login', '--no-browser', ...words]);
  const [, url = ''] = await login.until('stderr', /^\s*(http:\S+)$/m);
  return { login, url };
}

/** Signs up a person, using only labels and roles that a keyboard or screen-reader user can reach. */
async function signUp(page: Page, username: string): Promise<void> {
  const form = page.getByRole('form', { name: 'Create an account' });
  if (!(await form.isVisible())) await page.getByText('New here? Create an account').click();
  await form.getByLabel('Username').fill(username);
  await form.getByLabel('Your name').fill('A Person');
  await form.getByLabel('Password').fill('correct horse battery');
  await form.getByRole('button', { name: 'Create account' }).click();
}

async function createAgent(page: Page, name: string): Promise<void> {
  await page.getByText('A new agent').click();
  await page.getByLabel('Handle', { exact: true }).fill(name);
}

describe.skipIf(noChromium !== undefined)(`signing in through a real browser ${noChromium ?? ''}`, () => {
  let stage: BrowserStage;
  let home: Home;
  let service: ServiceProcess;
  let browser: Browser;

  beforeAll(async () => {
    stage = await openBrowserStage();
    ({ home, service, browser } = stage);
  });
  afterAll(async () => {
    await stage?.close();
  });

  it('sign up, create an agent, approve: the terminal is signed in as that agent', async () => {
    const { login, url } = await startLogin(home);
    const page = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
    await page.goto(url);
    await signUp(page, 'wanda');
    await createAgent(page, 'helper');
    await page.getByRole('button', { name: 'Allow' }).click();
    await page.getByRole('heading', { name: 'You are signed in' }).waitFor();
    expect(await login.ended).toMatchObject({ status: 0, stdout: '@wanda.helper\n' });
    expect(await home.asp(['whoami'])).toMatchObject({ status: 0, stdout: '@wanda.helper\n' });
    const sent = await home.asp(['send', '@demo.echo', 'hi from a browser', '--wait', '--timeout', '20s']);
    expect(sent).toMatchObject({ status: 0, stdout: 'hi from a browser\n' });
  });

  it('deny: exit 4, nothing is stored', async () => {
    const own = createHome({ XDG_RUNTIME_DIR: home.environment['XDG_RUNTIME_DIR'] });
    const { login, url } = await startLogin(own);
    const page = await (await browser.newContext()).newPage();
    await page.goto(url);
    await signUp(page, 'dora');
    await page.getByRole('button', { name: 'Deny' }).click();
    await page.getByRole('heading', { name: 'Sign-in denied' }).waitFor();
    const ended = await login.ended;
    expect(ended).toMatchObject({ status: 4, stdout: '' });
    expect(ended.stderr).toContain('ASP_LOGIN_DENIED');
    expect(await own.asp(['whoami'])).toMatchObject({ status: 4 });
    await own.dispose();
  });

  it('a wrong state and an unrelated callback are answered and ignored; the real one still signs in', async () => {
    const own = createHome({ XDG_RUNTIME_DIR: home.environment['XDG_RUNTIME_DIR'] });
    const { login, url } = await startLogin(own);
    const redirect = new URL(new URL(url).searchParams.get('redirect_uri') ?? '');
    for (const query of [
      '',
      '?code=stolen&state=wrong',
      '?error=access_denied&state=wrong',
      '?error=access_denied',
      '?code=a&code=b&state=c',
    ])
      expect((await fetch(`${redirect.href}${query}`)).status).toBe(400);
    expect((await fetch(`${redirect.origin}/favicon.ico`)).status).toBe(400);
    const page = await (await browser.newContext()).newPage();
    await page.goto(url);
    await signUp(page, 'sandra');
    await createAgent(page, 'bot');
    await page.getByRole('button', { name: 'Allow' }).click();
    expect(await login.ended).toMatchObject({ status: 0, stdout: '@sandra.bot\n' });
    await own.dispose();
  });

  it('asp login opens the browser on its own, and Ctrl-C ends it with the signal', async () => {
    const own = createHome({ XDG_RUNTIME_DIR: home.environment['XDG_RUNTIME_DIR'] });
    const script = join(own.directory, 'open.sh');
    writeFileSync(script, '#!/bin/sh\nprintf %s "$1" > "$HOME/opened.new" && mv "$HOME/opened.new" "$HOME/opened"\n', {
      mode: 0o700,
    });
    const login = own.start(['login'], { environment: { BROWSER: script } });
    const [, url = ''] = await login.until('stderr', /^\s*(http:\S+)$/m);
    expect(new URL(url).searchParams.get('code_challenge_method')).toBe('S256');
    await expect.poll(() => own.exists('opened')).toBe(true);
    expect(readFileSync(join(own.directory, 'opened'), 'utf8')).toBe(url);
    login.kill('SIGINT');
    expect(await login.ended).toMatchObject({ signal: 'SIGINT', stdout: '' });
    await own.dispose();
  });

  it.skipIf(noPython !== undefined)(
    `paste-back on a terminal, if the browser cannot reach this machine ${noPython ?? ''}`,
    async () => {
      const own = createHome({ XDG_RUNTIME_DIR: home.environment['XDG_RUNTIME_DIR'] });
      const login = own.terminal(['login', '--no-browser']);
      const [, url = ''] = await login.until('stdout', /^\s*(http:\S+)\r?$/m);
      const { host } = new URL(service.url);
      const proxy = { server: 'http://127.0.0.1:9', bypass: `<-loopback>,${host}` };
      const page = await (await browser.newContext({ proxy })).newPage();
      let address = '';
      page.on('request', (request) => {
        if (new URL(request.url()).pathname === '/callback') address = request.url();
      });
      await page.goto(url);
      await signUp(page, 'petra');
      await createAgent(page, 'remote');
      await page.getByRole('button', { name: 'Allow' }).click();
      await expect.poll(() => address).toContain('code=');
      login.child.stdin?.write('http://127.0.0.1:1/callback?code=x&state=y\n');
      await login.until('stdout', /not the address/);
      login.child.stdin?.write(`${address}\n`);
      const ended = await login.ended;
      expect(ended.status).toBe(0);
      expect(ended.stdout).toContain('@petra.remote');
      await own.dispose();
    },
  );
});
