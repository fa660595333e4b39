/**
 * The States table and the eligibility table as a few lines of plain code: one session, its participants, its log.
 * Tests compare a service with this model, command by command.
 */
type Status = 'invited' | 'joined' | 'left';

interface ModelEvent {
  readonly type: string;
  /** The agent concerned: the one that was invited, joined, left, spoke, ended, or reopened. */
  readonly who: string;
}

interface Row {
  status: Status;
  wasJoinedAtEnd: boolean;
  /** The sequence of its latest session.left. */
  leftAt: number;
}

export interface SessionModel {
  readonly events: readonly ModelEvent[];
  readonly state: 'active' | 'ended';
  statusOf(who: string): Status | undefined;
  /** Each verb returns the expected status code. */
  join(who: string): number;
  leave(who: string): number;
  send(who: string): number;
  end(who: string): number;
  /** Returns the agents that become invited, or undefined for a denial. */
  invite(who: string, invitees: readonly string[]): readonly string[] | undefined;
  reopen(who: string, invitees: readonly string[]): number;
  /**
   * Returns the sequences that this agent may see, or undefined if the service must answer that no such session exists.
   */
  visibleTo(who: string): readonly number[] | undefined;
}

export function createSessionModel(creator: string, invitees: readonly string[]): SessionModel {
  const rows = new Map<string, Row>([[creator, { status: 'joined', wasJoinedAtEnd: false, leftAt: 0 }]]);
  const events: ModelEvent[] = [];
  let state: 'active' | 'ended' = 'active';

  const add = (type: string, who: string): number => events.push({ type, who });
  const isActive = (who: string): boolean => state === 'active' && rows.get(who)?.status === 'joined';
  const inviteAll = (handles: readonly string[]): readonly string[] => {
    const accepted = [...new Set(handles)].filter((handle) => {
      const status = rows.get(handle)?.status;
      return status === undefined || status === 'left';
    });
    for (const handle of accepted) {
      const row = rows.get(handle);
      rows.set(handle, { wasJoinedAtEnd: false, leftAt: 0, ...row, status: 'invited' });
      add('session.invited', handle);
    }
    return accepted;
  };

  inviteAll(invitees.filter((handle) => handle !== creator));
  return {
    events,
    get state() {
      return state;
    },
    statusOf: (who) => rows.get(who)?.status,
    join(who) {
      const row = rows.get(who);
      if (state !== 'active' || row === undefined || row.status === 'left') return 404;
      if (row.status === 'invited') add('session.joined', who);
      row.status = 'joined';
      return 200;
    },
    leave(who) {
      const row = rows.get(who);
      if (row?.status !== 'joined') return 404;
      row.status = 'left';
      row.leftAt = add('session.left', who);
      return 200;
    },
    send(who) {
      if (!isActive(who)) return 404;
      add('session.message', who);
      return 201;
    },
    end(who) {
      if (!isActive(who)) return 404;
      state = 'ended';
      for (const row of rows.values()) row.wasJoinedAtEnd = row.status === 'joined';
      add('session.ended', who);
      return 200;
    },
    invite: (who, handles) => (isActive(who) ? inviteAll(handles) : undefined),
    reopen(who, handles) {
      const caller = rows.get(who);
      if (state !== 'ended' || caller?.wasJoinedAtEnd !== true) return 404;
      state = 'active';
      caller.status = 'joined';
      add('session.reopened', who);
      for (const [handle, row] of rows) {
        if (handle === who) continue;
        row.status = 'invited';
        add('session.invited', handle);
      }
      inviteAll(handles);
      return 200;
    },
    visibleTo(who) {
      const row = rows.get(who);
      if (row === undefined) return undefined;
      const numbered = events.map((event, index) => ({ ...event, sequence: index + 1 }));
      if (row.status === 'joined') return numbered.map(({ sequence }) => sequence);
      if (row.status === 'left')
        return numbered.map(({ sequence }) => sequence).filter((sequence) => sequence <= row.leftAt);
      return visibleToInvited(who, numbered);
    },
  };
}

/** Returns the agent's own invitations, and the ends after the first one. */
function visibleToInvited(who: string, events: readonly (ModelEvent & { readonly sequence: number })[]): number[] {
  const own = events.filter(({ type, who: invitee }) => type === 'session.invited' && invitee === who);
  const first = own[0]?.sequence ?? Number.POSITIVE_INFINITY;
  const ends = events.filter(({ type, sequence }) => type === 'session.ended' && sequence > first);
  return [...own, ...ends].map(({ sequence }) => sequence).sort((one, two) => one - two);
}
