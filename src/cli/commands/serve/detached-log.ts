import { lstat, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { listPrivateFiles } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';

const SUFFIX = '.log';
/** Of services that have ended. */
const KEPT_LOGS = 5;

/** What a service in the background says, in a file named by its process. */
export interface DetachedLog {
  readonly path: string;
  readonly pid: number;
}

export const detachedFolder = ({ paths }: Pick<Context, 'paths'>): string => join(paths.runtimeDirectory, 'serve');

/** Gives the file its name, by which it is found, and lets go of the oldest ones. */
export async function keepLog(context: Pick<Context, 'paths' | 'machine'>, path: string, pid: number): Promise<void> {
  await rename(path, join(detachedFolder(context), `${pid}${SUFFIX}`));
  const ended = (await listLogs(context)).filter((log) => !context.machine.isProcessAlive(log.pid));
  for (const log of ended.slice(KEPT_LOGS)) await rm(log.path, { force: true });
}

/** The newest first. */
export async function listLogs(context: Pick<Context, 'paths'>): Promise<DetachedLog[]> {
  const found: (DetachedLog & { changedAt: number })[] = [];
  for (const path of await listPrivateFiles(detachedFolder(context), SUFFIX)) {
    const name = basename(path, SUFFIX);
    const state = await lstat(path).catch(() => undefined);
    if (/^\d+$/.test(name) && state?.isFile() === true)
      found.push({ path, pid: Number(name), changedAt: state.mtimeMs });
  }
  return found.sort((one, other) => other.changedAt - one.changedAt).map(({ path, pid }) => ({ path, pid }));
}
