import { formatBytes } from '../../../kit/format.js';
import { command, describeTable } from '../../command.js';
import { read } from '../../context/calls.js';
import { remember } from '../../context/completion-memory.js';
import { usageError } from '../../errors.js';
import { relativeTime } from '../../terminal/relative-time.js';
import { ifGiven, readId, readSessionName, readSize, SESSION_ABOUT } from '../../values.js';
import { findSession } from '../session/find-session.js';
import { type AttachmentReference, listReferences, unseenAttachment } from './references.js';

export const attachmentUpload = command({
  path: 'attachment upload',
  summary: 'upload files to attach to messages',
  details:
    'Prints the ids. All files are checked before any is sent. A file that no message refers to is deleted after an hour.',
  arguments: [{ usage: '<paths...>', about: 'files, or - for standard input; at most 10 MiB each' }],
  options: [
    { flags: '--filename <name>', about: 'file name for standard input' },
    { flags: '--as-text', about: 'upload files of unsupported types, such as source code, as plain text' },
  ],
  examples: [
    { line: 'id=$(asp attachment upload report.pdf) && asp send sess_… "see" --attach "$id"', about: 'then send it' },
    { line: 'git diff | asp attachment upload - --filename change.txt', about: 'from a pipe' },
    { line: 'asp attachment upload main.ts --as-text', about: 'source code' },
  ],
  effect: 'write',
  stdout: 'the attachment ids, one per line',
  parse(args) {
    const paths = args.argument('paths');
    const filename = args.text('filename');
    if (paths.filter((path) => path === '-').length > 1) throw usageError('Standard input can be uploaded only once.');
    if (filename !== undefined && !paths.includes('-'))
      throw usageError('--filename sets the name of standard input.', { why: 'files keep their own names.' });
    return { paths, filename, isAsText: args.flag('as-text') };
  },
  run: async (context, options) => (await import('./transfer.js')).uploadAll(context, options),
});

export const attachmentDownload = command({
  path: 'attachment download',
  summary: 'download attachments into files',
  details:
    'Prints the paths. Writes only to that folder, and overwrites files only with --force. Resumes interrupted downloads.',
  arguments: [{ usage: '<ids...>', about: 'att_…' }],
  options: [
    { flags: '-o, --output <path|->', about: 'to this file, or - for standard output' },
    { flags: '--dir <dir>', about: 'to this folder (default: the current one), under the original names' },
    { flags: '--force', about: 'replace existing files' },
    { flags: '--max-size <size>', about: 'refuse attachments larger than this (default 10M)' },
  ],
  examples: [
    { line: 'asp attachment download att_… --dir inbox', about: 'into a folder' },
    { line: 'asp attachment download att_… -o - | head', about: 'look at the beginning' },
  ],
  effect: 'read',
  stdout: 'the paths, one per line; with -o - the bytes (a terminal shows only text)',
  parse(args) {
    args.refuseBoth('output', 'dir');
    const texts = args.argument('ids').flatMap((text) => text.split(','));
    const ids = [...new Set(texts.map((text) => readId('attachment', text)))];
    const output = args.text('output');
    if (output !== undefined && ids.length > 1)
      throw usageError('--output is for one attachment.', { why: 'use --dir to save several.' });
    if (output === '-')
      for (const option of ['json', 'jsonl', 'fields', 'jq', 'force'] as const) args.refuseBoth('output', option);
    const maxBytes = ifGiven(args.text('max-size'), (text) => readSize('--max-size', text));
    return { ids, output, directory: args.text('dir'), isForced: args.flag('force'), maxBytes };
  },
  run: async (context, options) => (await import('./transfer.js')).downloadAll(context, options),
});

export const attachmentShow = command({
  path: 'attachment show',
  summary: 'show the name, type and size of an attachment, and a download link',
  arguments: [{ usage: '<id>', about: 'att_…' }],
  examples: [
    { line: 'asp attachment show att_…', about: 'the link works for 5 minutes, for anyone who has it' },
    { line: 'asp attachment show att_… --fields filename,size', about: 'for a script' },
  ],
  effect: 'read',
  stdout: 'the attachment, one fact per line, and its download link',
  parse: (args) => ({ id: readId('attachment', args.argument('id')) }),
  async run(context, { id }) {
    const link = await read(context, 'getAttachment', { path: { attachment_id: id } }, unseenAttachment(id));
    const now = context.clock.now();
    await context.output.document(link, (safe, style) =>
      [
        `${style.bold(safe.filename.replace(/\s+/g, ' '))}  ${safe.content_type}, ${formatBytes(safe.size)}`,
        `id       ${safe.id}`,
        `address  ${safe.url.replace(/\s+/g, '')}`,
        ...(safe.url_expires_at === null ? [] : [`expires  ${relativeTime(safe.url_expires_at, now)}`]),
      ].join('\n'),
    );
  },
});

export const attachmentList = command({
  path: 'attachment list',
  summary: 'list the attachments of a session',
  arguments: [{ usage: '<session>', about: SESSION_ABOUT }],
  examples: [
    { line: 'asp attachment list sess_…', about: 'the files and who sent them' },
    {
      line: 'asp attachment list sess_… --jsonl | jq -r .id | xargs asp attachment download',
      about: 'all of them',
    },
  ],
  effect: 'read',
  stdout: describeTable('attachment, name, type, size, from, sequence'),
  parse: (args) => ({ session: readSessionName(args.argument('session')) }),
  // No endpoint lists attachments, but messages refer to them.
  async run(context, { session }) {
    const sessionId = await findSession(context, session);
    const { readSessionMessages } = await import('../session/session-events.js');
    const items: AttachmentReference[] = [];
    for await (const message of readSessionMessages(context, sessionId)) items.push(...listReferences(message));
    await context.output.list({ items, next_cursor: null }, [
      { title: 'attachment', value: ({ id }) => id },
      { title: 'name', value: ({ filename }) => filename ?? '-', isFlexible: true },
      { title: 'type', value: ({ content_type: type }) => type ?? '-', isOptional: true },
      {
        title: 'size',
        value: ({ size }) => (size === null ? '-' : formatBytes(size)),
        piped: ({ size }) => String(size ?? ''),
        isOptional: true,
      },
      { title: 'from', value: ({ sender }) => sender, isOptional: true },
      { title: 'sequence', value: ({ sequence }) => String(sequence), isOptional: true },
    ]);
    if (items.length === 0)
      await (await import('../session/refusal.js')).noteNone(context, sessionId, 'No attachments.');
    const found = items.toReversed().map(({ id, filename }) => ({ name: id, about: filename }));
    await remember(context, 'attachments', found);
  },
});
