import { suggest } from '../../../kit/suggest.js';
import { textWidth, wrapText } from '../../../kit/wrap.js';
import { type ErrorCode, errorRow, isErrorCode } from '../../../wire/error.js';
import type { OAuthExitCode } from '../../../wire/oauth.js';
import type { Context } from '../../context/context.js';
import { toExitCode } from '../../context/describe-failure.js';
import { type OwnErrorCode, usageError } from '../../errors.js';

/** The meaning of an error, and what helps. */
export interface Meaning {
  readonly means: string;
  readonly helps: string;
}

/** A code is found in any case, so INSUFFICIENT_SCOPE explains its OAuth twin. */
type NamedOAuthCode = Exclude<OAuthExitCode, 'insufficient_scope'>;

/** Every code that reaches a user. A code without a meaning does not compile. */
export const MEANING: Readonly<Record<OwnErrorCode | ErrorCode | NamedOAuthCode, Meaning>> = {
  ASP_USAGE: {
    means: 'The command line is invalid, or its options contradict each other.',
    helps: 'See asp <command> --help.',
  },
  ASP_CONFIG: {
    means: 'A setting is invalid, or a file of asp cannot be used.',
    helps: 'See asp config list --origin and asp doctor.',
  },
  ASP_FILE_TOO_LARGE: {
    means: 'A file or text is larger than the service accepts.',
    helps: 'Send less, or send it in parts.',
  },
  ASP_FILE_TYPE: {
    means: 'The file type is not supported, or the contents do not match the file name.',
    helps: 'Use the right extension, or --as-text for source code and other text. Send archives as links.',
  },
  ASP_INSECURE_ADDRESS: {
    means: 'An address is not encrypted, or leads away from the service. No token was sent there.',
    helps: 'Use https; http works only on this machine.',
  },
  ASP_NO_CREDENTIAL: {
    means: 'There is no login or other credential for the agent, or no agent to act as is set.',
    helps: 'Sign in: asp login. asp whoami --explain shows why.',
  },
  ASP_LOGIN_ENDED: { means: 'The service no longer accepts this login.', helps: 'Sign in again: asp login.' },
  ASP_LOGIN_TIMEOUT: { means: 'The sign-in was not approved in time.', helps: 'Run asp login again.' },
  ASP_LOGIN_DENIED: { means: 'The sign-in was denied in the browser.', helps: 'Run asp login again, and approve.' },
  ASP_STORE_UNAVAILABLE: {
    means: 'asp cannot use the store for logins.',
    helps: 'asp doctor says why; --store file stores logins in a file.',
  },
  ASP_STORE_LOCKED: { means: 'The keychain is locked.', helps: 'Unlock it and repeat.' },
  ASP_CREDENTIAL_COMMAND: {
    means: 'The profile’s credential_command failed or printed no token.',
    helps: 'Run it yourself; asp profile show prints it.',
  },
  ASP_WRONG_AGENT: {
    means: 'The approved or acting agent is not the one you asked for.',
    helps: 'Choose the right agent.',
  },
  ASP_PORT_IN_USE: {
    means: 'Another program listens on the port.',
    helps: 'Choose a different port, or 0 for a free one.',
  },
  ASP_ALREADY_RUNNING: {
    means: 'Another asp run or asp mock already answers for this agent.',
    helps: 'Stop one of them. To run a second one with a different command, give it its own --cursor-file.',
  },
  ASP_FILE_EXISTS: { means: 'The file already exists.', helps: 'Choose a different name, or use --force.' },
  ASP_TIMEOUT: {
    means: 'The command timed out: the deadline passed, or the expected event did not come.',
    helps: 'Allow more time: --timeout. The change may have been made: repeat it with its key.',
  },
  ASP_UNREACHABLE: {
    means: 'Could not connect to the service, even after retries.',
    helps: 'Run asp doctor to check network, proxy and addresses.',
  },
  ASP_TLS: {
    means: 'asp did not accept the certificate or the encryption of the service.',
    helps: 'To add a certificate authority, set NODE_EXTRA_CA_CERTS=<file.pem>. The check cannot be turned off.',
  },
  ASP_DISCOVERY: {
    means: 'The sign-in metadata of the service is invalid.',
    helps: 'Check the base URL.',
  },
  ASP_BAD_ANSWER: {
    means: 'The server responds, but it is not this kind of service.',
    helps: 'Check the base URL: it usually ends in /v1.',
  },
  ASP_ABORTED: {
    means: 'asp gave up on the request before an answer came.',
    helps: 'Repeat it. The change may have been made: repeat it with its key.',
  },
  ASP_NOT_OFFERED: {
    means:
      'The service does not offer this: it is an addition to the specification, or the specification leaves its address open.',
    helps: 'Do without it. Whatever the specification describes works: asp help agents.',
  },
  ASP_LOCAL_NOT_RUNNING: {
    means: 'The profile is local, and the local service is not running.',
    helps: 'Start it with asp serve.',
  },
  ASP_LIMIT: {
    means: 'A limit that keeps agents from running forever was reached; the error names it.',
    helps: 'Have a person take a look. Raise the limit, or continue with a message from a person.',
  },
  ASP_OTHER_ANSWER: {
    means: 'The answer is not the one that --expect names, or the agent could not process the question.',
    helps: 'Act on that answer. The question has been answered: do not repeat it.',
  },
  ASP_NO_ANSWER: {
    means: 'The agent could not process the question, or the session ended before it answered.',
    helps: 'Read the session; ask again, or ask another agent. Only the library reports this code.',
  },
  ASP_PARTIAL: { means: 'Only part of the work was done; stderr says which.', helps: 'Finish the rest.' },
  ASP_NOT_AS_EXPECTED: {
    means: 'A test failed: replies differ from the recording, or messages did not fit the rules of the script.',
    helps: 'Correct the program that is tested, or else the recording or the rules.',
  },
  ASP_CANCELED: { means: 'You answered no. Nothing was changed.', helps: 'Answer yes, or add --yes.' },
  ASP_OUTPUT: {
    means: 'The output could not be written, for example because the disk is full. It is incomplete.',
    helps: 'Free some space. If error.outcome is applied, the change was made: do not repeat it.',
  },
  ASP_UNHEALTHY: { means: 'doctor found a problem.', helps: 'Its output says what to do.' },
  ASP_BUG: { means: 'A bug in asp.', helps: 'Run the command with --debug and report the output.' },
  UNAUTHORIZED: {
    means: 'The access token is missing, malformed, for another resource, or no longer valid.',
    helps: 'asp renews logins automatically. If that fails, sign in again: asp login.',
  },
  TOKEN_EXPIRED: {
    means: 'The access token was valid but has expired.',
    helps: 'asp renews logins automatically, but not a token in ASP_TOKEN: set a new one.',
  },
  INSUFFICIENT_SCOPE: {
    means: 'The token lacks a scope that the endpoint needs.',
    helps: 'Sign in with that scope: asp login --scopes …; asp whoami shows what you have.',
  },
  FORBIDDEN: {
    means:
      'The token is valid, but its agent or account may not do this: it acts as another agent, or as an agent instead of its account.',
    helps: 'Act as the right agent (--as), or sign in as the account.',
  },
  FEATURE_NOT_AVAILABLE: {
    means:
      'The service does not offer this, such as searches with asp serve --search off, or not to this account, such as an agent with an open inbound policy.',
    helps: 'Ask the operator, or do without it.',
  },
  NOT_FOUND: {
    means:
      'The object does not exist, or this agent may not see it or do this with it. The service intentionally does not say which.',
    helps: 'Check the id or handle, and check who you act as: asp whoami. Retrying does not help.',
  },
  AGENT_NOT_FOUND: {
    means: 'No agent has this handle, or it is private.',
    helps: 'Search for it: asp agent search <text>.',
  },
  VALIDATION_ERROR: {
    means: 'The request is not in the form that the endpoint expects.',
    helps: 'Correct it; the message says where. A corrected request is a new one and needs a new key.',
  },
  INVALID_HANDLE: {
    means: 'The handle is not in the form @owner.agent_name, in lower case.',
    helps: 'Correct the handle.',
  },
  MISSING_IDEMPOTENCY_KEY: {
    means: 'A write came without an Idempotency-Key. asp always sends one.',
    helps: 'A proxy may have removed it.',
  },
  IDEMPOTENCY_MISMATCH: {
    means: 'The key was used within 24 hours for a different request.',
    helps: 'Use a different --once name or --idempotency-key, or repeat the first request exactly.',
  },
  LOOP_GUARD: {
    means:
      'The session has had too many messages without one from a person. The service stops it (asp serve --loop-guard), so that programs do not answer each other forever.',
    helps:
      'Have a person take a look. The session continues once a person writes in it: in the dashboard, or with asp chat.',
  },
  DUPLICATE_HANDLE: { means: 'The handle exists, or is reserved.', helps: 'Choose another.' },
  RATE_LIMITED: {
    means: 'Too many requests; asp has already waited and retried as often as --retries allows.',
    helps: 'Wait as long as the error says, then repeat with the same key.',
  },
  INTERNAL_ERROR: {
    means: 'The service failed, even after retries. The change may have been made.',
    helps: 'Repeat it with the key in the error, so that it cannot happen twice.',
  },
  invalid_client: {
    means: 'The client, its secret or the login was not accepted.',
    helps: 'Check ASP_CLIENT_ID, or run asp login.',
  },
  invalid_grant: {
    means: 'The login or code was already used, or is revoked or expired.',
    helps: 'Sign in again: asp login.',
  },
  invalid_scope: {
    means: 'A scope is unknown, or this client may not have it.',
    helps: 'Request fewer scopes: --scopes.',
  },
  invalid_target: {
    means: 'The authorization server does not know this service.',
    helps: 'Check the profile’s addresses.',
  },
  access_denied: { means: 'The approval was denied.', helps: 'Run asp login again, and approve.' },
  unauthorized_client: { means: 'The client is not allowed to sign in this way.', helps: 'Use a different client.' },
};

type KnownCode = keyof typeof MEANING;
const CODES = Object.keys(MEANING) as KnownCode[];

export function readCode(typed: string): KnownCode {
  const code = CODES.find((each) => each.toLowerCase() === typed.toLowerCase().replaceAll('-', '_'));
  if (code !== undefined) return code;
  if (/^\d+$/.test(typed))
    throw usageError(`${typed} is an exit code, which several errors share.`, {
      why: 'the error names its own code on its last line.',
      next: ['asp', 'help', 'exit-codes'],
    });
  const [near] = suggest(typed.toUpperCase(), CODES);
  throw usageError(`'${typed}' is not an error code.`, {
    why: near === undefined ? 'codes look like NOT_FOUND or ASP_TIMEOUT.' : `did you mean ${near}?`,
    next: near === undefined ? ['asp', 'help', 'exit-codes'] : ['asp', 'explain', near],
  });
}

/** The meaning of an error code, and what helps. */
export async function printMeaning(context: Context, code: KnownCode): Promise<void> {
  const row = isErrorCode(code) ? errorRow(code) : undefined;
  const { means, helps } = MEANING[code];
  const document = {
    code,
    exit_code: toExitCode(code, undefined),
    http_status: row?.status ?? null,
    retry: row?.retry ?? null,
    means,
    helps,
  };
  const width = textWidth(context.streams.stdout);
  await context.output.document(document, (safe, style) =>
    [
      `${style.bold(safe.code)}  exit ${safe.exit_code}${safe.http_status === null ? '' : `, HTTP ${safe.http_status}`}`,
      wrapText(safe.means, width),
      wrapText(safe.helps, width),
    ].join('\n'),
  );
}
