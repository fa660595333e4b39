import { type Handle, splitHandle, toOwnerGlob } from '../../wire/handle.js';
import { type Relation, relateHandles } from '../../wire/relation.js';
import type { AgentActor, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import type { RefusalReason } from '../core/refusals.js';
import { findDecided, type GateRow, weighHandles } from '../store/allowlists.js';
import { agentLock } from '../store/lock-names.js';

/** An agent that may be invited. */
export interface Invitee {
  readonly id: string;
  readonly handle: Handle;
}

/** A handle that may not be invited. */
export interface Refused {
  readonly handle: Handle;
  /** The agent, if it holds strangers and refused only because it does not list the inviter. */
  readonly holderId: string | undefined;
  /** The refusal as the owner of the agent sees it, if at all. */
  readonly known: KnownRefusal | undefined;
}

/** The agent that refused, and why. A block by the inviter is not its owner's business. */
interface KnownRefusal {
  readonly agentId: string;
  readonly reason: RefusalReason;
}

/** What the gate decided about some handles, in their order. */
export interface Verdict {
  readonly invitees: readonly Invitee[];
  /** Only for `recordRefusals`: no answer may depend on it. */
  readonly refused: readonly Refused[];
}

type Inviter = Pick<AgentActor, 'agentId' | 'handle' | 'accountId'>;
type GateContext = Pick<ServiceContext, 'settings' | 'limits'>;

/**
 * Until the transaction ends, the inviter is not removed, and the lists of these agents do not change. A block names an
 * agent, or all agents of an owner.
 */
export function holdGate(
  transaction: Transaction,
  { handle }: Pick<Inviter, 'handle'>,
  handles: readonly Handle[],
): Promise<void> {
  return transaction.lock([handle, toOwnerGlob(handle), ...handles].map(agentLock), 'shared');
}

/**
 * Which of `handles` `inviter` may invite (wire: Agents, search, trust), while the caller holds the gate for them. The
 * others are silently left out, and each costs the same lookups, whatever the reason (spec: Non-enumeration, rule 1).
 */
export async function admits(
  transaction: Transaction,
  context: GateContext,
  inviter: Inviter,
  handles: readonly Handle[],
): Promise<Verdict> {
  const weighed = await weigh(transaction, context, inviter, handles);
  const decided: Weighed[] = [];
  for (const one of weighed) {
    const isWithinShare = await takeStrangersShare(context, inviter, one);
    decided.push(isWithinShare ? one : refuseStranger(one));
  }
  return toVerdict(decided);
}

/**
 * The same for existing participants: one call does not limit their number, and they have met the inviter before. Only
 * a block must not come in between, and a block by or of the inviter waits for the inviter's own lock, so the caller
 * holds the gate without them.
 */
export async function admitsAgain(
  transaction: Transaction,
  context: GateContext,
  inviter: Inviter,
  handles: readonly Handle[],
): Promise<Verdict> {
  return toVerdict(await weigh(transaction, context, inviter, handles));
}

function toVerdict(weighed: readonly Weighed[]): Verdict {
  return {
    invitees: weighed.flatMap(({ handle, id }) => (id === undefined ? [] : [{ id, handle }])),
    refused: weighed.flatMap(({ handle, id, holderId, known }) =>
      id === undefined ? [{ handle, holderId, known }] : [],
    ),
  };
}

function refuseStranger(one: Weighed): Weighed {
  return { ...one, id: undefined, known: one.id === undefined ? one.known : { agentId: one.id, reason: 'too many' } };
}

interface Weighed {
  readonly handle: Handle;
  /** Undefined: the gate refuses it. */
  readonly id: string | undefined;
  readonly holderId: string | undefined;
  readonly known: KnownRefusal | undefined;
  readonly isStranger: boolean;
}

async function weigh(
  query: Query,
  { settings }: GateContext,
  inviter: Inviter,
  handles: readonly Handle[],
): Promise<Weighed[]> {
  if (handles.length === 0) return [];
  const question = {
    inviterId: inviter.agentId,
    inviterHandle: inviter.handle,
    inviterGlob: toOwnerGlob(inviter.handle),
  };
  const rows = await weighHandles(query, question, [inviter.handle, ...handles]);
  const mustList = settings.trust === 'symmetric' && rows.get(inviter.handle)?.inbound_policy !== 'open';
  return handles.map((handle) => {
    const row = rows.get(handle);
    if (row === undefined) throw new Error('The gate gave no answer.');
    const isUnlisted = mustList && row.is_listed_by_inviter !== 1;
    const id = isPresent(row) && !isUnlisted && row.id !== null ? row.id : undefined;
    const isAdmitted = row.inbound_policy === 'open' || row.is_listed === 1;
    return {
      handle,
      id: isAdmitted ? id : undefined,
      holderId: !isAdmitted && row.inbound_policy === 'hold' ? id : undefined,
      known: isUnlisted ? undefined : findKnownRefusal(row, isAdmitted),
      isStranger: row.is_listed === 0,
    };
  });
}

function isPresent(row: GateRow): boolean {
  return isSeenBy(row) && row.is_paused !== 1 && row.is_blocking === 0;
}

/** Nothing but decisions of the agent and its owner can keep the inviter out. */
function isSeenBy(row: GateRow): boolean {
  return row.removed_at === null && row.suspended_at === null && row.is_blocked_by_inviter === 0;
}

/** Strangers that an agent holds are among its knocks instead. */
function findKnownRefusal(row: GateRow, isAdmitted: boolean): KnownRefusal | undefined {
  if (row.id === null || !isSeenBy(row)) return undefined;
  const refuse = (reason: RefusalReason): KnownRefusal => ({ agentId: row.id ?? '', reason });
  if (row.is_blocking === 1) return refuse('blocked');
  if (row.is_paused === 1) return refuse('paused');
  return isAdmitted || row.inbound_policy === 'hold' ? undefined : refuse('unlisted');
}

/**
 * False if strangers have already invited this agent often enough. Handles that the gate refuses, and inviters that are
 * not strangers, cost the same work on a budget without effect, so that timing reveals nothing.
 */
async function takeStrangersShare(
  { limits }: GateContext,
  inviter: Inviter,
  { handle, id, isStranger }: Weighed,
): Promise<boolean> {
  if (splitHandle(handle).owner === splitHandle(inviter.handle).owner) return true;
  const counts = id !== undefined && isStranger;
  const subject = counts ? id : `none ${inviter.agentId}`;
  try {
    await limits.takeAll([
      { name: 'inviteAsStranger', subjectId: `${subject} ${inviter.accountId}` },
      { name: 'inviteByStrangers', subjectId: subject },
    ]);
    return true;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return !counts;
  }
}

/** The relation of each of these agents to the acting one. */
export async function relateTo(
  query: Query,
  { agentId, handle: me }: AgentActor,
  handles: readonly string[],
): Promise<Readonly<Record<string, Relation>>> {
  const others = handles.filter((handle) => relateHandles(me, handle) === undefined);
  const decided = others.length === 0 ? undefined : await findDecided(query, agentId, others);
  const relate = (handle: string): Relation =>
    relateHandles(me, handle) ?? (decided?.get(handle)?.isListed === true ? 'on your allowlist' : 'anyone');
  return Object.fromEntries(handles.map((handle) => [handle, relate(handle)]));
}
