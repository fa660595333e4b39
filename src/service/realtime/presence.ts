import { beatEvery } from '../../kit/beat.js';
import { repeat } from '../../kit/repeat.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { ServiceContext } from '../context.js';
import { deleteGoneProcess, listOtherProcesses, type ProcessRow } from '../store/process-rows.js';
import { deleteSocket, insertSocket, listSocketsOf, type SocketOfAgent } from '../store/socket-rows.js';
import { createGraceRule } from './grace-rule.js';
import type { LiveSocket, SocketOwner } from './live-socket.js';

/** How often a process says that it lives, and how long it may fail to before its sockets are closed. */
const BEAT_MS = 5_000;
const SILENT_MAX_S = 25;
/** How often it looks for processes that are gone, and after how many looks at one that says nothing new it is. */
const SWEEP_MS = 10_000;
const SILENT_LOOKS_MAX = 6;

/** Who has a socket, in the store; and, where the grace rule is on, what their absence does (D-13, D-45). */
export interface Presence {
  opened(owner: SocketOwner): Promise<void>;
  closed(owner: SocketOwner): Promise<void>;
  /** Closes the books of processes that are gone, now and whenever one goes. */
  start(): Promise<void>;
  /** From now on a closing socket is the service's doing and nobody's absence. */
  release(): void;
  stop(): Promise<void>;
}

/** `sockets` are those that are open; each has been told of by `opened`. */
export function createPresence(context: ServiceContext, processId: string, sockets: ReadonlySet<LiveSocket>): Presence {
  const { clock, database, log, settings } = context;
  const rule = settings.presenceGraceMs === undefined ? undefined : createGraceRule(context, settings.presenceGraceMs);
  const held = new Set<string>();
  let isReleased = false;
  const forget = (socketId: string): Promise<void> => database.write((query) => deleteSocket(query, socketId));
  const drop = async (rows: readonly SocketOfAgent[]): Promise<void> => {
    for (const row of rows) await forget(row.id);
    for (const row of rows) await rule?.dropped(row.agent_id);
  };
  const beat = createBeat(context, processId, { sockets, held });
  const findGone = createRollCall();
  const sweep = async (): Promise<void> => {
    const others = await database.read((query) => listOtherProcesses(query, processId));
    const gone = database.isExclusive ? others : findGone(others);
    for (const row of gone) {
      await drop(await database.read((query) => listSocketsOf(query, row.id)));
      await database.write((query) => deleteGoneProcess(query, row));
    }
    await drop(beat.strays());
    await rule?.settle();
  };
  const onFault = (error: unknown): void => log.error('presence_failed', error);
  let stops: (() => unknown)[] = [];

  return {
    async opened({ socketId, agentId, grantId }) {
      held.add(socketId);
      const row = { id: socketId, process_id: processId, agent_id: agentId, grant_id: grantId };
      await database.write((query) => insertSocket(query, { ...row, opened_at: clock.now() }));
      // Not awaited: a handshake need not wait for what the absence of others is doing.
      void rule?.returned(agentId);
    },
    async closed({ socketId, agentId }) {
      if (isReleased) return;
      // What cannot be forgotten now is found at a later beat.
      await forget(socketId).finally(() => held.delete(socketId));
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
  /** The open ones, each of which has its row. */
  readonly sockets: ReadonlySet<LiveSocket>;
  /** Whoever has a row, or is about to have one. */
  readonly held: ReadonlySet<string>;
}

/**
 * A socket may be open as long as the store knows of it, for what is not known there is not told to close when its grant is
 * revoked, and counts for nobody. So each beat holds the two against each other (D-190).
 */
function createBeat({ clock, database }: ServiceContext, processId: string, { sockets, held }: Books) {
  let silentS = 0;
  let strays: readonly SocketOfAgent[] = [];
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
        'was taken for gone',
      );
      strays = rows.filter((row) => !held.has(row.id));
    },
    /** Rows without a socket, as the last beat found them. Whoever closes their books may take longer than a beat. */
    strays: () => strays,
    /** Closes all when the store cannot be asked for too long. Seconds in which this process stood still do not count. */
    watch: () =>
      beatEvery(clock, 1_000, () => {
        silentS += 1;
        if (silentS < SILENT_MAX_S) return;
        silentS = 0;
        close(sockets, 'the database does not answer');
      }),
  };
}

/**
 * Finds who is gone: whoever was looked at often enough and said nothing new. Looks are counted instead of times compared,
 * because the clocks of others may differ, and whoever stood still itself has not heard them meanwhile.
 */
function createRollCall() {
  let known = new Map<string, { readonly seenAt: number; readonly looks: number }>();
  return (rows: readonly ProcessRow[]): ProcessRow[] => {
    const before = known;
    known = new Map(
      rows.map(({ id, seen_at }) => {
        const last = before.get(id);
        return [id, { seenAt: seen_at, looks: last?.seenAt === seen_at ? last.looks + 1 : 0 }];
      }),
    );
    return rows.filter(({ id, seen_at }) => seen_at === 0 || (known.get(id)?.looks ?? 0) >= SILENT_LOOKS_MAX);
  };
}
