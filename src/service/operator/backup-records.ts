import { join } from 'node:path';
import * as z from 'zod/mini';
import { readPrivateFile, replaceFile } from '../../kit/private-file.js';
import { BackupRecord } from '../../wire/schemas/operator.js';
import { BACKUPS_FILE } from '../store/data-directory.js';

/** The recorded backups of a data folder, newest first. */
export type ReadBackups = () => Promise<readonly BackupRecord[]>;

const KEPT = 20;

/** None also if the file is not one that this program wrote: it decides nothing. */
export async function readBackupRecords(directory: string): Promise<readonly BackupRecord[]> {
  try {
    const text = await readPrivateFile(join(directory, BACKUPS_FILE));
    return text === undefined ? [] : z.array(BackupRecord).parse(JSON.parse(text));
  } catch {
    return [];
  }
}

/**
 * Remembers a backup next to the data, because a program that makes one cannot write to the database of a service that
 * is running, and works without a service too. Two at the same moment may leave one record: they are equally old.
 */
export async function recordBackup(directory: string, record: BackupRecord): Promise<void> {
  const records = [record, ...(await readBackupRecords(directory))].slice(0, KEPT);
  await replaceFile(join(directory, BACKUPS_FILE), `${JSON.stringify(records, null, 1)}\n`);
}

export const isSuccessful = ({ outcome }: BackupRecord): boolean => outcome === 'done';
