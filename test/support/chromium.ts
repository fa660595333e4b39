import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium } from 'playwright-core';

const CHROMIUM = process.env['ASP_TEST_CHROMIUM'] ?? '/usr/bin/chromium';

/** The reason to skip tests that need a real browser, or undefined. */
export const noChromium = existsSync(CHROMIUM) ? undefined : 'chromium not installed';

/** Chromium without its user interface, which takes three quarters of the CPU time of each new window. */
const HEADLESS_SHELL = '/usr/lib/chromium/chromium-headless-shell';
const LIGHTEST =
  process.env['ASP_TEST_CHROMIUM'] === undefined && existsSync(HEADLESS_SHELL) ? HEADLESS_SHELL : CHROMIUM;

const running = new Map<string, Promise<Browser>>();

/**
 * A real browser without background network traffic. The files of one process share it, because its start takes longer
 * than most of their tests: `close` only closes the windows that were opened through this handle. The browser ends with
 * the process. Without its user interface, which is left out if possible, a browser shows no notifications.
 */
export async function launchChromium({ isWhole = false } = {}): Promise<Browser> {
  const path = isWhole ? CHROMIUM : LIGHTEST;
  const previous = await running.get(path);
  if (previous?.isConnected() === true) return openHandle(previous);
  const started = launch(path);
  running.set(path, started);
  return openHandle(await started);
}

function launch(executablePath: string): Promise<Browser> {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', ...quiet] });
}

function openHandle(browser: Browser): Browser {
  const contexts = new Set<BrowserContext>();
  const own: Pick<Browser, 'newContext' | 'newPage' | 'close' | 'contexts'> = {
    async newContext(options) {
      const context = await browser.newContext(options);
      contexts.add(context);
      context.once('close', () => contexts.delete(context));
      return context;
    },
    async newPage(options) {
      const page = await browser.newPage(options);
      contexts.add(page.context());
      return page;
    },
    async close() {
      for (const context of contexts) await context.close();
    },
    contexts: () => [...contexts],
  };
  return new Proxy(browser, {
    get(target, name: keyof Browser) {
      if (name in own) return own[name as keyof typeof own];
      const value: unknown = target[name];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
