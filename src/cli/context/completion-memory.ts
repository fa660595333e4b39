import { closeSync, constants, fstatSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { makeDirectory } from '../../kit/private-file.js';
import { handleOf } from '../values.js';
import type { Context } from './context.js';

/** What completions offer beside commands and options. */
export type RememberedKind = 'handles' | 'sessions' | 'profiles';

const KEPT: Record<RememberedKind, number> = { handles: 200, sessions: 50, profiles: 100 };
const IS_NAME: Record<RememberedKind, (text: string) => boolean> = {
  handles: (text) => handleOf(text) === text,
  sessions: (text) => /^sess_[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(text),
  profiles: (text) => /^[a-z0-9][a-z0-9_-]{0,62}$/i.test(text),
};

/**
 * Keeps names for completions, the newest first: a shell reads them from a file, one a line, without starting this program.
 * Only well-formed names get there, whatever a service says. That the file cannot be written is not a failure.
 */
export async function remember(
  { paths }: Pick<Context, 'paths'>,
  kind: RememberedKind,
  names: readonly string[],
  isWhole = false,
): Promise<void> {
  if (paths.stateDirectory === undefined || (names.length === 0 && !isWhole)) return;
  const path = join(paths.stateDirectory, 'completion', kind);
  try {
    const before = isWhole ? [] : readOwn(path).split('\n');
    const known = [...new Set([...names, ...before])].filter(IS_NAME[kind]).slice(0, KEPT[kind]);
    if (known.join('\n') !== before.join('\n').trimEnd()) replaceOwn(path, `${known.join('\n')}\n`);
  } catch {}
}

/** The text of a regular file, without following a link to it; none where there is none. */
function readOwn(path: string): string {
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      return fstatSync(file).isFile() ? readFileSync(file, 'utf8') : '';
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}

/** At once or not at all, but without waiting for the disk: what is lost is learned again, and each `send` pays for it. */
function replaceOwn(path: string, text: string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  makeDirectory(dirname(path));
  rmSync(temporary, { force: true });
  writeFileSync(temporary, text, { mode: 0o600, flag: 'wx' });
  renameSync(temporary, path);
}
