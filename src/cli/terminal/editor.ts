import { type StdioOptions, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Environment } from '../../kit/environment.js';
import { CliError } from '../errors.js';
import { childEnvironment } from './child-environment.js';
import type { Streams } from './streams.js';

/** Dependencies of an editor. */
export interface EditorHost {
  readonly environment: Environment;
  readonly globals: { readonly editor: string | undefined };
  readonly machine: { readonly temporaryDirectory: string; readonly platform: NodeJS.Platform };
  readonly streams: Pick<Streams, 'stdin' | 'stdout'>;
  readonly signal: AbortSignal;
  /** Runs with Ctrl-C handled by the editor. */
  lendTerminal<Value>(work: () => Promise<Value>): Promise<Value>;
}

/** A text that the user wrote, in a file that only the user can read. */
export interface Draft {
  readonly path: string;
  discard(): Promise<void>;
  /** Opens the editor again. @throws CliError `ASP_USAGE` if it fails; the text stays */
  reopen(): Promise<void>;
}

/** A text that the editor opens. */
export interface DraftOptions {
  /** Its extension tells the editor what it is. */
  readonly file: string;
  readonly text: string;
  /** Appended to every failure, such as 'Nothing was sent.' */
  readonly unchanged: string;
}

/**
 * Lets the user write a text in an editor (VISUAL, EDITOR, or the setting). Undefined if the text was not changed; only `discard`
 * deletes a changed text.
 */
export async function editDraft(host: EditorHost, { file, text, unchanged }: DraftOptions): Promise<Draft | undefined> {
  const folder = await mkdtemp(join(host.machine.temporaryDirectory, 'asp-edit-'));
  const path = join(folder, file);
  const discard = (): Promise<void> => rm(folder, { recursive: true, force: true });
  const runOnce = () => host.lendTerminal(() => runEditor(host, path));
  const toError = ({ message, cause }: EditorFailure, why: string | undefined): CliError =>
    new CliError('ASP_USAGE', { message: `${message} ${unchanged}`, why, cause });
  await writeFile(path, text, { mode: 0o600 });
  const failure = await runOnce();
  const isAsBefore = (await readFile(path, 'utf8').catch(() => text)).trim() === text.trim();
  if (isAsBefore) await discard();
  if (failure !== undefined) throw toError(failure, isAsBefore ? failure.why : `your text is in ${path}.`);
  if (isAsBefore) return undefined;
  return {
    path,
    discard,
    async reopen() {
      const next = await runOnce();
      if (next !== undefined) throw toError(next, next.why);
    },
  };
}

interface EditorFailure {
  readonly message: string;
  readonly why?: string;
  readonly cause?: unknown;
}

/** Quotes and other characters that mean something to a shell. Without them, an editor starts without one. */
const NEEDS_SHELL = /[^\w\s./:=+,@%-]/;

async function runEditor(host: EditorHost, path: string): Promise<EditorFailure | undefined> {
  const { environment, globals, machine, streams, signal } = host;
  const chosen = environment['VISUAL'] || environment['EDITOR'] || globals.editor;
  const isWindows = machine.platform === 'win32';
  // A script would wait forever for vi; an editor that someone chose may need no terminal.
  if (!chosen && !streams.stdin.isTerminal)
    return { message: 'There is no terminal to edit on.', why: 'set EDITOR to a program that needs none.' };
  const editor = chosen || (isWindows ? 'notepad' : 'vi');
  const [program = editor, ...words] = editor.split(' ').filter((word) => word !== '');
  // stdout is for data: an editor draws elsewhere if it is not a terminal.
  const output = streams.stdout.isTerminal ? 'inherit' : 2;
  const env = childEnvironment(environment);
  const stdio: StdioOptions = ['inherit', output, 'inherit'];
  try {
    const how = await new Promise<string>((resolve, reject) => {
      // On Windows, many editors are batch files (code.cmd), which only the shell can start; it also reads the quotes
      // around a path with spaces.
      const child = isWindows
        ? spawn(`${editor} "${path}"`, { stdio, env, signal, shell: true })
        : NEEDS_SHELL.test(editor)
          ? spawn('sh', ['-c', `exec ${editor} "$@"`, 'sh', path], { stdio, env, signal })
          : spawn(program, [...words, path], { stdio, env, signal });
      child.once('error', reject);
      child.once('exit', (code, name) => resolve(code === null ? String(name) : `exit code ${code}`));
    });
    return how === 'exit code 0' ? undefined : { message: `The editor failed (${how}).` };
  } catch (cause) {
    if (signal.aborted) return { message: 'The editor was stopped.', cause };
    return { message: `Could not start the editor '${program}'.`, why: 'set EDITOR.', cause };
  }
}
