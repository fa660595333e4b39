import { closeSync, constants, fstatSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { makeDirectory } from '../../kit/private-file.js';
import { replaceUnsafe } from '../../kit/sanitize.js';
import { isHandle, OWNER_GLOB_PATTERN } from '../../wire/handle.js';
import { isId } from '../../wire/id.js';
import { credentialKind } from './build-credential.js';
import type { Context } from './context.js';

/** What completions know from earlier commands. `entries` is the allowlist of the agent that acted last. */
export type RememberedKind = 'handles' | 'sessions' | 'attachments' | 'entries' | 'blocked';

/** A name, and what helps a person to recognize it: a topic, a display name, a file name. */
export interface Remembered {
  readonly name: string;
  readonly about?: string | null | undefined;
}

const KEPT: Record<RememberedKind, number> = {
  handles: 200,
  sessions: 50,
  attachments: 50,
  entries: 500,
  blocked: 200,
};
const ABOUT_LENGTH = 60;

const isEntry = (text: string): boolean => isHandle(text) || OWNER_GLOB_PATTERN.test(text);
const IS_NAME: Record<RememberedKind, (text: string) => boolean> = {
  handles: isHandle,
  sessions: (text) => isId('session', text),
  attachments: (text) => isId('attachment', text),
  entries: isEntry,
  blocked: isEntry,
};

type Memory = Pick<Context, 'paths'>;

/**
 * Keeps names for completions, newest first. A program with credentials from its environment leaves nothing behind.
 * Failing to write the file is not an error.
 */
export async function remember(
  context: Memory & Pick<Context, 'environment' | 'profile'>,
  kind: RememberedKind,
  items: readonly Remembered[],
  isWhole = false,
): Promise<void> {
  try {
    if (items.length === 0 && !isWhole) return;
    if (credentialKind(context.environment, await context.profile()) !== 'login') return;
    replace(context, kind, (before) => (isWhole ? items : [...items, ...before]));
  } catch {}
}

/** A new session by its topic and its invitees. */
export async function rememberSession(
  context: Parameters<typeof remember>[0],
  session: { session_id: string; topic: string | undefined; invited: readonly string[] | null },
): Promise<void> {
  const { session_id: name, topic, invited } = session;
  await remember(context, 'sessions', [{ name, about: topic ?? invited?.join(', ') }]);
  await remember(
    context,
    'handles',
    (invited ?? []).map((handle) => ({ name: handle })),
  );
}

/** Completions no longer offer these. */
export function forget(context: Memory, kind: RememberedKind, names: readonly string[]): void {
  try {
    replace(context, kind, (before) => before.filter(({ name }) => !names.includes(name)));
  } catch {}
}

/**
 * The remembered names, newest first; empty if the file cannot be read. A file that was tampered with cannot add other
 * text.
 */
export function recall(stateDirectory: string | undefined, kind: RememberedKind): readonly Remembered[] {
  if (stateDirectory === undefined) return [];
  const path = join(stateDirectory, 'completion', kind);
  const lines = readSmallFile(path, constants.O_NOFOLLOW).split('\n').slice(0, KEPT[kind]);
  return lines.flatMap((line) => {
    const [name = '', about = ''] = line.split('\t');
    return IS_NAME[kind](name) ? [{ name, about: toAbout(about) }] : [];
  });
}

function replace(
  { paths: { stateDirectory } }: Memory,
  kind: RememberedKind,
  change: (before: readonly Remembered[]) => readonly Remembered[],
): void {
  if (stateDirectory === undefined) return;
  const before = recall(stateDirectory, kind);
  const changed = change(before);
  const abouts = new Map(changed.toReversed().flatMap(({ name, about }) => (about ? [[name, about]] : [])));
  const names = [...new Set(changed.map(({ name }) => name))].filter(IS_NAME[kind]).slice(0, KEPT[kind]);
  const toText = (each: readonly Remembered[]): string =>
    each.map(({ name, about }) => `${name}${about ? `\t${toAbout(about)}` : ''}\n`).join('');
  const text = toText(names.map((name) => ({ name, about: abouts.get(name) })));
  if (text !== toText(before)) replaceOwn(join(stateDirectory, 'completion', kind), text);
}

/** One line of text from a peer or a service, without characters that control a terminal. */
function toAbout(text: string): string {
  const line = replaceUnsafe(text.slice(0, 4 * ABOUT_LENGTH), () => '').replace(/\s+/g, ' ');
  return [...line.trim()].slice(0, ABOUT_LENGTH).join('');
}

const READ_MAX_BYTES = 1024 * 1024;

/** The text of a regular file of at most 1 MiB; otherwise an empty text. It never waits for a pipe. */
export function readSmallFile(path: string, flags = 0): string {
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | flags);
    try {
      const state = fstatSync(file);
      return state.isFile() && state.size <= READ_MAX_BYTES ? readFileSync(file, 'utf8') : '';
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}

/**
 * Atomically, but without waiting for the disk: lost names are learned again, and each `send` would pay for the wait.
 */
function replaceOwn(path: string, text: string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  makeDirectory(dirname(path));
  rmSync(temporary, { force: true });
  try {
    writeFileSync(temporary, text, { mode: 0o600, flag: 'wx' });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
