import { type Args, command, type Option } from '../../command.js';
import { usageError } from '../../errors.js';

const OPTIONS = [
  {
    flags: '--host <address>',
    about: 'listen here (default 127.0.0.1); other addresses need --tls-cert or --behind-proxy',
  },
  { flags: '--port <n>', about: 'listen on this port (default 8744); 0 picks a free one' },
  { flags: '--data <dir|memory>', about: 'store everything in this folder, or nothing on disk with memory' },
  {
    flags: '--database <url>',
    about: 'store everything but attachments in this PostgreSQL database: postgres://user@host/name',
  },
  {
    flags: '--attachments <url>',
    about:
      'with a database: store attachments in this bucket, s3://name/prefix?region=…; its credentials are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
  },
  {
    flags: '--key-file <path>',
    about: 'store the private signing keys sealed with the key in this file, the output of openssl rand -hex 32',
  },
  { flags: '--database-connections <n>', about: 'connections to that database, from 7 to 1000 (default 14)' },
  { flags: '--database-statement-timeout <duration>', about: 'maximum time of a statement there (default 15s)' },
  { flags: '--database-lock-timeout <duration>', about: 'maximum wait for a lock there (default 10s)' },
  { flags: '--database-page <n>', about: 'rows that background work reads or changes there at once (default 200)' },
  {
    flags: '--bus <url>',
    about: 'with a database: services that share it notify each other over NATS, nats://host:4222',
  },
  { flags: '--bus-creds <path>', about: 'the NATS credentials file' },
  { flags: '--public-url <url>', about: 'the address that clients use' },
  {
    flags: '--tls-cert <path>',
    about: 'speak TLS with the certificate in this PEM file, which is read again when it changes',
  },
  { flags: '--tls-key <path>', about: 'the PEM file with the private key of that certificate' },
  {
    flags: '--name <name>',
    about: 'the name of this service on the pages where people sign in and in the dashboard (default asp)',
  },
  { flags: '--behind-proxy', about: 'a proxy in front of it terminates TLS; its X-Forwarded-For is trusted' },
  {
    flags: '--seed <handle>',
    about: 'create these agents at the start; separate several with commas, or repeat the option',
    isRepeatable: true,
  },
  {
    flags: '--policy <open|allowlist|hold>',
    about: 'who can reach the seeded agents (default open)',
    choices: ['open', 'allowlist', 'hold'],
  },
  { flags: '--demo', about: 'create agents to try it with: @demo.echo, which answers, @demo.you and @alice.bot' },
  { flags: '--limits <on|off>', about: 'the rate limits of the specification (default on)', choices: ['on', 'off'] },
  {
    flags: '--trust <recipient|symmetric>',
    about: 'whose allowlist decides about an invitation (default recipient)',
    choices: ['recipient', 'symmetric'],
  },
  {
    flags: '--sign-up <open|invite|off>',
    about: 'who can create an account: anyone, only people with an invitation, or no one (default open)',
    choices: ['open', 'invite', 'off'],
  },
  {
    flags: '--open-agents <trusted|all>',
    about: 'which accounts may have agents that anyone can invite (default trusted)',
    choices: ['trusted', 'all'],
  },
  {
    flags: '--account-agents <n>',
    about: 'maximum number of agents for an account that you do not trust (default 100)',
  },
  { flags: '--account-clients <n>', about: 'maximum number of clients with a secret for such an account (default 50)' },
  { flags: '--account-storage <size>', about: 'maximum size of all attachments for such an account (default 2G)' },
  {
    flags: '--account-sessions <n>',
    about: 'maximum number of new sessions an hour for such an account (default 300)',
  },
  {
    flags: '--max-participants <n>',
    about: 'maximum number of participants of a session, including those who left (default 1000)',
  },
  {
    flags: '--loop-guard <n>',
    about: 'refuse messages after N in a session without one from a person (default: off)',
  },
  {
    flags: '--presence-grace <duration>',
    about: 'remove a participant that stays disconnected this long (default: never)',
  },
  {
    flags: '--retention <duration>',
    about: 'delete ended sessions this long after their last event, at least 1d (default: never)',
  },
  {
    flags: '--search <builtin|off>',
    about: 'whether messages are indexed for searches; off refuses them (default builtin)',
    choices: ['builtin', 'off'],
  },
  {
    flags: '--web-push <contact>',
    about:
      'let people turn on push notifications; the service then sends requests to the push service of each of their browsers, with this mailto: or https: contact (default off)',
  },
  {
    flags: '--webhooks <off|public|any>',
    about:
      "call agents' webhooks: public allows https addresses on the public internet, any also those on your own network (default off)",
    choices: ['off', 'public', 'any'],
  },
  {
    flags: '--share-links <on|off>',
    about: 'let people share a copy of a session with a link that anyone can open (default on)',
    choices: ['on', 'off'],
  },
  {
    flags: '--drain-delay <duration>',
    about: 'when asked to stop, fail /ready at once and keep serving this much longer, at most 1h (default 0s)',
  },
  {
    flags: '--log <errors|text|json>',
    about: 'log to stderr: only faults, or a line for every request (default errors)',
    choices: ['errors', 'text', 'json'],
  },
  {
    flags: '--log-level <error|warn|info|debug>',
    about: 'the lowest level to log, as text unless --log is json (default info)',
    choices: ['error', 'warn', 'info', 'debug'],
  },
  { flags: '--security-log <path>', about: 'append sign-ins, failures and changes to this file' },
  {
    flags: '--metrics-port <n>',
    about: 'serve Prometheus metrics on this port (default off); 0 picks a free one',
  },
  {
    flags: '--metrics-host <address>',
    about: 'serve them on this address (default 127.0.0.1); other addresses need --metrics-token-file',
  },
  {
    flags: '--metrics-token-file <path>',
    about: 'serve them only to requests with the token in this file, as Authorization: Bearer',
  },
  {
    flags: '--operator-port <n>',
    about:
      'let operators on other machines run asp serve account, agent, client and others on this port (default off); 0 picks a free one',
  },
  {
    flags: '--operator-host <address>',
    about: 'serve them on this address (default 127.0.0.1); other addresses need --tls-cert or --behind-proxy',
  },
  {
    flags: '--operator-token-file <path>',
    about: 'their tokens: on each line a token, or the name of its holder and a token',
  },
  {
    flags: '--inject <faults>',
    about: 'inject failures, separated by commas: 429:10%, 500:1/20, lost:2%, cut:1%, delay:200ms, drop:1m, seed:7',
    isRepeatable: true,
  },
  {
    flags: '--clock <controlled|time>',
    about:
      'for tests, with --data memory: a clock that asp serve clock advance moves; it starts now, at 2027-01-01T00:00:00Z, or at +30d',
  },
  { flags: '--config <path>', about: 'read settings from this JSON file; flags and ASP_SERVE_… variables override it' },
  { flags: '--print-config', about: 'print the effective settings and where each comes from, then exit' },
  {
    flags: '--adopt-attachments',
    about: 'use this attachments folder even if it belongs to another database (once, to fix a mistake)',
  },
  { flags: '--detach', about: 'run in the background; return once it accepts requests' },
  { flags: '--ready-file <path>', about: 'write this file once it accepts requests' },
] as const satisfies readonly Option[];

export type ServeArgs = Args<(typeof OPTIONS)[number]>;

export const serve = command({
  path: 'serve',
  summary: 'run a whole service on this machine',
  details: [
    'An authorization server with a consent page, REST, WebSocket, attachments and tools for models',
    '(MCP, at /mcp), in one process with its data in one folder. It prints its base URL once it accepts requests, and stops on Ctrl-C.',
  ].join('\n'),
  options: OPTIONS,
  examples: [
    { line: 'asp serve --demo', about: 'try things out' },
    {
      line: 'asp serve --port 0 --data memory --seed alice.bot,bob.bot --json',
      about: 'for a test: a free port, nothing on disk',
    },
    { line: 'asp serve --data memory --clock controlled', about: 'a service whose tokens expire when you say so' },
    {
      line: 'asp serve --host 0.0.0.0 --public-url https://asp.example.org --behind-proxy',
      about: 'a public service, behind a proxy',
    },
    { line: 'asp serve --config /etc/asp/serve.json --print-config', about: 'check a configuration' },
  ],
  effect: 'local',
  stdout: 'the base URL, once it accepts requests',
  isEndless: true,
  finishesOnSignal: true,
  parse,
  // The command line is not everything: the environment and a file may add settings.
  async run(context, { flags, configPath, printsConfig, isDetached, ...once }) {
    const { describeStart, printSettings, readSettings } = await import('./settings.js');
    const effective = await readSettings(context, flags, configPath);
    if (printsConfig) return printSettings(context, effective);
    if (isDetached) return (await import('./background.js')).detach(context);
    const { start } = await import('./start.js');
    return start(context, effective.settings, {
      ...once,
      startedWith: describeStart(context, flags, configPath, effective),
    });
  },
});

async function parse(args: ServeArgs) {
  const { readFlags } = await import('./settings.js');
  return {
    flags: readFlags(args),
    configPath: args.text('config'),
    printsConfig: args.flag('print-config'),
    isDetached: args.flag('detach'),
    readyFile: args.text('ready-file'),
    adoptsAttachments: args.flag('adopt-attachments'),
  };
}

export const serveLogs = command({
  path: 'serve logs',
  summary: 'show the log of the local service, if it runs in the background',
  details:
    'The log of the running service, or else of the last one started with --detach; with -p, of the one at its address. --log sets how much it contains.',
  options: [
    { flags: '-n, --last <count>', about: 'print the last N lines (default: all)' },
    { flags: '--follow', about: 'print new lines until the service ends' },
  ],
  examples: [
    { line: 'asp serve logs -n 20', about: 'the last lines' },
    { line: 'asp serve logs --follow --json', about: 'one document per line; entry is the parsed line if it is JSON' },
  ],
  effect: 'none',
  stdout: 'the lines of the log',
  isEndless: true,
  parse: (args) => ({ last: args.count('last'), isFollowing: args.flag('follow') }),
  run: async (context, options) => (await import('./background.js')).printLogs(context, options),
});

const SYSTEM = { flags: '--system', about: 'for the whole machine, as root (default: for you)' } as const;
const DRY_RUN = { flags: '--dry-run', about: 'print the unit and the commands, without changing anything' } as const;

export const serveInstall = command({
  path: 'serve install',
  summary: 'have systemd start the service at boot and restart it',
  details: [
    'Writes a confined unit, asp.service, enables it and starts it. Settings come from --config; secrets such as the URL of a database',
    'belong in a file of variables that only you or root can read: ~/.config/asp-cli/serve.env, or /etc/asp/environment with --system.',
    'Run this again after you change the settings or move asp.',
  ].join('\n'),
  options: [
    SYSTEM,
    { flags: '--run-as <user>', about: 'with --system: the user of the service (default asp)' },
    { flags: '--config <path>', about: 'the settings of the service, as for asp serve' },
    DRY_RUN,
  ],
  examples: [
    { line: 'asp serve install --dry-run', about: 'preview the unit and the commands' },
    { line: 'asp serve install', about: 'a user service, which systemd starts when you sign in' },
    { line: 'sudo asp serve install --system --config /etc/asp/serve.json', about: 'a system service' },
  ],
  effect: 'local',
  stdout: 'the path of the unit; with --dry-run its text',
  isEndless: true,
  parse: (args) => ({
    isSystem: args.flag('system'),
    runAs: args.text('run-as'),
    config: args.text('config'),
    isDry: args.flag('dry-run'),
  }),
  async run(context, wishes) {
    if (wishes.runAs !== undefined && !wishes.isSystem) throw usageError('--run-as needs --system.');
    return (await import('./unit.js')).install(context, wishes);
  },
});

export const serveUninstall = command({
  path: 'serve uninstall',
  summary: 'stop the service that serve install started, and remove its unit',
  details: 'The data, the settings and the log stay.',
  options: [SYSTEM, DRY_RUN],
  examples: [
    { line: 'asp serve uninstall', about: 'your user service' },
    { line: 'sudo asp serve uninstall --system', about: 'the system service' },
  ],
  effect: 'local',
  stdout: 'the path of the unit that was removed',
  isEndless: true,
  parse: (args) => ({ isSystem: args.flag('system'), isDry: args.flag('dry-run') }),
  run: async (context, wishes) => (await import('./unit.js')).uninstall(context, wishes),
});
