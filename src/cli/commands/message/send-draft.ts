import type { Context } from '../../context/context.js';
import { editDraft } from '../../terminal/editor.js';
import type { SendOptions } from './send-options.js';

/** Sends what the user writes in an editor. A text that could not be sent stays in its file (D-205). */
export async function sendDraft<Result>(
  context: Context,
  options: SendOptions,
  send: (options: SendOptions) => Promise<Result>,
): Promise<Result> {
  // Who is not signed in must know it before writing.
  if (!context.globals.isDryRun) await (await context.credential()).accessToken('api', { signal: context.signal });
  const draft = await editDraft(context);
  const { path } = draft;
  try {
    const result = await send({ ...options, text: { kind: 'draft', path } });
    await draft.discard();
    return result;
  } catch (error) {
    await context.output.note(`What was written is kept in ${path}: -F ${path} sends it.`);
    throw error;
  }
}
