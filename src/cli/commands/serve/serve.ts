import { type Args, command, type Option } from '../../command.js';

const OPTIONS = [
  {
    flags: '--host <address>',
    about: 'listen here (127.0.0.1); others need --public-url https://… or --behind-proxy',
  },
  { flags: '--port <n>', about: 'listen on this port (8744); 0 takes a free one' },
  { flags: '--data <dir|memory>', about: 'keep everything in this folder, or nothing after the end' },
  {
    flags: '--database <url>',
    about: 'keep everything but attachments in this PostgreSQL database: postgres://user@host/name',
  },
  {
    flags: '--bus <url>',
    about: 'with a database: tell the services that share it of news over NATS, nats://host:4222',
  },
  { flags: '--bus-creds <path>', about: 'the NATS credentials file' },
  { flags: '--public-url <url>', about: 'the address under which others reach it' },
  { flags: '--behind-proxy', about: 'a proxy in front of it ends TLS; its X-Forwarded-For is trusted' },
  {
    flags: '--seed <handle>',
    about: 'agents that exist from the start, with commas or repeated',
    isRepeatable: true,
  },
  {
    flags: '--policy <open|allowlist>',
    about: 'who may reach the seeded agents (open)',
    choices: ['open', 'allowlist'],
  },
  { flags: '--demo', about: 'agents to try it with: @demo.echo, which answers, @demo.you and @alice.bot' },
  { flags: '--limits <on|off>', about: 'the rate limits of the specification (on)', choices: ['on', 'off'] },
  {
    flags: '--trust <recipient|symmetric>',
    about: 'whose allowlist decides about an invitation (recipient)',
    choices: ['recipient', 'symmetric'],
  },
  {
    flags: '--sign-up <open|invite|off>',
    about: 'who can create an account: anyone, only people with an invitation, or nobody (open)',
    choices: ['open', 'invite', 'off'],
  },
  {
    flags: '--open-agents <trusted|all>',
    about: 'which accounts may have agents that anyone can invite (trusted)',
    choices: ['trusted', 'all'],
  },
  { flags: '--account-agents <n>', about: 'how many agents an account may have that you do not trust (100)' },
  { flags: '--account-clients <n>', about: 'how many clients with a secret such an account may have (50)' },
  { flags: '--account-storage <size>', about: 'how much the attachments of such an account may take (2G)' },
  { flags: '--account-sessions <n>', about: 'how many sessions such an account may create in an hour (300)' },
  {
    flags: '--max-participants <n>',
    about: 'how many participants a session may have, those who left included (1000)',
  },
  {
    flags: '--presence-grace <duration>',
    about: 'remove a participant that stays disconnected this long (default: never)',
  },
  {
    flags: '--log <errors|text|json>',
    about: 'what to say on stderr: faults, or a line for every request (errors)',
    choices: ['errors', 'text', 'json'],
  },
  { flags: '--security-log <path>', about: 'append who signed in, failed to, and changed what to this file' },
  {
    flags: '--metrics-port <n>',
    about: 'offer Prometheus metrics on this port of 127.0.0.1 (off); 0 takes a free one',
  },
  {
    flags: '--inject <faults>',
    about: 'fail on purpose, with commas: 429:10%, 500:1/20, lost:2%, cut:1%, delay:200ms, drop:1m, seed:7',
    isRepeatable: true,
  },
  { flags: '--config <path>', about: 'read settings from this JSON file; flags and ASP_SERVE_… variables win' },
  { flags: '--print-config', about: 'print the effective settings and where each comes from, then exit' },
  {
    flags: '--adopt-attachments',
    about: 'use this attachments folder even if it belongs to another database (once, after a mistake)',
  },
  { flags: '--detach', about: 'run in the background; return once it accepts requests' },
  { flags: '--ready-file <path>', about: 'write this file once it accepts requests' },
] as const satisfies readonly Option[];

export type ServeArgs = Args<(typeof OPTIONS)[number]>;

export const serve = command({
  path: 'serve',
  summary: 'run a whole service on this machine',
  details: [
    'An authorization server with a consent page, the REST and WebSocket interfaces and attachments, in one process',
    'with its data in one folder. It prints its base URL once it accepts requests, and ends with Ctrl-C.',
  ].join('\n'),
  options: OPTIONS,
  examples: [
    { line: 'asp serve --demo', about: 'a service to try things with' },
    {
      line: 'asp serve --port 0 --data memory --seed alice.bot,bob.bot --json',
      about: 'for a test: a free port, no traces',
    },
    {
      line: 'asp serve --host 0.0.0.0 --public-url https://asp.example.org --behind-proxy',
      about: 'for others, behind a proxy',
    },
    { line: 'asp serve --config /etc/asp/serve.json --print-config', about: 'what a configuration means' },
  ],
  effect: 'local',
  stdout: 'the base URL, once requests are accepted',
  isEndless: true,
  finishesOnSignal: true,
  parse,
  // What was typed is not all: the environment and a file may say more.
  async run(context, { flags, configPath, printsConfig, isDetached, ...once }) {
    const { printSettings, readSettings } = await import('./settings.js');
    const effective = await readSettings(context, flags, configPath);
    if (printsConfig) return printSettings(context, effective);
    if (isDetached) return (await import('./detach.js')).detach(context);
    const { start } = await import('./start.js');
    return start(context, effective.settings, once);
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
  summary: 'what the local service says, when it runs in the background',
  details:
    'Of the service that runs, or else of the last one that was started with --detach. How much it says is its --log.',
  options: [
    { flags: '-n, --last <count>', about: 'print the last N lines (default: all)' },
    { flags: '--follow', about: 'print what comes, until the service ends' },
  ],
  examples: [
    { line: 'asp serve logs -n 20', about: 'the last lines' },
    { line: 'asp serve logs --follow --json', about: 'a document a line; entry is the line where that is JSON' },
  ],
  effect: 'none',
  stdout: 'the lines of the log',
  isEndless: true,
  parse: (args) => ({ last: args.count('last'), isFollowing: args.flag('follow') }),
  run: async (context, options) => (await import('./logs.js')).printLogs(context, options),
});
