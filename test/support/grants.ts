import type { Operator } from './actors.js';
import { type Answer, request } from './http.js';
import { text } from './json.js';
import {
  type AuthorizationParameters,
  authorizationUrl,
  createVerifier,
  mustRegister,
  type Place,
  redeemCode,
  redirectParameters,
} from './oauth.js';

/** Approves as the operator, without a browser, for an agent of a local account. */
export function approveLocally(place: Place, operator: Operator, parameters: AuthorizationParameters): Promise<Answer> {
  return request(authorizationUrl(place, parameters), {
    method: 'POST',
    headers: { authorization: `Bearer ${operator.secret}` },
  });
}

export interface Code {
  readonly clientId: string;
  readonly code: string;
  readonly verifier: string;
}

export interface Grant extends Code {
  readonly json: unknown;
  readonly accessToken: string;
  readonly refreshToken: string;
}

export interface GrantOptions {
  readonly clientId?: string;
  readonly scope?: string;
  readonly resource?: string | readonly string[];
}

/** Returns an unused code for this agent. */
export async function mustGetCode(
  place: Place,
  operator: Operator,
  agentHandle: string,
  { clientId, scope }: GrantOptions = {},
): Promise<Code> {
  const client = clientId ?? (await mustRegister(place, scope === undefined ? {} : { scope }));
  const { verifier, challenge } = createVerifier();
  const answer = await approveLocally(place, operator, {
    clientId: client,
    challenge,
    agentHandle,
    ...(scope === undefined ? {} : { scope }),
  });
  const code = redirectParameters(answer).get('code');
  if (code === null) throw new Error(`no code: ${answer.status} ${answer.headers['location']}`);
  return { clientId: client, code, verifier };
}

/** Returns a public client's tokens for this agent, in a new refresh-token family. */
export async function mustGrant(
  place: Place,
  operator: Operator,
  agentHandle: string,
  options: GrantOptions = {},
): Promise<Grant> {
  const got = await mustGetCode(place, operator, agentHandle, options);
  const answer = await redeemCode(place, got.clientId, got.code, got.verifier, {
    resource: options.resource ?? place.baseUrl,
  });
  if (answer.status !== 200) throw new Error(`the code was refused: ${answer.status} ${answer.text}`);
  return {
    ...got,
    json: answer.json,
    accessToken: text(answer.json, 'access_token'),
    refreshToken: text(answer.json, 'refresh_token'),
  };
}
