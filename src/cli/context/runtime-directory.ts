import { isUnsafeFile, makePrivateDirectory } from '../../kit/private-file.js';
import { CliError } from '../errors.js';
import type { Paths } from '../profile/paths.js';

/** Without XDG_RUNTIME_DIR it is in a folder where every user could have made it first, or a link in its place. */
export async function makeRuntimeDirectory({ runtimeDirectory }: Pick<Paths, 'runtimeDirectory'>): Promise<void> {
  await makePrivateDirectory(runtimeDirectory).catch((error: unknown) => {
    if (!isUnsafeFile(error)) throw error;
    throw new CliError('ASP_CONFIG', {
      message: `${error.message}.`,
      why: 'the secret of the service would be stored there: set XDG_RUNTIME_DIR to a folder of your own.',
    });
  });
}

/** The runtime directory, made if necessary; undefined if it is not this user's alone. */
export async function findRuntimeDirectory({
  runtimeDirectory,
}: Pick<Paths, 'runtimeDirectory'>): Promise<string | undefined> {
  try {
    await makePrivateDirectory(runtimeDirectory);
    return runtimeDirectory;
  } catch {
    return undefined;
  }
}
