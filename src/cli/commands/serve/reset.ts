import { rm } from 'node:fs/promises';

import type { HeldData } from '../../../service/backup/delete-data.js';
import type { Context } from '../../context/context.js';
import { localServiceFile } from '../../profile/paths.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { translateBackupError } from './backup-failure.js';
import { dataDirectory } from './data-directory.js';
import { readSettings } from './effective-settings.js';

export interface ResetOptions {
  readonly data: string | undefined;
}

export function parse(words: Words): ResetOptions {
  return { data: words.text('data') };
}

export async function run(context: Context, { data }: ResetOptions): Promise<void> {
  const directory = await folderOf(context, data);
  const held = await hold(context, directory);
  const found = held?.found ?? { attachments: 0, bytes: 0 };
  try {
    if (held === undefined) await context.output.note(`There are no data in ${directory}.`);
    else {
      const what = `the database and ${found.attachments} attachments in ${directory} (${inWords(found.bytes)})`;
      if (!(await context.prompts.confirm(`Delete ${what}?`, '--yes')))
        throw new UsageError('Nothing was deleted: the answer was no.');
      await held.delete();
      await context.output.note(`Deleted: ${what}. Logins that were made there are void.`);
    }
  } finally {
    held?.letGo();
  }
  await forgetRecord(context, directory);
  const facts = { data: directory, deleted: held !== undefined, ...found };
  await context.output.document(facts, (safe) => safe.data);
}

/** The folder that `asp serve` would use, by flag, variable and file. */
async function folderOf(context: Context, data: string | undefined): Promise<string> {
  const { settings } = await readSettings(context, data === undefined ? {} : { data }, undefined);
  if (settings.database !== undefined)
    throw new UsageError('The data of this service are in PostgreSQL, and are not deleted from here.', {
      why: 'drop its schema there, and then delete the attachments in its data folder.',
    });
  if (settings.data === 'memory')
    throw new UsageError('A service that keeps its data in memory leaves nothing to delete.');
  const directory = dataDirectory(context, settings.data);
  const running = await context.localService();
  if (running?.data === directory)
    throw inUse(`The local service at ${running.url} is using the data in ${directory}.`);
  return directory;
}

/** A service that was killed has left its record, and its data may well be those. */
async function forgetRecord(context: Context, directory: string): Promise<void> {
  const ended = await context.endedService();
  if (ended?.data === directory) await rm(localServiceFile(context.paths, ended.name), { force: true });
}

async function hold(context: Context, directory: string): Promise<HeldData | undefined> {
  const [{ holdData }, { DataInUseError }] = await Promise.all([
    import('../../../service/backup/delete-data.js'),
    import('../../../service/store/sqlite-lock.js'),
  ]);
  try {
    return await holdData(directory);
  } catch (error) {
    if (error instanceof DataInUseError) throw inUse(error.message, error);
    throw await translateBackupError(error, context.machine.commandLine);
  }
}

function inUse(message: string, cause?: unknown): CliError {
  return new CliError('ASP_PORT_IN_USE', {
    message: `${message} Nothing was deleted.`,
    next: ['asp', 'serve', 'stop'],
    cause,
  });
}

function inWords(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
