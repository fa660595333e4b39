import { rm } from 'node:fs/promises';
import { resolve } from 'node:path';

import { fileFault, isFileError, openNewFile } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { type Finding, walk } from './checks.js';

/** Variables that change what asp does. Only their names are written. */
const RELEVANT = /^(?:ASP_\w+|NODE_\w+|XDG_\w+|LC_\w+|(?:HTTPS?|ALL|NO)_PROXY|LANG|TERM|NO_COLOR|FORCE_COLOR|CI|TZ)$/i;

/**
 * Writes a new file for a bug report: versions, settings, checks and the names of files. Variables
 * appear by name, credential commands and aliases without their arguments, and the home directory as `~`. What a file
 * contains is never written, except the settings.
 * @throws CliError `ASP_USAGE` if the file exists or cannot be written
 */
export async function writeBundle(
  context: Context,
  name: string,
  checks: readonly Omit<Finding, 'fix'>[],
): Promise<string> {
  const { machine, version, clock } = context;
  const path = resolve(machine.workingDirectory, name);
  const bundle = {
    written_by: 'asp doctor --bundle',
    written_at: new Date(clock.now()).toISOString(),
    program: { asp: version, node: machine.nodeVersion, platform: machine.platform, arch: machine.arch },
    variables: Object.keys(context.environment)
      .filter((key) => RELEVANT.test(key) && (context.environment[key] ?? '') !== '')
      .sort(),
    settings: await describeSettings(context),
    files: await listFiles(context),
    checks,
  };
  const text = JSON.stringify(withoutHome(bundle, machine.homeDirectory), null, 2);
  try {
    const file = await openNewFile(path);
    await file
      .writeFile(`${text}\n`)
      .finally(() => file.close())
      .catch(async (error: unknown) => {
        await rm(path, { force: true });
        throw error;
      });
  } catch (error) {
    if (isFileError(error, 'EEXIST')) throw usageError(`${path} exists.`, { why: 'choose another file.' });
    const fault = fileFault(error);
    if (fault === undefined) throw error;
    throw new CliError('ASP_USAGE', { message: `Cannot write ${path}.`, why: `${fault}.`, cause: error });
  }
  return path;
}

async function describeSettings(context: Context): Promise<unknown> {
  try {
    const [config, folder] = await Promise.all([context.config(), context.projectFile()]);
    const profiles = Object.entries(config.profiles).map(([name, entry]) => [
      name,
      { ...entry, ...(entry.credential_command !== undefined && { credential_command: entry.credential_command[0] }) },
    ]);
    return {
      ...config,
      profiles: Object.fromEntries(profiles),
      aliases: Object.keys(config.aliases),
      ...(folder !== undefined && { folder }),
    };
  } catch (error) {
    return { unreadable: error instanceof Error ? error.message : String(error) };
  }
}

async function listFiles({ paths }: Context): Promise<readonly unknown[]> {
  const { configFile, stateDirectory, runtimeDirectory, dataDirectory } = paths;
  const found: unknown[] = [];
  for (const root of [configFile, stateDirectory, runtimeDirectory, dataDirectory])
    for await (const { path, mode, size, mtime } of walk(root))
      found.push({ path, rights: (mode & 0o7777).toString(8), bytes: size, changed_at: mtime.toISOString() });
  return found;
}

function withoutHome(value: unknown, home: string | undefined): unknown {
  if (home === undefined || home.length <= 1) return value;
  return JSON.parse(JSON.stringify(value), (_, one) => (typeof one === 'string' ? one.replaceAll(home, '~') : one));
}
