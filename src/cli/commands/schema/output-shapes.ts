import * as z from 'zod/mini';
import { RELATIONS } from '../../../wire/relation.js';
import {
  AgentAnswer,
  AgentSummaryAnswer,
  BlockAnswer,
  FoundAgentAnswer,
  Knock,
  Webhook,
} from '../../../wire/schemas/agent.js';
import { Attachment, AttachmentLinkAnswer } from '../../../wire/schemas/attachment.js';
import { DeliveryReply } from '../../../wire/schemas/delivery.js';
import { EventEnvelope } from '../../../wire/schemas/event.js';
import { Message } from '../../../wire/schemas/message.js';
import {
  EntryLink,
  Invitation,
  OperatorAccount,
  OperatorAgent,
  OperatorClient,
  OperatorClientSummary,
  OperatorKey,
  OperatorRetention,
  OperatorStatus,
  ServiceTime,
} from '../../../wire/schemas/operator.js';
import { Session } from '../../../wire/schemas/session.js';

const text = z.string();
const maybe = z.nullable(text);
const texts = z.array(text);
const yes = z.boolean();
const count = z.int();
const maybeCount = z.nullable(count);
const state = z.enum(['active', 'ended']);

/** Fields may only be added. */
const shape = z.looseObject;

const list = <Item extends z.ZodMiniType>(item: Item) => shape({ items: z.array(item), next_cursor: maybe });

const lifecycle = shape({
  session_id: text,
  action: text,
  /** False if nothing had to be changed. */
  changed: z.optional(z.literal(false)),
  /** Null if the service does not say. */
  state: z.nullable(state),
  /** Both null if it could not be read which agents were left out. */
  invited: z.optional(z.nullable(texts)),
  omitted: z.optional(z.nullable(texts)),
  idempotency_key: maybe,
  as: maybe,
});

const send = shape({
  session_id: text,
  /** Null if the message created a session at a service that does not return its id. */
  message_id: maybe,
  sequence: maybeCount,
  state,
  created_session: yes,
  /** Both null if the service could not be asked which agents were left out. */
  invited: z.nullable(texts),
  omitted: z.nullable(texts),
  attachments: texts,
  idempotency_key: maybe,
  attempts: count,
  /** Null if only the credential knows. */
  as: maybe,
  /** The message that this one answers. */
  in_reply_to: z.optional(text),
  /** Its delivery, if the command waited for it. */
  delivery: z.optional(DeliveryReply),
  reply: z.optional(Message),
  /** Whether the reply names this message as the one it answers. Otherwise it is the next message from another agent. */
  reply_matched: z.optional(yes),
  /** Which of the offered answers the reply is. */
  choice: z.optional(text),
});

/** How the author of a message or an event is related to the reader. */
const about = z.optional(shape({ relation: z.enum(RELATIONS) }));

const message = z.extend(Message, { asp: about });

const inboxItem = shape({
  session_id: text,
  state,
  topic: maybe,
  /** The acting agent's status in the session. */
  status: z.enum(['joined', 'invited']),
  with: texts,
  /** Messages from others since the last read or answered one. */
  unread: count,
  /** Whether there are more than were counted. */
  has_more: yes,
  /** The latest message from someone else, or their latest other event. */
  last_event: EventEnvelope,
  asp: about,
});

/** What an agent program reported about its turn (run --acp). */
const turn = shape({
  acp_session_id: maybe,
  stop_reason: maybe,
  tokens: maybeCount,
  context_used: maybeCount,
  context_size: maybeCount,
  cost: z.nullable(shape({ amount: z.number(), currency: text })),
  permissions: shape({ allowed: count, refused: count }),
});

/** The delivery of a message to an agent. */
const runRecord = shape({
  session_id: text,
  event_id: text,
  message_id: text,
  sequence: count,
  from: text,
  created_at: count,
  outcome: z.enum(['replied', 'silent', 'failed', 'refused', 'answered', 'limited']),
  exit_code: maybeCount,
  tries: count,
  reply: z.nullable(shape({ message_id: text, sequence: count })),
  code: maybe,
  at: count,
  duration_ms: count,
  turn: z.optional(turn),
});

/** What an agent answered to a message. */
const answer = shape({
  outcome: z.enum(['replied', 'silent', 'failed']),
  messages: z.array(Message.shape.content),
  /** Why the command failed. */
  why: maybe,
});

const alias = shape({ name: text, words: z.array(text) });
const profile = shape({
  name: text,
  base_url: text,
  auth_url: maybe,
  web_url: maybe,
  ws_url: maybe,
  agent: maybe,
  credential_command: z.nullable(texts),
  default: yes,
  local: yes,
});

const downloaded = shape({ id: text, path: text, filename: text, content_type: text, size: count });
const allowlist = shape({ entries: z.nullable(texts) });
/** Only the first three are there if the agent has none. */
const webhook = z.looseObject({
  handle: text,
  url: maybe,
  status: z.nullable(Webhook.shape.status),
  set_at: z.optional(count),
  answered_at: z.optional(maybeCount),
  failing_since: z.optional(maybeCount),
  failure: z.optional(maybe),
  next_try_at: z.optional(maybeCount),
  secret: maybe,
});
const setting = shape({ key: text, value: maybe });
const service = shape({ url: text, auth_url: text, web_url: text, ws_url: text, pid: count, version: text });

const attachmentReference = shape({
  id: text,
  type: text,
  filename: maybe,
  content_type: maybe,
  size: maybeCount,
  message_id: text,
  sender: text,
  sequence: count,
  created_at: count,
});

/** Everything except the layers is null if `--explain` finds no identity. */
const whoami = shape({
  handle: maybe,
  agent_id: maybe,
  account_id: maybe,
  profile: maybe,
  base_url: maybe,
  source: maybe,
  store: maybe,
  scopes: z.nullable(texts),
  expires_at: maybeCount,
  layers: z.optional(z.array(shape({ question: text, place: text, said: maybe, chosen: yes }))),
});

const login = shape({ handle: maybe, base_url: text, store: text, scopes: texts });

const failure = shape({
  error: shape({
    code: text,
    message: text,
    http_status: z.optional(count),
    exit_code: count,
    retryable: yes,
    retry_after_ms: z.optional(count),
    outcome: z.enum(['not_applied', 'applied', 'unknown']),
    session_id: z.optional(text),
    request_id: z.optional(text),
    hint: z.optional(text),
    next: z.optional(texts),
    as: z.optional(text),
    profile: z.optional(text),
    source: z.optional(text),
    request: z.optional(shape({ method: text, path: text, idempotency_key: z.optional(text), attempts: count })),
  }),
});

const option = shape({
  name: text,
  short: maybe,
  value: maybe,
  repeatable: yes,
  choices: z.nullable(texts),
  environment: maybe,
  about: text,
});

const commandTree = shape({
  words: texts,
  aliases: z.array(texts),
  summary: text,
  effect: z.enum(['none', 'local', 'read', 'write', 'destructive']),
  endless: yes,
  stdout: maybe,
  arguments: z.array(shape({ name: text, required: yes, repeatable: yes, about: text })),
  options: z.array(option),
  examples: z.array(shape({ line: text, about: text })),
});

const signedOut = shape({ handle: maybe, base_url: text, revoked: yes, deleted: yes, error: maybe });
const status = shape({
  profile: maybe,
  base_url: maybe,
  agent: maybe,
  source: maybe,
  /** Null if it is not known without a request: a token or client from the environment. */
  signed_in: z.nullable(yes),
  local_service: maybe,
  reachable: z.nullable(yes),
  /** Why no profile or agent was found. */
  problem: maybe,
});

const restored = shape({ file: text, data: text, attachments: count, schema_version: count });
const migrated = shape({
  data: text,
  schema_version: z.nullable(count),
  target_version: count,
  is_plan: yes,
  in_the_way: count,
  steps: z.array(shape({ to: count, what: text, table: text, kind: text, is_new: yes, rows: z.nullable(count) })),
});
const loginStart = shape({ login_id: text, authorize_url: text, expires_at: count, next: texts });
const dryRun = shape({ method: text, url: text, idempotency_key: maybe, body: z.unknown() });
const serveSettings = list(shape({ name: text, value: z.unknown(), source: text }));
const note = shape({ note: text });
const trace = shape({ trace: shape({ kind: text, text }) });

const connected = shape({
  agent: text,
  dry_run: yes,
  files: z.array(
    shape({ path: text, action: z.enum(['create', 'change', 'remove', 'keep']), diff: text, note: maybe }),
  ),
});

/** The `--json` output of each command, by its path. A stream prints one such document per line. */
export const COMMAND_OUTPUT = {
  'auth login': login,
  'auth logout': list(signedOut),
  'auth whoami': whoami,
  'auth status': list(
    shape({
      handle: maybe,
      profile: maybe,
      base_url: text,
      store: text,
      scopes: texts,
      state: text,
      expires_at: maybeCount,
      signed_in_at: count,
    }),
  ),
  'auth token': shape({
    access_token: text,
    token_type: text,
    resource: z.enum(['api', 'ws']),
    expires_at: maybeCount,
    scope: maybe,
  }),
  'auth refresh': shape({ handle: maybe, base_url: text, scopes: z.optional(texts), expires_at: z.optional(count) }),
  'auth clients': list(shape({ client_id: text, issuer: text, registered_at: count })),
  'auth ci': shape({ system: text, base_url: text, snippet: text }),
  'agent use': shape({ handle: maybe, profile: maybe, path: text }),
  'agent show': AgentSummaryAnswer,
  'agent card': shape({ handle: text, card: text }),
  'agent list': list(AgentAnswer),
  'agent search': list(FoundAgentAnswer),
  'agent create': AgentAnswer,
  'agent update': AgentAnswer,
  'agent remove': shape({ handle: text, removed: yes, idempotency_key: maybe }),
  'profile list': list(profile),
  'profile show': profile,
  'profile add': profile,
  'profile set': profile,
  'profile remove': profile,
  'profile use': shape({ name: text, base_url: maybe, default: yes }),
  'message send': send,
  ask: send,
  reply: send,
  chat: EventEnvelope,
  inbox: list(inboxItem),
  'inbox read': shape({ session_id: text, messages: z.array(message), unread_left: count }),
  'message list': list(message),
  'message search': list(Message),
  mcp: shape({ jsonrpc: z.literal('2.0') }),
  run: runRecord,
  mock: shape({ ...runRecord.shape, rule: maybe }),
  replay: shape({
    session_id: text,
    event_id: text,
    message_id: text,
    sequence: count,
    from: text,
    content: Message.shape.content,
    outcome: z.enum(['same', 'different']),
    recorded: answer,
    replayed: answer,
    exit_code: maybeCount,
    tries: count,
    duration_ms: count,
  }),
  'session list': list(Session),
  'session show': z.looseObject({ ...Session.shape, delivery: z.optional(z.nullable(DeliveryReply)) }),
  'session create': lifecycle,
  'session join': lifecycle,
  'session invite': lifecycle,
  'session leave': lifecycle,
  'session end': lifecycle,
  'session reopen': lifecycle,
  'session events': EventEnvelope,
  'session tail': EventEnvelope,
  'session wait': shape({ session_id: text, condition: text, event: z.nullable(EventEnvelope) }),
  'session export': shape({
    session_id: text,
    path: text,
    format: z.enum(['jsonl', 'md']),
    events: count,
    attachments: z.array(downloaded),
  }),
  'attachment upload': list(z.looseObject({ ...Attachment.shape, idempotency_key: maybe })),
  'attachment download': list(downloaded),
  'attachment show': AttachmentLinkAnswer,
  'attachment list': list(attachmentReference),
  'allowlist list': list(shape({ entry: text })),
  'allowlist add': z.looseObject({ ...allowlist.shape, added: texts, idempotency_key: maybe }),
  'allowlist remove': z.looseObject({ ...allowlist.shape, removed: texts }),
  'allowlist apply': z.looseObject({ ...allowlist.shape, added: texts, removed: texts, applied: yes }),
  'allowlist check': shape({ handle: text, allowed: z.nullable(yes), by: maybe, as: text }),
  'webhook show': webhook,
  'webhook set': webhook,
  'webhook test': webhook,
  'webhook remove': shape({ handle: text, removed: yes, idempotency_key: maybe }),
  'knock list': list(Knock),
  'knock dismiss': list(shape({ sender: text })),
  'block list': list(BlockAnswer),
  'block add': list(BlockAnswer),
  'block remove': list(shape({ blocked: text, unblocked: z.literal(true) })),
  'config list': list(shape({ key: text, value: text, origin: maybe })),
  'config get': setting,
  'config set': setting,
  'config unset': setting,
  'config edit': shape({ config: text, changed: yes }),
  connect: connected,
  disconnect: connected,
  'skill show': shape({ name: text, text }),
  'skill install': connected,
  'alias list': list(alias),
  'alias set': alias,
  'alias remove': shape({ ...alias.shape, removed: yes }),
  'config path': shape({ config: text, state: maybe, runtime: text, data: maybe }),
  status,
  doctor: list(
    shape({
      check: text,
      state: z.enum(['ok', 'warning', 'problem', 'fixed']),
      says: text,
      fix: z.nullable(texts),
    }),
  ),
  schema: list(shape({ name: text, kind: z.enum(['command', 'event', 'object']) })),
  // The lines of --jsonl are the items alone.
  commands: z.extend(list(commandTree), { global_options: z.optional(z.array(option)) }),
  explain: shape({ code: text, exit_code: count, http_status: maybeCount, retry: maybe, means: text, helps: text }),
  open: shape({ url: text, session_id: maybe, opened: yes }),
  help: shape({ topic: text, text }),
  completion: shape({
    shell: text,
    script: z.optional(text),
    files: z.optional(z.array(shape({ path: text, action: z.enum(['create', 'change', 'keep']) }))),
  }),
  demo: shape({ steps: z.array(shape({ command: text, exit_code: maybeCount, stdout: text, stderr: text })) }),
  version: shape({
    version: text,
    node: text,
    platform: text,
    arch: text,
    newest: z.optional(text),
    up_to_date: z.optional(yes),
    update: z.optional(z.nullable(texts)),
    registry: z.optional(text),
  }),
  serve: service,
  'serve status': z.looseObject({ ...z.partial(service).shape, ...OperatorStatus.shape }),
  'serve stop': shape({ url: text, pid: count, stopped: yes }),
  'serve open': shape({ url: text, account: text, expires_at: count, opened: yes }),
  'serve logs': shape({ line: text, entry: z.nullable(shape({})) }),
  'serve reset': shape({ data: text, deleted: yes, attachments: count, bytes: count }),
  'serve backup': z.looseObject({ ...restored.shape, bytes: count, with_keys: yes }),
  'serve restore': restored,
  'serve migrate': migrated,
  'serve install': shape({ unit: text, system: yes, commands: z.array(texts), text, written: yes }),
  'serve uninstall': shape({ unit: text, system: yes, commands: z.array(texts), removed: yes }),
  'serve account export': shape({ account: text, file: text }),
  'serve retention': OperatorRetention,
  'serve keys list': list(OperatorKey),
  'serve keys rotate': shape({ rotated: yes, next: z.nullable(OperatorKey), keys: z.array(OperatorKey) }),
  'serve clock advance': ServiceTime,
  'serve trigger': shape({
    event: text,
    session_id: z.nullable(text),
    message_id: z.nullable(text),
    count: z.nullable(count),
  }),
  'serve agent list': list(OperatorAgent),
  'serve agent add': list(OperatorAgent),
  'serve agent remove': shape({ handle: text, removed: yes }),
  'serve agent pause': OperatorAgent,
  'serve agent resume': OperatorAgent,
  'serve client add': OperatorClient,
  'serve client list': list(OperatorClientSummary),
  'serve client revoke': shape({ client_id: text, revoked: yes }),
  'serve account list': list(OperatorAccount),
  'serve account show': OperatorAccount,
  'serve account suspend': OperatorAccount,
  'serve account resume': OperatorAccount,
  'serve account tier': OperatorAccount,
  'serve account operator': OperatorAccount,
  'serve account remove': shape({
    account: text,
    removed: yes,
    erased: z.optional(shape({ sessions: count, events: count, attachments: count })),
  }),
  'serve account reset-password': shape({ account: text, url: text, expires_at: count }),
  'serve invite create': EntryLink,
  'serve invite list': list(Invitation),
  'serve invite revoke': shape({ id: text, revoked: yes }),
} as const satisfies Readonly<Record<string, z.ZodMiniType>>;

/** A document as its command makes it: only the fields that are named above. */
export type Made<Shape> = {
  readonly [Key in keyof Shape as string extends Key ? never : Key]: Unchanging<Shape[Key]>;
};
type Unchanging<Value> = Value extends readonly string[] ? readonly string[] : Value;

type Output = { readonly [Path in keyof typeof COMMAND_OUTPUT]: z.infer<(typeof COMMAND_OUTPUT)[Path]> };
/** What a command prints with `--json`. */
export type OutputOf<Path extends keyof Output> = Made<Output[Path]>;
/** What a command lists. */
export type ItemOf<Path extends keyof Output> = Output[Path] extends { readonly items: readonly (infer Item)[] }
  ? Made<Item>
  : never;

/** Parts of outputs that several commands share. */
export const OBJECT = {
  session: Session,
  message: Message,
  agent: AgentAnswer,
  attachment: Attachment,
  block: BlockAnswer,
  event: EventEnvelope,
  error: failure,
  note,
  trace,
  'account-session': list(shape({ session: Session, acting_handle: text })),
  'login-start': loginStart,
  'dry-run': dryRun,
  'serve-settings': serveSettings,
} as const satisfies Readonly<Record<string, z.ZodMiniType>>;
