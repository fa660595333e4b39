import * as z from 'zod/mini';
import { IN_REPLY_TO } from '../../../wire/message.js';
import {
  about,
  EventPage,
  READ_MEMBERS,
  SEND_TARGET,
  TOOL,
  TOOL_INPUT,
  TOOL_KEYS,
  type ToolFacts,
} from '../../../wire/schemas/tool.js';
import type { Command, OptionInput } from '../../command.js';
import { usageError } from '../../errors.js';
import type { agentSearch, agentShow } from '../agent.js';
import type { attachmentDownload, attachmentList, attachmentUpload } from '../attachment/attachment.js';
import type { authWhoami } from '../auth/auth.js';
import { COMMAND_OUTPUT } from '../schema/output-shapes.js';
import type { messageSend } from '../send/send.js';
import type {
  sessionCreate,
  sessionEnd,
  sessionInvite,
  sessionJoin,
  sessionLeave,
  sessionList,
  sessionReopen,
  sessionShow,
  sessionWait,
} from '../session/session.js';
import { parseSession } from './send-limits.js';
import type { SharedFolder } from './toolbox.js';

/** The commands that tools run. */
type ToolCommand =
  | (typeof messageSend | typeof authWhoami | typeof agentSearch | typeof agentShow)
  | (typeof attachmentDownload | typeof attachmentList | typeof attachmentUpload)
  | (typeof sessionCreate | typeof sessionEnd | typeof sessionInvite | typeof sessionJoin | typeof sessionLeave)
  | (typeof sessionList | typeof sessionReopen | typeof sessionShow | typeof sessionWait);
type CommandPath = ToolCommand['path'];
type CommandAt<Path extends CommandPath> = Extract<ToolCommand, { readonly path: Path }>;

/** The input that a tool call passes to its command: a caller's text is never parsed as an option. */
export interface ToolArgs<Each extends Command = Command> {
  readonly positional?: readonly string[];
  readonly options?: OptionInput<Each['options'][number]>;
}

/** Options of a call itself, in addition to those of its command. */
interface CallRules {
  readonly once?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** The maximum duration of the call. */
  readonly deadlineMs?: number | undefined;
}

/** One tool: a command of the program, called with named members instead of arguments. */
export interface ToolDefinition extends ToolFacts {
  readonly output: z.ZodMiniType;
  /** Advice for each error code, in terms of tools. */
  readonly hints?: Readonly<Record<string, string>>;
  /** The command that implements it; undefined: the server itself. */
  readonly command: CommandPath | undefined;
  /** Its arguments, from an input that fits `input`. */
  readonly args: (input: Readonly<Record<string, unknown>>) => ToolArgs | Promise<ToolArgs>;
  readonly rules: (input: Readonly<Record<string, unknown>>) => CallRules;
}

interface CommandTool<Path extends CommandPath, Input extends z.ZodMiniObject> extends ToolFacts {
  readonly command: Path;
  readonly input: Input;
  readonly hints?: Readonly<Record<string, string>>;
  readonly args: (input: z.infer<Input>) => ToolArgs<CommandAt<Path>> | Promise<ToolArgs<CommandAt<Path>>>;
  readonly rules?: (input: z.infer<Input>) => CallRules;
}

const keyRules = (input: Readonly<Record<string, unknown>>): CallRules => {
  const { once, idempotency_key: key } = input;
  return {
    once: typeof once === 'string' ? once : undefined,
    idempotencyKey: typeof key === 'string' && once === undefined ? key : undefined,
  };
};

/** A tool that a command implements. */
function commandTool<Path extends CommandPath, Input extends z.ZodMiniObject>(
  tool: CommandTool<Path, Input>,
): ToolDefinition {
  const { args, rules } = tool;
  const isRead = tool.effect === 'reads';
  const input = isRead ? tool.input : z.extend(tool.input, TOOL_KEYS);
  return {
    ...tool,
    input,
    output: COMMAND_OUTPUT[tool.command],
    args: (received) => args(received as z.infer<Input>),
    rules: (given) => ({ ...keyRules(given), ...rules?.(given as z.infer<Input>) }),
  };
}

/** Clients give up on calls that take much longer. */
const WAIT_MAX_S = 300;
const WAIT_DEFAULT_S = 50;

const seconds = (text: string) => z.optional(z.number().check(z.minimum(0), z.maximum(WAIT_MAX_S), about(text)));

const CONDITIONS = 'reply, reply:<message id>, message, joined[:handle], left[:handle] or ended';
const CONDITION = /^(reply(:\S+)?|message|ended|(joined|left)(:\S+)?)$/;

const TALK: readonly ToolDefinition[] = [
  commandTool({
    name: 'send',
    title: 'Send a message',
    description:
      SEND_TARGET +
      'Returns session_id and the sequence to wait or read after. Set once (a name that you choose) for messages that must not be sent twice.',
    command: 'message send',
    effect: 'adds',
    hints: {
      ASP_FILE_TOO_LARGE: 'send less text, or upload it as a file and send its id in attachments.',
      ASP_TIMEOUT: 'the message was sent: do not send it again. The tool in next continues to wait.',
    },
    input: z.strictObject({
      to: TOOL_INPUT.target,
      text: z.optional(z.string()),
      in_reply_to: TOOL_INPUT.inReplyTo,
      data: TOOL_INPUT.data,
      attachments: z.optional(z.array(z.string()).check(z.maxLength(5), about('ids of uploaded files: att_…'))),
      topic: TOOL_INPUT.topic,
      new_session: TOOL_INPUT.newSession,
      end: TOOL_INPUT.end,
      wait_s: seconds('wait this many seconds for the reply and return it too'),
    }),
    args: ({
      to,
      text,
      in_reply_to: answered,
      data,
      attachments,
      topic: about_,
      new_session: isNew,
      end,
      wait_s: wait,
    }) => {
      if (text === undefined && data === undefined && (attachments ?? []).length === 0)
        throw usageError('There is no message.', { why: 'set text, data or attachments.' });
      if ((about_ !== undefined || isNew === true) && parseSession(to) !== undefined)
        throw usageError(`${to} already exists.`, {
          why: 'topic and new_session are only for a new session: leave them out.',
        });
      if (end === true && wait !== undefined && wait > 0)
        throw usageError('No one can reply in a session that has ended.', { why: 'leave out end or wait_s.' });
      return {
        positional: [typeof to === 'string' ? to : to.join(',')],
        options: {
          message: text,
          meta: answered === undefined ? [] : [`${IN_REPLY_TO}=${answered}`],
          data: data === undefined ? [] : [JSON.stringify(data)],
          attach: attachments ?? [],
          topic: about_,
          end: end === true,
          wait: wait !== undefined && wait > 0,
        },
      };
    },
    rules: ({ wait_s: wait }) => (wait === undefined || wait === 0 ? {} : { deadlineMs: wait * 1000 }),
  }),
  commandTool({
    name: 'wait',
    title: 'Wait in a session',
    description:
      'Waits until something happens in a session: reply (a message from another agent), message, joined, left or ended. ' +
      'reply considers answers to the last message that you sent there with send, unless you set after: the sequence of another message of yours. Error ASP_TIMEOUT if it does not happen in time.',
    command: 'session wait',
    effect: 'reads',
    hints: { ASP_TIMEOUT: 'call wait again with the same after to continue waiting.' },
    input: z.strictObject({
      session_id: TOOL_INPUT.sessionId,
      for: z.optional(z.string().check(z.regex(CONDITION, CONDITIONS), about(`${CONDITIONS}; default: reply`))),
      after: z.optional(z.int().check(z.minimum(0), about('also consider events after this sequence'))),
      timeout_s: seconds(`at most ${WAIT_MAX_S}; default ${WAIT_DEFAULT_S}`),
    }),
    args: ({ session_id: id, for: condition, after }) => ({
      positional: [id],
      options: { for: condition ?? 'reply', after },
    }),
    rules: ({ timeout_s: timeout }) => ({ deadlineMs: (timeout ?? WAIT_DEFAULT_S) * 1000 }),
  }),
];

/** Tools that the server implements itself. */
export const READ_INPUT = z.strictObject({
  session_id: z.optional(TOOL_INPUT.sessionId.check(about('this session (default: all sessions of the agent)'))),
  after: z.optional(
    z
      .string()
      .check(
        about(
          'next_cursor of an earlier read, or a sequence of the session. Without it, one session is read from its first event, and all sessions from the first unread event, including events from before these tools started',
        ),
      ),
  ),
  ...READ_MEMBERS,
  wait_s: seconds('if there is nothing yet, wait this many seconds'),
});

const READ: ToolDefinition = {
  name: 'read',
  title: 'Read events',
  description:
    'Reads events (messages, invitations, joins, ends) after a cursor, from one session or from all sessions of the agent. ' +
    'Returns them with next_cursor: pass it as after to continue while has_more is true. Long messages are truncated and say how to get the rest. With wait_s it waits for new events.',
  command: undefined,
  effect: 'reads',
  // Without after, the next call returns the next events.
  isIdempotent: false,
  input: READ_INPUT,
  output: z.extend(EventPage, { missed: z.int() }),
  args: () => ({}),
  rules: ({ wait_s: wait }) => ({ deadlineMs: (Number(wait ?? 0) + 60) * 1000 }),
};

type SessionTool =
  | typeof TOOL.session_show
  | typeof TOOL.session_join
  | typeof TOOL.session_leave
  | typeof TOOL.session_end;

/** A tool whose only argument is its session. */
const onSession = (
  facts: SessionTool,
  path: 'session show' | 'session join' | 'session leave' | 'session end',
): ToolDefinition => commandTool({ ...facts, command: path, args: ({ session_id: id }) => ({ positional: [id] }) });

const SESSIONS: readonly ToolDefinition[] = [
  commandTool({
    ...TOOL.session_list,
    command: 'session list',
    args: ({ state, limit: count, cursor: after }) => ({ options: { state, limit: count, cursor: after } }),
  }),
  onSession(TOOL.session_show, 'session show'),
  commandTool({
    ...TOOL.session_create,
    command: 'session create',
    args: ({ invite, topic: about_, message: first }) => ({
      positional: invite ?? [],
      options: { topic: about_, message: first },
    }),
  }),
  commandTool({
    ...TOOL.session_invite,
    command: 'session invite',
    args: ({ session_id: id, invite }) => ({ positional: [id, ...invite] }),
  }),
  onSession(TOOL.session_join, 'session join'),
  onSession(TOOL.session_leave, 'session leave'),
  onSession(TOOL.session_end, 'session end'),
  commandTool({
    ...TOOL.session_reopen,
    command: 'session reopen',
    args: ({ session_id: id, invite, message: first }) => ({
      positional: [id, ...(invite ?? [])],
      options: { message: first },
    }),
  }),
];

const AGENTS: readonly ToolDefinition[] = [
  commandTool({
    ...TOOL.whoami,
    command: 'auth whoami',
    args: () => ({}),
  }),
  commandTool({
    ...TOOL.agent_search,
    command: 'agent search',
    args: ({ query, limit: count, cursor: after }) => ({
      positional: [query],
      options: { limit: count, cursor: after },
    }),
  }),
  commandTool({
    ...TOOL.agent_show,
    command: 'agent show',
    args: ({ handle: name }) => ({ positional: [name] }),
  }),
];

const transferTools = (folder: SharedFolder): readonly ToolDefinition[] => [
  commandTool({
    name: 'attachment_upload',
    title: 'Upload a file',
    description:
      'Uploads a file from the shared folder; one of an unsupported type, such as source code, as plain text. Pass its id to send as an attachment within an hour.',
    command: 'attachment upload',
    effect: 'adds',
    input: z.strictObject({ path: z.string().check(about('a path in the shared folder')) }),
    args: async ({ path }) => ({ positional: [await folder.fileToSend(path)], options: { 'as-text': true } }),
  }),
  commandTool({
    name: 'attachment_download',
    title: 'Download a file',
    description: 'Saves an attachment to the shared folder. Never replaces a file.',
    command: 'attachment download',
    effect: 'adds',
    hints: {
      ASP_FILE_EXISTS: 'use a different filename: files are never replaced.',
      ASP_FILE_TOO_LARGE: 'it is larger than these tools can download; the person who runs them can.',
    },
    input: z.strictObject({
      attachment_id: z.string().check(about('att_…')),
      filename: z.optional(z.string().check(about('its name in the shared folder (default: its original name)'))),
    }),
    args: ({ attachment_id: id, filename }) => ({
      positional: [id],
      options: filename === undefined ? { dir: folder.path } : { output: folder.resolvePath(filename) },
    }),
  }),
];

const ATTACHMENT_LIST: ToolDefinition = commandTool({
  name: 'attachment_list',
  title: 'List the files of a session',
  description: 'Lists the attachments that the messages of a session refer to.',
  command: 'attachment list',
  effect: 'reads',
  input: z.strictObject({ session_id: TOOL_INPUT.sessionId }),
  args: ({ session_id: id }) => ({ positional: [id] }),
});

/** The tools of a server that may only read, or may use the files of a folder. */
export function listTools({
  isReadOnly,
  folder,
}: {
  readonly isReadOnly: boolean;
  readonly folder: SharedFolder | undefined;
}): readonly ToolDefinition[] {
  const transfers = folder === undefined ? [] : transferTools(folder);
  const tools = [...TALK, READ, ...SESSIONS, ...AGENTS, ...transfers, ATTACHMENT_LIST];
  return tools.filter(({ effect }) => !isReadOnly || effect === 'reads');
}

/** The tools with these names; without names, all. */
export function pickTools(tools: readonly ToolDefinition[], names: readonly string[]): readonly ToolDefinition[] {
  const unknown = names.find((each) => !tools.some(({ name }) => name === each));
  if (unknown !== undefined)
    throw usageError(`There is no tool '${unknown}' here.`, {
      why: `the tools are ${tools.map(({ name }) => name).join(', ')}.`,
    });
  return names.length === 0 ? tools : tools.filter(({ name }) => names.includes(name));
}

/** The seconds that a call may wait; 0 if it does not. */
export function findWait(
  name: string,
  { wait_s: wait, timeout_s: timeout }: Readonly<Record<string, unknown>>,
): number {
  const asked = name === 'wait' ? (timeout ?? WAIT_DEFAULT_S) : wait;
  return typeof asked === 'number' ? asked : 0;
}

/** A call of a tool that helps after an error. */
export interface NextCall {
  readonly tool: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** The tools for commands that people run next, and what they call the argument. */
const NEXT_TOOL: Readonly<Record<string, readonly [tool: string, argument?: string]>> = {
  'session show': ['session_show', 'session_id'],
  'session list': ['session_list'],
  'session end': ['session_end', 'session_id'],
  'session wait': ['wait', 'session_id'],
  'agent show': ['agent_show', 'handle'],
  'agent search': ['agent_search', 'query'],
};

/** The tool for the command that people would run next; undefined if there is none. */
export function toNextCall([, ...words]: readonly string[]): NextCall | undefined {
  const [noun, verb, value = ''] = words;
  const [tool, argument] = NEXT_TOOL[`${noun} ${verb}`] ?? [];
  if (tool === undefined) return undefined;
  const after = tool === 'wait' && words.includes('--after') ? Number(words[words.indexOf('--after') + 1]) : undefined;
  return { tool, arguments: { ...(argument && { [argument]: value }), ...(after !== undefined && { after }) } };
}
