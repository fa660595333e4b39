import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';

import { VERSION } from './cli/version.js';

declare const ASP_BUILD: string;

/** The parameters of a CommonJS module, and how this one imports the files that are built separately. */
const PARAMETERS = 'exports, require, module, __filename, __dirname, $import';

/** How the program imports: the files that are built separately as its own, everything else through Node.js. */
type Import = (specifier: string) => Promise<unknown>;

/**
 * Runs a file of the program. The code that V8 compiles for a command is kept in the user's cache directory and used by
 * the next run of that command, which costs a third less; Node.js itself can do this only from version 22 on (D-67).
 */
function load(filename: string, cacheFile: string | undefined, importFromHere: Import): unknown {
  const { Script } = process.getBuiltinModule('node:vm');
  const script = new Script(`(function (${PARAMETERS}) {${readFileSync(filename, 'latin1')}\n})`, {
    filename,
    cachedData: cacheFile === undefined ? undefined : readOwn(cacheFile),
  });
  if (cacheFile !== undefined && script.cachedDataRejected !== false)
    process.once('exit', (code) => {
      if (code === 0) keep(cacheFile, script.createCachedData());
    });
  const module = { exports: {} };
  script.runInThisContext()(module.exports, require, module, filename, dirname(filename), importFromHere);
  return module.exports;
}

/** The service starts before the HTTP client, which on Node.js 20 changes V8's flags, and V8 refuses code of other flags. */
const KEPT = './apart/service.cjs';

/** Starts the program in main.cjs. */
function start(): void {
  const loaded = new Map<string, unknown>();
  const cacheFile = findCacheFile(first);
  const importFromHere: Import = async (specifier) => {
    if (!specifier.startsWith('./apart/')) return import(specifier);
    const own = specifier === KEPT ? cacheFile?.replace(/(?=\.bin$)/, '-service') : undefined;
    if (!loaded.has(specifier)) loaded.set(specifier, load(join(__dirname, specifier), own, importFromHere));
    return loaded.get(specifier);
  };
  load(join(__dirname, 'main.cjs'), cacheFile, importFromHere);
}

/** Where the code of this command is kept; undefined for a user without a cache directory, as in CI. */
function findCacheFile(command: string | undefined): string | undefined {
  const { XDG_CACHE_HOME, LOCALAPPDATA, HOME, NODE_DISABLE_COMPILE_CACHE } = process.env;
  const home = HOME === undefined ? undefined : join(HOME, '.cache');
  const root = XDG_CACHE_HOME ?? (process.platform === 'win32' ? LOCALAPPDATA : home);
  // A demo leaves nothing behind.
  if (root === undefined || !isAbsolute(root) || NODE_DISABLE_COMPILE_CACHE !== undefined || command === 'demo')
    return undefined;
  const name = /^[a-z]{1,20}$/.test(command ?? '') ? command : 'asp';
  return join(root, 'asp-cli', `code-${ASP_BUILD}-${process.versions.v8}-${process.arch}`, `${name}.bin`);
}

const isOurs = ({ uid, mode }: Stats): boolean =>
  process.getuid === undefined || (uid === process.getuid() && (mode & 0o022) === 0);

/** Whether no one else could replace the contents of this build's folder, or the folder itself. */
function isOurFolder(folder: string): boolean {
  return [folder, dirname(folder)]
    .map((path) => lstatSync(path))
    .every((state) => state.isDirectory() && isOurs(state));
}

/**
 * A complete file that no one else could have written: its contents are executed, and V8 does not check them. It holds
 * the code twice, because comparing two copies costs a tenth of loading `node:crypto` for a digest.
 */
function readOwn(path: string): Buffer | undefined {
  try {
    if (!isOurFolder(dirname(path))) return undefined;
    const file = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
    try {
      const state = fstatSync(file);
      if (!state.isFile() || !isOurs(state)) return undefined;
      const copies = readFileSync(file);
      const code = copies.subarray(0, copies.length / 2);
      return code.equals(copies.subarray(copies.length / 2)) ? code : undefined;
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}

/** A failed write is not an error. Files of other builds are removed. */
function keep(path: string, code: Buffer): void {
  try {
    const folder = dirname(path);
    const root = dirname(folder);
    // One step at a time: below a home directory that does not exist, nothing is created.
    makeFolder(dirname(root));
    makeFolder(root);
    if (makeFolder(folder)) removeOthers(root, folder);
    if (!isOurFolder(folder)) return;
    const temporary = `${path}.${process.pid}`;
    writeFileSync(temporary, Buffer.concat([code, code]), { mode: 0o600, flag: 'wx' });
    renameSync(temporary, path);
  } catch {
    // The next run compiles again.
  }
}

/** Whether the folder is new. */
function makeFolder(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (existsSync(path)) return false;
    throw error;
  }
}

function removeOthers(root: string, kept: string): void {
  for (const name of readdirSync(root)) {
    const folder = join(root, name);
    if (name.startsWith('code-') && folder !== kept) rmSync(folder, { recursive: true, force: true });
  }
}

const STDOUT = 1;

/** False if stdout does not accept all of it at once: the program itself then reports why. */
function printVersion(): boolean {
  try {
    writeSync(STDOUT, `${VERSION}\n`);
    return true;
  } catch {
    return false;
  }
}

const [first, ...others] = process.argv.slice(2);
const isAskedFor = (...flags: readonly (string | undefined)[]): boolean => others.length === 0 && flags.includes(first);

// A shell waits for completions, and a person for the overview: each loads a small file of its own, and none of the commands.
if (first === '__complete') require(join(__dirname, 'complete.cjs'));
else if (isAskedFor(undefined, '--help', '-h')) {
  const { printOverview } = require(join(__dirname, 'overview.cjs')) as { printOverview(): Promise<boolean> };
  void printOverview().then((isPrinted) => isPrinted || start());
} else if (!isAskedFor('--version', '-V') || !printVersion()) start();
