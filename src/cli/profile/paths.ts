import { isAbsolute, join } from 'node:path';
import type { Environment } from '../../kit/environment.js';

import { CliError } from '../errors.js';

/** The inputs for paths. */
export interface Host {
  readonly environment: Environment;
  readonly machine: {
    readonly platform: NodeJS.Platform;
    readonly homeDirectory: string | undefined;
    readonly temporaryDirectory: string;
    readonly workingDirectory: string;
    readonly userId: number | undefined;
  };
}

/** Where this program stores files. A folder is undefined if the user cannot have it: then nothing is stored. */
export interface Paths {
  readonly configFile: string | undefined;
  /** Registrations, the list of logins, cursors. */
  readonly stateDirectory: string | undefined;
  /** The record of a local service and cached access tokens; emptied when the user signs out of the machine. */
  readonly runtimeDirectory: string;
  /** Databases of local services. */
  readonly dataDirectory: string | undefined;
}

const NAME = 'asp-cli';

/** The XDG base directories if they are set or on Linux; the platform's own directories on macOS and Windows. */
export function resolvePaths({ environment, machine }: Host): Paths {
  const { platform, homeDirectory: home, temporaryDirectory, userId } = machine;
  const folder = (variable: string, ...standard: string[]): string | undefined => {
    const value = environment[variable];
    if (value !== undefined && isAbsolute(value)) return join(value, NAME);
    return home === undefined ? undefined : join(home, ...standard, NAME);
  };
  const config =
    platform === 'win32'
      ? windowsFolder(environment, 'APPDATA', home, 'Roaming', 'Config')
      : folder('XDG_CONFIG_HOME', ...(platform === 'darwin' ? ['Library', 'Preferences'] : ['.config']));
  const state =
    platform === 'win32'
      ? windowsFolder(environment, 'LOCALAPPDATA', home, 'Local', 'State')
      : folder('XDG_STATE_HOME', ...(platform === 'darwin' ? ['Library', 'Application Support'] : ['.local', 'state']));
  const data =
    platform === 'win32'
      ? windowsFolder(environment, 'LOCALAPPDATA', home, 'Local', 'Data')
      : folder('XDG_DATA_HOME', ...(platform === 'darwin' ? ['Library', 'Application Support'] : ['.local', 'share']));
  const runtimeRoot = environment['XDG_RUNTIME_DIR'];
  const shared = join(temporaryDirectory, userId === undefined ? NAME : `${NAME}-${userId}`);
  // On macOS, the temporary folder is another one for a program that starts without TMPDIR.
  const usual = platform === 'darwin' && home !== undefined ? join(home, 'Library', 'Caches', NAME, 'run') : shared;
  return {
    configFile: config === undefined ? undefined : join(config, 'config.json'),
    stateDirectory: state,
    runtimeDirectory: runtimeRoot !== undefined && isAbsolute(runtimeRoot) ? join(runtimeRoot, NAME) : usual,
    dataDirectory: data,
  };
}

function windowsFolder(
  environment: Host['environment'],
  variable: string,
  home: string | undefined,
  standard: string,
  name: string,
): string | undefined {
  const root = environment[variable] ?? (home === undefined ? undefined : join(home, 'AppData', standard));
  return root === undefined ? undefined : join(root, NAME, name);
}

export const LOCAL_SERVICE_NAME = 'default';

/** The file in which a local service with that name records its addresses. */
export function localServiceFile(paths: Paths, name: string): string {
  return join(paths.runtimeDirectory, 'serve', `${name}.json`);
}

/** Where other programs of this user keep their files. */
export interface Folders {
  readonly home: string;
  /** The folder that a variable names, or one in the home directory. */
  readonly named: (variable: string, ...standard: readonly string[]) => string;
}

/** @throws CliError `ASP_CONFIG` for a user without a home directory */
export function findFolders({ machine: { homeDirectory: home }, environment }: Host): Folders {
  if (home === undefined)
    throw new CliError('ASP_CONFIG', {
      message: 'This user has no home directory.',
      why: 'other programs keep their settings there. Set HOME.',
    });
  const named: Folders['named'] = (variable, ...standard) => {
    const value = environment[variable];
    return value !== undefined && isAbsolute(value) ? value : join(home, ...standard);
  };
  return { home, named };
}
