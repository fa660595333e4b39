import { rmSync } from 'node:fs';

import { makePrivateDirectory, readIfPresent, UnsafeFileError, writePrivateFile } from '../../../kit/private-file.js';
import { LocalServiceRecord } from '../../../wire/local-service.js';
import type { Context } from '../../context/context.js';
import { LOCAL_SERVICE_NAME } from '../../profile/local-service.js';
import { localServiceFile } from '../../profile/paths.js';
import { CliError } from '../../terminal/cli-error.js';

/**
 * Leaves the addresses and the secret where programs of this OS user find them. The answer takes them away again, and puts
 * back those of a service that ran before and still does.
 */
export async function leaveRecord(context: Context, record: LocalServiceRecord): Promise<() => Promise<void>> {
  const path = localServiceFile(context.paths, LOCAL_SERVICE_NAME);
  const before = await context.localService();
  if (before !== undefined)
    await context.output.note(`Another service runs at ${before.url}: until this one ends, "local" means this one.`);
  await writeRecord(context, path, record);
  return async () => {
    // A service that started meanwhile has left a record of its own.
    if ((await readPid(path)) !== record.pid) return;
    if (before !== undefined && context.machine.isProcessAlive(before.pid)) await writeRecord(context, path, before);
    else rmSync(path, { force: true });
  };
}

async function writeRecord({ paths }: Context, path: string, record: LocalServiceRecord): Promise<void> {
  await makePrivateDirectory(paths.runtimeDirectory).catch((error: unknown) => {
    if (!(error instanceof UnsafeFileError)) throw error;
    throw new CliError('ASP_CONFIG', {
      message: `${error.message}.`,
      why: 'the secret of the service would be kept there: set XDG_RUNTIME_DIR to a folder of your own.',
    });
  });
  return writePrivateFile(path, `${JSON.stringify(record)}\n`);
}

async function readPid(path: string): Promise<number | undefined> {
  try {
    return LocalServiceRecord.parse(JSON.parse((await readIfPresent(path)) ?? '')).pid;
  } catch {
    return undefined;
  }
}
