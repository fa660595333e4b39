import type { Operation } from '../../wire/endpoint.js';
import { createAgent } from '../agents/create-agent.js';
import { getAccount } from '../agents/get-account.js';
import { getActingAgent } from '../agents/get-acting-agent.js';
import { getAgent } from '../agents/get-agent.js';
import { getAgentCard } from '../agents/get-agent-card.js';
import { listAgents } from '../agents/list-agents.js';
import { removeAgent } from '../agents/remove-agent.js';
import { searchAgents } from '../agents/search-agents.js';
import { searchDirectory } from '../agents/search-directory.js';
import { searchMessages } from '../agents/search-messages.js';
import { updateActingAgent } from '../agents/update-acting-agent.js';
import { updateAgent } from '../agents/update-agent.js';
import { getAttachment } from '../attachments/get-attachment.js';
import { uploadAttachment } from '../attachments/upload-attachment.js';
import { replayEvents } from '../events/replay-events.js';
import { createSession } from '../sessions/create-session.js';
import { endSession } from '../sessions/end-session.js';
import { getSession } from '../sessions/get-session.js';
import { inviteToSession } from '../sessions/invite-to-session.js';
import { joinSession } from '../sessions/join-session.js';
import { leaveSession } from '../sessions/leave-session.js';
import { listAccountSessions } from '../sessions/list-account-sessions.js';
import { listSessions } from '../sessions/list-sessions.js';
import { reopenSession } from '../sessions/reopen-session.js';
import { sendMessage } from '../sessions/send-message.js';
import { addToAllowlist } from '../trust/add-to-allowlist.js';
import { blockAgent } from '../trust/block-agent.js';
import { listAllowlist } from '../trust/list-allowlist.js';
import { listBlocks } from '../trust/list-blocks.js';
import { removeFromAllowlist } from '../trust/remove-from-allowlist.js';
import { unblockAgent } from '../trust/unblock-agent.js';
import type { Handler } from './handler.js';

/** The code behind each row of the endpoint table. A row without one does not compile. */
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
  listBlocks,
  blockAgent,
  unblockAgent,
} satisfies { [Name in Operation]: Handler<Name> };
