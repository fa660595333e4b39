import { leaf, type Row } from '../../context/leaf.js';

export const SERVE_ROWS: readonly Row[] = [
  {
    words: 'serve',
    summary: 'run a whole service on this machine',
    details: [
      'An authorization server with a consent page, the REST and WebSocket interfaces and attachments, in one process',
      'with its data in one folder. It prints its base URL once it accepts requests, and ends with Ctrl-C.',
    ].join('\n'),
    options: [
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
        flags: '--presence-grace <duration>',
        about: 'who stays away this long after losing its last socket has left (off)',
      },
      {
        flags: '--log <errors|text|json>',
        about: 'what to say on stderr: faults, or a line for every request (errors)',
        choices: ['errors', 'text', 'json'],
      },
      {
        flags: '--metrics-port <n>',
        about: 'offer Prometheus metrics on this port of 127.0.0.1 (off); 0 takes a free one',
      },
      {
        flags: '--inject <faults>',
        about: 'fail on purpose: 429:10%,500:1/20,lost:2%,cut:1%,delay:200ms,drop:1m,seed:7',
        isRepeatable: true,
      },
      { flags: '--config <path>', about: 'read settings from this JSON file; flags and ASP_SERVE_… variables win' },
      { flags: '--print-config', about: 'show what holds and who said so, and start nothing' },
      { flags: '--detach', about: 'run in the background; return once it accepts requests' },
      { flags: '--ready-file <path>', about: 'write this file once it accepts requests' },
    ],
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
    isEndless: true,
    finishesOnSignal: true,
    load: async () => leaf(await import('./serve.js')),
  },
  {
    words: 'serve status',
    summary: 'whether the local service runs, and what it holds',
    examples: [
      { line: 'asp serve status', about: 'a few lines' },
      { line: 'asp serve status --json', about: 'for scripts; exit 9 when it does not run' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./status.js')),
  },
  {
    words: 'serve stop',
    summary: 'stop the local service and wait until it is gone',
    examples: [
      { line: 'asp serve stop', about: 'what runs is finished first' },
      { line: 'asp serve stop --timeout 5s', about: 'exit 8 if it takes longer' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./stop.js')),
  },
  {
    words: 'serve open',
    summary: 'open the dashboard of the local service in the browser, signed in',
    details: [
      'As a local account: the only one, or that of the first seeded agent, unless --account says another. The link that',
      'is opened, and printed, works once, within a minute, and on this machine alone.',
    ].join('\n'),
    options: [
      { flags: '--account <name>', about: 'sign in as this account: alice, who owns @alice.bot' },
      { flags: '--no-browser', about: 'only print the link' },
    ],
    examples: [
      { line: 'asp serve open', about: 'agents, sessions and their messages, as they come' },
      {
        line: 'asp serve open --account alice --no-browser',
        about: 'the link of one account, to open it somewhere else',
      },
    ],
    effect: 'local',
    load: async () => leaf(await import('./open.js')),
  },
  {
    words: 'serve logs',
    summary: 'what the local service says, when it runs in the background',
    details:
      'Of the service that runs, or else of the last one that was started with --detach. How much it says is its --log.',
    options: [
      { flags: '-n, --last <count>', about: 'the last so many lines (all)' },
      { flags: '--follow', about: 'print what comes, until the service ends' },
    ],
    examples: [
      { line: 'asp serve logs -n 20', about: 'the last lines' },
      { line: 'asp serve logs --follow --json', about: 'a document a line; entry is the line where that is JSON' },
    ],
    effect: 'none',
    isEndless: true,
    load: async () => leaf(await import('./logs.js')),
  },
  {
    words: 'serve reset',
    summary: 'delete all data of a stopped service: accounts, agents, sessions, attachments',
    details: [
      'The folder is the one that asp serve would use. Nothing but the data of a service is deleted, links are not',
      'followed, and a service that uses the folder is not disturbed: it is refused.',
    ].join('\n'),
    options: [{ flags: '--data <dir>', about: 'the data folder (the usual one)' }],
    examples: [
      { line: 'asp serve reset', about: 'asks first' },
      { line: 'asp serve reset --data ./scratch --yes', about: 'for scripts' },
    ],
    effect: 'local',
    isEndless: true,
    load: async () => leaf(await import('./reset.js')),
  },
  {
    words: 'serve backup',
    summary: 'save the data of a service in one file, also while it runs',
    details: [
      'A tar archive of the database as it is at one moment, and of its attachments, readable by you alone. It unpacks',
      'with tar -x into an empty data folder. Signing keys stay out of it unless you ask for them.',
    ].join('\n'),
    arguments: [{ usage: '<file>', about: 'the archive to write' }],
    options: [
      { flags: '--data <dir>', about: 'the data folder (that of the running service, else the usual one)' },
      { flags: '--with-keys', about: 'include the keys that tokens are signed with: guard the file like a password' },
      { flags: '--force', about: 'replace a file that is there' },
    ],
    examples: [
      { line: 'asp serve backup asp-backup.tar', about: 'of the service that runs' },
      { line: 'asp serve backup /backup/asp.tar --data /var/lib/asp --force', about: 'for a timer, over the last one' },
    ],
    effect: 'local',
    isEndless: true,
    load: async () => leaf(await import('./backup.js')),
  },
  {
    words: 'serve restore',
    summary: 'lay the data of a backup into an empty folder, checked',
    arguments: [{ usage: '<file>', about: 'a file that asp serve backup wrote' }],
    options: [{ flags: '--data <dir>', about: 'the folder, which must be empty or new (the usual one)' }],
    examples: [
      { line: 'asp serve restore asp-backup.tar --data restored', about: 'then: asp serve --data restored' },
      { line: 'asp serve restore /backup/asp.tar --data /var/lib/asp --json', about: 'for scripts' },
    ],
    effect: 'local',
    isEndless: true,
    load: async () => leaf(await import('./restore.js')),
  },
  {
    words: 'serve keys list',
    summary: 'the keys that the local service signs its access tokens with',
    examples: [
      { line: 'asp serve keys list', about: 'which signs, which is next, until when old ones are published' },
      { line: 'asp serve keys list --json', about: 'for scripts' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./keys-list.js')),
  },
  {
    words: 'serve keys rotate',
    summary: 'publish a next signing key, which takes over once everybody has had time to read it',
    details: [
      'No token fails: the new key is published ten minutes before it signs, the old one until its last token has',
      'ended. Keys rotate by themselves every 90 days.',
    ].join('\n'),
    examples: [
      { line: 'asp serve keys rotate', about: 'the next key, and when it takes over' },
      { line: 'asp serve keys rotate --json', about: 'for scripts: rotated is false while one is on its way' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./keys-rotate.js')),
  },
  {
    words: 'serve agent list',
    summary: 'every agent of the local service',
    examples: [
      { line: 'asp serve agent list', about: 'a table' },
      { line: 'asp serve agent list --json', about: 'for scripts' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./agent-list.js')),
  },
  {
    words: 'serve agent add',
    summary: 'add agents to the local service, and their accounts where these are new',
    arguments: [{ usage: '<handle...>', about: '@owner.name or owner.name' }],
    options: [
      { flags: '--policy <open|allowlist>', about: 'who may reach them (open)', choices: ['open', 'allowlist'] },
      { flags: '--display-name <text>', about: 'shown instead of the handle' },
    ],
    examples: [
      { line: 'asp serve agent add alice.bot', about: 'an agent anyone here may reach' },
      { line: 'asp serve agent add ops.bot --policy allowlist', about: 'an agent that only its own list may reach' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./agent-add.js')),
  },
  {
    words: 'serve agent remove',
    summary: 'remove an agent from the local service; its handle stays reserved',
    arguments: [{ usage: '<handle>', about: '@owner.name or owner.name' }],
    examples: [
      { line: 'asp serve agent remove alice.bot', about: 'it leaves its sessions' },
      { line: 'asp serve agent remove alice.bot --json', about: 'for scripts' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./agent-remove.js')),
  },
  {
    words: 'serve agent pause',
    summary: 'pause an agent of the local service: nobody can reach it',
    arguments: [{ usage: '<handle>', about: '@owner.name or owner.name' }],
    examples: [
      { line: 'asp serve agent pause alice.bot', about: 'invitations to it are refused like those to nobody' },
      { line: 'asp serve agent resume alice.bot', about: 'undo it' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./agent-pause.js')),
  },
  {
    words: 'serve agent resume',
    summary: 'resume a paused agent of the local service',
    arguments: [{ usage: '<handle>', about: '@owner.name or owner.name' }],
    examples: [
      { line: 'asp serve agent resume alice.bot', about: 'it can be reached again' },
      { line: 'asp serve agent list', about: 'see which are paused' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./agent-resume.js')),
  },
  {
    words: 'serve client add',
    summary: 'a client id and secret for one agent of the local service, shown once',
    details:
      'For programs that sign in without a browser: set ASP_CLIENT_ID and ASP_CLIENT_SECRET. A new agent is added.',
    arguments: [{ usage: '<handle>', about: 'the agent the client acts as' }],
    options: [{ flags: '--scopes <list>', about: 'what the client may do (all an agent may)' }],
    examples: [
      { line: 'asp serve client add @me.ci', about: 'id and secret as JSON' },
      { line: 'asp serve client add @me.ci --scopes sessions:read,realtime:read', about: 'for a reader' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./client-add.js')),
  },
];
