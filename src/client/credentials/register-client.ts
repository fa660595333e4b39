import { join } from 'node:path';
import * as z from 'zod/mini';
import { parseIfJson } from '../../kit/parse-json.js';
import {
  fileFault,
  listPrivateFiles,
  readPrivateFile,
  removePrivateFile,
  writePrivateFile,
} from '../../kit/private-file.js';
import { RegistrationReply } from '../../wire/schemas/oauth.js';
import { RequestError } from '../http/request-error.js';
import { type Sending, sendWithRetries } from '../http/send.js';
import type { Discovery } from '../oauth/discover.js';
import { type OAuthContext, oauthFailure } from '../oauth/token-endpoint.js';
import { type LoginContext, oauthContext, toLockContext } from './login.js';
import { withProcessLock } from './process-lock.js';
import { digest, storeUnavailable } from './secret-store.js';

/** The path of our loopback redirect URI; the port is chosen at each login (RFC 8252 §7.3). */
const REDIRECT_PATH = '/callback';

/** The registered redirect URI: at authorization, any port may be used instead of this one. */
const REGISTERED_REDIRECT_URI = `http://127.0.0.1:8745${REDIRECT_PATH}`;

/**
 * Registers this program as a public client (spec: POST /register; RFC 7591 §3.1). Store the client id and reuse it.
 * @throws RequestError
 */
async function registerClient(
  context: OAuthContext,
  wish: { readonly clientName: string; readonly scopes: readonly string[] },
  signal?: AbortSignal,
): Promise<string> {
  const url = context.discovery.metadata.registration_endpoint;
  if (url === undefined)
    throw new RequestError({ code: 'ASP_DISCOVERY', message: 'The authorization server does not register clients.' });
  const sending: Sending = {
    method: 'POST',
    url,
    headers: { accept: 'application/json', 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: wish.clientName,
      redirect_uris: [REGISTERED_REDIRECT_URI],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      scope: wish.scopes.join(' '),
    }),
    isRepeatable: true,
    retries: context.retries ?? 0,
    maxBytes: 256 * 1024,
    signal,
  };
  const sent = await sendWithRetries(context.transport, context.random, sending);
  if (sent.answer.status !== 201 && sent.answer.status !== 200) throw oauthFailure(sent, sending);
  try {
    return RegistrationReply.parse(JSON.parse(sent.answer.body.toString('utf8'))).client_id;
  } catch {
    throw new RequestError({
      code: 'ASP_BAD_ANSWER',
      message: 'Could not parse the answer to the registration.',
      status: sent.answer.status,
      outcome: 'applied',
      isRetryable: false,
    });
  }
}

const RETRIES = 4;
const Registration = z.object({ issuer: z.string(), clientId: z.string(), registeredAtMs: z.number() });

/** Our client id at one authorization server. */
export type Registration = z.infer<typeof Registration>;

/**
 * Our client id at an authorization server: registered once for this OS user, then reused; first logins that run at the
 * same time end up with the same one. @throws RequestError
 */
export async function obtainClientId(
  context: LoginContext,
  discovery: Discovery,
  wish: { readonly clientName: string; readonly scopes: readonly string[] },
  signal?: AbortSignal,
): Promise<string> {
  const { issuer } = discovery;
  const kept = await findRegistration(context, issuer);
  if (kept !== undefined) return kept.clientId;
  const register = async (): Promise<string> => {
    const meanwhile = await findRegistration(context, issuer);
    if (meanwhile !== undefined) return meanwhile.clientId;
    const clientId = await registerClient(oauthContext(context, discovery, RETRIES), wish, signal);
    const registration: Registration = { issuer, clientId, registeredAtMs: context.transport.clock.now() };
    await writePrivateFile(getPath(context, issuer), JSON.stringify(registration)).catch((error: unknown) => {
      throw storeUnavailable(`Could not store the client id: ${fileFault(error) ?? 'writing failed'}.`, error);
    });
    return clientId;
  };
  return withProcessLock(toLockContext(context), `registration\n${issuer}`, register, signal);
}

/** The stored client id of an authorization server, if there is one. */
export function findRegistration(context: LoginContext, issuer: string): Promise<Registration | undefined> {
  return readRegistration(getPath(context, issuer));
}

async function readRegistration(path: string): Promise<Registration | undefined> {
  return Registration.safeParse(parseIfJson(await readPrivateFile(path).catch(() => undefined))).data;
}

/** Every client id that this OS user has registered, by authorization server. */
export async function listRegistrations(context: LoginContext): Promise<readonly Registration[]> {
  const paths = await listPrivateFiles(join(context.directories.state, 'clients'), '.json');
  const kept = await Promise.all(paths.map(readRegistration));
  return kept
    .filter((registration) => registration !== undefined)
    .sort((left, right) => (left.issuer < right.issuer ? -1 : 1));
}

/** Forgets a client id that the server no longer knows. Returns whether there was one. */
export function forgetRegistration(context: LoginContext, issuer: string): Promise<boolean> {
  return removePrivateFile(getPath(context, issuer));
}

function getPath(context: LoginContext, issuer: string): string {
  return join(context.directories.state, 'clients', `${digest(issuer)}.json`);
}
