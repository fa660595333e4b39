import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CliError } from '../errors.js';
import { childEnvironment } from './child-environment.js';
import type { Streams } from './streams.js';

/** Dependencies of an editor. */
export interface EditorHost {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly machine: { readonly temporaryDirectory: string };
  readonly streams: Pick<Streams, 'stdout'>;
  readonly signal: AbortSignal;
  /** Runs with Ctrl-C handled by the editor. */
  lendTerminal<Value>(work: () => Promise<Value>): Promise<Value>;
}

/** A text that the user wrote, in a file that only the user can read. */
export interface Draft {
  readonly path: string;
  discard(): Promise<void>;
}

/** Lets the user write a text in an editor (VISUAL, EDITOR). Only `discard` deletes the text. */
export async function editDraft(host: EditorHost): Promise<Draft> {
  const folder = await mkdtemp(join(host.machine.temporaryDirectory, 'asp-edit-'));
  const path = join(folder, 'message.md');
  const draft = { path, discard: () => rm(folder, { recursive: true, force: true }) };
  await writeFile(path, '', { mode: 0o600 });
  const failure = await host.lendTerminal(() => runEditor(host, path));
  const isEmpty = (await readFile(path, 'utf8').catch(() => '')).trim() === '';
  if (failure === undefined && !isEmpty) return draft;
  if (isEmpty) await draft.discard();
  throw new CliError('ASP_USAGE', {
    message: failure?.message ?? 'The message is empty. Nothing was sent.',
    why: isEmpty ? failure?.why : `your text is in ${path}.`,
    cause: failure?.cause,
  });
}

interface EditorFailure {
  readonly message: string;
  readonly why?: string;
  readonly cause?: unknown;
}

async function runEditor(host: EditorHost, path: string): Promise<EditorFailure | undefined> {
  const { environment, streams, signal } = host;
  const editor = environment['VISUAL'] || environment['EDITOR'] || 'vi';
  const [program = 'vi', ...words] = editor.split(' ').filter((word) => word !== '');
  // stdout is for data: an editor draws elsewhere if it is not a terminal.
  const output = streams.stdout.isTerminal ? 'inherit' : 2;
  const env = childEnvironment(environment);
  try {
    const how = await new Promise<string>((resolve, reject) => {
      const child = spawn(program, [...words, path], { stdio: ['inherit', output, 'inherit'], env, signal });
      child.once('error', reject);
      child.once('exit', (code, name) => resolve(code === null ? String(name) : `exit code ${code}`));
    });
    return how === 'exit code 0' ? undefined : { message: `The editor failed (${how}). Nothing was sent.` };
  } catch (cause) {
    if (signal.aborted) return { message: 'The editor was stopped. Nothing was sent.', cause };
    return { message: `Could not start the editor '${program}'.`, why: 'set EDITOR.', cause };
  }
}
