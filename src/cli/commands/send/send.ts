import { ID_PREFIX } from '../../../wire/id.js';
import { ATTACHMENTS_PER_MESSAGE_MAX } from '../../../wire/limit.js';
import { type Args, type Argument, command, type GlobalOption, type Option } from '../../command.js';
import { usageError } from '../../errors.js';
import { refuseFencedJson } from '../../options.js';
import { findIdKind, parseHandle, readHandles, readId, readSessionName } from '../../values.js';

/** An existing session, or handles to create one for. */
export type Target =
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'handles'; readonly handles: readonly string[] };

/** The source of a message's text. */
export type TextSource =
  | { readonly kind: 'given'; readonly text: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'stdin' }
  /** A file that is removed once the message is sent. */
  | { readonly kind: 'draft'; readonly path: string };

const ARGUMENTS = [
  { usage: '<to>', about: 'sess_…, a handle (@owner.name or owner.name), or several handles with commas' },
  { usage: '[message]', about: 'the text; - reads standard input' },
] as const satisfies readonly Argument[];

/** What every command has that sends a message. */
export const MESSAGE_OPTIONS = [
  { flags: '-m, --message <text>', about: 'the text; - reads standard input' },
  { flags: '-F, --message-file <path|->', about: 'read the text from this file' },
  { flags: '--file <path|->', about: 'upload and attach; at most 5', isRepeatable: true },
  { flags: '--as-text', about: 'send files of unsupported types, such as source code, as plain text' },
] as const satisfies readonly Option[];

/** What every command has that prints a reply. */
export const FENCE_OPTION = {
  flags: '--fence',
  about: 'print the reply between nonce lines, marked as untrusted, for language models',
} as const satisfies Option;

const OPTIONS = [
  { flags: '--end', about: 'end the session after the message' },
  { flags: '--topic <text>', about: 'topic of the new session' },
  { flags: '--continue', about: 'with one handle: write in the open session with it; without one, start one' },
  ...MESSAGE_OPTIONS,
  { flags: '--filename <name>', about: 'name for the file from standard input' },
  { flags: '--attach <att_id>', about: 'attach an uploaded file', isRepeatable: true },
  { flags: '--data <json|@file|->', about: 'a JSON object, sent as a data part', isRepeatable: true },
  { flags: '--parts <json|@file|->', about: 'all parts of the message as a JSON array' },
  { flags: '--meta <key=value>', about: 'metadata', isRepeatable: true },
  { flags: '--lines', about: 'send one message per line of standard input; wait when the service limits them' },
  { flags: '--wait', about: 'wait for the reply to this message and print it' },
  {
    flags: '--wait-for <state>',
    about: 'wait until each recipient has the message: delivered, taken (by a program or a reader), or reply',
    choices: ['delivered', 'taken', 'reply'],
  },
  { flags: '--end-after-reply', about: 'wait for the reply, then end the session' },
  FENCE_OPTION,
  { flags: '--edit', about: 'write the text in an editor' },
  { flags: '--strict', about: 'exit 10 if an invitee was left out' },
] as const satisfies readonly Option[];

export const messageSend = command({
  path: 'message send',
  summary: 'send a message to a handle or a session',
  details: [
    'Sending to a handle (or several) creates a session with the message in it; a session id (sess_…) adds the message',
    'to that session. The text is the argument, -m, a file (-F), or standard input unless it is a terminal.',
    'Prints the session id if it created one, otherwise the message id; with --wait, the reply.',
    '',
    'If a coding agent runs the command, the limits of asp reply --for-agent apply: an answer in a session that has had 20',
    'of its messages without one from a person is refused with exit code 11, and so is its 201st message within an hour.',
    'Messages in a session in which no one answers do not count, and --lines counts as one message.',
  ].join('\n'),
  arguments: ARGUMENTS,
  options: OPTIONS,
  examples: [
    { line: 'asp send @alice.bot "hi" --end', about: 'send one message and end the session' },
    { line: 'asp send sess_… "done, see attached" --file report.pdf', about: 'answer in a session, with a file' },
    { line: 'asp send alice.bot "and one more thing" --continue', about: 'in the session that is open with her' },
    { line: 'git log -1 | asp send ops.bot --once "deploy-$GIT_SHA" --json', about: 'from a pipe, at most once' },
    {
      line: 'asp send alice.bot "what is the status?" --end-after-reply',
      about: 'ask, print the answer, end the session',
    },
    { line: 'asp send alice.bot "deploy now" --wait-for taken --timeout 5m', about: 'wait until its program has it' },
  ],
  effect: 'write',
  stdout:
    'the session id if a session was created, otherwise the message id; with --wait or --end-after-reply the reply',
  endlessWith: ['lines', 'edit'],
  parse,
  run: async (context, options) => (await import('./deliver.js')).send(context, options),
});

/** An attachment that was uploaded before. A path here is usually meant for `--file`. */
function readAttached(text: string): string {
  if (findIdKind(text) !== undefined) return readId('attachment', text);
  throw usageError(`--attach takes the id of an uploaded file (${ID_PREFIX.attachment}…), and '${text}' is not one.`, {
    why: 'to upload a file and attach it, use --file.',
  });
}

export type SendOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number] | GlobalOption, (typeof ARGUMENTS)[number]>) {
  refuseSwapped(args.argument('to'), args.argument('message'), 'send');
  const target = readTarget(args.argument('to'));
  const texts = [args.argument('message'), args.text('message')].filter((text) => text !== undefined);
  const [files, data, parts] = [args.texts('file'), args.texts('data'), args.text('parts')];
  const [isByLines, isEdited] = [args.flag('lines'), args.flag('edit')];
  const path = args.text('message-file');
  const waitsFor = args.text('wait-for');
  if (texts.length + Number(path !== undefined) + Number(isEdited) > 1)
    throw usageError('There is more than one text.', {
      why: 'use either the argument, -m, -F or --edit.',
    });
  const text = toSource(texts[0], path);
  for (const other of [
    ...(['message', 'message-file', 'edit', 'file', 'attach', 'data'] as const),
    ...(['parts', 'wait', 'wait-for', 'end-after-reply'] as const),
  ])
    args.refuseBoth('lines', other);
  for (const other of ['file', 'attach', 'data'] as const) args.refuseBoth('parts', other);
  if ((text !== undefined || isEdited) && (isByLines || parts !== undefined))
    throw usageError(`--${isByLines ? 'lines' : 'parts'} replaces the text.`);
  for (const other of ['end', 'wait', 'end-after-reply'] as const) args.refuseBoth('wait-for', other);
  const continues = args.flag('continue');
  if (continues && (target.kind === 'session' || target.handles.length > 1))
    throw usageError('--continue needs one handle.', { why: 'it finds the session that is open with this agent.' });
  args.refuseBoth('end', 'wait');
  args.refuseBoth('end', 'end-after-reply');
  refuseSecondReader([
    ...(text?.kind === 'stdin' ? ['the message'] : []),
    ...(isByLines ? ['--lines'] : []),
    ...files.flatMap((file) => (file === '-' ? ['--file -'] : [])),
    ...data.flatMap((value) => (value === '-' ? ['--data -'] : [])),
    ...(parts === '-' ? ['--parts -'] : []),
  ]);
  const attachmentIds = args.texts('attach').map(readAttached);
  if (files.length + attachmentIds.length > ATTACHMENTS_PER_MESSAGE_MAX)
    throw usageError(`A message can have at most ${ATTACHMENTS_PER_MESSAGE_MAX} attachments.`);
  if (args.isSet('as-text') && files.length === 0) throw usageError('--as-text says how --file is sent.');
  if (args.isSet('filename') && !files.includes('-'))
    throw usageError('--filename names the file that --file - reads.');
  const waits = args.flag('wait') || args.flag('end-after-reply') || waitsFor === 'reply';
  if (args.isSet('fence') && !waits) throw usageError('--fence says how the reply is printed.', { why: 'add --wait.' });
  refuseFencedJson(args);
  if (target.kind === 'session')
    for (const option of ['topic', 'strict'] as const)
      if (args.isSet(option))
        throw usageError(`--${option} is only for a new session, but ${target.sessionId} exists.`);
  return {
    target,
    text,
    isEdited,
    isByLines,
    topic: args.text('topic'),
    continues,
    ends: args.flag('end'),
    waits,
    isFenced: args.flag('fence'),
    /** The state that each recipient must reach. */
    waitsFor: waitsFor === 'reply' ? undefined : waitsFor,
    endsAfterReply: args.flag('end-after-reply'),
    isStrict: args.flag('strict'),
    files,
    filename: args.text('filename'),
    isAsText: args.flag('as-text'),
    attachmentIds,
    data,
    parts,
    metadata: readMetadata(args.texts('meta')),
  };
}

/** `asp send hi alice.bot` */
export function refuseSwapped(to: string, message: string | undefined, verb: 'send' | 'ask'): void {
  const isRecipient = (text: string): boolean => parseHandle(text) !== undefined || findIdKind(text) === 'session';
  if (message === undefined || !isRecipient(message) || to.includes(',') || isRecipient(to)) return;
  throw usageError(`'${to}' is not a handle.`, {
    why: 'the recipient comes first.',
    next: ['asp', verb, message, to],
  });
}

export function readTarget(text: string): Target {
  if (findIdKind(text) !== undefined || /^https?:/i.test(text))
    return { kind: 'session', sessionId: readSessionName(text) };
  const handles = readHandles([text]);
  if (handles.length === 0) throw usageError('There is no recipient.');
  return { kind: 'handles', handles };
}

/** The text of a message as typed; `-` is standard input. */
export function toSource(text: string | undefined, path: string | undefined): TextSource | undefined {
  if (text === '-' || path === '-') return { kind: 'stdin' };
  if (text !== undefined) return { kind: 'given', text };
  return path === undefined ? undefined : { kind: 'file', path };
}

function readMetadata(pairs: readonly string[]): Readonly<Record<string, string>> | undefined {
  if (pairs.length === 0) return undefined;
  const entries = pairs.map((pair): [string, string] => {
    const at = pair.indexOf('=');
    if (at < 1) throw usageError(`--meta '${pair}' does not have the form key=value.`);
    return [pair.slice(0, at), pair.slice(at + 1)];
  });
  return Object.fromEntries(entries);
}

/** `readers` names what reads standard input. */
export function refuseSecondReader(readers: readonly string[]): void {
  if (readers.length > 1) throw usageError(`Standard input can be read only once, not by ${readers.join(' and ')}.`);
}
