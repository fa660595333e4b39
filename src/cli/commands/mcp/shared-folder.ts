import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve } from 'node:path';

import { UsageError } from '../../errors.js';
import { safeFilename } from '../attachment/save-file.js';

/** The one folder whose files tools may send, and into which they may save. */
export interface SharedFolder {
  readonly path: string;
  /** The file that a path in the folder really leads to. @throws UsageError when it leads out of it. */
  fileToSend(path: string): Promise<string>;
  /** Where a file of that name is to be saved. @throws UsageError for what is more than a name. */
  placeOf(filename: string): string;
}

export async function openSharedFolder(given: string, workingDirectory: string): Promise<SharedFolder> {
  const path = await realpath(resolve(workingDirectory, given)).catch(() => undefined);
  if (path === undefined || !(await stat(path)).isDirectory())
    throw new UsageError(`--files ${given} is no folder.`, { why: 'make it first.' });
  return {
    path,
    async fileToSend(named) {
      const real = await realpath(resolve(path, named)).catch(() => undefined);
      // What is outside and what is not there are told alike: a caller learns nothing of the rest of the machine.
      if (real === undefined || !isWithin(path, real))
        throw new UsageError(`${named} is not a file of the shared folder.`, {
          why: 'only files of the shared folder can be sent.',
        });
      if (
        relative(path, real)
          .split(/[\\/]/)
          .some((part) => part.startsWith('.'))
      )
        throw new UsageError(`${named} is hidden.`, { why: 'hidden files, such as .env, are not sent.' });
      // The other name of a file with two may be anywhere, and the file a secret one.
      if ((await stat(real)).nlink > 1 && !(await stat(real)).isDirectory())
        throw new UsageError(`${named} has another name, perhaps outside of the shared folder.`, {
          why: 'hard links are not sent: copy the file into the folder.',
        });
      return real;
    },
    placeOf(filename) {
      if (safeFilename(filename) !== filename)
        throw new UsageError(`'${filename}' is no plain file name.`, {
          why: 'files are saved in the shared folder itself.',
        });
      return join(path, filename);
    },
  };
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${'/'}`) && !way.startsWith('..\\') && !isAbsolute(way);
}
