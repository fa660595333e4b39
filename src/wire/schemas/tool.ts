import * as z from 'zod/mini';

import { isMessageEvent } from '../event.js';
import { toHandle } from '../handle.js';
import { ID_PREFIX } from '../id.js';
import { LIST_LIMIT_MAX, SEARCH_QUERY_MAX_LENGTH, SEARCH_QUERY_MIN_LENGTH } from '../limit.js';
import { EventEnvelope } from './event.js';
import { describeIssue } from './issue.js';
import { Message } from './message.js';
import type { Session } from './session.js';

/** What a language model knows about a tool. The program and the service serve some of the same. */
export interface ToolFacts {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: z.ZodMiniObject;
  /** Whether it changes nothing anywhere, and whether a change destroys data. */
  readonly effect: 'reads' | 'adds' | 'destroys';
  /** Whether repeating the call changes nothing more (default: true for tools that only read). */
  readonly isIdempotent?: boolean;
  /** Whether its answers contain no text from other agents. */
  readonly isOwn?: boolean;
}

/** A schema with a description for the model. */
export const about = (text: string) => z.describe(text);

const SessionId = z.string().check(about('a session id: sess_…'));
const Handle = z.string().check(about('@owner.name'));
const Handles = z.array(Handle);
const Limit = z.optional(z.int().check(z.minimum(1), z.maximum(LIST_LIMIT_MAX)));
const PageCursor = z.optional(z.string().check(about('next_cursor of the previous page')));
const Topic = z.optional(z.string().check(about('the topic of a new session')));
const FirstMessage = z.optional(z.string().check(about('a first message')));

/** Members that several tools have. */
export const TOOL_INPUT = {
  sessionId: SessionId,
  target: z
    .union([z.string(), Handles])
    .check(about('a session id (sess_…), a handle (@owner.name), or several handles')),
  inReplyTo: z.optional(z.string().check(about('the id of the message that this answers: msg_…'))),
  data: z.optional(z.looseObject({}).check(about('a JSON object, sent as a data part'))),
  topic: Topic,
  newSession: z.optional(z.boolean().check(about('start a new session even if one is open with this agent'))),
  end: z.optional(z.boolean().check(about('end the session after this message'))),
} as const;

/** What `send` does with a handle, for its description. */
export const SEND_TARGET =
  'Sends a message to a session, or to agents. A message to one agent goes into your open session with only that agent; if none is open, or with new_session, topic, end or once, it starts one. Several agents always get a new session. ';

/**
 * The handle whose open session a message goes into. A call with a key needs a new session: its repetition would find
 * the session that it created, and send another request.
 */
export function findContinued(input: Readonly<Record<string, unknown>>): string | undefined {
  const { to, topic, end, new_session: isNew, once, idempotency_key: key } = input;
  const names: unknown[] = Array.isArray(to) ? to : String(to).split(',');
  const name = names.length === 1 ? String(names[0]).trim() : '';
  if (name === '' || name.startsWith(ID_PREFIX.session)) return undefined;
  if (topic !== undefined || end === true || isNew === true || once !== undefined || key !== undefined)
    return undefined;
  return toHandle(name);
}

/** The advice to a model if several sessions fit. */
export function describeSeveral(handle: string, sessions: readonly Session[]): { message: string; why: string } {
  const shown = sessions.slice(0, 5).map(({ id }) => id);
  return {
    message: `You have ${sessions.length} open sessions with ${handle}: ${shown.join(', ')}${sessions.length > shown.length ? ' and more' : ''}.`,
    why: 'send to the id of one, or start another with new_session.',
  };
}

/** For a write: the argument that makes a repetition harmless. */
export const TOOL_KEYS = {
  once: z.optional(
    z.string().check(z.minLength(1), about('do this once: calls with the same name and arguments have one effect')),
  ),
  idempotency_key: z.optional(
    z.string().check(z.regex(/^[\x20-\x7e]{1,255}$/), about('repeat a call whose outcome is unknown with its key')),
  ),
} as const;

/** The tools of sessions and agents. */
export const TOOL = {
  session_list: {
    name: 'session_list',
    title: 'List sessions',
    description: 'Lists the sessions of this agent, most recently changed first.',
    effect: 'reads',
    input: z.strictObject({ state: z.optional(z.enum(['active', 'ended'])), limit: Limit, cursor: PageCursor }),
  },
  session_show: {
    name: 'session_show',
    title: 'Show a session',
    description: 'Shows topic, state and participants of a session.',
    effect: 'reads',
    input: z.strictObject({ session_id: SessionId }),
  },
  session_create: {
    name: 'session_create',
    title: 'Create a session',
    description: 'Creates a session and invites agents to it. To send a message, use send.',
    effect: 'adds',
    input: z.strictObject({ invite: z.optional(Handles), topic: Topic, message: FirstMessage }),
  },
  session_invite: {
    name: 'session_invite',
    title: 'Invite agents',
    description: 'Invites agents to a session. Agents that cannot be reached are left out: see omitted.',
    effect: 'adds',
    input: z.strictObject({ session_id: SessionId, invite: Handles.check(z.minLength(1)) }),
  },
  session_join: {
    name: 'session_join',
    title: 'Join a session',
    description: 'Joins a session that this agent is invited to. Only joined agents see its messages.',
    effect: 'adds',
    isIdempotent: true,
    input: z.strictObject({ session_id: SessionId }),
  },
  session_leave: {
    name: 'session_leave',
    title: 'Leave a session',
    description: 'Leaves a session. Only another participant can invite this agent again.',
    effect: 'destroys',
    input: z.strictObject({ session_id: SessionId }),
  },
  session_end: {
    name: 'session_end',
    title: 'End a session',
    description: 'Ends a session for everyone. Its participants can reopen it.',
    effect: 'destroys',
    input: z.strictObject({ session_id: SessionId }),
  },
  session_reopen: {
    name: 'session_reopen',
    title: 'Reopen a session',
    description: 'Reopens a session that has ended and invites everyone again.',
    effect: 'adds',
    input: z.strictObject({ session_id: SessionId, invite: z.optional(Handles), message: FirstMessage }),
  },
  whoami: {
    name: 'whoami',
    title: 'Who am I',
    description: 'Shows which agent these tools act as, and at which service.',
    effect: 'reads',
    isOwn: true,
    input: z.strictObject({}),
  },
  agent_search: {
    name: 'agent_search',
    title: 'Search agents',
    description: 'Finds agents by handle or name (2 to 100 characters).',
    effect: 'reads',
    input: z.strictObject({
      query: z.string().check(z.minLength(SEARCH_QUERY_MIN_LENGTH), z.maxLength(SEARCH_QUERY_MAX_LENGTH)),
      limit: Limit,
      cursor: PageCursor,
    }),
  },
  agent_show: {
    name: 'agent_show',
    title: 'Show an agent',
    description: "Shows an agent's profile.",
    effect: 'reads',
    input: z.strictObject({ handle: Handle }),
  },
} as const satisfies Readonly<Record<string, ToolFacts>>;

/** A tool as the Model Context Protocol lists it. */
export interface ListedTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: JsonSchemaOfObject;
  readonly outputSchema: JsonSchemaOfObject;
  readonly annotations: {
    readonly title: string;
    readonly readOnlyHint: boolean;
    readonly destructiveHint: boolean;
    readonly idempotentHint: boolean;
    readonly openWorldHint: boolean;
  };
}

interface JsonSchemaOfObject {
  type: 'object';
  [keyword: string]: unknown;
}

/** A tool for the list, with the shape of its answers. */
export function listTool(tool: ToolFacts & { readonly output: z.ZodMiniType }): ListedTool {
  const { name, title, description, input, output, effect } = tool;
  const isRead = effect === 'reads';
  return {
    name,
    title,
    description,
    inputSchema: toJsonSchema(input, 'input'),
    outputSchema: toJsonSchema(output, 'output'),
    annotations: {
      title,
      readOnlyHint: isRead,
      destructiveHint: effect === 'destroys',
      idempotentHint: tool.isIdempotent ?? isRead,
      // Other agents answer, and their answers are not known in advance.
      openWorldHint: true,
    },
  };
}

/** Draft 7: the version that the validators of clients support. */
function toJsonSchema(schema: z.ZodMiniType, io: 'input' | 'output'): JsonSchemaOfObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { target: 'draft-7', unrepresentable: 'any', io });
  return { ...rest, type: 'object' };
}

/** A mistake in the arguments of a tool, in one line; undefined: there is none. */
export function findToolMistake({ input }: ToolFacts, given: unknown): string | undefined {
  const [issue] = input.safeParse(given).error?.issues ?? [];
  if (issue === undefined) return undefined;
  const [name] = issue.path;
  // None of several forms fits, so the description says which there are.
  const field = issue.code === 'invalid_union' && typeof name === 'string' ? input.shape[name] : undefined;
  const forms = field && z.globalRegistry.get(field)?.description;
  return forms === undefined ? describeIssue(issue, 'The input') : `"${String(name)}" must be ${forms}.`;
}

/** The maximum number of events per call, which is also the default. */
const READ_LIMIT_MAX = 200;
/** See {@link READ_LIMIT_MAX}. */
export const READ_LIMIT_DEFAULT = 50;
/** A page ends after the event that makes it larger than this. */
export const READ_CHARS_MAX = 64_000;
/** A tool returns this many characters of one message by default. */
export const MESSAGE_CHARS_DEFAULT = 8_000;
/** Enough for the largest message. */
const MESSAGE_CHARS_MAX = 300_000;

/** What a tool that reads events takes, besides a session and a cursor. */
export const READ_MEMBERS = {
  limit: z.optional(z.int().check(z.minimum(1), z.maximum(READ_LIMIT_MAX))),
  others_only: z.optional(z.boolean().check(about('leave out events of this agent itself'))),
  max_chars: z.optional(
    z
      .int()
      .check(
        z.minimum(1),
        z.maximum(MESSAGE_CHARS_MAX),
        about(`truncate longer messages to this many characters; default ${MESSAGE_CHARS_DEFAULT}`),
      ),
  ),
} as const;

/** A message truncated to about `max` characters, which says how much is missing and how to get it. */
export function cutMessage(message: Message, max: number): Message {
  const { content, metadata, session_id: id, sequence } = message;
  const rest = (length: number): string =>
    `… [${max} of ${length} characters; for the rest, read session_id ${id} after ${sequence - 1} with limit 1 and max_chars ${MESSAGE_CHARS_MAX}]`;
  const cut = (text: string): string => (text.length <= max ? text : `${text.slice(0, max)}${rest(text.length)}`);
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const meta = metadata === undefined ? undefined : JSON.stringify(metadata);
  return {
    ...message,
    ...(text.length > max && { content: cut(text) }),
    ...(meta !== undefined && meta.length > max && { metadata: { cut: cut(meta) } }),
  };
}

/** An event whose message, if it has one, is truncated. */
export function cutEvent(event: EventEnvelope, max: number): EventEnvelope {
  if (isMessageEvent(event)) return { ...event, payload: cutMessage(event.payload, max) };
  if (event.type !== 'session.invited') return event;
  const first = Message.safeParse(event.payload.initial_message);
  return first.success
    ? { ...event, payload: { ...event.payload, initial_message: cutMessage(first.data, max) } }
    : event;
}

/** The last of these events that fit into one answer, in order, and where the next read continues. */
export function cutToLast(events: readonly EventEnvelope[]): EventPage {
  const last: EventEnvelope[] = [];
  let chars = 0;
  for (const event of events.slice(-READ_LIMIT_DEFAULT).reverse()) {
    const cut = cutEvent(event, MESSAGE_CHARS_DEFAULT);
    chars += JSON.stringify(cut).length;
    if (last.length > 0 && chars > READ_CHARS_MAX) break;
    last.unshift(cut);
  }
  return { events: last, next_cursor: String(last.at(-1)?.sequence ?? 0), has_more: false };
}

/** Some events, and the cursor of the next ones. */
export const EventPage = z.looseObject({
  events: z.array(EventEnvelope),
  next_cursor: z.string(),
  /** More events are available now. */
  has_more: z.boolean(),
});

export type EventPage = z.infer<typeof EventPage>;
