import { ServiceError } from '../service-error.js';

const RETRY_AFTER_S = 5;

export interface PlacesOptions {
  readonly perAgentMax: number;
  /** How many may wait for a place of their agent; the next is refused. */
  readonly waitingMax: number;
  /** For people. */
  readonly refusal: string;
}

/** What an agent may hold several of at once, in this process. */
export interface Places {
  /** Takes one, as soon as one is free; the answer gives it back. Throws RATE_LIMITED when too many wait already. */
  take(agentId: string): Promise<() => void>;
}

/** The places of one agent. */
interface Room {
  taken: number;
  readonly waiting: (() => void)[];
}

export function createPlaces({ perAgentMax, waitingMax, refusal }: PlacesOptions): Places {
  const rooms = new Map<string, Room>();
  const leave = (agentId: string, room: Room): void => {
    const next = room.waiting.shift();
    if (next === undefined) room.taken -= 1;
    else next();
    if (room.taken === 0) rooms.delete(agentId);
  };
  return {
    async take(agentId) {
      const room = rooms.get(agentId) ?? { taken: 0, waiting: [] };
      const isFull = room.taken >= perAgentMax;
      if (isFull && room.waiting.length >= waitingMax)
        throw new ServiceError('RATE_LIMITED', refusal, { retryAfterS: RETRY_AFTER_S });
      rooms.set(agentId, room);
      if (isFull) await new Promise<void>((resolve) => room.waiting.push(resolve));
      else room.taken += 1;
      let isGivenBack = false;
      return () => {
        if (!isGivenBack) leave(agentId, room);
        isGivenBack = true;
      };
    },
  };
}
