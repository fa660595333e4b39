import { rm } from 'node:fs/promises';

import { readIfPresent, replaceFile } from '../kit/private-file.js';
import type { Context } from './context/context.js';
import { CliError } from './errors.js';

/** A file that exists while a command is ready. */
export interface ReadyFile {
  write(text: string): Promise<void>;
  /** Removes it, unless another process has written it since. */
  remove(): Promise<void>;
}

/**
 * Opens a ready file, or none. One that a process left behind when it was killed is removed, so that nobody starts too early;
 * `isCurrent` tells it from that of a process which still runs.
 */
export async function openReadyFile(
  path: string | undefined,
  isCurrent: (text: string) => boolean = () => false,
): Promise<ReadyFile> {
  if (path === undefined) return { write: async () => {}, remove: async () => {} };
  const unwritable = (cause: unknown): CliError =>
    new CliError('ASP_CONFIG', { message: `The ready file ${path} cannot be written.`, cause });
  try {
    const found = await readIfPresent(path);
    if (found !== undefined && !isCurrent(found)) await rm(path, { force: true });
  } catch (error) {
    throw unwritable(error);
  }
  let written: string | undefined;
  return {
    async write(text) {
      await replaceFile(path, text).catch((error: unknown) => Promise.reject(unwritable(error)));
      written = text;
    },
    async remove() {
      if (written !== undefined && (await readIfPresent(path)) === written) await rm(path, { force: true });
    },
  };
}

/** Which process is ready, and since when. */
export function readyText({ machine, clock }: Context): string {
  return `${JSON.stringify({ pid: machine.processId, ready_at: clock.now() })}\n`;
}
