import { ownerGlobOf } from '../../../wire/handle.js';
import type { Context } from '../../context/context.js';
import { notFound } from '../../context/not-found.js';
import { read } from '../../context/write.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { readOwnEntries } from './entries.js';

export interface CheckOptions {
  readonly handle: string;
}

export function parse(words: Words): CheckOptions {
  return { handle: readHandle(words.arguments[0] ?? '') };
}

/** Whether the acting agent's policy and list admit the handle. Blocks are another matter. */
export async function run(context: Context, { handle }: CheckOptions): Promise<void> {
  const { inbound_policy: policy, canonical_handle: own } = await read(context, 'getActingAgent', {});
  const entries = policy === 'open' ? [] : await readOwnEntries(context);
  const by = policy === 'open' ? 'open' : ([handle, ownerGlobOf(handle)].find((one) => entries.includes(one)) ?? null);
  await context.output.document({ handle, allowed: by !== null, by, as: own }, (safe) => safe.by ?? '');
  if (by !== null) return;
  const next = ['asp', 'allowlist', 'add', handle.slice(1)];
  throw notFound(`${handle} may not reach ${own}.`, 'no entry of its allowlist admits it.', next);
}
