import type { RequestListener, Server } from 'node:http';

import { type Clock, systemClock } from '../kit/clock.js';
import { createIds, type Ids } from '../kit/ids.js';
import { isLoopbackHost } from '../kit/loopback.js';
import { type Random, randomToken, systemRandom } from '../kit/random.js';
import { PARTICIPANTS_PER_SESSION_MAX } from '../wire/limit.js';
import { openSigningKeys } from './access-token/signing-keys.js';
import { createTokenVerifier } from './access-token/verify.js';
import { type AttachmentFiles, lookAtFolder, openAttachmentFiles } from './attachments/attachment-files.js';
import { claimFolder } from './attachments/claim-folder.js';
import { registerDownloads } from './attachments/register-downloads.js';
import { createSignInLinks } from './authorization-server/account/sign-in-links.js';
import { registerAuthorizationServer } from './authorization-server/authorization-server.js';
import type { DocumentNetwork } from './authorization-server/fetch-document.js';
import { resourceMetadataUrl } from './authorization-server/metadata.js';
import {
  type AccountPolicy,
  type Addresses,
  DEFAULT_ACCOUNT_POLICY,
  type Log,
  type ServiceContext,
} from './context.js';
import { type Dashboard, registerDashboard } from './dashboard/dashboard.js';
import type { FaultPlan } from './faults/fault-plan.js';
import { createFaults } from './faults/faults.js';
import { createHealth, type Health } from './health.js';
import { startHousekeeping } from './housekeeping.js';
import { listen } from './listen.js';
import { type BusOptions, openStore } from './open-store.js';
import { type LocalAgent, putLocalAgent } from './operator/local-agent.js';
import { type OperatorServer, offerOperator } from './operator/operator-server.js';
import { addressesOf, directRoot, isAddressShared, requireSafePlace } from './place.js';
import { attachRealtime, type Realtime } from './realtime/attach-realtime.js';
import { type App, createApp } from './rest/create-app.js';
import { answerOf } from './rest/error-answer.js';
import { createHostGuard, loopbackNames } from './rest/host-guard.js';
import { createHttpServer } from './rest/http-server.js';
import { registerProbes } from './rest/register-probes.js';
import { registerRest } from './rest/register-rest.js';
import { createRest } from './rest/rest.js';
import { ServiceError } from './service-error.js';
import { StartError } from './start-error.js';
import { type Database, DatabaseUnusableError } from './store/database.js';
import { createWatch, type Watch } from './watch.js';

const DRAIN_MS = 10_000;
/** For what closes the books. Nothing that was acknowledged depends on it, and a database that is away holds it up. */
const LEAVE_MS = 10_000;
const SECRET_BYTES = 32;
const SILENT: Log = { info: () => {}, error: () => {} };

export interface ServiceOptions {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** Where everything is kept; `memory` keeps nothing beyond the service's life. */
  readonly data: { readonly directory: string } | 'memory';
  /** `postgres://…`: everything but attachments is kept there, where other services may use it too. */
  readonly databaseUrl?: string | undefined;
  /** By what services on one database hear of each other; without it by that database. */
  readonly bus?: BusOptions | undefined;
  /** By what others call this service; without it, its own address. */
  readonly publicUrl?: string | undefined;
  /** Somebody in front of it encrypts, and tells by `X-Forwarded-*` who called. */
  readonly isBehindProxy?: boolean;
  /** Whether the specification's rate limits hold; they do unless said. */
  readonly areLimitsOn?: boolean;
  readonly trust?: 'recipient' | 'symmetric';
  /** What differs from the default policy. */
  readonly accountPolicy?: Partial<AccountPolicy>;
  /** How many a session may have, those who left included. */
  readonly participantsMax?: number;
  readonly presenceGraceMs?: number | undefined;
  /** Agents, and their accounts, that are there from the start. */
  readonly seeds?: readonly LocalAgent[];
  readonly version?: string;
  /** For tests alone: from where client documents are fetched, in place of the public internet. */
  readonly documentNetwork?: DocumentNetwork;
  readonly clock?: Clock;
  readonly ids?: Ids;
  readonly random?: Random;
  readonly log?: Log;
  /** Offers metrics on this port of 127.0.0.1 (0: any); undefined: counts nothing. */
  readonly metricsPort?: number | undefined;
  /** The attachments folder belongs to this database, whatever stands in it. */
  readonly adoptsAttachments?: boolean;
  /** What fails on purpose, to try clients with; undefined: nothing. */
  readonly faults?: FaultPlan | undefined;
}

export interface RunningService extends Addresses {
  /** Below it the operator's endpoints are. */
  readonly operatorUrl: string;
  /** Lets its holder, on this machine, sign in as a local account and use the operator's endpoints. */
  readonly operatorSecret: string;
  readonly host: string;
  readonly port: number;
  /** All clients seem to come from this machine, through a proxy that was not named. */
  readonly isAddressShared: boolean;
  readonly startedAt: number;
  readonly metricsUrl: string | undefined;
  /** Resolves when the operator has asked the service to stop; the asked one calls `stop`. */
  readonly stopRequested: Promise<void>;
  /** Refuses what is new, finishes what is in work for up to 10 s, closes the sockets, then the data. */
  stop(): Promise<void>;
}

/** Starts a service, or throws a `StartError` and leaves nothing behind. */
export async function startService(options: ServiceOptions): Promise<RunningService> {
  const place = { host: options.host, publicUrl: options.publicUrl, isBehindProxy: options.isBehindProxy === true };
  requireSafePlace(place);
  const undo: (() => unknown)[] = [];
  try {
    let listener: RequestListener = answerNotReady;
    const server = createHttpServer((request, response) => listener(request, response));
    const port = await listen(server, options.host, options.port);
    undo.push(() => close(server));
    const watch = await createWatch(options.metricsPort, options.version ?? '');
    undo.push(() => watch.stop());
    const dataDirectory = options.data === 'memory' ? undefined : options.data.directory;
    const folder = dataDirectory === undefined ? undefined : await lookAtFolder(dataDirectory);
    const mustExist =
      folder !== undefined && options.adoptsAttachments !== true && (folder.isClaimed || folder.hasFiles);
    const store = await openStore({ ...options, mustExist }, options.log ?? SILENT, watch.meter);
    undo.push(() => store.database.close());
    undo.push(() => store.bus.close());
    const files = await openAttachmentFiles(dataDirectory);
    undo.push(() => files.close());
    if (folder !== undefined) await claim(store.database, files, folder.path, options.adoptsAttachments === true);
    const context = createContext(options, addressesOf(place, port), { ...store, files, meter: watch.meter });
    const useListener = (next: RequestListener): void => {
      listener = next;
    };
    const metricsUrl = await watch.start(context);
    return await composeService({ options, context, server, port, useListener, watch, metricsUrl });
  } catch (error) {
    for (const step of undo.reverse()) await step();
    throw error;
  }
}

async function claim(database: Database, files: AttachmentFiles, path: string, isAdopted: boolean): Promise<void> {
  try {
    await claimFolder({ database, files, path, isAdopted });
  } catch (error) {
    if (error instanceof DatabaseUnusableError) throw new StartError('ATTACHMENTS_NOT_USABLE', error.message, error);
    throw error;
  }
}

export interface ServiceParts {
  readonly options: ServiceOptions;
  readonly context: ServiceContext;
  readonly server: Server;
  readonly port: number;
  readonly useListener: (listener: RequestListener) => void;
  readonly watch: Watch;
  readonly metricsUrl: string | undefined;
}

/** The service on what it was given: `server` is bound, or is handed its connections. */
export async function composeService(parts: ServiceParts): Promise<RunningService> {
  const { options, context, server, port, useListener, watch, metricsUrl } = parts;
  const { settings, clock, meter, log } = context;
  const startedAt = clock.now();
  const operatorSecret = randomToken(context.random, SECRET_BYTES);
  const keys = await openSigningKeys(context);
  const verifier = createTokenVerifier(context, keys);
  await plantSeeds(context, options.seeds ?? []);

  const { isBehindProxy } = settings;
  const isGuarded = isLoopbackHost(options.host) && !isBehindProxy;
  const guardHost = createHostGuard(isGuarded ? loopbackNames(port, settings.addresses.authUrl) : undefined);
  const metadataUrl = resourceMetadataUrl(settings.addresses.baseUrl);
  // Until handshakes are answered too, everything gets 503: a 404 would tell a client that its session is gone.
  let listener: RequestListener | undefined;
  const keepListener = (next: RequestListener): void => {
    listener = next;
  };
  const app = createApp({
    server,
    useListener: keepListener,
    guardHost,
    isBehindProxy,
    metadataUrl,
    clock,
    log,
    meter,
  });
  registerRest(app.fastify, createRest({ context, verify: verifier.verify, exchanges: app.exchanges }));
  registerDownloads(app.fastify, context);
  const health = createHealth(context);
  registerProbes(app.fastify, context, health);
  const links = createSignInLinks(context);
  const { documentNetwork } = options;
  const oauth = { keys, localSecret: operatorSecret, signInLinks: links, documentNetwork };
  const dashboard = registerDashboard(app.fastify, registerAuthorizationServer(app.fastify, context, oauth));
  const status = { version: options.version ?? '', pid: process.pid, started_at: startedAt };
  const request = createRequest();
  const operator = await offerOperator(app.fastify, context, {
    root: directRoot(options, port),
    options: {
      secret: operatorSecret,
      keys,
      signIn: { links, seeds: options.seeds ?? [] },
      status,
      askToStop: request.ask,
    },
  });
  await app.fastify.ready();
  await health.start();
  const { processId } = health;
  const realtime = await attachRealtime(server, context, {
    verifier,
    guardHost,
    processId,
    whenFree: app.exchanges.whenFree,
  });
  if (listener !== undefined) useListener(listener);
  const stopHousekeeping = startHousekeeping(context, keys, health);

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
    stopRequested: request.asked,
    stop() {
      stopping ??= stopAll({ context, server, app, dashboard, realtime, stopHousekeeping, operator, watch, health });
      return stopping;
    },
  };
}

interface Running {
  readonly context: ServiceContext;
  readonly server: Server;
  readonly app: App;
  readonly dashboard: Dashboard;
  readonly realtime: Realtime;
  readonly stopHousekeeping: () => Promise<void>;
  readonly operator: OperatorServer;
  readonly watch: Watch;
  readonly health: Health;
}

async function stopAll(running: Running): Promise<void> {
  const { context, server, app, realtime, stopHousekeeping, operator, watch, health } = running;
  const closed = close(server);
  realtime.refuseNew();
  running.dashboard.stop();
  await withinMs(context.clock, DRAIN_MS, app.exchanges.drain());
  await realtime.closeSockets();
  server.closeAllConnections();
  await closed;
  await app.fastify.close();
  // Once its sockets are gone, the others may take it for gone too.
  const steps = [realtime.stop, health.stop, stopHousekeeping, operator.close, watch.stop];
  const doors = [context.bus, context.database, context.files];
  await withinMs(context.clock, LEAVE_MS, leave(context, [...steps, ...doors.map((door) => () => door.close())]));
}

async function leave({ log }: ServiceContext, steps: readonly (() => Promise<void>)[]): Promise<void> {
  for (const step of steps) await step().catch((error) => log.error('stop_failed', error));
}

/** A seed that is there already stays as it is. */
async function plantSeeds(context: ServiceContext, seeds: readonly LocalAgent[]): Promise<void> {
  for (const seed of seeds)
    try {
      await context.database.write((transaction) => putLocalAgent(context, transaction, seed));
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      throw new StartError('SEED_NOT_AVAILABLE', `${seed.handle} cannot be added: the handle is taken.`, error);
    }
}

function createContext(
  options: ServiceOptions,
  addresses: Addresses,
  parts: Pick<ServiceContext, 'database' | 'bus' | 'limits' | 'files' | 'meter'>,
): ServiceContext {
  const { clock = systemClock, random = systemRandom, log = SILENT, trust = 'recipient' } = options;
  return {
    clock,
    random,
    log,
    ...parts,
    faults: options.faults && createFaults(options.faults, { clock, random, log, meter: parts.meter }),
    ids: options.ids ?? createIds(clock, random),
    settings: {
      addresses,
      trust,
      areLimitsOn: options.areLimitsOn !== false,
      participantsMax: options.participantsMax ?? PARTICIPANTS_PER_SESSION_MAX,
      accountPolicy: { ...DEFAULT_ACCOUNT_POLICY, ...options.accountPolicy },
      presenceGraceMs: options.presenceGraceMs,
      isBehindProxy: options.isBehindProxy === true,
      isAddressShared: isAddressShared({ ...options, isBehindProxy: options.isBehindProxy === true }),
    },
  };
}

const answerNotReady: RequestListener = (_request, response) => {
  const answer = answerOf(
    new ServiceError('INTERNAL_ERROR', 'The service is starting.', { status: 503, retryAfterS: 1 }),
  );
  for (const [name, value] of answer.headers) response.setHeader(name, value);
  response.writeHead(answer.status).end(answer.body);
};

function createRequest(): { asked: Promise<void>; ask: () => void } {
  let ask = (): void => {};
  const asked = new Promise<void>((resolve) => {
    ask = resolve;
  });
  return { asked, ask };
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

function withinMs(clock: Clock, limitMs: number, work: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.schedule(limitMs, resolve);
    void work.then(() => {
      cancel();
      resolve();
    });
  });
}
