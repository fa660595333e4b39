import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

import type { Context } from '../../context/context.js';
import { CliError } from '../../terminal/cli-error.js';
import { quoteWords } from '../../terminal/failure.js';

/** A command that was run, and what came of it. */
export interface Step {
  readonly command: string;
  /** Null: it still runs, or a signal ended it. */
  readonly exit_code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Where the demo takes place: a home, a service and programs of its own. */
export interface Stage {
  /** Starts a service in the background and waits for its first line. */
  serve(words: readonly string[]): Promise<Step>;
  /** Runs `asp` with these words to its end; what it prints is shown as it comes. */
  play(words: readonly string[]): Promise<Step>;
  /** Ends every program that was started, and takes the home away. */
  close(): Promise<void>;
}

const PATIENCE_MS = 5000;
const FOLDERS = ['config', 'state', 'data', 'run', 'tmp'] as const;

/** A private home in the folder for temporary files. When the run is told to stop, all of it is gone at once. */
export async function openStage(context: Context): Promise<Stage> {
  const home = await mkdtemp(join(context.machine.temporaryDirectory, 'asp-demo-'));
  for (const folder of FOLDERS) await mkdir(join(home, folder), { mode: 0o700 });
  const environment = environmentIn(context, home);
  const running = new Map<ChildProcess, Promise<unknown>>();

  const start = (words: readonly string[]): StagedProgram => {
    context.signal.throwIfAborted();
    const program = startProgram(context, words, { cwd: home, env: environment });
    running.set(program.child, program.ended);
    void program.ended.then(() => running.delete(program.child));
    return program;
  };
  const stopNow = (): void => {
    for (const child of running.keys()) child.kill('SIGKILL');
  };
  context.signal.addEventListener('abort', stopNow, { once: true });

  return {
    async serve(words) {
      const service = start(words);
      await new Promise<void>((resolve, reject) => {
        service.child.stdout.on('data', () => service.shown.stdout.includes('\n') && resolve());
        void service.ended.then(() => {
          const message = `The demo could not start a service. ${service.shown.stderr.trim()}`.trim();
          reject(context.signal.aborted ? context.signal.reason : new CliError('ASP_BUG', { message }));
        });
      });
      await service.written();
      return service.stepOf(null);
    },
    async play(words) {
      const program = start(words);
      const code = await program.ended;
      await program.written();
      context.signal.throwIfAborted();
      return program.stepOf(code);
    },
    async close() {
      const cancel = context.clock.schedule(PATIENCE_MS, stopNow);
      for (const child of running.keys()) child.kill(context.signal.aborted ? 'SIGKILL' : 'SIGTERM');
      await Promise.all(running.values());
      cancel();
      context.signal.removeEventListener('abort', stopNow);
      await rm(home, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** A program on the stage, and what it has printed so far. */
interface StagedProgram {
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  readonly ended: Promise<number | null>;
  readonly shown: Readonly<Record<'stdout' | 'stderr', string>>;
  stepOf(exitCode: number | null): Step;
  /** Resolves once all of it was passed on. */
  written(): Promise<void>;
}

/** Starts `asp` with these words; what it prints is passed on as it comes, unless it is kept for one document. */
function startProgram(
  context: Context,
  words: readonly string[],
  place: { readonly cwd: string; readonly env: Record<string, string> },
): StagedProgram {
  const [program = '', script = ''] = context.machine.commandLine;
  const child = spawn(program, [script, ...words], { ...place, stdio: ['ignore', 'pipe', 'pipe'] });
  const shown = { stdout: '', stderr: '' };
  let writing = Promise.resolve();
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      shown[name] += text;
      const isShown = context.output.format === 'human' && !(name === 'stderr' && context.globals.isQuiet);
      if (isShown) writing = writing.then(() => context.streams[name].write(text)).catch(() => {});
    });
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null));
    child.once('close', (code) => resolve(code));
  });
  const stepOf = (exit_code: number | null): Step => ({ command: quoteWords(['asp', ...words]), exit_code, ...shown });
  return { child, ended, shown, stepOf, written: () => writing };
}

/** The environment of the user without anything that says who, where or how to act; logins go to files in `home`. */
function environmentIn({ environment }: Context, home: string): Record<string, string> {
  const kept = Object.entries(environment).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !/^(ASP_|XDG_|DBUS_)/i.test(entry[0]),
  );
  return {
    ...Object.fromEntries(kept),
    HOME: home,
    USERPROFILE: home,
    APPDATA: join(home, 'config'),
    LOCALAPPDATA: join(home, 'data'),
    XDG_CONFIG_HOME: join(home, 'config'),
    XDG_STATE_HOME: join(home, 'state'),
    XDG_DATA_HOME: join(home, 'data'),
    XDG_RUNTIME_DIR: join(home, 'run'),
    TMPDIR: join(home, 'tmp'),
    TEMP: join(home, 'tmp'),
    TMP: join(home, 'tmp'),
    ASP_TOKEN_STORE: 'file',
    ASP_NO_INPUT: '1',
    BROWSER: 'none',
  };
}
