import type { TurnableClock } from '../../kit/turnable-clock.js';
import { ServiceError } from '../core/errors.js';

/** The parts of a running service for tests that its operator can change. */
export interface Rehearsal {
  /** Undefined: time passes as it does. */
  readonly clock?: TurnableClock | undefined;
}

/** The time after the jump. */
export function advanceClock({ clock }: Rehearsal, ms: number): { now: number } {
  if (clock === undefined)
    throw new ServiceError(
      'FEATURE_NOT_AVAILABLE',
      'Its clock cannot be turned. Start it with asp serve --data memory --clock controlled.',
    );
  clock.advance(ms);
  return { now: clock.now() };
}
