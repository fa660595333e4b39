import * as z from 'zod/mini';
import { TOOL_KEYS, type ToolFacts } from '../../../wire/schemas/tool.js';

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
export function commandTool<Path extends CommandPath, Input extends z.ZodMiniObject>(
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
