import type { FindRelation } from '../../agent/relation.js';
import { within } from '../../kit/clock.js';
import type { Senders } from '../../kit/mcp.js';
import { isHandle } from '../../wire/handle.js';
import { listSenders, type Relation } from '../../wire/relation.js';
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

/** A message or an event, with how its author is related to the reader. */
type Related<Item> = Item & { readonly asp?: { readonly relation: Relation } };

/** For JSON, which programs pass to models: each item with the relation of its author. A person knows the others by name. */
export async function withRelations<Item extends object>(
  context: Context,
  items: readonly Item[],
  authorOf: (item: Item) => string | undefined,
): Promise<readonly Related<Item>[]> {
  if (context.output.format === 'human') return items;
  const relationOf = openRelations(context);
  const related: Related<Item>[] = [];
  for (const item of items) {
    const author = authorOf(item);
    related.push(author === undefined ? item : { ...item, asp: { relation: await relationOf(author) } });
  }
  return related;
}

/** Each author of what a model is about to read, with its relation. */
export async function relateSenders(relationOf: FindRelation, value: object): Promise<Senders> {
  const senders: Record<string, string> = {};
  for (const handle of listSenders(value)) senders[handle] = await relationOf(handle);
  return senders;
}
