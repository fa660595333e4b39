import { setMaxListeners } from 'node:events';

/**
 * A signal that aborts with the first of several until it is released: on Node.js 20, `AbortSignal.any` would stay in
 * memory as long as any of them.
 */
export function joinSignals(...given: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  release(): void;
} {
  const controller = new AbortController();
  const joined = given.filter((signal) => signal !== undefined);
  const onAbort = (): void => controller.abort(joined.find(({ aborted }) => aborted)?.reason);
  // One signal may end any number of calls; without this, Node.js would report a leak.
  for (const signal of joined) setMaxListeners(0, signal);
  for (const signal of joined) signal.addEventListener('abort', onAbort, { once: true });
  if (joined.some(({ aborted }) => aborted)) onAbort();
  const release = (): void => {
    for (const signal of joined) signal.removeEventListener('abort', onAbort);
  };
  return { signal: controller.signal, release };
}
