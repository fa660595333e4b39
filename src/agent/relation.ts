import { type Client, RequestError } from '../client/client.js';
import { splitHandle, toOwnerGlob } from '../wire/handle.js';
import { type Relation, relateHandles } from '../wire/relation.js';
import { type AgentContext, persist } from './persist.js';

/** Finds the relation of an agent. */
export type FindRelation = (handle: string) => Promise<Relation>;

/** A change of the allowlist takes effect within this time. */
const READ_AGAIN_MS = 60_000;

/** What finding a relation requires. */
export interface RelationParts {
  readonly context: AgentContext;
  readonly client: Client;
  readonly me: string;
  readonly signal: AbortSignal;
}

/** Reads the allowlist when an agent of another owner is asked about, at most once a minute. */
export function createRelations({ context, client, me, signal }: RelationParts): FindRelation {
  const { clock, output } = context;
  const path = splitHandle(me);
  let entries: readonly string[] = [];
  let readAtMs: number | undefined;
  /** Several messages may ask at the same time. */
  let reading: Promise<void> | undefined;

  const readEntries = async (): Promise<readonly string[]> => {
    try {
      const read = await persist(context, signal, () => client.call('listAllowlist', { path, signal }));
      if (read.kind === 'refused') throw read.error;
      return read.reply.reply.entries;
    } catch (error) {
      // A login without allowlist:read still answers its own agents.
      if (!(error instanceof RequestError) || (error.status !== 403 && error.status !== 404)) throw error;
      if (readAtMs === undefined) await output.note(`Cannot read the allowlist of ${me}: ${error.code}.`);
      return [];
    }
  };
  const refresh = async (): Promise<void> => {
    entries = await readEntries();
    readAtMs = clock.monotonic();
  };
  return async (handle) => {
    const shown = relateHandles(me, handle);
    if (shown !== undefined) return shown;
    if (readAtMs === undefined || clock.monotonic() - readAtMs >= READ_AGAIN_MS) {
      reading ??= refresh().finally(() => {
        reading = undefined;
      });
      await reading;
    }
    return entries.includes(handle) || entries.includes(toOwnerGlob(handle)) ? 'on your allowlist' : 'anyone';
  };
}
