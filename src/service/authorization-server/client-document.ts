import { isIP } from 'node:net';

import { ClientDocument } from '../../wire/oauth.js';
import type { ServiceContext } from '../context.js';
import { putOAuthClient } from '../store/oauth-client-rows.js';
import { tooManyRequests } from './attempts.js';
import { type DocumentNetwork, FetchError, type FetchedDocument, fetchDocument } from './fetch-document.js';
import { OAuthError } from './oauth-error.js';
import { isRegistrableRedirectUri } from './redirect-uri.js';
import { grantableScope } from './scope-and-resource.js';

const URL_MAX_LENGTH = 512;
const CACHE_MAX_SIZE = 1_000;
const FETCHES_MAX = 16;
const DEFAULT_AGE_S = 60 * 60;
const MIN_AGE_S = 60;
const MAX_AGE_S = 24 * 60 * 60;

/** The clients that describe themselves in a document at their own id (OAuth Client ID Metadata Document). */
export interface ClientDocuments {
  /**
   * Makes the client of a document URL known, from the cache or by fetching it; every other id is left alone. `admit` is
   * called before a fetch and may refuse it. Throws an OAuthError when the document cannot be used.
   */
  learn(clientId: string, admit: () => Promise<void>): Promise<void>;
}

type DocumentsContext = Pick<ServiceContext, 'clock' | 'database'>;

/** Documents are cached for as long as their server says, between a minute and a day. Failures are not cached. */
export function createClientDocuments(context: DocumentsContext, network: DocumentNetwork): ClientDocuments {
  const { clock } = context;
  const freshUntilMs = new Map<string, number>();
  const fetches = new Map<string, Promise<void>>();

  const remember = (clientId: string, ageS: number): void => {
    freshUntilMs.delete(clientId);
    const [oldest] = freshUntilMs.keys();
    if (freshUntilMs.size >= CACHE_MAX_SIZE && oldest !== undefined) freshUntilMs.delete(oldest);
    freshUntilMs.set(clientId, clock.monotonic() + ageS * 1000);
  };
  const fetchClient = async (clientId: string): Promise<void> => {
    const fetched = await fetchOrRefuse(context, network, clientId);
    await storeClient(context, clientId, readDocument(clientId, fetched.text));
    remember(clientId, readAge(fetched.cacheControl));
  };

  return {
    async learn(clientId, admit) {
      if (!isDocumentUrl(clientId) || (freshUntilMs.get(clientId) ?? 0) > clock.monotonic()) return;
      if (!fetches.has(clientId)) await admit();
      const underway = fetches.get(clientId);
      if (underway !== undefined) return underway;
      if (fetches.size >= FETCHES_MAX) throw tooManyRequests(1);
      const started = fetchClient(clientId).finally(() => fetches.delete(clientId));
      fetches.set(clientId, started);
      return started;
    },
  };
}

/**
 * Whether a client id is the URL of a document: https, a path, and none of user information, fragment, dot segments and
 * addresses in place of a name. One spelling of a URL is one client, so only the normal one counts.
 */
export function isDocumentUrl(clientId: string): boolean {
  if (!clientId.startsWith('https://') || clientId.length > URL_MAX_LENGTH || !URL.canParse(clientId)) return false;
  const { href, pathname, username, password, hash, hostname } = new URL(clientId);
  const isPlain = username === '' && password === '' && hash === '' && !clientId.endsWith('#');
  const isNamed = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 && hostname.includes('.') && !hostname.endsWith('.');
  return href === clientId && pathname !== '/' && isPlain && isNamed;
}

async function fetchOrRefuse(
  { clock }: DocumentsContext,
  network: DocumentNetwork,
  clientId: string,
): Promise<FetchedDocument> {
  try {
    return await fetchDocument(clock, network, new URL(clientId));
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    // One answer for every reason: it must not tell what the service can reach.
    throw unusable('The description of the application cannot be fetched from its client_id.', error.message);
  }
}

function readDocument(clientId: string, text: string): ClientDocument {
  const document = ClientDocument.safeParse(parseJson(text));
  if (!document.success) throw unusable('The description of the application is malformed.');
  const { client_id, redirect_uris, grant_types, token_endpoint_auth_method, client_secret } = document.data;
  if (client_id !== clientId) throw unusable('The description of the application names another client_id.');
  if ((token_endpoint_auth_method ?? 'none') !== 'none' || client_secret !== undefined)
    throw unusable('The application cannot authenticate with a secret or a key here.');
  if (grant_types?.includes('authorization_code') === false)
    throw unusable('The application does not use authorization codes.');
  // A document is for many servers, so it may name addresses that this one does not take.
  const usable = redirect_uris.filter(isRegistrableRedirectUri);
  if (usable.length === 0) throw unusable('The application has no redirect URI that can be used here.');
  return { ...document.data, redirect_uris: usable };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** From here on it is a public client like a registered one, until nobody uses it any more. */
async function storeClient(context: DocumentsContext, clientId: string, document: ClientDocument): Promise<void> {
  const scope = grantableScope(document.scope);
  if (scope === undefined) throw unusable('The application asks for no scope that is known here.');
  const row = {
    id: clientId,
    name: document.client_name?.trim() || new URL(clientId).host,
    redirect_uris: JSON.stringify(document.redirect_uris),
    scope,
    created_at: context.clock.now(),
  };
  await context.database.write((transaction) => putOAuthClient(transaction, row));
}

/** How long a document may be kept, of what its server says (RFC 9111 §5.2.2). */
function readAge(cacheControl: string): number {
  if (/(?:^|,)\s*no-(?:store|cache)\b/i.test(cacheControl)) return MIN_AGE_S;
  const seconds = /(?:^|,)\s*max-age="?(\d{1,9})/i.exec(cacheControl)?.[1];
  return Math.min(MAX_AGE_S, Math.max(MIN_AGE_S, Number(seconds ?? DEFAULT_AGE_S)));
}

function unusable(description: string, detail?: string): OAuthError {
  return new OAuthError('invalid_client', description, detail, { status: 400 });
}
