import { promises } from 'node:fs';
import { dirname, join } from 'node:path';

import { isObject, parseIfJson } from '../../kit/parse-json.js';
import { isFileError, isUnsafeFile, readTrustedFile, replaceFile } from '../../kit/private-file.js';
import { CliError, explainUnwritable } from '../errors.js';
import { parseHandle } from '../values.js';
import { PROFILE_NAME } from './config.js';
import type { Host } from './paths.js';

/** The project settings of a folder: its profile and agent. Never an address, a secret or a command. */
export interface ProjectFile {
  readonly path: string;
  readonly profile: string | undefined;
  readonly agent: string | undefined;
}

export const PROJECT_FILE_NAME = '.asp.json';
const MAX_BYTES = 64 * 1024;

/** The nearest `.asp.json`, from the working directory up to the user's home directory. */
export async function findProjectFile({ machine }: Host): Promise<ProjectFile | undefined> {
  const { homeDirectory: home } = machine;
  for (let folder = machine.workingDirectory; ; folder = dirname(folder)) {
    const path = join(folder, PROJECT_FILE_NAME);
    const text = await readProjectFile(path).catch((error: unknown) => {
      if (isFileError(error, 'EACCES', 'EPERM')) return undefined;
      throw error;
    });
    if (text !== undefined) return parseProjectFile(path, text);
    if (folder === home || folder === dirname(folder)) return undefined;
  }
}

/** Its author decides which agent commands use, and a repository can contain a file with this name. */
async function readProjectFile(path: string): Promise<string | undefined> {
  try {
    return await readTrustedFile(path, MAX_BYTES);
  } catch (error) {
    throw isUnsafeFile(error) ? unusable(path, error.message) : error;
  }
}

const unusable = (path: string, why: string): CliError =>
  new CliError('ASP_CONFIG', { message: `Could not use ${path}.`, why: `${why}.` });

/** Errors do not show the contents of the file: it may not be the file it seems to be. */
export function parseProjectFile(path: string, text: string): ProjectFile {
  const refuse = (why: string): CliError => unusable(path, why);
  const value = parseIfJson(text);
  if (value === undefined) throw refuse('it is not JSON');
  if (!isObject(value)) throw refuse('it must contain an object');
  if (Object.keys(value).some((key) => key !== 'profile' && key !== 'agent'))
    throw refuse('it may contain only profile and agent');
  const { profile, agent } = value;
  if (profile !== undefined && (typeof profile !== 'string' || !PROFILE_NAME.test(profile)))
    throw refuse('profile must be a name');
  const handle = typeof agent === 'string' ? parseHandle(agent) : undefined;
  if (agent !== undefined && handle === undefined) throw refuse('agent must be a handle');
  return { path, profile, agent: handle };
}

interface Choice {
  readonly profile?: string | undefined;
  readonly agent?: string | undefined;
}

/** Rewrites a `.asp.json`, or removes it once it is empty. Others may read it: it belongs to the folder. */
export async function changeProjectFile(path: string, change: (before: Choice) => Choice): Promise<void> {
  const text = await readProjectFile(path);
  const { profile, agent } = change(text === undefined ? {} : parseProjectFile(path, text));
  if (profile === undefined && agent === undefined) return promises.rm(path, { force: true });
  try {
    await replaceFile(path, `${JSON.stringify({ profile, agent }, null, 2)}\n`, { mode: 0o644 });
  } catch (error) {
    const why = explainUnwritable(error);
    if (why === undefined) throw error;
    throw new CliError('ASP_CONFIG', { message: `Could not write ${path}.`, why, cause: error });
  }
}
