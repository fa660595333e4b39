import type { Query, SqlValue, Transaction } from '../core/database.js';
import type { ListPosition } from './sessions.js';
import { eventAt, recordsIn, toValues } from './sql.js';

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

/** A position in the order of words. */
export interface TermPosition {
  readonly term: string;
  readonly subject_id: string;
}

export interface TermRow extends TermPosition {
  /** Its subject has words with all the other beginnings too, and did not appear under an earlier word. */
  readonly is_match: number;
}

/** Sorts after every other character. */
export const LAST_CHARACTER = '\u{10ffff}';

/** The next `limit` words that begin with `prefixes[0]`, in order, after `after`: a walk along the index. */
export function listTerms(
  query: Query,
  kind: SearchKind,
  prefixes: readonly [string, ...string[]],
  after: TermPosition,
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
  /** No message in it is newer than this. */
  readonly changed_at: number;
}

/**
 * The scope of a message search: the sessions that the agent has joined and, optionally, one of them or those with one
 * other agent.
 */
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

const MINE = `inbox CROSS JOIN participant AS mine
  WHERE inbox.agent_id = $1 AND mine.session_id = inbox.session_id`;

/** The next `limit` sessions of the scope after the position, most recently changed first; or the requested one. */
export function listReadableSessions(
  query: Query,
  scope: SearchScope,
  position: ListPosition,
  limit: number,
): Promise<ReadableSessionRow[]> {
  const { condition, parameters } = readable(scope);
  // With an ORDER BY, a planner would walk through all sessions of the agent to find the one.
  if (scope.sessionId !== undefined)
    return query.all<ReadableSessionRow>(
      `SELECT inbox.session_id, inbox.changed_at FROM ${MINE} AND ${condition}`,
      ...parameters,
    );
  const [changedAt, sessionId, count] = [position.changedAt, position.sessionId, limit].map(
    (value) => `$${parameters.push(value)}`,
  );
  return query.all<ReadableSessionRow>(
    `SELECT inbox.session_id, inbox.changed_at FROM ${MINE}
       AND ${condition} AND (inbox.changed_at, inbox.session_id) < (${changedAt}, ${sessionId})
     ORDER BY inbox.changed_at DESC, inbox.session_id DESC LIMIT ${count}`,
    ...parameters,
  );
}

export interface FoundEventRow {
  readonly position: number;
  readonly session_id: string;
  readonly sequence: number;
  readonly type: string;
  readonly created_at: number;
  readonly payload: string;
}

/** How each database aggregates values into a list, and what it keeps of messages that are not indexed yet. */
const TEXTS = {
  sqlite: {
    gather: 'json_group_array',
    unindexed: 'event',
    unindexedPosition: 'event.position',
    isUnindexed: 'event.position > (SELECT indexed_position FROM search_progress)',
    settle: 'UPDATE search_progress SET indexed_position = $1',
    isBehind: 'SELECT 1 AS found FROM search_progress WHERE indexed_position < $1',
  },
  postgres: {
    gather: 'json_agg',
    unindexed: `search_queue ${eventAt('search_queue.position')}`,
    unindexedPosition: 'search_queue.position',
    isUnindexed: 'TRUE',
    settle: 'DELETE FROM search_queue WHERE position IN (SELECT value::bigint FROM json_array_elements_text($1::json))',
    isBehind: 'SELECT 1 AS found FROM search_queue WHERE position <= $1 LIMIT 1',
  },
} as const;

const FOUND = 'event.position, event.session_id, event.sequence, event.type, event.created_at, event.payload';

/** A session to search, and the position of the first event in it that the searcher may not see. */
export interface SearchedSession {
  readonly session_id: string;
  readonly until: number;
}

/**
 * The newest messages before `before` that may be in these sessions and contain all the words; hash collisions may add
 * false matches. In each session it takes the `limit` newest, walks down the first word and checks the others at each
 * step. Because the list of a session is a value, a planner has to go through the sessions one after the other.
 */
export function listCandidates(
  query: Query,
  sessions: readonly SearchedSession[],
  terms: readonly [string, ...string[]],
  before: number,
  limit: number,
): Promise<FoundEventRow[]> {
  const { gather } = TEXTS[query.dialect];
  const [first, ...others] = terms.map(toCode);
  const holdsOthers = others.map(
    (_, index) => `AND CASE WHEN EXISTS (SELECT 1 FROM message_word AS other WHERE other.session = met.session
      AND other.word = $${5 + index} AND other.position = met.position) THEN 1 ELSE 0 END = 1`,
  );
  const newest = `SELECT met.position FROM message_word AS met
    WHERE met.session = CAST(asked.code AS INTEGER) AND met.word = $2
      AND met.position < CASE WHEN asked.until < $3 THEN asked.until ELSE $3 END ${holdsOthers.join(' ')}
    ORDER BY met.position DESC LIMIT $4`;
  return query.all<FoundEventRow>(
    `SELECT ${FOUND} FROM (
       SELECT CAST(each.value AS BIGINT) AS position FROM ${recordsIn(query.dialect, '$1', { code: 'BIGINT', until: 'BIGINT' })}
       CROSS JOIN ${toValues(query.dialect, `(SELECT ${gather}(newest.position) FROM (${newest}) AS newest)`)} AS each
       ORDER BY 1 DESC LIMIT $4
     ) AS found CROSS JOIN event WHERE event.position = found.position ORDER BY event.position DESC`,
    listSearched(sessions),
    first as number,
    before,
    limit,
    ...others,
  );
}

/** The number of messages in these sessions that may contain a word, counted up to `atMost` per session. */
export async function countCandidates(
  query: Query,
  sessionIds: readonly string[],
  word: string,
  atMost: number,
): Promise<number> {
  const row = await query.get<{ count: number }>(
    `SELECT CAST(sum((SELECT count(*) FROM (
       SELECT 1 FROM message_word AS met WHERE met.session = CAST(asked.value AS INTEGER) AND met.word = $2 LIMIT $3
     ) AS counted)) AS BIGINT) AS count FROM ${toValues(query.dialect, '$1')} AS asked`,
    listCodes(sessionIds),
    toCode(word),
    atMost,
  );
  return row?.count ?? 0;
}

/** The oldest messages whose words are not indexed yet, in order. */
export function listUnindexed(query: Query, limit: number): Promise<FoundEventRow[]> {
  const { unindexed, unindexedPosition, isUnindexed } = TEXTS[query.dialect];
  return query.all<FoundEventRow>(
    `SELECT ${FOUND} FROM ${unindexed} WHERE ${isUnindexed} ORDER BY ${unindexedPosition} LIMIT $1`,
    limit,
  );
}

/** The same of sessions in which an agent of an account takes or took part, after `position`. */
export function listUnindexedOfAccount(
  query: Query,
  accountId: string,
  position: number,
  limit: number,
): Promise<FoundEventRow[]> {
  const { unindexed, unindexedPosition, isUnindexed } = TEXTS[query.dialect];
  return query.all<FoundEventRow>(
    `SELECT ${FOUND} FROM ${unindexed}
     WHERE ${isUnindexed} AND ${unindexedPosition} > $2 AND event.type = 'session.message'
       AND CASE WHEN EXISTS (
         SELECT 1 FROM participant AS mine JOIN agent ON agent.id = mine.agent_id
         WHERE mine.session_id = event.session_id AND agent.account_id = $1 AND agent.removed_at IS NULL
       ) THEN 1 ELSE 0 END = 1
     ORDER BY ${unindexedPosition} LIMIT $3`,
    accountId,
    position,
    limit,
  );
}

/**
 * Those messages within a scope, after `position`. The scope is checked for each of the few messages, behind a CASE:
 * otherwise a planner may begin with the scope and walk through all of its messages.
 */
export function listUnindexedOf(
  query: Query,
  scope: SearchScope,
  position: number,
  limit: number,
): Promise<FoundEventRow[]> {
  const { unindexed, unindexedPosition, isUnindexed } = TEXTS[query.dialect];
  const { condition, parameters } = readable(scope);
  const [after, count] = [position, limit].map((value) => `$${parameters.push(value)}`);
  return query.all<FoundEventRow>(
    `SELECT ${FOUND} FROM ${unindexed}
     WHERE ${isUnindexed} AND ${unindexedPosition} > ${after} AND event.type = 'session.message'
       AND CASE WHEN EXISTS (
         SELECT 1 FROM participant AS mine WHERE mine.session_id = event.session_id AND ${condition}
       ) THEN 1 ELSE 0 END = 1
     ORDER BY ${unindexedPosition} LIMIT ${count}`,
    ...parameters,
  );
}

/** A message, and the words by which it can be found. */
export interface MessageTerms extends Pick<FoundEventRow, 'position' | 'session_id'> {
  readonly terms: readonly string[];
}

export async function indexTerms(transaction: Transaction, messages: readonly MessageTerms[]): Promise<void> {
  const { dialect } = transaction;
  const listed = messages.map(({ session_id, position, terms }) => ({
    code: toCode(session_id),
    at: position,
    words: listCodes(terms),
  }));
  await transaction.run(
    `INSERT INTO message_word (session, word, position)
     SELECT CAST(asked.code AS INTEGER), CAST(word.value AS INTEGER), asked.at
     FROM ${recordsIn(dialect, '$1', { code: 'BIGINT', at: 'BIGINT', words: 'TEXT' })}
     CROSS JOIN ${toValues(dialect, 'asked.words')} AS word`,
    JSON.stringify(listed),
  );
}

/** A position in the index of a session. */
export interface WordPosition {
  readonly word: number;
  readonly position: number;
}

export const FIRST_WORD: WordPosition = { word: -(2 ** 31), position: 0 };

/**
 * Deletes what the next `limit` entries after `after` say about a deleted session, whose events must still be there.
 * Another session with the same code keeps its own. Returns the last entry; undefined: there were no more.
 */
export async function deleteWordsOfSession(
  transaction: Transaction,
  sessionId: string,
  after: WordPosition,
  limit: number,
): Promise<WordPosition | undefined> {
  const code = toCode(sessionId);
  const entries = await transaction.all<WordPosition>(
    `SELECT word, position FROM message_word WHERE session = $1 AND (word, position) > ($2, $3)
     ORDER BY word, position LIMIT $4`,
    code,
    after.word,
    after.position,
    limit,
  );
  const last = entries.at(-1);
  if (last === undefined) return undefined;
  await transaction.run(
    `DELETE FROM message_word WHERE session = $1 AND (word, position) > ($2, $3) AND (word, position) <= ($4, $5)
       AND NOT EXISTS (SELECT 1 FROM event WHERE event.position = message_word.position AND event.session_id <> $6)`,
    code,
    after.word,
    after.position,
    last.word,
    last.position,
    sessionId,
  );
  return last;
}

/** Whether an event up to this position has not been indexed. */
export async function isUnindexed(query: Query, position: number): Promise<boolean> {
  return (await query.get(TEXTS[query.dialect].isBehind, position)) !== undefined;
}

/** In order of their codes. Two sessions with the same code are searched as one; the reader of a match knows which. */
function listSearched(sessions: readonly SearchedSession[]): string {
  const untils = new Map<number, number>();
  for (const { session_id: id, until } of sessions)
    untils.set(toCode(id), Math.max(until, untils.get(toCode(id)) ?? 0));
  return JSON.stringify([...untils].sort(([one], [other]) => one - other).map(([code, until]) => ({ code, until })));
}

/** Each once, in order, so that those of a session are written next to each other. */
function listCodes(texts: readonly string[]): string {
  return JSON.stringify([...new Set(texts.map(toCode))].sort((one, other) => one - other));
}

/** A 32-bit hash of a session or a word (FNV-1a): rows of numbers are a third as large. */
function toCode(text: string): number {
  let code = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) code = Math.imul(code ^ text.charCodeAt(index), 0x01000193);
  return code | 0;
}

/** Records that all of these, the oldest unindexed ones, are done. */
export async function markIndexed(transaction: Transaction, events: readonly FoundEventRow[]): Promise<void> {
  const last = events.at(-1);
  if (last === undefined) return;
  const done = transaction.dialect === 'sqlite' ? last.position : JSON.stringify(events.map((event) => event.position));
  await transaction.run(TEXTS[transaction.dialect].settle, done);
}

const MARK = /\p{M}+/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/u;
/** Scripts written without spaces: each character is a word, and neighboring characters are found as a phrase. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/gu;
const IS_UNSPACED = new RegExp(`^${UNSPACED.source}$`, 'u');
const TERM_MAX_LENGTH = 64;

/** The words of a text in stored form: folded in case, width and accents, split at anything else. */
export function toSearchTerms(text: string): string[] {
  const folded = text.normalize('NFKD').toLowerCase().replace(MARK, '').replace(UNSPACED, ' $& ');
  return folded
    .split(SEPARATORS)
    .filter((term) => term !== '')
    .map((term) => term.slice(0, TERM_MAX_LENGTH));
}

/** The query: each run between spaces is a phrase, and all of them must occur. */
export function toSearchPhrases(text: string): string[][] {
  return text
    .split(/\s+/)
    .map(toSearchTerms)
    .filter((phrase) => phrase.length > 0);
}

/** Whether the words contain every phrase, with its words next to each other. */
export function holdsPhrases(terms: readonly string[], phrases: readonly (readonly string[])[]): boolean {
  return phrases.every((phrase) =>
    terms.some((_, start) => phrase.every((word, offset) => terms[start + offset] === word)),
  );
}

/**
 * The words by which a text is found, each once. In a script without spaces, two neighboring characters are a word too:
 * otherwise a search for a word of two characters would look at all texts that contain both anywhere.
 */
export function wordsToIndex(terms: readonly string[]): string[] {
  return [...new Set([...terms, ...toPairs(terms)])];
}

/** The words that every text with these phrases contains, not necessarily next to each other. */
export function wordsToFind(phrases: readonly (readonly string[])[]): string[] {
  const terms = phrases.flatMap((phrase) => {
    const pairs = toPairs(phrase);
    return [...pairs, ...phrase.filter((term) => !pairs.some((pair) => pair.includes(term)))];
  });
  return [...new Set(terms)];
}

function toPairs(terms: readonly string[]): string[] {
  return terms.flatMap((term, index) => {
    const next = terms[index + 1];
    return next !== undefined && IS_UNSPACED.test(term) && IS_UNSPACED.test(next) ? [term + next] : [];
  });
}
