import { resolve } from 'node:path';

import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { translateBackupError } from './backup-failure.js';
import { dataDirectory } from './data-directory.js';

export interface RestoreOptions {
  readonly file: string;
  readonly data: string | undefined;
}

export function parse(words: Words): RestoreOptions {
  const data = words.text('data');
  if (data === 'memory') throw new UsageError('A backup is restored into a folder, not into memory.');
  return { file: words.arguments[0] ?? '', data };
}

export async function run(context: Context, { file, data }: RestoreOptions): Promise<void> {
  const directory = dataDirectory(context, data);
  const archive = resolve(context.machine.workingDirectory, file);
  const { restoreBackup } = await import('../../../service/backup/restore-backup.js');
  const { attachments, schemaVersion } = await restoreBackup(archive, directory).catch(async (error: unknown) => {
    throw await translateBackupError(error, ['asp', 'serve', 'restore', file, '--data', 'another-folder']);
  });
  await context.output.note(`Restored. Start it with: asp serve --data ${directory}`);
  const facts = { file: archive, data: directory, attachments, schema_version: schemaVersion };
  await context.output.document(facts, (safe) => safe.data);
}
