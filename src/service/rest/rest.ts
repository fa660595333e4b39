import type { ServiceContext } from '../context.js';
import type { Places } from '../limits/places.js';
import type { VerifyToken } from './admit.js';

/** What every call is answered with. */
export interface Rest {
  readonly context: ServiceContext;
  readonly verify: VerifyToken;
  /** For uploads that are under way. */
  readonly uploads: Places;
}
