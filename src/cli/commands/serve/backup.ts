import { resolve } from 'node:path';

import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { translateBackupError } from './backup-failure.js';
import { dataDirectory } from './data-directory.js';

export interface BackupOptions {
  readonly file: string;
  readonly data: string | undefined;
  readonly isForced: boolean;
  readonly withKeys: boolean;
}

export function parse(words: Words): BackupOptions {
  return {
    file: words.arguments[0] ?? '',
    data: words.text('data'),
    isForced: words.flag('force'),
    withKeys: words.flag('with-keys'),
  };
}

export async function run(context: Context, { data, isForced, withKeys, ...options }: BackupOptions): Promise<void> {
  const named = data ?? (await context.localService())?.data;
  if (named === 'memory')
    throw new UsageError('A service that keeps its data in memory has nothing to back up.', {
      why: 'name the folder of another one with --data.',
    });
  if (named?.startsWith('postgres') === true)
    throw new UsageError('The data of this service are in PostgreSQL, which has a command of its own for this.', {
      why: 'save them with pg_dump, and then the attachments in its data folder.',
    });
  const directory = dataDirectory(context, named);
  const file = resolve(context.machine.workingDirectory, options.file);
  const { createBackup } = await import('../../../service/backup/create-backup.js');
  const now = context.clock.now();
  const made = await createBackup({ directory, file, isForced, withKeys, now }).catch(async (error: unknown) => {
    throw await translateBackupError(error, ['asp', 'serve', 'backup', options.file, '--force']);
  });
  const { attachments, bytes, schemaVersion } = made;
  if (!withKeys)
    await context.output.note('Without the signing keys: access tokens from before are void after a restore.');
  const facts = { file, data: directory, bytes, attachments, schema_version: schemaVersion, with_keys: withKeys };
  await context.output.document(facts, (safe) => safe.file);
}
