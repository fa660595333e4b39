import { isFileError } from '../../../kit/private-file.js';
import { CliError } from '../../terminal/cli-error.js';

/** Why a backup was not made or not restored, in the words of the command line; `next` is the way past a file in the way. */
export async function translateBackupError(error: unknown, next: readonly string[]): Promise<unknown> {
  const { BackupError } = await import('../../../service/backup/backup-error.js');
  if (error instanceof BackupError) {
    const facts = { message: error.message, cause: error };
    const isInTheWay = error.code === 'EXISTS' || error.code === 'NOT_EMPTY';
    return isInTheWay ? new CliError('ASP_FILE_EXISTS', { ...facts, next }) : new CliError('ASP_CONFIG', facts);
  }
  const why = isFileError(error, 'ENOENT', 'ENOTDIR')
    ? 'there is no such file or folder.'
    : isFileError(error, 'EACCES', 'EPERM', 'EROFS')
      ? 'this user may not read or write there.'
      : isFileError(error, 'ENOSPC', 'EDQUOT')
        ? 'the disk is full.'
        : undefined;
  if (why === undefined) return error;
  const path = error instanceof Error && 'path' in error ? String(error.path) : 'A file';
  return new CliError('ASP_CONFIG', { message: `${path} cannot be used.`, why, cause: error });
}
