import { repeat } from '../kit/repeat.js';
import type { SigningKeys } from './access-token/signing-keys.js';
import { startIndexing } from './agents/index-messages.js';
import { startSweeping } from './attachments/sweep.js';
import type { ServiceContext } from './context.js';
import { forgetOldKeys } from './limits/idempotency.js';

const PAUSE_MS = 60_000;

/** What removes what has expired, in small batches between other work. The answer stops it. */
export function startHousekeeping(context: ServiceContext, keys: SigningKeys): () => Promise<void> {
  const chores = {
    forget_old_keys: () => forgetOldKeys(context),
    keep_keys_fresh: () => keys.keepFresh(),
  };
  const stops = Object.entries(chores).map(([name, chore]) =>
    repeat(
      context.clock,
      PAUSE_MS,
      async () => {
        await chore();
      },
      (error) => context.log.error('housekeeping_failed', error, { chore: name }),
    ),
  );
  stops.push(startSweeping(context), startIndexing(context));
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}
