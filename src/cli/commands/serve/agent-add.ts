import type { InboundPolicy } from '../../../wire/agent.js';
import type { Context } from '../../context/context.js';
import { callOperator, requireLocalService } from '../../context/operator.js';
import { readHandles } from '../../words/values.js';
import type { Words } from '../../words/words.js';

export interface AddAgentOptions {
  readonly handles: readonly string[];
  readonly policy: InboundPolicy;
  readonly displayName: string | undefined;
}

export function parse(words: Words): AddAgentOptions {
  return {
    handles: readHandles(words.arguments),
    policy: words.text('policy') === 'allowlist' ? 'allowlist' : 'open',
    displayName: words.text('display-name'),
  };
}

export async function run(context: Context, options: AddAgentOptions): Promise<void> {
  const record = await requireLocalService(context);
  const items = [];
  for (const handle of options.handles) {
    const name = options.displayName === undefined ? {} : { display_name: options.displayName };
    const body = { handle, inbound_policy: options.policy, ...name };
    items.push(await callOperator(context, record, 'addOperatorAgent', { body }));
  }
  await context.output.list({ items, next_cursor: null }, [{ title: 'handle', value: (agent) => agent.handle }]);
}
