import * as z from 'zod/mini';

import type { Command, OptionInput } from '../../command.js';
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
export interface CallRules {
  readonly once?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** The maximum duration of the call. */
  readonly deadlineMs?: number | undefined;
}

/** One tool: a command of the program, called with named members instead of arguments. */
export interface ToolDefinition {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: z.ZodMiniObject;
  readonly output: z.ZodMiniType;
  /** Whether it changes nothing anywhere, whether a change destroys data, and whether a repetition changes more. */
  readonly effect: 'reads' | 'adds' | 'destroys';
  readonly isIdempotent: boolean;
  /** Whether its answers contain no text from other agents. */
  readonly isOwn?: boolean;
  /** Advice for each error code, in terms of tools. */
  readonly hints?: Readonly<Record<string, string>>;
  /** The command that implements it; undefined: the server itself. */
  readonly command: CommandPath | undefined;
  /** Its arguments, from an input that fits `input`. */
  readonly args: (input: Readonly<Record<string, unknown>>) => ToolArgs | Promise<ToolArgs>;
  readonly rules: (input: Readonly<Record<string, unknown>>) => CallRules;
}

interface CommandTool<Path extends CommandPath, Input extends z.ZodMiniObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly command: Path;
  readonly input: Input;
  readonly effect: ToolDefinition['effect'];
  readonly isIdempotent?: boolean;
  readonly isOwn?: boolean;
  readonly hints?: Readonly<Record<string, string>>;
  readonly args: (input: z.infer<Input>) => ToolArgs<CommandAt<Path>> | Promise<ToolArgs<CommandAt<Path>>>;
  readonly rules?: (input: z.infer<Input>) => CallRules;
}

/** For a write: the argument that makes a repetition harmless. */
const KEYS = {
  once: z.optional(
    z
      .string()
      .check(z.minLength(1), z.describe('do this once: with the same name and arguments, it is done only one time')),
  ),
  idempotency_key: z.optional(
    z
      .string()
      .check(z.regex(/^[\x20-\x7e]{1,255}$/), z.describe('repeat a call whose outcome is unknown with its key')),
  ),
};

const keyRules = (input: Readonly<Record<string, unknown>>): CallRules => {
  const { once, idempotency_key: key } = input;
  return {
    once: typeof once === 'string' ? once : undefined,
    idempotencyKey: typeof key === 'string' && once === undefined ? key : undefined,
  };
};

/** A tool that a command implements. */
export function commandTool<Path extends CommandPath, Input extends z.ZodMiniObject>(
  tool: CommandTool<Path, Input>,
): ToolDefinition {
  const { args, rules } = tool;
  const isRead = tool.effect === 'reads';
  const input = isRead ? tool.input : z.extend(tool.input, KEYS);
  return {
    ...tool,
    input,
    isIdempotent: tool.isIdempotent ?? isRead,
    output: COMMAND_OUTPUT[tool.command],
    args: (received) => args(received as z.infer<Input>),
    rules: (given) => ({ ...keyRules(given), ...rules?.(given as z.infer<Input>) }),
  };
}
