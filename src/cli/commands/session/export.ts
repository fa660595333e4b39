import { lstat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { RequestError } from '../../../client/http/request-error.js';
import { formatQuantity } from '../../../kit/format.js';
import { toJsonLine } from '../../../kit/json-line.js';
import { sanitize, sanitizeLine } from '../../../kit/sanitize.js';
import { isMessageEvent } from '../../../wire/event.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Session } from '../../../wire/schemas/session.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { isoTime } from '../../terminal/relative-time.js';
import { listReferences } from '../attachment/references.js';
import { downloadTo, ensureFolder, safeFilename, saveFile } from '../attachment/transfer.js';
import { describeEvent, messageText } from '../message/message-text.js';
import { participantNames, unseenSession } from './participants.js';
import { readSessionEvents } from './session-events.js';

type Format = 'jsonl' | 'md';

interface ExportOptions {
  readonly sessionId: string;
  /** A file, a folder, or `-` for standard output. */
  readonly output: string;
  readonly format: Format;
  readonly hasAttachments: boolean;
  readonly isForced: boolean;
}

export async function exportSession(context: Context, options: ExportOptions): Promise<void> {
  const { sessionId, output, format, hasAttachments, isForced } = options;
  const path = { session_id: sessionId };
  const session = await read(context, 'getSession', { path }, unseenSession(sessionId));
  const counted: Counted = { events: 0, attachmentIds: new Set() };
  const lines = transcript(context, session, format, counted);
  if (output === '-') {
    const { records, verbatim } = context.output;
    for await (const line of lines) await (format === 'jsonl' ? records(`${line}\n`) : verbatim(`${line}\n`));
    return;
  }
  const { folder, file } = await chooseFile(context, options);
  if (folder !== undefined) await ensureFolder(folder);
  await saveFile(file, toBytes(lines), { isForced, random: context.random });
  const ids = hasAttachments ? [...counted.attachmentIds] : [];
  const attachments: Saved[] = [];
  let failure: CliError | undefined;
  if (folder !== undefined && ids.length > 0)
    await saveAttachments(context, { folder, ids, isForced }, attachments).catch((error: unknown) => {
      const isOurs = error instanceof RequestError || error instanceof CliError;
      if (!isOurs || context.signal.aborted) throw error;
      failure = withoutAttachments(error, file, attachments.length, ids);
    });
  await context.output.note(
    `${formatQuantity(counted.events, 'event')}${hasAttachments ? `, ${formatQuantity(attachments.length, 'attachment')}` : ''}.`,
  );
  const result = { session_id: sessionId, path: file, format, events: counted.events, attachments };
  await context.output.document(result, (safe) => safe.path);
  if (failure !== undefined) throw failure;
}

type Saved = Awaited<ReturnType<typeof downloadTo>>;

/** Adds each file to `saved` once it is written. */
async function saveAttachments(
  context: Context,
  { folder, ids, isForced }: { readonly folder: string; readonly ids: readonly string[]; readonly isForced: boolean },
  saved: Saved[],
): Promise<void> {
  await ensureFolder(join(folder, 'attachments'));
  for (const id of ids) {
    const within = (filename: string): string => join(folder, 'attachments', `${id}-${safeFilename(filename)}`);
    saved.push(await downloadTo(context, id, within, { isForced }));
  }
}

/** The transcript is written already, and complete. */
function withoutAttachments(
  error: RequestError | CliError,
  file: string,
  done: number,
  ids: readonly string[],
): CliError {
  if (error.code === 'ASP_NOT_OFFERED')
    return new CliError('ASP_PARTIAL', {
      message: `The transcript is in ${file}; its attachments could not be downloaded.`,
      why: 'the service offers no downloads: the specification leaves their address open.',
      outcome: 'applied',
      cause: error,
    });
  const rest = done + 1 < ids.length ? ', and the rest were not tried' : '';
  return new CliError('ASP_PARTIAL', {
    message: `The transcript is in ${file}. ${done} of ${ids.length} attachments were saved; ${ids[done]} failed${rest}.`,
    outcome: 'applied',
    endedBy: error,
  });
}

/** The contents of the transcript. */
interface Counted {
  events: number;
  readonly attachmentIds: Set<string>;
}

async function* transcript(
  context: Context,
  session: Session,
  format: Format,
  counted: Counted,
): AsyncGenerator<string> {
  if (format === 'md') yield markdownHead(session);
  for await (const event of readSessionEvents(context, session.id)) {
    counted.events += 1;
    if (isMessageEvent(event)) for (const { id } of listReferences(event.payload)) counted.attachmentIds.add(id);
    yield format === 'md' ? markdownEvent(event) : toJsonLine(event);
  }
}

async function* toBytes(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const line of lines) yield Buffer.from(`${line}\n`);
}

/** A folder gets the transcript under the session's own name; any other path is the file itself. */
async function chooseFile(
  { machine }: Context,
  { sessionId, output, format, hasAttachments }: ExportOptions,
): Promise<{ folder: string | undefined; file: string }> {
  const path = resolve(machine.workingDirectory, output);
  const existing = await lstat(path).catch(() => undefined);
  const isFolder = hasAttachments || /[/\\]$/.test(output) || existing?.isDirectory() === true;
  return isFolder ? { folder: path, file: join(path, `${sessionId}.${format}`) } : { folder: undefined, file: path };
}

/** Characters that have a meaning in Markdown, on one line. */
const plain = (text: string): string => sanitizeLine(text).replace(/[\\`*_{}[\]<>#|!~]/g, '\\$&');

function markdownHead(session: Session): string {
  const title = session.topic === null ? session.id : plain(session.topic);
  return [
    `# ${title}`,
    '',
    `${session.id}, ${session.state}, started ${isoTime(session.created_at)}`,
    '',
    `With ${plain(participantNames(session))}`,
    '',
  ].join('\n');
}

/** A message is a quotation, so that its text cannot look like one of our headings. Other events are one line each. */
function markdownEvent(event: EventEnvelope): string {
  const time = isoTime(event.created_at);
  if (!isMessageEvent(event)) return `*${plain(describeEvent(event))}, ${time}*\n`;
  const text = sanitize(messageText(event.payload));
  const quoted = text
    .split('\n')
    .map((line) => `> ${line}`)
    .join('\n');
  return `**${plain(event.payload.sender)}**, ${time}, ${event.sequence}\n\n${quoted}\n`;
}
