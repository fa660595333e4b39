import type { CommandRow, OptionRow } from './row.js';

/** Options that every command takes, before or after its words. */
export const GLOBAL_OPTIONS: readonly OptionRow[] = [
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
    about: 'deadline of the whole command (60s; none for tail and serve)',
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
];

/** Options of every command that changes what a service holds. */
export const WRITE_OPTIONS: readonly OptionRow[] = [
  { flags: '--dry-run', about: 'print the request and send nothing' },
  { flags: '--idempotency-key <key>', about: 'send this key: the same key and request is done once' },
  { flags: '--once <name>', about: 'do this once: a stable key from agent, endpoint and name' },
];

/** Options of the lists that the service gives page by page. */
export const PAGE_OPTIONS: readonly OptionRow[] = [
  { flags: '--limit <count>', about: 'at most so many' },
  { flags: '--all', about: 'every page' },
  { flags: '--cursor <cursor>', about: 'continue after the next_cursor of the page before' },
];

/** The options of a command beside those that every command takes. */
export function ownOptionsOf(row: CommandRow): readonly OptionRow[] {
  const isKeyed = row.effect === 'write' && row.makesOwnKeys !== true;
  return [...(row.options ?? []), ...(isKeyed ? WRITE_OPTIONS : [])];
}

/** Every option a command takes, its own first. */
export function optionsOf(row: CommandRow | undefined): readonly OptionRow[] {
  return row === undefined ? GLOBAL_OPTIONS : [...ownOptionsOf(row), ...GLOBAL_OPTIONS];
}
