import { formatBytes, formatQuantity } from '../../../kit/format.js';
import type { BackupRecord, OperatorKey, OperatorStatus } from '../../../wire/schemas/operator.js';
import { isShared } from '../../core/database.js';
import type { SigningKeys } from '../../oauth/access-tokens.js';
import { listPending, SCHEMA_VERSION } from '../../store/migrations.js';
import {
  countAll,
  findSchemaVersion,
  listProcesses,
  measureDatabase,
  type ProcessUsageRow,
  type ServiceCounts,
  sumAttachmentBytes,
} from '../../store/operator.js';
import { OPERATOR_AREA, renderQuestion } from '../../web/dashboard/frame.js';
import { type DashboardAnswer, movedWithNote, type PageRow, page, type Visit } from '../../web/dashboard/visit.js';
import { renderGraph } from '../../web/graph.js';
import { type Html, html } from '../../web/html.js';
import { renderDeadline, renderTime } from '../../web/time.js';
import { isSuccessful, type ReadBackups } from '../backup-records.js';
import type { Minute, Recent, RecentWatch } from '../recent.js';
import { actFor, inArea, renderAreaPage } from './area.js';

/** Where the overview gets the state of the running service. */
export interface OverviewSources {
  readonly status: Pick<OperatorStatus, 'version' | 'started_at'>;
  readonly health: { readonly processId: string; requireReady(): Promise<void> };
  readonly keys: Pick<SigningKeys, 'listKeys' | 'rotateKeys'>;
  readonly recent: RecentWatch;
  /** Undefined: `asp serve backup` does not back up this data. */
  readonly backups: ReadBackups | undefined;
}

/** Counting reads whole tables, so it is done once a minute at most, no matter how many pages are open. */
const COUNTED_FOR_MS = 60_000;
const PROCESSES_MAX = 50;

interface Counted {
  readonly counts: ServiceCounts;
  readonly databaseBytes: number | undefined;
  readonly attachmentBytes: number;
  readonly at: number;
}

export function createOverview(sources: OverviewSources): (visit: Visit) => Promise<DashboardAnswer> {
  let counted: { readonly at: number; readonly contents: Promise<Counted> } | undefined;
  const count = async ({ context }: Visit): Promise<Counted> => {
    const now = context.clock.now();
    if (counted === undefined || now - counted.at >= COUNTED_FOR_MS) counted = { at: now, contents: countNow(context) };
    try {
      return await counted.contents;
    } catch (error) {
      counted = undefined;
      throw error;
    }
  };
  return async (visit) => {
    const { context } = visit;
    const isReady = await isServiceReady(sources);
    const contents = await count(visit);
    const keys = await sources.keys.listKeys();
    const { processes, schema } = await context.database.read(async (query) => ({
      processes: await listProcesses(query, PROCESSES_MAX),
      schema: await findSchemaVersion(query),
    }));
    const now = context.clock.now();
    const recent = sources.recent.read();
    const backups = await sources.backups?.();
    const body = html`<div class="tiles">${renderService(visit, sources, { isReady, schema, now })}${renderContents(contents, now)}</div>
${renderRecent(recent)}
<div class="tiles">${renderProcesses(visit, sources, processes, now)}${renderRefusals(recent)}${renderKeys(keys, now)}${backups !== undefined && renderBackups(backups, now)}</div>`;
    const heading = { title: 'Overview', about: 'The state of this service. Reload the page to update it.' };
    return page(renderAreaPage('overview', { heading, note: visit.note, body }));
  };
}

async function countNow({ clock, database }: Visit['context']): Promise<Counted> {
  return database.read(async (query) => ({
    counts: await countAll(query),
    databaseBytes: await measureDatabase(query),
    attachmentBytes: await sumAttachmentBytes(query),
    at: clock.now(),
  }));
}

async function isServiceReady({ health }: OverviewSources): Promise<boolean> {
  try {
    await health.requireReady();
    return true;
  } catch {
    return false;
  }
}

type Pair = readonly [label: string, value: Html | string];

function renderCard(id: string, title: string, body: Html): Html {
  return html`<section class="card stack-tight" aria-labelledby="${id}"><h2 id="${id}">${title}</h2>${body}</section>`;
}

function renderPairs(pairs: readonly Pair[]): Html {
  return html`<dl class="pairs">${pairs.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;
}

const SIGN_UP = { open: 'open to everyone', invite: 'by invitation', off: 'off' } as const;

interface ServiceState {
  readonly isReady: boolean;
  /** The version of the schema that the database has. */
  readonly schema: number;
  readonly now: number;
}

function renderService({ context }: Visit, { status }: OverviewSources, { isReady, schema, now }: ServiceState): Html {
  const { settings, database } = context;
  const state = isReady ? html`<span class="badge good">Ready</span>` : html`<span class="badge warn">Not ready</span>`;
  const pairs: readonly Pair[] = [
    ['State', state],
    ['Started', renderTime(status.started_at, now)],
    ['Version', status.version],
    ['Database', database.isExclusive ? 'SQLite' : 'PostgreSQL'],
    ['Schema', renderSchema(schema)],
    ['Node.js', process.versions.node],
    ['Memory', formatBytes(process.memoryUsage.rss())],
    ['Sign-up', SIGN_UP[settings.accountPolicy.signUp]],
    ['Limits', settings.areLimitsOn ? 'on' : html`<span class="badge warn">Off</span>`],
  ];
  return renderCard('service', 'Service', renderPairs(pairs));
}

/** On PostgreSQL, a process of another release can share the database. */
export function renderSchema(version: number): Html {
  if (version > SCHEMA_VERSION)
    return html`${version} <span class="badge warn">This process expects ${SCHEMA_VERSION}</span>`;
  const pending = version === SCHEMA_VERSION ? 0 : listPending({ version }).length;
  return pending === 0
    ? html`${version} <span class="badge good">Up to date</span>`
    : html`${version} <span class="badge warn">${formatQuantity(pending, 'migration')} pending</span>`;
}

function renderContents({ counts, databaseBytes, attachmentBytes, at }: Counted, now: number): Html {
  const pairs: readonly Pair[] = [
    ['Accounts', formatCount(counts.accounts)],
    ['Agents', formatCount(counts.agents)],
    ['Sessions', formatCount(counts.sessions)],
    ['Database', databaseBytes === undefined ? 'unknown' : formatBytes(databaseBytes)],
    ['Attachments', formatBytes(attachmentBytes)],
  ];
  return renderCard(
    'contents',
    'Storage',
    html`${renderPairs(pairs)}<p class="soft small">Counted ${renderTime(at, now)}, at most once a minute.</p>`,
  );
}

const formatCount = (count: number): string => count.toLocaleString('en-US');

function renderRecent({ minutes }: Recent): Html {
  const valuesOf = (read: (minute: Minute) => number): number[] => minutes.map(read);
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const usual = (read: (minute: Minute) => number) => [{ values: valuesOf(read), kind: 'usual' as const }];
  const failures = valuesOf((minute) => minute.failures);
  const inAll = (values: readonly number[]): string => `${formatCount(sum(values))} in all`;
  const failed = sum(failures);
  const requests = valuesOf((minute) => minute.requests);
  const delivered = valuesOf((minute) => minute.delivered);
  const refusals = valuesOf((minute) => minute.refusals);
  const signIns = valuesOf((minute) => minute.failedSignIns);
  const graphs = [
    {
      title: 'Requests a minute',
      about: 'Requests a minute',
      series: [...usual((minute) => minute.requests), { values: failures, kind: 'bad' as const }],
      format: formatCount,
      remark:
        failed === 0
          ? inAll(requests)
          : html`${inAll(requests)}, <span class="quiet-danger">${formatCount(failed)} failed</span>`,
    },
    {
      title: 'Response time',
      about: 'Response time of the fastest 95% of requests in each minute',
      series: usual(({ responseMs = 0 }) => Math.min(responseMs, LONGEST_MS)),
      format: formatTime,
      remark: '95% of requests are faster',
    },
    { title: 'Open sockets', about: 'Open sockets', series: usual((minute) => minute.sockets), format: formatCount },
    {
      title: 'Deliveries a minute',
      about: 'Events sent over sockets per minute',
      series: usual((minute) => minute.delivered),
      format: formatCount,
      remark: inAll(delivered),
    },
    {
      title: 'Refusals a minute',
      about: 'Calls refused by a rate limit per minute',
      series: usual((minute) => minute.refusals),
      format: formatCount,
      remark: inAll(refusals),
    },
    {
      title: 'Failed sign-ins per minute',
      about: 'Failed sign-ins per minute',
      series: usual((minute) => minute.failedSignIns),
      format: formatCount,
      remark: inAll(signIns),
    },
  ];
  return html`<section class="stack-tight" aria-labelledby="recent"><h2 id="recent">The last hour of this process</h2><div class="graphs">${graphs.map((graph) => renderGraph({ ...graph, since: 'an hour ago', latestIs: 'now' }))}</div></section>`;
}

/** Longer ones are drawn as this. */
const LONGEST_MS = 20_000;
const LONGEST_BOUND_MS = 10_000;

function formatTime(ms: number): string {
  if (ms === 0) return '–';
  if (ms > LONGEST_BOUND_MS) return `over ${LONGEST_BOUND_MS / 1000} s`;
  return ms < 1000 ? `${ms} ms` : `${ms / 1000} s`;
}

function renderProcesses(
  { context }: Visit,
  { health }: OverviewSources,
  processes: readonly ProcessUsageRow[],
  now: number,
): Html {
  const areSeveral = isShared(context.database);
  const rows = processes.map(
    ({ id, seen_at: seenAt, sockets }) =>
      html`<li><span class="mono wrap">${id}</span><br><span class="soft together">${formatCount(sockets)} ${sockets === 1 ? 'socket' : 'sockets'}${areSeveral && html`, last seen ${renderTime(seenAt, now)}`}</span>${id === health.processId && html` <span class="badge good">This one</span>`}</li>`,
  );
  return renderCard('processes', 'Processes', html`<ul class="grants">${rows}</ul>`);
}

function renderRefusals({ refusals }: Recent): Html {
  const sorted = [...refusals].sort(([, one], [, other]) => other - one);
  const body =
    sorted.length === 0
      ? html`<p class="soft">No call was refused in the last hour.</p>`
      : html`<ul class="grants">${sorted.map(([limit, count]) => html`<li><span class="mono wrap">${limit}</span> <span class="soft">${formatCount(count)}</span></li>`)}</ul>`;
  return renderCard('refusals', 'Refusals by limit', body);
}

const BACKUPS_SHOWN = 5;

function renderBackups(backups: readonly BackupRecord[], now: number): Html {
  const rows = backups.slice(0, BACKUPS_SHOWN).map((backup) => {
    const { began_at: at, bytes, outcome } = backup;
    const size = bytes === null ? undefined : html` <span class="soft">${formatBytes(bytes)}</span>`;
    return html`<li>${renderTime(at, now)}${size}${!isSuccessful(backup) && html` <span class="badge warn">Failed: ${outcome.toLowerCase().replaceAll('_', ' ')}</span>`}</li>`;
  });
  const body =
    rows.length === 0
      ? html`<p class="soft">No backup yet. <code class="mono wrap">asp serve backup</code> makes one, even while the service is running.</p>`
      : html`<ul class="grants">${rows}</ul>`;
  return renderCard('backups', 'Backups', body);
}

const KEY_STATE = { next: 'signs from', signing: 'started signing', retired: 'published until' } as const;

function renderKeys(keys: readonly OperatorKey[], now: number): Html {
  const rows = keys.map(({ kid, state, signs_from: signsFrom, published_until: publishedUntil }) => {
    const at = state === 'retired' && publishedUntil !== null ? publishedUntil : signsFrom;
    return html`<li><span class="mono wrap">${kid}</span><br><span class="soft">${KEY_STATE[state]} ${at > now ? renderDeadline(at) : renderTime(at, now)}</span></li>`;
  });
  return renderCard(
    'keys',
    'Signing keys',
    html`<ul class="grants">${rows}</ul><p class="small"><a class="aside-link" href="${ROTATE_PATH}">Rotate the keys…</a></p>`,
  );
}

const ROTATE_PATH = `${OPERATOR_AREA}/keys/rotate`;

const QUESTION = {
  title: 'Rotate the signing keys?',
  consequences: [
    'A new key is published now. It takes over once everyone who checks tokens has had time to load it.',
    'Tokens signed by the current key stay valid until they expire. No one is signed out.',
    'The service does this automatically from time to time. Do it now if the current key may have leaked.',
  ],
  label: 'Rotate keys',
} as const;

/** Asks, and publishes the next signing key. */
export function createRotation(sources: Pick<OverviewSources, 'keys'>): PageRow {
  return {
    path: ROTATE_PATH,
    async show({ csrf }) {
      const back = { label: 'Overview', path: OPERATOR_AREA };
      const main = renderQuestion({ ...QUESTION, path: ROTATE_PATH, csrf, back });
      return page(inArea(QUESTION.title, main));
    },
    async act(visit) {
      const action = { operation: 'rotateSigningKeys', target: '' } as const;
      const isNew = await actFor(visit, action, () => sources.keys.rotateKeys());
      return movedWithNote(visit, OPERATOR_AREA, isNew ? 'keys-rotated' : 'keys-waiting');
    },
  };
}
