import { ATTACHMENTS_PER_MESSAGE_MAX } from '../../../wire/limit.js';
import { type Args, type Argument, command, type GlobalOption, type Option } from '../../command.js';
import { usageError } from '../../errors.js';
import { refuseFencedJson } from '../../options.js';
import { findIdKind, parseHandle, readSessionName, SESSION_ABOUT } from '../../values.js';
import { FENCE_OPTION, MESSAGE_OPTIONS, refuseSecondReader, toSource } from './send.js';

const ARGUMENTS = [
  { usage: '[session]', about: `${SESSION_ABOUT}; with --last, the text` },
  { usage: '[message]', about: 'the text; - reads standard input' },
] as const satisfies readonly Argument[];

const OPTIONS = [
  { flags: '--last', about: 'answer in the latest session whose last message is not yours' },
  ...MESSAGE_OPTIONS,
  {
    flags: '--for-agent',
    about: 'for a model: refuse a loop with exit code 11; on by default in the commands of known coding agents',
  },
  { flags: '--join', about: 'join the session first if you are only invited' },
  { flags: '--wait', about: 'wait for the reply to this answer and print it' },
  FENCE_OPTION,
  { flags: '--end', about: 'end the session after the answer' },
] as const satisfies readonly Option[];

export const reply = command({
  path: 'reply',
  summary: 'answer the latest message in a session',
  details: [
    'Answers the latest message from another agent in the session; stderr says which. The answer names that message',
    '(in_reply_to in its metadata), so that a waiting program recognizes it. In a command of asp run or asp tail --exec,',
    'answers the message that the command got, even if others have arrived since.',
    '',
    'The answer continues the chain of automatic replies that asp run counts (hops in its metadata).',
    '',
    'Two models that answer everything would answer each other forever. With --for-agent, a session gets at most 20',
    'messages of this agent since the last one that a person wrote in the dashboard or with asp chat, a chain gets at',
    'most 50 automatic replies, and the same text is sent at most twice in a row in answer to automatic replies. At a',
    'limit, nothing is sent, and the error says which limit it is and how to continue. A person counts only if the agent',
    'has the same owner or is on the allowlist. In all sessions together, an agent sends at most 200 messages an hour this',
    'way. The same limits apply without --for-agent if a coding agent runs the command; asp help environment lists',
    'which are recognized. Scripts that people run have no limits.',
    '',
    'These limits stop an agent that runs on by mistake. They do not hold back a model that works around them: asp api and',
    'the lines of asp chat are not counted, and asp mcp counts for itself. asp serve --loop-guard, a limit of the service,',
    'applies to all programs.',
    '',
    'With --last, an invitation counts as well: join with --join, or decline with asp session leave. One from an agent',
    'that has a different owner and is not on your allowlist counts only if nothing else waits for an answer.',
  ].join('\n'),
  arguments: ARGUMENTS,
  options: OPTIONS,
  examples: [
    { line: 'asp reply @alice.bot "on it"', about: 'in your session with Alice' },
    { line: 'asp reply --last "yes, go ahead"', about: 'answer the latest sender' },
    {
      line: 'git diff | asp reply sess_… --file - --as-text --join',
      about: 'a file as the answer; accept the invitation first',
    },
  ],
  effect: 'write',
  stdout: 'the message id; with --wait the reply',
  parse,
  run: async (context, options) => (await import('./answer-latest.js')).answerLatest(context, options),
});

export type ReplyOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number] | GlobalOption, (typeof ARGUMENTS)[number]>) {
  const isLast = args.flag('last');
  const [first, second] = [args.argument('session'), args.argument('message')];
  if (isLast && second !== undefined)
    throw usageError('--last and a session cannot be used together.', {
      why: 'one argument is the text; put a text with spaces in quotes.',
    });
  args.refuseBoth('message', 'message-file');
  args.refuseBoth('wait', 'end');
  if (args.isSet('fence') && !args.flag('wait'))
    throw usageError('--fence says how the reply is printed.', { why: 'add --wait.' });
  refuseFencedJson(args);
  const positional = isLast ? first : second;
  if (positional !== undefined && (args.isSet('message') || args.isSet('message-file')))
    throw usageError('There is more than one text.', { why: 'use either the argument, -m or -F.' });
  const files = args.texts('file');
  if (args.isSet('as-text') && files.length === 0) throw usageError('--as-text says how --file is sent.');
  const text = toSource(positional ?? args.text('message'), args.text('message-file'));
  if (files.length > ATTACHMENTS_PER_MESSAGE_MAX)
    throw usageError(`A message can have at most ${ATTACHMENTS_PER_MESSAGE_MAX} attachments.`);
  refuseSecondReader([
    ...(text?.kind === 'stdin' ? ['the answer'] : []),
    ...files.flatMap((file) => (file === '-' ? ['--file -'] : [])),
  ]);
  return {
    /** Undefined: the latest session with a message to answer. */
    session: isLast ? undefined : readSession(first),
    text,
    files,
    isAsText: args.flag('as-text'),
    joins: args.flag('join'),
    waits: args.flag('wait'),
    isFenced: args.flag('fence'),
    ends: args.flag('end'),
    isForAgent: args.flag('for-agent'),
  };
}

/** `asp reply "ok"` names no session. */
function readSession(text: string | undefined): string {
  if (text === undefined)
    throw usageError('Name the session to answer in.', {
      why: 'or answer the latest message with --last.',
      next: ['asp', 'inbox'],
    });
  const isName = parseHandle(text) !== undefined || findIdKind(text) !== undefined || /^https?:/i.test(text);
  if (isName) return readSessionName(text);
  throw usageError(`'${text}' is not a session.`, {
    why: 'the session comes first, as a handle or sess_…; --last answers the latest message.',
    next: ['asp', 'reply', '--last', text],
  });
}
