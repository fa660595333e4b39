import type { Query, SqlValue, Transaction } from './database.js';
import type { ListPlace } from './session-list-rows.js';
import { valuesOf } from './values.js';

export type SearchKind = 'agent' | 'person';

/** Makes `terms`, each once, the words by which one agent or person is found. */
export async function replaceSearchTerms(
  transaction: Transaction,
  kind: SearchKind,
  subjectId: string,
  terms: readonly string[],
): Promise<void> {
  await transaction.run('DELETE FROM search_term WHERE subject_id = $1 AND kind = $2', subjectId, kind);
  for (const term of terms)
    await transaction.run(
      'INSERT INTO search_term (kind, term, subject_id) VALUES ($1, $2, $3)',
      kind,
      term,
      subjectId,
    );
}

/** A place in the order of words. */
export interface TermPlace {
  readonly term: string;
  readonly subject_id: string;
}

export interface TermRow extends TermPlace {
  /** Its subject has words with all the other beginnings too, and was not met before under an earlier word. */
  readonly is_match: number;
}

const LAST_CHARACTER = '\u{10ffff}';

/** The next `limit` words that begin with `prefixes[0]`, in order, after `after`: a walk along the index. */
export function listTerms(
  query: Query,
  kind: SearchKind,
  prefixes: readonly [string, ...string[]],
  after: TermPlace,
  limit: number,
): Promise<TermRow[]> {
  const [first, ...others] = prefixes;
  const hasOther = others.map(
    (_, index) =>
      `AND EXISTS (SELECT 1 FROM search_term AS other WHERE other.subject_id = met.subject_id AND other.kind = $1
         AND other.term >= $${7 + 2 * index} AND other.term < $${8 + 2 * index})`,
  );
  return query.all<TermRow>(
    `SELECT met.term, met.subject_id, CASE WHEN NOT EXISTS (
         SELECT 1 FROM search_term AS earlier WHERE earlier.subject_id = met.subject_id AND earlier.kind = $1
           AND earlier.term >= $2 AND earlier.term < met.term
       ) ${hasOther.join(' ')} THEN 1 ELSE 0 END AS is_match
     FROM search_term AS met
     WHERE met.kind = $1 AND met.term >= $2 AND met.term < $3
       AND (met.term > $4 OR (met.term = $4 AND met.subject_id > $5))
     ORDER BY met.term, met.subject_id LIMIT $6`,
    kind,
    first,
    first + LAST_CHARACTER,
    after.term,
    after.subject_id,
    limit,
    ...others.flatMap((prefix) => [prefix, prefix + LAST_CHARACTER]),
  );
}

/** A session that its reader has joined. */
export interface ReadableSessionRow {
  readonly session_id: string;
  /** No message of it is younger. */
  readonly changed_at: number;
}

/** Whose messages are searched: those of the sessions that the agent has joined and, if asked, of one or with one other. */
export interface SearchScope {
  readonly agentId: string;
  readonly sessionId: string | undefined;
  readonly counterpart: string | undefined;
}

/** `mine` is a participation of $1 within the scope; the other parameters follow. */
function readable({ agentId, sessionId, counterpart }: SearchScope): { condition: string; parameters: SqlValue[] } {
  const parameters: SqlValue[] = [agentId];
  let condition = "mine.agent_id = $1 AND mine.status = 'joined'";
  if (sessionId !== undefined) condition += ` AND mine.session_id = $${parameters.push(sessionId)}`;
  if (counterpart !== undefined)
    condition += ` AND EXISTS (SELECT 1 FROM participant AS other JOIN agent ON agent.id = other.agent_id
      WHERE other.session_id = mine.session_id AND agent.handle = $${parameters.push(counterpart)})`;
  return { condition, parameters };
}

/** The next `limit` sessions of the scope after `place`, the latest changed first; if one is asked for, that one. */
export function listReadableSessions(
  query: Query,
  scope: SearchScope,
  place: ListPlace,
  limit: number,
): Promise<ReadableSessionRow[]> {
  const { condition, parameters } = readable(scope);
  // Asked for an order, a planner walks through all sessions of the agent to find the one.
  if (scope.sessionId !== undefined)
    return query.all<ReadableSessionRow>(
      `SELECT mine.session_id, mine.changed_at FROM participant AS mine WHERE ${condition}`,
      ...parameters,
    );
  const [changedAt, sessionId, count] = [place.changedAt, place.sessionId, limit].map(
    (value) => `$${parameters.push(value)}`,
  );
  return query.all<ReadableSessionRow>(
    `SELECT mine.session_id, mine.changed_at FROM participant AS mine
     WHERE ${condition} AND (mine.changed_at, mine.session_id) < (${changedAt}, ${sessionId})
     ORDER BY mine.changed_at DESC, mine.session_id DESC LIMIT ${count}`,
    ...parameters,
  );
}

export interface FoundEventRow {
  readonly position: number;
  readonly session_id: string;
  readonly type: string;
  readonly created_at: number;
  readonly payload: string;
}

/** How each database gathers values into a list, and what it keeps of messages that are not indexed yet. */
const TEXTS = {
  sqlite: {
    gather: 'json_group_array',
    unindexed: 'event',
    isUnindexed: 'event.position > (SELECT indexed_position FROM search_progress)',
    settle: 'UPDATE search_progress SET indexed_position = $1',
  },
  postgres: {
    gather: 'json_agg',
    unindexed: 'search_queue JOIN event ON event.position = search_queue.position',
    isUnindexed: 'TRUE',
    settle: 'DELETE FROM search_queue WHERE position IN (SELECT value::bigint FROM json_array_elements_text($1::json))',
  },
} as const;

const FOUND = 'event.position, event.session_id, event.type, event.created_at, event.payload';

/**
 * The newest messages before `before` that may be of these sessions and hold all the words, some by the chance of a code: in
 * each session the `limit` newest, down the first word, asking for the others at each step. That the list of a session is a
 * value leaves a planner no other way than to ask one session after the other.
 */
export function listCandidates(
  query: Query,
  sessionIds: readonly string[],
  words: readonly [string, ...string[]],
  before: number,
  limit: number,
): Promise<FoundEventRow[]> {
  const { gather } = TEXTS[query.dialect];
  const [first, ...others] = words.map(codeOf);
  const holdsOthers = others.map(
    (_, index) => `AND CASE WHEN EXISTS (SELECT 1 FROM message_word AS other WHERE other.session = met.session
      AND other.word = $${5 + index} AND other.position = met.position) THEN 1 ELSE 0 END = 1`,
  );
  const newest = `SELECT met.position FROM message_word AS met
    WHERE met.session = CAST(asked.value AS INTEGER) AND met.word = $2 AND met.position < $3 ${holdsOthers.join(' ')}
    ORDER BY met.position DESC LIMIT $4`;
  return query.all<FoundEventRow>(
    `SELECT ${FOUND} FROM (
       SELECT CAST(each.value AS BIGINT) AS position FROM ${valuesOf(query.dialect, '$1')} AS asked
       CROSS JOIN ${valuesOf(query.dialect, `(SELECT ${gather}(newest.position) FROM (${newest}) AS newest)`)} AS each
       ORDER BY 1 DESC LIMIT $4
     ) AS found CROSS JOIN event WHERE event.position = found.position ORDER BY event.position DESC`,
    listCodes(sessionIds),
    first as number,
    before,
    limit,
    ...others,
  );
}

/** In how many messages of these sessions a word may be, of each session counted up to `atMost`. */
export async function countCandidates(
  query: Query,
  sessionIds: readonly string[],
  word: string,
  atMost: number,
): Promise<number> {
  const row = await query.get<{ count: number }>(
    `SELECT CAST(sum((SELECT count(*) FROM (
       SELECT 1 FROM message_word AS met WHERE met.session = CAST(asked.value AS INTEGER) AND met.word = $2 LIMIT $3
     ) AS counted)) AS BIGINT) AS count FROM ${valuesOf(query.dialect, '$1')} AS asked`,
    listCodes(sessionIds),
    codeOf(word),
    atMost,
  );
  return row?.count ?? 0;
}

/** The first that was appended and whose words are not indexed yet, in order. */
export function listUnindexed(query: Query, limit: number): Promise<FoundEventRow[]> {
  const { unindexed, isUnindexed } = TEXTS[query.dialect];
  return query.all<FoundEventRow>(
    `SELECT ${FOUND} FROM ${unindexed} WHERE ${isUnindexed} ORDER BY event.position LIMIT $1`,
    limit,
  );
}

/**
 * Of these the messages within a scope, after `position`. The scope is asked of each of the few, behind a CASE: else a planner
 * may begin with the scope and walk through all that was ever said in it.
 */
export function listUnindexedOf(
  query: Query,
  scope: SearchScope,
  position: number,
  limit: number,
): Promise<FoundEventRow[]> {
  const { unindexed, isUnindexed } = TEXTS[query.dialect];
  const { condition, parameters } = readable(scope);
  const [after, count] = [position, limit].map((value) => `$${parameters.push(value)}`);
  return query.all<FoundEventRow>(
    `SELECT ${FOUND} FROM ${unindexed}
     WHERE ${isUnindexed} AND event.position > ${after} AND event.type = 'session.message'
       AND CASE WHEN EXISTS (
         SELECT 1 FROM participant AS mine WHERE mine.session_id = event.session_id AND ${condition}
       ) THEN 1 ELSE 0 END = 1
     ORDER BY event.position LIMIT ${count}`,
    ...parameters,
  );
}

export async function indexWords(
  transaction: Transaction,
  event: Pick<FoundEventRow, 'position' | 'session_id'>,
  words: readonly string[],
): Promise<void> {
  await transaction.run(
    `INSERT INTO message_word (session, word, position)
     SELECT CAST($1 AS INTEGER), CAST(word.value AS INTEGER), CAST($2 AS BIGINT)
     FROM ${valuesOf(transaction.dialect, '$3')} AS word`,
    codeOf(event.session_id),
    event.position,
    listCodes(words),
  );
}

/** Each once, in order, so that those of a session are written beside each other. */
function listCodes(texts: readonly string[]): string {
  return JSON.stringify([...new Set(texts.map(codeOf))].sort((one, other) => one - other));
}

/** Stands for a session or a word in 32 bits (FNV-1a): rows of numbers are a third as large. */
function codeOf(text: string): number {
  let code = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) code = Math.imul(code ^ text.charCodeAt(index), 0x01000193);
  return code | 0;
}

/** Notes that all of these, the first that were unindexed, have been dealt with. */
export async function markIndexed(transaction: Transaction, events: readonly FoundEventRow[]): Promise<void> {
  const last = events.at(-1);
  if (last === undefined) return;
  const done = transaction.dialect === 'sqlite' ? last.position : JSON.stringify(events.map((event) => event.position));
  await transaction.run(TEXTS[transaction.dialect].settle, done);
}
