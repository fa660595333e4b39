import type { IncomingMessage } from 'node:http';

import {
  ACCOUNT_BURST_BYTES,
  ACCOUNT_BYTES_PER_SECOND,
  AGENT_BURST_BYTES,
  AGENT_BYTES_PER_SECOND,
  LARGE_BODIES_MAX,
  MESSAGE_BODY_MAX_BYTES,
  REQUESTS_PER_ACCOUNT_MAX,
  REQUESTS_PER_AGENT_MAX,
  REQUESTS_WAITING_MAX,
  SMALL_BODY_MAX_BYTES,
} from '../../wire/limit.js';
import type { Actor, ServiceContext } from '../context.js';
import { createPace, type Pace } from '../limits/pace.js';
import { createSemaphore } from '../limits/semaphore.js';
import { readBytes } from './read-body.js';

/** What a request costs beside its body. */
const REQUEST_COST_BYTES = 4 * 1024;
const LONGEST_WAIT_MS = 20_000;
const REFUSAL = 'Too many requests are waiting.';
const EVERYBODY = 'all';

/**
 * Bounds what one caller may have the service do and hold at one moment. The rate limits count requests; these weigh them.
 * What is beyond a bound waits, with its body unread, so the rate limits stay exact.
 */
export interface WorkBounds {
  /** Resolves when a request may begin; the answer is to be called when its answer has gone out. */
  begin(actor: Actor, request: IncomingMessage): Promise<() => void>;
  /** Receives the body of a request, as soon as it may be on its way. */
  receive(actor: Actor, request: IncomingMessage): Promise<Buffer>;
}

export function createWorkBounds({ clock, settings }: Pick<ServiceContext, 'clock' | 'settings'>): WorkBounds {
  const pace = (perSecond: number, burst: number): Pace =>
    createPace(clock, { perSecond, burst, longestWaitMs: LONGEST_WAIT_MS });
  const agentPace = pace(AGENT_BYTES_PER_SECOND, AGENT_BURST_BYTES);
  const accountPace = pace(ACCOUNT_BYTES_PER_SECOND, ACCOUNT_BURST_BYTES);
  const waiting = { waitingMax: REQUESTS_WAITING_MAX, refusal: REFUSAL };
  const ofAgents = createSemaphore({ max: REQUESTS_PER_AGENT_MAX, ...waiting });
  const ofAccounts = createSemaphore({ max: REQUESTS_PER_ACCOUNT_MAX, ...waiting });
  const largeBodies = createSemaphore({
    max: LARGE_BODIES_MAX,
    waitingMax: Number.POSITIVE_INFINITY,
    refusal: REFUSAL,
  });
  const agentKey = (actor: Actor): string => (actor.kind === 'agent' ? actor.agentId : actor.accountId);
  return {
    async begin(actor, request) {
      const cost = REQUEST_COST_BYTES + (jsonLengthOf(request) ?? 0);
      if (settings.areLimitsOn) {
        await agentPace.admit(agentKey(actor), cost);
        await accountPace.admit(actor.accountId, cost);
      }
      // Uploads wait in a line of their own, so a slow one never holds up what its agent does meanwhile.
      if (isUpload(request)) return () => {};
      const releaseAgent = await ofAgents.acquire(agentKey(actor));
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
      const length = jsonLengthOf(request);
      const isSmall = length !== undefined && length <= SMALL_BODY_MAX_BYTES;
      const release = isSmall ? undefined : await largeBodies.acquire(EVERYBODY);
      try {
        const bytes = await readBytes(request);
        if (length !== undefined) return bytes;
        agentPace.charge(agentKey(actor), bytes.length);
        accountPace.charge(actor.accountId, bytes.length);
        return bytes;
      } finally {
        release?.();
      }
    },
  };
}

function isUpload({ headers }: IncomingMessage): boolean {
  return headers['content-type']?.startsWith('multipart/') === true;
}

/** How many bytes of JSON a request says that it brings; undefined: it does not say. */
function jsonLengthOf(request: IncomingMessage): number | undefined {
  const { headers } = request;
  if (headers['transfer-encoding'] !== undefined) return undefined;
  if (isUpload(request)) return 0;
  return Math.min(Number(headers['content-length'] ?? 0), MESSAGE_BODY_MAX_BYTES);
}
