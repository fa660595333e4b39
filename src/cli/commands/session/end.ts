import type { Context } from '../../context/context.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { changeSession } from './lifecycle.js';

export interface EndOptions {
  readonly sessionId: string;
}

export function parse(words: Words): EndOptions {
  return { sessionId: readId('session', words.arguments[0] ?? '') };
}

export async function run(context: Context, { sessionId }: EndOptions): Promise<void> {
  await changeSession(context, {
    operation: 'endSession',
    sessionId,
    action: 'end',
    state: 'ended',
    done: `Ended ${sessionId}`,
    refusal: 'only someone who has joined an active session can end it; the service does not tell more.',
  });
}
