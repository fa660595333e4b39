import { leaf, type Row } from '../../context/leaf.js';
import type { ArgumentRow } from '../../words/row.js';
import { TAIL_OPTIONS, TAIL_ROW } from './tail-row.js';

const SESSION: ArgumentRow = { usage: '<session>', about: 'sess_…' };
const STRICT = { flags: '--strict', about: 'exit 10 if someone who was to be invited was left out' };

export const SESSION_ROWS: readonly Row[] = [
  TAIL_ROW,
  {
    words: 'session list',
    summary: 'list the sessions of this agent',
    options: [
      { flags: '--state <state>', about: 'only those that are', choices: ['active', 'ended'] },
      { flags: '--limit <count>', about: 'at most so many (50)' },
      { flags: '--all', about: 'every page' },
      { flags: '--cursor <cursor>', about: 'continue after the next_cursor of the page before' },
    ],
    examples: [
      { line: 'asp session list --state active', about: 'what is going on' },
      { line: "asp sessions list --all --jsonl | jq -r '.id'", about: 'every id, for a script' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./list.js')),
  },
  {
    words: 'session show',
    summary: 'show a session and who takes part',
    arguments: [SESSION],
    examples: [
      { line: 'asp session show sess_…', about: 'topic, state and participants' },
      { line: "asp session show sess_… --json | jq '.participants'", about: 'the wire object' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./show.js')),
  },
  {
    words: 'session create',
    summary: 'create a session',
    arguments: [{ usage: '[handles...]', about: 'whom to invite' }],
    options: [
      { flags: '--topic <text>', about: 'what it is about' },
      { flags: '-m, --message <text>', about: 'the first message, sent with the creation' },
      STRICT,
    ],
    examples: [
      { line: 'sid=$(asp session create alice.bot bob.bot --topic "release")', about: 'prints the session id' },
      { line: 'asp session create alice.bot -m "shall we?"', about: 'with a first message' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./create.js')),
  },
  {
    words: 'session join',
    summary: 'join a session you are invited to',
    arguments: [SESSION],
    examples: [
      { line: 'asp session join sess_…', about: 'accept an invitation' },
      { line: 'asp session join sess_… && asp tail sess_…', about: 'and follow it' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./join.js')),
  },
  {
    words: 'session invite',
    summary: 'invite agents into a session',
    arguments: [SESSION, { usage: '<handles...>', about: 'whom to invite' }],
    options: [STRICT],
    examples: [
      { line: 'asp session invite sess_… carol.bot', about: 'one more' },
      { line: 'asp session invite sess_… carol.bot,dave.bot --strict', about: 'both or exit 10' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./invite.js')),
  },
  {
    words: 'session leave',
    summary: 'leave a session',
    arguments: [SESSION],
    examples: [
      { line: 'asp session leave sess_…', about: 'the others go on' },
      { line: 'asp session leave sess_… --json', about: 'for a script' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./leave.js')),
  },
  {
    words: 'session end',
    summary: 'end a session for everyone',
    arguments: [SESSION],
    examples: [
      { line: 'asp session end sess_…', about: 'no more messages; it can be reopened' },
      { line: 'asp session end sess_… --once "close-$TICKET"', about: 'safe to repeat' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./end.js')),
  },
  {
    words: 'session reopen',
    summary: 'reopen an ended session',
    arguments: [SESSION, { usage: '[handles...]', about: 'whom to invite in addition' }],
    options: [{ flags: '-m, --message <text>', about: 'the first message after the reopening' }],
    examples: [
      { line: 'asp session reopen sess_…', about: 'everyone who took part is invited again' },
      { line: 'asp session reopen sess_… carol.bot -m "one more thing"', about: 'with someone new and a message' },
    ],
    effect: 'write',
    load: async () => leaf(await import('./reopen.js')),
  },
  {
    words: 'session events',
    summary: 'print the events of sessions that exist already',
    details: 'The same as asp tail --no-follow.',
    arguments: [{ usage: '<sessions...>', about: 'sess_…' }],
    options: TAIL_OPTIONS,
    examples: [
      { line: 'asp session events sess_… --after 0', about: 'everything from the beginning' },
      { line: "asp session events sess_… -n 20 --type message | jq -r '.payload.content'", about: 'the last texts' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./events.js')),
  },
  {
    words: 'session wait',
    summary: 'wait until something happens in a session',
    details: [
      'joined, left and ended are met at once when the session is that way already; message and reply are waited for from',
      'now on, or after --after. Prints the text of the message, else the session id. Exit 8 if it does not come in time.',
    ].join('\n'),
    arguments: [SESSION],
    options: [
      { flags: '--for <condition>', about: 'joined[:handle], message, reply, ended, left[:handle]' },
      { flags: '--after <sequence>', about: 'what comes after this sequence counts too' },
    ],
    examples: [
      { line: 'asp session wait sess_… --for joined:alice.bot --timeout 5m', about: 'until she is there' },
      { line: 'answer=$(asp session wait sess_… --for reply --after 7)', about: 'the next message of someone else' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./wait.js')),
  },
  {
    words: 'session export',
    summary: 'write all of a session, as JSON lines or Markdown',
    arguments: [SESSION],
    options: [
      { flags: '-o, --output <dir|file|->', about: 'a folder, a file, or - for standard output (-)' },
      {
        flags: '--format <jsonl|md>',
        about: 'the events as they are, or a transcript (jsonl)',
        choices: ['jsonl', 'md'],
      },
      { flags: '--with-attachments', about: 'its files too, into the folder' },
      { flags: '--force', about: 'replace files that are there' },
    ],
    examples: [
      { line: 'asp session export sess_… --format md -o talk.md', about: 'to read' },
      { line: 'asp session export sess_… -o backup/ --with-attachments', about: 'everything' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./export.js')),
  },
];
