import type { Operation } from '../../src/wire/endpoint.js';
import type { OperatorOperation } from '../../src/wire/schemas/operator.js';

/** The ids and handles that the commands in the tests use. A service may answer with any text in their place. */
export const SESSION_ID = `sess_${'0'.repeat(26)}`;
export const ATTACHMENT_ID = `att_${'0'.repeat(26)}`;
const ME = '@me.bot';
export const PEER = '@alice.bot';
export const NEW_AGENT = '@aid.new';
/** The time in every answer. */
export const TIME = 1_700_000_000_000;
export const FILE_BYTES = 'bytes of a file\n';

/** The values that the answers contain. `text` is used wherever a peer or the service may write free text. */
export interface Wording {
  readonly text: string;
  /** The address of the attachments' bytes. */
  readonly filesUrl: string;
}

function summaryOf({ text }: Wording): Record<string, unknown> {
  return {
    canonical_handle: text,
    display_name: text,
    description: text,
    image_url: text,
    visibility: 'public',
    inbound_policy: 'allowlist',
    inactive: false,
    is_online: true,
    owner_label: text,
    owner_display_name: text,
    owner_image_url: null,
  };
}

function agentOf(wording: Wording): Record<string, unknown> {
  const { text } = wording;
  return {
    ...summaryOf(wording),
    id: text,
    local_name: text,
    namespace: text,
    owner_type: 'account',
    owner_id: text,
    scope: 'personal',
    can_initiate_sessions: true,
    paused: false,
    card_body: text,
    skills: [{ name: text.slice(0, 100) || 'x', description: text.slice(0, 1000) }],
    created_at: TIME,
    updated_at: TIME,
    [`later-${text}`]: text,
  };
}

function sessionOf({ text }: Wording): Record<string, unknown> {
  return {
    id: SESSION_ID,
    state: 'active',
    topic: text,
    participants: [
      { handle: ME, status: 'joined', joined_at: TIME, left_at: null },
      { handle: text, status: 'joined', joined_at: TIME, left_at: null },
    ],
    created_at: TIME,
    ended_at: null,
    [`later-${text}`]: text,
  };
}

/** Returns a message from another agent. */
function messageOf({ text }: Pick<Wording, 'text'>, sequence = 1): Record<string, unknown> {
  const content =
    sequence % 2 === 1
      ? text
      : [
          { type: 'text', text },
          { type: 'data', data: { [text]: text } },
          { type: 'file', attachment_id: ATTACHMENT_ID, name: text, mime_type: text },
          { type: text, name: text },
        ];
  return {
    id: `msg_${sequence}${text}`,
    session_id: SESSION_ID,
    sender: text === '' ? PEER : text,
    sequence,
    content,
    metadata: { [text]: text },
    created_at: TIME + sequence,
  };
}

/** Returns a session's events: both forms of messages, and one event of an unknown type. */
export function eventsOf(wording: Pick<Wording, 'text'>): Record<string, unknown>[] {
  const { text } = wording;
  return [
    { type: 'session.invited', payload: { invitee: text, by: text, topic: text } },
    { type: 'session.message', payload: messageOf(wording, 1 + 2) },
    { type: 'session.message', payload: messageOf(wording, 2 + 2) },
    { type: 'session.left', payload: { agent: text, reason: 'left' } },
    { type: `x.${text}`, payload: { [`later-${text}`]: text } },
  ].map((event, index) => ({
    session_id: SESSION_ID,
    event_id: `evt_${index + 1}${text}`,
    sequence: index + 1,
    created_at: TIME + index,
    ...event,
  }));
}

const operatorAccountOf = ({ text }: Wording): Record<string, unknown> => ({
  username: text,
  display_name: text,
  state: 'active',
  tier: 'standard',
  is_local: false,
  is_operator: false,
  agents: 2,
  clients: 1,
  attachment_bytes: 5,
  quota: { agents: 3, clients: 2, attachment_bytes: 6, sessions_per_hour: 7 },
  created_at: TIME,
});

const entryLinkOf = ({ text }: Wording): Record<string, unknown> => ({
  id: text,
  url: `http://127.0.0.1/${text}`,
  code: text,
  expires_at: TIME,
});

const operatorAgentOf = ({ text }: Wording): Record<string, unknown> => ({
  handle: text,
  inbound_policy: 'open',
  paused: false,
  is_online: false,
  created_at: TIME,
});

const keysOf = ({ text }: Wording): Record<string, unknown>[] => [
  { kid: text, state: 'signing', created_at: TIME, signs_from: TIME, published_until: null },
  { kid: `${text}2`, state: 'next', created_at: TIME, signs_from: TIME + 1, published_until: null },
];

const attachmentOf = ({ text }: Wording): Record<string, unknown> => ({
  id: ATTACHMENT_ID,
  filename: text,
  content_type: text,
  size: FILE_BYTES.length,
});

const accountOf = ({ text }: Wording): Record<string, unknown> => ({
  id: `acct_${text}`,
  username: text,
  display_name: text,
  tier: text,
  created_at: TIME,
  updated_at: TIME,
});

const webhookOf = ({ text }: Wording): unknown => ({
  webhook: {
    url: `https://hooks.example/${text}`,
    status: 'on',
    set_at: TIME,
    answered_at: TIME + 3,
    failing_since: TIME + 1,
    failure: text,
    next_try_at: TIME + 2,
  },
});

const ok = (): unknown => ({ ok: true });

/** A complete answer for every endpoint. */
export const REPLY: Readonly<Record<Operation, (wording: Wording, query: URLSearchParams) => unknown>> = {
  createSession: () => ({ session_id: SESSION_ID, message_id: `msg_${'0'.repeat(26)}`, sequence: 2 }),
  listSessions: (wording) => ({ sessions: [sessionOf(wording)], next_cursor: null }),
  getSession: sessionOf,
  joinSession: ok,
  getAccount: accountOf,
  inviteToSession: () => ({ invited: [PEER] }),
  sendMessage: () => ({ message_id: 'msg_1', sequence: 6 }),
  leaveSession: ok,
  endSession: ok,
  reopenSession: ok,
  replayEvents: (wording, query) => {
    const after = Number(query.get('after_sequence') ?? 0);
    return { events: eventsOf(wording).filter(({ sequence }) => Number(sequence) > after), next_cursor: null };
  },
  getDelivery: ({ text }) => ({
    message_id: `msg_${'0'.repeat(26)}`,
    sequence: 6,
    recipients: [
      {
        handle: text,
        status: 'joined',
        state: 'taken',
        taken_at: TIME,
        answered_sequence: null,
        reports_taken: true,
        [`later-${text}`]: text,
      },
    ],
  }),
  reportTaken: () => ({ taken: [6] }),
  reportUnanswered: () => undefined,
  claimSession: () => ({ is_yours: true, is_done: false, expires_in_ms: 15_000, attempt: 1 }),
  listAccountSessions: (wording) => ({
    sessions: [{ session: sessionOf(wording), acting_handle: ME }],
    next_cursor: null,
  }),
  uploadAttachment: attachmentOf,
  getAttachment: (wording) => ({ ...attachmentOf(wording), url: wording.filesUrl, url_expires_at: TIME }),
  getActingAgent: (wording) => ({ ...agentOf(wording), canonical_handle: ME }),
  updateActingAgent: agentOf,
  listAgents: (wording) => ({ agents: [agentOf(wording)], next_cursor: null }),
  createAgent: (wording) => ({ ...agentOf(wording), canonical_handle: NEW_AGENT }),
  getAgent: (wording) => ({
    agent: summaryOf(wording),
    shared_sessions: [
      { id: SESSION_ID, topic: wording.text, state: 'active', last_activity_at: TIME, created_at: TIME },
    ],
    viewer: { relationship: 'none', can_edit: false },
  }),
  updateAgent: agentOf,
  getWebhook: webhookOf,
  setWebhook: webhookOf,
  removeWebhook: () => undefined,
  removeAgent: () => undefined,
  getAgentCard: ({ text }) => text,
  searchAgents: (wording) => ({ agents: [{ type: 'agent', ...agentOf(wording) }], next_cursor: null }),
  searchDirectory: (wording) => ({
    agents: [{ type: 'agent', ...agentOf(wording) }],
    people: [],
    organizations: [],
  }),
  searchMessages: (wording) => ({ messages: [messageOf(wording), messageOf(wording, 2)], next_cursor: null }),
  listAllowlist: ({ text }) => ({ entries: [PEER, text] }),
  addToAllowlist: ({ text }) => ({ entries: [PEER, text] }),
  removeFromAllowlist: ({ text }) => ({ entries: [text] }),
  listKnocks: ({ text }) => ({ knocks: [{ sender: PEER, text, times: 2, first_at: TIME, last_at: TIME }] }),
  dismissKnock: () => ({ knocks: [] }),
  listBlocks: ({ text }) => ({
    blocks: [{ blocked_agent_id: text, blocked_handle: text, created_at: TIME }],
    next_cursor: null,
  }),
  blockAgent: ({ text }) => ({ blocked_agent_id: text, blocked_handle: text, created_at: TIME }),
  unblockAgent: () => ({ unblocked: true }),
};

/** A complete answer for every operator endpoint. */
export const OPERATOR_REPLY: Readonly<Record<OperatorOperation, (wording: Wording) => unknown>> = {
  readStatus: ({ text }) => ({
    version: text,
    pid: 1,
    started_at: TIME,
    accounts: 1,
    agents: 2,
    sessions: 3,
    sockets: 0,
    not_ready: null,
    sign_up: 'open',
    quota: null,
  }),
  stopService: ok,
  listOperatorAgents: (wording) => ({ agents: [operatorAgentOf(wording)] }),
  addOperatorAgent: operatorAgentOf,
  updateOperatorAgent: operatorAgentOf,
  removeOperatorAgent: ok,
  listOperatorAccounts: (wording) => ({ accounts: [operatorAccountOf(wording)] }),
  readOperatorAccount: operatorAccountOf,
  updateOperatorAccount: operatorAccountOf,
  removeOperatorAccount: ok,
  eraseOperatorAccount: () => ({ ok: true, sessions: 1, events: 2, attachments: 0 }),
  exportOperatorAccount: ({ text }) => ({ exported_at: TIME, account: { username: text }, sessions: [] }),
  createPasswordLink: entryLinkOf,
  readRetention: () => ({
    retention_ms: 7_776_000_000,
    age_ms: 7_776_000_000,
    sessions: 3,
    events: 40,
    attachments: 1,
    attachment_bytes: 512,
    oldest_ended_at: TIME,
  }),
  createInvitation: entryLinkOf,
  listInvitations: ({ text }) => ({
    invitations: [{ id: text, state: 'used', account: text, created_at: TIME, expires_at: TIME }],
  }),
  revokeInvitation: ok,
  listOperatorClients: ({ text }) => ({
    clients: [{ client_id: text, handle: text, name: text, scope: text, created_at: TIME, last_used_at: null }],
  }),
  revokeOperatorClient: ok,
  listSigningKeys: (wording) => ({ keys: keysOf(wording) }),
  advanceClock: () => ({ now: 0 }),
  triggerEvent: () => ({ count: 1 }),
  rotateSigningKeys: (wording) => ({ rotated: true, keys: keysOf(wording) }),
  createSignInLink: ({ text }) => ({ url: `http://127.0.0.1/${text}`, account: text, expires_at: TIME }),
  addOperatorClient: ({ text }) => ({
    client_id: `client${text}`,
    client_secret: `secret${text}`,
    handle: text,
    scope: text,
    created_agent: true,
  }),
};
