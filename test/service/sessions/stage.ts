import type { Clock } from '../../../src/kit/clock.js';
import { createIds } from '../../../src/kit/ids.js';
import { systemRandom } from '../../../src/kit/random.js';
import { createAccount } from '../../../src/service/agents/accounts.js';
import { createAgentRecord } from '../../../src/service/agents/agents.js';
import { openAttachmentFiles } from '../../../src/service/attachments/files.js';
import type { Signal } from '../../../src/service/core/bus.js';
import {
  type AgentActor,
  DEFAULT_ACCOUNT_POLICY,
  type LoopGuard,
  type ServiceContext,
} from '../../../src/service/core/context.js';
import type { Query, Transaction } from '../../../src/service/core/database.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import { unmetered } from '../../../src/service/core/meter.js';
import { type RateLimits, unlimited } from '../../../src/service/core/rate-limits.js';
import { createRefusals } from '../../../src/service/core/refusals.js';
import { createHeldBytes } from '../../../src/service/core/semaphore.js';
import { replayEvents } from '../../../src/service/messaging/events.js';
import { createInboxes } from '../../../src/service/messaging/inboxes.js';
import { getSession } from '../../../src/service/messaging/list-sessions.js';
import {
  createSession,
  endSession,
  inviteToSession,
  joinSession,
  leaveSession,
  reopenSession,
  sendMessage,
} from '../../../src/service/messaging/sessions.js';
import { createLocalBus } from '../../../src/service/messaging/shared-bus.js';
import { type AgentRow, findAgent, updateAgentRow } from '../../../src/service/store/agents.js';
import { UNREAD_MAX_BYTES } from '../../../src/wire/limit.js';
import type { BodyOf } from '../../../src/wire/schemas/endpoint.js';
import { type EventEnvelope, ReplayReply } from '../../../src/wire/schemas/event.js';
import type { CreateAgentRequest } from '../../../src/wire/schemas/requests.js';
import { openTestStore } from '../../support/stores.js';

export interface HandClock extends Clock {
  advance(ms: number): void;
}

export function createHandClock(start = 1_800_000_000_000): HandClock {
  let now = start;
  return {
    now: () => now,
    monotonic: () => now - start,
    schedule: () => () => {},
    advance: (ms) => {
      now += ms;
    },
  };
}

/** The reply of a call, or the error code of a refused one. */
export type Outcome<T> = { ok: true; reply: T } | { ok: false; code: string };

/** The domain of the service on an in-memory database, without HTTP. */
export async function openStage(
  options: {
    limits?: RateLimits;
    trust?: 'recipient' | 'symmetric';
    participantsMax?: number;
    search?: 'builtin' | 'off';
    loopGuard?: LoopGuard;
  } = {},
) {
  const clock = createHandClock();
  const database = await openTestStore();
  const files = await openAttachmentFiles(undefined);
  const signals: Signal[] = [];
  const bus = createLocalBus((error) => {
    throw error;
  });
  let isBehind = true;
  bus.listen((signal) => {
    signals.push(signal);
    isBehind = true;
  });
  const log = {
    info: () => {},
    warn: () => {},
    error: (_event: string, error: unknown) => {
      throw error;
    },
  };
  const inboxes = createInboxes({ clock, database, bus, log });
  inboxes.start();
  const context: ServiceContext = {
    clock,
    ids: createIds(clock, systemRandom),
    random: systemRandom,
    database,
    files,
    bus,
    inboxes,
    limits: options.limits ?? unlimited,
    refusals: createRefusals(clock),
    unread: createHeldBytes(UNREAD_MAX_BYTES),
    settings: {
      addresses: {
        baseUrl: 'http://h/v1',
        authUrl: 'http://h',
        webUrl: 'http://h',
        wsUrl: 'ws://h/connect',
        mcpUrl: 'http://h/mcp',
      },
      trust: options.trust ?? 'recipient',
      search: options.search,
      areLimitsOn: options.limits !== undefined,
      participantsMax: options.participantsMax ?? 1_000,
      accountPolicy: DEFAULT_ACCOUNT_POLICY,
      presenceGraceMs: undefined,
      isBehindProxy: false,

      isAddressShared: false,
    },
    loopGuard: options.loopGuard,
    meter: unmetered,
    log,
  };
  const write = <T>(work: (transaction: Transaction) => Promise<T>): Promise<T> => database.write(work);
  const read = async <T>(work: (query: Query) => Promise<T>): Promise<T> => {
    if (isBehind) await inboxes.settle();
    isBehind = false;
    return database.read(work);
  };

  const addAccount = (username: string) =>
    write((transaction) =>
      createAccount(context, transaction, {
        username,
        displayName: username,
        passwordHash: null,
        tier: 'trusted',
        isLocal: false,
      }),
    );
  type Account = Awaited<ReturnType<typeof addAccount>>;
  const addAgent = async (
    account: Account,
    name: string,
    more: Partial<CreateAgentRequest> = {},
  ): Promise<AgentActor> => {
    const row = await write((transaction) =>
      createAgentRecord(context, transaction, account, { local_name: name, display_name: name, ...more }),
    );
    return { kind: 'agent', agentId: row.id, handle: row.handle, accountId: account.id, scopes: [] };
  };
  const changeAgent = (agent: AgentActor, columns: Partial<Pick<AgentRow, 'is_paused' | 'inbound_policy'>>) =>
    write(async (transaction) => {
      const row = await findAgent(transaction, agent.agentId);
      if (row !== undefined) await updateAgentRow(transaction, { ...row, ...columns });
    });
  const block = (agent: AgentActor, blocked: AgentActor): Promise<unknown> =>
    write((transaction) =>
      transaction.run(
        'INSERT INTO block (agent_id, blocked_handle, blocked_agent_id, created_at) VALUES ($1, $2, $3, $4)',
        agent.agentId,
        blocked.handle,
        blocked.agentId,
        clock.now(),
      ),
    );
  const sessionCalls = {
    create: (actor: AgentActor, body: BodyOf<'createSession'>) =>
      settle(write((transaction) => createSession(context, actor, { body }, transaction))),
    join: (actor: AgentActor, session_id: string) =>
      settle(write((transaction) => joinSession(context, actor, { path: { session_id }, body: {} }, transaction))),
    invite: (actor: AgentActor, session_id: string, invite: string[]) =>
      settle(
        write((transaction) =>
          inviteToSession(context, actor, { path: { session_id }, body: { invite } }, transaction),
        ),
      ),
    send: (actor: AgentActor, session_id: string, body: BodyOf<'sendMessage'>) =>
      settle(write((transaction) => sendMessage(context, actor, { path: { session_id }, body }, transaction))),
    leave: (actor: AgentActor, session_id: string) =>
      settle(write((transaction) => leaveSession(context, actor, { path: { session_id }, body: {} }, transaction))),
    end: (actor: AgentActor, session_id: string) =>
      settle(write((transaction) => endSession(context, actor, { path: { session_id }, body: {} }, transaction))),
    reopen: (actor: AgentActor, session_id: string, body: BodyOf<'reopenSession'> = {}) =>
      settle(write((transaction) => reopenSession(context, actor, { path: { session_id }, body }, transaction))),
    get: (actor: AgentActor, session_id: string) =>
      settle(read((query) => getSession(context, actor, { path: { session_id } }, query))),
    replay: (actor: AgentActor, session_id: string, after_sequence = 0, limit = 100) =>
      settle(
        read((query) =>
          replayEvents(context, actor, { path: { session_id }, query: { after_sequence, limit } }, query),
        ).then(async ({ text, more = [] }) => {
          const pieces = [Buffer.from(text)];
          for await (const piece of more) pieces.push(Buffer.from(piece));
          return ReplayReply.parse(JSON.parse(Buffer.concat(pieces).toString()));
        }),
      ),
  };
  const eventsOf = async (actor: AgentActor, sessionId: string): Promise<EventEnvelope[]> =>
    must(await sessionCalls.replay(actor, sessionId, 0, 1000)).events;
  const statusOf = async (viewer: AgentActor, sessionId: string): Promise<Record<string, string>> => {
    const session = must(await sessionCalls.get(viewer, sessionId));
    return Object.fromEntries(session.participants.map((participant) => [participant.handle, participant.status]));
  };
  return {
    context,
    clock,
    signals,
    database,
    write,
    read,
    addAccount,
    addAgent,
    changeAgent,
    block,
    ...sessionCalls,
    eventsOf,
    statusOf,
    close: async () => {
      await database.close();
      await files.close();
    },
  };
}
export type Stage = Awaited<ReturnType<typeof openStage>>;

async function settle<T>(promise: Promise<T>): Promise<Outcome<T>> {
  try {
    return { ok: true, reply: await promise };
  } catch (error) {
    if (error instanceof ServiceError) return { ok: false, code: error.code };
    throw error;
  }
}

/** Returns the reply, or throws if the call was refused. */
export function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`refused with ${outcome.code}`);
  return outcome.reply;
}
