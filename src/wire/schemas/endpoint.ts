import type * as z from 'zod/mini';

import type { ENDPOINT, Operation } from '../endpoint.js';
import { AGENT_ANSWERS, AGENT_REPLIES } from './agent.js';
import { ATTACHMENT_ANSWERS, ATTACHMENT_REPLIES } from './attachment.js';
import { DELIVERY_REPLIES } from './delivery.js';
import { EVENT_REPLIES } from './event.js';
import {
  AddAllowlistRequest,
  BlockRequest,
  ClaimRequest,
  CreateAgentRequest,
  CreateSessionRequest,
  DeliveryQuery,
  EmptyRequest,
  InviteRequest,
  ListAgentsQuery,
  ListSessionsQuery,
  PageQuery,
  ReopenRequest,
  ReplayQuery,
  SearchMessagesQuery,
  SearchQuery,
  SendMessageRequest,
  SetWebhookRequest,
  TakenRequest,
  UnansweredRequest,
  UpdateActingAgentRequest,
  UpdateAgentRequest,
} from './requests.js';
import { SESSION_ANSWERS, SESSION_REPLIES } from './session.js';

/** The input of an operation: a query, or a JSON body. */
const REQUESTS = {
  createSession: { body: CreateSessionRequest },
  listSessions: { query: ListSessionsQuery },
  joinSession: { body: EmptyRequest },
  inviteToSession: { body: InviteRequest },
  sendMessage: { body: SendMessageRequest },
  leaveSession: { body: EmptyRequest },
  endSession: { body: EmptyRequest },
  reopenSession: { body: ReopenRequest },
  replayEvents: { query: ReplayQuery },
  getDelivery: { query: DeliveryQuery },
  reportTaken: { body: TakenRequest },
  reportUnanswered: { body: UnansweredRequest },
  claimSession: { body: ClaimRequest },
  listAccountSessions: { query: ListSessionsQuery },
  updateActingAgent: { body: UpdateActingAgentRequest },
  listAgents: { query: ListAgentsQuery },
  createAgent: { body: CreateAgentRequest },
  updateAgent: { body: UpdateAgentRequest },
  setWebhook: { body: SetWebhookRequest },
  searchAgents: { query: SearchQuery },
  searchDirectory: { query: SearchQuery },
  searchMessages: { query: SearchMessagesQuery },
  addToAllowlist: { body: AddAllowlistRequest },
  listBlocks: { query: PageQuery },
  blockAgent: { body: BlockRequest },
} as const satisfies { [Name in Operation]?: { readonly query?: z.ZodMiniType; readonly body?: z.ZodMiniType } };

const REPLIES = { ...SESSION_REPLIES, ...EVENT_REPLIES, ...DELIVERY_REPLIES, ...ATTACHMENT_REPLIES, ...AGENT_REPLIES };

const ANSWERS = { ...REPLIES, ...SESSION_ANSWERS, ...ATTACHMENT_ANSWERS, ...AGENT_ANSWERS };

/**
 * The query, body and reply of an operation, and the reply as a client reads it from any service; an absent member means
 * that it is empty, a file, or not JSON.
 */
export interface EndpointSchemas {
  readonly query?: z.ZodMiniType;
  readonly body?: z.ZodMiniType;
  readonly reply?: z.ZodMiniType;
  readonly answer?: z.ZodMiniType;
}

/** The schemas of every operation. */
export function endpointSchemas(operation: Operation): EndpointSchemas {
  const requests: { readonly [Name in Operation]?: Omit<EndpointSchemas, 'reply'> } = REQUESTS;
  const replies: { readonly [Name in Operation]?: z.ZodMiniType } = REPLIES;
  const answers: { readonly [Name in Operation]?: z.ZodMiniType } = ANSWERS;
  const reply = replies[operation];
  const answer = answers[operation];
  return { ...requests[operation], ...(reply !== undefined && { reply }), ...(answer !== undefined && { answer }) };
}

type PartOf<Name extends Operation, Part extends 'query' | 'body'> = Name extends keyof typeof REQUESTS
  ? (typeof REQUESTS)[Name] extends { [Key in Part]: infer Schema extends z.ZodMiniType }
    ? Schema
    : undefined
  : undefined;

type OutputOf<Schema> = Schema extends z.ZodMiniType ? z.output<Schema> : Record<never, never>;

/** The query of an operation as the service reads it: decoded, with its defaults. */
export type QueryOf<Name extends Operation> = OutputOf<PartOf<Name, 'query'>>;

/** The query of an operation as a client passes it. */
export type QueryInputOf<Name extends Operation> =
  PartOf<Name, 'query'> extends infer Schema extends z.ZodMiniType ? z.input<Schema> : Record<never, never>;

/** The JSON body of an operation. */
export type BodyOf<Name extends Operation> = OutputOf<PartOf<Name, 'body'>>;

/** The reply of an operation as `asp serve` sends it: JSON, a string for Markdown, undefined if there is none. */
export type ReplyOf<Name extends Operation> = Name extends keyof typeof REPLIES
  ? z.output<(typeof REPLIES)[Name]>
  : (typeof ENDPOINT)[Name]['reply'] extends 'markdown'
    ? string
    : undefined;

/** The reply of an operation as a client reads it from any service: a member that the service does not send is null. */
export type AnswerOf<Name extends Operation> = Name extends keyof typeof ANSWERS
  ? z.output<(typeof ANSWERS)[Name]>
  : ReplyOf<Name>;
