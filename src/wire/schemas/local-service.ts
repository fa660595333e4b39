import * as z from 'zod/mini';

import { EpochMs } from './base.js';

/**
 * The record that a running `asp serve` leaves in the runtime directory of its OS user, readable by that user alone.
 * `secret` lets that user sign in as a local account and run the operator endpoints, from the same machine only.
 */
const OneRecord = z.looseObject({
  name: z.string(),
  url: z.string(),
  auth_url: z.string(),
  web_url: z.string(),
  ws_url: z.string(),
  operator_url: z.string(),
  /** The one that it listens on. With a public URL, the addresses above may have another. */
  port: z.optional(z.int()),
  pid: z.int(),
  /** When the process started, if the system says so: process numbers are reused. */
  process_start: z.optional(z.string()),
  /** Where its number means something, if the system says so: in a sandbox or a container, it means another process. */
  process_namespace: z.optional(z.string()),
  version: z.string(),
  data: z.string(),
  /** The home directory of the user who started it: one user can have several, such as in tests. */
  home: z.optional(z.string()),
  /** The other options that start it again, from any folder, and the names of the variables that also set something. */
  options: z.optional(z.array(z.string())),
  variables: z.optional(z.array(z.string())),
  started_at: EpochMs,
  secret: z.string(),
});

/** The record of the service that started last; `earlier` has those that ran when it started, latest first. */
export const LocalServiceRecord = z.extend(OneRecord, { earlier: z.optional(z.array(OneRecord)) });

export type LocalServiceRecord = z.infer<typeof LocalServiceRecord>;
