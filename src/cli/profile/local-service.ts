import { LocalServiceRecord } from '../../wire/local-service.js';
import { localServiceFile, type Paths } from './paths.js';
import { isOwnDirectory, isPrivate, readIfPresent } from './private-file.js';

/** How it is found out whether a service still runs. */
export interface LocalServiceProbe {
  readonly userId: number | undefined;
  readonly isProcessAlive: (pid: number) => boolean;
}

export const LOCAL_SERVICE_NAME = 'default';

/** The record that a running local service left; undefined when there is none or it runs no more. */
export async function findLocalService(
  paths: Paths,
  probe: LocalServiceProbe,
  name: string = LOCAL_SERVICE_NAME,
): Promise<LocalServiceRecord | undefined> {
  const path = localServiceFile(paths, name);
  const text = await readIfPresent(path).catch(() => undefined);
  // Whoever can write this file decides where credentials go.
  if (text === undefined || !(await isOurs(paths, path, probe.userId).catch(() => false))) return undefined;
  let record: LocalServiceRecord;
  try {
    record = LocalServiceRecord.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
  return probe.isProcessAlive(record.pid) ? record : undefined;
}

/** The folder too: whoever could exchange the file in it would be believed. */
async function isOurs(paths: Paths, path: string, userId: number | undefined): Promise<boolean> {
  return (await isOwnDirectory(paths.runtimeDirectory, userId)) && (await isPrivate(path, userId));
}
