import {
  CHOICE_MAX_LENGTH,
  CHOICES_MAX,
  CHOICES_MIN,
  findChoice,
  findRepeated,
  isChoice,
} from '../../../wire/message.js';
import { type Args, type Argument, command, type GlobalOption, type Option } from '../../command.js';
import { usageError } from '../../errors.js';
import { refuseFencedJson } from '../../options.js';
import { FENCE_OPTION, readTarget, refuseSwapped, toSource } from './send.js';

const DEFAULT_WAIT_MS = 3_600_000;

const ARGUMENTS = [
  { usage: '<to>', about: 'a handle (@owner.name or owner.name), or sess_…' },
  { usage: '[message]', about: 'the question; - reads standard input' },
] as const satisfies readonly Argument[];

const OPTIONS = [
  { flags: '--choices <text>', about: 'the possible answers, separated by commas' },
  { flags: '--expect <text>', about: 'exit with 12 if the answer is different' },
  { flags: '--wait <duration>', about: 'how long to wait for the answer (default 1h)' },
  FENCE_OPTION,
  { flags: '--topic <text>', about: 'topic of the new session' },
  { flags: '-F, --message-file <path|->', about: 'read the question from this file' },
] as const satisfies readonly Option[];

export const ask = command({
  path: 'ask',
  summary: 'ask a question and print the answer',
  details: [
    'Sends the question, waits for the answer, and prints it. A question to a handle starts a new session, which ends',
    'with the answer. With --choices, only one of the choices counts as the answer, in upper or lower case; stderr shows',
    'other messages. The dashboard shows the choices as buttons, so a person can answer from a phone.',
    '',
    'If no answer comes in time, or Ctrl-C stops the wait, the question stays open, and stderr names the command that',
    'continues waiting.',
  ].join('\n'),
  arguments: ARGUMENTS,
  options: OPTIONS,
  examples: [
    { line: 'asp ask @alice.phone "Which region?"', about: 'print what she answers' },
    {
      line: 'asp ask @alice.phone "Deploy?" --choices yes,no --expect yes && ./deploy',
      about: 'deploy only if the answer is yes',
    },
    {
      line: 'asp ask @alice.phone "Deploy?" --wait 10m --once "deploy-$GIT_SHA"',
      about: 'asks only once, even if the job runs again',
    },
  ],
  effect: 'write',
  stdout: 'the answer',
  deadlineMs: DEFAULT_WAIT_MS,
  endlessWith: ['wait'],
  parse,
  run: async (context, options) => (await import('./deliver.js')).ask(context, options),
});

export type AskOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number] | GlobalOption, (typeof ARGUMENTS)[number]>) {
  const [to, question, path] = [args.argument('to'), args.argument('message'), args.text('message-file')];
  refuseFencedJson(args);
  refuseSwapped(to, question, 'ask');
  if (question !== undefined && path !== undefined)
    throw usageError('There is more than one question.', { why: 'use either the argument or -F.' });
  const target = readTarget(to);
  if (target.kind === 'handles' && target.handles.length > 1)
    throw usageError('A question goes to one agent.', { why: 'to ask several at once, ask in a session they share.' });
  if (target.kind === 'session' && args.isSet('topic'))
    throw usageError(`--topic is only for a new session, but ${target.sessionId} exists.`);
  const choices = readChoices(args.text('choices'));
  const expected = args.text('expect')?.trim();
  const found = expected === undefined ? undefined : findChoice(choices, expected);
  if (expected !== undefined && found === undefined)
    throw usageError(`--expect '${expected}' is not one of the choices.`, {
      why: choices.length === 0 ? 'name the choices with --choices.' : `the choices are ${choices.join(', ')}.`,
    });
  return {
    target,
    text: toSource(question, path),
    isFenced: args.flag('fence'),
    topic: args.text('topic'),
    choices,
    expected: found,
    /** Undefined: until the deadline of the command. */
    waitMs: args.duration('wait'),
  };
}

function readChoices(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  const choices = text.split(',').map((choice) => choice.trim());
  if (choices.length < CHOICES_MIN || choices.length > CHOICES_MAX)
    throw usageError(`--choices takes ${CHOICES_MIN} to ${CHOICES_MAX} choices.`, {
      why: 'separate them with commas: --choices yes,no.',
    });
  const wrong = choices.find((choice) => !isChoice(choice));
  if (wrong !== undefined)
    throw usageError(`--choices: '${wrong}' cannot be a choice.`, {
      why: `a choice has 1 to ${CHOICE_MAX_LENGTH} characters, in one line, all of them visible.`,
    });
  const repeated = findRepeated(choices);
  if (repeated !== undefined) throw usageError(`--choices names '${repeated}' twice.`);
  return choices;
}
