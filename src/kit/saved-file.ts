import { replaceFile } from './private-file.js';

/** A file that follows values in memory. */
export interface SavedFile {
  /** Says that the values have changed. */
  change(): void;
  /** Resolves when all changes until now are on disk; rejects if they cannot be written, and the next call tries again. */
  written(): Promise<void>;
}

/**
 * Writes one version after the other, each with everything that has changed until then, so that no caller waits for
 * more than two writes. Without a path, nothing is written.
 */
export function createSavedFile(
  path: string | undefined,
  read: () => object,
  { isDurable = true }: { readonly isDurable?: boolean } = {},
): SavedFile {
  let last = Promise.resolve();
  let isDirty = false;
  let isQueued = false;
  const write = async (path: string): Promise<void> => {
    isQueued = false;
    isDirty = false;
    try {
      await replaceFile(path, `${JSON.stringify(read())}\n`, { isDurable });
    } catch (error) {
      isDirty = true;
      throw error;
    }
  };
  return {
    change() {
      isDirty = true;
    },
    written() {
      if (!isDirty || isQueued || path === undefined) return last;
      isQueued = true;
      last = last.catch(() => {}).then(() => write(path));
      return last;
    },
  };
}
