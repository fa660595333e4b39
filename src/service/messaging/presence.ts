import { putLast } from '../../kit/bounded-map.js';
import { createMutex } from '../../kit/mutex.js';
import { beatEvery, repeat } from '../../kit/repeat.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { OwnProcess, ServiceContext } from '../core/context.js';
import type { Database, Transaction } from '../core/database.js';
import { findLastPosition } from '../store/events.js';
import { sessionLock } from '../store/lock-names.js';
import {
  type AbsenceRow,
  deleteAbsence,
  findParticipation,
  insertAbsence,
  listAbsences,
  listAbsencesOf,
  listPresences,
  type ParticipantRow,
  restartAbsences,
  restartFutureAbsences,
} from '../store/participants.js';
import {
  deleteGoneProcess,
  deleteSockets,
  hasSocket,
  insertSocket,
  listProcessRows,
  listSocketsOf,
  markSocketsRevoked,
  type ProcessRow,
  type SocketOfAgent,
} from '../store/processes.js';
import { append } from './events.js';
import type { LiveSocket, SocketOwner } from './live-socket.js';
import { removeParticipant } from './sessions.js';

/** Sessions per transaction, so that a hundred agents that drop at once do not block others. */
const BATCH = 25;
/**
 * An agent that comes and goes all the time is announced as back at most this often: each time is an event in all of
 * its sessions.
 */
const STEADY_MS = 10_000;
const AGENTS_MAX = 10_000;
/** While an announcement waits, its absences are looked at no more often than this, however short the grace period is. */
const WAITING_LOOK_MS = 250;
/** An absence that began later than this from now is from before the clock was set back; clocks of services differ by less. */
const AHEAD_MAX_MS = 60_000;

/** Disconnected at once, left when the grace period is over, reconnected before (wire: Live delivery, presence). */
function createGraceRule(context: ServiceContext, own: OwnProcess, graceMs: number) {
  let cancel: (() => void) | undefined;
  let isStopped = false;
  const mutex = createMutex();
  let work: Promise<void> = Promise.resolve();
  /** Agents whose absence could not be written yet. */
  const unmarked = new Set<string>();
  /** When each agent was last announced as back, and those whose next announcement waits. */
  const backAt = new Map<string, number>();
  const waiting = new Map<string, () => void>();

  /** Runs one piece of work after the other, with other writes in between. */
  const inTurn = (step: () => Promise<void>): Promise<void> => {
    work = mutex(step).catch((error) => context.log.error('presence_failed', error));
    return work;
  };
  const settleDue = async (): Promise<void> => {
    if (!own.isClockRight) return;
    const now = context.clock.now();
    let rows: AbsenceRow[];
    do {
      rows = await context.database.write((transaction) => settleOldest(context, transaction, now - graceMs, waiting));
    } while (rows.length === BATCH && !isStopped);
    const [next] = await context.database.read((query) => listAbsences(query, 1));
    if (next !== undefined) arm(next.since + graceMs - now);
  };
  const mark = async (agentId: string): Promise<void> => {
    unmarked.delete(agentId);
    // The others would measure it by another time.
    if (!own.isClockRight) {
      unmarked.add(agentId);
      return;
    }
    try {
      await markAbsent(context, agentId);
    } catch (error) {
      unmarked.add(agentId);
      throw error;
    }
    arm(graceMs);
  };
  const announce = async (agentId: string): Promise<void> => {
    if (await markBack(context, agentId)) putLast(backAt, agentId, context.clock.monotonic(), AGENTS_MAX);
  };
  const announceLater = (agentId: string, delayMs: number): void => {
    const go = (): void => {
      waiting.delete(agentId);
      void inTurn(() => announce(agentId));
    };
    waiting.set(agentId, context.clock.schedule(delayMs, go, true));
  };
  const arm = (delayMs: number): void => {
    if (isStopped) return;
    cancel ??= context.clock.schedule(
      delayMs,
      () => {
        cancel = undefined;
        void inTurn(settleDue);
      },
      true,
    );
  };

  return {
    dropped: (agentId: string) => inTurn(() => mark(agentId)),
    returned(agentId: string): void {
      if (waiting.has(agentId) || isStopped) return;
      const last = backAt.get(agentId) ?? Number.NEGATIVE_INFINITY;
      const delayMs = last + STEADY_MS - context.clock.monotonic();
      if (delayMs > 0) announceLater(agentId, delayMs);
      else void inTurn(() => announce(agentId));
    },
    settle() {
      for (const agentId of unmarked) void inTurn(() => mark(agentId));
      return inTurn(settleDue);
    },
    stop() {
      isStopped = true;
      cancel?.();
      for (const stop of waiting.values()) stop();
      return work;
    },
  };
}

async function markAbsent(context: ServiceContext, agentId: string): Promise<void> {
  let after = '';
  while (true) {
    const marked = await context.database.write(async (transaction) => {
      if (await hasSocket(transaction, agentId)) return [];
      // It was back, whether or not that was announced.
      if (after === '') await restartAbsences(transaction, agentId, context.clock.now());
      const present = await listPresences(transaction, agentId, after, BATCH);
      await transaction.lock(present.map((row) => sessionLock(row.session_id)));
      for (const participant of present) {
        if (!(await isStillThere(transaction, participant))) continue;
        await appendPresence(context, transaction, participant, 'session.disconnected');
        await insertAbsence(transaction, { ...participant, since: context.clock.now() });
      }
      return present;
    });
    if (marked.length < BATCH) return;
    after = marked.at(-1)?.session_id ?? after;
  }
}

/** Whether there was anything to announce. */
async function markBack(context: ServiceContext, agentId: string): Promise<boolean> {
  let isAnnounced = false;
  let count = BATCH;
  while (count === BATCH) {
    count = await context.database.write(async (transaction) => {
      if (!(await hasSocket(transaction, agentId))) return 0;
      const rows = await listAbsencesOf(transaction, agentId, BATCH);
      await transaction.lock(rows.map((row) => sessionLock(row.session_id)));
      for (const row of rows) {
        if (!(await deleteAbsence(transaction, row))) continue;
        const participant = await findJoined(transaction, row, context.clock.now() + AHEAD_MAX_MS);
        if (participant !== undefined) await appendPresence(context, transaction, participant, 'session.reconnected');
      }
      return rows.length;
    });
    isAnnounced ||= count > 0;
  }
  return isAnnounced;
}

/** Ends the participations of agents whose grace period is over. `waiting`: those whose announcement as back waits. */
async function settleOldest(
  context: ServiceContext,
  transaction: Transaction,
  dueAt: number,
  waiting: ReadonlyMap<string, unknown>,
): Promise<AbsenceRow[]> {
  const now = context.clock.now();
  const tooLate = now + AHEAD_MAX_MS;
  const later = Math.max(now, dueAt + WAITING_LOOK_MS);
  await restartFutureAbsences(transaction, now, tooLate);
  const rows = (await listAbsences(transaction, BATCH)).filter((row) => row.since <= dueAt);
  await transaction.lock(rows.map((row) => sessionLock(row.session_id)));
  for (const row of rows) {
    if (!(await deleteAbsence(transaction, row))) continue;
    const participant = await findJoined(transaction, row, tooLate);
    if (participant === undefined) continue;
    const isBack = await hasSocket(transaction, row.agent_id);
    if (!isBack) await removeParticipant(context, transaction, participant, 'grace_expired');
    else if (waiting.has(row.agent_id)) await insertAbsence(transaction, { ...row, since: later });
    else await appendPresence(context, transaction, participant, 'session.reconnected');
  }
  return rows;
}

async function isStillThere(transaction: Transaction, { session_id, agent_id }: ParticipantRow): Promise<boolean> {
  const participant = await findParticipation(transaction, session_id, agent_id);
  return participant?.status === 'joined' && participant.session_state === 'active';
}

/**
 * Undefined unless it is still the same participation: an agent that has joined again has not been disconnected. One that
 * joined later than `tooLate` did so before the clock was set back.
 */
async function findJoined(
  transaction: Transaction,
  row: AbsenceRow,
  tooLate: number,
): Promise<ParticipantRow | undefined> {
  const participant = await findParticipation(transaction, row.session_id, row.agent_id);
  if (participant?.status !== 'joined' || participant.session_state !== 'active') return undefined;
  const joinedAt = participant.joined_at ?? 0;
  return joinedAt <= row.since || joinedAt > tooLate ? participant : undefined;
}

async function appendPresence(
  context: ServiceContext,
  transaction: Transaction,
  participant: ParticipantRow,
  type: 'session.disconnected' | 'session.reconnected',
): Promise<void> {
  await append(context, transaction, participant.session_id, 1, async () => [
    { type, payload: { agent: participant.handle } },
  ]);
}

/** How often a process writes its heartbeat, and how long it may fail to before its sockets are closed. */
const BEAT_MS = 5_000;
const SILENT_MAX_S = 25;
/**
 * How often it checks for dead processes, and after how many checks without a new heartbeat a process counts as dead: by
 * then, one that has only lost the database has closed its sockets.
 */
const SWEEP_MS = 5_000;
const SILENT_LOOKS_MAX = 6;

/** The agents with a socket, in the store; and, with the grace rule on, the effects of their absence (D-13, D-45). */
export interface Presence {
  /** Returns the position of the last event, if notifications can be lost; otherwise 0. */
  opened(owner: SocketOwner): Promise<number>;
  closed(owner: SocketOwner): Promise<void>;
  /** Reconciles the records of dead processes, now and whenever one dies. */
  start(): Promise<void>;
  /** From now on a closing socket is the service's doing and does not count as an absence. */
  release(): void;
  stop(): Promise<void>;
}

/** `sockets` are the open ones; `opened` has announced each of them. */
export function createPresence(context: ServiceContext, own: OwnProcess, sockets: ReadonlySet<LiveSocket>): Presence {
  const { bus, clock, database, log, settings } = context;
  const { processId } = own;
  const { presenceGraceMs: graceMs } = settings;
  const rule = graceMs === undefined ? undefined : createGraceRule(context, own, graceMs);
  const held = new Set<string>();
  let isReleased = false;
  // After a crash, no record of a socket is true anyway. Without locks, those that come together share a commit.
  const write: Database['write'] = (work) => database.writeVolatile?.(work) ?? database.write(work, []);
  const forget = (socketIds: readonly string[]): Promise<void> => write((query) => deleteSockets(query, socketIds));
  const announce = (agentId: string): void => bus.notify({ kind: 'presence', agentId });
  const drop = async (rows: readonly SocketOfAgent[]): Promise<void> => {
    const ids = rows.map(({ id }) => id);
    for (let start = 0; start < ids.length; start += database.pageRows)
      await forget(ids.slice(start, start + database.pageRows));
    const agentIds = new Set(rows.map((row) => row.agent_id));
    for (const agentId of agentIds) announce(agentId);
    for (const agentId of agentIds) await rule?.dropped(agentId);
  };
  const beat = createBeat(context, processId, { sockets, held });
  const findGone = createRollCall(processId);
  const sweep = async (): Promise<void> => {
    const rows = await database.read(listProcessRows);
    const gone = database.isExclusive ? rows.filter(({ id }) => id !== processId) : findGone(rows);
    for (const row of gone) {
      await drop(await database.read((query) => listSocketsOf(query, row.id)));
      await database.write((query) => deleteGoneProcess(query, row));
    }
    await drop(beat.orphans());
    await rule?.settle();
  };
  const onFault = (error: unknown): void => log.error('presence_failed', error);
  let stops: (() => unknown)[] = [];

  return {
    async opened({ socketId, agentId, grantId }) {
      held.add(socketId);
      const row = { id: socketId, process_id: processId, agent_id: agentId, grant_id: grantId };
      const position = await write(async (query) => {
        const inserted = insertSocket(query, { ...row, opened_at: clock.now() });
        const [last] = await Promise.all([bus.isReliable ? 0 : findLastPosition(query), inserted]);
        return last;
      });
      announce(agentId);
      // Not awaited: a handshake need not wait for the effects of others' absence.
      rule?.returned(agentId);
      return position;
    },
    async closed({ socketId, agentId }) {
      if (isReleased) return;
      // If this fails now, a later heartbeat notices.
      await forget([socketId]).finally(() => held.delete(socketId));
      announce(agentId);
      await rule?.dropped(agentId);
    },
    async start() {
      await sweep();
      stops = [
        beat.watch(),
        repeat(clock, BEAT_MS, beat.once, onFault, true),
        repeat(clock, SWEEP_MS, sweep, onFault, true),
      ];
    },
    release() {
      isReleased = true;
    },
    async stop() {
      for (const stop of stops) await stop();
      await rule?.stop();
    },
  };
}

interface Books {
  /** The open ones, each with its row. */
  readonly sockets: ReadonlySet<LiveSocket>;
  /** Every agent that has a row, or is about to have one. */
  readonly held: ReadonlySet<string>;
}

/**
 * A socket may stay open only while the store knows it: an unknown socket is not closed when its grant is
 * revoked, and does not count as online. So each heartbeat compares the two (D-190).
 */
function createBeat({ clock, database }: ServiceContext, processId: string, { sockets, held }: Books) {
  let silentS = 0;
  let orphans: readonly SocketOfAgent[] = [];
  const close = (list: Iterable<LiveSocket>, reason: string): void => {
    for (const socket of list) socket.close(CLOSE_CODE.outOfTouch, reason);
  };
  return {
    async once(): Promise<void> {
      const known = [...sockets];
      const rows = await database.read((query) => listSocketsOf(query, processId));
      silentS = 0;
      const ids = new Set(rows.map((row) => row.id));
      close(
        known.filter((socket) => !ids.has(socket.socketId)),
        'was considered dead',
      );
      orphans = rows.filter((row) => !held.has(row.id));
    },
    /** Rows without a socket, as of the last heartbeat. Another process may take longer than one to reconcile them. */
    orphans: () => orphans,
    /**
     * Closes all of them if the store cannot be reached for too long. Seconds in which this process was frozen do not
     * count.
     */
    watch: () =>
      beatEvery(clock, 1_000, () => {
        silentS += 1;
        if (silentS < SILENT_MAX_S) return;
        silentS = 0;
        close(sockets, 'the database does not respond');
      }),
  };
}

/**
 * Finds dead processes: those that were checked often enough without a new heartbeat. It counts checks instead of
 * comparing times, because the clocks of others may differ, and because a process that was itself frozen has not heard
 * from them in the meantime. A check counts only if this process has written a heartbeat since the last one: otherwise the
 * others may be unable to write theirs, too.
 */
function createRollCall(processId: string) {
  let own: number | undefined;
  let known = new Map<string, { readonly seenAt: number; readonly looks: number }>();
  return (rows: readonly ProcessRow[]): ProcessRow[] => {
    const others = rows.filter(({ id }) => id !== processId);
    const latest = rows.find(({ id }) => id === processId)?.seen_at;
    const isCounted = latest !== own;
    own = latest;
    const before = known;
    known = new Map(
      others.map(({ id, seen_at }) => {
        const last = before.get(id);
        const isSilent = last?.seenAt === seen_at;
        return [id, { seenAt: seen_at, looks: isSilent ? last.looks + (isCounted ? 1 : 0) : 0 }];
      }),
    );
    return others.filter(({ id, seen_at }) => seen_at === 0 || (known.get(id)?.looks ?? 0) >= SILENT_LOOKS_MAX);
  };
}

/** Closes everything that was opened with these grants, wherever it is, once this is durable (spec: POST /revoke). */
export async function closeSockets(
  { clock, bus }: Pick<ServiceContext, 'clock' | 'bus'>,
  transaction: Transaction,
  grantIds: readonly string[],
): Promise<void> {
  const now = clock.now();
  for (const grantId of grantIds) await markSocketsRevoked(transaction, grantId, now);
  transaction.afterCommit(() => {
    for (const grantId of grantIds) bus.notify({ kind: 'revoked', grantId });
  });
}
