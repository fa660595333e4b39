import * as z from 'zod/mini';
import { RequestError } from '../../../client/client.js';
import { fence } from '../../../kit/fence.js';
import { messageOf } from '../../../kit/format.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import { findChoice, isChoice, isHiding, QUESTION_SHOWN_LENGTH } from '../../../wire/message.js';
import type { Relation } from '../../../wire/relation.js';
import type { Context } from '../../context/context.js';
import { findErrorContext } from '../../context/explain.js';
import { askStrictly } from '../send/deliver.js';
import { toShownText } from './line-process.js';
import type { Allowed, AskRule } from './run.js';

/** The member of a question's metadata that says it is about a permission: `asp run` answers nothing in its session. */
export const PERMISSION = 'permission';

/** Questions of one turn: a message cannot make the program wear down the agent that is asked. */
const QUESTIONS_MAX = 20;
const PATHS_SHOWN_MAX = 10;
/** Our own choice, where the program offers none that refuses. */
const REFUSE = 'Refuse';
const CHOICES_OFFERED_MAX = 10;

const maybe = <Schema extends z.ZodMiniType>(schema: Schema) => z.catch(z.optional(z.nullable(schema)), undefined);
const Command = z.looseObject({ command: z.union([z.string(), z.array(z.string())]) });

/** The details of a tool call that a question shows. A detail of any other shape is ignored. */
export const ToolCall = z.looseObject({
  toolCallId: z.string(),
  kind: maybe(z.string()),
  title: maybe(z.string()),
  rawInput: maybe(Command),
  locations: maybe(z.array(z.looseObject({ path: z.string() }))),
});

export const PermissionRequest = z.looseObject({
  sessionId: z.string(),
  toolCall: ToolCall,
  options: z.array(z.looseObject({ optionId: z.string(), kind: z.string(), name: maybe(z.string()) })),
});

type Option = z.infer<typeof PermissionRequest>['options'][number];

/** A tool call, put together from all the updates that the program sent about it. */
export interface CallFacts {
  readonly kind?: string;
  readonly title?: string;
  readonly command?: string;
  readonly paths?: readonly string[];
}

/** The facts known so far, with those of an update. Long ones are cut: they are shown to no one. */
export function addFacts(known: CallFacts | undefined, call: z.infer<typeof ToolCall>): CallFacts {
  const { kind, title, rawInput, locations } = call;
  const words = rawInput?.command;
  const command = typeof words === 'string' ? words : words?.map((word) => JSON.stringify(word)).join(' ');
  return {
    ...known,
    ...(kind && { kind }),
    ...(title && { title: toShownText(title) }),
    ...(command !== undefined && { command: command.slice(0, QUESTION_SHOWN_LENGTH + 1) }),
    ...(locations && {
      paths: locations.slice(0, PATHS_SHOWN_MAX + 1).map(({ path }) => path.slice(0, QUESTION_SHOWN_LENGTH + 1)),
    }),
  };
}

/** The turn that asks for a permission. */
export interface AskingTurn {
  readonly eventId: string;
  readonly sessionId: string;
  readonly sender: string;
  /** Of the message's sender; it decides what the turn may do. */
  readonly relation: Relation;
  readonly calls: Map<string, CallFacts>;
  /** Aborts with the turn. */
  readonly signal: AbortSignal;
  /** The clock of the turn stops while another agent is asked. */
  readonly limit: { pause(): void; resume(): void };
  allowed: number;
  refused: number;
  asked: number;
}

export interface PermissionParts {
  readonly context: Context;
  readonly me: string;
  readonly rules: { readonly allow: Allowed; readonly ask: AskRule | undefined };
  readonly questions: Questions;
}

/** The sessions of questions: what others write there is not answered by a turn. */
export interface Questions {
  /** Those that an earlier run left open. */
  readonly left: readonly string[];
  has(sessionId: string): boolean;
  begin(sessionId: string): Promise<void>;
  end(sessionId: string): Promise<void>;
}

/**
 * The answer to a permission request: the kinds that the operator named for this sender are granted, once each; `--ask`
 * decides about the others. No message has a say in it.
 */
export async function answerRequest(
  parts: PermissionParts,
  turn: AskingTurn | undefined,
  { toolCall, options }: z.infer<typeof PermissionRequest>,
): Promise<object> {
  const { context, rules } = parts;
  const { output } = context;
  const facts = addFacts(turn?.calls.get(toolCall.toolCallId), toolCall);
  const find = (wanted: string) => options.find(({ kind }) => kind === wanted);
  const what = `${toShownText(facts.kind ?? 'of no kind')}: ${facts.title ?? toShownText(toolCall.toolCallId)}`;
  const prefix = `${turn?.eventId ?? 'outside a turn'}: the agent asked for permission (${what}).`;
  const select = ({ optionId }: Option) => ({ outcome: { outcome: 'selected', optionId } });
  const canceled = { outcome: { outcome: 'cancelled' } };
  const isNamed = turn !== undefined && facts.kind !== undefined && rules.allow.get(turn.relation)?.has(facts.kind);
  const granted = isNamed === true ? find('allow_once') : undefined;
  if (granted !== undefined && turn !== undefined) {
    turn.allowed += 1;
    await output.detail(`${prefix} --allow granted it for this sender (${turn.relation}).`);
    return select(granted);
  }
  const refusal = find('reject_once') ?? find('reject_always');
  const decision = turn === undefined ? NOT_ASKED : await askAbout(parts, turn, facts, options);
  if (turn?.signal.aborted === true) return canceled;
  const isGranted = decision.option?.kind === 'allow_once';
  if (turn !== undefined) turn[isGranted ? 'allowed' : 'refused'] += 1;
  await output.note(`${prefix} ${isGranted ? 'It was granted' : 'It was refused'}${decision.why}.`);
  const chosen = decision.option ?? refusal;
  return chosen === undefined ? canceled : select(chosen);
}

/** The option that was chosen, if one was, and the reason for a note. */
interface Decision {
  readonly option?: Option | undefined;
  readonly why: string;
}

const NOT_ASKED: Decision = { why: '' };

async function askAbout(
  { context, me, rules, questions }: PermissionParts,
  turn: AskingTurn,
  facts: CallFacts,
  options: readonly Option[],
): Promise<Decision> {
  const { ask } = rules;
  if (ask === undefined) return NOT_ASKED;
  const { handle, waitMs } = ask;
  const offered = toOffers(options);
  if (offered === undefined) return { why: `; ${handle} was not asked: no option that allows it once can be shown` };
  const text = describeRequest(context, { me, turn, facts, offered, untilMs: context.clock.now() + waitMs });
  const hidden = findHidden(facts, text);
  if (hidden !== undefined) return { why: `; ${handle} was not asked: ${hidden}` };
  if (turn.asked >= QUESTIONS_MAX)
    return { why: `; ${handle} was not asked more than ${QUESTIONS_MAX} times in a turn` };
  turn.asked += 1;
  turn.limit.pause();
  let sessionId: string | undefined;
  try {
    await context.output.detail(`${turn.eventId}: asking ${handle} for permission.`);
    const choice = await askStrictly(
      { ...context, signal: turn.signal },
      {
        handle,
        waitMs,
        topic: `Permission for ${me}`,
        text,
        choices: offered.map(({ choice }) => choice),
        metadata: { [PERMISSION]: turn.eventId },
        async onSent(id) {
          sessionId = id;
          await questions.begin(id);
        },
      },
    );
    const made = offered.find((one) => one.choice === choice);
    return { option: made?.option, why: made === undefined ? `: ${handle} could not answer` : ` by ${handle}` };
  } catch (error) {
    const { messages = {} } = findErrorContext(error) ?? {};
    const message = messageOf(error);
    const why = error instanceof RequestError ? (messages[error.code] ?? message) : message;
    return { why: `; ${handle} did not answer: ${toShownText(why).replace(/\.$/, '')}` };
  } finally {
    turn.limit.resume();
    if (sessionId !== undefined) await questions.end(sessionId);
  }
}

interface Offer {
  readonly choice: string;
  /** Undefined: our own choice that refuses. */
  readonly option: Option | undefined;
}

/**
 * The options for this one time, by the program's names for them. What a program remembers would hold for messages of
 * others too. A name that hides something, is too long or stands for two options is not offered. Undefined: nothing could be granted.
 */
function toOffers(options: readonly Option[]): readonly Offer[] | undefined {
  const named = options.flatMap((option): Offer[] => {
    const { kind, name } = option;
    return (kind === 'allow_once' || kind === 'reject_once') && isChoice(name) ? [{ choice: name, option }] : [];
  });
  const isAlone = ({ choice }: Offer): boolean =>
    named.filter((other) => findChoice([other.choice], choice) !== undefined).length === 1;
  const clear = named.filter(isAlone).slice(0, CHOICES_OFFERED_MAX - 1);
  const refusing = clear.some(({ option }) => option?.kind === 'reject_once')
    ? []
    : [{ choice: REFUSE, option: undefined }];
  const granting = clear.filter(({ choice }) => refusing.length === 0 || findChoice([REFUSE], choice) === undefined);
  return granting.some(({ option }) => option?.kind === 'allow_once') ? [...granting, ...refusing] : undefined;
}

/** Why a person would not see all of what is done, if that is so. */
function findHidden({ command = '', paths = [] }: CallFacts, text: string): string | undefined {
  if (text.length > QUESTION_SHOWN_LENGTH) return 'the request is too long to be shown whole';
  const isHidden = [command.replace(/[\n\t]/g, ' '), ...paths].some(isHiding);
  return isHidden ? 'the request has characters that are not shown' : undefined;
}

interface Described {
  readonly me: string;
  readonly turn: AskingTurn;
  readonly facts: CallFacts;
  readonly offered: readonly Offer[];
  readonly untilMs: number;
}

/** The question as text: our own words first, so that no text of the program pushes them out of sight. */
function describeRequest({ random }: Context, { me, turn, facts, offered, untilMs }: Described): string {
  const effects = offered.map(
    ({ choice, option }) =>
      `${JSON.stringify(choice)} ${option?.kind === 'allow_once' ? 'allows it this one time' : 'refuses it'}`,
  );
  const { command, paths = [], title = '' } = facts;
  const shown = paths.slice(0, PATHS_SHOWN_MAX);
  const lines = [
    ...(command === undefined ? [] : [`command: ${command}`]),
    ...shown.map((path) => `path: ${path}`),
    ...(paths.length > PATHS_SHOWN_MAX ? ['and more paths, which are not shown'] : []),
    `title: ${title}`,
  ];
  const until = new Date(untilMs).toISOString().replace(/\.\d+/, '');
  return [
    `${me} asks for permission (${toShownText(facts.kind ?? 'of no kind')}). ${effects.join('; ')}. Without an answer by ${until}, it is refused.`,
    `It is about a message from ${sanitizeLine(turn.sender)} (${turn.relation}) in ${sanitizeLine(turn.sessionId)}.`,
    fence(random, 'data', ', written by the agent program', lines.join('\n')),
  ].join('\n');
}
