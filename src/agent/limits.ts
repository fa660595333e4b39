import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { putLast } from '../kit/bounded-map.js';
import type { Clock } from '../kit/clock.js';
import { parseIfJson } from '../kit/parse-json.js';
import { readIfPresent } from '../kit/private-file.js';
import { createSavedFile, type SavedFile } from '../kit/saved-file.js';
import { readHops } from '../wire/message.js';
import { isOver, nextRun, SAME_TEXT_MAX } from '../wire/reply-limit.js';
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
  return new Counts(rules, clock, path, data);
}

class Counts implements Limits {
  readonly #rules: LimitRules;
  readonly #clock: Clock;
  readonly #file: SavedFile;
  readonly #replies: Map<string, number>;
  /** The latest message of each session whose reply is counted. */
  readonly #last: Map<string, number>;
  /** The latest text of each session, and how many times in a row it answered an automatic reply. */
  readonly #texts: Map<string, { readonly hash: string; readonly count: number }>;
  #sentAt: number[];
  readonly #reserved = new Map<string, number>();
  #reservedInAll = 0;
  #tokens = 0;
  /** What each session has cost so far: the program reports totals. */
  readonly #costs = new Map<string, number>();
  readonly #spent = new Map<string, number>();
  /** The limits that have no effect, because the program does not report usage. */
  readonly #blind = new Set<LimitName>();

  constructor(
    rules: LimitRules,
    clock: Clock,
    path: string | undefined,
    stored: z.infer<typeof CountsJson> | undefined,
  ) {
    this.#rules = rules;
    this.#clock = clock;
    this.#replies = new Map(Object.entries(stored?.replies ?? {}));
    this.#last = new Map(Object.entries(stored?.last ?? {}));
    this.#texts = new Map(Object.entries(stored?.texts ?? {}));
    this.#sentAt = stored?.sent_at ?? [];
    this.#file = createSavedFile(path, () => ({
      replies: Object.fromEntries(this.#replies),
      sent_at: this.#sentAt,
      last: Object.fromEntries(this.#last),
      texts: Object.fromEntries(this.#texts),
    }));
  }

  notice({ session_id: sessionId, sender }: Answered): void {
    if (!this.#rules.humans.includes(sender)) return;
    if (this.#replies.has(sessionId)) this.#setReplies(sessionId, 0);
    if (this.#texts.delete(sessionId)) this.#file.change();
  }

  recover(message: Answered & Pick<Message, 'sequence'>, text: string | undefined): void {
    if (this.#isCounted(message.session_id, message.sequence)) return;
    this.notice(message);
    this.#countReply(message, text, this.#clock.now(), message.sequence);
  }

  goBack(sessionId: string, after: number): void {
    if (this.#isCounted(sessionId, after)) this.#last.set(sessionId, after);
  }

  begin(message: Answered | undefined): LimitName | Ticket {
    const sessionId = message?.session_id;
    const now = this.#clock.now();
    if (message !== undefined) this.notice(message);
    this.#sentAt = this.#sentAt.filter((at) => at > now - HOUR_MS && at <= now);
    const reached = this.#findReached(message);
    if (reached !== undefined) return reached;
    this.#reserve(sessionId, 1);
    let text: string | undefined;
    return {
      checkText: (given) => {
        text = given;
        return message !== undefined && this.#nextText(message, given).count >= SAME_TEXT_MAX ? 'repeated' : undefined;
      },
      spend: (used) => this.#spend(sessionId, used),
      close: (wasSent, answered) => {
        this.#reserve(sessionId, -1);
        if (wasSent) this.#countReply(message, text, now, answered);
      },
    };
  }

  written(): Promise<void> {
    return this.#file.written();
  }

  #findReached(message: Answered | undefined): LimitName | undefined {
    const rules = this.#rules;
    if (message !== undefined) {
      const { session_id: sessionId } = message;
      const count = (this.#replies.get(sessionId) ?? 0) + (this.#reserved.get(sessionId) ?? 0);
      if (isOver(count, rules.replies)) return 'max_replies';
    }
    if (isOver(this.#sentAt.length + this.#reservedInAll, rules.repliesPerHour)) return 'max_replies_per_hour';
    if (message !== undefined && isOver(readHops(message), rules.hops)) return 'max_hops';
    if (isOver(this.#tokens, rules.tokens)) return 'max_tokens';
    return [...this.#spent.values()].some((sum) => isOver(sum, rules.cost)) ? 'max_cost' : undefined;
  }

  #reserve(sessionId: string | undefined, count: number): void {
    this.#reservedInAll += count;
    if (sessionId === undefined) return;
    const next = (this.#reserved.get(sessionId) ?? 0) + count;
    if (next > 0) this.#reserved.set(sessionId, next);
    else this.#reserved.delete(sessionId);
  }

  #spend(sessionId: string | undefined, { tokens, cost }: Usage): readonly LimitName[] {
    this.#tokens += tokens ?? 0;
    if (cost !== null) this.#pay(sessionId, cost);
    const blind: LimitName[] = [];
    if (tokens === null && this.#rules.tokens > 0) blind.push('max_tokens');
    if (cost === null && this.#rules.cost > 0) blind.push('max_cost');
    const unreported = blind.filter((name) => !this.#blind.has(name));
    for (const name of unreported) this.#blind.add(name);
    return unreported;
  }

  #pay(sessionId: string | undefined, { amount, currency }: NonNullable<Usage['cost']>): void {
    const key = `${currency} ${sessionId}`;
    const before = this.#costs.get(key) ?? 0;
    // A session that started over counts from zero again.
    const more = amount < before ? amount : amount - before;
    this.#spent.set(currency, (this.#spent.get(currency) ?? 0) + Math.max(0, more));
    putLast(this.#costs, key, amount, SESSIONS_MAX);
  }

  #isCounted(sessionId: string, sequence: number): boolean {
    return sequence <= (this.#last.get(sessionId) ?? 0);
  }

  #countReply(
    message: Answered | undefined,
    text: string | undefined,
    now: number,
    answered: number | undefined,
  ): void {
    if (message !== undefined) {
      const { session_id: sessionId } = message;
      if (answered !== undefined) {
        if (this.#isCounted(sessionId, answered)) return;
        putLast(this.#last, sessionId, answered, SESSIONS_MAX);
      }
      if (text !== undefined) putLast(this.#texts, sessionId, this.#nextText(message, text), SESSIONS_MAX);
      this.#setReplies(sessionId, (this.#replies.get(sessionId) ?? 0) + 1);
    }
    if (this.#rules.repliesPerHour > 0) this.#sentAt.push(now);
    this.#file.change();
  }

  #setReplies(sessionId: string, count: number): void {
    if (count > 0) putLast(this.#replies, sessionId, count, SESSIONS_MAX);
    else this.#replies.delete(sessionId);
    this.#file.change();
  }

  #nextText(message: Answered, text: string): { readonly hash: string; readonly count: number } {
    const hash = createHash('sha256').update(text).digest('base64url');
    const before = this.#texts.get(message.session_id);
    const { count } = nextRun(before && { text: before.hash, count: before.count }, hash, readHops(message));
    return { hash, count };
  }
}
