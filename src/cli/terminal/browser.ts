import { spawn } from 'node:child_process';

import { childEnvironment, withoutSecrets } from './child-environment.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether a browser could show up where the user sits: not over SSH without a display, not when told not to. */
export function canOpenBrowser(environment: Environment, platform: NodeJS.Platform): boolean {
  if (environment['BROWSER'] === 'none') return false;
  const isRemote = environment['SSH_CONNECTION'] !== undefined || environment['SSH_TTY'] !== undefined;
  const hasDisplay = environment['DISPLAY'] !== undefined || environment['WAYLAND_DISPLAY'] !== undefined;
  if (platform === 'darwin' || platform === 'win32') return !isRemote;
  return hasDisplay || environment['BROWSER'] !== undefined;
}

/**
 * Asks the system to show an address. `command` replaces the system's browser; its words are split at spaces and the
 * address is put for `%s` or at the end. That it was asked says nothing about a window: print the address in any case.
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
    const [program = '', ...rest] = command.split(' ').filter((word) => word !== '');
    const words = rest.includes('%s') ? rest.map((word) => (word === '%s' ? url : word)) : [...rest, url];
    return await new Promise((resolve) => {
      const child = spawn(program, words, { stdio: 'ignore', detached: true, env: childEnvironment(environment) });
      child.once('error', () => resolve(false));
      child.once('spawn', () => {
        child.unref();
        resolve(true);
      });
    });
  } catch {
    return false;
  }
}
