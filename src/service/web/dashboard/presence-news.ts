import { createThrottle } from '../../../kit/repeat.js';
import type { ServiceContext } from '../../core/context.js';
import { listOwnersOf } from '../../store/agents.js';
import { listSessionsWith } from '../../store/participants.js';

/** Agents that come and go within this time after others are looked up together. */
const PAUSE_MS = 500;
/** With more pairs of a session and an agent, every session counts as concerned. */
const PAIRS_MAX = 10_000;

export interface PresenceNews {
  /** The accounts that own them. */
  readonly accountIds: ReadonlySet<string>;
  /** The followed sessions that they are in. */
  readonly sessionIds: ReadonlySet<string>;
}

/**
 * Reports which accounts and sessions have agents that just connected or disconnected. It costs one lookup for all
 * agents and all readers together. `listFollowed` returns the sessions that are read, or undefined if no page is open:
 * then it costs nothing. The returned function stops it.
 */
export function followPresence(
  { bus, clock, database, log }: ServiceContext,
  listFollowed: () => readonly string[] | undefined,
  tell: (news: PresenceNews) => Promise<void> | void,
): () => void {
  const moved = new Set<string>();
  let isStopped = false;
  const lookUp = async (agentIds: readonly string[], followed: readonly string[]): Promise<void> => {
    const isCrowd = agentIds.length * followed.length > PAIRS_MAX;
    const news = await database.read(async (query) => ({
      accountIds: new Set(await listOwnersOf(query, agentIds)),
      sessionIds: new Set(isCrowd ? followed : await listSessionsWith(query, followed, agentIds)),
    }));
    if (!isStopped) await tell(news);
  };
  const lookUpMoved = (): Promise<void> | undefined => {
    const agentIds = [...moved];
    moved.clear();
    const followed = listFollowed();
    return followed === undefined ? undefined : lookUp(agentIds, [...new Set(followed)]);
  };
  const looks = createThrottle(clock, PAUSE_MS, lookUpMoved, (error) => log.error('presence_news_failed', error));
  const stopListening = bus.listen((signal) => {
    if (signal.kind !== 'presence') return;
    moved.add(signal.agentId);
    looks.call();
  });
  return () => {
    isStopped = true;
    stopListening();
    looks.stop();
  };
}
