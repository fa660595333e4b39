import { leaf, type Row } from '../../context/leaf.js';

export const HELP_ROWS: readonly Row[] = [
  {
    words: 'help',
    summary: 'help on a command or a topic',
    arguments: [
      { usage: '[topic...]', about: 'a command, or: auth environment config json exit-codes scripting tail agents' },
    ],
    examples: [
      { line: 'asp help exit-codes', about: 'what each exit code means' },
      { line: 'asp help send', about: 'the same as asp send --help' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./help.js')),
  },
  {
    words: 'version',
    summary: 'the version of this program',
    details: [
      'With --check the npm registry is asked for the newest one (npm_config_registry, when that is set), once and for 5 seconds',
      'at most; exit 9 when it does not answer. That is the only check for updates there is.',
    ].join('\n'),
    options: [{ flags: '--check', about: 'ask the npm registry for the newest version, and print that' }],
    examples: [
      { line: 'asp version', about: 'the version alone' },
      { line: 'asp version --json', about: 'with the versions of Node.js and the platform' },
      { line: 'asp version --check', about: 'is there a newer one, and how to get it' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./version.js')),
  },
  {
    words: 'commands',
    summary: 'every command with its arguments, its options and what it changes',
    examples: [
      { line: 'asp commands', about: 'a table' },
      {
        line: 'asp commands --json | jq \'.items[] | select(.effect=="write") | .words\'',
        about: 'what changes something',
      },
    ],
    effect: 'none',
    load: async () => leaf(await import('./commands.js')),
  },
  {
    words: 'explain',
    summary: 'what an error code means and what helps',
    arguments: [{ usage: '<code>', about: 'NOT_FOUND, ASP_TIMEOUT, invalid_client' }],
    examples: [
      { line: 'asp explain NOT_FOUND', about: 'why the service does not say more' },
      { line: 'asp explain ASP_UNREACHABLE --json', about: 'with its exit code, for a script' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./explain.js')),
  },
];
