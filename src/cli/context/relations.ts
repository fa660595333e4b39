import type { FindRelation } from '../../agent/relation.js';
import { within } from '../../kit/clock.js';
import type { Senders } from '../../kit/mcp.js';
import { isHandle } from '../../wire/handle.js';
import { listSenders } from '../../wire/relation.js';
import type { Context } from './context.js';

/** The message is here already: its relation is not worth a longer wait. */
const PATIENCE_MS = 2_000;

/**
 * The relations of other agents to the acting one. The allowlist is read once it is needed; as long as it cannot be read,
 * an agent of another owner counts as anyone.
 */
export function openRelations(context: Context): FindRelation {
  let opened: { readonly find: Promise<FindRelation>; end(): void } | undefined;
  const open = () => {
    const ended = new AbortController();
    const find = async (): Promise<FindRelation> => {
      const [{ createRelations }, { joinSignals }] = await Promise.all([
        import('../../agent/relation.js'),
        import('../../kit/join-signals.js'),
      ]);
      const [client, me] = await Promise.all([context.client(), context.actingHandle()]);
      const { signal, release } = joinSignals(context.signal, ended.signal);
      ended.signal.addEventListener('abort', release);
      return createRelations({ context, client, me, signal });
    };
    const end = (): void => ended.abort();
    return { find: find(), end };
  };
  return async (handle) => {
    if (!isHandle(handle)) return 'anyone';
    opened ??= open();
    const mine = opened;
    const giveUp = (): 'anyone' => {
      mine.end();
      if (opened === mine) opened = undefined;
      return 'anyone';
    };
    const found = mine.find.then((relationOf) => relationOf(handle));
    return within(context.clock, PATIENCE_MS, found, giveUp).catch(giveUp);
  };
}

/** Each author of what a model is about to read, with its relation. */
export async function relateSenders(relationOf: FindRelation, value: object): Promise<Senders> {
  const senders: Record<string, string> = {};
  for (const handle of listSenders(value)) senders[handle] = await relationOf(handle);
  return senders;
}
