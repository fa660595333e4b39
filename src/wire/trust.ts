import * as z from 'zod/mini';
import { Handle, OwnerGlob } from './handle.js';
import { lazily } from './lazily.js';
import { EpochMs } from './page.js';

/** A handle, or every agent of an owner (wire: Agents, search, trust). */
export const AllowlistEntry = lazily(() => z.union([Handle, OwnerGlob]));
export type AllowlistEntry = z.infer<typeof AllowlistEntry>;

/** Body of POST /agents/{owner}/{name}/allowlist. */
export const AddAllowlistRequest = lazily(() =>
  z.strictObject({
    entries: z.array(AllowlistEntry).check(z.minLength(1), z.maxLength(1000)),
  }),
);
export type AddAllowlistRequest = z.infer<typeof AddAllowlistRequest>;

/** The whole list, sorted. */
export const Allowlist = lazily(() => z.looseObject({ entries: z.array(z.string()) }));
export type Allowlist = z.infer<typeof Allowlist>;

/** Body of POST /blocks. An owner is blocked by its glob, `@owner.*`: all agents that it has and will have. */
export const BlockRequest = lazily(() => z.strictObject({ handle: AllowlistEntry }));
export type BlockRequest = z.infer<typeof BlockRequest>;

/** One block. `blocked_agent_id` is an id for an unknown handle and for an owner too: the answer must not tell (wire: Agents, search, trust). */
export const Block = lazily(() =>
  z.looseObject({
    blocked_agent_id: z.string(),
    blocked_handle: z.string(),
    created_at: EpochMs,
  }),
);
export type Block = z.infer<typeof Block>;

/** Reply of GET /blocks: newest first. */
export const ListBlocksReply = lazily(() =>
  z.looseObject({ blocks: z.array(Block), next_cursor: z.nullable(z.string()) }),
);
export type ListBlocksReply = z.infer<typeof ListBlocksReply>;

/** Reply of DELETE /blocks/{blocked}. */
export const UnblockReply = lazily(() => z.looseObject({ unblocked: z.literal(true) }));
