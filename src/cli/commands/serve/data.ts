import { promises } from 'node:fs';
import { resolve } from 'node:path';
import { formatBytes, formatQuantity, messageOf, quoteArgs } from '../../../kit/format.js';
import { fileFault, isFileError } from '../../../kit/private-file.js';
import type { HeldData } from '../../../service/operator/backup.js';
import type { MigrationPlan } from '../../../service/operator/migrate.js';
import type { PlannedStep } from '../../../service/store/migrations.js';
import { command } from '../../command.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { localServiceFile } from '../../profile/paths.js';
import { dataDirectory } from './data-directory.js';

export const serveReset = command({
  path: 'serve reset',
  summary: 'delete all data of a stopped service: accounts, agents, sessions, attachments',
  details: [
    'The folder is the one that asp serve would use. Deletes only the data of a service, follows no links, and deletes',
    'nothing if a service is using the folder.',
  ].join('\n'),
  options: [{ flags: '--data <dir>', about: 'the data folder (default: the usual one)' }],
  examples: [
    { line: 'asp serve reset', about: 'asks for confirmation' },
    { line: 'asp serve reset --data ./scratch --yes', about: 'for scripts' },
  ],
  effect: 'local',
  isDestructive: true,
  stdout: 'the folder whose data was deleted',
  isEndless: true,
  parse: (args) => ({ data: args.text('data') }),
  async run(context, { data }) {
    const directory = await chooseDirectory(context, data);
    const held = await holdData(context, directory);
    const found = held?.found ?? { attachments: 0, bytes: 0 };
    try {
      if (held === undefined) await context.output.note(`There is no data in ${directory}.`);
      else {
        const what = `the database and ${formatQuantity(found.attachments, 'attachment')} in ${directory} (${formatBytes(found.bytes)})`;
        if (!(await context.prompts.confirm(`Delete ${what}?`, '--yes')))
          throw new CliError('ASP_CANCELED', { message: 'Canceled. Nothing was deleted.' });
        await held.delete();
        await context.output.note(`Deleted: ${what}. Logins to this service no longer work.`);
      }
    } finally {
      held?.letGo();
    }
    // A killed service has left its record, and these may be its data.
    const ended = await context.endedService();
    if (ended?.data === directory) await promises.rm(localServiceFile(context.paths, ended.name), { force: true });
    const facts = { data: directory, deleted: held !== undefined, ...found };
    await context.output.document(facts, (safe) => safe.data);
  },
});

/** The folder that `asp serve` would use, from flag, variable and file. */
async function chooseDirectory(context: Context, data: string | undefined): Promise<string> {
  const { readSettings } = await import('./settings.js');
  const { settings } = await readSettings(context, data === undefined ? {} : { data }, undefined);
  if (settings.database !== undefined)
    throw usageError('The data of this service is in PostgreSQL, so asp cannot delete it.', {
      why: 'drop its schema there, then delete the attachments in its data folder.',
    });
  if (settings.data === 'memory') throw usageError('A service with its data in memory has nothing to delete.');
  const directory = dataDirectory(context, settings.data);
  const running = await context.localService();
  if (running?.data === directory)
    throw inUse(`The local service at ${running.url} is using the data in ${directory}.`);
  return directory;
}

async function holdData(context: Context, directory: string): Promise<HeldData | undefined> {
  const [service, { isStartError }] = await Promise.all([
    import('../../../service/operator/backup.js'),
    import('../../../service/core/errors.js'),
  ]);
  try {
    return await service.holdData(directory);
  } catch (error) {
    if (isStartError(error) && error.code === 'DATA_IN_USE') throw inUse(error.message, error);
    return throwBackupError(error, context.machine.commandLine);
  }
}

function inUse(message: string, cause?: unknown): CliError {
  return new CliError('ASP_PORT_IN_USE', {
    message: `${message} Nothing was deleted.`,
    next: ['asp', 'serve', 'stop'],
    cause,
  });
}

export const serveBackup = command({
  path: 'serve backup',
  summary: 'back up a service to one file, even while it is running',
  details: [
    'A tar archive of a snapshot of the database and of its attachments, readable only by you. It unpacks',
    'with tar -x into an empty data folder. Signing keys are left out unless you ask for them.',
  ].join('\n'),
  arguments: [{ usage: '<file>', about: 'the archive to write' }],
  options: [
    { flags: '--data <dir>', about: 'the data folder (default: that of the running service, or else the usual one)' },
    { flags: '--with-keys', about: 'include the keys that sign tokens: guard the file like a password' },
    { flags: '--force', about: 'replace an existing file' },
  ],
  examples: [
    { line: 'asp serve backup asp-backup.tar', about: 'of the running service' },
    {
      line: 'asp serve backup /backup/asp.tar --data /var/lib/asp --force',
      about: 'for a timer, replacing the previous backup',
    },
  ],
  effect: 'local',
  stdout: 'the path of the backup',
  isEndless: true,
  parse: (args) => ({
    file: args.argument('file'),
    data: args.text('data'),
    isForced: args.flag('force'),
    withKeys: args.flag('with-keys'),
  }),
  async run(context, { file: named, data, isForced, withKeys }) {
    const { findChosenService } = await import('../../context/operator.js');
    const folder = data ?? (await findChosenService(context))?.data;
    if (folder === 'memory')
      throw usageError('A service with its data in memory has nothing to back up.', {
        why: 'name the folder of a different one with --data.',
      });
    if (folder?.startsWith('postgres') === true)
      throw usageError('The data of this service is in PostgreSQL, which has its own backup tools.', {
        why: 'save the database with pg_dump, then copy the attachments in its data folder.',
      });
    const directory = dataDirectory(context, folder);
    const file = resolve(context.machine.workingDirectory, named);
    const { createBackup } = await import('../../../service/operator/backup.js');
    const now = context.clock.now();
    const made = await createBackup({ directory, file, isForced, withKeys, now }).catch((error: unknown) =>
      throwBackupError(error, ['asp', 'serve', 'backup', named, '--force']),
    );
    const { attachments, bytes, schemaVersion, unrecorded } = made;
    if (unrecorded !== undefined) {
      const why = fileFault(unrecorded.error) ?? messageOf(unrecorded.error);
      await context.output.note(
        `The service will not show this backup, because ${unrecorded.path} could not be written: ${why}.`,
      );
    }
    if (!withKeys)
      await context.output.note('The backup has no signing keys: after a restore, older access tokens are invalid.');
    const facts = { file, data: directory, bytes, attachments, schema_version: schemaVersion, with_keys: withKeys };
    await context.output.document(facts, (safe) => safe.file);
  },
});

export const serveRestore = command({
  path: 'serve restore',
  summary: 'restore a backup into an empty folder, after verifying it',
  arguments: [{ usage: '<file>', about: 'a file from asp serve backup' }],
  options: [{ flags: '--data <dir>', about: 'the folder, which must be empty or new (default: the usual one)' }],
  examples: [
    { line: 'asp serve restore asp-backup.tar --data restored', about: 'then: asp serve --data restored' },
    { line: 'asp serve restore /backup/asp.tar --data /var/lib/asp --json', about: 'for scripts' },
  ],
  effect: 'local',
  stdout: 'the folder',
  isEndless: true,
  parse(args) {
    const data = args.text('data');
    if (data === 'memory') throw usageError('You can restore a backup only to a folder, not to memory.');
    return { file: args.argument('file'), data };
  },
  async run(context, { file: named, data }) {
    const directory = dataDirectory(context, data);
    const file = resolve(context.machine.workingDirectory, named);
    const { restoreBackup } = await import('../../../service/operator/backup.js');
    const restored = await restoreBackup(file, directory).catch((error: unknown) =>
      throwBackupError(error, ['asp', 'serve', 'restore', named, '--data', 'another-folder']),
    );
    const { attachments, schemaVersion, areKeysSealed } = restored;
    const start = `Start it with: ${quoteArgs(['asp', 'serve', '--data', directory])}`;
    await context.output.note(
      areKeysSealed
        ? `Restored. The signing keys are sealed: name the file with their key. ${start} --key-file <path>`
        : `Restored. ${start}`,
    );
    const facts = { file, data: directory, attachments, schema_version: schemaVersion };
    await context.output.document(facts, (safe) => safe.data);
  },
});

export const serveMigrate = command({
  path: 'serve migrate',
  summary: 'bring the data of a service to the schema that this version of asp uses',
  details: [
    'asp serve does this itself when it starts with data in a folder. With PostgreSQL, run it before you start the first',
    'service of a new version. Services of the previous version keep serving during and after that, so you can replace',
    'them one at a time. If it is interrupted, run it again.',
  ].join('\n'),
  options: [
    { flags: '--plan', about: 'print the steps and the size of their tables, and change nothing' },
    { flags: '--data <dir>', about: 'the data folder (default: the one that asp serve would use)' },
    { flags: '--database <url>', about: 'the PostgreSQL database, as for asp serve' },
    { flags: '--config <path>', about: 'the settings of the service, as for asp serve' },
  ],
  examples: [
    { line: 'asp serve migrate --plan', about: 'what the next asp serve would do' },
    {
      line: 'asp serve migrate --config /etc/asp/serve.json',
      about: 'before you upgrade the first of several services',
    },
  ],
  effect: 'local',
  stdout: 'the steps, one per line',
  isEndless: true,
  parse: (args) => ({
    isPlan: args.flag('plan'),
    data: args.text('data'),
    database: args.text('database'),
    configPath: args.text('config'),
  }),
  async run(context, { isPlan, configPath, ...named }) {
    const [{ readSettings, showDatabase }, { migrate, planMigration }] = await Promise.all([
      import('./settings.js'),
      import('../../../service/operator/migrate.js'),
    ]);
    const flags = Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined));
    const { settings } = await readSettings(context, flags, configPath);
    const { database } = settings;
    if (database === undefined && settings.data === 'memory')
      throw usageError('A service with its data in memory has nothing to migrate.');
    const directory = dataDirectory(context, settings.data);
    const location = database === undefined ? { directory } : { databaseUrl: database };
    const data = database === undefined ? directory : showDatabase(database);
    const plan = await planMigration(location).catch(throwMigrationError);
    const say = (to: number, what: string): void => void context.output.note(`Schema version ${to}: ${what}…`);
    if (!isPlan && plan.steps.length > 0) await migrate(location, say).catch(throwMigrationError);
    const { version = null, target, steps, inTheWay } = plan;
    const facts = {
      data,
      schema_version: version,
      target_version: target,
      is_plan: isPlan,
      in_the_way: inTheWay,
      steps,
    };
    await context.output.document(facts, (safe) => describeMigration(safe, database !== undefined));
  },
});

const ON_POSTGRES = {
  change: 'locks it for a moment',
  index: 'does not lock it',
  fill: 'changes a few rows at a time',
};

type Migration = Pick<MigrationPlan, 'steps'> & {
  readonly schema_version: number | null;
  readonly target_version: number;
  readonly is_plan: boolean;
  readonly in_the_way: number;
};

function describeMigration(plan: Migration, isShared: boolean): string {
  const { schema_version: version, target_version: target, steps, in_the_way: inTheWay } = plan;
  if (version === null) return 'There is no data yet. asp serve creates it.';
  if (steps.length === 0) return `There is nothing to do: the data has schema version ${version}.`;
  const size = (rows: number | null): string => (rows === null ? 'unknown size' : formatQuantity(rows, 'row'));
  const effect = ({ kind }: PlannedStep): string => (isShared ? `, ${ON_POSTGRES[kind]}` : '');
  const about = (step: PlannedStep): string => (step.is_new ? 'new table' : `${size(step.rows)}${effect(step)}`);
  const lines = steps.map((step) => `${step.to}  ${step.what} (${step.table}: ${about(step)})`);
  const needed = isShared ? 'Run asp serve migrate. ' : 'asp serve does this when it starts. ';
  const blocked =
    inTheWay > 0
      ? `First upgrade or stop ${formatQuantity(inTheWay, 'service')} of an old version, which would fail.`
      : '';
  const last = plan.is_plan ? `${needed}${blocked}`.trim() : `Migrated from schema version ${version} to ${target}.`;
  return [...lines, last].join('\n');
}

/** Why data was not migrated. */
async function throwMigrationError(error: unknown): Promise<never> {
  const { isStartError } = await import('../../../service/core/errors.js');
  if (isStartError(error) && error.code === 'DATA_IN_USE')
    throw new CliError('ASP_PORT_IN_USE', { message: error.message, next: ['asp', 'serve', 'stop'], cause: error });
  return throwBackupError(error, []);
}

/** Why data was not saved, restored or deleted; `next` is the command for an existing file. */
async function throwBackupError(error: unknown, next: readonly string[]): Promise<never> {
  const { isBackupError, isUnusable } = await import('../../../service/core/errors.js');
  if (isUnusable(error)) throw new CliError('ASP_CONFIG', { message: error.message, cause: error });
  if (isBackupError(error)) {
    const facts = { message: error.message, cause: error };
    const isInTheWay = error.code === 'EXISTS' || error.code === 'NOT_EMPTY';
    throw isInTheWay ? new CliError('ASP_FILE_EXISTS', { ...facts, next }) : new CliError('ASP_CONFIG', facts);
  }
  const isMissing = isFileError(error, 'ENOENT', 'ENOTDIR');
  const why = isMissing ? 'there is no such file or folder' : fileFault(error);
  if (why === undefined) throw error;
  const path = error instanceof Error && 'path' in error ? String(error.path) : 'A file';
  throw new CliError('ASP_CONFIG', { message: `Could not use ${path}.`, why: `${why}.`, cause: error });
}
