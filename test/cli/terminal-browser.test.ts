import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { CALLBACK_HEADERS, callbackPage } from '../../src/cli/commands/auth/loopback.js';
import { canOpenBrowser, openBrowser } from '../../src/cli/terminal/browser.js';

describe('whether a browser could show up', () => {
  const SSH = { SSH_CONNECTION: '192.0.2.1 1 192.0.2.2 22' };
  const table: [where: string, environment: Record<string, string>, platform: NodeJS.Platform, can: boolean][] = [
    ['a desktop', { DISPLAY: ':0' }, 'linux', true],
    ['a Wayland desktop', { WAYLAND_DISPLAY: 'wayland-0' }, 'linux', true],
    ['a container or a server', {}, 'linux', false],
    ['an empty DISPLAY', { DISPLAY: '' }, 'linux', false],
    ['Linux on Windows', { WSL_DISTRO_NAME: 'Ubuntu' }, 'linux', true],
    ['Linux on Windows, from afar', { ...SSH, WSL_DISTRO_NAME: 'Ubuntu' }, 'linux', false],
    ['SSH', SSH, 'linux', false],
    ['SSH with a display', { ...SSH, DISPLAY: 'localhost:10.0' }, 'linux', true],
    ['an editor connected over SSH, which names its own', { ...SSH, BROWSER: '/editor/open.sh' }, 'linux', true],
    ['the same on macOS', { ...SSH, BROWSER: '/editor/open.sh' }, 'darwin', true],
    ['macOS', {}, 'darwin', true],
    ['macOS over SSH', { SSH_TTY: '/dev/ttys001' }, 'darwin', false],
    ['Windows', {}, 'win32', true],
    ['BROWSER=none', { DISPLAY: ':0', BROWSER: 'none' }, 'linux', false],
  ];
  for (const [where, environment, platform, can] of table)
    it(`${where}: ${can ? 'yes' : 'no'}`, () => expect(canOpenBrowser(environment, platform)).toBe(can));
});

describe('BROWSER', () => {
  it('may name several: the first that can be started gets the address, for %s or at its end', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'asp-browser-'));
    const script = join(folder, 'browser.sh');
    writeFileSync(script, '#!/bin/sh\nprintf "%s|" "$@" > "$0.new"; mv "$0.new" "$0.got"\n');
    chmodSync(script, 0o700);
    const got = (): string => {
      try {
        return readFileSync(`${script}.got`, 'utf8');
      } catch {
        return '';
      }
    };
    const environment = { BROWSER: `/nonexistent/browser:${script} --new %s --end`, PATH: process.env['PATH'] };
    expect(await openBrowser('https://asp.test/a?b=c&d', environment)).toBe(true);
    await expect.poll(got).toBe('--new|https://asp.test/a?b=c&d|--end|');
    expect(await openBrowser('https://asp.test/', { BROWSER: '/nonexistent/a:/nonexistent/b' })).toBe(false);
  });
});

describe('the page after the redirect', () => {
  it('is whole, static, and allowed no script and no style but its own', () => {
    for (const page of ['done', 'refused', 'ignored', 'gone'] as const) {
      const { html } = callbackPage(page);
      expect(html).toMatch(
        /^<!doctype html>\n<html lang="en">[\s\S]*<title>[^<]+ · asp<\/title>[\s\S]*<h1>[^<]+<\/h1>/,
      );
      expect(html).not.toMatch(/<script|style="|http:|https:/);
    }
    expect(CALLBACK_HEADERS['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]{44}';/);
  });
});
