import { spawn } from 'node:child_process';
import type { Environment } from '../../kit/environment.js';

import { childEnvironment, withoutSecrets } from './child-environment.js';

interface BrowserHost {
  readonly environment: Environment;
  readonly globals: { readonly browser: string | undefined };
  readonly machine: { readonly platform: NodeJS.Platform };
}

/** The environment with the browser of the settings, unless BROWSER names one. */
export const withBrowser = (environment: Environment, setting: string | undefined): Environment =>
  setting === undefined || (environment['BROWSER'] ?? '') !== '' ? environment : { ...environment, BROWSER: setting };

/** Whether a browser could open where the user is: not over SSH without a display, and not if it is turned off. */
export function canOpenBrowser(environment: Environment, platform: NodeJS.Platform): boolean {
  const isSet = (name: string): boolean => (environment[name] ?? '') !== '';
  // A user who sets BROWSER knows best: editors connected to a remote machine set it to a program that opens on the
  // user's side.
  if (isSet('BROWSER')) return environment['BROWSER'] !== 'none';
  if (isSet('DISPLAY') || isSet('WAYLAND_DISPLAY')) return true;
  if (isSet('SSH_CONNECTION') || isSet('SSH_TTY')) return false;
  // Linux on Windows uses the browser of Windows.
  return platform === 'darwin' || platform === 'win32' || isSet('WSL_DISTRO_NAME') || isSet('WSL_INTEROP');
}

/** Opens an address in a browser, if one can open where the user is. */
export async function openIfPossible(url: string, { environment, globals, machine }: BrowserHost): Promise<boolean> {
  const own = withBrowser(environment, globals.browser);
  return canOpenBrowser(own, machine.platform) && openBrowser(url, own);
}

/**
 * Asks the system to show an address. `command` replaces the system's browser; it is split at spaces, and the address
 * replaces `%s` or is appended. BROWSER may name several separated by colons: the first that starts is used. Success
 * does not mean that a window opened, so print the address in any case.
 */
export async function openBrowser(
  url: string,
  environment: Environment,
  command: string | undefined = environment['BROWSER'],
): Promise<boolean> {
  try {
    if (command === undefined || command === '') {
      const { default: open } = await import('open');
      const child = await withoutSecrets(() => open(url));
      child.on('error', () => {});
      child.unref();
      return true;
    }
    const candidates = command === environment['BROWSER'] ? command.split(/:(?!\\)/) : [command];
    for (const candidate of candidates) if (await startBrowser(candidate, url, environment)) return true;
    return false;
  } catch {
    return false;
  }
}

function startBrowser(command: string, url: string, environment: Environment): Promise<boolean> {
  const [program = '', ...rest] = command.split(' ').filter((word) => word !== '');
  const args = rest.includes('%s') ? rest.map((word) => (word === '%s' ? url : word)) : [...rest, url];
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: 'ignore', detached: true, env: childEnvironment(environment) });
    child.once('error', () => resolve(false));
    child.once('spawn', () => {
      child.unref();
      resolve(true);
    });
  });
}
