import type { FileHandle } from 'node:fs/promises';

/** A file in the trash. */
export interface DiscardedFile {
  readonly id: string;
  /** Epoch milliseconds. */
  readonly discardedAt: number;
}

/**
 * The bytes of attachments, one file or object each, named by the attachment's id and never by anything that a caller
 * chose. Throws ATTACHMENTS_LOST if they are on another machine that does not respond.
 */
export interface AttachmentFiles {
  /** A new file that no one reads until it is kept. Throws if a folder is no longer the one that was claimed. */
  create(attachmentId: string): Promise<FileHandle>;
  /** Makes a created file the attachment's own; durable when it resolves. */
  keep(attachmentId: string): Promise<void>;
  /** Undefined: there is no such file. */
  open(attachmentId: string): Promise<FileHandle | undefined>;
  /** Also undefined if it would have to be fetched from another machine first. */
  openHere(attachmentId: string): Promise<FileHandle | undefined>;
  /** Finished or not; a missing file counts as removed. */
  remove(attachmentId: string): Promise<void>;
  /** Releases a created file, which stays. */
  release(attachmentId: string): void;
  /** Every id that has a file, finished or not, except those that this process created and has not released. */
  list(): Promise<string[]>;

  /** Moves a file to the trash, finished or not. */
  discard(attachmentId: string, now: number): Promise<void>;
  /** Takes a file out of the trash again. False: it is not there. */
  restore(attachmentId: string): Promise<boolean>;
  listTrash(): Promise<DiscardedFile[]>;
  removeFromTrash(attachmentId: string): Promise<void>;

  /** The data that the folder or bucket belongs to; undefined until it is claimed. */
  readIdentity(): Promise<string | undefined>;
  /**
   * Marks it as belonging to this data. From now on, while it has a different mark or none, nothing in it is discarded,
   * and nothing is written to a folder.
   */
  claim(identity: string): Promise<void>;
  close(): Promise<void>;
}
