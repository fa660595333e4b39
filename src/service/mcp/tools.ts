import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { type ToolResult, toToolError, toToolResult } from '../../kit/mcp.js';
import { randomToken } from '../../kit/random.js';
import { splitHandle, toHandle } from '../../wire/handle.js';
import { ID_PREFIX } from '../../wire/id.js';
import { INBOX_SESSIONS_MAX, MCP_WAIT_MAX_S } from '../../wire/mcp.js';
import { AWAITS_REPLY, findInReplyTo, HOPS, IN_REPLY_TO, readHops } from '../../wire/message.js';
import { findOpenSessions } from '../../wire/open-session.js';
import { AgentView, SearchAgentsReply } from '../../wire/schemas/agent.js';
import { ErrorEnvelope, Ok } from '../../wire/schemas/base.js';
import { Message } from '../../wire/schemas/message.js';
import { ListSessionsReply, Session } from '../../wire/schemas/session.js';
import {
  about,
  describeSeveral,
  EventPage,
  findContinued,
  findToolMistake,
  MESSAGE_CHARS_DEFAULT,
  READ_LIMIT_DEFAULT,
  READ_MEMBERS,
  SEND_TARGET,
  TOOL,
  TOOL_INPUT,
  TOOL_KEYS,
  type ToolFacts,
} from '../../wire/schemas/tool.js';
import type { Scope } from '../../wire/scope.js';
import type { ServiceContext } from '../core/context.js';
import { hasCode, ServiceError } from '../core/errors.js';
import { findScope } from '../core/request-scope.js';
import { answerOfError } from '../http/answers.js';
import { readCounted, requireScopes, writeCounted } from '../http/pipeline.js';
import { describeRefusal, limitModel } from '../messaging/loop-guard.js';
import {
  type Awaited,
  type Caller,
  findLastOfOthers,
  isAmong,
  listUnread,
  readSession,
  readUnread,
  relateSenders,
  type ToolService,
  waitForReply,
} from './unread.js';

/** A tool that the service runs itself. */
export interface ServiceTool extends ToolFacts {
  readonly output: z.ZodMiniType;
  readonly scopes: readonly Scope[];
  run(service: ToolService, caller: Caller, input: never): Promise<object>;
}

interface ToolParts<Input extends z.ZodMiniObject> extends ToolFacts {
  readonly input: Input;
  readonly output: z.ZodMiniType;
  readonly scopes: readonly Scope[];
  readonly run: (service: ToolService, caller: Caller, input: z.output<Input>) => Promise<object>;
}

const tool = <Input extends z.ZodMiniObject>(parts: ToolParts<Input>): ServiceTool => parts;

const READS: readonly Scope[] = ['sessions:read'];
const WRITES: readonly Scope[] = ['sessions:write'];
const FINDS: readonly Scope[] = ['agents:read'];

const seconds = (text: string) => z.optional(z.number().check(z.minimum(0), z.maximum(MCP_WAIT_MAX_S), about(text)));
const WaitForReply = seconds(
  `wait up to this many seconds, at most ${MCP_WAIT_MAX_S}, for the reply and return it too`,
);
const WaitForNews = seconds(`if there is nothing yet, wait up to this many seconds, at most ${MCP_WAIT_MAX_S}`);

interface Keys {
  readonly once?: string | undefined;
  readonly idempotency_key?: string | undefined;
}

/** The key of a write; `isChosen`: repeating the call must give the same bytes, no matter what arrived in between. */
function toKey({ context }: ToolService, { once, idempotency_key: given }: Keys): { key: string; isChosen: boolean } {
  if (once !== undefined)
    return { key: `once-${createHash('sha256').update(once).digest('base64url')}`, isChosen: true };
  return given === undefined
    ? { key: `mcp-${randomToken(context.random, 16)}`, isChosen: false }
    : { key: given, isChosen: true };
}

interface Said {
  readonly text?: string | undefined;
  readonly data?: Record<string, unknown> | undefined;
}

function toContent({ text, data }: Said): unknown {
  if (data === undefined) {
    if (text === undefined) throw new ServiceError('VALIDATION_ERROR', 'There is no message: set text or data.');
    return text;
  }
  return [...(text === undefined ? [] : [{ type: 'text', text }]), { type: 'data', data }];
}

function refuseWaitAfterEnd(isLast: boolean | undefined, waitS: number): void {
  if (isLast !== true || waitS === 0) return;
  throw new ServiceError('VALIDATION_ERROR', 'No one can reply in a session that has ended: leave out end or wait_s.');
}

interface Sent {
  readonly session_id: string;
  readonly message_id: string | null;
  readonly sequence: number | null;
}

async function endAfter(service: ToolService, { actor }: Caller, sessionId: string, key: string): Promise<void> {
  const write = { operation: 'endSession', path: { session_id: sessionId }, body: {} } as const;
  try {
    await writeCounted(service.context, actor, { ...write, key: `${key.slice(0, 240)}-end` });
  } catch (error) {
    // Someone else has ended it since the message. An error would say that this was not sent.
    if (!hasCode(error, 'NOT_FOUND')) throw error;
  }
}

/** `asked` is the one agent that the question went to, if it did not go to a session. */
async function withReply(
  service: ToolService,
  caller: Caller,
  sent: Sent,
  waitS: number | undefined,
  asked?: string,
): Promise<object> {
  const { session_id: sessionId, message_id: id, sequence } = sent;
  if (waitS === undefined || waitS === 0 || sequence === null) return sent;
  const isReply = async (message: Message): Promise<boolean> => {
    const answered = findInReplyTo(message);
    if (answered !== undefined) return answered === id;
    if (message.sender === asked) return true;
    const members = [caller.actor.handle, message.sender];
    return service.context.database.read((query) => isAmong(query, sessionId, members));
  };
  const reading = { limit: READ_LIMIT_DEFAULT, maxChars: MESSAGE_CHARS_DEFAULT, isOthersOnly: true };
  const wait = { sessionId, after: sequence, waitMs: waitS * 1000 };
  const awaited = await waitForReply(service, caller, wait, isReply, reading).catch((error: unknown): Awaited => {
    // The message was sent: any error would say that it was not, unless the caller may no longer know.
    if (hasCode(error, 'UNAUTHORIZED')) throw error;
    const { code } = describeError(service.context, error);
    return { reply: null, ...(code === 'NOT_FOUND' && { is_over: true }) };
  });
  return { ...sent, ...awaited };
}

const SentOutput = z.looseObject({
  session_id: z.string(),
  message_id: z.nullable(z.string()),
  sequence: z.nullable(z.int()),
  /** Handles that could not be invited. */
  omitted: z.optional(z.array(z.string())),
  /** Null: no one has replied yet. */
  reply: z.optional(z.nullable(Message)),
  /** True: no reply can come. */
  is_over: z.optional(z.boolean()),
});

/** Of several invited agents, those that were left out. One alone that cannot be invited is an error. */
async function findOmitted(service: ToolService, { actor }: Caller, sessionId: string, invite: readonly string[]) {
  if (invite.length < 2 || !actor.scopes.includes('sessions:read')) return [];
  const read = { operation: 'getSession', path: { session_id: sessionId }, query: {} } as const;
  const { participants } = await readCounted(service.context, actor, read);
  const present = new Set(participants.map(({ handle }) => handle));
  return invite.filter((handle) => !present.has(handle));
}

const SEND_INPUT = z.strictObject({
  to: TOOL_INPUT.target,
  text: z.optional(z.string()),
  in_reply_to: TOOL_INPUT.inReplyTo,
  data: TOOL_INPUT.data,
  topic: TOOL_INPUT.topic,
  new_session: TOOL_INPUT.newSession,
  end: TOOL_INPUT.end,
  wait_s: WaitForReply,
  ...TOOL_KEYS,
});

/** The open session with an agent, if there is one. Without the right to read sessions, a message starts one. */
async function findOpenSession(
  { context }: ToolService,
  { actor }: Caller,
  handle: string | undefined,
): Promise<string | undefined> {
  if (handle === undefined || !actor.scopes.includes('sessions:read')) return undefined;
  const found = await findOpenSessions(actor.handle, handle, (query) =>
    readCounted(context, actor, { operation: 'listSessions', path: {}, query }),
  );
  if (found.length > 1) {
    const { message, why } = describeSeveral(handle, found);
    throw new ServiceError('VALIDATION_ERROR', `${message} To choose, ${why}`);
  }
  return found[0]?.id;
}

async function send(service: ToolService, caller: Caller, input: z.output<typeof SEND_INPUT>): Promise<object> {
  const { actor } = caller;
  const context = limitModel(service.context, actor);
  const { in_reply_to: answered, topic, end: isLast, wait_s: waitS = 0 } = input;
  refuseWaitAfterEnd(isLast, waitS);
  const to = (await findOpenSession(service, caller, findContinued(input))) ?? input.to;
  if (waitS > 0) requireScopes(READS, actor);
  const { key, isChosen } = toKey(service, input);
  const content = toContent(input);
  // Tells the agent's other programs that the reply is not a new message.
  const marks = {
    ...(answered !== undefined && { [IN_REPLY_TO]: answered }),
    ...(waitS > 0 && { [AWAITS_REPLY]: true }),
  };
  if (typeof to === 'string' && to.startsWith(ID_PREFIX.session)) {
    if (topic !== undefined || input.new_session === true)
      throw new ServiceError(
        'VALIDATION_ERROR',
        `${to} already exists: topic and new_session are only for a new session.`,
      );
    const hops = isChosen || !actor.scopes.includes('sessions:read') ? {} : await countHops(service, caller, to);
    const metadata = { ...marks, ...hops };
    const body = { content, ...(Object.keys(metadata).length > 0 && { metadata }) };
    const write = { operation: 'sendMessage', path: { session_id: to }, body, key } as const;
    const { message_id, sequence } = await writeCounted(context, actor, write);
    if (isLast === true) await endAfter(service, caller, to, key);
    return withReply(service, caller, { session_id: to, message_id, sequence }, waitS);
  }
  const invite = (typeof to === 'string' ? to.split(',') : to).map((handle) => toHandle(handle.trim()));
  const body = {
    invite,
    ...(topic !== undefined && { topic }),
    initial_message: { content, ...(Object.keys(marks).length > 0 && { metadata: marks }) },
    ...(isLast === true && { end_after_send: true }),
  };
  const write = { operation: 'createSession', path: {}, body, key } as const;
  const { session_id, message_id, sequence } = await writeCounted(context, actor, write);
  const omitted = await findOmitted(service, caller, session_id, invite);
  const sent = { session_id, message_id, sequence, ...(omitted.length > 0 && { omitted }) };
  return withReply(service, caller, sent, waitS, invite.length === 1 ? invite[0] : undefined);
}

/** A model answers like a program: its messages count the automatic replies before them, as those of `asp mcp` do. */
async function countHops({ context }: ToolService, { actor }: Caller, sessionId: string): Promise<object> {
  const answered = await findLastOfOthers(context, actor, sessionId);
  return answered === undefined ? {} : { [HOPS]: readHops(answered) + 1 };
}

const REPLY_INPUT = z.strictObject({
  session_id: TOOL_INPUT.sessionId,
  text: z.optional(z.string()),
  data: TOOL_INPUT.data,
  end: TOOL_INPUT.end,
  wait_s: WaitForReply,
});

async function reply(service: ToolService, caller: Caller, input: z.output<typeof REPLY_INPUT>): Promise<object> {
  const { session_id: sessionId, end: isLast, wait_s: waitS = 0 } = input;
  refuseWaitAfterEnd(isLast, waitS);
  const content = toContent(input);
  const answered = await findLastOfOthers(service.context, caller.actor, sessionId);
  if (answered === undefined)
    throw new ServiceError(
      'VALIDATION_ERROR',
      'The latest events of the session contain no message to answer: use send.',
    );
  // The same answer to the same message is sent once.
  const identity = JSON.stringify([answered.id, content]);
  const key = `reply-${createHash('sha256').update(identity).digest('base64url')}`;
  const marks = { [IN_REPLY_TO]: answered.id, [HOPS]: readHops(answered) + 1 };
  const write = (waits: boolean) => {
    const metadata = { ...marks, ...(waits && { [AWAITS_REPLY]: true }) };
    const path = { session_id: sessionId };
    const body = { content, metadata };
    const write = { operation: 'sendMessage', path, body, key, isKeyDerived: true } as const;
    return writeCounted(limitModel(service.context, caller.actor), caller.actor, write);
  };
  const { message_id, sequence } = await write(waitS > 0).catch((error: unknown) => {
    // An earlier call sent it with the other mark.
    if (hasCode(error, 'IDEMPOTENCY_MISMATCH')) return write(waitS === 0);
    throw error;
  });
  if (isLast === true) await endAfter(service, caller, sessionId, key);
  return withReply(service, caller, { session_id: sessionId, message_id, sequence }, waitS);
}

const READ_INPUT = z.strictObject({
  session_id: z.optional(
    TOOL_INPUT.sessionId.check(about('this session (default: the next session with unread events)')),
  ),
  after: z.optional(
    z
      .string()
      .check(
        about(
          'next_cursor of the previous read, which also confirms that its events have arrived; for one session, also a sequence (default: from its first event)',
        ),
      ),
  ),
  ...READ_MEMBERS,
  wait_s: WaitForNews,
});

async function read(service: ToolService, caller: Caller, input: z.output<typeof READ_INPUT>): Promise<object> {
  const { session_id: sessionId, after, wait_s: waitS = 0 } = input;
  const wanted = {
    limit: input.limit ?? READ_LIMIT_DEFAULT,
    maxChars: input.max_chars ?? MESSAGE_CHARS_DEFAULT,
    isOthersOnly: input.others_only === true,
  };
  const waitMs = waitS * 1000;
  if (sessionId === undefined) return readUnread(service, caller, { cursor: after, waitMs }, wanted);
  if (after !== undefined && !/^\d{1,15}$/.test(after))
    throw new ServiceError(
      'VALIDATION_ERROR',
      'after is not a sequence: use the next_cursor of a read of this session.',
    );
  return readSession(service, caller, { sessionId, after: Number(after ?? 0), waitMs }, wanted);
}

const InboxOutput = z.looseObject({
  sessions: z.array(
    z.looseObject({ session: Session, unread_after: z.int(), unread: z.int(), from: z.array(z.string()) }),
  ),
  has_more: z.boolean(),
});

/** A session tool that changes a session and returns no text. */
const changing = <Input extends z.ZodMiniObject<{ session_id: typeof TOOL_INPUT.sessionId }>>(
  facts: ToolFacts & { readonly input: Input },
  operation: 'joinSession' | 'leaveSession' | 'endSession',
): ServiceTool => {
  const input = z.extend(facts.input, TOOL_KEYS);
  return tool({
    ...facts,
    input,
    output: Ok,
    scopes: WRITES,
    run: (service, { actor }, given) => {
      const { session_id, ...keys } = given as { session_id: string } & Keys;
      const { key } = toKey(service, keys);
      return writeCounted(service.context, actor, { operation, path: { session_id }, body: {}, key });
    },
  });
};

/** The tools, in the order in which they are listed. */
export const SERVICE_TOOLS: readonly ServiceTool[] = [
  tool({
    name: 'send',
    title: 'Send a message',
    description:
      SEND_TARGET +
      'Returns session_id and the sequence to read after. Set once (a name that you choose) for messages that must not be sent twice. With wait_s it also waits for the reply; reply is null if there is none yet: then read the session after the sequence, unless is_over says that none can come.',
    effect: 'adds',
    input: SEND_INPUT,
    output: SentOutput,
    scopes: WRITES,
    run: send,
  }),
  tool({
    name: 'reply',
    title: 'Answer the latest message',
    description:
      'Answers the latest message from another agent in a session. The same answer to the same message is sent only once.',
    effect: 'adds',
    isIdempotent: true,
    input: REPLY_INPUT,
    output: SentOutput,
    scopes: [...READS, ...WRITES],
    run: reply,
  }),
  tool({
    name: 'read',
    title: 'Read events',
    description:
      'Reads events (messages, invitations, joins, ends) of one session after a cursor, or of the next session with events that this agent has not received. ' +
      'Returns them with next_cursor: pass it as after to the next read, which also confirms that they have arrived; has_more says that there are more now. Long messages are truncated and say how to get the rest. With wait_s it waits for new events.',
    effect: 'reads',
    input: READ_INPUT,
    output: EventPage,
    scopes: READS,
    run: read,
  }),
  tool({
    name: 'inbox',
    title: 'List unread sessions',
    description:
      'Lists the sessions with something new from others, and who caused it. read then returns the events. With wait_s it waits for new events.',
    effect: 'reads',
    input: z.strictObject({ wait_s: WaitForNews }),
    output: InboxOutput,
    scopes: READS,
    run: (service, caller, { wait_s: waitS = 0 }) =>
      listUnread(service, caller, { limit: INBOX_SESSIONS_MAX, waitMs: waitS * 1000 }),
  }),
  tool({
    ...TOOL.session_list,
    output: ListSessionsReply,
    scopes: READS,
    run: ({ context }, { actor }, query) => readCounted(context, actor, { operation: 'listSessions', path: {}, query }),
  }),
  tool({
    ...TOOL.session_show,
    output: Session,
    scopes: READS,
    run: ({ context }, { actor }, path) => readCounted(context, actor, { operation: 'getSession', path, query: {} }),
  }),
  tool({
    ...TOOL.session_create,
    input: z.extend(TOOL.session_create.input, TOOL_KEYS),
    output: SentOutput,
    scopes: WRITES,
    run: async (service, caller, { invite: invited = [], topic, message, ...keys }) => {
      const invite = invited.map(toHandle);
      const body = {
        invite,
        ...(topic !== undefined && { topic }),
        ...(message !== undefined && { initial_message: { content: message } }),
      };
      const write = { operation: 'createSession', path: {}, body, key: toKey(service, keys).key } as const;
      const created = await writeCounted(limitModel(service.context, caller.actor), caller.actor, write);
      const omitted = await findOmitted(service, caller, created.session_id, invite);
      return { ...created, ...(omitted.length > 0 && { omitted }) };
    },
  }),
  tool({
    ...TOOL.session_invite,
    input: z.extend(TOOL.session_invite.input, TOOL_KEYS),
    output: z.looseObject({ invited: z.array(z.string()), omitted: z.array(z.string()) }),
    scopes: WRITES,
    run: async (service, { actor }, { session_id, invite, ...keys }) => {
      const asked = invite.map(toHandle);
      const { key } = toKey(service, keys);
      const write = { operation: 'inviteToSession', path: { session_id }, body: { invite: asked }, key } as const;
      const { invited } = await writeCounted(service.context, actor, write);
      return { invited, omitted: asked.filter((handle) => !invited.includes(handle)) };
    },
  }),
  changing(TOOL.session_join, 'joinSession'),
  changing(TOOL.session_leave, 'leaveSession'),
  changing(TOOL.session_end, 'endSession'),
  tool({
    ...TOOL.session_reopen,
    input: z.extend(TOOL.session_reopen.input, TOOL_KEYS),
    output: Ok,
    scopes: WRITES,
    run: (service, { actor }, { session_id, invite, message, ...keys }) => {
      const body = {
        ...(invite !== undefined && { invite: invite.map(toHandle) }),
        ...(message !== undefined && { initial_message: { content: message } }),
      };
      const { key } = toKey(service, keys);
      const context = limitModel(service.context, actor);
      return writeCounted(context, actor, { operation: 'reopenSession', path: { session_id }, body, key });
    },
  }),
  tool({
    ...TOOL.whoami,
    output: z.looseObject({ handle: z.string(), service: z.string(), scopes: z.array(z.string()) }),
    scopes: [],
    run: async ({ context }, { actor }) => ({
      handle: actor.handle,
      service: context.settings.addresses.webUrl,
      scopes: actor.scopes,
    }),
  }),
  tool({
    ...TOOL.agent_search,
    output: SearchAgentsReply,
    scopes: FINDS,
    run: ({ context }, { actor }, { query: q, limit, cursor }) =>
      readCounted(context, actor, { operation: 'searchAgents', path: {}, query: { q, limit, cursor } }),
  }),
  tool({
    ...TOOL.agent_show,
    output: AgentView,
    scopes: FINDS,
    run: ({ context }, { actor }, { handle }) =>
      readCounted(context, actor, { operation: 'getAgent', path: splitHandle(toHandle(handle)), query: {} }),
  }),
];

/** The tools that a token allows. */
export function listAllowedTools(scopes: readonly Scope[]): readonly ServiceTool[] {
  return SERVICE_TOOLS.filter((each) => each.scopes.every((scope) => scopes.includes(scope)));
}

/** Runs a tool. Whatever goes wrong is a result too: a model can read it. */
export async function callTool(
  service: ToolService,
  caller: Caller,
  tool: (typeof SERVICE_TOOLS)[number],
  given: Readonly<Record<string, unknown>>,
): Promise<ToolResult> {
  const { context } = service;
  try {
    requireScopes(tool.scopes, caller.actor);
    const mistake = findToolMistake(tool, given);
    if (mistake !== undefined) throw new ServiceError('VALIDATION_ERROR', mistake);
    const value = await tool.run(service, caller, tool.input.parse(given) as never);
    const senders = tool.isOwn === true ? {} : await relateSenders(context, caller.actor, value);
    return toToolResult(context.random, tool.isOwn === true, value, senders);
  } catch (error) {
    return toToolError(context.random, describeError(context, error));
  }
}

/** What a model or its host learns of an error. */
export function describeError({ log }: ServiceContext, error: unknown) {
  const { status, headers, body } = answerOfError(error, log, findScope());
  const { code, message } = ErrorEnvelope.parse(JSON.parse(body)).error;
  const isOfModels = error instanceof ServiceError && error.options.limit === 'sendAsModel';
  const retryAfter = headers.find(([header]) => header === 'retry-after')?.[1];
  return {
    code,
    message: isOfModels ? describeRefusal('max_replies_per_hour') : message,
    retryable: status === 429 || status === 503,
    ...(retryAfter !== undefined && { retry_after_s: Number(retryAfter) }),
  };
}
