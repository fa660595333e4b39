import {
  certificateAdvice,
  connectionAdvice,
  isRefusedConnection,
  type Outcome,
  RequestError,
} from '../../client/http/request-error.js';
import { capitalized, messageOf, withPeriod } from '../../kit/format.js';
import { fileFault, isFileError } from '../../kit/private-file.js';
import { textWidth } from '../../kit/wrap.js';
import { errorRow, isErrorCode } from '../../wire/error.js';
import { oauthExitCode } from '../../wire/oauth.js';
import type { Command } from '../command.js';
import { CliError, isOwnErrorCode, OWN_ERROR, type OwnErrorCode } from '../errors.js';
import { localNotReached, stoppedService } from '../profile/local-service.js';
import { loginArgs, type ResolvedProfile } from '../profile/resolve-profile.js';
import { type Failure, failureLine, failureText } from '../terminal/failure.js';
import { waitText } from '../terminal/relative-time.js';
import { isColored, loadStyle } from '../terminal/style.js';
import { durationText } from '../values.js';
import { HELP_HINT, isAgentCalling } from './agent-hint.js';
import type { Surroundings } from './context.js';
import { type ErrorContext, findErrorContext, type ScopeOptions, withScopeOptions } from './explain.js';
import { type Globals, guessFormat } from './globals.js';

/** The changes that a command has made at the service so far. */
export interface Changes {
  count: number;
  /** The session of the last change. */
  sessionId: string | undefined;
}

/** The agent, service and credential of a command, as far as they were known. */
export interface ActingIdentity {
  readonly changes?: Changes | undefined;
  readonly as?: string | undefined;
  readonly profile?: string | undefined;
  readonly source?: string | undefined;
  /** The service of the command. */
  readonly at?: ResolvedProfile | undefined;
  /** The permissions of the credential, as far as they are known. */
  readonly scopes?: readonly string[] | undefined;
  /** The command that starts the local service that is not running, if one is meant. */
  readonly startLocal?: readonly string[] | undefined;
  /** The values of `--profile` and `--as`. */
  readonly flags?: ScopeOptions | undefined;
}

/** Facts about the run in addition to the error. */
export interface RunFacts {
  readonly argv: readonly string[];
  readonly identity: ActingIdentity;
  readonly command?: Pick<Command, 'effect' | 'isEndless'> | undefined;
  readonly isDeadlinePassed: boolean;
  /** Whether a coding agent got a hint already. */
  readonly isHinted?: boolean;
  readonly isDebug: boolean;
  /** The deadline of the command; undefined: none. */
  readonly deadlineMs: number | undefined;
  /** From `--timeout` or ASP_TIMEOUT, or from the settings; undefined: it is the default. */
  readonly deadlineFrom: 'option' | 'setting' | undefined;
  /** How to quote text from the service in a sentence; unchanged by default. */
  readonly quote?: ((text: string) => string) | undefined;
}

/** Of codes that no table has. */
const STATUS_EXIT: Readonly<Record<number, number>> = { 401: 4, 403: 5, 404: 3, 408: 9, 409: 6, 425: 9, 429: 7 };

/**
 * The exit code for an error code: from the contract's table, then our own, then OAuth's; for an unknown code, from its
 * status.
 */
export function toExitCode(code: string, httpStatus: number | undefined): number {
  if (isErrorCode(code)) return errorRow(code).exit_code;
  if (isOwnErrorCode(code)) return OWN_ERROR[code];
  const oauth = oauthExitCode(code);
  if (oauth !== undefined) return oauth;
  if (httpStatus === undefined || httpStatus >= 500) return 9;
  return STATUS_EXIT[httpStatus] ?? 2;
}

/** Only the table's own members: a service may choose any code, even `__proto__`. */
function ownMember<Value>(table: Readonly<Record<string, Value>> | undefined, key: string): Value | undefined {
  return table !== undefined && Object.hasOwn(table, key) ? table[key] : undefined;
}

/**
 * If a local service was killed and its process number was reused, or if only its logins are left, it is reported like
 * any other that is not running.
 */
function inOneStory(error: unknown, { at, startLocal }: ActingIdentity): unknown {
  const isUnreached = error instanceof RequestError && error.outcome === 'not_applied' && isRefusedConnection(error);
  if (!isUnreached || at === undefined) return error;
  if (at.local !== undefined) return localNotReached(at.local);
  return startLocal === undefined ? error : stoppedService(at.baseUrl, startLocal);
}

/** Any thrown value as a failure to report. */
export function describeFailure(thrown: unknown, run: RunFacts): Failure {
  const context = findErrorContext(thrown) ?? {};
  const error = inOneStory(thrown, run.identity);
  const stack = run.isDebug && error instanceof Error ? error.stack : undefined;
  const own = (code: OwnErrorCode, facts: Pick<Failure, 'message'> & Partial<Failure>): Failure => {
    const usual = { isRetryable: false, outcome: 'unknown', ...pickIdentity(run.identity), stack } as const;
    return { code, exitCode: OWN_ERROR[code], ...usual, ...facts };
  };
  if (error instanceof CliError && error.code === 'ASP_OUTPUT' && error.outcome === 'unknown')
    return { ...outputFailure(error, run), stack };
  if (error instanceof CliError) {
    const { code, message, isRetryable, outcome } = error;
    const ending = error.endedBy && describeEnding(error.endedBy, run);
    const why = error.why ?? (ending && wholeReason(ending));
    const named = error.next ?? (code === 'ASP_LOCAL_NOT_RUNNING' ? run.identity.startLocal : undefined);
    const suggested = named ? withScopeOptions(named, run.identity.flags ?? {}) : nextAfter(ending);
    const next = suggested ?? (error.correction && correctArgs(run.argv, error.correction));
    const sessionId = changedSession(outcome, run);
    return own(code, { message, isRetryable, retryAfterMs: ending?.retryAfterMs, outcome, why, next, sessionId });
  }
  if (error instanceof RequestError) return { ...requestFailure(error, context, run), stack };
  if (run.isDeadlinePassed)
    return own('ASP_TIMEOUT', {
      message: 'The deadline passed before the command finished.',
      isRetryable: true,
      why: deadlineReason(run),
    });
  const fault = fileFault(error);
  if (fault !== undefined)
    return own('ASP_CONFIG', {
      message: `asp could not use ${faultyPath(error) ?? 'one of its files'}.`,
      why: `${fault}.`,
    });
  return own('ASP_BUG', {
    message: `This is a bug in asp: ${messageOf(error)}`,
    why: 'run it again with --debug to see where.',
  });
}

/** The failure that left a part undone. The whole failure says what was changed. */
function describeEnding(thrown: Error, run: RunFacts): Failure {
  const error = inOneStory(thrown, run.identity);
  if (!(error instanceof RequestError)) return describeFailure(error, run);
  const outcomeText = { not_applied: '', applied: '', unknown: '' };
  return requestFailure(error, { ...findErrorContext(thrown), outcomeText }, run);
}

const wholeReason = ({ message, why }: Failure): string =>
  why === undefined ? message : `${withPeriod(message)} ${capitalized(why)}`;

/** The key of one change is not the key of all. */
const nextAfter = (ending: Failure | undefined): readonly string[] | undefined =>
  ending === undefined || ending.outcome === 'unknown' ? undefined : ending.next;

/** The file of a failed file operation, not the temporary one that would have replaced it. */
function faultyPath(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('path' in error) || typeof error.path !== 'string') return undefined;
  return error.path.replace(/\.[0-9a-f]{16}\.tmp$/, '');
}

/** The outcome of the command's change. A command that runs forever has no overall outcome. */
function findChanges({ identity, command }: RunFacts): Changes | undefined {
  const isOneWrite = command?.effect === 'write' && !command.isEndless;
  return isOneWrite && identity.changes !== undefined && identity.changes.count > 0 ? identity.changes : undefined;
}

/** The session that a command changed before it failed. */
const changedSession = (outcome: Outcome, run: RunFacts): string | undefined =>
  outcome === 'not_applied' ? undefined : findChanges(run)?.sessionId;

const CHANGE_TEXT = { applied: 'The change was made.', unknown: 'The change may have been made.' } as const;
const LOST_OUTPUT_TEXT = { not_applied: '', ...CHANGE_TEXT } as const;

/** stdout could not be written: the command may already have made its change. */
function outputFailure(error: CliError, run: RunFacts): Failure {
  const effect = run.command?.effect ?? 'none';
  const isUncertain = effect === 'local' || effect === 'write';
  const outcome = findChanges(run) !== undefined ? 'applied' : isUncertain ? 'unknown' : 'not_applied';
  const sessionId = changedSession(outcome, run);
  return {
    code: error.code,
    message: `${error.message} ${LOST_OUTPUT_TEXT[outcome]}`.trimEnd(),
    exitCode: OWN_ERROR.ASP_OUTPUT,
    isRetryable: false,
    outcome,
    why: error.why,
    next:
      sessionId === undefined
        ? undefined
        : withScopeOptions(['asp', 'session', 'show', sessionId], run.identity.flags ?? {}),
    sessionId,
    ...pickIdentity(run.identity),
  };
}

const pickIdentity = ({ as, profile, source }: ActingIdentity) => ({ as, profile, source });

function deadlineReason({ deadlineMs, deadlineFrom }: RunFacts): string | undefined {
  if (deadlineMs === undefined) return undefined;
  const limit = durationText(deadlineMs);
  if (deadlineFrom === 'option') return `--timeout or ASP_TIMEOUT set a deadline of ${limit}.`;
  const which = deadlineFrom === 'setting' ? 'the setting timeout' : 'the default deadline';
  return `${which} is ${limit}; change it with --timeout or ASP_TIMEOUT.`;
}

/** The failure before the deadline passed, if there was one. */
function lastFailure({ cause }: RequestError, run: RunFacts): string {
  return cause instanceof RequestError ? `before that: ${withPeriod(quoted(cause, run))} ` : '';
}

/** The message of an error; an answer from the service has its own. */
function quoted({ code, status, message }: RequestError, { quote }: RunFacts): string {
  return quote === undefined || status === undefined || isOwnErrorCode(code) ? message : quote(message);
}

const OUTCOME_TEXT = { not_applied: 'Nothing was changed.', ...CHANGE_TEXT } as const;

function requestFailure(error: RequestError, context: ErrorContext, run: RunFacts): Failure {
  const isOurDeadline = run.isDeadlinePassed && (error.code === 'ASP_ABORTED' || error.code === 'ASP_TIMEOUT');
  const code = isOurDeadline ? 'ASP_TIMEOUT' : error.code;
  const exitCode = toExitCode(code, error.status);
  const isWrite = error.request !== undefined && error.request.method !== 'GET';
  // If a read fails after a change, the change has still been made.
  const isAfterChange = !isWrite && findChanges(run) !== undefined;
  const outcome = isAfterChange ? 'applied' : (context.outcome?.[error.outcome] ?? error.outcome);
  const outcomeText = isWrite
    ? ` ${context.outcomeText?.[error.outcome] ?? OUTCOME_TEXT[error.outcome]}`
    : isAfterChange
      ? ` ${context.outcomeText?.applied ?? 'The change was made.'}`
      : '';
  // For sign-in failures, name the account, not the object of the command.
  const isOfLogin = exitCode === 4 && isOwnErrorCode(code);
  const subject = context.subject === undefined || isOfLogin ? '' : `${context.subject}: `;
  const late = subject === '' ? 'The deadline passed.' : 'the deadline passed.';
  const text = isOurDeadline ? late : (missingScope(error, run) ?? withPeriod(quoted(error, run)));
  return {
    code,
    message: `${ownMember(context.messages, code) ?? `${subject}${text}`}${outcomeText}`.trimEnd(),
    exitCode,
    httpStatus: error.status,
    isRetryable: (error.isRetryable || isOurDeadline) && outcome !== 'applied',
    retryAfterMs: error.retryAfterMs,
    outcome,
    sessionId: changedSession(outcome, run),
    requestId: error.requestId,
    isRequestIdShown: run.isDebug || (error.status ?? 0) >= 500,
    why: ownMember(context.reasons, code) ?? explainReason(error, code, exitCode, context, run),
    next: suggestNext(error, code, exitCode, context, run),
    ...pickIdentity(run.identity),
    request: error.request && { ...error.request, idempotencyKey: error.idempotencyKey, attempts: error.attempts },
  };
}

/** The scopes that the credential lacks, as far as they are known. */
function missingScopes({ neededScopes = [] }: RequestError, { identity }: RunFacts): readonly string[] {
  return neededScopes.filter((scope) => identity.scopes?.includes(scope) !== true);
}

function missingScope(error: RequestError, run: RunFacts): string | undefined {
  const missing = missingScopes(error, run);
  if (missing.length === 0) return undefined;
  return `This credential lacks the scope${missing.length === 1 ? '' : 's'} ${missing.join(' and ')}.`;
}

/** The known facts about the cause; it never guesses if one answer has several possible reasons. */
function explainReason(
  error: RequestError,
  code: string,
  exitCode: number,
  context: ErrorContext,
  run: RunFacts,
): string | undefined {
  const { identity } = run;
  if (code === 'ASP_NOT_OFFERED')
    return 'it is an addition to the specification, or the specification leaves its address open.';
  if (code === 'ASP_STORE_UNAVAILABLE' && isFileError(error.cause, 'EROFS', 'EACCES', 'EPERM'))
    return 'a login renews itself, so asp must be able to read and write that file. In a sandbox, allow its folder.';
  if (exitCode === 4 || exitCode === 5) {
    const parts = [
      ...(identity.as === undefined ? [] : [`acting as ${identity.as}`]),
      ...(identity.profile === undefined ? [] : [`profile ${identity.profile}`]),
      ...(identity.source === undefined ? [] : [`credential from ${identity.source}`]),
    ];
    return parts.length === 0 ? undefined : `${parts.join(', ')}.`;
  }
  // Its text came from a source that cannot be read a second time.
  if (error.outcome === 'unknown' && error.idempotencyKey !== undefined && context.isRepeatable === false)
    return `with --idempotency-key ${error.idempotencyKey}, running it again cannot do it twice.`;
  if (error.status === 413)
    return 'in JSON, a quote or a line break takes two bytes. Send a long text as a file: asp send --file.';
  const keyOption = ['--once', '--idempotency-key'].find((flag) =>
    run.argv.some((word) => word === flag || word.startsWith(`${flag}=`)),
  );
  if (code === 'IDEMPOTENCY_MISMATCH' && keyOption !== undefined)
    return `this value of ${keyOption} belongs to another request for 24 hours: use a new one, or repeat the first command exactly.`;
  if (code === 'RATE_LIMITED' && error.retryAfterMs !== undefined)
    return `the service says to wait ${waitText(error.retryAfterMs)}.`;
  // Without a credential, as for the operator's commands, nothing is hidden from an agent.
  if (code === 'NOT_FOUND' && identity.source !== undefined)
    return 'the service gives the same answer for objects that do not exist and objects that this agent may not see.';
  if (code === 'ASP_TIMEOUT') return `${lastFailure(error, run)}${deadlineReason(run) ?? ''}`.trimEnd() || undefined;
  if (code === 'ASP_TLS') return certificateAdvice(error);
  if (code === 'ASP_UNREACHABLE') return connectionAdvice(error);
  if (nearBaseUrl(error, code, identity) !== undefined) return 'a base URL usually ends in /v1.';
  return undefined;
}

/** The next command to run: the command's own suggestion, the same command with its key, or signing in. */
function suggestNext(
  error: RequestError,
  code: string,
  exitCode: number,
  context: ErrorContext,
  run: RunFacts,
): readonly string[] | undefined {
  const { argv, identity } = run;
  const here = (args: readonly string[]): readonly string[] => withScopeOptions(args, identity.flags ?? {});
  const text = ownMember(context.next, code);
  if (text !== undefined) return text.length === 0 ? undefined : here(text);
  if (context.outcome?.[error.outcome] === 'applied' && context.again !== undefined) return here(context.again);
  if (error.outcome === 'unknown' && error.idempotencyKey !== undefined) {
    if (context.again !== undefined) return here(context.again);
    return context.isRepeatable === false ? undefined : ['asp', ...withKey(argv, context.key ?? error.idempotencyKey)];
  }
  const missing = missingScopes(error, run);
  if (missing.length > 0 && identity.source === 'login')
    return here(loginArgs(identity.as, identity.scopes && [...identity.scopes, ...missing]));
  // Nor would a login be stored where none can be.
  if (code === 'ASP_STORE_UNAVAILABLE' || code === 'ASP_STORE_LOCKED') return here(['asp', 'doctor']);
  // Signing in does not fix a credential that was set another way.
  if (exitCode === 4 && identity.source !== undefined && identity.source !== 'login')
    return here(['asp', 'whoami', '--explain']);
  if (exitCode === 4) return here(loginArgs(identity.as));
  if (code === 'NOT_FOUND' && context.subject?.startsWith('sess_') === true) return here(['asp', 'session', 'list']);
  const near = nearBaseUrl(error, code, identity);
  if (near !== undefined) return ['asp', 'whoami', '-p', near];
  if (code === 'ASP_LOCAL_NOT_RUNNING') return identity.startLocal;
  return code === 'ASP_DISCOVERY' || code === 'ASP_TLS' || code === 'ASP_UNREACHABLE'
    ? here(['asp', 'doctor'])
    : undefined;
}

/** The probable address of the service if nothing like it is at its base URL. */
function nearBaseUrl({ status }: RequestError, code: string, { at }: ActingIdentity): string | undefined {
  const isMissed = code === 'ASP_DISCOVERY' && status === 404 && at !== undefined;
  return isMissed && new URL(at.baseUrl).pathname === '/' ? `${at.baseUrl}/v1` : undefined;
}

/** The arguments of the run with the word that was meant; undefined if the wrong one was not among them. */
function correctArgs(
  argv: readonly string[],
  { typed, meant }: NonNullable<CliError['correction']>,
): readonly string[] | undefined {
  const at = argv.findIndex((word) => word.split(',').includes(typed));
  const corrected = argv[at]?.split(',').map((part) => (part === typed ? meant : part));
  return corrected && ['asp', ...argv.with(at, corrected.join())];
}

/** The arguments of the run plus the key it used, so that a repetition cannot do it twice. */
function withKey(argv: readonly string[], key: string): readonly string[] {
  if (argv.some((word) => /^--(idempotency-key|once)(=|$)/.test(word))) return argv;
  const end = argv.indexOf('--');
  const at = end === -1 ? argv.length : end;
  return [...argv.slice(0, at), '--idempotency-key', key, ...argv.slice(at)];
}

/** Reports a failure on stderr, in the requested format, and returns its exit code. */
export async function reportFailure(
  error: unknown,
  facts: RunFacts,
  { streams, environment }: Surroundings,
  globals: Globals | undefined,
): Promise<number> {
  const failure = describeFailure(error, facts);
  const format = globals?.format ?? guessFormat(facts.argv, environment);
  if (format === 'human') {
    const style = await loadStyle(isColored(globals?.color ?? 'auto', environment, streams.stderr.isTerminal));
    const width = streams.stderr.isTerminal ? textWidth(streams.stderr) : undefined;
    await streams.stderr.write(failureText(failure, style, width));
    const isQuiet = globals?.isQuiet ?? facts.argv.some((word) => word === '-q' || word === '--quiet');
    const isMistake = failure.exitCode === OWN_ERROR.ASP_USAGE;
    if (isMistake && !isQuiet && facts.isHinted !== true && isAgentCalling(environment))
      await streams.stderr.write(`${HELP_HINT}\n`);
  } else await streams.stderr.write(failureLine(failure));
  return failure.exitCode;
}
