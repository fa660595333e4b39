import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Clock } from '../../kit/clock.js';
import { isLoopbackHost } from '../../kit/loopback.js';
import { isSameSecret } from '../../kit/same-secret.js';
import { GRANT_TYPES } from '../../wire/oauth.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { Log } from '../core/context.js';
import type { DatabaseLoad } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import type { Meter } from '../core/meter.js';
import { LIMIT } from '../core/rate-limits.js';
import { createHostGuard, createHttpServer, endServer, listen, loopbackNames, toOrigin } from '../http/app.js';
import type { ServerCertificate } from '../http/certificate.js';
import { readBearer } from '../http/pipeline.js';
import type { Backlog, DatabaseMeasures } from '../store/operator.js';
import { isSuccessful, type ReadBackups } from './backup-records.js';

const LATENCY_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BATCH_BUCKETS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** Codes that peers choose themselves are counted separately only if a standard names them (RFC 6455 §7.4.1). */
const STANDARD_CODES = new Set([1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013]);

export interface Metrics {
  readonly meter: Meter;
  /** Evaluated when someone reads the metrics. */
  observe(sources: MetricSources): void;
  /** The text for Prometheus, and its type. */
  read(): Promise<{ readonly type: string; readonly text: string }>;
  /** Forgets everything and stops watching the event loop. */
  close(): void;
}

interface MetricSources {
  readonly clock: Clock;
  /** Undefined: the database does not answer. */
  readonly measure: () => Promise<DatabaseMeasures | undefined>;
  readonly load: () => DatabaseLoad;
  /** Whether each connection that carries notifications is up. */
  readonly lines: () => Readonly<Record<string, boolean>>;
  /** Undefined: `asp serve backup` does not back up this data. */
  readonly backups: ReadBackups | undefined;
}

/** The metrics of one service. Every label has a fixed, small set of values. */
export function createMetrics(version: string): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const makers = createMakers(registry);
  makers.gauge('asp_info', 'The running version.', 'version').set({ version }, 1);
  let look = async (): Promise<void> => {};
  return {
    meter: createMeter(makers),
    observe(sources) {
      look = createLook(makers, sources);
    },
    async read() {
      await look();
      // prom-client spells NaN, the mean of no samples, its own way.
      return { type: registry.contentType, text: (await registry.metrics()).replaceAll(/ Nan$/gm, ' NaN') };
    },
    close: () => registry.clear(),
  };
}

type Makers = ReturnType<typeof createMakers>;

/** Makes the metrics of a registry, each with its name, its help and the names of its labels. */
function createMakers(registry: Registry) {
  const registers = [registry];
  return {
    counter: <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
      new Gauge({ name, help, labelNames, registers }),
    histogram: <Label extends string>(name: string, help: string, buckets: number[], ...labelNames: Label[]) =>
      new Histogram({ name, help, buckets, labelNames, registers }),
  };
}

function createMeter({ counter, gauge, histogram }: Makers): Meter {
  const requests = counter(
    'asp_requests_total',
    'Requests answered, by method, route pattern and status.',
    'method',
    'route',
    'status',
  );
  const latency = histogram(
    'asp_request_duration_seconds',
    'Time from the head of a request to the end of its answer.',
    LATENCY_BUCKETS_S,
    'method',
    'route',
  );
  const deliveries = counter('asp_feed_events_total', 'Events sent over sockets.');
  const sockets = gauge('asp_sockets', 'Open sockets.');
  const closes = counter('asp_socket_closes_total', 'Sockets closed, by close code.', 'code');
  const refusals = counter('asp_rate_limit_refusals_total', 'Calls refused by a rate limit.', 'limit');
  const loops = counter(
    'asp_loop_guard_refusals_total',
    'Messages refused because no person wrote in the session for too long.',
  );
  const batches = histogram('asp_commit_writes', 'Writes that shared one commit.', BATCH_BUCKETS);
  const commitTime = histogram(
    'asp_commit_duration_seconds',
    'How long the database took to confirm a commit.',
    LATENCY_BUCKETS_S,
  );
  const failures = counter(
    'asp_database_failures_total',
    'Calls of the database that failed, even if a retry succeeded; unknown: a commit that got no answer.',
    'failure',
  );
  const shed = counter(
    'asp_requests_shed_total',
    'Requests refused at once with 503, because they would have waited too long for the database.',
  );
  const chores = gauge(
    'asp_chore_last_success_timestamp_seconds',
    'When each background task last succeeded in this process. 0: not yet.',
    'chore',
  );
  const attachmentBytes = counter(
    'asp_attachment_bytes_total',
    'Bytes of attachments uploaded (in) and downloaded (out).',
    'direction',
  );
  const tokens = counter('asp_tokens_issued_total', 'Access tokens issued, by grant type.', 'grant_type');
  const signIns = counter('asp_sign_ins_total', 'Sign-ins that succeeded.');
  const ready = gauge('asp_ready', 'Whether the service is ready for requests, as of the last heartbeat.');
  const expiry = gauge(
    'asp_certificate_expiry_timestamp_seconds',
    'When the certificate of --tls-cert expires. NaN: there is none.',
  );
  expiry.set(Number.NaN);
  const offset = gauge('asp_clock_offset_seconds', "How far this machine's clock is ahead of the database's.");
  const orphans = gauge('asp_attachment_orphans', 'Attachment files without a row, as of the last sweep.');
  const missing = counter('asp_attachment_files_missing_total', 'Downloads of attachments whose file is missing.');
  const failedSignIns = counter(
    'asp_failed_sign_ins_total',
    'Wrong passwords, passkeys and tokens of operators, and attempts refused by a rate limit.',
  );
  const reuses = counter(
    'asp_refresh_token_reuses_total',
    'Refresh tokens that were used twice, which revoked their family.',
  );
  const deletions = counter(
    'asp_retention_deletions_total',
    'Sessions, events and attachments deleted by --retention, by kind.',
    'kind',
  );
  const spans = counter('asp_trace_spans_dropped_total', 'Spans that could not be exported.');
  const pushes = counter('asp_web_push_total', 'Push notifications to browsers, by outcome.', 'outcome');
  const calls = counter(
    'asp_webhook_calls_total',
    'Calls of webhooks, by outcome; off: a webhook that failed for too long is no longer called.',
    'outcome',
  );
  const faults = counter('asp_injected_faults_total', 'Faults injected on purpose, by kind.', 'fault');
  for (const kind of ['sessions', 'events', 'attachments']) deletions.inc({ kind }, 0);
  for (const outcome of ['sent', 'gone', 'retried', 'failed', 'dropped']) pushes.inc({ outcome }, 0);
  for (const outcome of ['answered', 'failed', 'off']) calls.inc({ outcome }, 0);
  for (const failure of ['lost', 'refused', 'unknown']) failures.inc({ failure }, 0);
  for (const direction of ['in', 'out']) attachmentBytes.inc({ direction }, 0);
  for (const grantType of GRANT_TYPES) tokens.inc({ grant_type: grantType }, 0);
  for (const limit of Object.keys(LIMIT)) refusals.inc({ limit }, 0);
  for (const code of Object.values(CLOSE_CODE)) closes.inc({ code: String(code) }, 0);
  return {
    answered({ method, route, status, ms }) {
      requests.inc({ method, route, status: String(status) });
      latency.observe({ method, route }, ms / 1000);
    },
    delivered: () => deliveries.inc(),
    socketOpened: () => sockets.inc(),
    socketClosed(code) {
      sockets.dec();
      closes.inc({ code: STANDARD_CODES.has(code) ? String(code) : 'other' });
    },
    refused: (limit) => refusals.inc({ limit }),
    loopStopped: () => loops.inc(),
    committed(writes, ms) {
      batches.observe(writes);
      commitTime.observe(ms / 1000);
    },
    databaseFailed: (failure) => failures.inc({ failure }),
    shed: () => shed.inc(),
    choreDone: (chore, at) => chores.set({ chore }, at / 1000),
    attachmentBytes: (direction, bytes) => attachmentBytes.inc({ direction }, bytes),
    issuedToken: (grantType) => tokens.inc({ grant_type: grantType }),
    signedIn: () => signIns.inc(),
    readiness: (isReady) => ready.set(isReady ? 1 : 0),
    certificateExpires: (at) => expiry.set(at / 1000),
    clockOffset: (ms) => offset.set(ms / 1000),
    orphansFound: (count) => orphans.set(count),
    fileMissing: () => missing.inc(),
    signInFailed: () => failedSignIns.inc(),
    refreshTokenReused: () => reuses.inc(),
    deleted(counts) {
      for (const [kind, count] of Object.entries(counts)) deletions.inc({ kind }, count);
    },
    spansDropped: (count) => spans.inc(count),
    called: (outcome) => calls.inc({ outcome }),
    pushed: (outcome) => pushes.inc({ outcome }),
    injected: (fault) => faults.inc({ fault }),
  };
}

/** Evaluates gauges when someone reads the metrics. Without an answer of the database, those that it knows are NaN. */
function createLook({ gauge }: Makers, { clock, measure, load, lines, backups }: MetricSources): () => Promise<void> {
  const backup =
    backups && gauge('asp_backup_last_success_timestamp_seconds', 'When the last successful backup began. 0: never.');
  const size = gauge('asp_database_bytes', 'Size of the database.');
  const waiting = gauge('asp_database_waiting', 'Calls that wait for a connection, or for their turn to commit.');
  const connections = gauge('asp_database_connections', 'Connections to PostgreSQL.', 'pool', 'state');
  const most = gauge('asp_database_connections_max', 'Maximum number of connections to PostgreSQL.', 'pool');
  const line = gauge('asp_bus_connected', 'Whether the connection for notifications is up.', 'bus');
  const behind = gauge('asp_backlog_events', 'Events that are not in inboxes or the search index yet.', 'queue');
  const age = gauge('asp_backlog_oldest_seconds', 'Age of the oldest of them. 0: there are none.', 'queue');
  const key = gauge('asp_signing_key_created_timestamp_seconds', 'When the key that signs tokens was made.');

  const setBacklog = (queue: 'inboxes' | 'search', backlog: Backlog | undefined): void => {
    const { events, oldestAt = clock.now() } = backlog ?? { events: Number.NaN, oldestAt: Number.NaN };
    behind.set({ queue }, events);
    age.set({ queue }, oldestAt > clock.now() ? 0 : (clock.now() - oldestAt) / 1000);
  };
  return async () => {
    const [measures, records] = await Promise.all([measure(), backups?.()]);
    backup?.set((records?.find(isSuccessful)?.began_at ?? 0) / 1000);
    size.set(measures?.bytes ?? Number.NaN);
    key.set((measures?.signingKeyCreatedAt ?? Number.NaN) / 1000);
    setBacklog('inboxes', measures?.inboxBacklog);
    setBacklog('search', measures?.searchBacklog);
    const { waiting: calls, pools } = load();
    waiting.set(calls);
    for (const [pool, { used, idle, max }] of Object.entries(pools)) {
      connections.set({ pool, state: 'used' }, used);
      connections.set({ pool, state: 'idle' }, idle);
      most.set({ pool }, max);
    }
    for (const [bus, isUp] of Object.entries(lines())) line.set({ bus }, isUp ? 1 : 0);
  };
}

const PATH = '/metrics';

export interface MetricsAddress {
  readonly host: string;
  readonly port: number;
  /** Undefined: everyone who reaches the address may read them. */
  readonly token: string | undefined;
  /** They are encrypted with it on an address that other machines reach. */
  readonly certificate: ServerCertificate | undefined;
}

export interface MetricsServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves the metrics on a separate port: the service's own address never shows them (D-60). */
export async function serveMetrics(
  metrics: Metrics,
  { host, port, token, certificate }: MetricsAddress,
  log: Log,
): Promise<MetricsServer> {
  const encryption = isLoopbackHost(host) ? undefined : certificate;
  const server = createHttpServer((request, response) => {
    const answer = (status: number, type: string, text: string): void => {
      response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(text);
    };
    try {
      guardHost(request);
      if (token !== undefined && !isSameSecret(readBearer(request.headers.authorization), token))
        throw new ServiceError('UNAUTHORIZED');
    } catch (error) {
      const status = error instanceof ServiceError ? error.status : 500;
      if (status === 401) response.setHeader('www-authenticate', 'Bearer');
      return answer(status, 'text/plain', '');
    }
    if (request.url?.split('?', 1)[0] !== PATH) return answer(404, 'text/plain', '');
    if (request.method !== 'GET') return answer(405, 'text/plain', '');
    metrics.read().then(
      ({ type, text }) => answer(200, type, text),
      (error) => {
        log.error('metrics_failed', error);
        answer(500, 'text/plain', '');
      },
    );
  }, encryption);
  const bound = await listen(server, host, port);
  const url = `${toOrigin(host, bound, encryption !== undefined)}${PATH}`;
  const guardHost = createHostGuard(isLoopbackHost(host) ? loopbackNames(bound, url) : undefined);
  return {
    url,
    close: () => endServer(server),
  };
}
