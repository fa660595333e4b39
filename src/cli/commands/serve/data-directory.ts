import { resolve } from 'node:path';

import type { Context } from '../../context/context.js';
import { usageError } from '../../errors.js';
import { LOCAL_SERVICE_NAME } from '../../profile/paths.js';

/** The folder from the option, relative to the working directory, or else the user's own. */
export function dataDirectory(context: Context, named: string | undefined): string {
  if (named !== undefined) return resolve(context.machine.workingDirectory, named);
  const { dataDirectory: folder } = context.paths;
  if (folder !== undefined) return `${folder}/serve/${LOCAL_SERVICE_NAME}`;
  throw usageError('The data cannot be stored: this user has no home directory.', {
    next: ['asp', 'serve', '--data', 'memory'],
  });
}
