import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { quoteArgs, withPeriod } from '../../../kit/format.js';
import { isFileError, readIfPresent, replaceFile } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { childEnvironment } from '../../terminal/child-environment.js';
import { readSettings, type Settings } from './settings.js';

const UNIT = 'asp.service';
const SYSTEM_FOLDER = '/etc/systemd/system';
const SYSTEM_DATA = '/var/lib/asp';
const SYSTEM_USER = 'asp';
/** Only units with this first line are replaced or removed. */
const MARK = '# Written by asp serve install, which may replace it. Remove it with asp serve uninstall.';
/** How long a service may take to stop, without `--drain-delay`. */
const STOP_S = 35;

export interface InstallOptions {
  readonly isSystem: boolean;
  readonly runAs: string | undefined;
  readonly config: string | undefined;
  readonly isDry: boolean;
}

/** Writes the unit, and lets systemd start it. */
export async function install(context: Context, { isSystem, runAs, config, isDry }: InstallOptions): Promise<void> {
  if (runAs !== undefined && !/^[a-z_][a-z0-9_-]{0,31}$/.test(runAs))
    throw usageError(`'${runAs}' is not the name of a user.`);
  const unit = findUnit(context, isSystem);
  const user = runAs ?? SYSTEM_USER;
  const { command, text } = await planUnit(context, unit, { user, config });
  const commands = [
    [...unit.systemctl, 'daemon-reload'],
    [...unit.systemctl, 'enable', UNIT],
    [...unit.systemctl, 'restart', UNIT],
  ];
  const facts = { unit: unit.path, system: isSystem, commands };
  if (isDry) {
    await context.output.document({ ...facts, text, written: false }, () => text.trimEnd());
    for (const one of commands) await context.output.note(`Would run: ${quoteArgs(one)}`);
    return;
  }
  if (isSystem) requireVisible(command);
  await requireSystemd(context, unit);
  if (isSystem) await requireUser(context, user);
  await requireOwn(unit);
  await requireFree(context, unit);
  await replaceFile(unit.path, text, { mode: 0o644 });
  for (const one of commands) await mustRun(context, unit, one);
  await context.output.document({ ...facts, text, written: true }, (safe) => safe.unit);
  await context.output.note(`${UNIT} is running. Its log: ${quoteArgs([...unit.journal, '--follow'])}`);
  if (!isSystem) await context.output.note('It ends when you sign out, unless you run: loginctl enable-linger');
}

/** Stops the service of the unit, and removes the unit. */
export async function uninstall(
  context: Context,
  { isSystem, isDry }: Pick<InstallOptions, 'isSystem' | 'isDry'>,
): Promise<void> {
  const unit = findUnit(context, isSystem);
  const isThere = await requireOwn(unit);
  const before = [[...unit.systemctl, 'disable', '--now', UNIT]];
  const after = [[...unit.systemctl, 'daemon-reload']];
  const commands = isThere ? [...before, ...after] : [];
  const facts = { unit: unit.path, system: isSystem, commands };
  if (isThere && !isDry) {
    await requireSystemd(context, unit);
    for (const command of before) await mustRun(context, unit, command);
    await rm(unit.path, { force: true });
    for (const command of after) await mustRun(context, unit, command);
  }
  await context.output.document({ ...facts, removed: isThere && !isDry }, (safe) => safe.unit);
  if (!isThere) await context.output.note('There is no such unit. Nothing was changed.');
  if (isDry) for (const one of commands) await context.output.note(`Would run: ${quoteArgs(one)}`);
}

/** The unit of a user or of the machine, and the programs that manage it. */
interface Unit {
  readonly isSystem: boolean;
  readonly path: string;
  readonly systemctl: readonly string[];
  readonly journal: readonly string[];
}

function findUnit({ machine, environment }: Context, isSystem: boolean): Unit {
  if (machine.platform !== 'linux') throw noSystemd('this is not Linux.');
  const journal = ['journalctl', ...(isSystem ? [] : ['--user']), '--unit', UNIT];
  if (isSystem) return { isSystem, path: join(SYSTEM_FOLDER, UNIT), systemctl: ['systemctl'], journal };
  const given = environment['XDG_CONFIG_HOME'];
  const home = machine.homeDirectory;
  const folder = given !== undefined && isAbsolute(given) ? given : home && join(home, '.config');
  if (!folder) throw new CliError('ASP_CONFIG', { message: 'This user has no home folder for units.' });
  return { isSystem, path: join(folder, 'systemd', 'user', UNIT), systemctl: ['systemctl', '--user'], journal };
}

function noSystemd(why: string): CliError {
  return new CliError('ASP_CONFIG', {
    message: 'systemd does not run services here.',
    why: `${why} asp serve --detach runs a service in the background without it.`,
  });
}

async function requireSystemd(context: Context, unit: Unit): Promise<void> {
  const { isSystem, systemctl } = unit;
  if (isSystem && context.machine.userId !== 0)
    throw new CliError('ASP_CONFIG', {
      message: `Only root can change ${SYSTEM_FOLDER}.`,
      next: ['sudo', ...context.machine.commandLine],
    });
  const failure = await runProgram(context, [...systemctl, 'show-environment']);
  if (failure !== undefined) throw noSystemd(withPeriod(failure));
}

const HIDDEN = /^\/(?:home|root|run\/user|tmp|var\/tmp)\//;

/** `ProtectHome` and `PrivateTmp` hide the program or its settings. */
function requireVisible(command: readonly string[]): void {
  const hidden = command.find((word) => HIDDEN.test(word));
  if (hidden === undefined) return;
  throw new CliError('ASP_CONFIG', {
    message: `The service could not read ${hidden}: its unit hides home and temporary folders.`,
    why: 'install Node.js and asp for all users, and keep the settings in /etc/asp.',
  });
}

async function requireUser(context: Context, user: string): Promise<void> {
  const failure = await runProgram(context, ['id', '-u', user]);
  if (failure === undefined) return;
  const create = ['useradd', '--system', '--home-dir', SYSTEM_DATA, '--shell', '/usr/sbin/nologin', user];
  throw new CliError('ASP_CONFIG', {
    message: `There is no user ${user}.`,
    why: 'the service runs as this user.',
    next: create,
  });
}

/** Whether there is a unit. Throws if it is someone else's. */
async function requireOwn({ path }: Unit): Promise<boolean> {
  const text = await readIfPresent(path).catch((error: unknown) => {
    if (isFileError(error, 'EACCES')) return '';
    throw error;
  });
  if (text === undefined) return false;
  if (text.startsWith(MARK)) return true;
  throw new CliError('ASP_FILE_EXISTS', {
    message: `${path} was not written by asp serve install. Nothing was changed.`,
    why: 'rename it, or remove its service with systemctl, if it is no longer needed.',
  });
}

/** A service that runs without systemd would keep the new one from using the data. */
async function requireFree(context: Context, unit: Unit): Promise<void> {
  if (unit.isSystem || (await readIfPresent(unit.path)) !== undefined) return;
  const running = await context.localService();
  if (running === undefined) return;
  throw new CliError('ASP_ALREADY_RUNNING', {
    message: `A service is already running at ${running.url}.`,
    next: ['asp', 'serve', 'stop', running.url],
  });
}

async function mustRun(context: Context, unit: Unit, command: readonly string[]): Promise<void> {
  const failure = await runProgram(context, command);
  if (failure === undefined) return;
  throw new CliError('ASP_UNHEALTHY', {
    message: `${quoteArgs(command)} failed: ${withPeriod(failure)}`,
    next: [...unit.journal, '-n', '20'],
    outcome: 'unknown',
  });
}

const OUTPUT_MAX = 4_000;

/** Undefined, or why it failed: its last line on stderr. */
function runProgram({ environment }: Context, [program = '', ...args]: readonly string[]) {
  return new Promise<string | undefined>((done) => {
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], env: childEnvironment(environment) });
    let text = '';
    child.stderr.on('data', (chunk: Buffer) => {
      text = `${text}${chunk}`.slice(-OUTPUT_MAX);
    });
    child.once('error', (error: Error & { code?: string }) =>
      done(error.code === 'ENOENT' ? `${program} is not installed.` : error.message),
    );
    child.once('close', (status, signal) =>
      done(status === 0 ? undefined : text.trim().split('\n').at(-1) || `it ended with ${signal ?? status}.`),
    );
  });
}

interface UnitOptions {
  readonly user: string;
  readonly config: string | undefined;
}

async function planUnit(context: Context, unit: Unit, { user, config }: UnitOptions) {
  const configPath = config === undefined ? undefined : resolve(context.machine.workingDirectory, config);
  // Only the file counts: the variables of this shell are not those of the service.
  const { settings } = await readSettings({ ...context, environment: {} }, {}, configPath);
  const [node = '', script = ''] = context.machine.commandLine;
  if (/[/\\]_npx[/\\]/.test(script))
    throw new CliError('ASP_CONFIG', {
      message: 'asp runs from a temporary folder of npx, which will be deleted.',
      next: ['npm', 'install', '--global', 'asp-cli'],
    });
  const data = unit.isSystem && settings.data === undefined ? ['--data', SYSTEM_DATA] : [];
  const settingsFile = configPath === undefined ? [] : ['--config', configPath];
  const command = [node, resolve(script), 'serve', ...settingsFile, ...data];
  return { command, text: toUnit(unit, { user, settings, command }) };
}

/** Restrictions that work on any machine; seccomp does most of them, which is available to user units, too. */
const CONFINED = [
  'UMask=0077',
  'NoNewPrivileges=true',
  'LockPersonality=true',
  'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK',
  'RestrictNamespaces=true',
  'RestrictRealtime=true',
  'RestrictSUIDSGID=true',
  'SystemCallArchitectures=native',
  'SystemCallFilter=@system-service',
  'SystemCallErrorNumber=EPERM',
];

/** Restrictions that only the system manager can apply. */
const CONFINED_BY_ROOT = [
  'ProtectSystem=strict',
  'ProtectHome=true',
  'PrivateTmp=true',
  'PrivateDevices=true',
  'ProtectClock=true',
  'ProtectControlGroups=true',
  'ProtectHostname=true',
  'ProtectKernelLogs=true',
  'ProtectKernelModules=true',
  'ProtectKernelTunables=true',
  'ProtectProc=invisible',
  'RemoveIPC=true',
];

interface UnitParts {
  readonly user: string;
  readonly settings: Settings;
  readonly command: readonly string[];
}

function toUnit({ isSystem }: Unit, { user, settings, command }: UnitParts): string {
  const stopS = STOP_S + Math.ceil(settings['drain-delay'] / 1_000);
  const ofSystem = [
    `User=${user}`,
    'Environment=XDG_RUNTIME_DIR=/run/asp',
    'RuntimeDirectory=asp',
    'RuntimeDirectoryMode=0700',
    'StateDirectory=asp',
    'StateDirectoryMode=0700',
    'EnvironmentFile=-/etc/asp/environment',
  ];
  return `${[
    MARK,
    '[Unit]',
    'Description=Agent messaging service',
    ...(isSystem ? ['After=network-online.target', 'Wants=network-online.target'] : []),
    '',
    '[Service]',
    'Type=notify',
    'NotifyAccess=all',
    'WatchdogSec=60',
    'TimeoutStartSec=600',
    ...(isSystem ? ofSystem : ['EnvironmentFile=-%E/asp-cli/serve.env']),
    `ExecStart=${command.map(quoteForUnit).join(' ')}`,
    'Restart=on-failure',
    `TimeoutStopSec=${stopS}`,
    'LimitNOFILE=65536',
    ...CONFINED,
    ...(isSystem ? [...listCapabilities(settings), ...CONFINED_BY_ROOT, ...listWritable(settings)] : []),
    '',
    '[Install]',
    `WantedBy=${isSystem ? 'multi-user.target' : 'default.target'}`,
  ].join('\n')}\n`;
}

/** Without this one, only root may listen on a port below 1024, such as 443. */
function listCapabilities(settings: Settings): string[] {
  const ports = [settings.port, settings['metrics-port'], settings['operator-port']];
  if (!ports.some((port = 0) => port > 0 && port < 1024)) return ['CapabilityBoundingSet='];
  return ['CapabilityBoundingSet=CAP_NET_BIND_SERVICE', 'AmbientCapabilities=CAP_NET_BIND_SERVICE'];
}

/** Folders outside of the unit's own that the settings name. */
function listWritable({ data, 'security-log': securityLog }: Settings): string[] {
  const folders = [data === 'memory' ? undefined : data, securityLog && dirname(securityLog)];
  return folders
    .filter((folder) => folder !== undefined && folder !== '' && relative(SYSTEM_DATA, folder).startsWith('..'))
    .map((folder) => `ReadWritePaths=${quoteForUnit(folder ?? '')}`);
}

/** A word of a command line in a unit (systemd.service(5), systemd.unit(5)). */
function quoteForUnit(text: string): string {
  const escaped = text.replaceAll('%', '%%').replaceAll('$', '$$$$');
  if (/^[\w@%+=:,./$-]+$/.test(escaped)) return escaped;
  return `"${escaped.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}
