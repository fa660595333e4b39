/**
 * The specification, first half: what the service does, its resources, states and endpoints. Each numbered rule or
 * table row has one line in our own words, by heading. `coverage.test.ts` fails if a line has no test.
 */
export const SPEC_SHAPES = {
  // What the service does
  'spec/Service/rule-1': 'a person signs in and picks the agent; a token acts as exactly one agent',
  'spec/Service/rule-2': 'the actor comes from the token; a body cannot name one',
  'spec/Service/rule-3': 'agents are addressed by handle',
  'spec/Service/rule-4': 'trust gates run on every invite and never say why',
  'spec/Service/rule-5': 'events arrive live over a WebSocket and again by replay',
  'spec/Service/rule-6': 'files are uploaded first, then referenced from messages',
  'spec/Service/rule-7': 'every write needs an idempotency key',
  'spec/Service/rule-8': 'ids are ULIDs with a prefix of their kind',

  // Resources
  'spec/Handle/form': 'a handle is @owner.agent_name; anything else is INVALID_HANDLE',
  'spec/Session/id': 'starts with sess_',
  'spec/Session/state': 'active or ended',
  'spec/Session/topic': 'a string or null, set at creation',
  'spec/Session/participants': 'the participants',
  'spec/Session/created_at': 'epoch milliseconds',
  'spec/Session/ended_at': 'epoch milliseconds, null while active',
  'spec/Participant/handle': 'a handle',
  'spec/Participant/status': 'invited, joined or left',
  'spec/Participant/joined_at': 'epoch milliseconds or null',
  'spec/Participant/left_at': 'epoch milliseconds or null, stamped on leave',
  'spec/Message/id': 'starts with msg_',
  'spec/Message/session_id': 'the session it was sent in',
  'spec/Message/sender': 'a handle, from the token',
  'spec/Message/sequence': 'per session, ever increasing',
  'spec/Message/content': 'a string or typed parts',
  'spec/Message/metadata': 'an optional JSON object, given back as sent',
  'spec/Message/created_at': 'epoch milliseconds',
  'spec/Part/text': 'type text, and the text',
  'spec/Part/file': 'type file, and an attachment id',
  'spec/Part/image': 'type image, referring to an attachment',
  'spec/Part/data': 'type data',
  'spec/Envelope/type': 'an event type',
  'spec/Envelope/session_id': 'the session of the event',
  'spec/Envelope/event_id': 'starts with evt_',
  'spec/Envelope/sequence': 'the cursor of its session',
  'spec/Envelope/created_at': 'epoch milliseconds',
  'spec/Envelope/payload': 'an object; a Message for session.message',
  'spec/Attachment/id': 'starts with att_',
  'spec/Attachment/filename': 'made safe by the service',
  'spec/Attachment/content_type': 'one of the supported types',
  'spec/Attachment/size': 'whole bytes',
  'spec/Attachment/private': 'stored privately; download addresses are short-lived',
  'spec/Claims/iss': 'the issuer',
  'spec/Claims/sub': 'the account',
  'spec/Claims/agent_id': 'the acting agent',
  'spec/Claims/azp': 'the client',
  'spec/Claims/scope': 'what was granted',
  'spec/Claims/aud': 'the resource',
  'spec/Claims/iat': 'when it was issued, in seconds',
  'spec/Claims/exp': 'when it ends, in seconds',
  'spec/Claims/token_type': 'access',

  // States and transitions
  'spec/States/create': 'the creator is joined, accepted invitees are invited',
  'spec/States/join': 'an invited participant becomes joined, with session.joined and joined_at',
  'spec/States/invite':
    'a joined participant makes others invited, with one session.invited each; denied ones are left out',
  'spec/States/leave': 'a joined participant becomes left, with left_at and session.left',
  'spec/States/end': 'a joined participant ends the session, with session.ended',
  'spec/States/reopen':
    'who was joined at the end reopens; earlier participants are invited again, with new invitees and a message',
  'spec/States/rule-1': 'only joined participants invite, end or reopen',
  'spec/States/rule-2': 'only joined participants send, and only while the session is active',
  'spec/States/rule-3': 'an ineligible operation is the NOT_FOUND of a missing session',
  'spec/States/rule-4': 'a pending attachment that no message refers to is gone after an hour',
  'spec/States/rule-5': 'what a left participant may do about joining again (settled by docs/contract.md)',

  // Endpoints
  'spec/Endpoints/bearer': 'every request carries a bearer token',
  'spec/Endpoints/key': 'writes carry an idempotency key as well',
  'spec/Endpoints/json': 'JSON bodies are application/json',
  'spec/Endpoints/POST-sessions': 'sessions:write creates a session',
  'spec/Endpoints/GET-sessions': 'sessions:read lists the sessions of the calling agent',
  'spec/Endpoints/GET-session': 'sessions:read reads one session',
  'spec/Endpoints/join': 'sessions:write joins',
  'spec/Endpoints/invite': 'sessions:write invites',
  'spec/Endpoints/messages': 'sessions:write sends',
  'spec/Endpoints/leave': 'sessions:write leaves',
  'spec/Endpoints/end': 'sessions:write ends',
  'spec/Endpoints/reopen': 'sessions:write reopens',
  'spec/Endpoints/events': 'sessions:read replays',
  'spec/Endpoints/accounts-me-sessions': 'an account lists the sessions of all its agents, each with the acting handle',
  'spec/Endpoints/attachments': 'sessions:write uploads',
  'spec/Endpoints/agents-me': 'agents:read reads the calling agent',
  'spec/Endpoints/agents': 'agents:read looks up, searches, reads cards',
  'spec/Endpoints/allowlist': 'allowlist:read reads, allowlist:write adds and deletes',
  'spec/Endpoints/blocks': 'allowlist:read reads, allowlist:write blocks and unblocks',

  // POST /sessions
  'spec/POST-sessions/invite': 'each accepted handle becomes invited',
  'spec/POST-sessions/topic': 'optional',
  'spec/POST-sessions/initial_message': 'sent atomically with the creation',
  'spec/POST-sessions/end_after_send': 'the session ends after its first message',
  'spec/POST-sessions/response': 'session_id, and sequence of the first message or null',
  'spec/POST-sessions/rule-1': 'the creator is the first joined participant',
  'spec/POST-sessions/rule-2': 'a denied only invitee makes it 404',
  'spec/POST-sessions/rule-3': 'of several invitees the denied are simply absent',

  // POST /sessions/{session_id}/messages
  'spec/messages/content': 'required, a string or parts',
  'spec/messages/metadata': 'optional, a JSON object',
  'spec/messages/attachments': 'at most five, from file and image parts',
  'spec/messages/response': 'message_id and the sequence of its envelope',
  'spec/messages/rules': 'the caller is joined and the session active',

  // Lifecycle verbs
  'spec/Lifecycle/body': 'no body is needed',

  // GET /sessions
  'spec/GET-sessions/state': 'optional filter: active or ended',
  'spec/GET-sessions/limit': '1 to 100, 50 when absent',
  'spec/GET-sessions/cursor': 'the next_cursor of the answer before',
  'spec/GET-sessions/next_cursor': 'always in the answer',

  // GET /sessions/{session_id}
  'spec/GET-session/participant': 'for current and former participants only',

  // GET /sessions/{session_id}/events
  'spec/events/after_sequence': 'only greater sequences are returned',
  'spec/events/limit': 'at most so many',
  'spec/events/response': 'events in order of sequence, messages and lifecycle in one stream, and next_cursor',
  'spec/events/joined': 'sees everything',
  'spec/events/invited': 'sees its own session.invited and session.ended only',
  'spec/events/left': 'sees everything up to its own session.left',

  // POST /attachments
  'spec/POST-attachments/request': 'multipart with one part named file, and a key',
  'spec/POST-attachments/response': 'the Attachment',
} as const;
