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
  readonly invited: readonly string[];
  readonly omitted: readonly string[];
  readonly attachments: readonly string[];
  readonly idempotency_key: string | null;
  readonly attempts: number;
  /** Null where only the credential knows. */
  readonly as: string | null;
  readonly reply?: Message;
}

/** The main id on stdout, or the reply; the rest of the story on stderr. */
export async function showSent(context: Context, result: SendResult): Promise<void> {
  const { output } = context;
  if (output.format === 'human') {
    const to = result.created_session ? result.invited.join(', ') : result.session_id;
    const as = result.as === null ? '' : ` as ${result.as}`;
    const end = result.state === 'ended' ? '; session ended' : '';
    await output.note(`Sent to ${to}${as}${end}.${result.attempts > 1 ? ` (${result.attempts} tries)` : ''}`);
    if (result.omitted.length > 0) await output.note(`Left out: ${result.omitted.join(', ')}.`);
  }
  await output.document(result, (safe) => {
    if (safe.reply !== undefined) return messageText(safe.reply.content);
    return safe.created_session || safe.message_id === null ? safe.session_id : safe.message_id;
  });
}
