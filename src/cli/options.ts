import type { Args, Command, Option } from './command.js';

/** Options of every command, before or after its name. */
export const GLOBAL_OPTIONS = [
  { flags: '-a, --as <handle>', about: 'act as this agent', environment: 'ASP_AGENT' },
  { flags: '-p, --profile <name>', about: 'which service to talk to', environment: 'ASP_PROFILE' },
  { flags: '--json', about: 'print one JSON document; errors as JSON too', environment: 'ASP_FORMAT' },
  { flags: '--jsonl', about: 'print JSON, one item of a list a line' },
  { flags: '--fields <names>', about: 'keep only these fields (a,b.c); implies --json' },
  { flags: '-q, --quiet', about: 'print no notes' },
  { flags: '-v, --verbose', about: 'print more notes' },
  { flags: '--debug', about: 'print a redacted trace of HTTP and WebSocket', environment: 'ASP_DEBUG' },
  { flags: '--no-input', about: 'never ask a question', environment: 'ASP_NO_INPUT' },
  { flags: '-y, --yes', about: 'answer yes to every question' },
  {
    flags: '--timeout <duration>',
    about: 'deadline of the whole command (60s; 5m for login; none for tail and serve)',
    environment: 'ASP_TIMEOUT',
  },
  { flags: '--retries <count>', about: 'tries after the first (4)', environment: 'ASP_RETRIES' },
  {
    flags: '--color <when>',
    about: 'colour: auto, always or never',
    choices: ['auto', 'always', 'never'],
    environment: 'NO_COLOR',
  },
  { flags: '--accessible', about: 'static text instead of redrawn lines', environment: 'ACCESSIBLE' },
  { flags: '-h, --help', about: 'show help' },
  { flags: '-V, --version', about: 'show the version' },
] as const satisfies readonly Option[];

/** Options of every command that changes what a service holds. */
export const WRITE_OPTIONS = [
  { flags: '--dry-run', about: 'print the request and send nothing' },
  { flags: '--idempotency-key <key>', about: 'send this key: the same key and request is done once' },
  { flags: '--once <name>', about: 'do this once: a stable key from agent, endpoint and name' },
] as const satisfies readonly Option[];

/** Every option a command takes, its own first. */
export function everyOption(command: Command | undefined): readonly Option[] {
  return command === undefined ? GLOBAL_OPTIONS : [...command.options, ...GLOBAL_OPTIONS];
}

/** Options of the lists that the service gives page by page. */
export const pageOptions = (defaultLimit: number) =>
  [
    { flags: '--limit <count>', about: `maximum number of results (default ${defaultLimit})` },
    { flags: '--all', about: 'every page' },
    { flags: '--cursor <cursor>', about: 'continue after the next_cursor of the page before' },
  ] as const satisfies readonly Option[];

/** How much of a list is wanted. */
export interface PageOptions {
  readonly limit: number;
  readonly isAll: boolean;
  readonly cursor: string | undefined;
}

const LIMIT_MAX = 100_000;

export function readPageOptions(args: Args<ReturnType<typeof pageOptions>[number]>, defaultLimit: number): PageOptions {
  args.refuseBoth('limit', 'all');
  return {
    limit: args.count('limit', { min: 1, max: LIMIT_MAX }) ?? defaultLimit,
    isAll: args.flag('all'),
    cursor: args.text('cursor'),
  };
}
