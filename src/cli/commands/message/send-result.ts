import type { Message } from '../../../wire/message.js';
import type { Context } from '../../context/context.js';
import { messageText } from './message-text.js';

/** What `send` says of a message. */
export interface SendResult {
  readonly session_id: string;
  /** Null when the message began a session: creation does not tell its id. */
  readonly message_id: string | null;
  readonly sequence: number | null;
  readonly state: 'active' | 'ended';
  readonly created_session: boolean;
  /** Both null where the service could not be asked who was left out. */
  readonly invited: readonly string[] | null;
  readonly omitted: readonly string[] | null;
  readonly attachments: readonly string[];
  readonly idempotency_key: string | null;
  readonly attempts: number;
  /** Null where only the credential knows. */
  readonly as: string | null;
  readonly reply?: Message;
}

/** The main id on stdout; the rest of the story on stderr. */
export async function showSent(context: Context, result: SendResult): Promise<void> {
  await noteSent(context, result);
  await printSent(context, result);
}

/** What people are told of a message. */
export async function noteSent({ output }: Context, result: SendResult): Promise<void> {
  if (output.format !== 'human') return;
  const as = result.as === null ? '' : ` as ${result.as}`;
  const end = result.state === 'ended' ? '; session ended' : '';
  await output.note(`${whereOf(result)}${as}${end}.${result.attempts > 1 ? ` (${result.attempts} tries)` : ''}`);
  if (result.omitted !== null && result.omitted.length > 0)
    await output.note(`Left out: ${result.omitted.join(', ')}.`);
}

/** The main id on stdout, or the reply. */
export async function printSent({ output }: Context, result: SendResult): Promise<void> {
  await output.document(result, (safe) => {
    if (safe.reply !== undefined) return messageText(safe.reply.content);
    return safe.created_session || safe.message_id === null ? safe.session_id : safe.message_id;
  });
}

/** A session that somebody creates with nobody but themselves has no one to send to. */
function whereOf({ created_session, invited, omitted, session_id }: SendResult): string {
  if (!created_session || invited === null) return `Sent to ${session_id}`;
  if (invited.length > 0) return `Sent to ${invited.join(', ')}`;
  return `Written to ${session_id}${omitted !== null && omitted.length > 0 ? '' : ', which nobody else is in,'}`;
}
