import { isScope, type Scope } from '../../../wire/scope.js';
import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';

export interface AddClientOptions {
  readonly handle: string;
  readonly scopes: readonly Scope[] | undefined;
}

export function parse(words: Words): AddClientOptions {
  const scopes = words
    .text('scopes')
    ?.split(/[\s,]+/)
    .filter((scope) => scope !== '');
  const unknown = scopes?.find((scope) => !isScope(scope));
  if (unknown !== undefined) throw new UsageError(`'${unknown}' is not a scope.`);
  return { handle: readHandle(words.arguments[0] ?? ''), scopes: scopes?.filter(isScope) };
}

export async function run(context: Context, { handle, scopes }: AddClientOptions): Promise<void> {
  const record = await requireLocalService(context);
  const body = scopes === undefined ? { handle } : { handle, scopes };
  const client = await callOperator(context, record, 'addOperatorClient', { body });
  if (client.created_agent) await context.output.note(`${handle} is new and was added.`);
  await context.output.note('The secret is shown this once: keep it as ASP_CLIENT_SECRET.');
  await context.output.record(client);
}
