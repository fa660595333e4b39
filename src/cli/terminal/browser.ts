import { spawn } from 'node:child_process';

import { childEnvironment, withoutSecrets } from './child-environment.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** Whether a browser could show up where the user sits: not over SSH without a display, not when told not to. */
export function canOpenBrowser(environment: Environment, platform: NodeJS.Platform): boolean {
  const isSet = (name: string): boolean => (environment[name] ?? '') !== '';
  // Whoever names one knows: editors that are connected from afar set it to one that opens at the near end.
  if (isSet('BROWSER')) return environment['BROWSER'] !== 'none';
  if (isSet('DISPLAY') || isSet('WAYLAND_DISPLAY')) return true;
  if (isSet('SSH_CONNECTION') || isSet('SSH_TTY')) return false;
  // Linux on Windows has the browser of Windows.
  return platform === 'darwin' || platform === 'win32' || isSet('WSL_DISTRO_NAME') || isSet('WSL_INTEROP');
}

/**
 * Asks the system to show an address. `command` replaces the system's browser; its words are split at spaces and the
 * address is put for `%s` or at the end. BROWSER may name several with colons: the first that can be started. That it was asked says nothing about a window: print the address in any case.
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
  const words = rest.includes('%s') ? rest.map((word) => (word === '%s' ? url : word)) : [...rest, url];
  return new Promise((resolve) => {
    const child = spawn(program, words, { stdio: 'ignore', detached: true, env: childEnvironment(environment) });
    child.once('error', () => resolve(false));
    child.once('spawn', () => {
      child.unref();
      resolve(true);
    });
  });
}
