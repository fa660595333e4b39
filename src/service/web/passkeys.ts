import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import * as z from 'zod/mini';
import { isLoopbackHost } from '../../kit/loopback.js';
import { parseIfJson } from '../../kit/parse-json.js';
import { randomToken } from '../../kit/random.js';
import { isSameSecret } from '../../kit/same-secret.js';
import { recordActivity } from '../agents/activity.js';
import type { ServiceContext } from '../core/context.js';
import { attempt, toNetwork, toWiderNetwork, UNCOUNTED } from '../oauth/attempts.js';
import { hashSecret } from '../oauth/secret.js';
import type { AuthorizationServer } from '../oauth/server.js';
import { type AccountRow, findAccountById } from '../store/accounts.js';
import { findSignedInAccount } from '../store/browser-sessions.js';
import { accountLock } from '../store/lock-names.js';
import {
  deletePasskey,
  findPasskey,
  insertPasskey,
  listPasskeys,
  markChallengeUsed,
  markPasskeyUsed,
  PASSKEYS_MAX,
  type PasskeyRow,
} from '../store/passkeys.js';
import type { Browser } from './browser.js';
import { hidden } from './form.js';
import { type Html, html } from './html.js';

/** The host that passkeys belong to (Web Authentication calls it the relying party), or the reason why there can be none. */
export type RelyingParty =
  | { readonly kind: 'usable'; readonly host: string; readonly origin: string }
  | { readonly kind: 'unusable'; readonly why: Html };

/** Browsers use passkeys at host names only, over https or on this machine (Web Authentication Level 3 §5.1.3). */
export function findRelyingParty(webUrl: string): RelyingParty {
  const { protocol, hostname, origin, port } = new URL(webUrl);
  if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) {
    const advice = isLoopbackHost(hostname)
      ? html`Start it with <code class="wrap">--public-url http://localhost:${port}</code> to use them on this machine.`
      : html`The operator can set one with <code>--public-url</code>.`;
    const why = html`Passkeys need a host name, and this service is at the IP address ${hostname}. ${advice}`;
    return { kind: 'unusable', why };
  }
  if (protocol !== 'https:' && hostname !== 'localhost' && !hostname.endsWith('.localhost'))
    return { kind: 'unusable', why: html`Passkeys need https, and this service is at an http address.` };
  return { kind: 'usable', host: hostname, origin };
}

/** EdDSA, ES256 and RS256: every authenticator has one of them. */
const ALGORITHMS = [-8, -7, -257];
export const PASSKEY_NAME_MAX_LENGTH = 60;

type Purpose = 'create' | 'sign-in' | 'confirm';
const CHALLENGE_LIFETIME_MS = 15 * 60 * 1000;

/**
 * A challenge says what it is for and until when, and is sealed with the browser's own secret. So none is stored until it is
 * answered, and a stranger cannot fill the disk by opening pages.
 */
export function createChallenge(
  { clock, random }: Pick<ServiceContext, 'clock' | 'random'>,
  browser: Browser,
  purpose: Purpose,
): string {
  const text = `${purpose} ${clock.now() + CHALLENGE_LIFETIME_MS} ${randomToken(random, 16)}`;
  return Buffer.from(`${text} ${browser.chanceFor(`passkey ${text}`)}`).toString('base64url');
}

type TakenChallenge = 'right' | 'wrong' | 'expired';

/** Uses up a challenge of this browser. */
async function takeChallenge(
  { clock, database }: Pick<ServiceContext, 'clock' | 'database'>,
  browser: Browser,
  purpose: Purpose,
  challenge: string,
): Promise<TakenChallenge> {
  const [text, found, expiresAt, seal] =
    /^((\S+) (\d{1,16}) \S+) (\S+)$/.exec(Buffer.from(challenge, 'base64url').toString())?.slice(1) ?? [];
  if (found !== purpose || seal === undefined) return 'wrong';
  if (!isSameSecret(seal, browser.chanceFor(`passkey ${text}`))) return 'wrong';
  if (Number(expiresAt) <= clock.now()) return 'expired';
  const isFirst = await database.write((transaction) =>
    markChallengeUsed(transaction, hashSecret(challenge), Number(expiresAt)),
  );
  return isFirst ? 'right' : 'wrong';
}

export interface PasskeyForm {
  readonly relyingParty: Extract<RelyingParty, { kind: 'usable' }>;
  readonly challenge: string;
  readonly path: string;
  readonly label: string;
  readonly kind: Purpose;
  readonly values: Readonly<Record<string, string | undefined>>;
  readonly fields?: Html;
  readonly isPrimary?: boolean;
  readonly account?: Pick<AccountRow, 'id' | 'username' | 'display_name'>;
  readonly passkeys?: readonly PasskeyRow[];
}

/** A form for the script `passkey.js`, which shows it if the browser supports passkeys. */
export function renderPasskeyForm(form: PasskeyForm): Html {
  const { relyingParty, challenge, path, label, kind, values, fields, isPrimary = true, account, passkeys = [] } = form;
  const options = {
    kind,
    challenge,
    rp: { id: relyingParty.host, name: `asp at ${relyingParty.host}` },
    ...(account !== undefined && {
      user: { id: account.id, name: account.username, displayName: account.display_name },
      algorithms: ALGORITHMS,
    }),
    credentials: passkeys.map(({ credential_id: id, transports }) => ({
      id,
      ...(transports !== '' && { transports: transports.split(' ') }),
    })),
  };
  return html`<form method="post" action="${path}" class="stack" id="passkey-form" aria-label="${label}" data-passkey="${JSON.stringify(options)}" hidden>
${hidden({ ...values, credential: '' })}${fields}
<p class="mistake" id="passkey-problem" role="alert" hidden></p>
<div class="actions single"><button class="button ${isPrimary ? 'primary' : 'plain'}">${label}</button></div></form>`;
}

const Text = z.string().check(z.maxLength(16_384));
/** As a browser encodes it (Web Authentication Level 3 §5.1.8). */
const Credential = z.object({
  id: Text,
  rawId: Text,
  type: z.literal('public-key'),
  response: z.object({
    clientDataJSON: Text,
    attestationObject: z.optional(Text),
    authenticatorData: z.optional(Text),
    signature: z.optional(Text),
    userHandle: z.optional(Text),
    transports: z.optional(z.array(z.string().check(z.regex(/^[a-z-]{1,20}$/))).check(z.maxLength(10))),
  }),
});

export type PasskeyCheck =
  | { readonly kind: 'right'; readonly account: AccountRow; readonly name: string }
  | { readonly kind: 'wrong' | 'expired' }
  /** It was not checked: there were too many attempts. */
  | { readonly kind: 'refused'; readonly waitS: number };

export interface PasskeyAnswer {
  readonly browser: Browser;
  readonly purpose: 'sign-in' | 'confirm';
  /** The credential in JSON, as the script wrote it into the form. */
  readonly text: string;
  /** The only account that counts; undefined: any. */
  readonly accountId?: string;
}

/**
 * Checks an answer to a challenge. An unknown passkey, one of another account and one that did not sign this get the same
 * answer. Attempts from one address count with those for passwords.
 */
export async function checkPasskey(
  server: AuthorizationServer,
  { ip }: FastifyRequest,
  { browser, purpose, text, accountId }: PasskeyAnswer,
): Promise<PasskeyCheck> {
  const { context } = server;
  const fail = <Kind extends 'wrong' | 'expired'>(
    kind: Kind,
    outcome: string,
    account?: AccountRow,
  ): { kind: Kind } => {
    context.meter.signInFailed();
    const named = account === undefined ? {} : { account: account.username };
    context.log.security?.('sign_in_failed', { ...named, address: ip, outcome });
    return { kind };
  };
  const wider = toWiderNetwork(ip);
  const waitS = attempt([
    [server.signInsOfAddress, toNetwork(ip)],
    [wider === undefined ? UNCOUNTED : server.signInsOfWiderNetwork, wider ?? ''],
  ]);
  if (waitS > 0) {
    fail('wrong', 'too_many');
    return { kind: 'refused', waitS };
  }
  const relyingParty = findRelyingParty(context.settings.addresses.webUrl);
  const credential = Credential.safeParse(parseIfJson(text)).data;
  if (relyingParty.kind === 'unusable' || credential === undefined) return fail('wrong', 'malformed_passkey');
  const { passkey, account } = await context.database.read(async (query) => {
    const found = await findPasskey(query, credential.id);
    return { passkey: found, account: found && (await findAccountById(query, found.account_id)) };
  });
  if (passkey === undefined || account === undefined) return fail('wrong', 'no_such_passkey');
  const { userHandle } = credential.response;
  const isItsOwn = userHandle === undefined || userHandle === Buffer.from(account.id).toString('base64url');
  if (!isItsOwn || (accountId ?? account.id) !== account.id) return fail('wrong', 'passkey_of_another', account);
  const challenged = { context, browser, purpose };
  const signCount = await verify(challenged, async ({ verifyAuthenticationResponse }, expectedChallenge) => {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response: toResponse(credential),
      expectedChallenge,
      expectedOrigin: relyingParty.origin,
      expectedRPID: relyingParty.host,
      requireUserVerification: true,
      // The counter is compared when it is stored, so that two answers at once cannot both pass.
      credential: { id: passkey.credential_id, publicKey: Buffer.from(passkey.public_key, 'base64url'), counter: 0 },
    });
    return verified ? authenticationInfo.newCounter : undefined;
  });
  if (signCount === 'expired') return fail('expired', 'expired_challenge', account);
  if (signCount === 'wrong') return fail('wrong', 'wrong_passkey', account);
  if (!(await countUse(context, passkey, signCount, ip))) return fail('wrong', 'copied_passkey', account);
  return { kind: 'right', account, name: passkey.name };
}

/** False if the count went back, because someone else signed with a copy of the passkey, or if it was removed. */
function countUse(context: ServiceContext, passkey: PasskeyRow, signCount: number, address: string): Promise<boolean> {
  return context.database.write(async (transaction) => {
    if (await markPasskeyUsed(transaction, passkey.id, signCount, context.clock.now())) return true;
    if ((await findPasskey(transaction, passkey.credential_id)) !== undefined)
      await recordActivity(context, transaction, {
        accountId: passkey.account_id,
        kind: 'passkey-copied',
        detail: passkey.name,
        address,
      });
    return false;
  });
}

type Library = typeof import('@simplewebauthn/server');

/** Which browser was challenged, and for what. */
interface Challenged {
  readonly context: ServiceContext;
  readonly browser: Browser;
  readonly purpose: Purpose;
}

/** Checks an answer, and uses up the challenge that it answers. The library is loaded with the first answer. */
async function verify<Result>(
  { context, browser, purpose }: Challenged,
  check: (library: Library, expectedChallenge: (challenge: string) => Promise<boolean>) => Promise<Result | undefined>,
): Promise<Result | 'wrong' | 'expired'> {
  const library = await import('@simplewebauthn/server');
  let isExpired = false;
  const expectedChallenge = async (challenge: string): Promise<boolean> => {
    const taken = await takeChallenge(context, browser, purpose, challenge);
    isExpired = taken === 'expired';
    return taken === 'right';
  };
  // The library throws if an answer is wrong.
  const result = await check(library, expectedChallenge).catch(() => undefined);
  return result ?? (isExpired ? 'expired' : 'wrong');
}

/** The library reports missing members. */
function toResponse<Response>({ id, rawId, type, response }: z.infer<typeof Credential>): Response {
  return { id, rawId, type, response, clientExtensionResults: {} } as Response;
}

export type PasskeyAddition = 'added' | 'expired' | 'wrong' | 'duplicate' | 'full';

/** Adds the passkey that a browser has made for an account. */
export async function addPasskey(
  context: ServiceContext,
  browser: Browser,
  account: AccountRow,
  { text, name }: { readonly text: string; readonly name: string },
): Promise<PasskeyAddition> {
  const relyingParty = findRelyingParty(context.settings.addresses.webUrl);
  const credential = Credential.safeParse(parseIfJson(text)).data;
  if (relyingParty.kind === 'unusable' || credential === undefined) return 'wrong';
  const challenged = { context, browser, purpose: 'create' } as const;
  const made = await verify(challenged, async ({ verifyRegistrationResponse }, expectedChallenge) => {
    const { registrationInfo } = await verifyRegistrationResponse({
      response: toResponse(credential),
      expectedChallenge,
      expectedOrigin: relyingParty.origin,
      expectedRPID: relyingParty.host,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    });
    return registrationInfo?.credential;
  });
  if (made === 'expired' || made === 'wrong') return made;
  return context.database.write(async (transaction) => {
    await transaction.lock([accountLock(account.id)]);
    // A new password may have signed this browser out since.
    const current = await findSignedInAccount(transaction, browser.hash, context.clock.now());
    if (current?.id !== account.id) return 'expired';
    if ((await listPasskeys(transaction, account.id)).length >= PASSKEYS_MAX) return 'full';
    const isNew = await insertPasskey(transaction, {
      id: context.ids.ulid(),
      credential_id: made.id,
      account_id: account.id,
      name,
      public_key: Buffer.from(made.publicKey).toString('base64url'),
      sign_count: made.counter,
      transports: (credential.response.transports ?? []).join(' '),
      created_at: context.clock.now(),
      last_used_at: null,
    });
    return isNew ? 'added' : 'duplicate';
  });
}

/** Removes a passkey, unless the account would have no way in. Returns false if it is the last one. */
export async function removePasskey(
  { database }: Pick<ServiceContext, 'database'>,
  accountId: string,
  id: string,
): Promise<boolean> {
  return database.write(async (transaction) => {
    await transaction.lock([accountLock(accountId)]);
    const account = await findAccountById(transaction, accountId);
    const others = (await listPasskeys(transaction, accountId)).filter((one) => one.id !== id);
    // The operator's own command can sign in as a local account.
    if (account?.password_hash === null && account.is_local === 0 && others.length === 0) return false;
    await deletePasskey(transaction, accountId, id);
    return true;
  });
}
