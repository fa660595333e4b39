import type { Context } from '../../context/context.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { changeSession } from './lifecycle.js';

export interface LeaveOptions {
  readonly sessionId: string;
}

export function parse(words: Words): LeaveOptions {
  return { sessionId: readId('session', words.arguments[0] ?? '') };
}

export async function run(context: Context, { sessionId }: LeaveOptions): Promise<void> {
  await changeSession(context, {
    operation: 'leaveSession',
    sessionId,
    action: 'leave',
    state: null,
    done: `Left ${sessionId}`,
    refusal: 'only someone who has joined can leave; the service does not tell more.',
  });
}
