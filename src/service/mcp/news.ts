import type { ServiceContext } from '../core/context.js';
import { listConcerned } from '../store/participants.js';

/** How often the agents that wait for any of their sessions are looked up for the sessions that grew. */
const GATHER_MS = 250;
const POLL_MS = 1_000;
/** Even if no notification is known to be lost. */
const POLL_ANYWAY_MS = 30_000;

/** One session, or all sessions of an agent. */
export type Watched = { readonly sessionId: string } | { readonly agentId: string };

/** Tells a waiting call when to check again. */
export interface Watch {
  /** Resolves once something may have happened since the last check, or when `until` is aborted. */
  next(until: AbortSignal): Promise<void>;
  end(): void;
}

/** Wakes calls that wait for events. They then check for themselves: a notification is only a hint. */
export interface News {
  watch(watched: Watched): Watch;
  stop(): void;
}

interface Watcher {
  isDue: boolean;
  wake: (() => void) | undefined;
}

type Watchers = Map<string, Set<Watcher>>;

export function createNews({ bus, clock, database }: Pick<ServiceContext, 'bus' | 'clock' | 'database'>): News {
  const ofSessions: Watchers = new Map();
  const ofAgents: Watchers = new Map();
  /** Since the agents were last looked up. */
  let grown = new Set<string>();
  let cancelGathering: (() => void) | undefined;
  let cancelPoll: (() => void) | undefined;
  let polledAtMs = clock.monotonic();
  const mayHaveMissed = bus.watchLosses();

  const wake = (watchers: Watchers, id: string): void => {
    for (const watcher of watchers.get(id) ?? []) {
      watcher.isDue = true;
      watcher.wake?.();
    }
  };
  const wakeEveryone = (watchers: Watchers): void => {
    for (const id of watchers.keys()) wake(watchers, id);
  };
  /** Runs one query for all sessions and all agents, so that an event wakes only the agents that it affects. */
  const wakeConcerned = async (): Promise<void> => {
    const sessionIds = [...grown];
    grown = new Set();
    if (ofAgents.size === 0) return;
    try {
      const agentIds = [...ofAgents.keys()];
      const concerned = await database.behind.read((query) => listConcerned(query, sessionIds, agentIds));
      for (const agentId of concerned) wake(ofAgents, agentId);
    } catch {
      wakeEveryone(ofAgents);
    }
  };
  const gather = (sessionId: string): void => {
    if (ofAgents.size === 0) return;
    grown.add(sessionId);
    cancelGathering ??= clock.schedule(
      GATHER_MS,
      () => {
        cancelGathering = undefined;
        void wakeConcerned();
      },
      true,
    );
  };
  /** Finds out within a second that a notification was lost. */
  const poll = (): void => {
    if (bus.isReliable || (ofSessions.size === 0 && ofAgents.size === 0)) return;
    cancelPoll ??= clock.schedule(
      POLL_MS,
      () => {
        cancelPoll = undefined;
        if (mayHaveMissed() || clock.monotonic() - polledAtMs >= POLL_ANYWAY_MS) {
          polledAtMs = clock.monotonic();
          wakeEveryone(ofSessions);
          wakeEveryone(ofAgents);
        }
        poll();
      },
      true,
    );
  };
  const stopListening = bus.listen((signal) => {
    if (signal.kind !== 'events') return;
    wake(ofSessions, signal.sessionId);
    gather(signal.sessionId);
  });

  return {
    watch(watched) {
      const [watchers, id] = 'sessionId' in watched ? [ofSessions, watched.sessionId] : [ofAgents, watched.agentId];
      const watcher: Watcher = { isDue: false, wake: undefined };
      const others = watchers.get(id) ?? new Set();
      watchers.set(id, others.add(watcher));
      poll();
      return {
        async next(until) {
          await new Promise<void>((resolve) => {
            const go = (): void => {
              until.removeEventListener('abort', go);
              watcher.wake = undefined;
              resolve();
            };
            watcher.wake = go;
            until.addEventListener('abort', go, { once: true });
            if (watcher.isDue || until.aborted) go();
          });
          watcher.isDue = false;
        },
        end() {
          others.delete(watcher);
          if (others.size === 0 && watchers.get(id) === others) watchers.delete(id);
        },
      };
    },
    stop() {
      stopListening();
      cancelGathering?.();
      cancelPoll?.();
    },
  };
}
