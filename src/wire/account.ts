import * as z from 'zod/mini';

import { lazily } from './lazily.js';
import { EpochMs } from './page.js';

/** Reply of GET /account: the account that an account token acts for (wire: Aliases). */
export const Account = lazily(() =>
  z.looseObject({
    id: z.string(),
    username: z.nullable(z.string()),
    display_name: z.string(),
    tier: z.string(),
    created_at: EpochMs,
    updated_at: EpochMs,
  }),
);
export type Account = z.infer<typeof Account>;
