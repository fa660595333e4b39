import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import { constants as os } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';

/** `asp-deploy` on the PATH is the command `asp deploy`. */
const PREFIX = 'asp-';
const NAME = /^[a-z][a-z0-9-]{0,49}$/;
const WINDOWS_SUFFIX = '.exe';
/** Like a shell: if a signal ended the program, its exit code is 128 plus the signal's number. */
const SIGNAL_EXIT = 128;

/** The folders to search, from the process. */
export interface ExtensionPlace {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
}

/** The program of an extension; undefined if there is none with this name. */
export function findExtension(name: string, place: ExtensionPlace): string | undefined {
  if (!NAME.test(name)) return undefined;
  return listFolders(place)
    .map((folder) => join(folder, `${PREFIX}${name}${suffixAt(place)}`))
    .find(isProgram);
}

/** The names of all extensions, sorted. */
export function listExtensions(place: ExtensionPlace): string[] {
  const suffix = suffixAt(place);
  const names = listFolders(place).flatMap((folder) =>
    readNames(folder).flatMap((file) => {
      const name = file.slice(PREFIX.length, file.length - suffix.length);
      const fits = file.startsWith(PREFIX) && file.endsWith(suffix) && NAME.test(name);
      return fits && isProgram(join(folder, file)) ? [name] : [];
    }),
  );
  return [...new Set(names)].sort();
}

const suffixAt = ({ platform }: ExtensionPlace): string => (platform === 'win32' ? WINDOWS_SUFFIX : '');

/** A relative folder could contain anyone's program. */
function listFolders({ environment }: ExtensionPlace): string[] {
  return (environment['PATH'] ?? '').split(delimiter).filter((folder) => isAbsolute(folder));
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The surroundings of an extension. */
export interface ExtensionHost {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  lendTerminal<Value>(work: () => Promise<Value>): Promise<Value>;
}

/**
 * Runs the program in this process's place: with its streams, its environment (credentials too, because the user could
 * have typed the program's own name), and its signals. Resolves with its exit code.
 *
 * @throws Error if it cannot be run
 */
export function runExtension(file: string, args: readonly string[], host: ExtensionHost): Promise<number> {
  const { environment, signal } = host;
  return host.lendTerminal(async () => {
    // Not loaded for completion, which only needs the names.
    const { spawn } = await import('node:child_process');
    const child = spawn(file, args, { stdio: 'inherit', env: { ...environment } });
    const stop = (): void => void child.kill('SIGTERM');
    signal.addEventListener('abort', stop, { once: true });
    try {
      return await new Promise<number>((resolve, reject) => {
        child.once('error', reject);
        child.once('exit', (code, name) => resolve(code ?? SIGNAL_EXIT + (name === null ? 0 : os.signals[name])));
      });
    } finally {
      signal.removeEventListener('abort', stop);
    }
  });
}
