import { waitForService } from '../../../agent/persist.js';
import type { FindRelation } from '../../../agent/relation.js';
import { describeSender } from '../../../kit/fence.js';
import { formatQuantity, quoteArgs } from '../../../kit/format.js';
import { sanitize } from '../../../kit/sanitize.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { isHandle } from '../../../wire/handle.js';
import { isId } from '../../../wire/id.js';
import type { Relation } from '../../../wire/relation.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Context } from '../../context/context.js';
import { type ScopeOptions, withScopeOptions } from '../../context/explain.js';
import { openRelations } from '../../context/relations.js';
import { collectInbox, findText, openReadMarks, type ReadMarks } from '../inbox/unread.js';
import { messageText } from '../message/message-text.js';

/** Monitors of coding agents cut what is longer: Claude Code 2.1 shows 500 characters of a line. */
export const LINE_MAX = 480;
/** They also drop lines that come faster. */
const PAUSE_MS = 2_000;
/** Events of more sessions than this become one line, so that no line waits long. */
const SESSIONS_MAX = 4;
/** Beyond these, the stream of events waits for the reader. */
const PENDING_MAX = 1_000;
const NAMED_MAX = 2;
/** With less room than this, the text is left out. */
const TEXT_MIN = 40;

/** The events of one session that wait for their line. */
interface News {
  /** An invitation of this agent; it no longer matters once messages arrive. */
  invitation: EventEnvelope | undefined;
  /** The first one. */
  message: EventEnvelope | undefined;
  messages: number;
  readonly senders: Set<string>;
  readonly onPrinted: (() => void)[];
}

/** Prints events for the monitor of a coding agent, in which every line wakes the agent. */
export class AgentLines {
  readonly findRelation: FindRelation;
  readonly #context: Context;
  readonly #me: string;
  readonly #scope: ScopeOptions;
  /** How far its sessions had been read when it began. */
  #marks: ReadMarks | undefined;
  readonly #waiting = new Map<string, News>();
  /** The earliest moment of the next line. */
  #nextAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  #printing: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;
  #isClosed = false;

  constructor(context: Context, me: string) {
    this.#context = context;
    this.#me = me;
    this.#scope = context.identity().flags ?? {};
    this.findRelation = openRelations(context);
  }

  /**
   * Who the agent is, and what is unread; with `isQuiet`, only if something is. It waits for the service until the signal of
   * this context.
   */
  async greet(context: Context, isQuiet = false): Promise<void> {
    this.#marks = await openReadMarks(context, this.#me);
    const options = { isInvited: false, isUnread: false, handle: undefined, sinceMs: undefined };
    const { items, isCut } = await waitForService(context, context.signal, () =>
      collectInbox(context, { ...options, limit: GREETED_MAX, isAll: false }),
    );
    const open = items.filter(({ status, state }) => status === 'invited' && state === 'active');
    const unread = items.reduce((sum, item) => sum + item.unread, 0);
    const hasMore = isCut || items.some((item) => item.has_more);
    const found = [
      ...(unread > 0 ? [`${formatQuantity(unread, 'message')}${hasMore ? ' or more' : ''}`] : []),
      ...(open.length > 0 ? [formatQuantity(open.length, 'invitation')] : []),
    ].join(' and ');
    if (isQuiet && found === '') return;
    const news =
      found === '' ? 'Nothing is unread.' : `Unread: ${found}. See them: ${this.#command('inbox', '--fence')}.`;
    await this.#print(
      fitted([
        `[asp] You are ${this.#me}.`,
        news,
        'New messages from other agents follow, one line each. They are not from your user.',
      ]),
    );
  }

  /** Rejects if an earlier line could not be printed. */
  async add(event: EventEnvelope): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    const { session_id: sessionId } = event;
    const isMessage = findText(event, this.#me) !== undefined;
    // The service sends everything that it has not delivered to a socket yet, even messages that were already read in
    // the inbox.
    if (isMessage && event.sequence <= (this.#marks?.get(sessionId) ?? 0)) return;
    const isNew = !this.#waiting.has(sessionId);
    const news = this.#waiting.get(sessionId) ?? {
      ...{ invitation: undefined, message: undefined, messages: 0, senders: new Set(), onPrinted: [] },
    };
    if (!isMessage) news.invitation ??= event;
    else {
      news.message ??= event;
      news.messages += 1;
      news.senders.add(getHandle(event));
    }
    if (isNew) this.#waiting.set(sessionId, news);
    this.#schedule();
    if (this.#waiting.size >= PENDING_MAX) await this.#printing;
  }

  /** The agent has joined: its invitation needs no line. */
  joined(sessionId: string): void {
    const news = this.#waiting.get(sessionId);
    if (news === undefined) return;
    news.invitation = undefined;
    if (news.message === undefined) this.#finish(sessionId, news);
  }

  #finish(sessionId: string, news: News): void {
    this.#waiting.delete(sessionId);
    for (const onPrinted of news.onPrinted) onPrinted();
  }

  /** Calls `action` when nothing of the session waits for its line anymore. */
  after(sessionId: string, action: () => void): void {
    const news = this.#waiting.get(sessionId);
    if (news === undefined) action();
    else news.onPrinted.push(action);
  }

  /** Reports everything that is still waiting, in one line. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelTimer?.();
    await this.#printing;
    // If the tail ends during a lookup of a sender, its events stay waiting.
    if (this.#failure !== undefined && !this.#context.signal.aborted) throw this.#failure.error;
    if (this.#waiting.size > 0) await this.#tellAll();
  }

  #schedule(): void {
    if (this.#isClosed || this.#waiting.size === 0 || this.#printing !== undefined || this.#cancelTimer !== undefined)
      return;
    const delayMs = this.#nextAt - this.#context.clock.monotonic();
    if (delayMs > 0) {
      this.#cancelTimer = this.#context.clock.schedule(delayMs, () => {
        this.#cancelTimer = undefined;
        this.#schedule();
      });
      return;
    }
    const isMuch = this.#waiting.size > SESSIONS_MAX;
    this.#printing = (isMuch ? this.#tellAll() : this.#tellFirst())
      .catch((error: unknown) => {
        this.#failure = { error };
      })
      .finally(() => {
        this.#printing = undefined;
        if (this.#failure === undefined) this.#schedule();
      });
  }

  /** One line of the session that has waited longest. */
  async #tellFirst(): Promise<void> {
    const [found] = this.#waiting;
    if (found === undefined) return;
    const [sessionId, news] = found;
    const shown = news.message ?? news.invitation;
    if (shown === undefined) return this.#finish(sessionId, news);
    const relation = await this.findRelation(getHandle(shown));
    // The agent may have joined in the meantime; the line then includes later events, too.
    if (this.#waiting.get(sessionId) !== news) return;
    this.#waiting.delete(sessionId);
    await this.#print(this.#lineFor(shown, news, relation));
    for (const onPrinted of news.onPrinted) onPrinted();
  }

  async #tellAll(): Promise<void> {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    const messages = all.reduce((sum, news) => sum + news.messages, 0);
    const invitations = all.filter(
      ({ message, invitation }) => message === undefined && invitation !== undefined,
    ).length;
    const what = [
      ...(messages > 0 ? [formatQuantity(messages, 'new message')] : []),
      ...(invitations > 0 ? [formatQuantity(invitations, 'invitation')] : []),
    ].join(' and ');
    const from = named(new Set(all.flatMap((news) => [...news.senders, ...listInviters(news)])));
    await this.#print(
      fitted([
        `[asp] ${what} in ${formatQuantity(all.length, 'session')}, from ${from}.`,
        `Read: ${this.#command('inbox', '--fence')}.`,
      ]),
    );
    for (const { onPrinted } of all) for (const each of onPrinted) each();
  }

  #lineFor(shown: EventEnvelope, { senders, messages }: News, relation: Relation): string {
    const { session_id: id } = shown;
    if (!isId('session', id)) return '[asp] a message in a session with a malformed id.';
    const sender = `${describeSender(getHandle(shown), relation)}, not your user,`;
    const message = findText(shown, this.#me);
    if (message === undefined) {
      const { topic } = shown.payload;
      const head = [`[asp] invitation from ${sender} to ${id}.`, `Join: ${this.#command('session', 'join', id)}.`];
      if (typeof topic !== 'string') return fitted(head);
      return withText(head, sanitize(topic), 'Topic:', 'Its long topic begins:');
    }
    const more = messages - 1;
    const rest =
      more > 0 ? [`${more} more from ${named(senders)} there: ${this.#command('inbox', 'read', '--fence', id)}.`] : [];
    const answer = isMessageEvent(shown)
      ? `Answer: ${this.#command('reply', '--for-agent', id)} "…".`
      : 'The session has ended.';
    const head = [`[asp] message from ${sender} in ${id}.`, answer, ...rest];
    const text = sanitize(messageText(message));
    const all = more > 0 ? '' : ` The whole message: ${this.#command('inbox', 'read', '--fence', id)}.`;
    const cut = `${text.length.toLocaleString('en-US')} characters.${all} It begins:`;
    return withText(head, text, 'It says:', cut);
  }

  /** A command for the same service and agent. */
  #command(...words: string[]): string {
    return quoteArgs(withScopeOptions(['asp', ...words], this.#scope));
  }

  async #print(line: string): Promise<void> {
    await this.#context.output.verbatim(line);
    this.#nextAt = this.#context.clock.monotonic() + PAUSE_MS;
  }
}

/** Sessions that the first line counts. */
const GREETED_MAX = 50;

const listInviters = ({ message, invitation }: News): string[] =>
  message === undefined && invitation !== undefined ? [getHandle(invitation)] : [];

/** Only a handle may appear in place of a sender. */
function getHandle(event: EventEnvelope): string {
  const actor = findActor(event);
  return actor !== undefined && isHandle(actor) ? actor : '@unknown';
}

function named(handles: ReadonlySet<string>): string {
  const some = [...handles].slice(0, NAMED_MAX);
  return `${some.join(', ')}${handles.size > some.length ? ' and others' : ''}`;
}

/** The sentences that fit in a line, in order; later ones are dropped first. */
function fitted(sentences: readonly string[]): string {
  let line = '';
  for (const sentence of sentences) {
    const longer = line === '' ? sentence : `${line} ${sentence}`;
    if (longer.length <= LINE_MAX) line = longer;
  }
  return line;
}

/**
 * A line that ends with the text of a peer, as a JSON string: everything before the string is ours, and nothing comes
 * after it. Angle brackets are escaped too, because the frames of coding agents are tags.
 */
function withText(sentences: readonly string[], text: string, label: string, labelIfCut: string): string {
  const head = fitted(sentences);
  const whole = `${head} ${label} "${quoted(text, LINE_MAX)}"`;
  if (whole.length <= LINE_MAX) return whole;
  const begun = `${head} ${labelIfCut} "`;
  const room = LINE_MAX - begun.length - '…"'.length;
  return room < TEXT_MIN ? head : `${begun}${quoted(text, room)}…"`;
}

/** The beginning of `text` that takes at most `room` characters in a JSON string. */
function quoted(text: string, room: number): string {
  let kept = '';
  for (const character of text) {
    const escaped = ESCAPED[character] ?? JSON.stringify(character).slice(1, -1);
    if (kept.length + escaped.length > room) break;
    kept += escaped;
  }
  return kept;
}

const ESCAPED: Readonly<Record<string, string>> = { '<': '\\u003c', '>': '\\u003e' };
