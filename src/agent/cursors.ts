import * as z from 'zod/mini';

import type { EventEnvelope } from '../wire/schemas/event.js';

/** How far a session has been read, and in which epoch of the service's data. */
export interface Cursor {
  readonly after: number;
  readonly epoch?: string | undefined;
}

/** The epoch of most sessions; a session that was last read in another epoch names its own. */
export function cursorsToJson(cursors: ReadonlyMap<string, Cursor>): z.infer<typeof CursorsJson> {
  const epoch = [...cursors.values()].at(-1)?.epoch;
  const others = [...cursors].filter(([, cursor]) => cursor.epoch !== epoch);
  return {
    ...(epoch !== undefined && { epoch }),
    sessions: Object.fromEntries([...cursors].map(([id, { after }]) => [id, after])),
    ...(others.length > 0 && { epochs: Object.fromEntries(others.map(([id, cursor]) => [id, cursor.epoch ?? null])) }),
  };
}

/** The event of a session that was given to a handler, and how many times. */
const Begun = z.looseObject({ event: z.string(), times: z.int().check(z.positive()) });
type Begun = z.infer<typeof Begun>;

/** How cursors are kept in files. */
export const CursorsJson = z.looseObject({
  epoch: z.optional(z.string()),
  sessions: z.record(z.string(), z.int().check(z.nonnegative())),
  epochs: z.optional(z.record(z.string(), z.nullable(z.string()))),
  begun: z.optional(z.record(z.string(), Begun)),
});

/** The cursors of a file. */
export function cursorsFromJson({ epoch, sessions, epochs = {} }: z.infer<typeof CursorsJson>): [string, Cursor][] {
  return Object.entries(sessions).map(([id, after]) => {
    const own = epochs[id];
    return [id, { after, epoch: own === undefined ? epoch : (own ?? undefined) }];
  });
}

/** The events that were given to a handler and are not done. If one comes again, its handler learns that. */
export class BegunEvents {
  readonly #begun: Map<string, Begun>;

  constructor({ begun = {} }: Pick<z.infer<typeof CursorsJson>, 'begun'>) {
    this.#begun = new Map(Object.entries(begun));
  }

  /** Returns how many times this event was given to a handler, including this time. */
  count({ session_id: sessionId, event_id: event }: Pick<EventEnvelope, 'session_id' | 'event_id'>): number {
    const earlier = this.#begun.get(sessionId);
    const times = (earlier?.event === event ? earlier.times : 0) + 1;
    this.#begun.set(sessionId, { event, times });
    return times;
  }

  end(sessionId: string): void {
    this.#begun.delete(sessionId);
  }

  toJson(): Pick<z.infer<typeof CursorsJson>, 'begun'> {
    return this.#begun.size === 0 ? {} : { begun: Object.fromEntries(this.#begun) };
  }
}
