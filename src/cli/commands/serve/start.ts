import { constants, openSync, rmSync, write } from 'node:fs';
import { promisify } from 'node:util';
import type { Client } from '../../../client/client.js';
import { RequestError } from '../../../client/http/request-error.js';
import { orAborted, wait } from '../../../kit/clock.js';
import { messageOf } from '../../../kit/format.js';
import { toJsonLine } from '../../../kit/json-line.js';
import { createMutex } from '../../../kit/mutex.js';
import { writePrivateFile } from '../../../kit/private-file.js';
import { repeat } from '../../../kit/repeat.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import { createTurnableClock, type TurnableClock } from '../../../kit/turnable-clock.js';
import { isStartError, type OperatorError } from '../../../service/core/errors.js';
import type { RunningService, ServiceOptions } from '../../../service/service.js';
import { isMessageEvent } from '../../../wire/event.js';
import { IN_REPLY_TO } from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { LocalServiceRecord } from '../../../wire/schemas/local-service.js';
import type { Content } from '../../../wire/schemas/requests.js';
import type { Context } from '../../context/context.js';
import { connectAsLocal } from '../../context/operator.js';
import { makeRuntimeDirectory } from '../../context/runtime-directory.js';
import { CliError, explainUnwritable, usageError } from '../../errors.js';
import { withFileLock } from '../../profile/file-lock.js';
import {
  keepRecord,
  listRunningServices,
  noteOther,
  processNamespace,
  readRunningServices,
} from '../../profile/local-service.js';
import { LOCAL_SERVICE_NAME, localServiceFile } from '../../profile/paths.js';
import { openReadyFile, type ReadyFile } from '../../ready-file.js';
import { createAppender } from '../../terminal/process-streams.js';
import { durationText } from '../../values.js';
import { dataDirectory } from './data-directory.js';
import {
  LOG_LEVELS,
  type LogLevel,
  readBucket,
  readCertificateFiles,
  readClockStart,
  readFaults,
  readKeySecrets,
  readMetricsToken,
  readRemoteOperators,
  requireUseOfBus,
  requireUseOfClock,
  requireUseOfDatabase,
  type Settings,
  type StartedWith,
  showDatabase,
} from './settings.js';
import { connectSystemd } from './systemd.js';
import { readTracing } from './tracing.js';

const ECHO_AGENT = '@demo.echo';

/** Signs in the echo agent with credentials of its own and lets it answer; the returned function stops it. */
async function startEchoAgent(context: Context, record: LocalServiceRecord): Promise<() => Promise<void>> {
  const { client } = await connectAsLocal(context, record, ECHO_AGENT);
  const stop = new AbortController();
  const running = runEchoAgent(client, ECHO_AGENT, stop.signal).catch(async (error: unknown) => {
    if (!stop.signal.aborted) await context.output.note(`${ECHO_AGENT} stopped: ${messageOf(error)}`);
  });
  return async () => {
    stop.abort();
    await running;
  };
}

/**
 * An agent that joins every session it is invited to and repeats every message of others, until `signal`. The key of an
 * answer is derived from the message's id: an event is answered once, no matter how often it is delivered.
 */
async function runEchoAgent(client: Client, handle: string, signal: AbortSignal): Promise<void> {
  for await (const item of client.tail({ signal })) {
    if (item.kind !== 'event') continue;
    try {
      await react(client, handle, item.event, signal);
    } catch (error) {
      // The session may have ended in the meantime, or be at its limit; the next event is answered anyway.
      if (signal.aborted || !(error instanceof RequestError)) throw error;
    }
  }
}

async function react(client: Client, handle: string, event: EventEnvelope, signal: AbortSignal): Promise<void> {
  const { session_id } = event;
  if (event.type === 'session.message') return answer(client, handle, event, signal);
  if (event.type !== 'session.invited' || event.payload['invitee'] !== handle) return;
  await client.call('joinSession', { path: { session_id }, idempotencyKey: `echo-join-${event.event_id}`, signal });
  // Messages from before it joined are only in the replay.
  for await (const { events } of client.pages('replayEvents', { path: { session_id }, signal }))
    for (const earlier of events) await answer(client, handle, earlier, signal);
}

async function answer(client: Client, handle: string, event: EventEnvelope, signal: AbortSignal): Promise<void> {
  if (!isMessageEvent(event) || event.payload.sender === handle) return;
  await client.call('sendMessage', {
    path: { session_id: event.session_id },
    body: { content: toEcho(event.payload.content), metadata: { [IN_REPLY_TO]: event.payload.id } },
    idempotencyKey: `echo-${event.payload.id}`,
    signal,
  });
}

/** Text comes back unchanged; of parts, the text and data, because a file can be attached only once. */
function toEcho(content: string | { type: string }[]): Content {
  if (typeof content === 'string') return content;
  const kept = content.flatMap((part): Exclude<Content, string> => {
    if (part.type === 'text' && 'text' in part && typeof part.text === 'string')
      return [{ type: 'text', text: part.text }];
    return [];
  });
  return kept.length > 0 ? kept : `(${content.map((part) => part.type).join(', ')})`;
}

type LogContext = Pick<Context, 'clock' | 'streams' | 'output'>;
type Log = NonNullable<ServiceOptions['log']>;
type Fields = Readonly<Record<string, string | number | boolean>>;

/**
 * Secrets that must not appear in any line, even if they are in the text of an error: tokens, codes, secrets and
 * signatures.
 */
const SECRETS: readonly (readonly [what: RegExp, instead: string])[] = [
  [/\beyJ[\w-]+\.[\w-]*(?:\.[\w-]*)?/g, '[token]'],
  [/\b(Bearer|Basic) +[\w\-.~+/]+=*/gi, '$1 [hidden]'],
  [
    /\b(code|code_verifier|refresh_token|access_token|client_secret|password|signature|token)=[^&\s"']+/gi,
    '$1=[hidden]',
  ],
  [/(\/\/[^/\s:@]*):[^/\s@]+@/g, '$1:[hidden]@'],
];

type LogSettings = Pick<Settings, 'log' | 'log-level' | 'security-log'>;

/**
 * The messages of the service on stderr, one line per event; `errors` prints only faults, as notes for the operator.
 */
export function createServiceLog(context: LogContext, settings: LogSettings): Log {
  const { log: format, 'log-level': level, 'security-log': securityFile } = settings;
  const log =
    format === 'errors' && level === undefined
      ? createNotes(context)
      : createLines(context, format === 'json' ? 'json' : 'text', level ?? 'info');
  return securityFile === undefined ? log : { ...log, security: openSecurityLog(context, securityFile) };
}

/**
 * One JSON line per event, appended to a private file. While that cannot be written, for example on a full disk, the lines
 * go to stderr; each is tried.
 */
function openSecurityLog({ clock, output }: LogContext, path: string): NonNullable<Log['security']> {
  const file = openForAppending(path);
  const append = createAppender(async (bytes, at) => (await writeBytes(file, bytes, at)).bytesWritten);
  const record = (line: string): Promise<void> =>
    append(`${line}\n`).catch((error: unknown) =>
      output.note(`Cannot write the security log: ${messageOf(error)}. Not in it: ${line}`).catch(() => {}),
    );
  const inTurn = createMutex();
  return (event, fields) => {
    const time = new Date(clock.now()).toISOString();
    const line = redact(toJsonLine({ time, level: 'security', event, ...fields }));
    void inTurn(() => record(line));
  };
}

const writeBytes = promisify(write);

function openForAppending(path: string): number {
  try {
    const { O_APPEND, O_CREAT, O_NOFOLLOW = 0, O_WRONLY } = constants;
    return openSync(path, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW, 0o600);
  } catch (error) {
    const why = explainUnwritable(error);
    throw new CliError('ASP_CONFIG', { message: `Cannot open the security log ${path}.`, why, cause: error });
  }
}

/** Security lines have no severity, and are always written. */
function createLines(context: LogContext, format: 'text' | 'json', least: LogLevel): Log {
  const isWanted = (level: LogLevel): boolean => LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(least);
  const write = (level: string, event: string, fields: Fields): void => {
    const time = new Date(context.clock.now()).toISOString();
    const line =
      format === 'json'
        ? redact(toJsonLine({ time, level, event, ...fields }))
        : sanitizeLine(
            redact(
              [
                time,
                level,
                event,
                ...Object.entries(fields)
                  .filter(([name]) => name !== 'stack')
                  .map(pair),
              ].join(' '),
            ),
          );
    // An unread log must not stop the service.
    context.streams.stderr.write(`${line}\n`).catch(() => {});
  };
  const writeFault =
    (level: 'warn' | 'error'): Log['error'] =>
    (event, error, fields = {}) => {
      if (isWanted(level))
        write(level, event, { ...fields, ...describeError(error, isWanted('debug') || level === 'error') });
    };
  return {
    ...(isWanted('debug') && { debug: (event, fields) => write('debug', event, fields) }),
    info(event, fields = {}) {
      if (isWanted('info')) write('info', event, fields);
    },
    warn: writeFault('warn'),
    error: writeFault('error'),
    security: (event, fields) => write('security', event, fields),
  };
}

function createNotes({ output }: LogContext): Log {
  const detail: Log['info'] = (event, fields) =>
    void output.detail(() => redact(`${event} ${toJsonLine(fields ?? {})}`)).catch(() => {});
  const note: Log['error'] = (event, error, { request_id: requestId } = {}) => {
    const text = `${event}: ${messageOf(error)}`;
    void output.note(redact(requestId === undefined ? text : `${text} (request ${requestId})`)).catch(() => {});
  };
  return {
    info: detail,
    // The line of a failed request; the failure has its own.
    warn: (event, error, fields) => (event === 'request' ? detail(event, fields) : note(event, error, fields)),
    error: note,
  };
}

function describeError(error: unknown, hasStack: boolean): Fields {
  if (error === undefined) return {};
  if (!(error instanceof Error)) return { error: String(error) };
  const cause = error.cause instanceof Error ? { cause: `${error.cause.name}: ${error.cause.message}` } : {};
  return { error: `${error.name}: ${error.message}`, ...cause, ...(hasStack && { stack: error.stack ?? '' }) };
}

function pair([name, value]: [string, string | number | boolean]): string {
  const text = String(value);
  return `${name}=${/[\s"=]/.test(text) ? JSON.stringify(text) : text}`;
}

function redact(line: string): string {
  return SECRETS.reduce((text, [what, instead]) => text.replace(what, instead), line);
}

const PORTS = ['port', 'metrics-port', 'operator-port'] as const;
type Ports = Pick<Settings, (typeof PORTS)[number]>;

/** Why the service did not start. */
async function translateStartError(error: unknown, settings: Ports, own: readonly OwnService[]): Promise<unknown> {
  if (!isStartError(error)) return translateFileError(error);
  const inItsWay = own.find((one) => isInItsWay(error, settings, one));
  if (inItsWay !== undefined) return runsAlready(inItsWay.running, own.length === 1, error);
  const facts = { message: error.message, cause: error };
  switch (error.code) {
    case 'PORT_IN_USE': {
      const [taken = 'port', same] = PORTS.filter((name) => error.message.startsWith(`Port ${settings[name]} `));
      if (same !== undefined)
        return usageError(`--${taken} and --${same} are both ${settings[taken]}.`, {
          why: `each needs its own; --${same} 0 picks a free one.`,
        });
      return new CliError('ASP_PORT_IN_USE', { ...facts, next: ['asp', 'serve', `--${taken}`, '0'] });
    }
    case 'DATA_IN_USE':
      return new CliError('ASP_PORT_IN_USE', { ...facts, next: ['asp', 'serve', 'status'] });
    case 'DATABASE_NOT_USABLE':
    case 'ATTACHMENTS_NOT_USABLE':
    case 'KEYS_NOT_USABLE':
      return new CliError('ASP_CONFIG', facts);
    case 'NOT_ENCRYPTED':
      return usageError(error.message, {
        why: 'use a certificate (--public-url https://… --tls-cert … --tls-key …), or put a proxy that terminates TLS in front (--public-url https://… --behind-proxy).',
      });
    case 'CERTIFICATE_NOT_USABLE':
      return new CliError('ASP_CONFIG', {
        ...facts,
        why: / not for \S+\.$/.test(error.message)
          ? 'clients use the name in --public-url, or without it the address of --host.'
          : undefined,
      });
    case 'ADDRESS_NOT_AVAILABLE':
    case 'BUS_NOT_USABLE':
    case 'INVALID_PUBLIC_URL':
    case 'SEED_NOT_AVAILABLE':
      return usageError(error.message);
  }
}

/** A running service of this user, and the data folder of the one that did not start. */
interface OwnService {
  readonly running: LocalServiceRecord;
  readonly data: string;
}

function isInItsWay({ code }: OperatorError, { port }: Ports, { running, data }: OwnService): boolean {
  if (code === 'DATA_IN_USE') return running.data === data;
  // With a certificate or a proxy, the operator's endpoints are on another port.
  return code === 'PORT_IN_USE' && (port === running.port || port === Number(new URL(running.operator_url).port));
}

/** A port conflict with the user's own service is not one with another program. */
function runsAlready({ url, pid }: LocalServiceRecord, isOnly: boolean, cause: unknown): CliError {
  return new CliError('ASP_PORT_IN_USE', {
    message: `The local service is already running at ${url} (process ${pid}).`,
    why: `use it, stop it with asp serve stop${isOnly ? '' : ` ${url}`}, or run another one: asp serve --port 0 --data <folder>.`,
    next: ['asp', 'serve', 'status', ...(isOnly ? [] : ['-p', url])],
    cause,
  });
}

function translateFileError(error: unknown): unknown {
  const why = explainUnwritable(error);
  if (why === undefined) return error;
  const path = error instanceof Error && 'path' in error ? `: ${error.path}` : '.';
  return new CliError('ASP_CONFIG', { message: `asp cannot use the data folder${path}`, why, cause: error });
}

const DEMO_HANDLES = [ECHO_AGENT, '@demo.you', '@alice.bot'];

/** Options of one start that no file or variable sets. */
interface Once {
  readonly readyFile: string | undefined;
  readonly adoptsAttachments: boolean;
  readonly startedWith: StartedWith;
}

/** Runs a service until it is stopped. */
export async function start(
  context: Context,
  settings: Settings,
  { readyFile, adoptsAttachments, startedWith }: Once,
): Promise<void> {
  requireUseOfBus(settings);
  requireUseOfDatabase(settings);
  requireUseOfClock(settings);
  if (settings.database !== undefined) requireFolder(settings.database, settings.data);
  const seeds = [...new Set([...(settings.demo ? DEMO_HANDLES : []), ...settings.seed])];
  const before = readyFile === undefined ? undefined : await context.localService();
  const ready = await openReadyFile(readyFile, (text) => text.trim() === before?.url);
  const { startService } = await import('../../../service/service.js');
  const options = { ...toServiceOptions(context, settings, seeds), adoptsAttachments };
  const service = await startService(options).catch(async (error: unknown) => {
    const data = describeData(context, settings);
    const running = await listRunningServices(context.paths, context.machine);
    throw await translateStartError(
      error,
      settings,
      running.map((one) => ({ running: one, data })),
    );
  });
  const systemd = connectSystemd(context);
  const undo: (() => Promise<void>)[] = [];
  let stopped: Promise<void> | undefined;
  try {
    undo.push(ready.remove);
    const record = toRecord(context, settings, service, startedWith);
    undo.push(await leaveRecord(context, record));
    if (settings.demo) undo.push(await startEchoAgent(context, record));
    const { url, auth_url, web_url, ws_url, pid, version } = record;
    // Before the address: a parent that reads it believes that the service has started.
    await ready.write(`${url}\n`);
    await context.output.document({ url, auth_url, web_url, ws_url, pid, version }, (safe) => safe.url);
    await announce(context, settings, seeds, service);
    systemd.ready();
    await orAborted(service.stopRequested, context.signal, () => {});
    stopped = systemd.stopping();
    await drain(context, service, ready, settings['drain-delay']);
    const again = context.streams.stderr.isTerminal ? ' Press Ctrl-C again to stop now.' : '';
    await context.output.note(`Finishing open requests.${again}`);
  } finally {
    try {
      for (const step of undo.reverse()) await step();
    } finally {
      await service.stop();
      await stopped;
    }
  }
}

/** A database must not refer to files that are gone after the end. */
function requireFolder(database: string, data: string | undefined): void {
  // Throws if the address is invalid.
  showDatabase(database);
  if (data === 'memory') throw usageError('With a database, --data is the folder of the attachments, not memory.');
}

function toServiceOptions(context: Context, settings: Settings, seeds: readonly string[]): ServiceOptions {
  const { bus, data, inject } = settings;
  const clock = createServiceClock(context, settings);
  const injected = inject === undefined ? { faults: [], seed: undefined } : readFaults('--inject', inject);
  // Nothing can be triggered at a service that others rely on.
  const isForTests = settings.demo || inject !== undefined || data === 'memory';
  const faults = isForTests ? [...injected.faults] : undefined;
  return {
    host: settings.host,
    port: settings.port,
    databaseUrl: settings.database,
    databaseLimits: {
      connections: settings['database-connections'],
      statementTimeoutMs: settings['database-statement-timeout'],
      lockTimeoutMs: settings['database-lock-timeout'],
      pageRows: settings['database-page'],
    },
    bucket: readBucket(context, settings),
    keySecrets: readKeySecrets(settings),
    bus: bus === undefined ? undefined : { url: bus, credentialsFile: settings['bus-creds'] },
    publicUrl: settings['public-url'],
    isBehindProxy: settings['behind-proxy'],
    areLimitsOn: settings.limits === 'on',
    trust: settings.trust,
    search: settings.search,
    accountPolicy: {
      openAgents: settings['open-agents'],
      signUp: settings['sign-up'],
      quota: {
        agents: settings['account-agents'],
        clients: settings['account-clients'],
        attachmentBytes: settings['account-storage'],
        sessionsPerHour: settings['account-sessions'],
      },
    },
    participantsMax: settings['max-participants'],
    loopGuard: settings['loop-guard'],
    presenceGraceMs: settings['presence-grace'],
    retentionMs: settings.retention,
    webPush: settings['web-push'],
    webhooks: settings.webhooks === 'off' ? undefined : settings.webhooks,
    shareLinks: settings['share-links'],
    certificate: readCertificateFiles(settings),
    metricsPort: settings['metrics-port'],
    metricsHost: settings['metrics-host'],
    metricsToken: readMetricsToken(settings),
    remoteOperators: readRemoteOperators(settings),
    faults: faults && { ...injected, faults },
    data: data === 'memory' ? 'memory' : { directory: dataDirectory(context, data) },
    seeds: seeds.map((handle) => ({ handle, inboundPolicy: settings.policy })),
    version: context.version,
    name: settings.name,
    clock: clock ?? context.clock,
    rehearsal: { clock, faults },
    random: context.random,
    log: createServiceLog(clock === undefined ? context : { ...context, clock }, settings),
    traces: readTracing(context.environment, context.version),
  };
}

const AHEAD_MAX_MS = 36_600 * 86_400_000;

/** Undefined: the service has the time of this machine. */
function createServiceClock({ clock: base }: Context, { clock }: Settings): TurnableClock | undefined {
  if (clock === undefined) return undefined;
  const aheadMs = readClockStart('--clock', clock, base.now());
  if (aheadMs > AHEAD_MAX_MS || base.now() + aheadMs < 0)
    throw usageError(`--clock '${clock}' is not between 1970 and a hundred years from now.`);
  return createTurnableClock(base, aheadMs);
}

function toRecord(
  context: Context,
  settings: Settings,
  service: RunningService,
  { options, variables }: StartedWith,
): LocalServiceRecord {
  const { processId } = context.machine;
  return {
    name: LOCAL_SERVICE_NAME,
    url: service.baseUrl,
    auth_url: service.authUrl,
    web_url: service.webUrl,
    ws_url: service.wsUrl,
    operator_url: service.operatorUrl,
    port: service.port,
    pid: processId,
    process_start: context.machine.processStart(processId),
    process_namespace: processNamespace(),
    version: context.version,
    data: describeData(context, settings),
    home: context.machine.homeDirectory,
    options: [...options],
    variables: [...variables],
    started_at: service.startedAt,
    secret: service.operatorSecret,
  };
}

function describeData(context: Context, { data, database }: Settings): string {
  if (database !== undefined) return showDatabase(database);
  return data === 'memory' ? 'memory' : dataDirectory(context, data);
}

async function announce(
  { output, streams }: Context,
  settings: Settings,
  seeds: readonly string[],
  service: RunningService,
): Promise<void> {
  if (service.metricsUrl !== undefined) await output.note(`Metrics are at ${service.metricsUrl}.`);
  if (service.remoteOperatorUrl !== undefined)
    await output.note(`Operators with a token are served at ${new URL(service.remoteOperatorUrl).origin}.`);
  if (service.tracesUrl !== undefined) await output.note(`Traces go to ${service.tracesUrl}.`);
  if (settings['web-push'] !== undefined)
    await output.note('Push notifications are on: requests go to the push services of people’s browsers.');
  if (settings.webhooks !== 'off')
    await output.note(
      settings.webhooks === 'public'
        ? 'Webhooks are on: requests go to public addresses that people choose.'
        : 'Webhooks are on: requests go to any address that people choose, including those on this network.',
    );
  if (settings.inject !== undefined)
    await output.note(`Injecting faults into REST and WebSocket: --inject ${settings.inject}.`);
  if (settings.search === 'off' && settings.database !== undefined)
    await output.note('Messages sent while search is off are not found later, after it is on again.');
  if (settings.clock !== undefined)
    await output.note(
      `It is ${new Date(service.startedAt).toISOString()} at the service. To move its clock: asp serve clock advance 1h`,
    );
  if (settings['public-url'] !== undefined) await output.note(`Listening on ${service.host}:${service.port}.`);
  if (service.isAddressShared)
    await output.note(
      'All clients seem to be on this machine, so limits by address cannot tell them apart. If there is a proxy, add --behind-proxy.',
    );
  // The log of a background service is read where no one can press a key.
  const hint = streams.stderr.isTerminal ? ' Ctrl-C stops it. In another terminal:' : ' To try it:';
  if (!settings.demo) return output.note(`Ready.${hint} asp login`);
  await output.note(`Ready, with ${seeds.join(', ')}.${hint}`);
  for (const line of ['asp login', `asp send ${ECHO_AGENT} "hi" --wait`]) await output.note(`  ${line}`);
}

/** Keeps serving while load balancers notice that this service is no longer ready. */
async function drain(context: Context, service: RunningService, ready: ReadyFile, delayMs: number): Promise<void> {
  if (delayMs === 0) return;
  service.drain();
  await ready.remove();
  const again = context.streams.stderr.isTerminal ? ' Ctrl-C skips the wait.' : '';
  await context.output.note(`No longer ready; stopping in ${durationText(delayMs)}.${again}`);
  await context.untilSignal((signal) => wait(context.clock, delayMs, signal).catch(() => {}));
}

/** Cleaners of temporary folders, where the record may be, remove what no one has written for a few days. */
const RENEWAL_MS = 6 * 3_600_000;

/**
 * Leaves the addresses and the secret where programs of this OS user find them, in front of those of services that are
 * running already, and keeps them there. The returned function removes them.
 */
async function leaveRecord(context: Context, record: LocalServiceRecord): Promise<() => Promise<void>> {
  const { clock, machine, output, paths } = context;
  const path = localServiceFile(paths, LOCAL_SERVICE_NAME);
  const latest = await withFileLock(context, path, async () => {
    const before = await listRunningServices(paths, machine);
    await writeRecords(context, path, [record, ...before]);
    return before[0];
  });
  if (latest !== undefined) await output.note(noteOther(latest));
  const renew = (): Promise<void> =>
    withFileLock(context, path, async () =>
      writeRecords(context, path, keepRecord(await readRunningServices(paths, machine), record)),
    );
  const onFault = (error: unknown): void =>
    void output.note(`Could not renew ${path}: ${messageOf(error)}.`).catch(() => {});
  const stopRenewing = repeat(clock, RENEWAL_MS, renew, onFault, true);
  return async () => {
    await stopRenewing();
    await withFileLock(context, path, async () => {
      const others = (await readRunningServices(paths, machine)).filter(({ pid }) => pid !== record.pid);
      if (others.length > 0) await writeRecords(context, path, others);
      else rmSync(path, { force: true });
    }).catch((error: unknown) =>
      // No one uses the record of a process that has ended.
      output.note(`Could not remove this service from ${path}: ${messageOf(error)}.`),
    );
  };
}

async function writeRecords(
  { paths }: Context,
  path: string,
  [latest, ...earlier]: readonly LocalServiceRecord[],
): Promise<void> {
  await makeRuntimeDirectory(paths);
  return writePrivateFile(path, `${JSON.stringify({ ...latest, ...(earlier.length > 0 && { earlier }) })}\n`);
}
