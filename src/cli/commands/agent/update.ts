import { splitHandle } from '../../../wire/handle.js';
import { ACCOUNT_ACTOR, callAsAccount } from '../../context/account.js';
import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { type AgentFields, fieldsToSend, readAgentFields } from './agent-fields.js';
import { aboutAgent } from './agent-view.js';

export interface UpdateAgentOptions {
  /** Undefined: the acting agent says it of itself. */
  readonly handle: string | undefined;
  readonly fields: AgentFields;
  readonly paused: boolean | undefined;
}

export function parse(words: Words): UpdateAgentOptions {
  words.refuseBoth('pause', 'resume');
  const [handle] = words.arguments;
  const fields = readAgentFields(words);
  const paused = words.flag('pause') ? true : words.flag('resume') ? false : undefined;
  if (paused === undefined && Object.values(fields).every((field) => field === undefined))
    throw new UsageError('Nothing to change was given.', { next: ['asp', 'agent', 'update', '--help'] });
  if (handle === undefined && (paused ?? fields.policy ?? fields.visibility) !== undefined)
    throw new UsageError('Who may reach an agent, and whether it is paused, is changed by its account.', {
      why: 'name the agent; without a name the acting agent changes what it says of itself.',
      next: ['asp', 'agent', 'update', '--help'],
    });
  return { handle: handle === undefined ? undefined : readHandle(handle), fields, paused };
}

export async function run(context: Context, { handle, fields, paused }: UpdateAgentOptions): Promise<void> {
  const said = await fieldsToSend(context, fields);
  if (handle === undefined) {
    if (context.globals.isDryRun) return printRequest(context, 'updateActingAgent', { body: said });
    const { reply } = await write(context, 'updateActingAgent', { body: said });
    return context.output.document(reply, (safe) => safe.canonical_handle);
  }
  const body = { ...said, ...(paused !== undefined && { paused }) };
  const path = splitHandle(handle);
  if (context.globals.isDryRun) return printRequest(context, 'updateAgent', { path, body }, ACCOUNT_ACTOR);
  const { reply } = await callAsAccount(context, 'updateAgent', { path, body }, aboutAgent(handle));
  await context.output.document(reply, (safe) => safe.canonical_handle);
}
