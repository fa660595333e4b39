import type { RequestListener, Server } from 'node:http';
import { type Clock, systemClock, within } from '../kit/clock.js';
import { createIds, type Ids } from '../kit/ids.js';
import { type Random, randomToken, systemRandom } from '../kit/random.js';
import { PARTICIPANTS_PER_SESSION_MAX, UNREAD_MAX_BYTES } from '../wire/limit.js';
import {
  type AddressOptions,
  directRoot,
  isAddressShared,
  nameToCertify,
  requireSafeAddress,
  toAddresses,
} from './addresses.js';
import type { AttachmentBucket, BucketCredentials } from './attachments/bucket.js';
import type { BucketAddress } from './attachments/bucket-address.js';
import { claimAttachments, lookAtFolder, openAttachmentFiles } from './attachments/files.js';
import type { AttachmentFiles } from './core/attachment-store.js';
import {
  type AccountPolicy,
  type Addresses,
  DEFAULT_ACCOUNT_POLICY,
  isSearchOn,
  type Log,
  type ServiceContext,
} from './core/context.js';
import type { Database, PostgresLimits } from './core/database.js';
import { isOutage, isUnusable, OperatorError, ServiceError } from './core/errors.js';
import { createFaults, type FaultPlan } from './core/faults.js';
import { type Meter, unmetered, watchRefusals } from './core/meter.js';
import { ANY_NETWORK, type OutsideNetwork, PUBLIC_INTERNET } from './core/public-internet.js';
import { createRefusals } from './core/refusals.js';
import { nameRequests } from './core/request-scope.js';
import { createHeldBytes } from './core/semaphore.js';
import { type Tracer, watchDatabase } from './core/tracer.js';
import { createHealth, type Health } from './health.js';
import { startHousekeeping } from './housekeeping.js';
import { toAnswer } from './http/answers.js';
import {
  type App,
  closeServer,
  createApp,
  createHostGuard,
  createHttpServer,
  endConnections,
  endServer,
  type HostGuard,
  listen,
  loopbackNames,
  seesAddresses,
} from './http/app.js';
import type { CertificateFiles, ServerCertificate } from './http/certificate.js';
import { registerDownloads } from './http/downloads.js';
import { createRest } from './http/pipeline.js';
import { attachRealtime, type Realtime } from './http/realtime.js';
import { BASE_PATH, registerProbes, registerRest } from './http/rest.js';
import { registerMcp } from './mcp/endpoint.js';
import { createInboxes, type InboxKeeper } from './messaging/inboxes.js';
import { createLoopGuard } from './messaging/loop-guard.js';
import { startWebhookCalls, type WebhookCalls } from './messaging/webhook-calls.js';
import { createTokenVerifier, openSigningKeys } from './oauth/access-tokens.js';
import { resourceMetadataUrl } from './oauth/metadata.js';
import { createKeySeal } from './oauth/sealed-keys.js';
import { createSignInLinks } from './oauth/server.js';
import { type BusOptions, openStore } from './open-store.js';
import { type ReadBackups, readBackupRecords } from './operator/backup-records.js';
import { type LocalAgent, putLocalAgent } from './operator/local-agent.js';
import type { MetricsServer } from './operator/metrics.js';
import { type OperatorOptions, offerOperator, offerRemoteOperator, type RemoteOperators } from './operator/operator.js';
import { createOperatorRows } from './operator/pages/pages.js';
import { createRecentWatch, type RecentWatch } from './operator/recent.js';
import { type Rehearsal, reportEvents, resetData } from './operator/rehearsal.js';
import type { TraceOptions } from './operator/traces.js';
import { type DatabaseMeasures, readMeasures } from './store/operator.js';
import { registerAuthorizationServer, registerLocalApproval } from './web/authorization-server.js';
import { registerDashboard } from './web/dashboard/dashboard.js';
import { createPushTestRow } from './web/dashboard/push-settings.js';
import { startWebPush, type WebPush } from './web/dashboard/web-push.js';

/** Collects metrics and serves them. */
interface Watch {
  readonly meter: Meter;
  serve(
    context: Pick<ServiceContext, 'bus' | 'clock' | 'database' | 'log' | 'settings'>,
    parts: { readonly backups: ReadBackups | undefined; readonly certificate: ServerCertificate | undefined },
  ): Promise<MetricsServer>;
  stop(): void;
}

/** Without a port, nothing is counted and no metrics code is loaded. */
async function createWatch(options: ServiceOptions): Promise<Watch | undefined> {
  const { metricsPort: port, metricsHost: host = '127.0.0.1', metricsToken: token, version = '' } = options;
  if (port === undefined) return undefined;
  const { createMetrics, serveMetrics } = await import('./operator/metrics.js');
  const metrics = createMetrics(version);
  return {
    meter: metrics.meter,
    serve(context, { backups, certificate }) {
      const { bus, clock, database, log } = context;
      const measure = (): Promise<DatabaseMeasures | undefined> =>
        database
          .read((query) => readMeasures(query, clock.now(), isSearchOn(context)))
          .catch((error) => {
            log.error('database_not_measured', error);
            return undefined;
          });
      metrics.observe({ clock, measure, load: database.load, lines: bus.lines, backups });
      return serveMetrics(metrics, { host, port, token, certificate }, log);
    },
    stop: metrics.close,
  };
}

const DRAIN_MS = 10_000;
/** Time limit for the final bookkeeping. No acknowledged data depends on it. */
const LEAVE_MS = 10_000;
const SECRET_BYTES = 32;
const SILENT: Log = { info: () => {}, warn: () => {}, error: () => {} };

export interface ServiceOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** The data folder; `memory` keeps nothing beyond the service's life. */
  readonly data: { readonly directory: string } | 'memory';
  /** `postgres://…`: everything but attachments is stored there, and other services may use it too. */
  readonly databaseUrl?: string | undefined;
  /** Attachments are stored in this bucket instead of the data folder; needs `databaseUrl`. */
  readonly bucket?: { readonly address: BucketAddress; readonly credentials: BucketCredentials } | undefined;
  /** How much of that database this service may use. */
  readonly databaseLimits?: Partial<PostgresLimits> | undefined;
  /** The private signing keys are stored sealed with the first of these, each 32 bytes; they open with any. */
  readonly keySecrets?: readonly Buffer[] | undefined;
  /** How services on one database notify each other; default: through that database. */
  readonly bus?: BusOptions | undefined;
  /** The address that clients use; default: its own address. */
  readonly publicUrl?: string | undefined;
  /** The service speaks TLS with this certificate; undefined: it does not speak TLS. */
  readonly certificate?: CertificateFiles | undefined;
  /** A proxy in front of it encrypts, and identifies callers by `X-Forwarded-*`. */
  readonly isBehindProxy?: boolean;
  /** Whether the specification's rate limits apply (default: true). */
  readonly areLimitsOn?: boolean;
  readonly trust?: 'recipient' | 'symmetric';
  /** Whether messages can be found by their words (default: `builtin`). */
  readonly search?: 'builtin' | 'off';
  /** Differences from the default policy. */
  readonly accountPolicy?: Partial<AccountPolicy>;
  /** Maximum participants of a session, including those who left. */
  readonly participantsMax?: number;
  /** Messages in a session without one from a person; undefined: any number. */
  readonly loopGuard?: number | undefined;
  readonly presenceGraceMs?: number | undefined;
  /** Ended sessions are deleted this long after their last event; undefined: never. */
  readonly retentionMs?: number | undefined;
  /** Agents, and their accounts, that exist from the start. */
  readonly seeds?: readonly LocalAgent[];
  readonly version?: string;
  /** What people see in place of `asp` in the dashboard and where they sign in. */
  readonly name?: string | undefined;
  /** Sends push notifications, with this contact for push services: a `mailto:` or `https:` URL. Undefined: none. */
  readonly webPush?: string | undefined;
  /** Calls webhooks on the public internet, or anywhere. Undefined: none. */
  readonly webhooks?: 'public' | 'any' | undefined;
  /** Whether people can make links with which anyone can read a session (default: `on`). */
  readonly shareLinks?: 'on' | 'off';
  /** Only for tests: replaces the public internet for requests to URLs that strangers choose. */
  readonly outsideNetwork?: OutsideNetwork;
  readonly clock?: Clock;
  readonly ids?: Ids;
  readonly random?: Random;
  readonly log?: Log;
  /** Serves metrics on this port (0: any); undefined: no metrics. */
  readonly metricsPort?: number | undefined;
  /** The address of that port; default: 127.0.0.1. */
  readonly metricsHost?: string;
  /** Only its holders can read the metrics. */
  readonly metricsToken?: string | undefined;
  /** Serves operators with a token on this address; undefined: only those on this machine. */
  readonly remoteOperators?: RemoteOperators | undefined;
  /** Exports traces; undefined: no code of it is loaded. */
  readonly traces?: TraceOptions | undefined;
  /** The attachments folder or bucket belongs to this database, no matter what it contains. */
  readonly adoptsAttachments?: boolean;
  /** Injected faults, for testing clients; undefined: none. */
  readonly faults?: FaultPlan | undefined;
  /** Only for tests: the parts that the operator can change while the service runs. */
  readonly rehearsal?: Rehearsal | undefined;
}

export interface RunningService extends Addresses {
  /** The operator's endpoints are below this address. */
  readonly operatorUrl: string;
  /** Lets its holder, on this machine, sign in as a local account and use the operator's endpoints. */
  readonly operatorSecret: string;
  readonly host: string;
  readonly port: number;
  /** All clients seem to come from this machine, through an undeclared proxy. */
  readonly isAddressShared: boolean;
  readonly startedAt: number;
  readonly metricsUrl: string | undefined;
  /** For operators on other machines; undefined: it is off. */
  readonly remoteOperatorUrl: string | undefined;
  readonly tracesUrl: string | undefined;
  /** Resolves when the operator has asked the service to stop; the caller then calls `stop`. */
  readonly stopRequested: Promise<void>;
  /** Only for tests: deletes sessions and trust lists, and keeps the agents. */
  reset(): Promise<void>;
  /** Fails readiness from now on, and ends connections that have had their answer; everything else continues. */
  drain(): void;
  /** Refuses new requests, finishes open ones for up to 10 s, closes the sockets in the meantime, then the data. */
  stop(): Promise<void>;
}

/** The steps that end the parts of a service, in the order in which the parts were started. */
type Undo = (() => unknown)[];

/** Starts a service, or throws an `OperatorError` and leaves nothing behind. */
export async function startService(options: ServiceOptions): Promise<RunningService> {
  const address = toAddressOptions(options);
  requireSafeAddress(address);
  const undo: Undo = [];
  try {
    let listener: RequestListener = answerNotReady;
    const certificate = await readCertificate(options);
    const server = createHttpServer((request, response) => listener(request, response), certificate);
    const port = await listen(server, options.host, options.port);
    undo.push(() => endServer(server));
    const watch = await createWatch(options);
    if (watch !== undefined) undo.push(watch.stop);
    const meter = watch?.meter ?? unmetered;
    const log = options.log ?? SILENT;
    const dataDirectory = options.data === 'memory' ? undefined : options.data.directory;
    const bucket = options.bucket === undefined ? undefined : await openBucket(options.bucket, log);
    if (bucket !== undefined) undo.push(() => bucket.close());
    const found =
      (await bucket?.look()) ?? (dataDirectory === undefined ? undefined : await lookAtFolder(dataDirectory));
    const isAdopted = options.adoptsAttachments === true;
    const mustExist = found !== undefined && !isAdopted && (found.isClaimed || found.hasFiles);
    const store = await openStore({ ...options, mustExist }, log, meter);
    undo.push(() => store.database.close());
    undo.push(() => store.bus.close());
    const files = bucket ?? (await openAttachmentFiles(dataDirectory));
    if (bucket === undefined) undo.push(() => files.close());
    if (found !== undefined) await claim(store.database, files, found.path, isAdopted);
    const base = createContext(options, toAddresses(address, port), { ...store, files, meter });
    const tracer = options.traces === undefined ? undefined : await openTracer(options.traces, base);
    if (tracer !== undefined) undo.push(() => tracer.close());
    const context = { ...base, tracer };
    const stopFollowing = certificate?.follow(base);
    if (stopFollowing !== undefined) undo.push(stopFollowing);
    const useListener = (next: RequestListener): void => {
      listener = next;
    };
    const metrics = await watch?.serve(context, { backups: findBackups(options), certificate });
    if (metrics !== undefined) undo.push(metrics.close);
    const bound = { server, port, useListener, certificate };
    return await composeService({ ...bound, options, context, metricsUrl: metrics?.url, undo });
  } catch (error) {
    const { clock = systemClock, log = SILENT } = options;
    await within(clock, LEAVE_MS, leave(log, undo.reverse()), () => {});
    throw isOutage(error) ? explainOutage(error, options.databaseUrl !== undefined) : error;
  }
}

/** The database could be opened, and then did not take the first writes of this service. */
function explainOutage(error: OperatorError, isPostgres: boolean): OperatorError {
  if (error.code !== 'COMMIT_UNKNOWN' || !isPostgres)
    return new OperatorError('DATABASE_NOT_USABLE', error.message, error);
  return new OperatorError(
    'DATABASE_NOT_USABLE',
    'The database does not confirm writes. Is it waiting for a standby that is down (synchronous_standby_names)?',
    error,
  );
}

function toAddressOptions({ host, publicUrl, isBehindProxy, certificate }: ServiceOptions): AddressOptions {
  return { host, publicUrl, isBehindProxy: isBehindProxy === true, isEncrypted: certificate !== undefined };
}

async function readCertificate(options: ServiceOptions): Promise<ServerCertificate | undefined> {
  const { certificate: files, clock = systemClock } = options;
  if (files === undefined) return undefined;
  // Loaded here, so that a service without a certificate does not wait for it.
  const { ServerCertificate } = await import('./http/certificate.js');
  return ServerCertificate.read(files, nameToCertify(toAddressOptions(options)), clock);
}

/** Undefined: they are made with the tools of PostgreSQL, or there is nothing to save. */
function findBackups({ data, databaseUrl }: ServiceOptions): ReadBackups | undefined {
  return data === 'memory' || databaseUrl !== undefined ? undefined : () => readBackupRecords(data.directory);
}

async function openTracer(options: TraceOptions, context: BaseContext): Promise<Tracer> {
  const { createTracer } = await import('./operator/traces.js');
  return createTracer(options, context);
}

async function openWebPush(
  context: ServiceContext,
  health: Health,
  network: OutsideNetwork | undefined,
): Promise<WebPush | undefined> {
  const { webPush: contact } = context.settings;
  return contact === undefined ? undefined : startWebPush(context, health, { contact, network });
}

async function openWebhooks(
  context: ServiceContext,
  health: Health,
  outsideNetwork: OutsideNetwork | undefined,
): Promise<WebhookCalls | undefined> {
  const { webhooks } = context.settings;
  if (webhooks === undefined) return undefined;
  const network = outsideNetwork ?? (webhooks === 'any' ? ANY_NETWORK : PUBLIC_INTERNET);
  return startWebhookCalls(context, health, network);
}

async function openBucket(bucket: NonNullable<ServiceOptions['bucket']>, log: Log): Promise<AttachmentBucket> {
  // Loaded here, so that a service without a bucket does not wait for it.
  const { openAttachmentBucket } = await import('./attachments/bucket.js');
  return openAttachmentBucket({
    ...bucket,
    onOutage(fault) {
      if (fault === undefined) log.info('attachments_up');
      else log.error('attachments_down', fault);
    },
  });
}

async function claim(database: Database, files: AttachmentFiles, path: string, isAdopted: boolean): Promise<void> {
  try {
    await claimAttachments({ database, files, path, isAdopted });
  } catch (error) {
    if (isUnusable(error)) throw new OperatorError('ATTACHMENTS_NOT_USABLE', error.message, error);
    throw error;
  }
}

/** The inputs of a service's parts before they are assembled. */
type BaseContext = Omit<ServiceContext, 'inboxes' | 'refusals'>;

export interface ServiceParts {
  readonly options: ServiceOptions;
  readonly context: BaseContext;
  readonly server: Server;
  readonly port: number;
  readonly useListener: (listener: RequestListener) => void;
  readonly certificate?: ServerCertificate | undefined;
  readonly metricsUrl: string | undefined;
  readonly undo: Undo;
}

interface WatchedContext {
  readonly context: ServiceContext;
  readonly inboxes: InboxKeeper;
  readonly recent: RecentWatch;
}

/**
 * The context of all operations: its log and database know which request each piece of work belongs to, and refusals are
 * remembered for the owners of the agents, sessions and clients that they count for.
 */
function watchContext(base: BaseContext): WatchedContext {
  const inboxes = createInboxes(base);
  const recent = createRecentWatch(base.clock);
  const refusals = createRefusals(base.clock);
  const limits = watchRefusals(base.limits, (limit, subjectId) => {
    if (subjectId !== undefined) refusals.call(limit, subjectId);
  });
  const log = nameRequests(base.log);
  const named = { ...base, inboxes, refusals, limits, log };
  const context = recent.attach({ ...named, database: watchDatabase(base.database, named) });
  return { context, inboxes, recent };
}

interface AppParts {
  readonly app: App;
  readonly guardHost: HostGuard;
  /** Whether debugging or injected faults need to follow each request. */
  readonly isFollowed: boolean;
  /**
   * Answers requests from now on. Until handshakes are answered too, everything gets 503: a 404 would mean to a client
   * that its session is gone.
   */
  readonly open: () => void;
}

function openApp({ options, server, port, useListener }: ServiceParts, context: ServiceContext): AppParts {
  const { settings, clock, random, tracer, log, meter, faults } = context;
  const { isBehindProxy, addresses } = settings;
  const isGuarded = !seesAddresses({ host: options.host, isBehindProxy });
  const guardHost = createHostGuard(isGuarded ? loopbackNames(port, addresses.authUrl) : undefined);
  const isFollowed = tracer !== undefined || log.debug !== undefined || faults !== undefined;
  let listener: RequestListener | undefined;
  const app = createApp({
    server,
    useListener: (next) => {
      listener = next;
    },
    host: options.host,
    guardHost,
    isBehindProxy,
    metadataUrl: resourceMetadataUrl(addresses.baseUrl),
    clock,
    random,
    tracer,
    // Below the base path, only debugging and injected faults write lines while a request is processed.
    isFollowed: ({ url }) => isFollowed || url?.startsWith(`${BASE_PATH}/`) !== true,
    log,
    meter,
  });
  const open = (): void => {
    if (listener !== undefined) useListener(listener);
  };
  return { app, guardHost, isFollowed, open };
}

/** The service with its inputs: `server` is bound, or gets its connections from outside. */
export async function composeService(parts: ServiceParts): Promise<RunningService> {
  const { options, server, port, metricsUrl, certificate, undo } = parts;
  const { outsideNetwork, seeds = [], version = '', rehearsal = {} } = options;
  const { context, inboxes, recent } = watchContext(parts.context);
  const { settings } = context;
  const startedAt = context.clock.now();
  const operatorSecret = randomToken(context.random, SECRET_BYTES);
  const keys = await openSigningKeys(context, createKeySeal(options.keySecrets ?? []));
  const verifier = createTokenVerifier(context, keys);
  await plantSeeds(context, seeds);

  const { app, guardHost, isFollowed, open } = openApp(parts, context);
  const rest = createRest({ context, verify: verifier.verify, exchanges: app.exchanges });
  registerRest(app, rest);
  const mcp = registerMcp(app, rest, version);
  registerDownloads(app.fastify, context);
  const health = createHealth(context);
  registerProbes(app.fastify, context, health);
  const links = createSignInLinks(context);
  const oauth = { keys, localSecret: operatorSecret, signInLinks: links, outsideNetwork };
  const status = { version, pid: process.pid, started_at: startedAt };
  let webPush: WebPush | undefined;
  const authorizationServer = registerAuthorizationServer(app, context, oauth);
  const dashboard = registerDashboard(app, authorizationServer, [
    ...createOperatorRows({ status, health, keys, recent, backups: findBackups(options) }),
    createPushTestRow(() => webPush),
  ]);
  const stopRequest = createStopRequest();
  let realtime: Realtime | undefined;
  const operatorOptions: OperatorOptions = {
    secret: operatorSecret,
    keys,
    signIn: { links, seeds },
    status,
    health,
    rehearsal,
    connections: {
      closeSocketsOf: (agentId, code) => realtime?.closeSocketsOf(agentId, code) ?? 0,
      expireTokensOf: verifier.expireTokensOf,
    },
    askToStop: stopRequest.ask,
  };
  undo.push(dashboard.stop, mcp.close, mcp.stop);
  const remoteOperator =
    options.remoteOperators &&
    (await offerRemoteOperator(context, { ...options.remoteOperators, certificate }, operatorOptions));
  if (remoteOperator !== undefined) undo.push(remoteOperator.close);
  const operator = await offerOperator(app.fastify, context, {
    root: directRoot(toAddressOptions(options), port),
    options: operatorOptions,
    registerMore: (separate) => registerLocalApproval(separate, authorizationServer),
  });
  undo.push(operator.close);
  await app.fastify.ready();

  // Stopped once the sockets are gone: the others may then consider this process dead too.
  undo.push(health.stop);
  await health.start();
  const { whenFree } = app.exchanges;
  const sockets = await attachRealtime(server, context, { verifier, guardHost, own: health, whenFree, isFollowed });
  realtime = sockets;
  undo.push(sockets.stop, sockets.closeSockets);
  open();
  reportEvents(context, rehearsal);
  inboxes.start();
  undo.push(() => inboxes.stop());
  const stopHousekeeping = startHousekeeping(context, keys, health);
  undo.push(stopHousekeeping);
  webPush = await openWebPush(context, health, outsideNetwork);
  if (webPush !== undefined) undo.push(webPush.stop);
  const webhooks = await openWebhooks(context, health, outsideNetwork);
  if (webhooks !== undefined) undo.push(webhooks.stop);

  const stop = async (): Promise<void> => {
    const closed = closeServer(server);
    sockets.refuseNew();
    dashboard.stop();
    mcp.stop();
    await Promise.all([within(context.clock, DRAIN_MS, app.exchanges.drain(), () => {}), sockets.closeSockets()]);
    endConnections(server);
    await closed;
    await app.fastify.close();
    await within(context.clock, LEAVE_MS, leave(context.log, undo.reverse()), () => {});
  };
  let stopping: Promise<void> | undefined;
  return {
    ...settings.addresses,
    operatorUrl: operator.url,
    operatorSecret,
    host: options.host,
    port,
    isAddressShared: settings.isAddressShared,
    startedAt,
    metricsUrl,
    remoteOperatorUrl: remoteOperator?.url,
    tracesUrl: options.traces?.url,
    stopRequested: stopRequest.asked,
    reset: () => resetData(context),
    drain() {
      health.drain();
      app.leave();
    },
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}

/** A step that fails does not keep the others from being taken. */
async function leave(log: Log, steps: readonly (() => unknown)[]): Promise<void> {
  for (const step of steps)
    try {
      await step();
    } catch (error) {
      log.error('stop_failed', error);
    }
}

/** An existing seed stays as it is. */
async function plantSeeds(context: ServiceContext, seeds: readonly LocalAgent[]): Promise<void> {
  for (const seed of seeds)
    try {
      await context.database.write((transaction) => putLocalAgent(context, transaction, seed));
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      throw new OperatorError('SEED_NOT_AVAILABLE', `Cannot add ${seed.handle}: the handle is taken.`, error);
    }
}

function createContext(
  options: ServiceOptions,
  addresses: Addresses,
  parts: Pick<ServiceContext, 'database' | 'bus' | 'limits' | 'files' | 'meter'>,
): BaseContext {
  const { clock = systemClock, random = systemRandom, log = SILENT, trust = 'recipient' } = options;
  return {
    clock,
    random,
    log,
    ...parts,
    unread: createHeldBytes(UNREAD_MAX_BYTES),
    loopGuard: options.loopGuard === undefined ? undefined : createLoopGuard(options.loopGuard, parts.meter),
    faults: options.faults && createFaults(options.faults, { clock, random, log, meter: parts.meter }),
    ids: options.ids ?? createIds(clock, random),
    settings: {
      addresses,
      trust,
      search: options.search,
      areLimitsOn: options.areLimitsOn !== false,
      version: options.version,
      name: options.name,
      participantsMax: options.participantsMax ?? PARTICIPANTS_PER_SESSION_MAX,
      accountPolicy: { ...DEFAULT_ACCOUNT_POLICY, ...options.accountPolicy },
      presenceGraceMs: options.presenceGraceMs,
      retentionMs: options.retentionMs,
      webPush: options.webPush,
      webhooks: options.webhooks,
      shareLinks: options.shareLinks,
      isBehindProxy: options.isBehindProxy === true,
      isAddressShared: isAddressShared(toAddressOptions(options)),
    },
  };
}

const answerNotReady: RequestListener = (_request, response) => {
  const answer = toAnswer(
    new ServiceError('INTERNAL_ERROR', 'The service is starting.', { status: 503, retryAfterS: 1 }),
  );
  for (const [name, value] of answer.headers) response.setHeader(name, value);
  response.writeHead(answer.status).end(answer.body);
};

function createStopRequest(): { asked: Promise<void>; ask: () => void } {
  let ask = (): void => {};
  const asked = new Promise<void>((resolve) => {
    ask = resolve;
  });
  return { asked, ask };
}
