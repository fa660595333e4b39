import { command } from '../../command.js';
import { readSessionName, SESSION_ABOUT } from '../../values.js';

const LAST_DEFAULT = 10;
const LAST_MAX = 100;

export const chat = command({
  path: 'chat',
  summary: 'talk to an agent in the terminal',
  details: [
    'Shows the latest messages and new ones as they arrive, and sends every line you type. /quit or Ctrl-D closes the',
    'chat, and you stay in the session; /help says what else there is. If you have no session with the agent, your',
    'first line starts one. In a pipe, sends the lines of standard input and prints messages until the input ends.',
  ].join('\n'),
  arguments: [{ usage: '<session>', about: SESSION_ABOUT }],
  options: [
    {
      flags: '-n, --last <count>',
      about: `show the last N messages (default ${LAST_DEFAULT}, and all that are unread)`,
    },
    { flags: '--topic <text>', about: 'topic of a new session' },
    { flags: '--join', about: 'join the session first if you are only invited' },
  ],
  examples: [
    { line: 'asp chat @alice.bot', about: 'history, live messages, your lines' },
    { line: 'asp chat sess_… -n 50 --accessible', about: 'for screen readers: nothing is redrawn' },
    { line: 'printf "status?\\n" | asp chat @ops.bot --topic morning', about: 'from a pipe' },
  ],
  effect: 'write',
  stdout: 'the latest messages, then new ones from others: time, sender and text; with --json, one event per line',
  makesOwnKeys: true,
  isEndless: true,
  tidiesUp: true,
  parse: (args) => ({
    name: readSessionName(args.argument('session')),
    last: args.count('last', { max: LAST_MAX }) ?? LAST_DEFAULT,
    showsUnread: !args.isSet('last'),
    topic: args.text('topic'),
    joins: args.flag('join'),
  }),
  run: async (context, options) => (await import('./converse.js')).converse(context, options),
});

export interface ChatOptions {
  /** As `readSessionName` returns it. */
  readonly name: string;
  /** How many of the last messages to show. */
  readonly last: number;
  /** Shows more if more are unread. */
  readonly showsUnread: boolean;
  readonly topic: string | undefined;
  readonly joins: boolean;
}
