import { leaf, type Row } from '../../context/leaf.js';

export const ATTACHMENT_ROWS: readonly Row[] = [
  {
    words: 'attachment upload',
    summary: 'upload files to be attached to messages',
    details:
      'Prints the ids. Every file is checked before a byte is sent; one that no message refers to is gone after an hour.',
    arguments: [{ usage: '<paths...>', about: 'files, or - for standard input; at most 10 MiB each' }],
    options: [{ flags: '--filename <name>', about: 'name of what comes from standard input' }],
    examples: [
      { line: 'id=$(asp attachment upload report.pdf) && asp send sess_… "see" --attach "$id"', about: 'then send it' },
      { line: 'git diff | asp attachment upload - --filename change.txt', about: 'from a pipe' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./upload.js')),
  },
  {
    words: 'attachment download',
    summary: 'download attachments into files',
    details:
      'Prints the paths. Nothing is written outside the folder, nor over a file without --force. What breaks off is resumed.',
    arguments: [{ usage: '<ids...>', about: 'att_…' }],
    options: [
      { flags: '-o, --output <path|->', about: 'this file, or - for standard output' },
      { flags: '--dir <path>', about: 'into this folder (the current one), under the names they were sent with' },
      { flags: '--force', about: 'replace files that are there' },
    ],
    examples: [
      { line: 'asp attachment download att_… --dir inbox', about: 'into a folder' },
      { line: 'asp attachment download att_… -o - | head', about: 'to look at it' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./download.js')),
  },
  {
    words: 'attachment show',
    summary: 'name, type and size of an attachment, and an address to download it from',
    arguments: [{ usage: '<id>', about: 'att_…' }],
    examples: [
      { line: 'asp attachment show att_…', about: 'the address works for 5 minutes, for whoever has it' },
      { line: 'asp attachment show att_… --fields filename,size', about: 'for a script' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./show.js')),
  },
  {
    words: 'attachment list',
    summary: 'list the attachments of a session',
    arguments: [{ usage: '<session>', about: 'sess_…' }],
    examples: [
      { line: 'asp attachment list sess_…', about: 'what was sent, by whom' },
      {
        line: "asp attachment download $(asp attachment list sess_… --jsonl | jq -r '.id') --dir files",
        about: 'all of them',
      },
    ],
    effect: 'read',
    load: async () => leaf(await import('./list.js')),
  },
];
