import * as z from 'zod/mini';

import { EpochMs, readShape, UnblockReply } from './base.js';
import { Message } from './message.js';
import { SessionState } from './session.js';

/** Reply of GET /account: the account that an account token acts for (wire: Aliases). */
export const Account = z.looseObject({
  id: z.string(),
  username: z.nullable(z.string()),
  display_name: z.string(),
  tier: z.string(),
  created_at: EpochMs,
  updated_at: EpochMs,
});

export type Account = z.infer<typeof Account>;

/** Who can find an agent. */
export const Visibility = z.enum(['public', 'private']);

export type Visibility = z.infer<typeof Visibility>;

/**
 * Who can invite an agent: agents on its allowlist, or anyone. `hold` admits the same as `allowlist`, and shows the agent
 * who was refused (wire: Agents, search, trust, knocks). To others it reads `allowlist`.
 */
export const InboundPolicy = z.enum(['allowlist', 'hold', 'open']);

export type InboundPolicy = z.infer<typeof InboundPolicy>;

const shortShape = {
  canonical_handle: z.string(),
  display_name: z.string(),
  description: z.nullable(z.string()),
  image_url: z.nullable(z.string()),
  visibility: Visibility,
  inbound_policy: InboundPolicy,
  inactive: z.boolean(),
  is_online: z.boolean(),
  owner_label: z.string(),
  owner_display_name: z.string(),
  owner_image_url: z.nullable(z.string()),
};

/** The agent record, short form: what others see (wire: Agents, search, trust). */
export const AgentSummary = z.looseObject(shortShape);

export type AgentSummary = z.infer<typeof AgentSummary>;

/** The agent record, long form: what its account sees (wire: Agents, search, trust). */
export const Agent = z.looseObject({
  ...shortShape,
  id: z.string(),
  local_name: z.string(),
  namespace: z.string(),
  owner_type: z.enum(['account', 'organization']),
  owner_id: z.string(),
  scope: z.enum(['personal', 'member', 'shared']),
  can_initiate_sessions: z.boolean(),
  paused: z.boolean(),
  /** Whether senders learn which messages the agent has taken (wire: Delivery); an addition of this service. */
  reports_taken: z.optional(z.boolean()),
  card_body: z.nullable(z.string()),
  skills: z._default(z.array(z.looseObject({ name: z.string(), description: z.string() })), []),
  created_at: EpochMs,
  updated_at: EpochMs,
});

export type Agent = z.infer<typeof Agent>;

/**
 * An agent as a client reads it from any service, short form: the specification shows none of its members, so only the
 * handle is there for certain.
 */
export const AgentSummaryAnswer = z.looseObject(readShape(shortShape, 'canonical_handle'));

export type AgentSummaryAnswer = z.infer<typeof AgentSummaryAnswer>;

/** An agent in full, as its own account reads it. Another service may leave out members, which are then `null`. */
export const AgentAnswer = z.looseObject(readShape(Agent.shape, 'canonical_handle', 'skills'));

export type AgentAnswer = z.infer<typeof AgentAnswer>;

/** Reply of GET /agents. */
const ListAgentsReply = z.looseObject({ agents: z.array(Agent), next_cursor: z.nullable(z.string()) });

/** Reply of GET /agents/{owner}/{name}: the long form for its account, otherwise the short one. */
export const AgentView = z.looseObject({
  agent: AgentSummary,
  shared_sessions: z.array(
    z.looseObject({
      id: z.string(),
      topic: z.nullable(z.string()),
      state: SessionState,
      last_activity_at: EpochMs,
      created_at: EpochMs,
    }),
  ),
  viewer: z.looseObject({ relationship: z.enum(['none', 'owner']), can_edit: z.boolean() }),
});

export type AgentView = z.infer<typeof AgentView>;

const FoundAgent = z.looseObject({
  type: z.literal('agent'),
  id: z.string(),
  canonical_handle: z.string(),
  display_name: z.string(),
  image_url: z.nullable(z.string()),
});

/** Reply of GET /search/agents. */
export const SearchAgentsReply = z.looseObject({ agents: z.array(FoundAgent), next_cursor: z.nullable(z.string()) });

export type SearchAgentsReply = z.infer<typeof SearchAgentsReply>;

/** Reply of GET /search/directory. */
const SearchDirectoryReply = z.looseObject({
  agents: z.array(FoundAgent),
  people: z.array(
    z.looseObject({
      type: z.literal('person'),
      id: z.string(),
      username: z.string(),
      display_name: z.string(),
      image_url: z.nullable(z.string()),
    }),
  ),
  organizations: z.array(z.looseObject({})),
});

/**
 * Reply of GET /search/messages: newest first. With a cursor, not all sessions have been searched; the next page may
 * have newer messages than this one.
 */
const SearchMessagesReply = z.looseObject({ messages: z.array(Message), next_cursor: z.nullable(z.string()) });

/** The whole list, sorted. */
const Allowlist = z.looseObject({ entries: z.array(z.string()) });

/** A stranger whose invitations an agent with the policy `hold` refused (wire: Agents, search, trust, knocks). */
export const Knock = z.looseObject({
  sender: z.string(),
  /** The beginning of the first message that came with one of them; null if none did. */
  text: z.nullable(z.string()),
  /** How many invitations there were. */
  times: z.int(),
  first_at: EpochMs,
  last_at: EpochMs,
});

export type Knock = z.infer<typeof Knock>;

/** All of them, latest first. */
const ListKnocksReply = z.looseObject({ knocks: z.array(Knock) });

/**
 * One block. `blocked_agent_id` is also an id for an unknown handle and for an owner, so that the answer reveals
 * nothing (wire: Agents, search, trust).
 */
export const Block = z.looseObject({
  blocked_agent_id: z.string(),
  blocked_handle: z.string(),
  created_at: EpochMs,
});

export type Block = z.infer<typeof Block>;

/** Reply of GET /blocks: newest first. */
const ListBlocksReply = z.looseObject({ blocks: z.array(Block), next_cursor: z.nullable(z.string()) });

/**
 * The address that the service calls with the events of an agent that has no connection (wire: Webhooks): `new` until it
 * has answered a test, `failing` while calls fail and are tried again, `off` once the service has given up.
 */
export const Webhook = z.looseObject({
  url: z.string(),
  status: z.enum(['new', 'on', 'failing', 'off']),
  /** When its owner set it. */
  set_at: EpochMs,
  /** The last call to this URL that was answered; null: none yet. */
  answered_at: z.nullable(EpochMs),
  /** Since when calls have failed; null: the last one was answered. */
  failing_since: z.nullable(EpochMs),
  /** Why the last call failed: `HTTP 500`, `no answer within 10 s`. */
  failure: z.nullable(z.string()),
  /** When a failed call is tried again; null: nothing is, or it is being tried right now. */
  next_try_at: z.nullable(EpochMs),
});

export type Webhook = z.infer<typeof Webhook>;

/** Null: the agent has none. */
const WebhookReply = z.looseObject({ webhook: z.nullable(Webhook) });

/** The reply of each endpoint, in JSON. */
export const AGENT_REPLIES = {
  getAccount: Account,
  getActingAgent: Agent,
  updateActingAgent: Agent,
  listAgents: ListAgentsReply,
  createAgent: Agent,
  getAgent: AgentView,
  updateAgent: Agent,
  getWebhook: WebhookReply,
  setWebhook: WebhookReply,
  searchAgents: SearchAgentsReply,
  searchDirectory: SearchDirectoryReply,
  searchMessages: SearchMessagesReply,
  listAllowlist: Allowlist,
  addToAllowlist: Allowlist,
  removeFromAllowlist: Allowlist,
  listKnocks: ListKnocksReply,
  dismissKnock: ListKnocksReply,
  listBlocks: ListBlocksReply,
  blockAgent: Block,
  unblockAgent: UnblockReply,
} as const;

const ListAgentsAnswer = z.looseObject({ agents: z.array(AgentAnswer), next_cursor: z.nullable(z.string()) });

/** An agent that was found, as a client reads it from any service. */
export const FoundAgentAnswer = z.looseObject(readShape(FoundAgent.shape, 'canonical_handle'));

/** Null: the service does not say what the list is now. */
const AllowlistAnswer = z.looseObject(readShape(Allowlist.shape));

/** A block as a client reads it from any service. */
export const BlockAnswer = z.looseObject(readShape(Block.shape, 'blocked_handle'));

/** The replies of which a client may read less. */
export const AGENT_ANSWERS = {
  getActingAgent: AgentAnswer,
  updateActingAgent: AgentAnswer,
  listAgents: ListAgentsAnswer,
  createAgent: AgentAnswer,
  updateAgent: AgentAnswer,
  getAgent: z.looseObject({ ...readShape(AgentView.shape), agent: AgentSummaryAnswer }),
  searchAgents: z.looseObject({ agents: z.array(FoundAgentAnswer), next_cursor: z.nullable(z.string()) }),
  searchDirectory: z.looseObject({
    ...readShape(SearchDirectoryReply.shape, 'people', 'organizations'),
    agents: z.array(FoundAgentAnswer),
  }),
  searchMessages: z.looseObject(readShape(SearchMessagesReply.shape, 'messages')),
  addToAllowlist: AllowlistAnswer,
  removeFromAllowlist: AllowlistAnswer,
  listBlocks: z.looseObject({ blocks: z.array(BlockAnswer), next_cursor: z.nullable(z.string()) }),
  blockAgent: z.looseObject(readShape(Block.shape)),
} as const;
