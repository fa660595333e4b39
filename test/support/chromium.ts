import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const CHROMIUM = process.env['ASP_TEST_CHROMIUM'] ?? '/usr/bin/chromium';

/** Why what needs a real browser is skipped, or undefined. */
export const noChromium = existsSync(CHROMIUM) ? undefined : 'chromium not installed';

/** A real browser that speaks to nobody but to those a test names. */
export function launchChromium(): Promise<Browser> {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', ...quiet] });
}
