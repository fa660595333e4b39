import { RequestError, type TailItem } from '../client/client.js';
import { backoffMs, type Clock, wait } from '../kit/clock.js';
import { errorRow, isErrorCode } from '../wire/error.js';
import { oauthExitCode } from '../wire/oauth.js';

/** The engine gets these from the program it runs in. The context of a command has all of them. */
export interface AgentContext {
  readonly clock: Clock;
  /** Messages for people: notes always, details only on request. */
  readonly output: {
    note(text: string): Promise<void>;
    detail(text: string): Promise<void>;
  };
  /** Zero retries: a service that is not available at the start is an error. */
  readonly globals: { readonly retries?: number | undefined };
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/** The result of a call: an answer, or a refusal that waiting does not change. */
export type Settled<Reply> =
  | { readonly kind: 'done'; readonly reply: Reply }
  | { readonly kind: 'refused'; readonly error: RequestError };

/**
 * Calls until there is an answer: if the service is down or busy, it waits forever or until `signal`. A refusal is an
 * answer, unless the agent itself may not continue.
 * @throws RequestError if the login, a scope or the connection is at fault.
 */
export async function persist<Reply>(
  { clock, output }: AgentContext,
  signal: AbortSignal,
  call: () => Promise<Reply>,
  onFirstFailure?: (error: Failure) => Promise<void>,
): Promise<Settled<Reply>> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return { kind: 'done', reply: await call() };
    } catch (error) {
      if (!isFailure(error) || signal.aborted) throw error;
      if (isRefusal(error)) return { kind: 'refused', error };
      if (!error.isRetryable) throw error;
      if (attempt === 0) await onFirstFailure?.(error);
      const delayMs = Math.max(error.retryAfterMs ?? 0, backoffMs(FIRST_WAIT_MS, attempt, LONGEST_WAIT_MS));
      await output.detail(`${error.code}: trying again in ${Math.ceil(delayMs / 1000)} s`);
      await wait(clock, delayMs, signal);
    }
  }
}

/**
 * Calls once.
 * @throws Any failure that is not a refusal: the login, a scope or the connection is at fault.
 */
export async function trySettling<Reply>(call: () => Promise<Reply>): Promise<Settled<Reply>> {
  try {
    return { kind: 'done', reply: await call() };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { kind: 'refused', error };
  }
}

/**
 * Sends a request that the start depends on: it waits for an unavailable service and says so once. Without retries, the
 * first failure is the result.
 */
export async function waitForService<Reply>(
  context: AgentContext,
  signal: AbortSignal,
  call: () => Promise<Reply>,
): Promise<Reply> {
  if (context.globals.retries === 0) return call();
  const settled = await persist(context, signal, call, (error) => context.output.note(noteOf(error)));
  if (settled.kind === 'refused') throw settled.error;
  return settled.reply;
}

/** A failure of a request, or of what comes before it. */
interface Failure extends Error {
  readonly code: string;
  readonly isRetryable: boolean;
  readonly retryAfterMs?: number | undefined;
}

function isFailure(error: unknown): error is Failure {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && 'isRetryable' in error;
}

function noteOf({ code, message }: Failure): string {
  return code === 'ASP_LOCAL_NOT_RUNNING' ? `${message} Waiting until it runs.` : noConnection(code);
}

/** The note for a person while the agent waits for the service. */
export const noConnection = (reason: string): string =>
  `Cannot connect to the service (${reason}). Retrying until it works.`;

/** Says once that there is no connection, and when it is back. */
export function createOutageNotes({
  output,
}: {
  readonly output: Pick<AgentContext['output'], 'note'>;
}): (item: TailItem) => Promise<void> {
  let isReported = false;
  return async (item) => {
    if (item.kind === 'reconnecting' && !isReported && (item.attempt > 1 || item.delayMs >= NOTED_MS)) {
      isReported = true;
      await output.note(noConnection(item.reason));
    } else if (item.kind === 'ready' && isReported) {
      isReported = false;
      await output.note(`Connected again after ${Math.round(item.downMs / 1000)} s.`);
    }
  };
}

/** A shorter outage is not worth a note. */
const NOTED_MS = 1000;

/** Errors that concern only one call: neither the login nor the connection is at fault. */
const ABOUT_THE_CALL = ['ASP_FILE_TOO_LARGE', 'ASP_INSECURE_ADDRESS'];
const SIGN_IN = 4;
const UNREACHABLE = 9;

const isRefusal = (error: unknown): error is RequestError =>
  error instanceof RequestError && !error.isRetryable && !isFatal(error);

function isFatal({ code, status }: RequestError): boolean {
  if (code.startsWith('ASP_')) return !ABOUT_THE_CALL.includes(code);
  if (code.toLowerCase() === 'insufficient_scope') return true;
  const exitCode = isErrorCode(code) ? errorRow(code).exit_code : oauthExitCode(code);
  if (exitCode !== undefined) return exitCode === SIGN_IN || exitCode === UNREACHABLE;
  return status === undefined || status >= 500 || status === 401;
}
