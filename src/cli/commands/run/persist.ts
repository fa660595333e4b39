import { RequestError } from '../../../client/client.js';
import { wait } from '../../../kit/clock.js';
import type { Context } from '../../context/context.js';
import { exitCodeOf } from '../../context/describe-failure.js';

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/** What a call came to: an answer, or a refusal that no waiting changes. */
export type Settled<Reply> =
  | { readonly kind: 'done'; readonly reply: Reply }
  | { readonly kind: 'refused'; readonly error: RequestError };

/**
 * Calls until there is an answer: a service that is away or busy is waited for, for ever or until `signal`. A refusal is
 * an answer, unless it says that the agent itself may not go on.
 * @throws RequestError when the login, a scope or the connection is at fault.
 */
export async function persist<Reply>(
  { clock, output }: Context,
  signal: AbortSignal,
  call: () => Promise<Reply>,
  onFirstFailure?: (error: RequestError) => Promise<void>,
): Promise<Settled<Reply>> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return { kind: 'done', reply: await call() };
    } catch (error) {
      if (!(error instanceof RequestError) || signal.aborted) throw error;
      if (!error.isRetryable) {
        if (isFatal(error)) throw error;
        return { kind: 'refused', error };
      }
      if (attempt === 0) await onFirstFailure?.(error);
      const delayMs = Math.max(error.retryAfterMs ?? 0, Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt));
      await output.detail(`${error.code}: trying again in ${Math.ceil(delayMs / 1000)} s`);
      await wait(clock, delayMs, signal);
    }
  }
}

/**
 * What a start needs of the service: one that is away is waited for, and that is said once. Without retries, the first
 * failure is the result.
 */
export async function waitForService<Reply>(
  context: Context,
  signal: AbortSignal,
  call: () => Promise<Reply>,
): Promise<Reply> {
  if (context.globals.retries === 0) return call();
  const settled = await persist(context, signal, call, (error) => context.output.note(noConnection(error.code)));
  if (settled.kind === 'refused') throw settled.error;
  return settled.reply;
}

export const noConnection = (reason: string): string =>
  `There is no connection to the service (${reason}). Trying again until there is.`;

const SIGN_IN = 4;
const UNREACHABLE = 9;

function isFatal({ code, status }: RequestError): boolean {
  const exitCode = exitCodeOf(code, status);
  return exitCode === SIGN_IN || exitCode === UNREACHABLE || code.toLowerCase() === 'insufficient_scope';
}
