import { rm } from 'node:fs/promises';

import { readIfPresent, replaceFile } from '../kit/private-file.js';
import type { Context } from './context/context.js';
import { CliError, explainUnwritable } from './errors.js';

/** A file that exists while a command is ready. */
export interface ReadyFile {
  write(text: string): Promise<void>;
  /** Removes it, unless another process has written it since. */
  remove(): Promise<void>;
}

/** What ready files contain: the address of a service, or which process is ready. */
const READY_TEXT = /^(?:https?:\/\/\S+|\{"pid":\d+,"ready_at":\d+\})?\n?$/;

/**
 * Opens a ready file, if there is one. A file left behind by a killed process is removed, so that no other program
 * starts too early; `isCurrent` tells it from the file of a process that is still running.
 * @throws CliError `ASP_CONFIG` if it cannot be written, or another file has its name
 */
export async function openReadyFile(
  path: string | undefined,
  isCurrent: (text: string) => boolean = () => false,
): Promise<ReadyFile> {
  if (path === undefined) return { write: async () => {}, remove: async () => {} };
  const unwritable = (cause: unknown): CliError =>
    new CliError('ASP_CONFIG', {
      message: `Could not write the ready file ${path}.`,
      why: explainUnwritable(cause),
      cause,
    });
  try {
    const found = await readIfPresent(path);
    if (found !== undefined && !READY_TEXT.test(found))
      throw new CliError('ASP_CONFIG', {
        message: `${path} is not a ready file, so it was not replaced.`,
        why: 'it has other content. Delete it, or name another file.',
      });
    if (found !== undefined && !isCurrent(found)) await rm(path, { force: true });
  } catch (error) {
    throw error instanceof CliError ? error : unwritable(error);
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
