import { dropFirst, putLast } from '../../kit/bounded-map.js';
import type { Clock } from '../../kit/clock.js';
import { type Handle, splitHandle } from '../../wire/handle.js';
import type { LimitName } from './rate-limits.js';

/** Why an agent refused an invitation: its policy, its block list, a pause, or too many invitations from strangers. */
export type RefusalReason = 'unlisted' | 'blocked' | 'paused' | 'too many';

/** How often something was refused, from the first time that is remembered. */
interface Tally {
  readonly times: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

export interface RefusedInvitation extends Tally {
  readonly sender: Handle;
  readonly reason: RefusalReason;
}

export interface RefusedCalls extends Tally {
  readonly limit: LimitName;
}

/**
 * Remembers for the owners of agents what this process refused, in a bounded amount of memory. A refusal costs the same
 * whether or not someone will ever read it.
 */
export interface Refusals {
  invitation(agentId: string, sender: Handle, reason: RefusalReason): void;
  /** A rate limit refused a call; it counts for `subjectId`. */
  call(limit: LimitName, subjectId: string): void;
  /** Those of an agent, latest first. */
  listInvitations(agentId: string): readonly RefusedInvitation[];
  /** Those of an agent, an account, a session or a client, latest first. */
  listCalls(subjectId: string): readonly RefusedCalls[];
}

/** They are forgotten this long after the last one. */
export const REFUSALS_LIFETIME_MS = 24 * 60 * 60 * 1000;
/** Subjects that are remembered; those with the oldest refusals make room. */
const SUBJECTS_MAX = 2_000;
/** Senders that are remembered for each agent. */
const SENDERS_PER_AGENT_MAX = 25;
/** Of these, agents of the same owner. */
const SENDERS_PER_OWNER_MAX = 5;

/** The rows of each subject, by key; maps keep the order in which rows last changed. */
type Subjects<Row> = Map<string, Map<string, Row>>;

export function createRefusals(clock: Pick<Clock, 'now'>): Refusals {
  const invitations: Subjects<RefusedInvitation> = new Map();
  const calls: Subjects<RefusedCalls> = new Map();
  const add = <Row extends Tally>(
    subjects: Subjects<Row>,
    [subjectId, key]: readonly [subjectId: string, key: string],
    complete: (tally: Tally) => Row,
  ): Map<string, Row> => {
    const now = clock.now();
    const rows = subjects.get(subjectId) ?? new Map<string, Row>();
    const known = rows.get(key);
    const isKnown = known !== undefined && isRecent(known, now);
    rows.delete(key);
    rows.set(
      key,
      complete({ times: isKnown ? known.times + 1 : 1, firstAt: isKnown ? known.firstAt : now, lastAt: now }),
    );
    putLast(subjects, subjectId, rows, SUBJECTS_MAX);
    return rows;
  };
  const list = <Row extends Tally>(subjects: Subjects<Row>, subjectId: string): Row[] => {
    const now = clock.now();
    return [...(subjects.get(subjectId)?.values() ?? [])].filter((row) => isRecent(row, now)).reverse();
  };
  return {
    invitation(agentId, sender, reason) {
      const rows = add(invitations, [agentId, `${reason} ${sender}`], (tally) => ({ ...tally, sender, reason }));
      const { owner } = splitHandle(sender);
      const ofOwner = [...rows].filter(([, row]) => splitHandle(row.sender).owner === owner);
      if (ofOwner.length > SENDERS_PER_OWNER_MAX) rows.delete(ofOwner[0]?.[0] ?? '');
      dropFirst(rows, SENDERS_PER_AGENT_MAX);
    },
    call(limit, subjectId) {
      add(calls, [subjectId, limit], (tally) => ({ ...tally, limit }));
    },
    listInvitations: (agentId) => list(invitations, agentId),
    listCalls: (subjectId) => list(calls, subjectId),
  };
}

const isRecent = ({ lastAt }: Tally, now: number): boolean => lastAt > now - REFUSALS_LIFETIME_MS;
