import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { createHome, type Home, type Running, type ServiceProcess, startServe } from '../../acceptance/program.js';
import type { Browser, Person } from '../../support/browser.js';
import { copyFolder } from '../../support/copy-folder.js';
import { signUpAndAllow } from '../../support/person.js';

/** Creates a home whose local service has the demo's agents. */
export async function createHomeWithService(): Promise<{ home: Home; service: ServiceProcess }> {
  const home = createHome();
  return { home, service: await startServe(home, ['--demo']) };
}

/** Copies everything in `home` to another home, as a backup or a theft would. */
export function copyHome(home: Home): Home {
  const copy = createHome();
  for (const folder of ['.config', '.local', 'run'])
    if (existsSync(join(home.directory, folder))) {
      mkdirSync(join(copy.directory, folder), { recursive: true });
      copyFolder(join(home.directory, folder), join(copy.directory, folder));
    }
  return copy;
}

/** Starts `asp login` and waits for its address. */
export async function startLogin(home: Home, words: readonly string[] = []): Promise<{ login: Running; url: string }> {
  const login = home.start(['login', '--no-browser', ...words]);
  const [, url = ''] = await login.until('stderr', /^\s*(http:\S+authorize\S+)$/m);
  return { login, url };
}

/** Approves as a new person with a new agent. Returns the address to which the browser is redirected. */
export async function approve(browser: Browser, url: string, person: Person): Promise<string> {
  const { answer } = await signUpAndAllow(browser, url, person);
  return answer.headers['location'] ?? '';
}
