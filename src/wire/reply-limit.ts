import { OWN_RATE_LIMIT } from './limit.js';
import { isFromPerson, readHops, toText } from './message.js';
import type { Message } from './schemas/message.js';

/** Replies of an agent in a session since the last message of a person. */
export const REPLIES_DEFAULT = 20;
/** Automatic replies to automatic replies. */
export const HOPS_DEFAULT = 50;
/** The same text as an automatic reply to automatic replies this many times in a row is a loop. */
export const SAME_TEXT_MAX = 3;

/** Messages of a model in an hour, in all sessions together. */
export const MODEL_MESSAGES_PER_HOUR = OWN_RATE_LIMIT.sendAsModel.count;

/** Zero: no limit. */
export const isOver = (count: number, limit: number): boolean => limit > 0 && count >= limit;

/** A text, and how many times in a row it answered an automatic reply. */
export interface TextRun {
  readonly text: string;
  readonly count: number;
}

/** The run of texts after another reply. `answeredHops` are those of the message that it answers. */
export function nextRun(before: TextRun | undefined, text: string, answeredHops: number): TextRun {
  return { text, count: answeredHops > 0 && before?.text === text ? before.count + 1 : 1 };
}

/** A limit that a session's log alone can show. */
type LogLimit = 'max_replies' | 'max_hops' | 'repeated';

/** A limit for a model, which cannot raise it. */
export type ReplyLimit = LogLimit | 'max_replies_per_hour';

/** What a limit needs to know about a message of this agent. */
export interface Said {
  readonly content: string | readonly object[];
  readonly metadata?: Message['metadata'];
}

/**
 * The limit that another message of an agent would exceed. `own` are its messages in the session since the last one of a
 * person, in order.
 */
export function findReplyLimit(own: readonly Said[], next: Said): LogLimit | undefined {
  if (isOver(own.length, REPLIES_DEFAULT)) return 'max_replies';
  const answeredHops = (message: Said): number => Math.max(0, readHops(message) - 1);
  if (isOver(answeredHops(next), HOPS_DEFAULT)) return 'max_hops';
  let run: TextRun | undefined;
  for (const message of [...own, next]) run = nextRun(run, toText(message.content), answeredHops(message));
  return run !== undefined && run.count >= SAME_TEXT_MAX ? 'repeated' : undefined;
}

/** Collects what {@link findReplyLimit} compares. */
export interface OwnMessages {
  /** In order. */
  readonly own: readonly Said[];
  /** Takes the next earlier message. Returns whether the ones before it matter too. */
  add(message: Said & Pick<Message, 'sender'>): Promise<boolean>;
}

/**
 * For messages from the last one backward. A peer could claim that a person wrote each of its messages, so `isTrusted`
 * says whose claims count.
 */
export function collectOwn(me: string, isTrusted: (handle: string) => Promise<boolean>): OwnMessages {
  const own: Said[] = [];
  return {
    own,
    async add(message) {
      if (isFromPerson(message) && (await isTrusted(message.sender))) return false;
      if (message.sender === me) own.unshift(message);
      return own.length < REPLIES_DEFAULT;
    },
  };
}

const WHY: Readonly<Record<ReplyLimit, string>> = {
  max_replies: `this agent has sent ${REPLIES_DEFAULT} messages since the last one from a person.`,
  max_replies_per_hour: `this agent has sent ${MODEL_MESSAGES_PER_HOUR} messages within an hour.`,
  max_hops: `the chain has ${HOPS_DEFAULT} automatic replies.`,
  repeated: `the text was the same ${SAME_TEXT_MAX} times in a row.`,
};

/** Why a message was refused, for a model, which cannot raise a limit, and how to continue, for its person. */
export const describeLimit = (limit: ReplyLimit): string =>
  `${WHY[limit]} Stop here and tell the person you work for. ${limit === 'max_replies_per_hour' ? 'The count falls within an hour.' : 'To continue, someone of the same owner, or on the allowlist, writes in the dashboard or with asp chat.'}`;
