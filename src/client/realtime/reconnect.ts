import { wait } from '../../kit/clock.js';
import type { Random } from '../../kit/random.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { Credential } from '../credentials/credential.js';
import { RequestError } from '../http/request-error.js';
import type { Transport } from '../http/transport.js';
import { type LiveSocket, openSocket } from './socket.js';

const DELAY_MIN_MS = 1_000;
const DELAY_MAX_MS = 30_000;
/** A service that asks to stay away for longer is asked again after this time: nobody is there to see the wait. */
const POSTPONE_MAX_MS = 5 * 60_000;
/** A connection that lasted so long, or delivered something, was a good one: the delays begin anew. */
const GOOD_MS = 5_000;

/** What connecting needs. */
export interface ConnectionContext {
  readonly transport: Transport;
  readonly random: Random;
  readonly credential: Credential;
  /** Does what must be done before the first connection, and finds its address. Called again until it succeeds. */
  prepare(): Promise<SocketAddress>;
  /** Whether it waits for a service that is away before the first connection too. */
  readonly waitsAtStart: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** The WebSocket address, which is also the resource of its tokens. */
export interface SocketAddress {
  readonly url: string;
  /** The service does not name it. */
  readonly isGuessed: boolean;
}

/** A connection, or that there is none for now. */
export type ConnectionItem =
  | {
      readonly kind: 'open';
      readonly socket: LiveSocket;
      /** Says that what was asked beside the socket failed; the next connection heeds it. */
      fail(error: RequestError): void;
    }
  | { readonly kind: 'reconnecting'; readonly attempt: number; readonly delayMs: number; readonly reason: string };

interface Trouble {
  readonly reason: string;
  readonly minDelayMs: number;
}

/**
 * Connections to the event stream, one after the other, without end: ask for the next when one has ended. It waits for a service
 * that is away, at the start as later. Each connection has a token of its own; one that the service refused or ended is renewed.
 * Between them lies a random delay, up to 1 s at first and up to 30 s after repeated failures.
 * @throws RequestError what waiting cannot fix: a login that ended, a missing scope, a wrong address.
 */
export async function* keepConnected(context: ConnectionContext): AsyncGenerator<ConnectionItem> {
  const { transport, random, signal } = context;
  let attempt = 0;
  let rejected: string | undefined;
  let wasConnected = false;
  let address: SocketAddress | undefined;
  const findAddress = async (): Promise<SocketAddress> => {
    address ??= await context.prepare();
    return address;
  };
  while (signal?.aborted !== true) {
    const connected = await connectOnce(context, findAddress, rejected, wasConnected);
    let trouble: Trouble;
    if (connected.kind === 'failed') {
      rejected = undefined;
      trouble = connected.trouble;
    } else {
      const { socket, token } = connected;
      wasConnected = true;
      let failure: RequestError | undefined;
      const fail = (error: RequestError): void => {
        failure = error;
      };
      yield { kind: 'open', socket, fail };
      socket.close();
      if (socket.hasDelivered || transport.clock.monotonic() - socket.openedAtMs >= GOOD_MS) attempt = 0;
      rejected = socket.closure?.code === CLOSE_CODE.tokenEnded ? token : undefined;
      trouble = failure === undefined ? { reason: describe(socket), minDelayMs: 0 } : troubleOf(failure);
    }
    if (signal?.aborted) return;
    attempt += 1;
    const ceiling = Math.min(DELAY_MAX_MS, DELAY_MIN_MS * 2 ** Math.min(attempt - 1, 10));
    const delayMs = Math.max(trouble.minDelayMs, Math.round(random.fraction() * ceiling));
    yield { kind: 'reconnecting', attempt, delayMs, reason: trouble.reason };
    await wait(transport.clock, delayMs, signal).catch(() => undefined);
  }
}

type Connected =
  | { readonly kind: 'connected'; readonly socket: LiveSocket; readonly token: string }
  | { readonly kind: 'failed'; readonly trouble: Trouble };

/** A refused token is renewed once and tried again at once. */
async function connectOnce(
  context: ConnectionContext,
  findAddress: () => Promise<SocketAddress>,
  rejectedBefore: string | undefined,
  wasConnected: boolean,
): Promise<Connected> {
  const { transport, signal, credential } = context;
  let rejected = rejectedBefore;
  let isRenewed = false;
  while (true) {
    let token: string | undefined;
    try {
      const address = await findAddress();
      token = (await credential.accessToken('ws', { rejected, signal })).token;
      const opening = openSocket({ transport, url: address.url, token, signal });
      const socket = await (address.isGuessed ? opening.catch((error) => explainGuess(error, address.url)) : opening);
      return { kind: 'connected', socket, token };
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      if (error.status === 401 && token !== undefined && !isRenewed) {
        isRenewed = true;
        rejected = token;
        continue;
      }
      const isGivenUp = !wasConnected && !context.waitsAtStart;
      if (signal?.aborted !== true && (isGivenUp || !isPassing(error, wasConnected))) throw error;
      return { kind: 'failed', trouble: troubleOf(error) };
    }
  }
}

function troubleOf({ code, retryAfterMs = 0 }: RequestError): Trouble {
  return { reason: code, minDelayMs: Math.min(retryAfterMs, POSTPONE_MAX_MS) };
}

/** A refusal at an address that was only guessed says how to name the right one. */
function explainGuess(error: unknown, url: string): never {
  const status = error instanceof RequestError ? error.status : undefined;
  const isElsewhere = status !== undefined && status < 500 && ![401, 403, 408, 425, 429].includes(status);
  if (!isElsewhere) throw error;
  throw new RequestError({
    code: 'ASP_DISCOVERY',
    message: `The service publishes no metadata, and its WebSocket is not at ${url}. Name it with asp profile add --ws-url.`,
    status,
    isRetryable: false,
    cause: error,
  });
}

/** What may be better later: the network, a busy or broken service; once connected, also what stands before it. */
function isPassing(error: RequestError, wasConnected: boolean): boolean {
  if (error.isRetryable) return true;
  return wasConnected && (error.code === 'ASP_TLS' || error.code === 'ASP_BAD_ANSWER');
}

function describe(socket: LiveSocket): string {
  const { code, reason } = socket.closure ?? { code: 1006, reason: '' };
  return reason === '' ? `closed ${code}` : `closed ${code}: ${reason}`;
}
