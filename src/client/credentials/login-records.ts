import { join } from 'node:path';

import {
  listPrivateFiles,
  readPrivateFile,
  removePrivateFile,
  UnsafeFileError,
  writePrivateFile,
} from '../../kit/private-file.js';
import { Login, type LoginKey } from './login.js';
import { nameOf, storeUnavailable } from './secret-store.js';

/** The list of logins: one file each, so that two processes never write the same one for different logins. */
export interface LoginRecords {
  list(): Promise<Login[]>;
  find(key: LoginKey): Promise<Login | undefined>;
  write(login: Login): Promise<void>;
  remove(key: LoginKey): Promise<boolean>;
}

/** Records in `directory`. Keychains are never searched: some crash on items of others. */
export function openLoginRecords(directory: string): LoginRecords {
  const pathOf = (key: LoginKey): string => join(directory, `${nameOf(key)}.json`);
  const read = async (path: string): Promise<Login | undefined> => {
    const text = await readPrivateFile(path).catch((error: unknown) => {
      const reason = error instanceof UnsafeFileError ? error.message : 'it could not be read';
      throw storeUnavailable(`The list of logins cannot be used: ${reason}.`, error);
    });
    return text === undefined ? undefined : parse(text);
  };
  return {
    async list() {
      const found = await Promise.all((await listPrivateFiles(directory, '.json')).map(read));
      const order = (login: Login): string => `${login.baseUrl}\n${login.handle ?? ''}`;
      return found
        .filter((login) => login !== undefined)
        .sort((left, right) => (order(left) < order(right) ? -1 : order(left) > order(right) ? 1 : 0));
    },
    find: (key) => read(pathOf(key)),
    async write(login) {
      await writePrivateFile(pathOf(login), JSON.stringify(login)).catch((error: unknown) => {
        throw storeUnavailable('The list of logins could not be written.', error);
      });
    },
    remove: (key) => removePrivateFile(pathOf(key)),
  };
}

function parse(text: string): Login | undefined {
  try {
    const parsed = Login.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}
