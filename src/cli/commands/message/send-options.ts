import { UsageError } from '../../terminal/cli-error.js';
import { kindOfWord, readHandles, readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import type { TextSource } from './message-source.js';

/** Into a session that exists, or to handles for whom one is created. */
export type Target =
  | { readonly kind: 'session'; readonly sessionId: string }
  | { readonly kind: 'handles'; readonly handles: readonly string[] };

export interface SendOptions {
  readonly target: Target;
  /** Undefined: standard input when it is no terminal, unless there are other parts. */
  readonly text: TextSource | undefined;
  /** The text is still to be written, in an editor. */
  readonly isEdited: boolean;
  readonly isByLines: boolean;
  readonly topic: string | undefined;
  readonly ends: boolean;
  readonly waits: boolean;
  readonly endsAfterReply: boolean;
  readonly isStrict: boolean;
  readonly files: readonly string[];
  readonly filename: string | undefined;
  readonly attachmentIds: readonly string[];
  readonly data: readonly string[];
  readonly parts: string | undefined;
  readonly metadata: Readonly<Record<string, string>> | undefined;
}

function readTarget(word: string): Target {
  const kind = kindOfWord(word);
  if (kind !== undefined) return { kind: 'session', sessionId: readId('session', word) };
  const handles = readHandles([word]);
  if (handles.length === 0) throw new UsageError('There is nobody to send to.');
  return { kind: 'handles', handles };
}

function readSource(words: Words): TextSource | undefined {
  const positional = words.arguments[1];
  const option = words.text('message');
  const path = words.text('message-file');
  const given = [positional, option, path, words.flag('edit') || undefined].filter((value) => value !== undefined);
  if (given.length > 1)
    throw new UsageError('The text is given more than once.', {
      why: 'it is the argument, or -m, or -F, or --edit.',
    });
  if (positional !== undefined || option !== undefined) return { kind: 'given', text: positional ?? option ?? '' };
  if (path === undefined) return undefined;
  return path === '-' ? { kind: 'stdin' } : { kind: 'file', path };
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

function refuseTwoReaders(words: Words, text: TextSource | undefined): void {
  const readers = [
    ...(text?.kind === 'stdin' ? ['-F -'] : []),
    ...(words.flag('lines') ? ['--lines'] : []),
    ...words.texts('file').flatMap((path) => (path === '-' ? ['--file -'] : [])),
    ...words.texts('data').flatMap((value) => (value === '-' ? ['--data -'] : [])),
    ...(words.text('parts') === '-' ? ['--parts -'] : []),
  ];
  if (readers.length > 1) throw new UsageError(`Standard input can be read once, not by ${readers.join(' and ')}.`);
}

const ATTACHMENTS_MAX = 5;

export function readSendOptions(words: Words): SendOptions {
  const target = readTarget(words.arguments[0] ?? '');
  const text = readSource(words);
  for (const other of ['message', 'message-file', 'edit', 'file', 'attach', 'data', 'parts', 'wait', 'end-after-reply'])
    words.refuseBoth('lines', other);
  for (const other of ['file', 'attach', 'data']) words.refuseBoth('parts', other);
  const isEdited = words.flag('edit');
  if ((text !== undefined || isEdited) && (words.flag('lines') || words.text('parts') !== undefined))
    throw new UsageError(`--${words.flag('lines') ? 'lines' : 'parts'} takes the place of a text.`);
  words.refuseBoth('end', 'wait');
  words.refuseBoth('end', 'end-after-reply');
  refuseTwoReaders(words, text);
  const files = words.texts('file');
  const attachmentIds = words.texts('attach').map((id) => readId('attachment', id));
  if (files.length + attachmentIds.length > ATTACHMENTS_MAX)
    throw new UsageError(`A message carries at most ${ATTACHMENTS_MAX} attachments.`);
  if (words.text('filename') !== undefined && !files.includes('-'))
    throw new UsageError('--filename names the file that --file - reads.');
  if (target.kind === 'session') {
    for (const option of ['topic', 'strict'])
      if (words.flag(option) || words.text(option) !== undefined)
        throw new UsageError(`--${option} belongs to a new session, but ${target.sessionId} exists.`);
  }
  return {
    target,
    text,
    isEdited,
    isByLines: words.flag('lines'),
    topic: words.text('topic'),
    ends: words.flag('end'),
    waits: words.flag('wait') || words.flag('end-after-reply'),
    endsAfterReply: words.flag('end-after-reply'),
    isStrict: words.flag('strict'),
    files,
    filename: words.text('filename'),
    attachmentIds,
    data: words.texts('data'),
    parts: words.text('parts'),
    metadata: readMetadata(words.texts('meta')),
  };
}
