import { type Args, command, type Option } from '../../command.js';
import { usageError } from '../../errors.js';
import {
  CONCURRENCY_MAX,
  COUNT_OPTION,
  FROM_OPTION,
  LIMIT_OPTIONS,
  READY_FILE_OPTION,
  readFrom,
  readLimits,
} from '../run/run.js';

/** After the stop there is nothing to wait for but delays. */
const GRACE_MS = 1_000;

const OPTIONS = [
  { flags: '--script <file|->', about: 'the rules' },
  { flags: '--strict', about: 'exit with 13 at a message that no rule fits' },
  { flags: '--until-met', about: 'exit with 0 as soon as the required rules were used' },
  FROM_OPTION,
  COUNT_OPTION,
  { flags: '--since <time>', about: 'answer messages without a reply since then too, RFC 3339 or 2h (ago)' },
  ...LIMIT_OPTIONS,
  READY_FILE_OPTION,
] as const satisfies readonly Option[];

export const mock = command({
  path: 'mock',
  summary: 'play an agent from a script of replies',
  details: [
    'Answers as the agent like asp run, but from the rules in a file, so that you can test a program against an agent whose',
    'answers you know. asp help testing describes the file, which is JSON such as:',
    '',
    '{"rules": [{"when": {"contains": "price"}, "do": [{"reply": "20 EUR"}, "end"], "required": true}]}',
    '',
    'The first rule that fits a message is used. A message that no rule fits gets no reply; stderr names it, and with',
    '--strict, asp mock exits with 13 at once. It also exits with 13 if a required rule was not used by the end: by',
    'Ctrl-C, --count, or --timeout. With --until-met, the end is when all of them were used.',
    '',
    'Each run starts from now and keeps no progress. Invitations that no rule mentions are accepted. One line of JSON',
    'reports each message, as with asp run, and its rule.',
  ].join('\n'),
  arguments: [{ usage: '[handle]', about: 'the agent to play (default: the acting agent)' }],
  options: OPTIONS,
  examples: [
    { line: 'asp mock @alice.bot --script alice.json', about: 'play Alice until Ctrl-C' },
    {
      line: 'asp mock --script alice.json --strict --until-met --timeout 1m',
      about: 'in CI: exit 0 if the required rules were used within a minute, otherwise 13',
    },
  ],
  effect: 'write',
  stdout: 'a line of JSON for each message with its result and its rule',
  makesOwnKeys: true,
  isEndless: true,
  actsAs: 'handle',
  finishesOnSignal: true,
  parse,
  run: async (context, options) => (await import('./play-script.js')).playScript(context, options),
});

export type MockOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number]>, nowMs: number) {
  const script = args.text('script');
  if (script === undefined)
    throw usageError('There is no script.', { why: 'name it with --script.', next: ['asp', 'mock', '--help'] });
  return {
    script,
    isStrict: args.flag('strict'),
    untilMet: args.flag('until-met'),
    from: readFrom(args.texts('from')),
    joins: true,
    ends: false,
    count: args.count('count', { min: 1 }),
    concurrency: CONCURRENCY_MAX,
    graceMs: GRACE_MS,
    sinceMs: args.time('since', nowMs),
    onFailure: 'reply',
    isShared: false,
    onLimit: 'skip',
    limits: { ...readLimits(args), tokens: 0, cost: 0 },
    readyFile: args.text('ready-file'),
  } as const;
}
