import { chmod, lstat, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import type { Context } from '../../context/context.js';
import { LOCAL_SERVICE_NAME } from '../../profile/local-service.js';
import { localServiceFile } from '../../profile/paths.js';
import { type Finding, ok, problem, reasonOf, warning } from './finding.js';

const PERMISSIONS = 0o777;

/** Settings can be read, and what is ours is ours alone. */
export async function checkFiles(context: Context, isFixing: boolean): Promise<readonly Finding[]> {
  return [
    await checkSettings(context),
    ...(await checkRights(context, isFixing)),
    ...(await checkRecord(context, isFixing)),
  ];
}

async function checkSettings(context: Context): Promise<Finding> {
  try {
    const [config, file] = await Promise.all([context.config(), context.projectFile()]);
    const count = Object.keys(config.profiles).length;
    const folder = file === undefined ? '' : `; ${file.path} has a say here`;
    return ok('settings', `${count} ${count === 1 ? 'profile' : 'profiles'}${folder}`);
  } catch (error) {
    return problem('settings', reasonOf(error), ['asp', 'config', 'path']);
  }
}

interface Entry {
  readonly path: string;
  readonly rights: number;
}

/** Whoever can read our files can read what they keep. */
async function checkRights(context: Context, isFixing: boolean): Promise<readonly Finding[]> {
  const { paths, machine } = context;
  if (machine.userId === undefined) return [];
  const { configFile, stateDirectory, runtimeDirectory } = paths;
  const folders = [configFile === undefined ? undefined : dirname(configFile), stateDirectory, runtimeDirectory];
  const loose: Entry[] = [];
  const foreign: string[] = [];
  for (const folder of folders)
    for await (const entry of walk(folder)) {
      if (entry.userId !== machine.userId) foreign.push(entry.path);
      else if ((entry.mode & 0o077 & PERMISSIONS) !== 0) loose.push({ path: entry.path, rights: entry.mode & 0o700 });
    }
  const findings = foreign.map((path) => problem('files', `${path} belongs to another user`));
  if (loose.length === 0) return foreign.length > 0 ? findings : [ok('files', 'only you can read them')];
  if (isFixing) {
    for (const { path, rights } of loose) await chmod(path, rights);
    return [...findings, { check: 'files', state: 'fixed', says: `${loose.length} were open to others` }];
  }
  const first = loose[0]?.path ?? '';
  const says = `${loose.length} are open to others: ${first}${loose.length > 1 ? ', …' : ''}`;
  return [...findings, problem('files', says, ['asp', 'doctor', '--fix'])];
}

async function* walk(
  path: string | undefined,
  depth = 0,
): AsyncGenerator<{ path: string; mode: number; userId: number }> {
  const facts = path === undefined ? undefined : await lstat(path).catch(() => undefined);
  if (path === undefined || facts === undefined || depth > 4) return;
  if (!facts.isFile() && !facts.isDirectory()) return;
  yield { path, mode: facts.mode, userId: facts.uid };
  if (!facts.isDirectory()) return;
  for (const name of await readdir(path).catch(() => [])) yield* walk(join(path, name), depth + 1);
}

/** A record that a service left which was killed. */
async function checkRecord(context: Context, isFixing: boolean): Promise<readonly Finding[]> {
  const path = localServiceFile(context.paths, LOCAL_SERVICE_NAME);
  const running = await context.localService();
  if (running !== undefined) return [ok('local service', `runs at ${running.url}`)];
  if ((await lstat(path).catch(() => undefined)) === undefined) return [];
  if (!isFixing)
    return [warning('local service', 'a record of one that runs no more is left', ['asp', 'doctor', '--fix'])];
  await rm(path, { force: true });
  return [{ check: 'local service', state: 'fixed', says: 'the record of one that runs no more is gone' }];
}
