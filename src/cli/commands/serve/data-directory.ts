import { resolve } from 'node:path';

import type { Context } from '../../context/context.js';
import { UsageError } from '../../errors.js';
import { LOCAL_SERVICE_NAME } from '../../profile/paths.js';

/** The folder that was named, from where the command was typed, or else the user's own. */
export function dataDirectory(context: Context, named: string | undefined): string {
  if (named !== undefined) return resolve(context.machine.workingDirectory, named);
  const { dataDirectory: folder } = context.paths;
  if (folder !== undefined) return `${folder}/serve/${LOCAL_SERVICE_NAME}`;
  throw new UsageError('There is no place for the data: this user has no home directory.', {
    next: ['asp', 'serve', '--data', 'memory'],
  });
}
