import type { Args, Command, GlobalOption, Option } from './command.js';

/** Options of every command, before or after its name. */
export const GLOBAL_OPTIONS = [
  { flags: '-a, --as <handle>', about: 'act as this agent', environment: 'ASP_AGENT' },
  { flags: '-p, --profile <name>', about: 'which service to talk to', environment: 'ASP_PROFILE' },
  { flags: '--json', about: 'print one JSON document; errors as JSON too', environment: 'ASP_FORMAT' },
  { flags: '--jsonl', about: 'print JSON, one list item per line' },
  { flags: '--fields <names>', about: 'keep only these fields (a,b.c); implies --json' },
  { flags: '--jq <expression>', about: 'print the results of a jq expression; implies --json' },
  { flags: '-q, --quiet', about: 'print no notes' },
  { flags: '-v, --verbose', about: 'print more notes' },
  { flags: '--debug', about: 'print a redacted trace of HTTP and WebSocket', environment: 'ASP_DEBUG' },
  { flags: '--no-input', about: 'never prompt', environment: 'ASP_NO_INPUT' },
  { flags: '-y, --yes', about: 'answer yes to every prompt' },
  {
    flags: '--timeout <duration>',
    about: 'deadline of the whole command (default 60s; login 5m; tail and run none; serve, chat and mcp ignore it)',
    environment: 'ASP_TIMEOUT',
  },
  { flags: '--retries <count>', about: 'retries of each request (default 4)', environment: 'ASP_RETRIES' },
  {
    flags: '--color <when>',
    about: 'color: auto, always or never',
    choices: ['auto', 'always', 'never'],
    environment: 'NO_COLOR',
  },
  { flags: '--accessible', about: 'print static text instead of redrawing lines', environment: 'ACCESSIBLE' },
  { flags: '-h, --help', about: 'show help' },
  { flags: '-V, --version', about: 'show the version' },
] as const satisfies readonly Option[];

/** Options of every command that changes data at a service. */
export const WRITE_OPTIONS = [
  { flags: '--dry-run', about: 'print what would be sent, without sending it' },
  {
    flags: '--idempotency-key <key>',
    about: 'send this idempotency key: the same request with the same key runs once',
  },
  { flags: '--once <name>', about: 'run this only once, with a key made from the agent, the endpoint and this name' },
] as const satisfies readonly Option[];

/** Options of every command of an operator that also works from another machine. */
export const OPERATOR_OPTIONS = [
  { flags: '--operator <url>', about: 'act at a service on another machine, at the address of its --operator-port' },
  {
    flags: '--operator-token-file <path>',
    about: 'with --operator: the file with your token, if not in ASP_OPERATOR_TOKEN',
  },
] as const satisfies readonly Option[];

/** Every option of a command, its own first. */
export function everyOption(command: Command | undefined): readonly Option[] {
  return command === undefined ? GLOBAL_OPTIONS : [...command.options, ...GLOBAL_OPTIONS];
}

/** Options of paginated lists. */
export const pageOptions = (defaultLimit: number) =>
  [
    { flags: '--limit <count>', about: `maximum number of results (default ${defaultLimit})` },
    { flags: '--all', about: 'fetch every page' },
    { flags: '--cursor <cursor>', about: 'continue after the next_cursor of the previous page' },
  ] as const satisfies readonly Option[];

/** How much of a list to fetch. */
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

/** For commands that print messages. */
export const FENCE_EACH_OPTION = {
  flags: '--fence',
  about: 'print each message between nonce lines, marked as untrusted, for language models',
} as const satisfies Option;

/** A fence is made of lines around a text. JSON quotes the text itself. */
export function refuseFencedJson(args: Args<typeof FENCE_EACH_OPTION | GlobalOption>): void {
  for (const option of ['json', 'jsonl', 'fields', 'jq'] as const) args.refuseBoth('fence', option);
}
