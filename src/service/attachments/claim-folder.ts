import { hasAttachments, listKnownAttachments } from '../store/attachment-rows.js';
import { type Database, DatabaseUnusableError } from '../store/database.js';
import { seal } from '../store/service-key.js';
import type { AttachmentFiles } from './attachment-files.js';

/** A folder of more files is judged by so many of them. */
const SAMPLE = 2_000;
const KNOWN_SHARE_MIN = 0.9;

interface FolderToClaim {
  readonly database: Database;
  readonly files: AttachmentFiles;
  /** For people. */
  readonly path: string;
  /** The operator says that the folder belongs to these data, whatever it holds. */
  readonly isAdopted: boolean;
}

/**
 * Refuses an attachments folder that belongs to other data. The folder bears the identity of its data, which derives from
 * the service key. One without a mark is taken when what it holds is what the database knows.
 */
export async function claimFolder({ database, files, path, isAdopted }: FolderToClaim): Promise<void> {
  const identity = (await database.read((query) => seal(query, 'attachments', 'identity'))).toString('hex');
  const found = await files.readIdentity();
  if (!isAdopted && found !== undefined && found !== identity)
    throw unusable(path, 'belong to other data than this database');
  if (!isAdopted && found === undefined) await requireConsistency(database, files, path);
  await files.claim(identity);
}

async function requireConsistency(database: Database, files: AttachmentFiles, path: string): Promise<void> {
  const ids = await files.list();
  if (ids.length === 0) {
    if (await database.read(hasAttachments))
      throw unusable(path, 'are missing: the database knows some, and the folder holds none');
    return;
  }
  const step = Math.ceil(ids.length / SAMPLE);
  const sample = ids.filter((_, index) => index % step === 0);
  const known = await listKnownAttachments(database, sample);
  if (known.size < sample.length * KNOWN_SHARE_MIN)
    throw unusable(path, `are not those of this database, which knows ${known.size} of ${sample.length} files`);
}

function unusable(path: string, why: string): DatabaseUnusableError {
  return new DatabaseUnusableError(
    `The attachments in ${path} ${why}. Nothing was changed. Check the data folder, the database and its search_path; ` +
      'if they are right, start once with --adopt-attachments.',
  );
}
