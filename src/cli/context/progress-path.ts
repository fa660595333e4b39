import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { usageError } from '../errors.js';
import type { Context } from './context.js';

/**
 * The default file for the progress of an agent, the unread events of `asp mcp`, the read position of a person, or the
 * messages that a coding agent sent.
 */
export async function progressPath(
  { paths, profile }: Context,
  handle: string,
  folder: 'run' | 'mcp' | 'inbox' | 'send' = 'run',
): Promise<string> {
  const { baseUrl } = await profile();
  const directory = paths.stateDirectory;
  if (directory === undefined)
    throw usageError('The progress of the agent cannot be stored.', {
      why: 'this user has no home directory: name a file with --cursor-file.',
    });
  const service = createHash('sha256').update(baseUrl).digest('hex').slice(0, 12);
  return join(directory, folder, `${handle.slice(1)}-${service}.json`);
}

/** Another file about the same agent, in the same folder. */
export const besideProgress = (path: string, suffix: string): string => `${path.replace(/\.json$/, '')}${suffix}`;
