import { isDeepStrictEqual } from 'node:util';
import {
  findNodeAtLocation,
  getNodeValue,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser';
import * as z from 'zod/mini';
import { durationMs } from '../../../kit/duration.js';
import { bounded, toPattern } from '../../../kit/pattern.js';
import { CHOICES_MAX, CHOICES_MIN, findRepeated, isChoice, textPartsOf } from '../../../wire/message.js';
import type { Message } from '../../../wire/schemas/message.js';
import { Content, JsonObject } from '../../../wire/schemas/requests.js';
import type { Context } from '../../context/context.js';
import { usageError } from '../../errors.js';
import { decodeText, readSource } from '../../input.js';
import { parseHandle } from '../../values.js';

const SCRIPT_MAX_BYTES = 1024 * 1024;
const RULES_MAX = 1_000;

const text = z.string('must be text').check(z.minLength(1, 'must not be empty'));
const handle = z.pipe(
  z
    .string('must be a handle, such as @alice.bot')
    .check(z.refine((name) => parseHandle(name) !== undefined, 'must be a handle, such as @alice.bot')),
  z.transform((name) => parseHandle(name) ?? name),
);
const from = z.union([handle, z.array(handle)], 'must be a handle, or a list of handles');

const pattern = z.pipe(
  text.check(z.refine((source) => toPattern(source) !== undefined, 'is not a regular expression')),
  z.transform((source) => toPattern(source) ?? /(?!)/),
);

const duration = z.pipe(
  z
    .string('must be a duration, such as "200ms"')
    .check(z.refine((given) => durationMs(given) !== undefined, 'must be a duration, such as "200ms"')),
  z.transform((given) => durationMs(given) ?? 0),
);

const choices = z
  .array(z.string('must be text').check(z.refine(isChoice, 'is not a choice of 1 to 80 visible characters')))
  .check(
    z.minLength(CHOICES_MIN, `must be ${CHOICES_MIN} to ${CHOICES_MAX} choices`),
    z.maxLength(CHOICES_MAX, `must be ${CHOICES_MIN} to ${CHOICES_MAX} choices`),
    z.refine((list) => findRepeated(list) === undefined, 'must not repeat a choice'),
  );

/** What a rule does, one after the other. */
const Action = z.union(
  [
    z.enum(['end', 'leave', 'fail']),
    z
      .strictObject({
        reply: z.optional(Content),
        metadata: z.optional(JsonObject),
        ask: z.optional(text),
        choices: z.optional(choices),
        delay: z.optional(duration),
      })
      .check(
        z.refine(
          ({ reply, ask, delay }) => [reply, ask, delay].filter((each) => each !== undefined).length === 1,
          'must have exactly one of reply, ask and delay',
        ),
        z.refine(
          ({ ask, choices: list }) => (ask === undefined) === (list === undefined),
          'must have ask and choices together',
        ),
        z.refine(
          ({ delay, metadata }) => delay === undefined || metadata === undefined,
          'must have no metadata beside delay',
        ),
      ),
  ],
  'must be "end", "leave", "fail", or an object with reply, ask or delay',
);

export type Action = z.infer<typeof Action>;

const isLast = (action: Action): boolean => typeof action === 'string';

const USE = {
  name: z.optional(text),
  required: z.optional(z.boolean('must be true or false')),
  times: z.optional(z.int('must be a whole number').check(z.gte(1, 'must be at least 1'))),
};

const MessageRule = z.strictObject({
  ...USE,
  on: z.optional(z.literal('message')),
  when: z.optional(
    z.strictObject({
      from: z.optional(from),
      contains: z.optional(text),
      matches: z.optional(pattern),
      data: z.optional(JsonObject),
      nth: z.optional(z.int('must be a whole number').check(z.gte(1, 'must be at least 1'))),
    }),
  ),
  do: z
    .array(Action, 'must be a list of actions')
    .check(z.refine((actions) => !actions.slice(0, -1).some(isLast), 'must have "end", "leave" and "fail" last')),
});

const InvitationRule = z.strictObject({
  ...USE,
  on: z.literal('invitation', 'must be "message" or "invitation"'),
  when: z.optional(z.strictObject({ from: z.optional(from), contains: z.optional(text) })),
  do: z.enum(['join', 'leave', 'ignore'], 'must be "join", "leave" or "ignore"'),
});

const Script = z.strictObject(
  {
    rules: z
      .array(z.looseObject({}, 'must be an object'), 'must be a list of rules')
      .check(z.minLength(1, 'must not be empty'), z.maxLength(RULES_MAX, `must be at most ${RULES_MAX} rules`)),
  },
  'must be an object with rules',
);

/** A rule of the script. */
export type Rule = (z.infer<typeof MessageRule> | z.infer<typeof InvitationRule>) & {
  /** Its name; without one, its place. */
  readonly label: string;
};

/**
 * The rules of a script: JSON, in which comments and trailing commas are allowed.
 * @throws CliError `ASP_USAGE`, which names the line and the field
 */
export async function readScript(context: Context, path: string): Promise<readonly Rule[]> {
  const name = path === '-' ? 'standard input' : path;
  const source = decodeText(await readSource(context, path, SCRIPT_MAX_BYTES), name).replace(/^\ufeff/, ' ');
  const errors: ParseError[] = [];
  const tree = parseTree(source, errors, { allowTrailingComma: true });
  const [broken] = errors;
  if (broken !== undefined || tree === undefined) {
    const what =
      broken === undefined || source.trim() === '' ? 'there is nothing in it' : printParseErrorCode(broken.error);
    throw usageError(`${name}:${lineAt(source, broken?.offset ?? 0)} cannot be parsed as JSON: ${what}.`);
  }
  const check = <Schema extends z.ZodMiniType>(schema: Schema, value: unknown, at: Path): z.infer<Schema> => {
    const { success, data, error } = schema.safeParse(value);
    if (success) return data;
    throw mistake(name, source, tree, at, error.issues[0]);
  };
  const { rules } = check(Script, getNodeValue(tree), []);
  return rules.map((rule, index) => {
    const schema = rule['on'] === undefined || rule['on'] === 'message' ? MessageRule : InvitationRule;
    const checked: z.infer<typeof MessageRule> | z.infer<typeof InvitationRule> = check(schema, rule, ['rules', index]);
    return { ...checked, label: checked.name ?? `rules[${index}]` };
  });
}

type Path = readonly PropertyKey[];

function mistake(name: string, source: string, tree: Node, at: Path, found: z.core.$ZodIssue | undefined) {
  const issue = deepest(found);
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  const path = [...at, ...(issue?.path ?? []), ...unknown] as (string | number)[];
  const field = path.reduce<string>(
    (before, step) => (typeof step === 'number' ? `${before}[${step}]` : `${before}${before === '' ? '' : '.'}${step}`),
    '',
  );
  let node = findNodeAtLocation(tree, path);
  const isMissing = node === undefined;
  for (let left = path; node === undefined; left = left.slice(0, -1))
    node = findNodeAtLocation(tree, left.slice(0, -1));
  // Messages of the schemas here; the library's own depend on what else the process has loaded.
  const said = /^(must|is|has) /.test(issue?.message ?? '') ? issue?.message : 'is not valid';
  const what = unknown.length > 0 ? 'is not a known field' : isMissing ? 'is missing' : said;
  return usageError(`${name}:${lineAt(source, node.offset)}: ${field === '' ? 'the script' : field} ${what}.`, {
    next: ['asp', 'mock', '--help'],
  });
}

/** The issue of the alternative that fits best: the one that got furthest. */
function deepest(issue: z.core.$ZodIssue | undefined): z.core.$ZodIssue | undefined {
  if (issue?.code !== 'invalid_union') return issue;
  const [best] = issue.errors
    .flatMap(([first]) => deepest(first) ?? [])
    .filter(({ code, path }) => path.length > 0 || !['invalid_type', 'invalid_value'].includes(code))
    .sort((one, other) => other.path.length - one.path.length);
  return best === undefined ? issue : { ...best, path: [...issue.path, ...best.path] };
}

const lineAt = (source: string, offset: number): number => source.slice(0, offset).split('\n').length;

/** What a rule is held against. */
export interface Happening {
  readonly from: string;
  /** Its text, or the topic of an invitation. */
  readonly text: string;
  /** Undefined: it is an invitation. */
  readonly message?: Message;
  /** Which message of its session it is for this mock. */
  readonly nth: number;
}

/** `too slow`: the pattern took too long for this text. */
export function fits(rule: Rule, { from: sender, text: said, message, nth }: Happening): boolean | 'too slow' {
  if ((rule.on === 'invitation') !== (message === undefined)) return false;
  const { when } = rule;
  if (when === undefined) return true;
  if (when.from !== undefined && ![when.from].flat().includes(sender)) return false;
  if (when.contains !== undefined && !said.includes(when.contains)) return false;
  if (message === undefined || rule.on === 'invitation') return true;
  const { data, matches, nth: wanted } = rule.when ?? {};
  if (wanted !== undefined && wanted !== nth) return false;
  if (data !== undefined && !hasData(message, data)) return false;
  return matches === undefined || (bounded(() => matches.test(said)) ?? 'too slow');
}

/** Whether a data part has these members, whatever else is in it. */
function hasData({ content }: Message, wanted: JsonObject): boolean {
  return typeof content !== 'string' && content.some((part) => part.type === 'data' && includes(part['data'], wanted));
}

function includes(found: unknown, wanted: unknown): boolean {
  if (!isObject(wanted)) return isDeepStrictEqual(found, wanted);
  return (
    isObject(found) &&
    Object.entries(wanted).every(([name, value]) => Object.hasOwn(found, name) && includes(found[name], value))
  );
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A message, as rules see it. */
export const happeningOf = (message: Message, nth: number): Happening => ({
  from: message.sender,
  text: textPartsOf(message),
  message,
  nth,
});
