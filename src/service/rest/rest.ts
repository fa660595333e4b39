import { UPLOADS_PER_AGENT_MAX, UPLOADS_WAITING_MAX } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import { createSemaphore, type Semaphore } from '../limits/semaphore.js';
import type { VerifyToken } from './admit.js';
import type { Exchanges } from './exchanges.js';
import { createWorkBounds, type WorkBounds } from './work-bounds.js';

/** What every call is answered with. */
export interface Rest {
  readonly context: ServiceContext;
  readonly verify: VerifyToken;
  readonly exchanges: Exchanges;
  readonly bounds: WorkBounds;
  /** For uploads that are under way. */
  readonly uploads: Semaphore;
}

export function createRest(parts: Pick<Rest, 'context' | 'verify' | 'exchanges'>): Rest {
  const uploads = createSemaphore({
    max: UPLOADS_PER_AGENT_MAX,
    waitingMax: UPLOADS_WAITING_MAX,
    refusal: 'This agent has too many uploads under way.',
  });
  return { ...parts, bounds: createWorkBounds(parts.context), uploads };
}
