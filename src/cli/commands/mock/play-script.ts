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
import { type Incoming, type Produced, type Responder, type RunRecord, replyMetadata } from '../../../agent/answer.js';
import { persist } from '../../../agent/persist.js';
import { putLast } from '../../../kit/bounded-map.js';
import { wait } from '../../../kit/clock.js';
import { durationMs } from '../../../kit/duration.js';
import { toWords } from '../../../kit/format.js';
import { isObject } from '../../../kit/parse-json.js';
import { bounded, toPattern } from '../../../kit/pattern.js';
import { stableKey } from '../../../kit/random.js';
import { findActor } from '../../../wire/event.js';
import {
  CHOICES,
  CHOICES_MAX,
  CHOICES_MIN,
  findRepeated,
  isChoice,
  textOfMessage,
  textPartsOf,
  toText,
} from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Message } from '../../../wire/schemas/message.js';
import { Content, JsonObject } from '../../../wire/schemas/requests.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { decodeText, readSource } from '../../input.js';
import { shorten } from '../../terminal/output.js';
import { parseHandle } from '../../values.js';
import { type AgentSeat, answerUntilStopped, startProgress } from '../run/run-agent.js';
import type { MockOptions } from './mock.js';

/** Messages are counted in this many sessions; the oldest ones are forgotten. */
const SESSIONS_MAX = 1_000;
const SHOWN_WIDTH = 60;

/** Answers from a script until it is stopped, and says by its exit code whether everything happened that had to. */
export async function playScript(context: Context, options: MockOptions): Promise<void> {
  const rules = await readScript(context, options.script);
  const required = rules.filter((rule) => rule.required === true);
  if (options.untilMet && required.length === 0)
    throw usageError('--until-met needs a rule to wait for.', { why: 'none has "required": true.' });
  const met = new AbortController();
  const signal = AbortSignal.any([context.signal, met.signal]);
  const uses = new Map<Rule, number>();
  const wanting = (): Rule[] => required.filter((rule) => (uses.get(rule) ?? 0) < (rule.times ?? 1));
  const endIfMet = (): void => {
    if (options.untilMet && wanting().length === 0) met.abort();
  };
  const end = await answerUntilStopped({ ...context, signal }, options, async (agent, answer) => {
    // Each test starts from now: only the lock of the agent's progress is used.
    const progress = await startProgress(context, agent, undefined, options.sinceMs);
    const actor = new Actor(context, agent, rules, uses, options.isStrict);
    await answer({
      progress,
      progressPath: undefined,
      respond: actor.respond,
      async accepts(invitation) {
        const isAccepted = await actor.accepts(invitation);
        endIfMet();
        return isAccepted;
      },
      async onRecord(record) {
        await context.output.record({ ...record, rule: actor.ruleOf(record) });
        endIfMet();
      },
    });
  });
  const missing = wanting();
  if (missing.length > 0)
    throw new CliError('ASP_NOT_AS_EXPECTED', {
      message: `${missing.length} of ${required.length} required rules of ${options.script} did not get their messages.`,
      why: `${missing.map((rule) => `'${rule.label}' was used ${uses.get(rule) ?? 0} of ${rule.times ?? 1} times`).join(', ')}.`,
      outcome: 'applied',
    });
  if (end === 'timeout' && required.length === 0)
    throw new CliError('ASP_TIMEOUT', { message: 'Timed out.', isRetryable: true });
}

/** Plays the agent. */
class Actor {
  readonly #context: Context;
  readonly #agent: AgentSeat;
  readonly #rules: readonly Rule[];
  readonly #uses: Map<Rule, number>;
  readonly #isStrict: boolean;
  readonly #counts = new Map<string, number>();
  /** The rules of messages whose records are not printed yet. */
  readonly #played = new Map<string, string>();

  constructor(context: Context, agent: AgentSeat, rules: readonly Rule[], uses: Map<Rule, number>, isStrict: boolean) {
    this.#context = context;
    this.#agent = agent;
    this.#rules = rules;
    this.#uses = uses;
    this.#isStrict = isStrict;
  }

  readonly respond: Responder['respond'] = async (event, signal, { onTaken }) => {
    onTaken();
    const said = happeningOf(event.payload, this.#count(event.session_id));
    const rule = await this.#use(said);
    if (rule === undefined) {
      await this.#reportUnmatched(event);
      return { ...NOTHING, text: '' };
    }
    this.#played.set(event.event_id, rule.label);
    return rule.on === 'invitation' ? { ...NOTHING, text: '' } : this.#perform(event, rule.do, signal);
  };

  async accepts(event: EventEnvelope): Promise<boolean> {
    const { session_id: id, payload } = event;
    const rule = await this.#use({ from: findActor(event) ?? '', text: String(payload['topic'] ?? ''), nth: 0 });
    const what = rule?.on === 'invitation' ? rule.do : 'join';
    if (what === 'leave') {
      await this.#settle(id, 'joinSession');
      await this.#settle(id, 'leaveSession');
    }
    if (what !== 'join')
      await this.#context.output.note(`${id}: the invitation was answered with ${what} (${rule?.label}).`);
    return what === 'join';
  }

  ruleOf({ event_id: id }: RunRecord): string | null {
    const label = this.#played.get(id);
    this.#played.delete(id);
    return label ?? null;
  }

  #count(sessionId: string): number {
    const count = (this.#counts.get(sessionId) ?? 0) + 1;
    putLast(this.#counts, sessionId, count, SESSIONS_MAX);
    return count;
  }

  /** The first rule that fits and is not used up. */
  async #use(happening: Happening): Promise<Rule | undefined> {
    for (const rule of this.#rules) {
      const uses = this.#uses.get(rule) ?? 0;
      if (rule.times !== undefined && uses >= rule.times) continue;
      const isFit = fits(rule, happening);
      if (isFit === 'too slow')
        await this.#context.output.note(`${rule.label}: its pattern took longer than a second; it does not match.`);
      if (isFit !== true) continue;
      this.#uses.set(rule, uses + 1);
      return rule;
    }
    return undefined;
  }

  async #reportUnmatched({ event_id: id, payload }: Incoming): Promise<void> {
    const message = `${id}: no rule fits this message of ${payload.sender}: ${shorten(textOfMessage(payload).replaceAll('\n', ' '), SHOWN_WIDTH)}`;
    if (this.#isStrict)
      throw new CliError('ASP_NOT_AS_EXPECTED', { message, why: '--strict is set.', outcome: 'applied' });
    await this.#context.output.note(message);
  }

  /** The last message is the reply, which the engine sends. */
  async #perform(event: Incoming, actions: readonly Action[], signal: AbortSignal): Promise<Produced> {
    const play = async (part: readonly Action[]): Promise<void> => {
      for (const action of part) await this.#act(event, action, actions.indexOf(action), signal);
    };
    if (actions.at(-1) === 'fail') {
      await play(actions.slice(0, -1));
      return { kind: 'failed', exitCode: null, tries: 1, why: 'the script says so' };
    }
    const at = actions.findLastIndex((action) => spokenBy(action) !== undefined);
    await play(actions.slice(0, Math.max(0, at)));
    const spoken = spokenBy(actions[at]);
    const after = (): Promise<void> => play(actions.slice(at + 1));
    if (spoken === undefined) return { ...NOTHING, text: '', after };
    const { content, metadata } = spoken;
    const text = toText(content);
    return { ...NOTHING, text, content, metadata, after };
  }

  async #act(event: Incoming, action: Action, at: number, signal: AbortSignal): Promise<void> {
    const { session_id: id } = event;
    if (action === 'end') return this.#settle(id, 'endSession');
    if (action === 'leave') return this.#settle(id, 'leaveSession');
    if (action === 'fail') return;
    if (action.delay !== undefined) return wait(this.#context.clock, action.delay, signal);
    const spoken = spokenBy(action);
    if (spoken === undefined) return;
    const { client, me } = this.#agent;
    const path = { session_id: id };
    const body = { content: spoken.content, metadata: { ...spoken.metadata, ...replyMetadata(event.payload) } };
    const idempotencyKey = stableKey(me, `POST /sessions/${id}/messages`, `mock:${event.event_id}:${at}`);
    const send = () => client.call('sendMessage', { path, body, idempotencyKey, signal });
    await this.#report(id, 'a message', await persist(this.#context, signal, send));
  }

  /** A change of the session, which someone else may have made impossible in the meantime. */
  async #settle(id: string, operation: 'joinSession' | 'leaveSession' | 'endSession'): Promise<void> {
    const { client, hard } = this.#agent;
    const { signal } = hard;
    const call = () => client.call(operation, { path: { session_id: id }, signal });
    await this.#report(id, operation.replace('Session', ''), await persist(this.#context, signal, call));
  }

  async #report(id: string, what: string, settled: Awaited<ReturnType<typeof persist>>): Promise<void> {
    if (settled.kind === 'refused')
      await this.#context.output.note(`${id}: ${what} was refused: ${settled.error.code}`);
  }
}

const NOTHING = { kind: 'printed', exitCode: null, tries: 1 } as const;

/** The message of an action, if it is one. */
function spokenBy(action: Action | undefined): { content: Content; metadata: JsonObject } | undefined {
  if (typeof action !== 'object') return undefined;
  const { reply, ask, choices = [], metadata = {} } = action;
  if (reply !== undefined) return { content: reply, metadata };
  return ask === undefined ? undefined : { content: ask, metadata: { ...metadata, [CHOICES]: choices } };
}

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
          'must not have metadata with delay',
        ),
      ),
  ],
  'must be "end", "leave", "fail", or an object with reply, ask or delay',
);

type Action = z.infer<typeof Action>;

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
type Rule = (z.infer<typeof MessageRule> | z.infer<typeof InvitationRule>) & {
  /** Its name; without one, its place. */
  readonly label: string;
};

/**
 * The rules of a script: JSON, in which comments and trailing commas are allowed.
 * @throws CliError `ASP_USAGE`, which names the line and the field
 */
async function readScript(context: Context, path: string): Promise<readonly Rule[]> {
  const name = path === '-' ? 'standard input' : path;
  const source = decodeText(await readSource(context, path, SCRIPT_MAX_BYTES), name).replace(/^\ufeff/, ' ');
  const errors: ParseError[] = [];
  const tree = parseTree(source, errors, { allowTrailingComma: true });
  const [broken] = errors;
  if (broken !== undefined || tree === undefined) {
    const what =
      broken === undefined || source.trim() === '' ? 'it is empty' : toWords(printParseErrorCode(broken.error));
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
interface Happening {
  readonly from: string;
  /** Its text, or the topic of an invitation. */
  readonly text: string;
  /** Undefined: it is an invitation. */
  readonly message?: Message;
  /** Which message of its session it is for this mock. */
  readonly nth: number;
}

/** `too slow`: the pattern took too long for this text. */
function fits(rule: Rule, { from: sender, text: said, message, nth }: Happening): boolean | 'too slow' {
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

/** A message, as rules see it. */
const happeningOf = (message: Message, nth: number): Happening => ({
  from: message.sender,
  text: textPartsOf(message),
  message,
  nth,
});
