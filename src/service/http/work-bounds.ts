import type { IncomingMessage } from 'node:http';
import { putLast } from '../../kit/bounded-map.js';
import { type Clock, wait } from '../../kit/clock.js';
import type { Operation } from '../../wire/endpoint.js';
import {
  ACCOUNT_BURST_BYTES,
  ACCOUNT_BYTES_PER_SECOND,
  AGENT_BURST_BYTES,
  AGENT_BYTES_PER_SECOND,
  LARGE_BODIES_MAX,
  LARGE_BODIES_PER_ACCOUNT_MAX,
  MESSAGE_BODY_MAX_BYTES,
  REQUEST_WAIT_MAX_MS,
  REQUESTS_PER_ACCOUNT_MAX,
  REQUESTS_PER_AGENT_MAX,
  REQUESTS_WAITING_MAX,
  SMALL_BODY_MAX_BYTES,
} from '../../wire/limit.js';
import type { Actor, ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { createSemaphore } from '../core/semaphore.js';
import { readBytes } from './request.js';

const FORGOTTEN_PER_CALL = 4;

export interface PaceOptions {
  /** The work per second of one key. */
  readonly perSecond: number;
  /** The work at once after a pause. */
  readonly burst: number;
  /** Work that would have to wait longer is refused. */
  readonly longestWaitMs: number;
}

/**
 * Starts the work of one key at a limited rate, in the order of arrival. Excess work waits; nothing is refused while
 * the wait is bearable, so that exact limits stay exact (a leaky bucket as a meter, like the GCRA of ATM networks).
 */
export interface Pace {
  /** Resolves when work of this cost may begin. Throws RATE_LIMITED, at no cost, if that would take too long. */
  admit(key: string, cost: number): Promise<void>;
  /** Adds the cost of work that has already begun; later work waits for it. */
  charge(key: string, cost: number): void;
}

export function createPace(clock: Clock, { perSecond, burst, longestWaitMs }: PaceOptions): Pace {
  const burstMs = (burst / perSecond) * 1000;
  /** When all admitted work is paid off; the key admitted last comes last. */
  const paidOffAt = new Map<string, number>();
  const forgetIdle = (now: number): void => {
    let looked = 0;
    for (const [key, at] of paidOffAt) {
      if (at > now || looked === FORGOTTEN_PER_CALL) return;
      paidOffAt.delete(key);
      looked += 1;
    }
  };
  const charge = (key: string, cost: number): void => {
    const now = clock.monotonic();
    const at = Math.max(now, paidOffAt.get(key) ?? now);
    paidOffAt.delete(key);
    paidOffAt.set(key, at + (cost / perSecond) * 1000);
  };
  return {
    charge,
    async admit(key, cost) {
      const now = clock.monotonic();
      forgetIdle(now);
      const waitMs = (paidOffAt.get(key) ?? now) - burstMs - now;
      if (waitMs > longestWaitMs)
        throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS: Math.ceil((waitMs - longestWaitMs) / 1000) });
      charge(key, cost);
      if (waitMs > 0) await wait(clock, waitMs);
    },
  };
}

/** The cost of a request in addition to its body. */
const REQUEST_COST_BYTES = 4 * 1024;
const REFUSAL = 'Too many requests are waiting.';
const EVERYBODY = 'all';

/**
 * Limits what one caller may have the service do and hold at one moment. The rate limits count requests; these weigh
 * them. Requests beyond a limit wait with their bodies unread, so the rate limits stay exact.
 */
export interface WorkBounds {
  /**
   * Resolves when a request may begin; call the returned function when its answer has been sent. Uploads have a separate
   * queue, so a slow one never delays its agent's other requests. The endpoint says which requests are uploads: a header
   * would let any request jump the queue.
   */
  begin(actor: Actor, request: IncomingMessage, isUpload?: boolean): Promise<() => void>;
  /** Receives the body of a request, as soon as that is allowed. */
  receive(actor: Actor, request: IncomingMessage): Promise<Buffer>;
  /**
   * Resolves when a write may begin. Its answer is stored for a day and can be much larger than its request, so it costs as
   * much as the last answer of its kind.
   */
  beginWrite(actor: Actor, operation: Operation): Promise<void>;
  /** Notes the size of the answer of a write. */
  noteAnswer(actor: Actor, operation: Operation, bytes: number): void;
}

/** How many sizes of large answers are known at one time, one for each caller and operation. */
const KNOWN_ANSWERS_MAX = 10_000;

/** Whose budgets and idempotency keys a call uses: the acting agent, or the account itself. */
export const getSubject = (actor: Actor): string => (actor.kind === 'agent' ? actor.agentId : actor.accountId);

export function createWorkBounds({ clock, settings }: Pick<ServiceContext, 'clock' | 'settings'>): WorkBounds {
  const pace = (perSecond: number, burst: number): Pace =>
    createPace(clock, { perSecond, burst, longestWaitMs: REQUEST_WAIT_MAX_MS });
  const paceOfCallers = () => {
    const ofAgents = pace(AGENT_BYTES_PER_SECOND, AGENT_BURST_BYTES);
    const ofAccounts = pace(ACCOUNT_BYTES_PER_SECOND, ACCOUNT_BURST_BYTES);
    return {
      async admit(actor: Actor, cost: number): Promise<void> {
        if (!settings.areLimitsOn) return;
        await ofAgents.admit(getSubject(actor), cost);
        await ofAccounts.admit(actor.accountId, cost);
      },
      charge(actor: Actor, cost: number): void {
        ofAgents.charge(getSubject(actor), cost);
        ofAccounts.charge(actor.accountId, cost);
      },
    };
  };
  const requests = paceOfCallers();
  // Separate, so that only writes wait for stored answers.
  const storedAnswers = paceOfCallers();
  const waiting = { waitingMax: REQUESTS_WAITING_MAX, refusal: REFUSAL };
  const patience = { clock, maxMs: REQUEST_WAIT_MAX_MS };
  const ofAgents = createSemaphore({ max: REQUESTS_PER_AGENT_MAX, patience, ...waiting });
  const ofAccounts = createSemaphore({ max: REQUESTS_PER_ACCOUNT_MAX, patience, ...waiting });
  const untilTheirTurn = { waitingMax: Number.POSITIVE_INFINITY, refusal: REFUSAL };
  const largeBodies = createSemaphore({ max: LARGE_BODIES_MAX, ...untilTheirTurn });
  const largeBodiesOfAccounts = createSemaphore({ max: LARGE_BODIES_PER_ACCOUNT_MAX, ...untilTheirTurn });
  const receiveLarge = (accountId: string, request: IncomingMessage): Promise<Buffer> =>
    largeBodiesOfAccounts.use(accountId, () => largeBodies.use(EVERYBODY, () => readBytes(request)));
  const knownAnswers = new Map<string, number>();
  return {
    async begin(actor, request, isUpload = false) {
      const cost = REQUEST_COST_BYTES + (isUpload ? 0 : (readJsonLength(request) ?? 0));
      await requests.admit(actor, cost);
      if (isUpload) return () => {};
      const releaseAgent = await ofAgents.acquire(getSubject(actor));
      try {
        const releaseAccount = await ofAccounts.acquire(actor.accountId);
        return () => {
          releaseAccount();
          releaseAgent();
        };
      } catch (error) {
        releaseAgent();
        throw error;
      }
    },
    async receive(actor, request) {
      const length = readJsonLength(request);
      const isSmall = length !== undefined && length <= SMALL_BODY_MAX_BYTES;
      const bytes = await (isSmall ? readBytes(request) : receiveLarge(actor.accountId, request));
      if (length === undefined) requests.charge(actor, bytes.length);
      return bytes;
    },
    async beginWrite(actor, operation) {
      const cost = knownAnswers.get(`${getSubject(actor)} ${operation}`);
      if (cost !== undefined) await storedAnswers.admit(actor, cost);
    },
    noteAnswer(actor, operation, bytes) {
      const key = `${getSubject(actor)} ${operation}`;
      if (bytes > SMALL_BODY_MAX_BYTES) putLast(knownAnswers, key, bytes, KNOWN_ANSWERS_MAX);
      else knownAnswers.delete(key);
    },
  };
}

/** The announced size of a JSON body in bytes; undefined if it is not announced. */
function readJsonLength({ headers }: IncomingMessage): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return undefined;
  return Math.min(Number(headers['content-length'] ?? 0), MESSAGE_BODY_MAX_BYTES);
}
