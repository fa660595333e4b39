import { splitHandle } from '../../../wire/handle.js';
import { ACCOUNT_ACTOR, callAsAccount } from '../../context/account.js';
import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { printRequest } from '../../context/write.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { type AgentFields, fieldsToSend, readAgentFields } from './agent-fields.js';

export interface CreateAgentOptions {
  readonly handle: string;
  readonly fields: AgentFields;
}

export function parse(words: Words): CreateAgentOptions {
  return { handle: readHandle(words.arguments[0] ?? ''), fields: readAgentFields(words) };
}

export async function run(context: Context, { handle, fields }: CreateAgentOptions): Promise<void> {
  const { owner, name } = splitHandle(handle);
  const said = await fieldsToSend(context, fields);
  const body = { ...said, display_name: said.display_name ?? name, local_name: name };
  if (context.globals.isDryRun) return printRequest(context, 'createAgent', { body }, ACCOUNT_ACTOR);
  await refuseForeignOwner(context, owner, name);
  const { reply } = await callAsAccount(context, 'createAgent', { body }, aboutCreation(handle));
  if (reply.canonical_handle !== handle)
    throw new CliError('ASP_WRONG_AGENT', {
      message: `${reply.canonical_handle} was created: the account that is signed in is not @${owner}.`,
      outcome: 'applied',
      next: ['asp', 'agent', 'remove', reply.canonical_handle],
    });
  await context.output.note(`Created. Sign in as it with: asp login ${handle}`);
  await context.output.document(reply, (safe) => safe.canonical_handle);
  await rememberWords(context, 'handles', [handle]);
}

/** An account makes agents under its own name only; any agent it has tells what that is. */
async function refuseForeignOwner(context: Context, owner: string, name: string): Promise<void> {
  const { reply } = await callAsAccount(context, 'listAgents', { query: { limit: 1 } });
  const namespace = reply.agents[0]?.canonical_handle.slice(1).split('.', 1)[0];
  if (namespace === undefined || namespace === owner) return;
  throw new UsageError(`@${owner}.${name} is not the account's to create: it is signed in as ${namespace}.`, {
    next: ['asp', 'agent', 'create', `${namespace}.${name}`],
  });
}

function aboutCreation(handle: string) {
  return {
    subject: handle,
    messages: {
      DUPLICATE_HANDLE: `${handle} exists already, or its handle is reserved.`,
      FEATURE_NOT_AVAILABLE: `${handle}: the account's plan does not allow this.`,
    },
  };
}
