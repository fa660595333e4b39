import { suggest } from '../../../kit/suggest.js';
import { type Args, command, describeTable, type Option } from '../../command.js';
import { usageError } from '../../errors.js';
import { ifGiven, readHandle, readHandles } from '../../values.js';

const LOGIN_OPTIONS = [
  { flags: '--no-browser', about: 'print the address without opening a browser' },
  { flags: '--browser <cmd>', about: 'open the address with this command', environment: 'BROWSER' },
  { flags: '--callback-port <n>', about: 'port to listen on for the browser (default: a free one)' },
  {
    flags: '--callback-host <address>',
    about:
      'address to listen on for the browser, such as 0.0.0.0 in a container whose port is published (default: 127.0.0.1)',
  },
  { flags: '--scopes <list>', about: 'request only these scopes' },
  { flags: '--account', about: 'sign in as the account itself, to see all its sessions and manage its agents' },
  { flags: '--read-only', about: 'request only the read scopes' },
  {
    flags: '--store <keychain|file>',
    about: 'where to store the login',
    choices: ['keychain', 'file'],
    environment: 'ASP_TOKEN_STORE',
  },
  { flags: '--start', about: 'the first of two steps: print the address and exit' },
  { flags: '--finish <url|->', about: 'the second step: the address that the browser ended up at' },
] as const satisfies readonly Option[];
const LOGIN_ARGUMENT = {
  usage: '[handle]',
  about: 'the agent to sign in as (default: choose it in the browser)',
} as const;

export const authLogin = command({
  path: 'auth login',
  summary: 'sign in as an agent through the browser',
  details: [
    'Prints an address, opens it in the browser and waits for your approval. If the browser cannot reach this machine,',
    'paste the address it ended up at. Prints the handle of the approved agent.',
  ].join('\n'),
  arguments: [LOGIN_ARGUMENT],
  options: LOGIN_OPTIONS,
  examples: [
    { line: 'asp login', about: 'the browser opens; pick an agent' },
    { line: 'asp login @demo.you --yes', about: 'at the local service, approved without a browser' },
    {
      line: 'asp login --account',
      about: 'as the account, to create and manage agents',
    },
    { line: 'asp login --start --json', about: 'for programs that cannot wait; then: asp login --finish -' },
  ],
  effect: 'local',
  stdout: 'the handle; with --start the address to open',
  deadlineMs: 5 * 60_000,
  parse: parseLogin,
  run: async (context, options) => (await import('./login.js')).login(context, options),
});

export type LoginOptions = Awaited<ReturnType<typeof parseLogin>>;

async function parseLogin(args: Args<(typeof LOGIN_OPTIONS)[number], typeof LOGIN_ARGUMENT>) {
  args.refuseBoth('start', 'finish');
  args.refuseBoth('scopes', 'read-only');
  for (const other of ['scopes', 'read-only'] as const) args.refuseBoth('account', other);
  for (const other of ['callback-port', 'callback-host'] as const) args.refuseBoth('start', other);
  const handle = args.argument('handle');
  // The first step already set the agent and the scopes.
  for (const other of ['scopes', 'account', 'read-only', 'callback-port', 'callback-host'] as const)
    args.refuseBoth('finish', other);
  if (handle !== undefined && args.isSet('finish'))
    throw usageError('--finish and a handle cannot be used together.', { why: 'pass the handle to --start.' });
  const { ACCOUNT_SCOPES, AGENT_SCOPES, readCallbackHost, readScopes } = await import('./login.js');
  const isReadOnly = args.flag('read-only');
  const callbackPort = args.count('callback-port', { max: 65_535 });
  const standard = isReadOnly ? AGENT_SCOPES.filter((scope) => scope.endsWith(':read')) : AGENT_SCOPES;
  return {
    handle: ifGiven(handle, readHandle),
    opensBrowser: !args.flag('no-browser'),
    browserCommand: args.text('browser'),
    callbackPort: callbackPort ?? 0,
    callbackHost: readCallbackHost(args.text('callback-host'), callbackPort),
    scopes: args.flag('account') ? ACCOUNT_SCOPES : (readScopes(args.text('scopes')) ?? standard),
    store: args.text('store'),
    isStart: args.flag('start'),
    /** The address of the redirect, or `-` for standard input. */
    finish: args.text('finish'),
  };
}

export const authLogout = command({
  path: 'auth logout',
  summary: 'sign out: end logins at the service and delete them here',
  details: [
    'Without a handle: the acting agent. Deletes the login here even if the service cannot be reached; stderr says',
    'what happened. Prints the handles.',
  ].join('\n'),
  arguments: [{ usage: '[handle...]', about: 'agents to sign out; commas work too' }],
  options: [
    { flags: '--all', about: 'every login here; with --profile, every login at that service' },
    { flags: '--local-only', about: 'delete only here, without contacting the service' },
  ],
  examples: [
    { line: 'asp logout', about: 'the agent that asp whoami shows' },
    { line: 'asp logout --all', about: 'leave no login on this machine' },
  ],
  effect: 'local',
  isDestructive: true,
  stdout: 'the handles that were signed out',
  parse(args) {
    const handles = readHandles(args.argument('handle'));
    const isAll = args.flag('all');
    if (isAll && handles.length > 0) throw usageError('--all and handles cannot be used together.');
    return { handles, isAll, isLocalOnly: args.flag('local-only') };
  },
  run: async (context, options) => (await import('./stored-logins.js')).logout(context, options),
});

export const authWhoami = command({
  path: 'auth whoami',
  summary: 'show the current agent, service and credential',
  options: [
    { flags: '--offline', about: 'use only local data, without contacting the service' },
    { flags: '--explain', about: 'show every source, its value, and which one is used' },
    { flags: '--short', about: 'print only the handle, for prompts; a stored login answers without the service' },
  ],
  examples: [
    { line: 'asp whoami', about: 'the handle on stdout, the rest on stderr' },
    { line: 'asp whoami --explain', about: 'why this agent, this service, this credential' },
  ],
  effect: 'read',
  stdout: 'the handle; with --explain every source and its value',
  parse(args) {
    args.refuseBoth('explain', 'short');
    return { isOffline: args.flag('offline'), isExplaining: args.flag('explain'), isShort: args.flag('short') };
  },
  run: async (context, options) => (await import('./whoami.js')).whoami(context, options),
});

export const authStatus = command({
  path: 'auth status',
  summary: 'list every login on this machine and its state',
  examples: [
    { line: 'asp auth status', about: 'a table, without secrets and without contacting a service' },
    { line: 'asp auth status --json', about: 'for scripts' },
  ],
  effect: 'none',
  stdout: describeTable('handle, service, store, state, token, scopes'),
  run: async (context) => (await import('./stored-logins.js')).listLogins(context),
});

export const authToken = command({
  path: 'auth token',
  summary: 'print an access token, renewed if it is about to expire',
  options: [
    { flags: '--resource <api|ws>', about: 'for the REST API or the WebSocket (default api)', choices: ['api', 'ws'] },
    { flags: '--min-ttl <duration>', about: 'minimum remaining lifetime (default 60s)' },
    { flags: '--header', about: 'print the whole header line' },
  ],
  examples: [
    {
      line: 'curl -H "$(asp auth token --header)" https://api.example.com/v1/agents/me',
      about: 'with another program',
    },
    { line: 'ASP_WS_TOKEN=$(asp auth token --resource ws --min-ttl 10m) node listen.js', about: 'for the WebSocket' },
  ],
  effect: 'read',
  stdout: 'the access token; with --header the header line',
  parse: (args) => ({
    resource: args.text('resource') ?? 'api',
    minTtlMs: args.duration('min-ttl'),
    isHeader: args.flag('header'),
  }),
  async run(context, { resource, minTtlMs, isHeader }) {
    const { output, clock, signal } = context;
    const credential = await context.credential();
    const minTtlS = minTtlMs === undefined ? undefined : Math.ceil(minTtlMs / 1000);
    const { token, expiresAtMs, scope } = await credential.accessToken(resource, { minTtlS, signal });
    if (minTtlMs !== undefined && expiresAtMs !== undefined && expiresAtMs - clock.now() < minTtlMs)
      await output.note(
        `It expires in ${Math.floor((expiresAtMs - clock.now()) / 1000)} s: the service does not issue longer ones.`,
      );
    const document = {
      access_token: token,
      token_type: 'Bearer',
      resource,
      expires_at: expiresAtMs ?? null,
      scope: scope ?? null,
    };
    await output.document(document, (safe) =>
      isHeader ? `Authorization: Bearer ${safe.access_token}` : safe.access_token,
    );
  },
});

export const authRefresh = command({
  path: 'auth refresh',
  summary: 'renew the access token of a login now',
  arguments: [{ usage: '[handle]', about: 'handle of the login (default: the acting agent)' }],
  options: [{ flags: '--scopes <list>', about: 'narrower scopes for this access token' }],
  examples: [
    { line: 'asp auth refresh', about: 'a new access token, even if the old one is still valid' },
    { line: 'asp auth refresh alice.bot --scopes sessions:read', about: 'a token that can only read' },
  ],
  effect: 'local',
  stdout: 'the handle',
  async parse(args) {
    const { readScopes } = await import('./login.js');
    return { handle: ifGiven(args.argument('handle'), readHandle), scopes: readScopes(args.text('scopes')) };
  },
  run: async (context, options) => (await import('./stored-logins.js')).refreshStoredLogin(context, options),
});

export const authClients = command({
  path: 'auth clients',
  summary: 'list the OAuth client ids registered by this machine',
  examples: [
    { line: 'asp auth clients', about: 'one per authorization server' },
    { line: 'asp auth clients --jsonl', about: 'for scripts' },
  ],
  effect: 'none',
  stdout: describeTable('client id, authorization server, when it was registered'),
  run: async (context) => (await import('./stored-logins.js')).listClients(context),
});

export const authCi = command({
  path: 'auth ci',
  summary: 'print the setup a CI pipeline needs to act as an agent: github, gitlab or generic',
  arguments: [{ usage: '<system>', about: 'one of github, gitlab or generic' }],
  examples: [
    { line: 'asp auth ci github', about: 'a step of a workflow' },
    { line: 'asp auth ci generic >> deploy.sh', about: 'for a shell' },
  ],
  effect: 'none',
  stdout: 'the snippet',
  parse(args) {
    const typed = args.argument('system');
    const system = SYSTEMS.find((each) => each === typed);
    if (system !== undefined) return { system };
    const [near] = suggest(typed, SYSTEMS);
    throw usageError(`'${typed}' is not a supported system. Use ${SYSTEMS.join(', ')}.`, {
      next: ['asp', 'auth', 'ci', near ?? 'generic'],
    });
  },
  async run(context, { system }) {
    const { baseUrl, local } = await context.profile();
    const snippet = SNIPPET[system](baseUrl);
    await context.output.document({ system, base_url: baseUrl, snippet }, (safe) => safe.snippet);
    await context.output.note(
      local === undefined
        ? 'Create the client in the dashboard of the service, for one agent; its secret is shown once.'
        : 'To create a client at this local service: asp serve client add <handle>.',
    );
  },
});

const SYSTEMS = ['github', 'gitlab', 'generic'] as const;

/** The setup of a pipeline that acts as one agent, without a browser and without a file: a confidential client. */
const SNIPPET: Readonly<Record<(typeof SYSTEMS)[number], (baseUrl: string) => string>> = {
  github: (baseUrl) => `- name: Tell the agents
  env:
    ASP_PROFILE: ${baseUrl}
    ASP_CLIENT_ID: \${{ vars.ASP_CLIENT_ID }}
    ASP_CLIENT_SECRET: \${{ secrets.ASP_CLIENT_SECRET }}
  run: asp send @ops.bot "deploy ok" --end --once "deploy-$GITHUB_SHA" --json`,
  gitlab: (baseUrl) => `tell-the-agents:
  variables:
    ASP_PROFILE: ${baseUrl}
    # ASP_CLIENT_ID and ASP_CLIENT_SECRET (masked, protected): Settings, CI/CD, Variables
  script:
    - asp send @ops.bot "deploy ok" --end --once "deploy-$CI_COMMIT_SHA" --json`,
  generic: (baseUrl) => `export ASP_PROFILE=${baseUrl}
export ASP_CLIENT_ID=oac_…                       # from the service's dashboard
export ASP_CLIENT_SECRET_FILE=/run/secrets/asp   # private (0600), or a secret that is mounted
asp send @ops.bot "deploy ok" --end --once "deploy-$BUILD_ID" --json`,
};
