import { field } from '../../support/json.js';

/** An event in the log. */
export interface LoggedEvent {
  readonly session_id: string;
  readonly sequence: number;
  readonly id: string;
  readonly type: string;
  readonly payload: string;
}

export interface Part {
  status: 'invited' | 'joined' | 'left';
  /** Whether it has joined since its last invitation. */
  hasJoined: boolean;
  firstInvited: number | undefined;
  leftAt: number;
  wasJoinedAtEnd: boolean;
  /** The last event that it could see while joined. */
  sawThrough: number;
  /** The events about itself, and the ends that it saw while invited. */
  readonly sawAlone: Set<number>;
  /** The events since its last invitation that it could see when they happened. */
  readonly owed: Set<number>;
}

/**
 * Replays one session from its log, event by event, with only the States table. A transition that the table does not
 * allow is a fault of the service.
 */
export class SessionLog {
  readonly events: LoggedEvent[] = [];
  readonly parts = new Map<string, Part>();
  state: 'active' | 'ended' = 'active';

  constructor(creator: string) {
    this.parts.set(creator, newPart('joined'));
  }

  /** Returns what is wrong with the next event, or undefined. */
  add(event: LoggedEvent): string | undefined {
    const expected = this.events.length + 1;
    if (event.sequence !== expected) return `number ${event.sequence} stands where ${expected} belongs`;
    this.events.push(event);
    const fault = this.#apply(event, JSON.parse(event.payload));
    for (const part of this.parts.values())
      if (part.status === 'joined') {
        part.sawThrough = event.sequence;
        part.owed.add(event.sequence);
      }
    return fault;
  }

  #apply(event: LoggedEvent, payload: unknown): string | undefined {
    const said = (path: string): string => String(field(payload, path));
    switch (event.type) {
      case 'session.invited':
        return this.#invite(event.sequence, said('invitee'), said('by'));
      case 'session.joined':
        return this.#join(said('agent'));
      case 'session.message':
        if (field(payload, 'sequence') !== event.sequence || said('session_id') !== event.session_id)
          return `message and envelope differ at ${event.sequence}`;
        return this.#isTakingPart(said('sender')) ? undefined : `${said('sender')} spoke without being joined`;
      case 'session.left':
        return this.#leave(event.sequence, said('agent'));
      case 'session.ended':
        return this.#end(event.sequence, said('ended_by'));
      case 'session.reopened':
        return this.#reopen(event.sequence, said('reopened_by'));
      case 'session.disconnected':
      case 'session.reconnected':
        return this.#isTakingPart(said('agent')) ? undefined : `${event.type} of one who is not joined`;
      default:
        return `there is no event ${event.type}`;
    }
  }

  #isTakingPart(handle: string): boolean {
    return this.state === 'active' && this.parts.get(handle)?.status === 'joined';
  }

  #invite(sequence: number, invitee: string, by: string): string | undefined {
    const isAllowed = this.#isTakingPart(by);
    const part = this.parts.get(invitee) ?? newPart('left');
    const wasOutside = part.status === 'left';
    this.parts.set(invitee, part);
    part.status = 'invited';
    part.hasJoined = false;
    part.firstInvited ??= sequence;
    part.sawAlone.add(sequence);
    for (const event of this.events)
      if (event.type === 'session.ended' && event.sequence > part.firstInvited) part.sawAlone.add(event.sequence);
    // After this invitation is delivered, the delivery cursor is past the events that it may not see now.
    part.owed.clear();
    part.owed.add(sequence);
    return isAllowed && wasOutside ? undefined : `${by} invited ${invitee}, who ${wasOutside ? 'may' : 'is there'}`;
  }

  #join(handle: string): string | undefined {
    const part = this.parts.get(handle);
    if (part === undefined || part.status !== 'invited' || this.state !== 'active') return `${handle} joined uninvited`;
    part.status = 'joined';
    part.hasJoined = true;
    return undefined;
  }

  #leave(sequence: number, handle: string): string | undefined {
    const part = this.parts.get(handle);
    if (part === undefined || part.status === 'left') return `${handle} left without being there`;
    if (this.state === 'ended' && part.status !== 'joined') return `${handle} left an ended session`;
    if (part.status === 'joined') part.sawThrough = sequence;
    part.sawAlone.add(sequence);
    part.owed.add(sequence);
    part.status = 'left';
    part.leftAt = sequence;
    return undefined;
  }

  #end(sequence: number, handle: string): string | undefined {
    if (!this.#isTakingPart(handle)) return `${handle} ended without being joined`;
    this.state = 'ended';
    for (const part of this.parts.values()) {
      part.wasJoinedAtEnd = part.status === 'joined';
      if (part.status !== 'invited') continue;
      part.sawAlone.add(sequence);
      part.owed.add(sequence);
    }
    return undefined;
  }

  /** Participants who are not invited again are blocked. They leave without an event. */
  #reopen(sequence: number, handle: string): string | undefined {
    const caller = this.parts.get(handle);
    if (this.state !== 'ended' || caller?.wasJoinedAtEnd !== true) return `${handle} reopened without right`;
    this.state = 'active';
    for (const part of this.parts.values()) {
      part.wasJoinedAtEnd = false;
      if (part === caller || part.status === 'left') continue;
      part.status = 'left';
      part.leftAt = sequence - 1;
    }
    if (caller.status !== 'joined') caller.hasJoined = true;
    caller.status = 'joined';
    return undefined;
  }

  /** Whether this agent may ever have seen this event. */
  couldSee(handle: string, sequence: number): boolean {
    const part = this.parts.get(handle);
    return part !== undefined && (sequence <= part.sawThrough || part.sawAlone.has(sequence));
  }

  /** Returns what this agent may see now (the eligibility table), or undefined if it is not in the session. */
  visibleTo(handle: string): number[] | undefined {
    const part = this.parts.get(handle);
    if (part === undefined) return undefined;
    const through = part.status === 'left' ? part.leftAt : this.events.length;
    const all = this.events.map(({ sequence }) => sequence).filter((sequence) => sequence <= through);
    if (part.status === 'joined' || (part.status === 'left' && part.hasJoined)) return all;
    const whole = part.status === 'left' ? part.sawThrough : 0;
    return all.filter((sequence) => sequence <= whole || this.#concerns(handle, part, sequence));
  }

  #concerns(handle: string, part: Part, sequence: number): boolean {
    const event = this.events[sequence - 1];
    if (event?.type === 'session.ended') return sequence > (part.firstInvited ?? Number.POSITIVE_INFINITY);
    const payload: unknown = JSON.parse(event?.payload ?? 'null');
    if (event?.type === 'session.invited') return field(payload, 'invitee') === handle;
    return part.status === 'left' && event?.type === 'session.left' && field(payload, 'agent') === handle;
  }

  owedTo(handle: string): number[] {
    const owed = this.parts.get(handle)?.owed;
    return (this.visibleTo(handle) ?? []).filter((sequence) => owed?.has(sequence) === true);
  }
}

function newPart(status: Part['status']): Part {
  return {
    status,
    hasJoined: status === 'joined',
    firstInvited: undefined,
    leftAt: 0,
    wasJoinedAtEnd: false,
    sawThrough: 0,
    sawAlone: new Set(),
    owed: new Set(),
  };
}
