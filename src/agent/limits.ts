import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { putLast } from '../kit/bounded-map.js';
import type { Clock } from '../kit/clock.js';
import { parseIfJson } from '../kit/parse-json.js';
import { readIfPresent } from '../kit/private-file.js';
import { createSavedFile } from '../kit/saved-file.js';
import { readHops } from '../wire/message.js';
import type { Message } from '../wire/schemas/message.js';

/** How much an agent may do before a person has to take a look. Zero: no limit. */
export interface LimitRules {
  /** Replies in a session since the last message of a human. */
  readonly replies: number;
  readonly repliesPerHour: number;
  /** Replies to replies: how long a chain of answering programs may get. */
  readonly hops: number;
  /** Tokens of all turns of this run together. */
  readonly tokens: number;
  /** The highest cost of all turns of this run together, in each currency. */
  readonly cost: number;
  /** Agents that people use to write messages. */
  readonly humans: readonly string[];
}

/** Which limit stopped the agent; `loop_guard` is that of the service. */
export type LimitName =
  | 'max_replies'
  | 'max_replies_per_hour'
  | 'max_hops'
  | 'max_tokens'
  | 'max_cost'
  | 'repeated'
  | 'loop_guard';

/** These counts end with the run: the next one starts from zero. */
export const RUN_LIMITS: readonly LimitName[] = ['max_tokens', 'max_cost'];

/** The message that a reply answers. */
type Answered = Pick<Message, 'session_id' | 'sender' | 'metadata'>;

/** What a turn used, as far as the program reports it. */
interface Usage {
  readonly tokens: number | null;
  /** For the program's session so far. */
  readonly cost: { readonly amount: number; readonly currency: string } | null;
}

/**
 * A slot for a reply, reserved before the reply is made, so that turns of several sessions cannot exceed a limit
 * together.
 */
export interface Ticket {
  /** The limit that this reply text would exceed; otherwise the text counts once the reply is sent. */
  checkText(text: string): LimitName | undefined;
  /**
   * Counts what a turn used. Returns, only once each, the limits that have no effect because the program does not
   * report usage.
   */
  spend(used: Usage): readonly LimitName[];
  /**
   * Releases the slot; a reply that was sent is counted from now on, even across runs. With the sequence of the message
   * that it answers, it is counted only once.
   */
  close(wasSent: boolean, answered?: number): void;
}

/** Counts replies, and stops them. */
export interface Limits {
  /** The limit that was reached, or a ticket for an answer to a message; undefined: a message that begins a session. */
  begin(message: Answered | undefined): LimitName | Ticket;
  /** Resets the count of a session if a human wrote the message. */
  notice(message: Answered): void;
  /** Counts the reply that an earlier run sent, unless that run did: it may have been killed in between. */
  recover(message: Answered & Pick<Message, 'sequence'>, text: string | undefined): void;
  /** The service was restored: later sequences in the session are gone and come again. */
  goBack(sessionId: string, after: number): void;
  /** Resolves when the counts are on disk, so that a restart does not reset them. */
  written(): Promise<void>;
}

const HOUR_MS = 60 * 60_000;
const SESSIONS_MAX = 1_000;
/** The same text as an automatic reply to automatic replies this many times in a row is a loop. */
const SAME_TEXT_MAX = 3;

const CountsJson = z.looseObject({
  replies: z.record(z.string(), z.int().check(z.nonnegative())),
  sent_at: z.array(z.int()),
  last: z.optional(z.record(z.string(), z.int())),
  texts: z.optional(z.record(z.string(), z.looseObject({ hash: z.string(), count: z.int().check(z.positive()) }))),
});

/** Without a path, the counts last as long as the process. */
export async function openLimits(rules: LimitRules, clock: Clock, progressPath: string | undefined): Promise<Limits> {
  const path = progressPath === undefined ? undefined : `${progressPath.replace(/\.json$/, '')}.limits.json`;
  const { data } = CountsJson.safeParse(parseIfJson(path === undefined ? undefined : await readIfPresent(path)));
  const replies = new Map(Object.entries(data?.replies ?? {}));
  /** The latest message of each session whose reply is counted. */
  const last = new Map(Object.entries(data?.last ?? {}));
  /** The latest text of each session, and how many times in a row it answered an automatic reply. */
  const texts = new Map(Object.entries(data?.texts ?? {}));
  let sentAt = data?.sent_at ?? [];
  const reserved = new Map<string, number>();
  let reservedInAll = 0;
  let tokens = 0;
  /** What each session has cost so far: the program reports totals. */
  const costs = new Map<string, number>();
  const spent = new Map<string, number>();
  const blind = new Set<LimitName>();

  const { change, written } = createSavedFile(path, () => ({
    replies: Object.fromEntries(replies),
    sent_at: sentAt,
    last: Object.fromEntries(last),
    texts: Object.fromEntries(texts),
  }));
  const setReplies = (sessionId: string, count: number): void => {
    if (count > 0) putLast(replies, sessionId, count, SESSIONS_MAX);
    else replies.delete(sessionId);
    change();
  };
  const reserve = (sessionId: string | undefined, count: number): void => {
    reservedInAll += count;
    if (sessionId === undefined) return;
    const next = (reserved.get(sessionId) ?? 0) + count;
    if (next > 0) reserved.set(sessionId, next);
    else reserved.delete(sessionId);
  };
  const pay = (sessionId: string | undefined, { amount, currency }: NonNullable<Usage['cost']>): void => {
    const key = `${currency} ${sessionId}`;
    const before = costs.get(key) ?? 0;
    // A session that started over counts from zero again.
    const more = amount < before ? amount : amount - before;
    spent.set(currency, (spent.get(currency) ?? 0) + Math.max(0, more));
    putLast(costs, key, amount, SESSIONS_MAX);
  };
  const notice = ({ session_id: sessionId, sender }: Answered): void => {
    if (!rules.humans.includes(sender)) return;
    if (replies.has(sessionId)) setReplies(sessionId, 0);
    if (texts.delete(sessionId)) change();
  };
  const isCounted = (sessionId: string, sequence: number): boolean => sequence <= (last.get(sessionId) ?? 0);
  const nextText = (message: Answered, text: string) => {
    const hash = createHash('sha256').update(text).digest('base64url');
    const before = texts.get(message.session_id);
    return { hash, count: readHops(message) > 0 && before?.hash === hash ? before.count + 1 : 1 };
  };
  const countReply = (
    message: Answered | undefined,
    text: string | undefined,
    now: number,
    answered: number | undefined,
  ): void => {
    const sessionId = message?.session_id;
    if (sessionId !== undefined && answered !== undefined) {
      if (isCounted(sessionId, answered)) return;
      putLast(last, sessionId, answered, SESSIONS_MAX);
    }
    if (message !== undefined && text !== undefined) {
      putLast(texts, message.session_id, nextText(message, text), SESSIONS_MAX);
    }
    if (sessionId !== undefined) setReplies(sessionId, (replies.get(sessionId) ?? 0) + 1);
    if (rules.repliesPerHour > 0) sentAt.push(now);
    change();
  };
  const isFull = (sessionId: string): boolean =>
    isOver((replies.get(sessionId) ?? 0) + (reserved.get(sessionId) ?? 0), rules.replies);
  const isOver = (count: number, limit: number): boolean => limit > 0 && count >= limit;

  return {
    notice,
    recover(message, text) {
      const { session_id: sessionId, sequence } = message;
      if (isCounted(sessionId, sequence)) return;
      notice(message);
      countReply(message, text, clock.now(), sequence);
    },
    goBack(sessionId, after) {
      if (isCounted(sessionId, after)) last.set(sessionId, after);
    },
    begin(message) {
      const sessionId = message?.session_id;
      const now = clock.now();
      if (message !== undefined) notice(message);
      sentAt = sentAt.filter((at) => at > now - HOUR_MS && at <= now);
      if (sessionId !== undefined && isFull(sessionId)) return 'max_replies';
      if (isOver(sentAt.length + reservedInAll, rules.repliesPerHour)) return 'max_replies_per_hour';
      if (message !== undefined && isOver(readHops(message), rules.hops)) return 'max_hops';
      if (isOver(tokens, rules.tokens)) return 'max_tokens';
      if ([...spent.values()].some((sum) => isOver(sum, rules.cost))) return 'max_cost';
      reserve(sessionId, 1);
      let text: string | undefined;
      return {
        checkText(given) {
          text = given;
          return message !== undefined && nextText(message, given).count >= SAME_TEXT_MAX ? 'repeated' : undefined;
        },
        spend(used) {
          tokens += used.tokens ?? 0;
          if (used.cost !== null) pay(sessionId, used.cost);
          const unknown: readonly LimitName[] = [
            ...(used.tokens === null && rules.tokens > 0 ? (['max_tokens'] as const) : []),
            ...(used.cost === null && rules.cost > 0 ? (['max_cost'] as const) : []),
          ].filter((name) => !blind.has(name));
          for (const name of unknown) blind.add(name);
          return unknown;
        },
        close(wasSent, answered) {
          reserve(sessionId, -1);
          if (wasSent) countReply(message, text, now, answered);
        },
      };
    },
    written,
  };
}
