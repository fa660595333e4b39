import type { ParticipantStatus, SessionState } from '../../wire/session.js';
import { ServiceError } from '../service-error.js';
import type { Transaction } from '../store/database.js';
import { sessionLock } from '../store/lock-names.js';
import { findParticipation, type ParticipationRow } from '../store/participant-rows.js';

/** What a participant may ask of a session. */
export type Verb = 'join' | 'invite' | 'send' | 'leave' | 'end' | 'reopen';

interface Row {
  readonly verb: Verb;
  readonly states: readonly SessionState[];
  readonly caller: ParticipantStatus | 'joined when it ended';
  readonly transition: Transition;
}

/** What a verb does; `none`: the wish is already true. */
export type Transition =
  | 'none'
  | 'caller joins'
  | 'caller leaves'
  | 'others invited'
  | 'message sent'
  | 'ends'
  | 'reopens';

/** The States table of the specification, a row a line; what stands in no row is not allowed (spec: States; D-05). */
export const LIFECYCLE: readonly Row[] = [
  { verb: 'join', states: ['active'], caller: 'invited', transition: 'caller joins' },
  { verb: 'join', states: ['active'], caller: 'joined', transition: 'none' },
  { verb: 'invite', states: ['active'], caller: 'joined', transition: 'others invited' },
  { verb: 'send', states: ['active'], caller: 'joined', transition: 'message sent' },
  { verb: 'leave', states: ['active', 'ended'], caller: 'joined', transition: 'caller leaves' },
  { verb: 'end', states: ['active'], caller: 'joined', transition: 'ends' },
  { verb: 'reopen', states: ['ended'], caller: 'joined when it ended', transition: 'reopens' },
];

export function findTransition(
  verb: Verb,
  participant: Pick<ParticipationRow, 'session_state' | 'status' | 'was_joined_at_end'>,
): Transition | undefined {
  const fits = (row: Row): boolean =>
    row.verb === verb &&
    row.states.includes(participant.session_state) &&
    (row.caller === 'joined when it ended' ? participant.was_joined_at_end === 1 : row.caller === participant.status);
  return LIFECYCLE.find(fits)?.transition;
}

/** The caller's part in a session, held from now on, where it may use `verb`; all else is NOT_FOUND, as if there were no such session (spec: States, rule 3). */
export async function requireTransition(
  transaction: Transaction,
  verb: Verb,
  sessionId: string,
  agentId: string,
): Promise<{ readonly participation: ParticipationRow; readonly transition: Transition }> {
  await transaction.lock([sessionLock(sessionId)]);
  const participation = await findParticipation(transaction, sessionId, agentId);
  const transition = participation && findTransition(verb, participation);
  if (participation === undefined || transition === undefined) throw new ServiceError('NOT_FOUND');
  return { participation, transition };
}
