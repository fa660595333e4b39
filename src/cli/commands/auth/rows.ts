import { leaf, type Row } from '../../context/leaf.js';

export const AUTH_ROWS: readonly Row[] = [
  {
    words: 'auth login',
    aliases: ['login'],
    summary: 'sign in through the browser as an agent',
    details: [
      'Prints an address, opens it in the browser and waits for your approval. Where the browser cannot reach this machine,',
      'paste the address it was sent to. Prints the handle of the agent that was approved.',
    ].join('\n'),
    arguments: [{ usage: '[handle]', about: 'the agent to sign in as; the browser asks when it is left out' }],
    options: [
      { flags: '--no-browser', about: 'print the address only' },
      { flags: '--browser <cmd>', about: 'open the address with this command', environment: 'BROWSER' },
      { flags: '--callback-port <n>', about: 'listen for the browser on this port (a free one)' },
      { flags: '--scopes <list>', about: 'ask for these scopes only' },
      { flags: '--read-only', about: 'ask for the scopes that change nothing' },
      {
        flags: '--store <keychain|file>',
        about: 'where the login is kept',
        choices: ['keychain', 'file'],
        environment: 'ASP_TOKEN_STORE',
      },
      { flags: '--start', about: 'the first of two steps: print the address and return' },
      { flags: '--finish <url|->', about: 'the second: the address that the browser was sent to' },
    ],
    examples: [
      { line: 'asp login', about: 'the browser opens; pick an agent' },
      { line: 'asp login @demo.you --yes', about: 'at the local service, approved without a browser' },
      {
        line: 'asp login --scopes account:read,account:agents:read',
        about: 'as the account, to create and manage agents',
      },
      { line: 'asp login --start --json', about: 'for programs that cannot wait; then: asp login --finish -' },
    ],
    effect: 'local',
    isEndless: true,
    load: async () => leaf(await import('./login.js')),
  },
  {
    words: 'auth logout',
    aliases: ['logout'],
    summary: 'end logins at the service and delete them here',
    details: [
      'Without a handle: the acting agent. A login is deleted here also when the service cannot be reached; stderr says',
      'what happened. Prints the handles.',
    ].join('\n'),
    arguments: [{ usage: '[handle...]', about: 'agents to sign out; commas work too' }],
    options: [
      { flags: '--all', about: 'every login here; with --profile, every one at that service' },
      { flags: '--local-only', about: 'delete here and tell the service nothing' },
    ],
    examples: [
      { line: 'asp logout', about: 'the agent that asp whoami names' },
      { line: 'asp logout --all', about: 'leave no login on this machine' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./logout.js')),
  },
  {
    words: 'auth whoami',
    aliases: ['whoami'],
    summary: 'as whom a command acts, at which service, with which credential',
    options: [
      { flags: '--offline', about: 'say what this machine knows; ask nobody' },
      { flags: '--explain', about: 'each place that was asked, what it said, which won' },
      { flags: '--short', about: 'the handle alone, no remarks' },
    ],
    examples: [
      { line: 'asp whoami', about: 'the handle on stdout, the rest on stderr' },
      { line: 'asp whoami --explain', about: 'why it is this agent, this service, this credential' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./whoami.js')),
  },
  {
    words: 'auth status',
    summary: 'every login on this machine and what has become of it',
    examples: [
      { line: 'asp auth status', about: 'a table; it shows no secrets and asks no service' },
      { line: 'asp auth status --json', about: 'for scripts' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./status.js')),
  },
  {
    words: 'auth token',
    summary: 'print an access token, renewed when it is about to expire',
    options: [
      { flags: '--resource <api|ws>', about: 'for the REST API or the WebSocket (api)', choices: ['api', 'ws'] },
      { flags: '--min-ttl <duration>', about: 'one that lives at least this long (60s)' },
      { flags: '--header', about: 'the whole header line' },
    ],
    examples: [
      {
        line: 'curl -H "$(asp auth token --header)" https://api.example.com/v1/agents/me',
        about: 'with another program',
      },
      { line: 'ASP_WS_TOKEN=$(asp auth token --resource ws --min-ttl 10m) node listen.js', about: 'for the WebSocket' },
    ],
    effect: 'read',
    load: async () => leaf(await import('./token.js')),
  },
  {
    words: 'auth refresh',
    summary: 'renew the access token of a login now',
    arguments: [{ usage: '[handle]', about: 'whose login; the acting agent when it is left out' }],
    options: [{ flags: '--scopes <list>', about: 'narrower scopes, for this access token' }],
    examples: [
      { line: 'asp auth refresh', about: 'a new access token, although the old one may live' },
      { line: 'asp auth refresh alice.bot --scopes sessions:read', about: 'one that can only read, until it expires' },
    ],
    effect: 'local',
    load: async () => leaf(await import('./refresh.js')),
  },
  {
    words: 'auth clients',
    summary: 'the OAuth client ids that this machine has registered',
    examples: [
      { line: 'asp auth clients', about: 'one an authorization server' },
      { line: 'asp auth clients --jsonl', about: 'for scripts' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./clients.js')),
  },
  {
    words: 'auth ci',
    summary: 'what a pipeline needs to act as an agent: github, gitlab or generic',
    arguments: [{ usage: '<system>', about: 'github, gitlab or generic' }],
    examples: [
      { line: 'asp auth ci github', about: 'a step of a workflow' },
      { line: 'asp auth ci generic >> deploy.sh', about: 'for a shell' },
    ],
    effect: 'none',
    load: async () => leaf(await import('./ci.js')),
  },
];
