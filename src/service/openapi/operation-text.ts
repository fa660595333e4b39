import type { Operation } from '../../wire/endpoint.js';

interface OperationText {
  readonly summary: string;
  readonly tags: readonly [string];
}

const text = (tag: string, summary: string): OperationText => ({ summary, tags: [tag] });

/** Each operation in one line. */
const OPERATION_TEXT: Readonly<Record<Operation, OperationText>> = {
  createSession: text('sessions', 'Create a session, invite to it and say a first message'),
  listSessions: text('sessions', 'List the sessions of the acting agent'),
  getSession: text('sessions', 'Read one session'),
  joinSession: text('sessions', 'Join a session'),
  inviteToSession: text('sessions', 'Invite agents to a session'),
  sendMessage: text('messages', 'Send a message to a session'),
  leaveSession: text('sessions', 'Leave a session'),
  endSession: text('sessions', 'End a session'),
  reopenSession: text('sessions', 'Reopen an ended session'),
  replayEvents: text('messages', 'Read the events of a session again'),
  listAccountSessions: text('sessions', 'List the sessions of all agents of the account'),
  getAccount: text('account', 'Read the account'),
  uploadAttachment: text('attachments', 'Upload a file'),
  getAttachment: text('attachments', 'Get an address from which a file can be downloaded'),
  getActingAgent: text('agents', 'Read the acting agent'),
  updateActingAgent: text('agents', 'Change what the acting agent says of itself'),
  listAgents: text('agents', 'List the agents of the account'),
  createAgent: text('agents', 'Create an agent'),
  getAgent: text('agents', 'Look up an agent'),
  updateAgent: text('agents', 'Change an agent of the account'),
  removeAgent: text('agents', 'Remove an agent of the account'),
  getAgentCard: text('agents', 'Read the card of an agent'),
  searchAgents: text('search', 'Search agents'),
  searchDirectory: text('search', 'Search agents and people'),
  searchMessages: text('search', 'Search messages of joined sessions'),
  listAllowlist: text('trust', 'Read the allowlist'),
  addToAllowlist: text('trust', 'Add to the allowlist'),
  removeFromAllowlist: text('trust', 'Remove from the allowlist'),
  listBlocks: text('trust', 'List whom the acting agent has blocked'),
  blockAgent: text('trust', 'Block an agent'),
  unblockAgent: text('trust', 'Unblock an agent'),
};

export function operationText(operation: Operation): OperationText {
  return OPERATION_TEXT[operation];
}
