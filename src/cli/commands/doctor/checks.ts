import type { Stats } from 'node:fs';
import { chmod, lstat, readdir, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { RequestError } from '../../../client/client.js';
import { discoverFor } from '../../../client/credentials/login.js';
import { inspectLogin, openLogins } from '../../../client/credentials/open-logins.js';
import { findProxy } from '../../../client/http/transport.js';
import { formatQuantity, messageOf } from '../../../kit/format.js';
import { isFileError, isUnsafeFile, openNewFile } from '../../../kit/private-file.js';
import { credentialKind } from '../../context/build-credential.js';
import type { Context } from '../../context/context.js';
import { createLoginContext, findFileStoreFault, loginsAt } from '../../context/login-store.js';
import { findStartCommand } from '../../context/stopped-service.js';
import { CliError, usageError } from '../../errors.js';
import { unusableFile } from '../../input.js';
import { LOCAL_SERVICE_NAME, localServiceFile } from '../../profile/paths.js';
import type { ResolvedProfile } from '../../profile/resolve-profile.js';

/** The result of one check. `fix`: a command that helps, argument by argument. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'warning' | 'problem' | 'fixed';
  readonly says: string;
  readonly fix?: readonly string[] | undefined;
}

const finding =
  (state: Finding['state']) =>
  (check: string, says: string, fix?: readonly string[]): Finding => ({ check, state, says, fix });
const [ok, warning, problem, fixed] = [finding('ok'), finding('warning'), finding('problem'), finding('fixed')];

/** Checks everything that commands depend on. */
export async function findProblems(context: Context, isFixing: boolean): Promise<readonly Finding[]> {
  return [
    checkPlatform(context),
    ...checkEnvironment(context),
    ...(await checkFiles(context, isFixing)),
    ...(await checkService(context)),
    ...(await checkLogins(context)),
  ];
}

/**
 * The day after which a release line of Node.js gets no more security fixes; lines with odd numbers are supported for a
 * few months only.
 */
const NODE_END_OF_LIFE: Readonly<Record<number, string>> = { 20: '2026-04-30', 22: '2027-04-30', 24: '2028-04-30' };

function checkPlatform({ machine, version, clock }: Context): Finding {
  const [major = 0, minor = 0] = machine.nodeVersion.replace(/^v/, '').split('.').map(Number);
  const says = `asp ${version}, Node.js ${machine.nodeVersion}, ${machine.platform} ${machine.arch}`;
  if (major < 20 || (major === 20 && minor < 19))
    return problem('program', `${says}: Node.js 20.19 or newer is required`);
  const end = NODE_END_OF_LIFE[major];
  const isOver = end === undefined ? major < 25 || major % 2 === 1 : clock.now() > Date.parse(`${end}T23:59:59Z`);
  if (!isOver) return ok('program', says);
  return warning('program', `${says}: Node.js ${major} no longer gets security fixes; use Node.js 24`);
}

/** Environment variables that are dangerous or surprising. */
function checkEnvironment({ environment }: Context): Finding[] {
  const has = (name: string): boolean => (environment[name] ?? '') !== '';
  const findings: Finding[] = [];
  if (environment['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    findings.push(
      problem('environment', 'NODE_TLS_REJECT_UNAUTHORIZED=0 turns off certificate checks in other programs'),
    );
  if (has('ASP_TOKEN') && has('ASP_CLIENT_ID'))
    findings.push(warning('environment', 'ASP_TOKEN and ASP_CLIENT_ID are both set: ASP_TOKEN is used'));
  if (has('ASP_TOKEN') && !has('ASP_WS_TOKEN'))
    findings.push(
      warning(
        'environment',
        'ASP_TOKEN is set without ASP_WS_TOKEN: if the WebSocket needs a separate token, asp tail works only if you name sessions',
      ),
    );
  const proxy = findProxy(environment);
  if (proxy !== undefined && proxy.address === undefined)
    findings.push(problem('environment', `${proxy.name} is not the address of an HTTP proxy, so asp uses none`));
  return findings;
}

const PERMISSIONS = 0o777;

/** Settings are readable, and our files are private. */
async function checkFiles(context: Context, isFixing: boolean): Promise<readonly Finding[]> {
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
    const folder = file === undefined ? '' : `; ${file.path} overrides some here`;
    return ok('settings', `${formatQuantity(count, 'profile')}${folder}`);
  } catch (error) {
    return problem('settings', messageOf(error), ['asp', 'config', 'edit']);
  }
}

interface Entry {
  readonly path: string;
  readonly rights: number;
}

type WalkedFile = Stats & { readonly path: string };

const FIX = ['asp', 'doctor', '--fix'];

/** Anyone who can read our files can read the secrets in them. */
async function checkRights(context: Context, isFixing: boolean): Promise<readonly Finding[]> {
  const { paths, machine } = context;
  if (machine.userId === undefined) return [];
  const { configFile, stateDirectory, runtimeDirectory } = paths;
  const folders = [configFile === undefined ? undefined : dirname(configFile), stateDirectory, runtimeDirectory];
  const loose: Entry[] = [];
  const foreign: string[] = [];
  for (const folder of folders)
    for await (const entry of walk(folder)) {
      if (entry.uid !== machine.userId) foreign.push(entry.path);
      else if ((entry.mode & 0o077 & PERMISSIONS) !== 0) loose.push({ path: entry.path, rights: entry.mode & 0o700 });
    }
  const findings = foreign.map((path) => problem('files', `${path} belongs to another user`));
  // Where every user can write, one could have put it there.
  if ((await lstat(runtimeDirectory).catch(() => undefined))?.isSymbolicLink() === true)
    findings.push(problem('files', `${runtimeDirectory} is a link, and asp does not use it`));
  if (loose.length === 0) return findings.length > 0 ? findings : [ok('files', 'only you can read them')];
  if (isFixing) {
    for (const { path, rights } of loose) await chmod(path, rights);
    return [...findings, fixed('files', `made private: ${loose.length} that other users could read`)];
  }
  const first = loose[0]?.path ?? '';
  const says =
    loose.length === 1
      ? `${first} is readable by other users`
      : `${loose.length} files and folders are readable by other users: ${first}, …`;
  return [...findings, problem('files', says, FIX)];
}

/** The files and folders at and below a path; none if it does not exist. */
async function* walk(path: string | undefined, depth = 0): AsyncGenerator<WalkedFile> {
  const facts = path === undefined ? undefined : await lstat(path).catch(() => undefined);
  if (path === undefined || facts === undefined || depth > 4) return;
  if (!facts.isFile() && !facts.isDirectory()) return;
  yield Object.assign(facts, { path });
  if (!facts.isDirectory()) return;
  for (const name of await readdir(path).catch(() => [])) yield* walk(join(path, name), depth + 1);
}

/** The record of a service that was killed. */
async function checkRecord(context: Context, isFixing: boolean): Promise<readonly Finding[]> {
  const path = localServiceFile(context.paths, LOCAL_SERVICE_NAME);
  const running = await context.localService();
  if (running !== undefined) return [ok('local service', `running at ${running.url}`)];
  if ((await lstat(path).catch(() => undefined)) === undefined) return [];
  const record = 'record of a service that is no longer running';
  if (!isFixing) return [warning('local service', `there is a leftover ${record}`, FIX)];
  await rm(path, { force: true });
  return [fixed('local service', `removed the ${record}`)];
}

const CLOCK_TOLERANCE_MS = 30_000;

/** The chosen service, its metadata, and its clock. */
async function checkService(context: Context): Promise<readonly Finding[]> {
  let profile: ResolvedProfile;
  try {
    profile = await context.profile();
  } catch (error) {
    const next = error instanceof CliError ? error.next : undefined;
    return [problem('profile', messageOf(error), next ?? (await findStartCommand(context, error)))];
  }
  const { name, baseUrl } = profile;
  const findings = [ok('profile', `${name} (${baseUrl})`)];
  try {
    const { issuer } = await discoverFor(await createLoginContext(context), baseUrl, {
      isForced: true,
      retries: 0,
      signal: context.signal,
    });
    findings.push(ok('service', `responds; its authorization server is ${issuer}`));
    findings.push(await checkClock(context, baseUrl));
  } catch (error) {
    const known = error instanceof RequestError || error instanceof CliError ? error.code : undefined;
    // The deadline of the command aborts the request. After Ctrl-C, nothing is printed.
    const isLate = known === 'ASP_ABORTED' && context.signal.aborted;
    const code = isLate ? 'ASP_TIMEOUT' : known;
    const says = isLate ? 'does not answer: the deadline passed' : messageOf(error);
    const explanation = code === undefined ? undefined : ['asp', 'explain', code];
    findings.push(problem('service', says, (await findStartCommand(context, error)) ?? explanation));
  }
  return findings;
}

/** This machine's clock decides when tokens expire and whether certificates are valid. */
async function checkClock(context: Context, baseUrl: string): Promise<Finding> {
  const transport = await context.transport();
  const { headers } = await transport.send({ method: 'GET', url: `${baseUrl}/agents/me`, signal: context.signal });
  const serviceTime = Date.parse(headers['date'] ?? '');
  const apartMs = Math.abs(serviceTime - context.clock.now());
  if (Number.isNaN(serviceTime)) return ok('clock', 'the service does not send its time');
  return apartMs <= CLOCK_TOLERANCE_MS
    ? ok('clock', 'matches the service')
    : warning('clock', `differs from the service by ${Math.round(apartMs / 1000)} s`);
}

/** Where logins are stored, and the state of those for this service. */
async function checkLogins(context: Context): Promise<readonly Finding[]> {
  const kind = await context.profile().then(
    (profile) => credentialKind(context.environment, profile),
    () => 'login' as const,
  );
  if (kind !== 'login')
    return [ok('sign-in', `not needed: the credential is ${kind === 'command' ? 'a command' : 'in the environment'}`)];
  let isFile = false;
  try {
    const loginContext = await createLoginContext(context);
    isFile = loginContext.kind === 'file';
    await openLogins(loginContext).probe();
    const findings = [ok('store', isFile ? 'a file that only you can read' : 'the keychain works')];
    const baseUrl = await context.profile().then(
      (profile) => profile.baseUrl,
      () => undefined,
    );
    if (baseUrl === undefined) return findings;
    const logins = await loginsAt(context, baseUrl);
    if (logins.length === 0) findings.push(warning('sign-in', 'no login at this service', ['asp', 'login']));
    for (const login of logins) {
      const { state, fault } = await inspectLogin(loginContext, login);
      const who = login.handle ?? 'the account';
      const again = ['asp', 'login', ...(login.handle === null ? [] : [login.handle])];
      const fix = isUnsafeFile(fault) ? FIX : again;
      findings.push(state === 'signed_in' ? ok('sign-in', who) : problem('sign-in', `${who}: ${state}`, fix));
    }
    return findings;
  } catch (error) {
    const fault = isFile ? undefined : await findFileStoreFault(context).catch(() => undefined);
    if (fault !== undefined) return [problem('store', `${messageOf(error)} ${fault.message}`)];
    return [problem('store', messageOf(error), isFile ? undefined : ['asp', 'login', '--store', 'file'])];
  }
}

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
    if (isFileError(error, 'ENOENT', 'ENOTDIR')) throw usageError(`There is no folder ${dirname(path)}.`);
    throw unusableFile(`Cannot write ${path}.`, error);
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
    return { unreadable: messageOf(error) };
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
