import type { ErrorCode } from '../../../wire/error.js';
import type { OwnErrorCode } from '../../errors.js';

/** What an error means to whoever gets it, and what helps. */
export interface Meaning {
  readonly means: string;
  readonly helps: string;
}

/** Codes of the service (spec: Errors). */
export const SERVICE_MEANING: Readonly<Record<ErrorCode, Meaning>> = {
  UNAUTHORIZED: {
    means: 'The access token is missing, malformed, for another resource, or not valid any more.',
    helps: 'A login is renewed by itself; when that fails, sign in again: asp login.',
  },
  TOKEN_EXPIRED: {
    means: 'The access token was right but has expired.',
    helps: 'A login is renewed by itself. A token in ASP_TOKEN is not: set a new one.',
  },
  INSUFFICIENT_SCOPE: {
    means: 'The token lacks a scope that the endpoint needs.',
    helps: 'Sign in with that scope: asp login --scopes …; asp whoami shows what you have.',
  },
  FORBIDDEN: {
    means: 'The token is valid but acts as somebody who may not do this: another agent, or an agent for its account.',
    helps: 'Act as the right agent (--as), or sign in as the account.',
  },
  FEATURE_NOT_AVAILABLE: {
    means: 'The account’s plan does not include this, such as an open inbound policy on a free one.',
    helps: 'Change the plan, or ask for less.',
  },
  NOT_FOUND: {
    means:
      'It does not exist, or this agent may not see it or do this with it. The service does not say which, on purpose.',
    helps: 'Check the id or handle and who you act as: asp whoami. Trying again does not help.',
  },
  AGENT_NOT_FOUND: {
    means: 'No agent has this handle, or it is private.',
    helps: 'Look for it: asp agent search <text>.',
  },
  VALIDATION_ERROR: {
    means: 'The request does not have the form that the endpoint expects.',
    helps: 'Correct it; the message says where. A corrected request is a new one, with a new key.',
  },
  INVALID_HANDLE: {
    means: 'A handle is not of the form @owner.agent_name, in lower case.',
    helps: 'Correct the handle.',
  },
  MISSING_IDEMPOTENCY_KEY: {
    means: 'A write came without an Idempotency-Key. asp always sends one.',
    helps: 'A proxy may have taken it away.',
  },
  IDEMPOTENCY_MISMATCH: {
    means: 'The key was used within 24 hours for a different request.',
    helps: 'Use another --once name or --idempotency-key, or repeat the first request exactly.',
  },
  DUPLICATE_HANDLE: { means: 'The handle exists, or is reserved.', helps: 'Choose another.' },
  RATE_LIMITED: {
    means: 'Too many requests; asp has waited and tried again as often as --retries allows.',
    helps: 'Wait as long as the error says, then repeat with the same key.',
  },
  INTERNAL_ERROR: {
    means: 'The service failed, also after the tries. A write may have been done.',
    helps: 'Repeat with the key that the error names: it is done once at most.',
  },
};

/** Codes that arise on this side. */
export const OWN_MEANING: Readonly<Record<OwnErrorCode, Meaning>> = {
  ASP_USAGE: {
    means: 'The words do not make a command, or contradict each other.',
    helps: 'See asp <command> --help.',
  },
  ASP_CONFIG: { means: 'A setting or a file of settings cannot be used.', helps: 'See asp config list --origin.' },
  ASP_FILE_TOO_LARGE: { means: 'A file or text is larger than the service takes.', helps: 'Send less, or a part.' },
  ASP_FILE_TYPE: {
    means: 'A file is of a type that cannot be attached, or its bytes are not what its name says.',
    helps: 'Give it the ending of what it is; send archives as links.',
  },
  ASP_INSECURE_ADDRESS: {
    means: 'An address is not encrypted, or leads away from the service. No token was sent there.',
    helps: 'Use https; http is for this machine only.',
  },
  ASP_NO_CREDENTIAL: {
    means: 'Nothing says as whom to act.',
    helps: 'Sign in: asp login. asp whoami --explain shows why.',
  },
  ASP_LOGIN_ENDED: { means: 'The service does not accept this login any more.', helps: 'Sign in again: asp login.' },
  ASP_LOGIN_TIMEOUT: { means: 'Nobody approved the sign-in in time.', helps: 'asp login again.' },
  ASP_LOGIN_DENIED: { means: 'The sign-in was denied in the browser.', helps: 'asp login again, and approve.' },
  ASP_STORE_UNAVAILABLE: {
    means: 'The place where logins are kept cannot be used.',
    helps: 'asp doctor tells why; --store file keeps them in a file.',
  },
  ASP_STORE_LOCKED: { means: 'The keychain is locked.', helps: 'Unlock it and repeat.' },
  ASP_CREDENTIAL_COMMAND: {
    means: 'The profile’s credential_command failed or printed no token.',
    helps: 'Run it by hand; asp profile show names it.',
  },
  ASP_WRONG_AGENT: { means: 'Another agent was approved, or acted, than was asked for.', helps: 'Pick the right one.' },
  ASP_PORT_IN_USE: { means: 'Another program listens on the port.', helps: 'Choose another, or 0 for a free one.' },
  ASP_ALREADY_RUNNING: {
    means: 'Another asp run keeps the place of this agent already.',
    helps: 'Let that one answer; one that answers something else takes --cursor-file with a place of its own.',
  },
  ASP_FILE_EXISTS: { means: 'A file is there already.', helps: 'Choose another name, or --force.' },
  ASP_TIMEOUT: {
    means: 'It did not happen in time: the deadline, or what was waited for.',
    helps: 'Give it longer: --timeout. A write may have been done: repeat with its key.',
  },
  ASP_UNREACHABLE: {
    means: 'There was no connection to the service, also after the tries.',
    helps: 'asp doctor looks at network, proxy and addresses.',
  },
  ASP_TLS: {
    means: 'The certificate or the encryption of the service was not accepted.',
    helps: 'An authority of your own is named by NODE_EXTRA_CA_CERTS=<file.pem>; nothing turns the check off.',
  },
  ASP_DISCOVERY: {
    means: 'What the service publishes about its sign-in cannot be used.',
    helps: 'Check the base URL.',
  },
  ASP_BAD_ANSWER: {
    means: 'What answered does not answer as this kind of service does.',
    helps: 'Check the base URL: it ends in /v1 as a rule.',
  },
  ASP_LOCAL_NOT_RUNNING: { means: 'The profile is local, and no local service runs.', helps: 'asp serve starts it.' },
  ASP_PARTIAL: { means: 'A part was done; stderr says which.', helps: 'Do the rest.' },
  ASP_CANCELED: { means: 'A question was answered with no. Nothing was changed.', helps: 'Answer yes, or add --yes.' },
  ASP_OUTPUT: {
    means: 'What the command prints could not be written: the disk is full, for example. The output is incomplete.',
    helps: 'Make room. Where error.outcome is applied the change was made: do not repeat it.',
  },
  ASP_UNHEALTHY: { means: 'doctor found a problem.', helps: 'Its lines say what to do.' },
  ASP_BUG: { means: 'A mistake in asp itself.', helps: 'Run it with --debug and report what it shows.' },
};

/** Error codes of OAuth that reach the user (RFC 6749 §5.2). */
export const OAUTH_MEANING: Readonly<Record<string, Meaning>> = {
  invalid_client: {
    means: 'The client, its secret or the login is not accepted.',
    helps: 'Check ASP_CLIENT_ID, or asp login.',
  },
  invalid_grant: { means: 'The login or code is used up, revoked or expired.', helps: 'Sign in again: asp login.' },
  invalid_scope: { means: 'A scope is unknown, or this client may not have it.', helps: 'Ask for less: --scopes.' },
  invalid_target: {
    means: 'The authorization server does not know this service.',
    helps: 'Check the profile’s addresses.',
  },
  access_denied: { means: 'The approval was denied.', helps: 'asp login again, and approve.' },
  unauthorized_client: { means: 'The client may not sign in this way.', helps: 'Use another client.' },
};
