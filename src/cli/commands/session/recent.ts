import type { EventEnvelope } from '../../../wire/event.js';

/** The last so many events of each session, while their past is read. */
export interface Recent {
  add(event: EventEnvelope): void;
  /** What was kept, session by session; afterwards it is empty. */
  drain(): readonly EventEnvelope[];
}

export function createRecent(count: number): Recent {
  const kept = new Map<string, EventEnvelope[]>();
  return {
    add(event) {
      const events = kept.get(event.session_id) ?? [];
      events.push(event);
      if (events.length > count) events.shift();
      kept.set(event.session_id, events);
    },
    drain() {
      const events = [...kept.values()].flat();
      kept.clear();
      return events;
    },
  };
}
