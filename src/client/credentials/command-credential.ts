import { type ExecFileException, execFile } from 'node:child_process';
import * as z from 'zod/mini';
import type { Clock } from '../../kit/clock.js';
import type { Environment } from '../../kit/environment.js';
import { parseIfJson } from '../../kit/parse-json.js';
import { ACCESS_TOKEN_LIFETIME_S } from '../../wire/limit.js';
import { abortion, RequestError } from '../http/request-error.js';
import type { Credential, Resource } from './credential.js';
import { type CachedToken, isUsable, toAccessToken } from './token-cache.js';

const TIMEOUT_MS = 30_000;
const OUTPUT_MAX_BYTES = 64 * 1024;

const Answer = z.looseObject({
  access_token: z.string().check(z.minLength(1)),
  expires_in: z.optional(z.number()),
  scope: z.optional(z.string()),
});

/** A program that prints tokens. */
export interface CommandCredentialOptions {
  readonly clock: Clock;
  /** The program and its arguments, run without a shell. */
  readonly command: readonly [program: string, ...words: string[]];
  readonly platform: NodeJS.Platform;
  /** The program's environment, without any of our secrets. */
  readonly environment: Environment;
  /** The `resource` of each kind of token, passed to the program as `ASP_RESOURCE_URI`. */
  readonly resources: Readonly<Record<Resource, string | undefined>>;
  /** The acting agent, passed to the program as `ASP_AGENT`. */
  readonly handle?: string | undefined;
  /** After this long, the program is ended. */
  readonly limitMs?: number;
}

/**
 * Tokens printed by a program: JSON with `access_token` (and `expires_in`, `scope`), or just the token. `ASP_RESOURCE`
 * says which kind the program should print: `api` or `ws`.
 */
export function createCommandCredential(options: CommandCredentialOptions): Credential {
  const tokens: Partial<Record<Resource, CachedToken>> = {};
  return {
    source: 'command',
    async accessToken(resource, request = {}) {
      const known = tokens[resource];
      if (known !== undefined && isUsable(known, request, options.clock.now())) return toAccessToken(known);
      const obtainedAtMs = options.clock.now();
      const answer = parse(await run(options, resource, request.signal));
      const lifetimeMs = (answer.expires_in ?? ACCESS_TOKEN_LIFETIME_S) * 1000;
      const { access_token: value, scope } = answer;
      if (value === request.rejected) throw failure('The credential command returned the refused token again.');
      const token: CachedToken = { token: value, obtainedAtMs, expiresAtMs: obtainedAtMs + lifetimeMs };
      if (scope !== undefined) token.scope = scope;
      tokens[resource] = token;
      return toAccessToken(token);
    },
  };
}

async function run(options: CommandCredentialOptions, resource: Resource, signal?: AbortSignal): Promise<string> {
  const environment: Record<string, string | undefined> = { ...options.environment, ASP_RESOURCE: resource };
  const uri = options.resources[resource];
  if (uri !== undefined) environment['ASP_RESOURCE_URI'] = uri;
  if (options.handle !== undefined) environment['ASP_AGENT'] = options.handle;
  const [program, ...words] = options.command;
  // Node.js refuses to start these without a shell, which would interpret the arguments (CVE-2024-27980).
  if (options.platform === 'win32' && /\.(cmd|bat)[. ]*$/i.test(program))
    throw failure(
      'The credential command is a batch file, which Windows cannot run without a shell: begin credential_command with "cmd", "/c".',
    );
  const { limitMs = TIMEOUT_MS } = options;
  const settings = { env: environment, timeout: limitMs, maxBuffer: OUTPUT_MAX_BYTES, signal, windowsHide: true };
  return new Promise((resolve, reject) => {
    execFile(program, words, settings, (error, output) => {
      if (error === null) resolve(output);
      else if (signal?.aborted === true) reject(abortion(signal, 'not_applied'));
      else reject(failure(`The credential command ${describeEnd(error, limitMs)}.`));
    });
  });
}

function describeEnd({ code, killed, signal }: ExecFileException, limitMs: number): string {
  if (String(code) === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return 'printed too much';
  // A program that handles the signal can exit with any status.
  if (killed === true) return `took longer than ${limitMs / 1000} s`;
  if (typeof code === 'number') return `exited with status ${code}`;
  return signal ? `was killed by ${signal}` : 'could not be run';
}

function parse(output: string): z.infer<typeof Answer> {
  const text = output.trim();
  if (/^[\w.~+/=-]+$/.test(text)) return { access_token: text };
  const { data } = Answer.safeParse(parseIfJson(text));
  if (data === undefined) throw failure('The credential command printed no token.');
  return data;
}

/** No cause, because the program's output may contain a secret. */
function failure(message: string): RequestError {
  return new RequestError({ code: 'ASP_CREDENTIAL_COMMAND', message, isRetryable: false });
}
