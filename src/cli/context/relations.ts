import type { FindRelation } from '../../agent/relation.js';
import type { Senders } from '../../kit/mcp.js';
import { isHandle } from '../../wire/handle.js';
import { listSenders } from '../../wire/relation.js';
import type { Context } from './context.js';

/** The relations of other agents to the acting one. The allowlist is read once it is needed. */
export function openRelations(context: Context): FindRelation {
  let opened: Promise<FindRelation> | undefined;
  const open = async (): Promise<FindRelation> => {
    const { createRelations } = await import('../../agent/relation.js');
    const [client, me] = await Promise.all([context.client(), context.actingHandle()]);
    return createRelations({ context, client, me, signal: context.signal });
  };
  return async (handle) => {
    if (!isHandle(handle)) return 'anyone';
    opened ??= open();
    return (await opened)(handle);
  };
}

/** Each author of what a model is about to read, with its relation. */
export async function relateSenders(relationOf: FindRelation, value: object): Promise<Senders> {
  const senders: Record<string, string> = {};
  for (const handle of listSenders(value)) senders[handle] = await relationOf(handle);
  return senders;
}
