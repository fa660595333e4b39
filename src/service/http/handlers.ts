import type { Operation } from '../../wire/endpoint.js';
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
import type { Handler, HandlerInput, ServiceContext } from '../core/context.js';
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
import { getWebhook, removeWebhook, setWebhook } from '../messaging/webhooks.js';

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
  getWebhook,
  setWebhook,
  removeWebhook,
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
} satisfies { [Name in Exclude<Operation, 'uploadAttachment' | 'replayEvents'>]: Handler<Name> } & {
  /** Its body is a file, received and checked. */
  uploadAttachment: Handler<'uploadAttachment', StagedUpload>;
  /** A long page is written while it is read. */
  replayEvents: Handler<'replayEvents', HandlerInput<'replayEvents'>, ReplyText>;
};

/** Any handler, for the one place that has checked its input against the row. */
export type AnyHandler = (context: ServiceContext, actor: never, input: never, store: never) => Promise<unknown>;
