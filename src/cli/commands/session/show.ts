import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { sessionText } from './session-view.js';

export interface ShowOptions {
  readonly sessionId: string;
}

export function parse(words: Words): ShowOptions {
  return { sessionId: readId('session', words.arguments[0] ?? '') };
}

export async function run(context: Context, { sessionId }: ShowOptions): Promise<void> {
  const about = {
    subject: sessionId,
    messages: { NOT_FOUND: `${sessionId} cannot be seen by this agent.` },
    next: { NOT_FOUND: ['asp', 'session', 'list'] },
  };
  const session = await read(context, 'getSession', { path: { session_id: sessionId } }, about);
  await context.output.document(session, (safe, style) => sessionText(safe, style, context.clock.now()));
  await rememberWords(context, 'sessions', [session.id]);
}
