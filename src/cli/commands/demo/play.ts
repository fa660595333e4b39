import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { quoteArgs } from '../../../kit/format.js';
import { createMutex } from '../../../kit/mutex.js';

import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import type { Made, OutputOf } from '../schema/output-shapes.js';

const SERVE = ['serve', '--demo', '--port', '0', '--data', 'memory', '--quiet'];

/** Shows each command with its real output. */
export async function playDemo(context: Context): Promise<void> {
  const stage = await openStage(context);
  const steps: Step[] = [];
  try {
    for await (const step of play(context, stage)) steps.push(step);
  } finally {
    await stage.close();
  }
  const { output } = context;
  await output.note(
    'That was the demo. Its service has stopped and its data is gone. To start your own: asp serve --demo',
  );
  if (output.format !== 'human') await output.document({ steps }, () => '');
}

/** A service, a login, a conversation with an agent that answers, and one message that needs no answer. */
async function* play(context: Context, stage: Stage): AsyncGenerator<Step> {
  await announce(context, 'Start a whole service on this machine, in the background:', `asp ${SERVE.join(' ')} &`);
  yield await stage.serve(SERVE);
  yield await show(context, stage, 'Sign in as an agent, with OAuth, like at any other service:', [
    'login',
    '@demo.you',
    '--yes',
  ]);
  const sent = await show(context, stage, 'Start a session with an agent that answers:', ['send', '@demo.echo', 'hi']);
  yield sent;
  const sessionId = sent.stdout.trim();
  const tail = ['tail', sessionId, '--type', 'message', '-c', '2', '--pretty'];
  yield await show(context, stage, 'Follow it until the answer arrives:', tail);
  yield await show(context, stage, 'End it, and read it as JSON lines:', ['session', 'end', sessionId]);
  yield await show(context, stage, undefined, ['tail', sessionId, '--no-follow']);
  yield await show(context, stage, 'Send one message that needs no answer:', ['send', '@alice.bot', 'hi', '--end']);
}

async function show(
  context: Context,
  stage: Stage,
  remark: string | undefined,
  args: readonly string[],
): Promise<Step> {
  await announce(context, remark, quoteArgs(['asp', ...args]));
  const step = await stage.play(args);
  if (step.exit_code === 0) return step;
  throw new CliError('ASP_BUG', { message: `The demo stopped: ${step.command} exited with ${step.exit_code}.` });
}

async function announce({ output }: Context, remark: string | undefined, line: string): Promise<void> {
  if (output.format !== 'human') return;
  const style = await output.style();
  const lead = remark === undefined ? '' : `\n${style.dim(`# ${remark}`)}\n`;
  await output.verbatim(`${lead}${style.dim('$')} ${style.bold(line)}`);
}

/** A command that was run, and its result; `exit_code` is null if it is still running, or ended by a signal. */
type Step = Made<OutputOf<'demo'>['steps'][number]>;

/** The environment of the demo: its own home directory, service and programs. */
interface Stage {
  /** Starts a service in the background and waits for its first line. */
  serve(args: readonly string[]): Promise<Step>;
  /** Runs `asp` to its end and shows its output as it arrives. */
  play(args: readonly string[]): Promise<Step>;
  /** Stops every program that was started, and removes the home directory. */
  close(): Promise<void>;
}

const PATIENCE_MS = 5000;
const FOLDERS = ['config', 'state', 'data', 'run', 'tmp'] as const;

/** A private home directory in the folder for temporary files, removed at once if the run is interrupted. */
async function openStage(context: Context): Promise<Stage> {
  const home = await mkdtemp(join(context.machine.temporaryDirectory, 'asp-demo-'));
  for (const folder of FOLDERS) await mkdir(join(home, folder), { mode: 0o700 });
  const environment = environmentIn(context, home);
  const running = new Map<ChildProcess, Promise<unknown>>();

  const start = (args: readonly string[]): StagedProgram => {
    context.signal.throwIfAborted();
    const program = startProgram(context, args, { cwd: home, env: environment });
    running.set(program.child, program.ended);
    void program.ended.then(() => running.delete(program.child));
    return program;
  };
  const stopNow = (): void => {
    for (const child of running.keys()) child.kill('SIGKILL');
  };
  context.signal.addEventListener('abort', stopNow, { once: true });

  return {
    async serve(args) {
      const service = start(args);
      await new Promise<void>((resolve, reject) => {
        service.child.stdout.on('data', () => service.shown.stdout.includes('\n') && resolve());
        void service.ended.then(() => {
          const message = `The demo could not start a service. ${service.shown.stderr.trim()}`.trim();
          reject(context.signal.aborted ? context.signal.reason : new CliError('ASP_BUG', { message }));
        });
      });
      await service.written();
      return service.createStep(null);
    },
    async play(args) {
      const program = start(args);
      const code = await program.ended;
      await program.written();
      context.signal.throwIfAborted();
      return program.createStep(code);
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

/** A running program, and its output so far. */
interface StagedProgram {
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  readonly ended: Promise<number | null>;
  readonly shown: Readonly<Record<'stdout' | 'stderr', string>>;
  createStep(exitCode: number | null): Step;
  /** Resolves once all of it was passed on. */
  written(): Promise<void>;
}

/** Starts `asp`; its output is passed on as it arrives, or collected for one document. */
function startProgram(
  context: Context,
  args: readonly string[],
  host: { readonly cwd: string; readonly env: Record<string, string> },
): StagedProgram {
  const [program = '', script = ''] = context.machine.commandLine;
  const child = spawn(program, [script, ...args], { ...host, stdio: ['ignore', 'pipe', 'pipe'] });
  const shown = { stdout: '', stderr: '' };
  const inTurn = createMutex();
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      shown[name] += text;
      const isShown = context.output.format === 'human' && !(name === 'stderr' && context.globals.isQuiet);
      if (isShown) inTurn(() => context.streams[name].write(text)).catch(() => {});
    });
  const ended = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null));
    child.once('close', (code) => resolve(code));
  });
  const createStep = (exit_code: number | null): Step => ({
    command: quoteArgs(['asp', ...args]),
    exit_code,
    ...shown,
  });
  return { child, ended, shown, createStep, written: () => inTurn(async () => {}) };
}

/**
 * The environment of the user without any variables that choose an identity, service or behavior; logins go to files in
 * `home`.
 */
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
