import { type Client, RequestError } from '../../../client/client.js';
import type { Context } from '../../context/context.js';
import { toHandlePath } from '../../values.js';
import { persist } from './persist.js';
import type { RunOptions } from './run.js';

/** Whether an agent may have the command run. */
export type Admits = (handle: string) => Promise<boolean>;

export interface AdmissionParts {
  readonly context: Context;
  readonly client: Client;
  readonly me: string;
  readonly from: RunOptions['from'];
  readonly signal: AbortSignal;
}

/** A change of the allowlist takes effect within this time. */
const READ_AGAIN_MS = 60_000;

/** Those that `--from` names; else agents of the same owner and those on the agent's allowlist, whatever its policy. */
export function createAdmission({ context, client, me, from, signal }: AdmissionParts): Admits {
  if (from === 'anyone') return async () => true;
  if (from.length > 0) return async (handle) => from.includes(handle);
  const { clock, output } = context;
  const path = toHandlePath(me);
  let entries: readonly string[] = [];
  let readAtMs: number | undefined;
  let isTold = false;

  const readEntries = async (): Promise<readonly string[]> => {
    try {
      const read = await persist(context, signal, () => client.call('listAllowlist', { path, signal }));
      if (read.kind === 'refused') throw read.error;
      return read.reply.reply.entries;
    } catch (error) {
      // A login without allowlist:read answers its own agents all the same.
      if (!(error instanceof RequestError) || (error.status !== 403 && error.status !== 404)) throw error;
      if (readAtMs === undefined) await output.note(`The allowlist of ${me} cannot be read: ${error.code}.`);
      return [];
    }
  };
  const tell = async (handle: string): Promise<void> => {
    const text = `${handle} is not answered: it has another owner and is not on the allowlist of ${me}.`;
    if (isTold) return output.detail(text);
    isTold = true;
    await output.note(`${text} Add it with asp allowlist add, or answer everybody with --from anyone.`);
  };
  return async (handle) => {
    const { owner } = toHandlePath(handle);
    if (owner === path.owner) return true;
    if (readAtMs === undefined || clock.monotonic() - readAtMs >= READ_AGAIN_MS) {
      entries = await readEntries();
      readAtMs = clock.monotonic();
    }
    if (entries.includes(handle) || entries.includes(`@${owner}.*`)) return true;
    await tell(handle);
    return false;
  };
}
