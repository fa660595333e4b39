import type { IncomingMessage } from 'node:http';
import { putLast } from '../../kit/bounded-map.js';
import type { Clock } from '../../kit/clock.js';
import { parseIfJson } from '../../kit/parse-json.js';
import { ClientDocument } from '../../wire/schemas/oauth.js';
import type { ServiceContext } from '../core/context.js';
import { isOutsideUrl, type OutsideNetwork, requestOutside } from '../core/public-internet.js';
import { findOAuthClient, putOAuthClient } from '../store/oauth-clients.js';
import { tooManyRequests } from './attempts.js';
import { isRegistrableRedirectUri } from './clients.js';
import { grantableScope } from './metadata.js';
import { OAuthError } from './parameters.js';
import { makeRoom } from './unused-clients.js';

/** A document that a stranger's server sent. */
interface FetchedDocument {
  readonly text: string;
  /** The `Cache-Control` header. */
  readonly cacheControl: string;
}

const TIMEOUT_MS = 3_000;
const DOCUMENT_MAX_BYTES = 5 * 1024;
const JSON_TYPE = /^application\/(?:[a-z0-9.!#$&^_-]+\+)?json\s*(?:;|$)/i;

/** Fetches a JSON document from a URL that a stranger chose, in at most 3 seconds and 5 KB. */
function fetchDocument(clock: Clock, network: OutsideNetwork, url: URL): Promise<FetchedDocument> {
  const headers = { accept: 'application/json' };
  return requestOutside(clock, network, { url, method: 'GET', headers, timeoutMs: TIMEOUT_MS }, readBody);
}

async function readBody(answer: IncomingMessage): Promise<FetchedDocument> {
  const { statusCode, headers } = answer;
  // A redirect is an answer of another status, too.
  if (statusCode !== 200) throw new Error(`status ${statusCode}`);
  if (!JSON_TYPE.test(headers['content-type'] ?? '')) throw new Error('the type is not JSON');
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw new Error('the document is encoded');
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > DOCUMENT_MAX_BYTES) throw new Error('the document is too large');
    chunks.push(chunk);
  }
  return { text: Buffer.concat(chunks).toString('utf8'), cacheControl: headers['cache-control'] ?? '' };
}

const URL_MAX_LENGTH = 512;
const CACHE_MAX_SIZE = 1_000;
/** Fetches at once: in all, from one network of callers, and from one host, so that a slow one leaves room for others. */
const FETCHES_MAX = 64;
const FETCHES_PER_NETWORK_MAX = 4;
const FETCHES_PER_HOST_MAX = 8;
const DEFAULT_AGE_S = 60 * 60;
const MIN_AGE_S = 60;
const MAX_AGE_S = 24 * 60 * 60;

/** The clients that describe themselves in a document at their own id (OAuth Client ID Metadata Document). */
export interface ClientDocuments {
  /**
   * Registers the client of a document URL, from the cache or by fetching it; does nothing for other ids. Throws an
   * OAuthError when the document cannot be used.
   */
  learn(clientId: string, caller: DocumentCaller): Promise<void>;
}

/** Who asked for a document. */
interface DocumentCaller {
  /** Undefined if all callers have the same address. */
  readonly network: string | undefined;
  /** Is called before a fetch and may refuse it. */
  admit(): Promise<void>;
}

interface Fetch {
  readonly network: string | undefined;
  readonly host: string;
  readonly done: Promise<void>;
}

type DocumentsContext = Pick<ServiceContext, 'clock' | 'database'>;

/** Documents are cached for as long as their server says, between a minute and a day. Failures are not cached. */
export function createClientDocuments(context: DocumentsContext, network: OutsideNetwork): ClientDocuments {
  const { clock } = context;
  const freshUntilMs = new Map<string, number>();
  const fetches = new Map<string, Fetch>();

  const remember = (clientId: string, ageS: number): void => {
    putLast(freshUntilMs, clientId, clock.monotonic() + ageS * 1000, CACHE_MAX_SIZE);
  };
  /** One that no one approved may have been deleted to make room. */
  const isKnown = async (clientId: string): Promise<boolean> => {
    if ((freshUntilMs.get(clientId) ?? 0) <= clock.monotonic()) return false;
    return (await context.database.read((query) => findOAuthClient(query, clientId))) !== undefined;
  };
  const fetchClient = async (clientId: string): Promise<void> => {
    const fetched = await fetchOrRefuse(context, network, clientId);
    await storeClient(context, clientId, readDocument(clientId, fetched.text));
    remember(clientId, readAge(fetched.cacheControl));
  };

  const requireRoom = (host: string, network: string | undefined): void => {
    const all = [...fetches.values()];
    const isFull =
      all.length >= FETCHES_MAX ||
      all.filter((one) => one.host === host).length >= FETCHES_PER_HOST_MAX ||
      (network !== undefined && all.filter((one) => one.network === network).length >= FETCHES_PER_NETWORK_MAX);
    if (isFull) throw tooManyRequests(1);
  };

  return {
    async learn(clientId, { network, admit }) {
      if (!isDocumentUrl(clientId) || (await isKnown(clientId))) return;
      const { hostname: host } = new URL(clientId);
      if (!fetches.has(clientId)) {
        // Before it counts against the caller, and again after waiting.
        requireRoom(host, network);
        await admit();
      }
      const underway = fetches.get(clientId);
      if (underway !== undefined) return underway.done;
      requireRoom(host, network);
      const done = fetchClient(clientId).finally(() => fetches.delete(clientId));
      fetches.set(clientId, { network, host, done });
      return done;
    },
  };
}

/** Whether a client id is the URL of a document. */
export function isDocumentUrl(clientId: string): boolean {
  return isOutsideUrl(clientId, URL_MAX_LENGTH);
}

async function fetchOrRefuse(
  { clock }: DocumentsContext,
  network: OutsideNetwork,
  clientId: string,
): Promise<FetchedDocument> {
  try {
    return await fetchDocument(clock, network, new URL(clientId));
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unknown';
    // One answer for every reason: it must not reveal what the service can reach.
    throw unusable('The service cannot fetch the description of the application from its client_id.', reason);
  }
}

function readDocument(clientId: string, text: string): ClientDocument {
  const document = ClientDocument.safeParse(parseIfJson(text));
  if (!document.success) throw unusable('The description of the application is malformed.');
  const { client_id, redirect_uris, grant_types, token_endpoint_auth_method, client_secret } = document.data;
  if (client_id !== clientId) throw unusable('The description of the application names another client_id.');
  if ((token_endpoint_auth_method ?? 'none') !== 'none' || client_secret !== undefined)
    throw unusable('Applications cannot authenticate with a secret or a key here.');
  if (grant_types?.includes('authorization_code') === false)
    throw unusable('The application does not use authorization codes.');
  // A document is for many servers, so it may name addresses that this one does not take.
  const usable = redirect_uris.filter(isRegistrableRedirectUri);
  if (usable.length === 0) throw unusable('The application has no redirect URI that works here.');
  return { ...document.data, redirect_uris: usable };
}

/** From here on it is a public client like a registered one, until it is no longer used. */
async function storeClient(context: DocumentsContext, clientId: string, document: ClientDocument): Promise<void> {
  const scope = grantableScope(document.scope);
  if (scope === undefined) throw unusable('This service knows none of the scopes that the application requests.');
  const row = {
    id: clientId,
    name: document.client_name?.trim() || new URL(clientId).host,
    redirect_uris: JSON.stringify(document.redirect_uris),
    scope,
    created_at: context.clock.now(),
  };
  await context.database.write(async (transaction) => {
    if ((await findOAuthClient(transaction, clientId)) === undefined) await makeRoom(transaction, row.created_at);
    await putOAuthClient(transaction, row);
  });
}

/** How long a document may be cached, based on its server's headers (RFC 9111 §5.2.2). */
function readAge(cacheControl: string): number {
  if (/(?:^|,)\s*no-(?:store|cache)\b/i.test(cacheControl)) return MIN_AGE_S;
  const seconds = /(?:^|,)\s*max-age="?(\d{1,9})/i.exec(cacheControl)?.[1];
  return Math.min(MAX_AGE_S, Math.max(MIN_AGE_S, Number(seconds ?? DEFAULT_AGE_S)));
}

function unusable(description: string, detail?: string): OAuthError {
  return new OAuthError('invalid_client', description, detail, { status: 400 });
}
