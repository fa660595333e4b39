import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readHandles, readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { aboutVerb, showChange } from './lifecycle.js';

export interface ReopenOptions {
  readonly sessionId: string;
  readonly handles: readonly string[];
  readonly message: string | undefined;
}

export function parse(words: Words): ReopenOptions {
  const [session = '', ...handles] = words.arguments;
  const message = words.text('message');
  if (message === '') throw new UsageError('The message is empty.');
  return { sessionId: readId('session', session), handles: readHandles(handles), message };
}

export async function run(context: Context, { sessionId, handles, message }: ReopenOptions): Promise<void> {
  const path = { session_id: sessionId };
  const body = {
    ...(handles.length > 0 && { invite: [...handles] }),
    ...(message !== undefined && { initial_message: { content: message } }),
  };
  if (context.globals.isDryRun) return printRequest(context, 'reopenSession', { path, body });
  const about = aboutVerb({
    sessionId,
    action: 'reopen',
    refusal: 'only someone who was joined when the session ended can reopen it; the service does not tell more.',
  });
  const { idempotencyKey } = await write(context, 'reopenSession', { path, body }, about);
  const result = {
    session_id: sessionId,
    action: 'reopen',
    state: 'active',
    idempotency_key: idempotencyKey ?? null,
    as: (await context.knownHandle()) ?? null,
  } as const;
  await showChange(context, result, `Reopened ${sessionId}`);
}
