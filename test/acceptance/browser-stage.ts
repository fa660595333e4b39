import type { Browser } from 'playwright-core';

import { launchChromium } from '../support/chromium.js';
import { createHome, type Home, type ServiceProcess, startServe } from './program.js';

/** A service in a separate home with agents to try it with, and a real browser. */
export interface BrowserStage {
  readonly home: Home;
  readonly service: ServiceProcess;
  readonly browser: Browser;
  close(): Promise<void>;
}

export async function openBrowserStage(): Promise<BrowserStage> {
  const home = createHome();
  const service = await startServe(home, ['--demo']);
  const browser = await launchChromium();
  return {
    home,
    service,
    browser,
    async close() {
      await browser.close();
      await service.stop();
      await home.dispose();
    },
  };
}
