/** The contract that fills the specification's gaps, by heading and row. See `spec-shapes.ts`. */
export const WIRE = {
  // 1 Common rules
  'wire/Common/handle': 'lower case, digits, _ and -, exactly one dot; else 400 INVALID_HANDLE',
  'wire/Common/ids': 'prefix and 26 uppercase Crockford characters',
  'wire/Common/time': 'whole epoch milliseconds everywhere',
  'wire/Common/null': 'nullable fields are null, never absent; optional keys of payloads are absent, never null',
  'wire/Common/unknown-fields': 'an unknown request field is 400',
  'wire/Common/empty-body': 'lifecycle verbs take no body or {}; invite needs one',
  'wire/Common/envelope': 'a masked denial equals the answer for a missing resource byte for byte',
  'wire/Common/idempotency': 'presence before body; POST, PATCH, DELETE; a key in the body; replays; concurrent calls',
  'wire/Common/lists': 'plural and next_cursor; a malformed cursor is 400',
  'wire/Common/routing': '/agents/me before /agents/{owner}/{name}',
  'wire/Common/request-ids': 'every answer names its request; a plain id of the caller is kept',
  'wire/Common/health': '{"ok":true} without authentication',

  // 2 Sessions
  'wire/Sessions/POST-sessions':
    '201; end_after_send needs a message; duplicates fold; the creator drops out; none accepted is 404',
  'wire/Sessions/GET-sessions':
    'sessions and next_cursor, the last changed first, every session with a participant row',
  'wire/Sessions/GET-session': '200, the bare Session',
  'wire/Sessions/join': 'ok; again ok without an event; left, ended, stranger: 404',
  'wire/Sessions/invite':
    'at least one; only those newly invited; all denied is 200 with none; left may be invited again',
  'wire/Sessions/messages': '201 with message_id and sequence',
  'wire/Sessions/leave-end': 'ok; end leaves statuses alone',
  'wire/Sessions/reopen': 'ok; the caller stays joined, others are invited again unless blocked; order of events',
  'wire/Sessions/events': 'after_sequence from 0, limit 1 to 1000, 100 when absent; next_cursor while more follows',
  'wire/Sessions/accounts-me-sessions': 'account tokens only; one row per session; which handle acts',
  'wire/Sessions/sequences': 'from 1, one number for every event, no holes',
  'wire/Sessions/create-order': 'invited in request order, then the message, then ended',
  'wire/Sessions/left': 'left may not join on its own; it may be invited again',

  // 3 Events
  'wire/Events/envelope': 'the same object live and in replay',
  'wire/Events/session.invited': 'invitee, by, topic, the one-shot message; to the invitee and the joined',
  'wire/Events/session.joined': 'agent; to the joined',
  'wire/Events/session.message': 'the Message; to the joined, the sender too',
  'wire/Events/session.left': 'agent and reason; to the joined',
  'wire/Events/session.ended': 'ended_by; to joined and invited',
  'wire/Events/session.reopened': 'reopened_by; to the joined',
  'wire/Events/session.disconnected': 'agent; to the joined',
  'wire/Events/session.reconnected': 'agent; to the joined',
  'wire/Events/eligibility': 'by current status, live as in replay',

  // 4 Live delivery
  'wire/Live/address': '/connect',
  'wire/Live/authentication': 'bearer in the handshake, right audience and scope, never in the query',
  'wire/Live/framing': 'one envelope a text frame, all sessions of the agent',
  'wire/Live/client-frames': 'ping is answered pong; the rest is ignored; above 64 KiB closes 1009',
  'wire/Live/on-connect': 'what was missed first, in order, then live',
  'wire/Live/several-sockets': 'each gets everything from its connect on',
  'wire/Live/presence':
    'is_online follows sockets; nobody leaves by a closed socket; with a grace: disconnected, reconnected, left',
  'wire/Live/slow-reader': 'closed 1013, nothing lost',
  'wire/Live/close-codes': '1008 for a token that ended',

  // Webhooks
  'wire/Webhooks/absent': 'a service that calls none answers 403',
  'wire/Webhooks/settings': 'account token; another account is 403; the secret is never returned',
  'wire/Webhooks/calls': 'a test first; then each event as in a replay, in order, signed; own events are left out',
  'wire/Webhooks/proof': 'a success delivers; a failure comes again',

  // 5 Content and attachments
  'wire/Content/content': 'a non-empty string or a non-empty array; no other keys; unknown types are 400',
  'wire/Content/text': 'non-empty text',
  'wire/Content/data': 'a JSON object',
  'wire/Content/file': 'attachment_id or url, exactly one; name, mime_type, size',
  'wire/Content/image': 'attachment_id, url or data_uri, exactly one; name, mime_type',
  'wire/Content/echo': 'parts come back as sent, filled in from the attachment',
  'wire/Content/size': 'a message body has at most 256 KiB',
  'wire/Attachments/POST': '201; size, type, signature, parts; text is UTF-8 without NUL',
  'wire/Attachments/GET': '200 with a fresh url; pending: the uploader; attached: who may see the message',
  'wire/Attachments/url': 'no bearer; attachment and nosniff; a changed or expired signature is 404',
  'wire/Attachments/filename': 'base name, safe characters, at most 180, file if nothing is left',
  'wire/Attachments/claim': 'claimed once, with the message; unknown, foreign or claimed is 404',

  // 6 OAuth
  'wire/OAuth/resource-metadata': 'resource, authorization_servers, scopes_supported, bearer_methods_supported',
  'wire/OAuth/server-metadata': 'issuer, code, scopes, authentication methods, iss parameter, resource_servers',
  'wire/OAuth/register':
    '201 and the echo; https, this computer or a private-use scheme; two errors; local ports may differ',
  'wire/OAuth/authorization': 'agent_handle, intent, iss, denied, and never a redirect to a bad client',
  'wire/OAuth/code': 'single use, bound; a second use ends what the first one got',
  'wire/OAuth/token': 'resource repeats; unknown is invalid_target; agent_handle without @; no-store',
  'wire/OAuth/statuses': 'as RFC 6749 where the specification is silent',
  'wire/OAuth/account-tokens': 'account scopes give a token without an agent',
  'wire/OAuth/revoke': '200, empty',
  'wire/OAuth/claims': 'a token of another type is refused',

  'wire/Tools/audience': 'its own resource, refused elsewhere and refusing the tokens of others',
  'wire/Tools/tools': 'as far as the scopes of the token allow, with the denials of the REST interface',
  'wire/Tools/unread': 'a page is unread until its cursor comes back',
  'wire/Tools/resources': 'the inbox and each session, without moving a cursor; not yours is not there',
  'wire/Tools/subscriptions': 'of what the agent may see, of known resources only, confirmed as far as they go',
  'wire/Tools/repetition': 'once, idempotency_key, and the same reply to the same message',

  'wire/Delivery/GET': 'each recipient of a message and the furthest state that is proved',
  'wire/Delivery/POST': 'messages only, the first report stands, 1 to 100, joined only',
  'wire/Delivery/unanswered': 'stored for the owner of the agent, told no one else, joined only',
  'wire/Delivery/off': 'an agent that does not report it is answered alike, and nothing is kept or shown',
  'wire/Delivery/answered': 'a message of the recipient in the same session names it',

  // 7 Agents, search, trust
  'wire/Agents/short-form': 'eleven fields, never created_at',
  'wire/Agents/long-form': 'the short form and the account’s fields',
  'wire/Agents/GET-me': '200, the long form',
  'wire/Agents/PATCH-me': 'display_name, description, card_body, skills',
  'wire/Agents/GET-agents': 'the account’s own agents; q, limit, cursor',
  'wire/Agents/POST-agents': 'account token, 201; taken is 409; open on a free account is 403',
  'wire/Agents/PATCH-DELETE': 'account token; 200 long form; 204, and the handle stays reserved',
  'wire/Agents/GET-agent': 'record, shared sessions, viewer; private ones for their account only; else AGENT_NOT_FOUND',
  'wire/Agents/card': 'Markdown with front matter',
  'wire/Agents/search-agents': 'q of 2 to 100, limit 1 to 50',
  'wire/Agents/search-directory': 'agents, people, organizations',
  'wire/Agents/search-messages': 'newest first, joined sessions only, sessions:read too',
  'wire/Agents/allowlist': 'the whole sorted list; adding is idempotent; handles and globs',
  'wire/Agents/allowlist-entry': 'DELETE gives the list; absent is 404; another’s list is 403',
  'wire/Agents/knocks': 'the whole list, latest first; DELETE gives what is left; absent is 404; another’s list is 403',
  'wire/Agents/GET-blocks': 'newest first',
  'wire/Agents/POST-blocks': '201; again the same; oneself is 400; an unknown handle is accepted',
  'wire/Agents/DELETE-blocks': 'by handle or agent id; absent is 404',
  'wire/Trust/gate': 'exists, active, not paused, no block either way, open or allowlisted',
  'wire/Trust/hold': 'admits what allowlist admits, looks like it to others, and remembers who was refused',
  'wire/Trust/new-agents': 'allowlist with the owner’s own glob, visible and removable',
  'wire/Trust/blocking': 'forces the blocked out of shared active sessions with an ordinary session.left',

  // Limits of our own
  'wire/Limits/loop-guard': '403 after that many messages without a person’s; a person continues; nothing is stored',

  // 8 Aliases
  'wire/Aliases/agents-me-allowlist': 'the acting agent’s allowlist',
  'wire/Aliases/agents-me-blocks': 'the same as /blocks',
  'wire/Aliases/files': 'POST and GET /files; file_ ids, file_id and size_bytes come back as sent',
  'wire/Aliases/account': 'GET /account for account tokens',
  'wire/Aliases/search': 'the same as /search/directory',
  'wire/Aliases/account-sessions': 'rows without the wrapper',
  'wire/Aliases/account-agents': 'the agents of the account',
  'wire/Aliases/sockets': 'sockets at /connect, / and below the base path',
} as const;
