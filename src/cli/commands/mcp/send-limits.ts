import { type LimitName, type LimitRules, openLimits } from '../../../agent/limits.js';
import { putLast } from '../../../kit/bounded-map.js';
import { ID_PREFIX } from '../../../wire/id.js';
import { HOPS, readHops } from '../../../wire/message.js';
import type { Context } from '../../context/context.js';
import { progressPath } from '../../context/progress-path.js';
import { CliError } from '../../errors.js';
import { readLastMessages } from '../session/session-events.js';

/** Keeps a model from sending forever. */
export interface SendLimits {
  /**
   * Before a message: its chain of automatic replies as metadata, and what to call when it was sent or not.
   * @throws CliError `ASP_LIMIT`
   */
  begin(message: Outgoing, signal: AbortSignal): Promise<Permit>;
  /** The session that an earlier call with this key wrote in. */
  findSession(key: unknown): string | undefined;
}

/** A message that a tool is about to send. */
interface Outgoing {
  /** A session; undefined: a new one. */
  readonly sessionId: string | undefined;
  readonly text: string | undefined;
  /** The idempotency name or key, if the caller chose one: repeating the call must send the same metadata. */
  readonly key: string | undefined;
}

/** Calls with an unknown outcome that a repetition may refer to. */
const KEYS_MAX = 100;

interface Permit {
  readonly metadata: readonly string[];
  /** `key`: the one that the client chose for a call that failed. */
  close(wasSent: boolean, key: string | undefined): Promise<void>;
}

/** The same limits as those of `asp run`. Tools do not know about tokens and costs. */
export async function openSendLimits(
  context: Context,
  me: string,
  rules: Omit<LimitRules, 'tokens' | 'cost'>,
): Promise<SendLimits> {
  const path = context.paths.stateDirectory === undefined ? undefined : await progressPath(context, me, 'mcp');
  const limits = await openLimits({ ...rules, tokens: 0, cost: 0 }, context.clock, path);
  const sentBefore = new Map<
    unknown,
    { readonly metadata: readonly string[]; readonly sessionId: string | undefined }
  >();
  return {
    findSession: (key) => sentBefore.get(key)?.sessionId,
    async begin({ sessionId, text, key: given }, signal) {
      const messages = sessionId === undefined ? [] : await readLastMessages({ ...context, signal }, sessionId);
      const own = messages.findLastIndex(({ sender }) => sender === me);
      // Earlier messages from people were counted when this agent wrote.
      for (const message of messages.slice(own + 1)) limits.notice(message);
      const answered = messages.findLast(({ sender }) => sender !== me);
      const message = sessionId === undefined ? undefined : (answered ?? { session_id: sessionId, sender: me });
      const ticket = limits.begin(message);
      if (typeof ticket === 'string') throw limitError(ticket, sessionId);
      const broken = text === undefined ? undefined : ticket.checkText(text);
      if (broken !== undefined) {
        ticket.close(false);
        throw limitError(broken, sessionId);
      }
      const hops = answered === undefined ? [] : [`${HOPS}=${readHops(answered) + 1}`];
      const metadata = given === undefined ? hops : (sentBefore.get(given)?.metadata ?? []);
      return {
        metadata,
        async close(wasSent, key) {
          ticket.close(wasSent);
          if (key !== undefined && given === undefined) putLast(sentBefore, key, { metadata, sessionId }, KEYS_MAX);
          // A count that cannot be saved still applies in this process.
          await limits.written().catch((error: unknown) => context.output.detail(String(error)));
        },
      };
    },
  };
}

/** The session that a target of `send` names; a handle, or several, begin a new one. */
export function parseSession(target: unknown): string | undefined {
  return typeof target === 'string' && target.startsWith(ID_PREFIX.session) ? target : undefined;
}

/** Worded for a person: a model cannot set options. */
const STOP = 'stop here and tell the person you work for.';
const RAISE = ', or the person raises the limit of these tools.';
const CONTINUE: Partial<Record<LimitName, string>> = {
  max_replies: `A message from a person in the session resets the count${RAISE}`,
  max_replies_per_hour: `The count falls within an hour${RAISE}`,
  max_hops: `A new message from a person starts a new chain${RAISE}`,
  repeated: 'The text was the same three times in a row. A message from a person resets this.',
};

function limitError(limit: LimitName, sessionId: string | undefined): CliError {
  return new CliError('ASP_LIMIT', {
    message: `Nothing was sent${sessionId === undefined ? '' : ` to ${sessionId}`}: the limit ${limit} of asp mcp is reached.`,
    why: `${STOP} ${CONTINUE[limit] ?? ''}`,
  });
}
