import type { OwnErrorCode as ClientErrorCode, Outcome } from '../client/http/request-error.js';
import { fileFault, isFileError, isUnsafeFile } from '../kit/private-file.js';
import { hidePasswords } from '../kit/sanitize.js';

/** Codes of failures that arise on this side, those of the client among them, and their exit codes. */
export const OWN_ERROR = {
  ASP_USAGE: 2,
  ASP_CONFIG: 2,
  ASP_FILE_TOO_LARGE: 2,
  ASP_FILE_TYPE: 2,
  ASP_INSECURE_ADDRESS: 2,
  ASP_NO_CREDENTIAL: 4,
  ASP_LOGIN_ENDED: 4,
  ASP_LOGIN_DENIED: 4,
  ASP_STORE_UNAVAILABLE: 4,
  ASP_STORE_LOCKED: 4,
  ASP_CREDENTIAL_COMMAND: 4,
  ASP_NOT_OFFERED: 5,
  ASP_WRONG_AGENT: 6,
  ASP_PORT_IN_USE: 6,
  ASP_FILE_EXISTS: 6,
  ASP_ALREADY_RUNNING: 6,
  ASP_TIMEOUT: 8,
  ASP_LOGIN_TIMEOUT: 8,
  ASP_UNREACHABLE: 9,
  ASP_TLS: 9,
  ASP_DISCOVERY: 9,
  ASP_BAD_ANSWER: 9,
  ASP_ABORTED: 9,
  ASP_LOCAL_NOT_RUNNING: 9,
  ASP_PARTIAL: 10,
  ASP_LIMIT: 11,
  ASP_OTHER_ANSWER: 12,
  ASP_NO_ANSWER: 12,
  ASP_NOT_AS_EXPECTED: 13,
  ASP_CANCELED: 1,
  ASP_OUTPUT: 1,
  ASP_UNHEALTHY: 1,
  ASP_BUG: 1,
} as const satisfies Record<ClientErrorCode, number> & Record<string, number>;
export type OwnErrorCode = keyof typeof OWN_ERROR;

export function isOwnErrorCode(code: string): code is OwnErrorCode {
  return Object.hasOwn(OWN_ERROR, code);
}

interface Correction {
  readonly typed: string;
  readonly meant: string;
}

/** The command's knowledge of its failure. `message` starts with the user's object. */
export interface ErrorFacts {
  readonly message: string;
  readonly why?: string | undefined;
  /** The next command to run, as a list of arguments. */
  readonly next?: readonly string[] | undefined;
  /** A word of the user's, and the one that was probably meant: the next command is theirs with that word. */
  readonly correction?: Correction | undefined;
  readonly outcome?: Outcome | undefined;
  readonly isRetryable?: boolean | undefined;
  readonly cause?: unknown;
  /** The failure that left a part undone. Its message, reason and next command are reported unless others are given. */
  readonly endedBy?: Error | undefined;
}

/** A failure that a command detected itself. It may quote what the user typed, but never the password of an address. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: OwnErrorCode;
  readonly why: string | undefined;
  readonly next: readonly string[] | undefined;
  readonly correction: Correction | undefined;
  readonly outcome: Outcome;
  readonly isRetryable: boolean;
  readonly endedBy: Error | undefined;

  constructor(code: OwnErrorCode, facts: ErrorFacts) {
    const cause = facts.cause ?? facts.endedBy;
    super(hidePasswords(facts.message), cause === undefined ? undefined : { cause });
    this.code = code;
    this.endedBy = facts.endedBy;
    this.why = facts.why === undefined ? undefined : hidePasswords(facts.why);
    this.next = facts.next?.map(hidePasswords);
    this.correction = facts.correction;
    this.outcome = facts.outcome ?? 'not_applied';
    this.isRetryable = facts.isRetryable ?? false;
  }
}

/** The arguments are not a valid command: `ASP_USAGE`, exit code 2. */
export function usageError(message: string, facts: Omit<ErrorFacts, 'message'> = {}): CliError {
  return new CliError('ASP_USAGE', { message, ...facts });
}

/** Whether the arguments of the user caused an error. */
export function isUsageError(error: unknown): error is CliError {
  return error instanceof CliError && error.code === 'ASP_USAGE';
}

/** Why a file or folder of the user's choice cannot be written; undefined if the system gave no such reason. */
export function explainUnwritable(error: unknown): string | undefined {
  if (isUnsafeFile(error)) return undefined;
  const fault = isFileError(error, 'ENOENT') ? 'it cannot be created there (ENOENT)' : fileFault(error);
  return fault && `${fault}.`;
}
