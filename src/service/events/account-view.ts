import type { Query } from '../store/database.js';
import { listEnds, listEvents, listEventsAboutAgentsOf, type ReadEventRow } from '../store/event-rows.js';
import { listParticipationsOfAccount, type OwnParticipationRow } from '../store/participant-rows.js';
import { type Page, readPage } from './read-events.js';

/**
 * An account's own view of a session: everything that any of its agents was entitled to while it took part. One agent
 * sees by its current status alone, so a session that is reopened, or handed from one agent to another, would otherwise
 * hide from its owner what its own agents said and heard.
 */
export interface AccountView {
  readonly accountId: string;
  /** Those of its agents that take or took part, removed ones included. Never empty. */
  readonly participations: readonly [OwnParticipationRow, ...OwnParticipationRow[]];
  /** It sees every event up to this one. */
  readonly through: number;
  /** Beyond that: where one of its agents was invited, which shows it the ends of the session. */
  readonly invited: readonly Range[];
}

/** After `after`, up to and including `through`. */
interface Range {
  readonly after: number;
  readonly through: number;
}

const NO_END = Number.MAX_SAFE_INTEGER;

/** Undefined: there is no such session, or none of the account's agents ever took part in it. */
export async function findAccountView(
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<AccountView | undefined> {
  const [first, ...others] = await listParticipationsOfAccount(query, accountId, sessionId);
  if (first === undefined) return undefined;
  const participations = [first, ...others] as const;
  const through = Math.max(...participations.map(entitledThrough));
  const ranges = participations.filter(isOutsider).map(({ status, first_invited_sequence, left_sequence }) => ({
    after: Math.max(through, first_invited_sequence ?? NO_END),
    through: status === 'left' ? (left_sequence ?? 0) : NO_END,
  }));
  return { accountId, participations, through, invited: merge(ranges) };
}

/** The last event that the account may see. */
export function lastVisibleTo({ participations, through, invited }: AccountView): number {
  const ends = [through, ...invited.map((range) => range.through)];
  return Math.min(participations[0].last_sequence, Math.max(...ends));
}

/** The events after `afterSequence` that the account may see, in order. */
export function readAccountRows(
  query: Query,
  view: AccountView,
  afterSequence: number,
  limit: number,
  maxCharacters?: number,
): Promise<Page<ReadEventRow>> {
  return readPage((after, wanted) => listForAccount(query, view, after, wanted), afterSequence, limit, maxCharacters);
}

async function listForAccount(query: Query, view: AccountView, after: number, limit: number): Promise<ReadEventRow[]> {
  const { accountId, participations, through, invited } = view;
  const sessionId = participations[0].session_id;
  const whole = after < through ? await listEvents(query, sessionId, after, through, limit) : [];
  if (whole.length === limit || invited.length === 0) return whole;
  const beyond = Math.max(after, through);
  const rows = await listEventsAboutAgentsOf(query, accountId, sessionId, beyond, limit);
  for (const range of invited)
    rows.push(...(await listEnds(query, sessionId, Math.max(beyond, range.after), range.through, limit)));
  rows.sort((one, other) => one.sequence - other.sequence);
  return [...whole, ...rows].slice(0, limit);
}

function entitledThrough({ status, joined_at, left_sequence, joined_through }: OwnParticipationRow): number {
  if (status === 'joined') return NO_END;
  return status === 'left' && joined_at !== null ? (left_sequence ?? 0) : (joined_through ?? 0);
}

function isOutsider({ status, joined_at: joinedAt }: OwnParticipationRow): boolean {
  return status === 'invited' || (status === 'left' && joinedAt === null);
}

/** Apart from each other, so that no event is in two of them. */
function merge(ranges: readonly Range[]): Range[] {
  const merged: Range[] = [];
  for (const range of ranges.filter((one) => one.after < one.through).sort((one, other) => one.after - other.after)) {
    const last = merged.at(-1);
    if (last === undefined || range.after > last.through) merged.push(range);
    else merged[merged.length - 1] = { after: last.after, through: Math.max(last.through, range.through) };
  }
  return merged;
}
