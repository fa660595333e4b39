/**
 * A session as the specification describes it, in a few lines and without a database. Each agent is named by a letter.
 */
export interface ModelEvent {
  type: string;
  subject?: string;
}
interface Part {
  status: 'invited' | 'joined' | 'left';
  hasJoined: boolean;
  firstInvited: number;
  left: number;
  /** The last event that it saw as a joined participant before it was invited again. */
  joinedThrough: number;
  wasJoinedAtEnd: boolean;
}

const NOBODY = { hasJoined: false, firstInvited: 0, left: 0, joinedThrough: 0, wasJoinedAtEnd: false };

export class SessionModel {
  state: 'active' | 'ended' = 'active';
  readonly parts = new Map<string, Part>();
  readonly events: ModelEvent[] = [];
  readonly blocks = new Set<string>();
  /** The last event before the latest reopening. */
  #sawUpTo = 0;

  constructor(creator: string, invitees: string[], says: boolean, ends: boolean) {
    this.parts.set(creator, {
      ...NOBODY,
      status: 'joined',
      hasJoined: true,
    });
    for (const invitee of invitees) this.#invite(invitee);
    if (says) this.events.push({ type: 'session.message' });
    if (ends) this.#end();
  }

  isBlocked(a: string, b: string): boolean {
    return this.blocks.has(a + b) || this.blocks.has(b + a);
  }

  join(caller: string): boolean {
    const part = this.parts.get(caller);
    if (this.state !== 'active' || part === undefined || part.status === 'left') return false;
    if (part.status === 'joined') return true;
    Object.assign(part, { status: 'joined', hasJoined: true });
    this.events.push({ type: 'session.joined' });
    return true;
  }

  invite(caller: string, handles: string[]): string[] | undefined {
    if (this.state !== 'active' || this.parts.get(caller)?.status !== 'joined') return undefined;
    const invited = [...new Set(handles)].filter(
      (handle) =>
        handle !== caller && !this.isBlocked(caller, handle) && (this.parts.get(handle)?.status ?? 'left') === 'left',
    );
    for (const handle of invited) this.#invite(handle);
    return invited;
  }

  send(caller: string): boolean {
    if (this.state !== 'active' || this.parts.get(caller)?.status !== 'joined') return false;
    this.events.push({ type: 'session.message' });
    return true;
  }

  leave(caller: string): boolean {
    if (this.parts.get(caller)?.status !== 'joined') return false;
    this.#leave(caller);
    return true;
  }

  end(caller: string): boolean {
    if (this.state !== 'active' || this.parts.get(caller)?.status !== 'joined') return false;
    this.#end();
    return true;
  }

  reopen(caller: string, handles: string[], says: boolean): boolean {
    const part = this.parts.get(caller);
    if (this.state !== 'ended' || part?.wasJoinedAtEnd !== true) return false;
    this.state = 'active';
    for (const each of this.parts.values()) each.wasJoinedAtEnd = false;
    Object.assign(part, { status: 'joined', hasJoined: true });
    const earlier = [...this.parts.keys()].filter((handle) => handle !== caller);
    for (const handle of earlier) {
      const other = this.parts.get(handle);
      if (other && this.isBlocked(caller, handle) && other.status !== 'left')
        Object.assign(other, { status: 'left', left: this.events.length });
    }
    this.#sawUpTo = this.events.length;
    this.events.push({ type: 'session.reopened' });
    const fresh = [...new Set(handles)].filter((handle) => !this.parts.has(handle));
    for (const handle of [...earlier, ...fresh]) if (!this.isBlocked(caller, handle)) this.#invite(handle);
    if (says) this.events.push({ type: 'session.message' });
    return true;
  }

  block(caller: string, other: string): void {
    this.blocks.add(caller + other);
    const both = [this.parts.get(caller)?.status ?? 'left', this.parts.get(other)?.status ?? 'left'];
    if (this.state === 'active' && !both.includes('left')) this.#leave(other);
  }

  unblock(caller: string, other: string): void {
    this.blocks.delete(caller + other);
  }

  /** Returns the sequences that an agent may see now, or undefined if the session does not exist for it. */
  visible(viewer: string): number[] | undefined {
    const part = this.parts.get(viewer);
    if (part === undefined) return undefined;
    const numbers = this.events.map((_, index) => index + 1);
    if (part.status === 'joined') return numbers;
    if (part.status === 'left' && part.hasJoined) return numbers.filter((number) => number <= part.left);
    const whole = part.status === 'left' ? part.joinedThrough : 0;
    return numbers.filter((number) => {
      const event = this.events[number - 1];
      if (number <= whole) return true;
      if (part.status === 'left' && number > part.left) return false;
      if (event?.type === 'session.ended') return number > part.firstInvited;
      const own = part.status === 'left' ? ['session.invited', 'session.left'] : ['session.invited'];
      return event?.subject === viewer && own.includes(event.type);
    });
  }

  #invite(handle: string): void {
    this.events.push({ type: 'session.invited', subject: handle });
    const part = this.parts.get(handle);
    if (part === undefined)
      this.parts.set(handle, {
        ...NOBODY,
        status: 'invited',
        firstInvited: this.events.length,
      });
    else {
      const firstInvited = part.firstInvited === 0 ? this.events.length : part.firstInvited;
      if (part.status === 'joined') part.joinedThrough = this.#sawUpTo;
      else if (part.hasJoined) part.joinedThrough = part.left;
      Object.assign(part, { status: 'invited', hasJoined: false, firstInvited });
    }
  }

  #leave(handle: string): void {
    this.events.push({ type: 'session.left', subject: handle });
    Object.assign(this.parts.get(handle) ?? {}, { status: 'left', left: this.events.length });
  }

  #end(): void {
    this.state = 'ended';
    this.events.push({ type: 'session.ended' });
    for (const part of this.parts.values()) part.wasJoinedAtEnd = part.status === 'joined';
  }
}
