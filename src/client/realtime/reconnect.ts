import { wait } from '../../kit/clock.js';
import type { Random } from '../../kit/random.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { Credential } from '../credentials/credential.js';
import { RequestError } from '../http/request-error.js';
import type { Transport } from '../http/transport.js';
import { type LiveSocket, openSocket } from './socket.js';

const DELAY_MIN_MS = 1_000;
const DELAY_MAX_MS = 30_000;
/** A connection that lasted so long, or delivered something, was a good one: the delays begin anew. */
const GOOD_MS = 5_000;

/** What connecting needs. */
export interface ConnectionContext {
  readonly transport: Transport;
  readonly random: Random;
  readonly credential: Credential;
  /** The WebSocket address, which is also the resource of its tokens. */
  readonly url: string;
  readonly signal?: AbortSignal | undefined;
}

/** A connection, or that there is none for now. */
export type ConnectionItem =
  | { readonly kind: 'open'; readonly socket: LiveSocket }
  | { readonly kind: 'reconnecting'; readonly attempt: number; readonly delayMs: number; readonly reason: string };

interface Trouble {
  readonly reason: string;
  readonly minDelayMs: number;
}

/**
 * Connections to the event stream, one after the other, for ever: ask for the next when one has ended. Each has a token of
 * its own; one that the service refused or ended is renewed. Between them lies a random delay, up to 1 s at first and up to
 * 30 s after repeated failures.
 * @throws RequestError what waiting cannot mend: a login that ended, a missing scope, a wrong address.
 */
export async function* keepConnected(context: ConnectionContext): AsyncGenerator<ConnectionItem> {
  const { transport, random, signal } = context;
  let attempt = 0;
  let rejected: string | undefined;
  let wasConnected = false;
  while (signal?.aborted !== true) {
    const connected = await connectOnce(context, rejected, wasConnected);
    let trouble: Trouble;
    if (connected.kind === 'failed') {
      rejected = undefined;
      trouble = connected.trouble;
    } else {
      const { socket, token } = connected;
      wasConnected = true;
      yield { kind: 'open', socket };
      socket.close();
      if (socket.hasDelivered || transport.clock.monotonic() - socket.openedAtMs >= GOOD_MS) attempt = 0;
      rejected = socket.closure?.code === CLOSE_CODE.tokenEnded ? token : undefined;
      trouble = { reason: describe(socket), minDelayMs: 0 };
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
  rejectedBefore: string | undefined,
  wasConnected: boolean,
): Promise<Connected> {
  const { transport, url, signal, credential } = context;
  let rejected = rejectedBefore;
  let isRenewed = false;
  while (true) {
    let token: string | undefined;
    try {
      token = (await credential.accessToken('ws', { rejected, signal })).token;
      return { kind: 'connected', socket: await openSocket({ transport, url, token, signal }), token };
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      if (error.status === 401 && token !== undefined && !isRenewed) {
        isRenewed = true;
        rejected = token;
        continue;
      }
      if (signal?.aborted !== true && !isPassing(error, wasConnected)) throw error;
      return { kind: 'failed', trouble: { reason: error.code, minDelayMs: error.retryAfterMs ?? 0 } };
    }
  }
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
