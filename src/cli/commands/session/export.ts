import { lstat } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { toJsonLine } from '../../../kit/json-line.js';
import type { EventEnvelope } from '../../../wire/event.js';
import type { Session } from '../../../wire/session.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { attachmentsOf } from '../attachment/attachment-facts.js';
import { downloadTo } from '../attachment/download.js';
import { safeFilename } from '../attachment/safe-filename.js';
import { ensureFolder, saveFile } from '../attachment/save-file.js';
import { markdownEvent, markdownHead } from './markdown-transcript.js';
import { readSessionEvents } from './read-session-events.js';

export interface ExportOptions {
  readonly sessionId: string;
  /** A file, a folder, or `-` for standard output. */
  readonly output: string;
  readonly format: 'jsonl' | 'md';
  readonly hasAttachments: boolean;
  readonly isForced: boolean;
}

export function parse(words: Words): ExportOptions {
  const output = words.text('output') ?? '-';
  const hasAttachments = words.flag('with-attachments');
  if (hasAttachments && output === '-')
    throw new UsageError('--with-attachments needs a folder.', { why: 'name it with --output.' });
  const format = words.text('format') === 'md' ? 'md' : 'jsonl';
  if (format === 'md' && output === '-')
    for (const option of ['json', 'jsonl', 'fields']) words.refuseBoth('format', option);
  return {
    sessionId: readId('session', words.arguments[0] ?? ''),
    output,
    format,
    hasAttachments,
    isForced: words.flag('force'),
  };
}

export async function run(context: Context, options: ExportOptions): Promise<void> {
  const { sessionId, output, format, hasAttachments, isForced } = options;
  const session = await read(context, 'getSession', { path: { session_id: sessionId } }, aboutSession(sessionId));
  const counted: Counted = { events: 0, attachmentIds: new Map() };
  const lines = transcript(context, session, format, counted);
  if (output === '-') {
    for await (const bytes of bytesOf(lines)) await context.output.bytes(bytes);
    return;
  }
  const { folder, file } = await placeOf(context, options);
  if (folder !== undefined) await ensureFolder(folder);
  await saveFile(file, bytesOf(lines), { isForced, random: context.random });
  const attachments = [];
  if (hasAttachments && folder !== undefined && counted.attachmentIds.size > 0) {
    await ensureFolder(join(folder, 'attachments'));
    for (const id of counted.attachmentIds.keys()) {
      const within = (filename: string): string => join(folder, 'attachments', `${id}-${safeFilename(filename)}`);
      attachments.push(await downloadTo(context, id, within, isForced));
    }
  }
  await context.output.note(`${counted.events} events${hasAttachments ? `, ${attachments.length} attachments` : ''}.`);
  const result = { session_id: sessionId, path: file, format, events: counted.events, attachments };
  await context.output.document(result, (safe) => safe.path);
}

function aboutSession(sessionId: string) {
  return {
    subject: sessionId,
    messages: { NOT_FOUND: `${sessionId} cannot be seen by this agent.` },
    next: { NOT_FOUND: ['asp', 'session', 'list'] },
  };
}

/** What went into the transcript. */
interface Counted {
  events: number;
  readonly attachmentIds: Map<string, EventEnvelope>;
}

async function* transcript(
  context: Context,
  session: Session,
  format: 'jsonl' | 'md',
  counted: Counted,
): AsyncGenerator<string> {
  if (format === 'md') yield markdownHead(session);
  for await (const event of readSessionEvents(context, session.id)) {
    counted.events += 1;
    for (const { id } of attachmentsOf(event)) counted.attachmentIds.set(id, event);
    yield format === 'md' ? markdownEvent(event) : toJsonLine(event);
  }
}

async function* bytesOf(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const line of lines) yield Buffer.from(`${line}\n`);
}

/** A folder gets the transcript under the session's own name; anything else is the file itself. */
async function placeOf(
  { machine }: Context,
  { sessionId, output, format, hasAttachments }: ExportOptions,
): Promise<{ folder: string | undefined; file: string }> {
  const path = resolve(machine.workingDirectory, output);
  const there = await lstat(path).catch(() => undefined);
  const isFolder = hasAttachments || /[/\\]$/.test(output) || there?.isDirectory() === true;
  return isFolder ? { folder: path, file: join(path, `${sessionId}.${format}`) } : { folder: undefined, file: path };
}
