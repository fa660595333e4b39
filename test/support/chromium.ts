import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const CHROMIUM = process.env['ASP_TEST_CHROMIUM'] ?? '/usr/bin/chromium';

/** The reason to skip tests that need a real browser, or undefined. */
export const noChromium = existsSync(CHROMIUM) ? undefined : 'chromium not installed';

/** Launches a real browser without background network traffic. */
export function launchChromium(): Promise<Browser> {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', ...quiet] });
}
