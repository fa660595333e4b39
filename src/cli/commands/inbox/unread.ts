import { CursorsJson } from '../../../agent/cursors.js';
import { createTakenReports } from '../../../agent/taken-reports.js';
import { messageOf } from '../../../kit/format.js';
import { fileFault, readIfPresent, replaceFile } from '../../../kit/private-file.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { LIST_LIMIT_MAX } from '../../../wire/limit.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import { Message } from '../../../wire/schemas/message.js';
import type { Session } from '../../../wire/schemas/session.js';
import type { Context } from '../../context/context.js';
import { progressPath } from '../../context/progress-path.js';
import type { ItemOf } from '../schema/output-shapes.js';
import { readSessionEvents } from '../session/session-events.js';
import type { InboxOptions } from './inbox.js';

/** How many of the latest events of a session are checked; unread ones before them are not counted. */
const WINDOW = 200;
/** How many sessions are checked by default. */
const SCANNED_MAX = 200;
const AT_A_TIME = 8;

/** A session with something new. */
export type InboxItem = ItemOf<'inbox'>;

interface Inbox {
  readonly items: readonly InboxItem[];
  /** Whether there are sessions that were not checked. */
  readonly isCut: boolean;
}

/** The sessions with something new, the most recently changed first. */
export async function collectInbox(context: Context, options: InboxOptions): Promise<Inbox> {
  const me = await context.actingHandle();
  const marks = await openReadMarks(context, me);
  const items: InboxItem[] = [];
  let scanned = 0;
  let isFull = false;
  const client = await context.client();
  const query = { limit: LIST_LIMIT_MAX };
  for await (const page of client.pages('listSessions', { query, signal: context.signal })) {
    for (let at = 0; at < page.sessions.length && !isFull; at += AT_A_TIME) {
      const some = page.sessions.slice(at, at + AT_A_TIME);
      const found = await Promise.all(some.map((session) => findNews(context, session, me, marks)));
      items.push(...(found.filter((item) => item !== undefined && isWanted(item, options)) as InboxItem[]));
      scanned += some.length;
      const isLast = page.next_cursor === null && at + AT_A_TIME >= page.sessions.length;
      isFull = !isLast && !options.isAll && (items.length >= options.limit || scanned >= SCANNED_MAX);
    }
    if (isFull) break;
  }
  await marks.save();
  const kept = options.isAll ? items : items.slice(0, options.limit);
  return { items: kept, isCut: isFull || kept.length < items.length };
}

const OFTEN_OWN = ['session.invited', 'session.joined'];

const isInvitation = ({ status, state }: InboxItem): boolean => status === 'invited' && state === 'active';

function isWanted(item: InboxItem, { isInvited, isUnread, handle, sinceMs }: InboxOptions): boolean {
  if (handle !== undefined && !item.with.includes(handle)) return false;
  if (sinceMs !== undefined && item.last_event.created_at < sinceMs) return false;
  if (!isInvited && !isUnread) return true;
  return (isInvited && isInvitation(item)) || (isUnread && item.unread > 0);
}

/**
 * The unread part of a session; undefined if there is none. A session whose last message is the agent's own is not read
 * again.
 */
async function findNews(
  context: Context,
  session: Session,
  me: string,
  marks: ReadMarks,
): Promise<InboxItem | undefined> {
  const { id, state, topic, participants, last_sequence: last } = session;
  const status = participants.find(({ handle }) => handle === me)?.status;
  if (status === undefined || status === 'left') return undefined;
  // A service that was restored from a backup numbers new events like those that were lost.
  const mark = last !== undefined && last < marks.get(id) ? 0 : marks.get(id);
  if (last !== undefined && last <= mark) return undefined;
  const after = Math.max(mark, (last ?? 0) - WINDOW);
  const events: EventEnvelope[] = [];
  for await (const event of readSessionEvents(context, id, after)) {
    events.push(event);
    if (events.length > WINDOW) events.shift();
  }
  const answered = events.findLast((event) => isMessageEvent(event) && findActor(event) === me)?.sequence;
  // Without a name, it may be this agent who came or invited.
  const isNews = (event: EventEnvelope): boolean =>
    findActor(event) !== undefined || status === 'invited' || !OFTEN_OWN.includes(event.type);
  const fresh = events.filter(
    (event) => event.sequence > (answered ?? mark) && findActor(event) !== me && isNews(event),
  );
  const texts = fresh.filter((event) => findText(event, me) !== undefined);
  const isHidden = status === 'invited' && state === 'ended' && texts.length === 0;
  const latest = texts.at(-1) ?? fresh.at(-1);
  if (latest === undefined || isHidden) {
    const end = events.at(-1)?.sequence;
    if (end !== undefined) marks.advance(id, end);
    return undefined;
  }
  return {
    session_id: id,
    state,
    topic,
    status,
    with: participants.map(({ handle }) => handle).filter((handle) => handle !== me),
    unread: texts.length,
    has_more: answered === undefined && after > mark,
    last_event: latest,
  };
}

/** The message in an event: a message event, or the invitation to a session that ended with its only message. */
export function findText(event: EventEnvelope, me: string): Message | undefined {
  if (isMessageEvent(event)) return event.payload;
  const { invitee, initial_message: initial } = event.payload;
  const isOurs = event.type === 'session.invited' && invitee === me;
  return isOurs ? Message.safeParse(initial).data : undefined;
}

/** The unread messages of a session, oldest first. */
export interface Unread {
  readonly session_id: string;
  readonly messages: readonly Message[];
  /** The number of further unread messages. */
  readonly unread_left: number;
}

/** Maximum number of messages at a time. */
const READ_MAX = 200;

/** The unread messages of a session. Call `markRead` once they have reached their reader. */
export async function readUnread(
  context: Context,
  sessionId: string,
): Promise<{ readonly unread: Unread; readonly markRead: () => Promise<void> }> {
  const me = await context.actingHandle();
  const marks = await openReadMarks(context, me);
  let messages: Message[] = [];
  let left = 0;
  let end = 0;
  let isJoined = false;
  for await (const event of readSessionEvents(context, sessionId, marks.get(sessionId))) {
    const message = findText(event, me);
    isJoined ||= isMessageEvent(event);
    if (message?.sender === me) {
      messages = [];
      left = 0;
    } else if (message !== undefined && messages.length < READ_MAX) messages.push(message);
    else if (message !== undefined) left += 1;
    if (left === 0) end = event.sequence;
  }
  return {
    unread: { session_id: sessionId, messages, unread_left: left },
    async markRead() {
      marks.advance(sessionId, end);
      const reports = createTakenReports(context, () => context.client());
      // The message of an invitation is not in a session that this agent has joined.
      for (const message of messages) if (isJoined) reports.note(sessionId, message.sequence);
      await Promise.all([marks.save(), reports.settle()]);
    },
  };
}

/** The number of sessions to remember; those read longest ago are dropped. */
const MARKS_MAX = 2000;

/** How far a person has read each session. */
export interface ReadMarks {
  get(sessionId: string): number;
  advance(sessionId: string, sequence: number): void;
  /**
   * Saves the marks and keeps those that another process saved in the meantime; prints a note if the file cannot be written.
   */
  save(): Promise<void>;
}

/** The marks of an agent, kept on this machine; without a home they last as long as the command. */
export async function openReadMarks(context: Context, me: string): Promise<ReadMarks> {
  const path = context.paths.stateDirectory === undefined ? undefined : await progressPath(context, me, 'inbox');
  const marks = await readMarks(path);
  const changed = new Map<string, number>();
  const get = (sessionId: string): number => changed.get(sessionId) ?? marks.get(sessionId) ?? 0;
  return {
    get,
    advance(sessionId, sequence) {
      if (sequence > get(sessionId)) changed.set(sessionId, sequence);
    },
    async save() {
      if (path === undefined || changed.size === 0) return;
      const kept = await readMarks(path);
      for (const [sessionId, sequence] of changed) {
        const before = kept.get(sessionId) ?? 0;
        kept.delete(sessionId);
        kept.set(sessionId, Math.max(before, sequence));
      }
      const sessions = Object.fromEntries([...kept].slice(-MARKS_MAX));
      try {
        await replaceFile(path, `${JSON.stringify({ sessions })}\n`);
      } catch (error) {
        const why = fileFault(error) ?? messageOf(error);
        await context.output.note(`Could not save your read position: ${why}.`);
      }
    },
  };
}

/** A damaged file is treated like a missing one: everything is unread again. */
async function readMarks(path: string | undefined): Promise<Map<string, number>> {
  try {
    const text = path === undefined ? undefined : await readIfPresent(path);
    return new Map(text === undefined ? [] : Object.entries(CursorsJson.parse(JSON.parse(text)).sessions));
  } catch {
    return new Map();
  }
}
