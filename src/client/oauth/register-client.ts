import { RegistrationReply } from '../../wire/oauth.js';
import { RequestError } from '../http/request-error.js';
import { type Sending, sendWithRetries } from '../http/send.js';
import { type OAuthContext, oauthFailure } from './token-endpoint.js';

/** The path of our loopback redirect URI; its port is chosen anew at each login (RFC 8252 §7.3). */
export const REDIRECT_PATH = '/callback';

/** What is registered: any port may be used at authorization in place of this one. */
const REGISTERED_REDIRECT_URI = `http://127.0.0.1:8745${REDIRECT_PATH}`;

/**
 * Registers this program as a public client (spec: POST /register; RFC 7591 §3.1). The client id is to be kept and reused.
 * @throws RequestError
 */
export async function registerClient(
  context: OAuthContext,
  wish: { readonly clientName: string; readonly scopes: readonly string[] },
  signal?: AbortSignal,
): Promise<string> {
  const url = context.discovery.metadata.registration_endpoint;
  if (url === undefined)
    throw new RequestError({ code: 'ASP_DISCOVERY', message: 'The authorization server registers no clients.' });
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
      message: 'The answer to the registration was not understood.',
      status: sent.answer.status,
      outcome: 'applied',
      isRetryable: false,
    });
  }
}
