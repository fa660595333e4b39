import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import { constants as os } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import type { Environment } from '../../kit/environment.js';

/** `asp-deploy` on the PATH is the command `asp deploy`. */
const PREFIX = 'asp-';
const NAME = /^[a-z][a-z0-9-]{0,49}$/;
/** Packages of npm install batch files. */
const WINDOWS_SUFFIXES = ['.exe', '.cmd', '.bat'];
/** Like a shell: if a signal ended the program, its exit code is 128 plus the signal's number. */
const SIGNAL_EXIT = 128;

/** Where to look for extensions. */
export interface ExtensionSearch {
  readonly environment: Environment;
  readonly platform: NodeJS.Platform;
}

/** The program of an extension; undefined if there is none with this name. */
export function findExtension(name: string, search: ExtensionSearch): string | undefined {
  if (!NAME.test(name)) return undefined;
  return listFolders(search)
    .flatMap((folder) => suffixesFor(search).map((suffix) => join(folder, `${PREFIX}${name}${suffix}`)))
    .find(isProgram);
}

/** The names of all extensions, sorted. */
export function listExtensions(search: ExtensionSearch): string[] {
  const suffixes = suffixesFor(search);
  const names = listFolders(search).flatMap((folder) =>
    readNames(folder).flatMap((file) => {
      const suffix = suffixes.find((one) => file.endsWith(one));
      if (suffix === undefined || !file.startsWith(PREFIX)) return [];
      const name = file.slice(PREFIX.length, file.length - suffix.length);
      return NAME.test(name) && isProgram(join(folder, file)) ? [name] : [];
    }),
  );
  return [...new Set(names)].sort();
}

const suffixesFor = ({ platform }: ExtensionSearch): readonly string[] =>
  platform === 'win32' ? WINDOWS_SUFFIXES : [''];

/** A relative folder could contain anyone's program. */
function listFolders({ environment }: ExtensionSearch): string[] {
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
  readonly environment: Environment;
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
    const options = { stdio: 'inherit', env: { ...environment } } as const;
    const child = /\.(cmd|bat)$/.test(file)
      ? spawn(environment['ComSpec'] ?? 'cmd.exe', [batchLine(file, args)], {
          ...options,
          windowsVerbatimArguments: true,
        })
      : spawn(file, args, options);
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

/**
 * The arguments of `cmd.exe` that run a batch file with these arguments unchanged, and never as commands. The shell
 * expands variables even in quotes, so each percent sign is followed by a variable that expands to nothing.
 * @throws Error for a line break, which cannot be passed to a batch file
 */
function batchLine(file: string, args: readonly string[]): string {
  if (args.some((arg) => /[\r\n]/.test(arg))) throw new Error('a line break cannot be passed to a batch file');
  const quote = (arg: string): string => `"${arg.replaceAll('%', '%%cd:~,%').replaceAll('"', '""')}"`;
  return `/e:ON /v:OFF /d /s /c "${[file, ...args].map(quote).join(' ')}"`;
}
