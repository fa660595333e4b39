import { splitHandle } from '../../../wire/handle.js';
import { ACCOUNT_ACTOR, callAsAccount } from '../../context/account.js';
import type { Context } from '../../context/context.js';
import { printRequest } from '../../context/write.js';
import { CliError } from '../../terminal/cli-error.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { aboutAgent } from './agent-view.js';

export interface RemoveAgentOptions {
  readonly handle: string;
}

export function parse(words: Words): RemoveAgentOptions {
  return { handle: readHandle(words.arguments[0] ?? '') };
}

export async function run(context: Context, { handle }: RemoveAgentOptions): Promise<void> {
  const path = splitHandle(handle);
  if (context.globals.isDryRun) return printRequest(context, 'removeAgent', { path }, ACCOUNT_ACTOR);
  const question = `Remove ${handle} for good? It leaves its sessions, and nobody can have its handle again.`;
  if (!(await context.prompts.confirm(question, '--yes')))
    throw new CliError('ASP_USAGE', { message: `${handle} was not removed.` });
  const { idempotencyKey } = await callAsAccount(context, 'removeAgent', { path }, aboutAgent(handle));
  const result = { handle, removed: true, idempotency_key: idempotencyKey ?? null };
  await context.output.document(result, (safe) => safe.handle);
}
