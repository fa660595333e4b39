import * as z from 'zod/mini';
import type { WordValue } from '../../words/words.js';
import { COMMAND_OUTPUT } from '../schema/output-shapes.js';

/** The words of a command, as a tool call makes them: no text of a caller is ever parsed as an option. */
export interface ToolWords {
  readonly positional?: readonly string[];
  readonly options?: Readonly<Record<string, WordValue | number | undefined>>;
}

/** What a call may say about itself, beside what its command takes. */
export interface CallRules {
  readonly once?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** How long the call may take. */
  readonly deadlineMs?: number | undefined;
}

/** One tool: a command of the program, called by members instead of words. */
export interface ToolRow {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: z.ZodMiniObject;
  readonly output: z.ZodMiniType;
  /** Whether it changes nothing anywhere; what a change destroys, and whether a repetition changes more. */
  readonly effect: 'reads' | 'adds' | 'destroys';
  readonly isIdempotent: boolean;
  /** The command that does it; undefined: the server itself. */
  readonly command: keyof typeof COMMAND_OUTPUT | undefined;
  /** Its words, of arguments that fit `input`. */
  readonly words: (input: Readonly<Record<string, unknown>>) => ToolWords;
  readonly rules: (input: Readonly<Record<string, unknown>>) => CallRules;
}

interface CommandTool<Input extends z.ZodMiniObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly command: keyof typeof COMMAND_OUTPUT;
  readonly input: Input;
  readonly effect: ToolRow['effect'];
  readonly isIdempotent?: boolean;
  readonly words: (input: z.infer<Input>) => ToolWords;
  readonly rules?: (input: z.infer<Input>) => CallRules;
}

/** Says of a write what makes its repetition harmless. */
const KEYS = {
  once: z.optional(
    z.string().check(z.minLength(1), z.describe('do this once: the same name and arguments are done one time only')),
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

/** A tool that a command does. */
export function commandTool<Input extends z.ZodMiniObject>(tool: CommandTool<Input>): ToolRow {
  const { words, rules } = tool;
  const isRead = tool.effect === 'reads';
  const input = isRead ? tool.input : z.extend(tool.input, KEYS);
  return {
    ...tool,
    input,
    isIdempotent: tool.isIdempotent ?? isRead,
    output: COMMAND_OUTPUT[tool.command],
    words: (given) => words(given as z.infer<Input>),
    rules: (given) => ({ ...keyRules(given), ...rules?.(given as z.infer<Input>) }),
  };
}
