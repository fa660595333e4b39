import { isMessageEvent } from '../../../wire/event.js';
import { ID_PREFIX } from '../../../wire/id.js';
import { REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../../wire/limit.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Session } from '../../../wire/schemas/session.js';
import { toAccount } from '../../agents/accounts.js';
import { toAgent } from '../../agents/agents.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { JSON_TYPE } from '../../http/answers.js';
import { envelopeText, readAccountRows, toEnvelope } from '../../messaging/events.js';
import { readKnocks } from '../../messaging/knocks.js';
import { toBlock } from '../../messaging/trust-lists.js';
import { readWebhook } from '../../messaging/webhooks.js';
import { parseScopes } from '../../oauth/metadata.js';
import { type ActivityRow, listActivities } from '../../store/activities.js';
import { type AgentRecordRow, listEveryAgentOfAccount } from '../../store/agents.js';
import { type BlockRow, listAllowlistPage, listBlockRows } from '../../store/allowlists.js';
import { type FamilyOfAccountRow, listFamiliesOfAccount } from '../../store/authorizations.js';
import { type AccountSessionRow, findSignedInAccount, listAccountSessions } from '../../store/browser-sessions.js';
import { eachRow } from '../../store/cursor.js';
import { type ClientOfAccountRow, listClientsOfAccount } from '../../store/oauth-clients.js';
import { listSessionIdsOfSibling } from '../../store/participants.js';
import { listPasskeys, type PasskeyRow } from '../../store/passkeys.js';
import { listPushSubscriptions, type PushSubscriptionRow } from '../../store/push.js';
import { listShareLinksOfAccount, type ShareLinkRow } from '../../store/share-links.js';
import { strangersLines, untrustedText } from '../html.js';
import { describeInText } from './entries.js';
import { findSeenSession, readAgent, requireSeen } from './transcript.js';
import type { DashboardAnswer, Visit } from './visit.js';

const ROWS_PER_QUERY = 200;
/** How much of a transcript is read at once; the rest is read while it is sent. */
const PIECE_MAX_EVENTS = 1_000;
const PIECE_MAX_CHARACTERS = 256 * 1024;
const LINES_TYPE = 'application/x-ndjson; charset=utf-8';
const MARKDOWN_TYPE = 'text/markdown; charset=utf-8';
const LATEST = Number.MAX_SAFE_INTEGER;

/** The data of an account, and how they are read. */
export interface ExportSource {
  readonly context: Visit['context'];
  readonly account: Visit['account'];
  readonly read: <T>(work: (query: Query) => Promise<T>) => Promise<T>;
}

/** Reads only while the browser is signed in: a download ends with its sign-in. */
export function fromBrowser({ context, account, browser }: Visit): ExportSource {
  return {
    context,
    account,
    read: (work) =>
      context.database.read(async (query) => {
        const signedIn = await findSignedInAccount(query, browser.hash, context.clock.now());
        if (signedIn === undefined)
          throw new ServiceError('UNAUTHORIZED', 'The browser was signed out while it downloaded.');
        return work(query);
      }),
  };
}

export async function actExport(visit: Visit): Promise<DashboardAnswer> {
  const { context, account } = visit;
  await context.limits.take('exportAccount', account.id);
  const day = new Date(context.clock.now()).toISOString().slice(0, 10);
  return {
    kind: 'download',
    filename: `asp-${account.username}-${day}.json`,
    type: JSON_TYPE,
    texts: writeExport(fromBrowser(visit)),
  };
}

type Text = AsyncGenerator<string>;

/** All data of the account as one document, without secrets and the bytes of attachments. */
export async function* writeExport(source: ExportSource): Text {
  const { context, account } = source;
  const { id } = account;
  const now = context.clock.now();
  const usedSince = now - REFRESH_TOKEN_IDLE_LIFETIME_S * 1000;
  yield `{"exported_at":${now},"service":${JSON.stringify(context.settings.addresses.webUrl)},"account":${JSON.stringify(toAccount(account))}`;
  const browsers = readAll<AccountSessionRow>(source, (query, last) => {
    const position = { createdAt: last?.created_at ?? LATEST, idHash: last?.id_hash ?? '' };
    return listAccountSessions(query, id, now, position, ROWS_PER_QUERY);
  });
  yield* writeList('signed_in_browsers', browsers, asJson(toBrowser));
  const passkeys = await source.read((query) => listPasskeys(query, id));
  yield `,\n"passkeys":${JSON.stringify(passkeys.map(toPasskey))}`;
  const pushed = await source.read((query) => listPushSubscriptions(query, id));
  yield `,\n"push_notifications":${JSON.stringify(pushed.map(toPushed))}`;
  const activities = readAll<ActivityRow>(source, (query, last) =>
    listActivities(query, id, last?.id ?? 'Z', ROWS_PER_QUERY),
  );
  yield* writeList('activity', activities, asJson(toActivity));
  const links = readAll<ShareLinkRow>(source, (query, last) =>
    listShareLinksOfAccount(query, id, now, last?.id ?? 'Z', ROWS_PER_QUERY),
  );
  yield* writeList('share_links', links, asJson(toLink));
  const apps = readAll<FamilyOfAccountRow>(source, (query, last) => {
    const place = { createdAt: last?.created_at ?? LATEST, id: last?.id ?? '' };
    return listFamiliesOfAccount(query, id, usedSince, place, ROWS_PER_QUERY);
  });
  yield* writeList('connected_apps', apps, asJson(toApp));
  const clients = readAll<ClientOfAccountRow>(source, (query, last) =>
    listClientsOfAccount(query, id, last?.id ?? `${ID_PREFIX.oauthClient}Z`, ROWS_PER_QUERY),
  );
  yield* writeList('api_credentials', clients, asJson(toClient));
  yield* writeList('agents', eachAgent(source), (agent) => writeAgent(source, agent));
  yield* writeList('sessions', eachSessionId(source), (sessionId) => writeSession(source, sessionId));
  yield '}\n';
}

/** The rows of a list; `list` returns those after the last one. */
const readAll = <Row>(
  { read }: ExportSource,
  list: (query: Query, last: Row | undefined) => Promise<readonly Row[]>,
): AsyncGenerator<Row> => eachRow(ROWS_PER_QUERY, (last) => read((query) => list(query, last)));

/** A list member of the document, one item per line. */
async function* writeList<Item>(name: string, items: AsyncIterable<Item>, write: (item: Item) => Text): Text {
  yield `,\n${JSON.stringify(name)}:[`;
  let separator = '\n';
  for await (const item of items) {
    let isBegun = false;
    for await (const text of write(item)) {
      yield isBegun ? text : `${separator}${text}`;
      isBegun = true;
    }
    if (isBegun) separator = ',\n';
  }
  yield ']';
}

function asJson<Row>(toItem: (row: Row) => unknown): (row: Row) => Text {
  return async function* (row) {
    yield JSON.stringify(toItem(row));
  };
}

function toBrowser(row: AccountSessionRow) {
  return { name: row.browser_name, address: row.address, signed_in_at: row.created_at };
}

function toPasskey({ name, created_at, last_used_at }: PasskeyRow) {
  return { name, created_at, last_used_at };
}

/** The rest of the address is a secret. */
function toPushed({ browser_name: name, endpoint, created_at }: PushSubscriptionRow) {
  return { name, push_service: new URL(endpoint).host, created_at };
}

function toApp(row: FamilyOfAccountRow) {
  const { client_name: name, handle, created_at: allowed_at, last_used_at, last_network, last_program } = row;
  return { name, handle, scopes: parseScopes(row.scope), allowed_at, last_used_at, last_network, last_program };
}

/** The address itself is known only to those who have it. */
function toLink({ session_id, last_sequence, created_at, expires_at, view_handle }: ShareLinkRow) {
  return { session_id, last_sequence, created_at, expires_at, seen_by: view_handle };
}

function toClient(row: ClientOfAccountRow) {
  const { id: client_id, name, handle, created_at, last_used_at } = row;
  return { client_id, name, handle, scopes: parseScopes(row.scope), created_at, last_used_at };
}

function eachAgent(source: ExportSource): AsyncGenerator<AgentRecordRow> {
  return readAll(source, (query, last) =>
    listEveryAgentOfAccount(query, source.account.id, last?.id ?? '', ROWS_PER_QUERY),
  );
}

const toActivity = ({ kind, detail, address, browser_name, created_at }: ActivityRow): object => ({
  kind,
  detail,
  address,
  browser_name,
  created_at,
});

async function* writeAgent(source: ExportSource, agent: AgentRecordRow): Text {
  yield JSON.stringify(toAgent(source.context, agent)).slice(0, -1);
  const entries = readAll<string>(source, (query, last) =>
    listAllowlistPage(query, agent.id, last ?? '', ROWS_PER_QUERY),
  );
  yield* writeList('allowlist', entries, asJson(String));
  const blocks = readAll<BlockRow>(source, (query, last) => {
    const position = { createdAt: last?.created_at ?? LATEST, handle: last?.blocked_handle ?? '' };
    return listBlockRows(query, agent.id, position, ROWS_PER_QUERY);
  });
  yield* writeList('blocks', blocks, asJson(toBlock));
  yield `,\n"knocks":${JSON.stringify(await source.read((query) => readKnocks(source.context, agent.id, query)))}`;
  yield `,\n"webhook":${JSON.stringify(await source.read((query) => readWebhook(query, agent.id)))}`;
  yield '}';
}

/** Every session in which any agent of the account takes or took part, including removed agents. */
async function* eachSessionId(source: ExportSource): AsyncGenerator<string> {
  for await (const agent of eachAgent(source))
    yield* readAll<string>(source, (query, last) =>
      listSessionIdsOfSibling(query, source.account.id, agent.id, last ?? '', ROWS_PER_QUERY),
    );
}

async function* writeSession(source: ExportSource, sessionId: string): Text {
  let isBegun = false;
  let hasEvents = false;
  for await (const { session, events } of eachPiece(source, sessionId)) {
    if (!isBegun) yield `${JSON.stringify(session).slice(0, -1)},"events":[`;
    if (events.length > 0) yield `${hasEvents ? ',' : ''}${events.map(envelopeText).join()}`;
    isBegun = true;
    hasEvents ||= events.length > 0;
  }
  if (isBegun) yield ']}';
}

/** Reads the events of a session that the account, or one of its agents, may see, one part at a time. */
async function* eachPiece(source: ExportSource, sessionId: string, agent?: string) {
  let after = 0;
  for (let hasMore = true; hasMore; ) {
    const piece = await source.read(async (query) => {
      const seen = await findSeenSession(query, source.account.id, sessionId, agent);
      // Its time was over (--retention).
      if (seen === undefined) return undefined;
      const page = await readAccountRows(query, seen.view, after, PIECE_MAX_EVENTS, PIECE_MAX_CHARACTERS);
      return { session: seen.session, ...page };
    });
    if (piece === undefined) return;
    yield piece;
    after = piece.events.at(-1)?.sequence ?? after;
    hasMore = piece.hasMore && piece.events.length > 0;
  }
}

/**
 * The events of a session that the page shows, one JSON document per line, as `asp session export` writes them, or as
 * Markdown for people.
 */
export async function showSessionDownload(visit: Visit): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const { session } = await context.database.read((query) => requireSeen(visit, query));
  await context.limits.take('exportSession', account.id);
  const download = { kind: 'download' } as const;
  if (visit.query.one('format') === 'markdown')
    return { ...download, filename: `${session.id}.md`, type: MARKDOWN_TYPE, texts: writeMarkdown(visit, session) };
  return { ...download, filename: `${session.id}.jsonl`, type: LINES_TYPE, texts: writeLines(visit, session.id) };
}

/** What someone wrote is quoted, so that its headings and lists stay its own. */
async function* writeMarkdown(visit: Visit, { id, topic }: Session): Text {
  yield `# ${toLine(topic ?? 'Session')}\n\n${id}\n`;
  for await (const { events } of eachPiece(fromBrowser(visit), id, readAgent(visit)))
    for (const event of events) yield toMarkdown(toEnvelope(event));
}

/** One line in which nothing is markup. */
const toLine = (text: string): string => untrustedText(text).replace(/[\\`*_{}[\]<>#|~&!]/g, '\\$&');

function toMarkdown(event: EventEnvelope): string {
  const { sequence, created_at: at } = event;
  const when = `#${sequence}, ${new Date(at).toISOString()}`;
  if (!isMessageEvent(event)) return `\n${toLine(describeInText(event))} (${when})\n`;
  const { sender, content } = event.payload;
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content as readonly AnyPart[]);
  const texts = parts.map((part) => toQuote(part.text ?? `\`\`\`\`json\n${JSON.stringify(part, null, 2)}\n\`\`\`\``));
  return `\n**${toLine(sender)}** (${when}):\n\n${texts.join('\n>\n')}\n`;
}

interface AnyPart {
  readonly type: string;
  readonly text?: string;
}

const toQuote = (text: string): string => strangersLines(text).replace(/^/gm, '> ');

async function* writeLines(visit: Visit, sessionId: string): Text {
  for await (const { events } of eachPiece(fromBrowser(visit), sessionId, readAgent(visit)))
    if (events.length > 0) yield `${events.map(envelopeText).join('\n')}\n`;
}
