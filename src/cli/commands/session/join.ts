import type { Context } from '../../context/context.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { changeSession } from './lifecycle.js';

export interface JoinOptions {
  readonly sessionId: string;
}

export function parse(words: Words): JoinOptions {
  return { sessionId: readId('session', words.arguments[0] ?? '') };
}

export async function run(context: Context, { sessionId }: JoinOptions): Promise<void> {
  await changeSession(context, {
    operation: 'joinSession',
    sessionId,
    action: 'join',
    state: 'active',
    done: `Joined ${sessionId}`,
    refusal: 'only someone who is invited can join; the service does not tell more.',
  });
}
