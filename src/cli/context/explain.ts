import type { Outcome, RequestError } from '../../client/http/request-error.js';
import { codeOf } from '../../kit/format.js';
import { hidePasswords } from '../../kit/sanitize.js';

/** Facts about a call that the command knows and the call's error does not. */
export interface ErrorContext {
  /** The name that the user typed: `@alice.bot`, `sess_…`. */
  readonly subject?: string | undefined;
  /** By code: the whole sentence, instead of `subject: message of the service`. */
  readonly messages?: Readonly<Record<string, string>> | undefined;
  /** By code. */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
  /** By code: the command to run next. Empty: no command helps. */
  readonly next?: Readonly<Record<string, readonly string[]>> | undefined;
  /** By the outcome of the call: the outcome of the command, which did something before it. */
  readonly outcome?: Partial<Readonly<Record<Outcome, Outcome>>> | undefined;
  /** `Nothing was sent.` and similar sentences. */
  readonly outcomeText?: Readonly<Record<Outcome, string>> | undefined;
  /** The next command if a write may not have been done and repeating the same command is wrong. */
  readonly again?: readonly string[] | undefined;
  /** The key to repeat the whole command with, if the key of the call is derived from it. */
  readonly key?: string | undefined;
  /** False if the same command line would not do the same again: the text came from stdin. */
  readonly isRepeatable?: boolean | undefined;
}

/** What commands know about errors, stored separately: one error may pass through several callers. */
const contexts = new WeakMap<Error, ErrorContext>();

/** What a command knows about an error; undefined if unknown. */
export function findErrorContext(error: unknown): ErrorContext | undefined {
  return error instanceof Error ? contexts.get(error) : undefined;
}

/** The message of an error, in the words of the command if it knows better. */
export function explainedMessage(error: Error): string {
  const messages = findErrorContext(error)?.messages ?? {};
  const code = codeOf(error);
  return (Object.hasOwn(messages, code) ? messages[code] : undefined) ?? error.message;
}

/** A copy of an error with what the command knows about it. The error itself keeps what was known before. */
export function withContext(error: RequestError, context: ErrorContext): RequestError {
  const RequestErrorClass = error.constructor as typeof RequestError;
  const copy = new RequestErrorClass({ ...error, message: error.message, cause: error.cause });
  if (error.stack !== undefined) copy.stack = error.stack;
  contexts.set(copy, context);
  return copy;
}

/** The call. Its failure carries what the command knows or finds out then; the caller nearest to the call knows best. */
export async function explain<Value>(
  context: ErrorContext | (() => Promise<ErrorContext>),
  call: Promise<Value>,
): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof Error && !contexts.has(error))
      contexts.set(error, typeof context === 'function' ? await context() : context);
    throw error;
  }
}

/** The error for a handle that does not resolve. It does not distinguish an unknown agent from a private one. */
export const unknownAgent = (handle: string, messages: ErrorContext['messages'] = {}): ErrorContext => ({
  subject: handle,
  messages: {
    AGENT_NOT_FOUND: `${handle} does not exist, or it is private.`,
    NOT_FOUND: `${handle} does not exist, or it is private.`,
    ...messages,
  },
  reasons: {
    AGENT_NOT_FOUND: 'the service gives the same answer for an unknown handle and a private agent.',
  },
  next: { AGENT_NOT_FOUND: ['asp', 'agent', 'search', handle.slice(handle.indexOf('.') + 1)] },
});

/** For calls that fail with NOT_FOUND: what to say, the next command, and the reason. */
export const ifNotFound = (message: string, next: readonly string[], reason?: string): ErrorContext => ({
  messages: { NOT_FOUND: message },
  reasons: reason === undefined ? {} : { NOT_FOUND: reason },
  next: { NOT_FOUND: next },
});

/** Exit 3 for errors that do not come from the service. */
export async function notFound(
  message: string,
  why: string,
  next: readonly string[],
  more: ErrorContext = {},
): Promise<RequestError> {
  const { RequestError } = await import('../../client/http/request-error.js');
  const context = { ...more, ...ifNotFound(message, next, why) };
  return withContext(new RequestError({ code: 'NOT_FOUND', message }), context);
}

/** Commands that do not depend on the service. */
const EVERYWHERE = ['serve', 'config', 'profile', 'explain', 'help', 'schema', 'completion', 'demo'];
/** Commands that name their agent themselves. */
const NAMING = ['login', 'logout', 'use', 'auth'];

/** The options and variables of the run that choose service and agent. */
export interface ScopeOptions {
  readonly profile?: string | undefined;
  readonly as?: string | undefined;
}

const hasOption = (args: readonly string[], short: string, long: string): boolean =>
  args.some((word) => word === short || word === long || word.startsWith(`${long}=`));

/**
 * The next command for the same service and agent: it repeats the values of `--profile` and `--as`, which are not
 * stored anywhere else.
 */
export function withScopeOptions(args: readonly string[], { profile, as }: ScopeOptions): readonly string[] {
  const [, noun = ''] = args;
  if (EVERYWHERE.includes(noun) || args.includes('--help')) return args;
  const wantsProfile = profile !== undefined && profile !== '' && !hasOption(args, '-p', '--profile');
  const wantsAgent = as !== undefined && !NAMING.includes(noun) && !hasOption(args, '-a', '--as');
  return [...args, ...(wantsProfile ? ['-p', hidePasswords(profile)] : []), ...(wantsAgent ? ['--as', as] : [])];
}
