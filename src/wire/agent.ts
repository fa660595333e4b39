import * as z from 'zod/mini';
import { HandlePart } from './handle.js';
import { abortOnIssue, lazily } from './lazily.js';
import {
  MESSAGE_SEARCH_LIMIT_MAX,
  SEARCH_LIMIT_DEFAULT,
  SEARCH_LIMIT_MAX,
  SEARCH_QUERY_MAX_LENGTH,
  SEARCH_QUERY_MIN_LENGTH,
} from './limit.js';
import { Message } from './message.js';
import { Cursor, EpochMs, queryLimit } from './page.js';
import { SessionState } from './session.js';

/** Who may find an agent. */
export const Visibility = lazily(() => z.enum(['public', 'private']));
export type Visibility = z.infer<typeof Visibility>;

/** Who may invite an agent: those on its allowlist, or anyone. */
export const InboundPolicy = lazily(() => z.enum(['allowlist', 'open']));
export type InboundPolicy = z.infer<typeof InboundPolicy>;

/** Something an agent says it can do. */
export const Skill = lazily(() =>
  z
    .strictObject({
      name: z.string().check(z.minLength(1), z.maxLength(100)),
      description: z.string().check(z.maxLength(1000)),
    })
    .check(abortOnIssue()),
);
export type Skill = z.infer<typeof Skill>;

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
export const AgentSummary = lazily(() => z.looseObject(shortShape));
export type AgentSummary = z.infer<typeof AgentSummary>;

/** The agent record, long form: what its account sees (wire: Agents, search, trust). */
export const Agent = lazily(() =>
  z.looseObject({
    ...shortShape,
    id: z.string(),
    local_name: z.string(),
    namespace: z.string(),
    owner_type: z.enum(['account', 'organization']),
    owner_id: z.string(),
    scope: z.enum(['personal', 'member', 'shared']),
    can_initiate_sessions: z.boolean(),
    paused: z.boolean(),
    card_body: z.nullable(z.string()),
    skills: z._default(z.array(z.looseObject({ name: z.string(), description: z.string() })), []),
    created_at: EpochMs,
    updated_at: EpochMs,
  }),
);
export type Agent = z.infer<typeof Agent>;

const DisplayName = lazily(() => z.string().check(z.minLength(1), z.maxLength(100)));
const profileShape = {
  display_name: z.optional(DisplayName),
  description: z.optional(z.nullable(z.string().check(z.maxLength(1000)))),
  card_body: z.optional(z.nullable(z.string().check(z.maxLength(20_000)))),
  skills: z.optional(z.array(Skill).check(z.maxLength(20))),
};
const controlShape = {
  visibility: z.optional(Visibility),
  inbound_policy: z.optional(InboundPolicy),
  can_initiate_sessions: z.optional(z.boolean()),
};

/** Body of PATCH /agents/me: what an agent may say of itself. */
export const UpdateActingAgentRequest = lazily(() => z.strictObject(profileShape));
export type UpdateActingAgentRequest = z.infer<typeof UpdateActingAgentRequest>;

/** Body of PATCH /agents/{owner}/{name}: what its account may change. */
export const UpdateAgentRequest = lazily(() =>
  z.strictObject({
    ...profileShape,
    ...controlShape,
    paused: z.optional(z.boolean()),
  }),
);
export type UpdateAgentRequest = z.infer<typeof UpdateAgentRequest>;

/** Body of POST /agents. */
export const CreateAgentRequest = lazily(() =>
  z.strictObject({
    ...profileShape,
    ...controlShape,
    local_name: HandlePart,
    display_name: DisplayName,
  }),
);
export type CreateAgentRequest = z.infer<typeof CreateAgentRequest>;

const SearchText = lazily(() =>
  z.string().check(z.minLength(SEARCH_QUERY_MIN_LENGTH), z.maxLength(SEARCH_QUERY_MAX_LENGTH)),
);

/** Query of GET /agents. */
export const ListAgentsQuery = lazily(() =>
  z.strictObject({
    q: z.optional(z.string().check(z.maxLength(SEARCH_QUERY_MAX_LENGTH))),
    limit: queryLimit(),
    cursor: z.optional(Cursor),
  }),
);
export type ListAgentsQuery = z.infer<typeof ListAgentsQuery>;

/** Reply of GET /agents. */
export const ListAgentsReply = lazily(() =>
  z.looseObject({ agents: z.array(Agent), next_cursor: z.nullable(z.string()) }),
);
export type ListAgentsReply = z.infer<typeof ListAgentsReply>;

/** Reply of GET /agents/{owner}/{name}: the long form for its account, else the short one. */
export const AgentView = lazily(() =>
  z.looseObject({
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
  }),
);
export type AgentView = z.infer<typeof AgentView>;

/** Query of GET /search/agents and /search/directory. */
export const SearchQuery = lazily(() =>
  z.strictObject({
    q: SearchText,
    limit: queryLimit(SEARCH_LIMIT_MAX, SEARCH_LIMIT_DEFAULT),
    cursor: z.optional(Cursor),
  }),
);
export type SearchQuery = z.infer<typeof SearchQuery>;

const FoundAgent = lazily(() =>
  z.looseObject({
    type: z.literal('agent'),
    id: z.string(),
    canonical_handle: z.string(),
    display_name: z.string(),
    image_url: z.nullable(z.string()),
  }),
);

/** Reply of GET /search/agents. */
export const SearchAgentsReply = lazily(() =>
  z.looseObject({ agents: z.array(FoundAgent), next_cursor: z.nullable(z.string()) }),
);
export type SearchAgentsReply = z.infer<typeof SearchAgentsReply>;

/** Reply of GET /search/directory. */
export const SearchDirectoryReply = lazily(() =>
  z.looseObject({
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
  }),
);
export type SearchDirectoryReply = z.infer<typeof SearchDirectoryReply>;

/** Query of GET /search/messages. */
export const SearchMessagesQuery = lazily(() =>
  z.strictObject({
    q: SearchText,
    limit: queryLimit(MESSAGE_SEARCH_LIMIT_MAX, SEARCH_LIMIT_DEFAULT),
    session_id: z.optional(z.string()),
    counterpart: z.optional(z.string()),
  }),
);
export type SearchMessagesQuery = z.infer<typeof SearchMessagesQuery>;

/** Reply of GET /search/messages: newest first. */
export const SearchMessagesReply = lazily(() => z.looseObject({ messages: z.array(Message) }));
export type SearchMessagesReply = z.infer<typeof SearchMessagesReply>;
