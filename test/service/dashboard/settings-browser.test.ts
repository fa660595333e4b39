import { readFile } from 'node:fs/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { newPerson, type Person } from '../../support/browser.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { openStage, type Stage } from './stage.js';

const FRESH = 'an unlikely phrase';

const TITLE = `Settings in a real browser without script ${noChromium ?? ''}`;

describe.skipIf(noChromium !== undefined)(TITLE, () => {
  const ada: Person = newPerson('ada');
  let stage: Stage;
  let browser: Browser;
  let page: Page;
  let other: Page;
  beforeAll(async () => {
    stage = await openStage();
    // Until there is an account, the first visitor is asked to create one.
    await stage.enter('eve');
    browser = await launchChromium();
    [page, other] = [await newPage(), await newPage()];
  });
  afterAll(async () => {
    await browser?.close();
    await stage.close();
  });

  const newPage = async (): Promise<Page> => (await browser.newContext({ javaScriptEnabled: false })).newPage();
  const press = (name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click();
  const heading = (one: Page, name: string): Promise<void> => one.getByRole('heading', { name, level: 1 }).waitFor();
  const told = (text: string): Promise<void> => page.getByRole('status').getByText(text).waitFor();
  const signIn = async (one: Page, password: string): Promise<void> => {
    await one.goto(`${stage.web}/dashboard/agents`);
    await one.locator('#username').fill(ada.username);
    await one.locator('#password').fill(password);
    await one.getByRole('button', { name: 'Sign in', exact: true }).click();
  };

  it('every page links to the settings, which list the browsers; another one is signed out', async () => {
    await page.goto(`${stage.web}/dashboard`);
    await page.getByText('New here? Create an account').click();
    await page.locator('#new-username').fill(ada.username);
    await page.locator('#new-display-name').fill('Ada');
    await page.locator('#new-password').fill(ada.password);
    await press('Create account');
    await signIn(other, ada.password);
    await heading(other, 'Agents');
    await press(`Account: ${ada.username}`);
    await page.getByRole('link', { name: 'Settings', exact: true }).click();
    await heading(page, 'Settings');
    expect(await page.getByText('Chrome on Linux', { exact: true }).count()).toBe(2);
    await press('Sign out others');
    await told('All other browsers were signed out.');
    await other.reload();
    await heading(other, 'Sign in');
  });

  it('the password is changed with only the keyboard', async () => {
    await signIn(other, ada.password);
    await page.goto(`${stage.web}/dashboard/settings`);
    await page.locator('#current-password').focus();
    await page.keyboard.type('not it');
    await page.keyboard.press('Tab');
    await page.keyboard.type(FRESH);
    await page.keyboard.press('Enter');
    await page.getByRole('alert').filter({ hasText: 'The password is wrong.' }).waitFor();
    expect(await page.locator('#current-password:focus').count()).toBe(1);
    await page.keyboard.type(ada.password);
    await page.keyboard.press('Tab');
    await page.keyboard.type(FRESH);
    await page.keyboard.press('Tab');
    expect(await page.locator('#disconnect-apps:focus').isChecked()).toBe(true);
    await page.keyboard.press('Enter');
    await told('Your password was changed.');
    await other.reload();
    await heading(other, 'Sign in');
    await signIn(other, FRESH);
    await heading(other, 'Agents');
  });

  it('what was typed while another browser ended the sign-in is still there after signing in again', async () => {
    await page.goto(`${stage.web}/dashboard/new-agent`);
    await page.locator('#name').fill('kept');
    await page.locator('#display-name').fill('Kept');
    await other.goto(`${stage.web}/dashboard/settings`);
    await other.getByRole('button', { name: 'Sign out others', exact: true }).click();
    await press('Create agent');
    await heading(page, 'You were signed out');
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: 'Sign in', exact: true }).click(),
    ]);
    await signIn(tab, FRESH);
    await heading(tab, 'Agents');
    await press('Continue');
    await page.getByRole('alert').getByText('You signed in again').waitFor();
    expect(await page.locator('#name').inputValue()).toBe('kept');
    await press('Create agent');
    await heading(page, 'Kept');
    await page.goto(`${stage.web}/dashboard/settings`);
  });

  it('the data comes as a file, and the page stays', async () => {
    const [download] = await Promise.all([page.waitForEvent('download'), press('Download your data')]);
    expect(download.suggestedFilename()).toMatch(new RegExp(`^asp-${ada.username}-\\d{4}-\\d\\d-\\d\\d\\.json$`));
    expect(JSON.parse(await readFile(await download.path(), 'utf8')).account.display_name).toBe('Ada');
    await heading(page, 'Settings');
  });

  it('the account is deleted, and signed out everywhere', async () => {
    await page.getByRole('link', { name: 'Delete your account…' }).click();
    await heading(page, 'Delete your account?');
    await page.getByLabel('Type your username').fill(ada.username);
    await page.getByLabel('Password').fill(FRESH);
    await press('Delete account');
    await heading(page, 'Your account was deleted');
    for (const one of [page, other]) {
      await one.goto(`${stage.web}/dashboard/settings`);
      await heading(one, 'Sign in');
    }
  });
});
