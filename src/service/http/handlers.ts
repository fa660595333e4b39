import type { ENDPOINT, Operation, PathOf } from '../../wire/endpoint.js';
import type { BodyOf, QueryOf, ReplyOf } from '../../wire/schemas/endpoint.js';
import { getAccount } from '../agents/accounts.js';
import {
  createAgent,
  getActingAgent,
  getAgent,
  getAgentCard,
  listAgents,
  updateActingAgent,
  updateAgent,
} from '../agents/agents.js';
import { searchAgents, searchDirectory } from '../agents/search.js';
import { getAttachment, uploadAttachment } from '../attachments/attachments.js';
import type { StagedUpload } from '../attachments/receive-upload.js';
import type { AccountActor, Actor, AgentActor, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { claimSession } from '../messaging/claims.js';
import { getDelivery, reportTaken, reportUnanswered } from '../messaging/delivery-states.js';
import { type ReplyText, replayEvents } from '../messaging/events.js';
import { getSession, listAccountSessions, listSessions } from '../messaging/list-sessions.js';
import { removeAgent } from '../messaging/remove-agent.js';
import { searchMessages } from '../messaging/search-messages.js';
import {
  createSession,
  endSession,
  inviteToSession,
  joinSession,
  leaveSession,
  reopenSession,
  sendMessage,
} from '../messaging/sessions.js';
import {
  addToAllowlist,
  blockAgent,
  dismissKnock,
  listAllowlist,
  listBlocks,
  listKnocks,
  removeFromAllowlist,
  unblockAgent,
} from '../messaging/trust-lists.js';

/** The handler of each row in the endpoint table. A row without one does not compile. */
export const HANDLER = {
  createSession,
  listSessions,
  getSession,
  joinSession,
  inviteToSession,
  sendMessage,
  leaveSession,
  endSession,
  reopenSession,
  replayEvents,
  getDelivery,
  reportTaken,
  reportUnanswered,
  claimSession,
  getAccount,
  listAccountSessions,
  uploadAttachment,
  getAttachment,
  getActingAgent,
  updateActingAgent,
  listAgents,
  createAgent,
  getAgent,
  updateAgent,
  removeAgent,
  getAgentCard,
  searchAgents,
  searchDirectory,
  searchMessages,
  listAllowlist,
  addToAllowlist,
  removeFromAllowlist,
  listKnocks,
  dismissKnock,
  listBlocks,
  blockAgent,
  unblockAgent,
} satisfies { [Name in Operation]: Handler<Name> };

type Row<Name extends Operation> = (typeof ENDPOINT)[Name];

/** The caller of an operation. */
type ActorOf<Name extends Operation> = Row<Name>['actor'] extends 'agent'
  ? AgentActor
  : Row<Name>['actor'] extends 'account'
    ? AccountActor
    : Actor;

/** The input of an operation: its path, query and body, or the file, received and checked. */
type InputOf<Name extends Operation> =
  Row<Name> extends { body: 'file' } ? StagedUpload : { path: PathOf<Name>; query: QueryOf<Name>; body: BodyOf<Name> };

/** Writes get the transaction that also records their answer; reads get a snapshot. */
type StoreOf<Name extends Operation> = Row<Name>['method'] extends 'GET' ? Query : Transaction;

/** The handler of one row in the endpoint table. */
export type Handler<Name extends Operation> = (
  context: ServiceContext,
  actor: ActorOf<Name>,
  input: InputOf<Name>,
  store: StoreOf<Name>,
) => Promise<ReplyOf<Name> | ReplyText>;

/** Any handler, for the one place that has checked its input against the row. */
export type AnyHandler = (context: ServiceContext, actor: never, input: never, store: never) => Promise<unknown>;
