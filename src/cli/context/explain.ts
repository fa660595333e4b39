import type { Outcome } from '../errors.js';

/** What a command knows about a call that the error of the call does not. */
export interface ErrorContext {
  /** What the user named: `@alice.bot`, `sess_…`. */
  readonly subject?: string | undefined;
  /** By code: the whole sentence in place of `subject: message of the service`. */
  readonly messages?: Readonly<Record<string, string>> | undefined;
  /** By code. */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
  /** By code: the command to run next. */
  readonly next?: Readonly<Record<string, readonly string[]>> | undefined;
  /** By the outcome of the call: that of the command, which did something before it. */
  readonly outcome?: Partial<Readonly<Record<Outcome, Outcome>>> | undefined;
  /** `Nothing was sent.` and its like. */
  readonly outcomeText?: Readonly<Record<Outcome, string>> | undefined;
  /** What settles a write that was not done for sure, where that is not the same command again. */
  readonly again?: readonly string[] | undefined;
  /** The key to repeat the whole command with, where that of the call is made of it. */
  readonly key?: string | undefined;
  /** False when the same command line would not do the same again: the text came from stdin. */
  readonly isRepeatable?: boolean | undefined;
}

/** A failure and what the command knows about it. */
export class ExplainedError extends Error {
  override readonly name = 'ExplainedError';
  readonly context: ErrorContext;

  constructor(context: ErrorContext, cause: unknown) {
    super('a call failed', { cause });
    this.context = context;
  }
}

/** The call; its failure carries what the command knows. */
export async function explain<Value>(context: ErrorContext, call: Promise<Value>): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    throw error instanceof ExplainedError ? error : new ExplainedError(context, error);
  }
}

/** Exit 3, where it was not the service that said so. */
export async function notFound(
  message: string,
  why: string,
  next?: readonly string[],
  more: ErrorContext = {},
): Promise<ExplainedError> {
  const { RequestError } = await import('../../client/http/request-error.js');
  const context = {
    ...more,
    messages: { NOT_FOUND: message },
    reasons: { NOT_FOUND: why },
    ...(next !== undefined && { next: { NOT_FOUND: next } }),
  };
  return new ExplainedError(context, new RequestError({ code: 'NOT_FOUND', message }));
}
