import { open, rename, rm } from 'node:fs/promises';
import { isFileError, readIfPresent } from '../../../kit/private-file.js';
import { type Random, randomToken } from '../../../kit/random.js';
import { parseProjectFile } from '../../profile/project-file.js';
import { CliError } from '../../terminal/cli-error.js';

interface Choice {
  readonly profile?: string | undefined;
  readonly agent?: string | undefined;
}

/** Rewrites a `.asp.json`, or removes it once it says nothing. Others may read it: it belongs to the folder. */
export async function changeProjectFile(
  path: string,
  random: Random,
  change: (before: Choice) => Choice,
): Promise<void> {
  const text = await readIfPresent(path);
  const { profile, agent } = change(text === undefined ? {} : parseProjectFile(path, text));
  if (profile === undefined && agent === undefined) return rm(path, { force: true });
  const temporary = `${path}.${randomToken(random, 6)}.tmp`;
  try {
    const file = await open(temporary, 'wx', 0o644);
    try {
      await file.writeFile(`${JSON.stringify({ profile, agent }, null, 2)}\n`);
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    if (!isFileError(error, 'EACCES', 'EROFS', 'EPERM', 'ENOSPC')) throw error;
    throw new CliError('ASP_CONFIG', { message: `${path} cannot be written.`, cause: error });
  }
}
