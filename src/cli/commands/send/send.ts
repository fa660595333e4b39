import { ATTACHMENTS_PER_MESSAGE_MAX } from '../../../wire/limit.js';
import { type Args, type Argument, command, type Option } from '../../command.js';
import { UsageError } from '../../errors.js';
import { findIdKind, handleOf, readHandles, readId } from '../../values.js';

/** Into a session that exists, or to handles for whom one is created. */
export type Target =
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'handles'; readonly handles: readonly string[] };

/** Where the text of a message comes from. */
export type TextSource =
  | { readonly kind: 'given'; readonly text: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'stdin' }
  /** A file that is removed once the message is sent. */
  | { readonly kind: 'draft'; readonly path: string };

const ARGUMENTS = [
  { usage: '<to>', about: 'sess_…, a handle (@owner.name or owner.name), or several with commas' },
  { usage: '[message]', about: 'the text; - reads standard input' },
] as const satisfies readonly Argument[];

const OPTIONS = [
  { flags: '--end', about: 'end the session after the message' },
  { flags: '--topic <text>', about: 'topic of the new session' },
  { flags: '-m, --message <text>', about: 'the text; - reads standard input' },
  { flags: '-F, --message-file <path|->', about: 'the text is in this file' },
  { flags: '--file <path|->', about: 'upload and attach; at most 5', isRepeatable: true },
  { flags: '--filename <name>', about: 'name of the file that comes from standard input' },
  { flags: '--attach <att_id>', about: 'attach what was uploaded before', isRepeatable: true },
  { flags: '--data <json|@file|->', about: 'a JSON object as a part of the message', isRepeatable: true },
  { flags: '--parts <json|@file|->', about: 'all parts of the message as a JSON array' },
  { flags: '--meta <key=value>', about: 'metadata', isRepeatable: true },
  { flags: '--lines', about: 'one message for each line of standard input, paced to the limit' },
  { flags: '--wait', about: 'wait for the reply to this message and print it' },
  { flags: '--end-after-reply', about: 'wait for the reply, then end the session' },
  { flags: '--edit', about: 'write the text in an editor' },
  { flags: '--strict', about: 'exit 10 if someone who was to be invited was left out' },
] as const satisfies readonly Option[];

export const messageSend = command({
  path: 'message send',
  aliases: ['send'],
  summary: 'send a message to a handle, or into a session',
  details: [
    'To a handle (or several) a session is created with the message in it; to a session id (sess_…) the message is',
    'sent into that session. The text is the argument, or -m, or a file (-F), or standard input when it is no terminal.',
    'Prints the session id if one was created, else the message id; with --wait the reply.',
  ].join('\n'),
  arguments: ARGUMENTS,
  options: OPTIONS,
  examples: [
    { line: 'asp send @alice.bot "hi" --end', about: 'say one thing and end the session' },
    { line: 'asp send sess_… "done, see attached" --file report.pdf', about: 'answer in a session, with a file' },
    { line: 'git log -1 | asp send ops.bot --once "deploy-$GIT_SHA" --json', about: 'from a pipe, at most once' },
    { line: 'asp send alice.bot "what is the status?" --end-after-reply', about: 'ask, print the answer, end' },
  ],
  effect: 'write',
  stdout: 'the session id when a session was created, else the message id; with --wait or --end-after-reply the reply',
  endlessWith: ['lines', 'edit'],
  parse,
  run: async (context, options) => (await import('./deliver.js')).send(context, options),
});

export type SendOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number], (typeof ARGUMENTS)[number]>) {
  refuseSwapped(args.argument('to'), args.argument('message'));
  const target = readTarget(args.argument('to'));
  const texts = [args.argument('message'), args.text('message')].filter((text) => text !== undefined);
  const [files, data, parts] = [args.texts('file'), args.texts('data'), args.text('parts')];
  const [isByLines, isEdited] = [args.flag('lines'), args.flag('edit')];
  const path = args.text('message-file');
  if (texts.length + Number(path !== undefined) + Number(isEdited) > 1)
    throw new UsageError('The text is given more than once.', {
      why: 'it is the argument, or -m, or -F, or --edit.',
    });
  const text = toSource(texts[0], path);
  for (const other of [
    ...(['message', 'message-file', 'edit', 'file', 'attach', 'data'] as const),
    ...(['parts', 'wait', 'end-after-reply'] as const),
  ])
    args.refuseBoth('lines', other);
  for (const other of ['file', 'attach', 'data'] as const) args.refuseBoth('parts', other);
  if ((text !== undefined || isEdited) && (isByLines || parts !== undefined))
    throw new UsageError(`--${isByLines ? 'lines' : 'parts'} takes the place of a text.`);
  args.refuseBoth('end', 'wait');
  args.refuseBoth('end', 'end-after-reply');
  refuseSecondReader([
    ...(text?.kind === 'stdin' ? ['the message'] : []),
    ...(isByLines ? ['--lines'] : []),
    ...files.flatMap((file) => (file === '-' ? ['--file -'] : [])),
    ...data.flatMap((value) => (value === '-' ? ['--data -'] : [])),
    ...(parts === '-' ? ['--parts -'] : []),
  ]);
  const attachmentIds = args.texts('attach').map((id) => readId('attachment', id));
  if (files.length + attachmentIds.length > ATTACHMENTS_PER_MESSAGE_MAX)
    throw new UsageError(`A message carries at most ${ATTACHMENTS_PER_MESSAGE_MAX} attachments.`);
  if (args.isGiven('filename') && !files.includes('-'))
    throw new UsageError('--filename names the file that --file - reads.');
  if (target.kind === 'session')
    for (const option of ['topic', 'strict'] as const)
      if (args.isGiven(option))
        throw new UsageError(`--${option} belongs to a new session, but ${target.sessionId} exists.`);
  return {
    target,
    text,
    isEdited,
    isByLines,
    topic: args.text('topic'),
    ends: args.flag('end'),
    waits: args.flag('wait') || args.flag('end-after-reply'),
    endsAfterReply: args.flag('end-after-reply'),
    isStrict: args.flag('strict'),
    files,
    filename: args.text('filename'),
    attachmentIds,
    data,
    parts,
    metadata: readMetadata(args.texts('meta')),
  };
}

/** `asp send hi alice.bot` */
function refuseSwapped(to: string, message: string | undefined): void {
  const isRecipient = (text: string): boolean => handleOf(text) !== undefined || findIdKind(text) === 'session';
  if (message === undefined || !isRecipient(message) || to.includes(',') || isRecipient(to)) return;
  throw new UsageError(`'${to}' is not a handle.`, {
    why: 'the recipient comes first.',
    next: ['asp', 'send', message, to],
  });
}

function readTarget(text: string): Target {
  if (findIdKind(text) !== undefined) return { kind: 'session', sessionId: readId('session', text) };
  const handles = readHandles([text]);
  if (handles.length === 0) throw new UsageError('There is nobody to send to.');
  return { kind: 'handles', handles };
}

function toSource(text: string | undefined, path: string | undefined): TextSource | undefined {
  if (text === '-' || path === '-') return { kind: 'stdin' };
  if (text !== undefined) return { kind: 'given', text };
  return path === undefined ? undefined : { kind: 'file', path };
}

function readMetadata(pairs: readonly string[]): Readonly<Record<string, string>> | undefined {
  if (pairs.length === 0) return undefined;
  const entries = pairs.map((pair): [string, string] => {
    const at = pair.indexOf('=');
    if (at < 1) throw new UsageError(`--meta '${pair}' is not of the form key=value.`);
    return [pair.slice(0, at), pair.slice(at + 1)];
  });
  return Object.fromEntries(entries);
}

function refuseSecondReader(readers: readonly string[]): void {
  if (readers.length > 1) throw new UsageError(`Standard input can be read once, not by ${readers.join(' and ')}.`);
}
