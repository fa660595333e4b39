import { leaf, type Row } from '../../context/leaf.js';
import type { OptionRow } from '../../words/row.js';

/** What `session events` and `tail` have in common: where to start and stop, what to keep, and how to print it. */
export const TAIL_OPTIONS: readonly OptionRow[] = [
  { flags: '-n, --last <count>', about: 'the last so many events of each session (10)' },
  { flags: '--after <sequence>', about: 'events after this sequence' },
  { flags: '--since <time>', about: 'events from this time on: RFC 3339, epoch ms, or 2h (ago)' },
  { flags: '--until <time>', about: 'events up to this time' },
  { flags: '--type <types>', about: 'only these: message, invited, joined, left, ended, …', isRepeatable: true },
  { flags: '--from <handles>', about: 'only what these agents did', isRepeatable: true },
  { flags: '--not-me', about: 'only what others did' },
  { flags: '-c, --count <count>', about: 'stop after so many events' },
  { flags: '--cursor-file <path>', about: 'continue where this file says; it is kept up to date' },
  { flags: '--pretty', about: 'lines for people' },
  { flags: '--text', about: 'the text of messages only' },
  { flags: '--fence', about: 'a block for each message between nonce lines, marked untrusted, for language models' },
  { flags: '--exec <command>', about: 'run a command for each event: the event on stdin, its ids in ASP_EVENT_…' },
  { flags: '--forward <url>', about: 'POST each event to this address' },
];

export const TAIL_ROW: Row = {
  words: 'session tail',
  aliases: ['tail'],
  summary: 'print events as they arrive, as JSON lines',
  details: [
    'Without a session: every session of the acting agent, what no connection of it has been given yet and what comes.',
    'With sessions: their last 10 events, then what comes, until all have ended. Each event once, in the order of its',
    'session, across reconnects; a hole that cannot be filled is told on stderr.',
  ].join('\n'),
  arguments: [{ usage: '[sessions...]', about: 'sess_…' }],
  options: [
    ...TAIL_OPTIONS,
    { flags: '--no-follow', about: 'what exists, then exit' },
    { flags: '-f, --follow', about: 'what tail does anyway', isHidden: true },
    { flags: '--idle <duration>', about: 'stop after so much silence (exit 8 if --count was not reached)' },
    { flags: '--keep', about: 'stay when the sessions have ended' },
    { flags: '--control', about: 'asp.ready, asp.reconnecting, asp.gap and asp.end lines too' },
    { flags: '--heartbeat <duration>', about: 'an asp.heartbeat line so often; implies --control' },
    { flags: '--ready-file <path>', about: 'a file that appears once events arrive live' },
    { flags: '--join', about: 'join every session the agent is invited to' },
  ],
  examples: [
    {
      line: 'asp tail sess_… | jq -r \'select(.type=="session.message") | .payload.content\'',
      about: 'texts as they come',
    },
    { line: 'asp tail --join --not-me --cursor-file inbox.json --exec ./answer.sh', about: 'a small bot' },
    { line: 'asp tail sess_… --pretty', about: 'for people' },
    { line: 'asp tail --type message -c 1 --timeout 5m', about: 'wait for one message; exit 8 if none came' },
  ],
  effect: 'read',
  isEndless: true,
  load: async () => leaf(await import('./tail.js')),
};
