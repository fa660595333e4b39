import { setMaxListeners } from 'node:events';

/**
 * A signal that aborts with the first of two until it is released: `AbortSignal.any` would stay in memory as long as
 * either of them.
 */
export function joinSignals(
  own: AbortSignal | undefined,
  life: AbortSignal,
): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const joined = [own, life].filter((signal) => signal !== undefined);
  const onAbort = (): void => controller.abort(joined.find(({ aborted }) => aborted)?.reason);
  // One signal may end any number of calls; without this, Node.js would report a leak.
  if (own !== undefined) setMaxListeners(0, own);
  for (const signal of joined) signal.addEventListener('abort', onAbort, { once: true });
  if (joined.some(({ aborted }) => aborted)) onAbort();
  const release = (): void => {
    for (const signal of joined) signal.removeEventListener('abort', onAbort);
  };
  return { signal: controller.signal, release };
}
