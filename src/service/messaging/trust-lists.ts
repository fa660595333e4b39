import { type Handle, isHandle, isOwnerGlob, joinHandle, type OwnerGlob, toOwnerGlob } from '../../wire/handle.js';
import { ID_PREFIX, isId } from '../../wire/id.js';
import type { Block } from '../../wire/schemas/agent.js';
import { AllowlistEntry } from '../../wire/schemas/requests.js';
import type { AgentActor, Handler, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { findAgentByHandle, listAgentIdsOfOwner } from '../store/agents.js';
import {
  type BlockRow,
  deleteAllowlistEntry,
  deleteBlock,
  findBlock,
  findLatestBlockTime,
  insertAllowlistEntries,
  insertBlock,
  listAllowlistEntries,
  listBlockRows,
} from '../store/allowlists.js';
import { readPage } from '../store/cursor.js';
import { seal } from '../store/keys.js';
import { deleteKnock, forgetKnocks } from '../store/knocks.js';
import { agentLock } from '../store/lock-names.js';
import { readKnocks } from './knocks.js';
import { removeFromShared } from './sessions.js';

/** A list belongs to the acting agent alone; any other agent's is FORBIDDEN, whether or not that agent exists. */
function requireOwnList(
  actor: Pick<AgentActor, 'handle'>,
  path: { readonly owner: string; readonly name: string },
): void {
  const handle = joinHandle(path.owner, path.name);
  if (!isHandle(handle)) throw new ServiceError('INVALID_HANDLE');
  if (handle !== actor.handle) throw new ServiceError('FORBIDDEN');
}

/** Every answer contains the whole list, so it cannot grow without limit. */
export const ALLOWLIST_MAX_ENTRIES = 10_000;

/** Whether an entry names an existing agent is not checked, and so not revealed. */
export const addToAllowlist: Handler<'addToAllowlist'> = async (context, actor, input, transaction) => {
  requireOwnList(actor, input.path);
  await transaction.lock([agentLock(actor.handle)]);
  const now = context.clock.now();
  await insertAllowlistEntries(transaction, actor.agentId, input.body.entries, now);
  forgetKnocks(transaction, actor.agentId, input.body.entries);
  const entries = await listAllowlistEntries(transaction, actor.agentId);
  if (entries.length > ALLOWLIST_MAX_ENTRIES)
    throw new ServiceError('VALIDATION_ERROR', `An allowlist has at most ${ALLOWLIST_MAX_ENTRIES} entries.`);
  return { entries };
};

export const listAllowlist: Handler<'listAllowlist'> = async (_context, actor, input, query) => {
  requireOwnList(actor, input.path);
  return { entries: await listAllowlistEntries(query, actor.agentId) };
};

export const removeFromAllowlist: Handler<'removeFromAllowlist'> = async (_context, actor, input, transaction) => {
  requireOwnList(actor, input.path);
  const entry = AllowlistEntry.safeParse(input.path.entry);
  if (!entry.success) throw new ServiceError('INVALID_HANDLE');
  await transaction.lock([agentLock(actor.handle)]);
  if (!(await deleteAllowlistEntry(transaction, actor.agentId, entry.data))) throw new ServiceError('NOT_FOUND');
  return { entries: await listAllowlistEntries(transaction, actor.agentId) };
};

/** Only an agent with the policy `hold` gets new ones; those from before a change of policy stay until they expire. */
export const listKnocks: Handler<'listKnocks'> = async (context, actor, input, query) => {
  requireOwnList(actor, input.path);
  return { knocks: await readKnocks(context, actor.agentId, query) };
};

/** The stranger is not notified. If it knocks again, it is listed again. */
export const dismissKnock: Handler<'dismissKnock'> = async (context, actor, input, transaction) => {
  requireOwnList(actor, input.path);
  const { sender } = input.path;
  if (!isHandle(sender)) throw new ServiceError('INVALID_HANDLE');
  if (!(await deleteKnock(transaction, actor.agentId, sender))) throw new ServiceError('NOT_FOUND');
  return { knocks: await readKnocks(context, actor.agentId, transaction) };
};

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_LENGTH = 10;
const CHANCE_LENGTH = 16;
const EARLIEST_MS = Date.UTC(2025, 0, 1);
const SPAN_MS = 365 * 24 * 60 * 60 * 1000;

/**
 * The id shown for a handle whose agent the caller may not know about, or that does not exist: always the same, and
 * indistinguishable from others.
 */
async function hiddenAgentId(query: Query, handle: Handle | OwnerGlob): Promise<string> {
  const bytes = await seal(query, 'hidden-agent', handle);
  let time = EARLIEST_MS + (bytes.readUIntBE(0, 6) % SPAN_MS);
  let text = '';
  for (let position = 0; position < TIME_LENGTH; position += 1) {
    text = ALPHABET.charAt(time % 32) + text;
    time = Math.floor(time / 32);
  }
  const chance = [...bytes.subarray(6, 6 + CHANCE_LENGTH)].map((byte) => ALPHABET.charAt(byte % 32));
  return `${ID_PREFIX.agent}${text}${chance.join('')}`;
}

export const listBlocks: Handler<'listBlocks'> = async (_context, actor, input, query) => {
  const { rows, next } = await readPage(input.query, {
    scope: ['blocks', actor.agentId],
    start: [Number.MAX_SAFE_INTEGER, ''],
    toPosition: ({ created_at: at, blocked_handle: handle }: BlockRow) => [at, handle],
    read: ([createdAt, handle], limit) => listBlockRows(query, actor.agentId, { createdAt, handle }, limit),
  });
  return { blocks: rows.map(toBlock), next_cursor: next };
};

export function toBlock(row: BlockRow): Block {
  return {
    blocked_agent_id: row.blocked_agent_id,
    blocked_handle: row.blocked_handle,
    created_at: row.created_at,
  };
}

/**
 * A handle without an agent is blocked like any other: the answer does not reveal that, and the handle may get an agent
 * later. `@owner.*` blocks all agents of an owner, including future ones.
 */
export const blockAgent: Handler<'blockAgent'> = async (context, actor, input, transaction) => {
  const [block] = await blockAgents(context, actor, [input.body.handle], transaction);
  if (block === undefined) throw new Error('No block was made.');
  return toBlock(block);
};

/** Blocks several. No handle may appear twice. */
export async function blockAgents(
  context: ServiceContext,
  actor: AgentActor,
  handles: readonly (Handle | OwnerGlob)[],
  transaction: Transaction,
): Promise<BlockRow[]> {
  if (handles.some((handle) => isItself(actor, handle)))
    throw new ServiceError('VALIDATION_ERROR', 'An agent cannot block itself.');
  await transaction.lock([actor.handle, ...handles].map(agentLock));
  const blocks: BlockRow[] = [];
  const newlyBlocked: string[] = [];
  let latest = await findLatestBlockTime(transaction, actor.agentId);
  for (const handle of handles) {
    const known = await findBlock(transaction, actor.agentId, handle);
    if (known !== undefined) {
      blocks.push(known);
      continue;
    }
    const { agentIds, shownId } = await resolve(transaction, actor, handle);
    // Later than the agent's other blocks, so that "newest first" is a total order.
    latest = Math.max(context.clock.now(), latest + 1);
    const block = {
      agent_id: actor.agentId,
      blocked_handle: handle,
      blocked_agent_id: shownId,
      created_at: latest,
    };
    await insertBlock(transaction, block);
    blocks.push(block);
    newlyBlocked.push(...agentIds);
  }
  forgetKnocks(transaction, actor.agentId, handles);
  await removeFromShared(context, transaction, actor, newlyBlocked);
  return blocks;
}

/** Whether an entry in a block list would block the agent that owns the list. */
export function isItself({ handle: own }: Pick<AgentActor, 'handle'>, entry: Handle | OwnerGlob): boolean {
  return entry === own || entry === toOwnerGlob(own);
}

/**
 * The real id is shown only for an agent that the caller could look up; a hidden agent looks like a nonexistent one.
 */
async function resolve(
  transaction: Transaction,
  actor: Pick<AgentActor, 'accountId'>,
  entry: Handle | OwnerGlob,
): Promise<{ agentIds: readonly string[]; shownId: string }> {
  const hiddenId = await hiddenAgentId(transaction, entry);
  if (isOwnerGlob(entry)) return { agentIds: await listAgentIdsOfOwner(transaction, entry), shownId: hiddenId };
  const row = await findAgentByHandle(transaction, entry);
  if (row === undefined) return { agentIds: [], shownId: hiddenId };
  const isVisible = row.visibility === 'public' || row.account_id === actor.accountId;
  return { agentIds: [row.id], shownId: isVisible ? row.id : hiddenId };
}

export const unblockAgent: Handler<'unblockAgent'> = async (_context, actor, input, transaction) => {
  const { blocked } = input.path;
  if (!isHandle(blocked) && !isOwnerGlob(blocked) && !isId('agent', blocked)) throw new ServiceError('INVALID_HANDLE');
  if (!(await deleteBlock(transaction, actor.agentId, blocked))) throw new ServiceError('NOT_FOUND');
  return { unblocked: true };
};
