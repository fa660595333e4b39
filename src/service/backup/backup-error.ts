export type BackupErrorCode =
  /** There is nothing to back up. */
  | 'NO_DATA'
  /** A file is in the way. */
  | 'EXISTS'
  /** The data would be laid over other data. */
  | 'NOT_EMPTY'
  /** The backup is damaged, incomplete, or none. */
  | 'BROKEN';

/** Why a backup was not made or not restored. Nothing was changed. */
export class BackupError extends Error {
  override readonly name = 'BackupError';
  readonly code: BackupErrorCode;

  constructor(code: BackupErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
