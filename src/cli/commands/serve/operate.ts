import { wait } from '../../../kit/clock.js';
import { formatBytes, formatQuantity } from '../../../kit/format.js';
import type { LocalServiceRecord } from '../../../wire/schemas/local-service.js';
import type { OperatorOperation, OperatorQuota, OperatorStatus } from '../../../wire/schemas/operator.js';
import { type Argument, command, describeTable } from '../../command.js';
import { changeEach, MAY_BE_PARTIAL, printResults } from '../../context/calls.js';
import { forget } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import type { OperatorInput } from '../../context/operator.js';
import { CliError, usageError } from '../../errors.js';
import { isElsewhere, listRunningServices, localNotRunning } from '../../profile/local-service.js';
import { factLine } from '../../terminal/fact-line.js';
import { showProgress } from '../../terminal/progress.js';
import { isoSeconds, timeColumn } from '../../terminal/relative-time.js';
import { durationText, ifGiven, readDuration, readHandle, readHandles } from '../../values.js';

/** Of `asp serve --retention`. */
const LONGEST_AGE_MS = 10 * 366 * 86_400_000;

const HANDLE = { usage: '<handle>', about: '@owner.name or owner.name' } as const satisfies Argument;

/** The name of an account: the part of a handle before the dot. */
export function readAccount(text: string): string {
  const account = text.replace(/^@/, '');
  if (/^[a-z0-9_-]{1,64}$/.test(account)) return account;
  throw usageError(`'${account}' is not an account.`, {
    why: 'use the part of a handle before the dot: alice in @alice.bot.',
  });
}

/** Calls an operator endpoint of the service of `--operator`, or else of the running local one. */
export async function callService<Name extends OperatorOperation>(
  context: Context,
  operation: Name,
  input?: OperatorInput,
) {
  const { callOperator, findOperatorAccess } = await import('../../context/operator.js');
  return callOperator(context, await findOperatorAccess(context), operation, input);
}

export const serveStatus = command({
  path: 'serve status',
  summary: 'show whether the local service is running, and what it holds',
  examples: [
    { line: 'asp serve status', about: 'a few lines' },
    { line: 'asp serve status --json', about: 'for scripts; exit 9 if it is not running' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: 'the running service, one fact per line',
  async run(context) {
    const { callOperator, findOperatorAccess, isLocal } = await import('../../context/operator.js');
    const access = await findOperatorAccess(context);
    const status = await callOperator(context, access, 'readStatus');
    const { secret: _, ...addresses } = access;
    const where = isLocal(access) ? access : { url: new URL(access.operator_url).origin, data: undefined };
    const fact = (name: string, text: string): string => factLine(context.streams.stdout, name, text);
    await context.output.document({ ...addresses, url: where.url, data: where.data, ...status }, (safe, style) =>
      [
        `${style.bold('running')} at ${safe.url}`,
        fact('process', `${safe.pid}, version ${safe.version}`),
        ...(safe.not_ready === null ? [] : [fact('ready', `no: ${safe.not_ready}`)]),
        ...(safe.data === undefined ? [] : [fact('data', safe.data)]),
        ...countFacts(safe).map(([name, text]) => fact(name, text)),
        fact('sign-up', safe.sign_up),
        fact('quota', quotaText(safe.quota)),
      ].join('\n'),
    );
  },
});

function countFacts({ accounts, agents, sessions, sockets }: OperatorStatus): [name: string, text: string][] {
  if (accounts === null || agents === null || sessions === null) return [];
  const held = [
    formatQuantity(accounts, 'account'),
    formatQuantity(agents, 'agent'),
    formatQuantity(sessions, 'session'),
  ];
  return [
    ['holds', held.join(', ')],
    ['sockets', String(sockets)],
  ];
}

function quotaText(quota: OperatorQuota | null): string {
  if (quota === null) return 'none (--limits off)';
  const { agents, clients, attachment_bytes: bytes, sessions_per_hour: sessions } = quota;
  return `${formatQuantity(agents, 'agent')}, ${formatQuantity(clients, 'client')}, ${formatBytes(bytes)} of attachments, ${formatQuantity(sessions, 'new session')} an hour for each account`;
}

export const serveRetention = command({
  path: 'serve retention',
  summary: 'list the old sessions that --retention deletes next, or would delete',
  details: [
    'An ended session is deleted once nothing has happened in it for the time of asp serve --retention. Active sessions',
    'are never deleted. This command deletes nothing.',
  ].join('\n'),
  options: [{ flags: '--older-than <duration>', about: 'a different age than that of --retention: 90d' }],
  examples: [
    { line: 'asp serve retention', about: 'what is due now' },
    { line: 'asp serve retention --older-than 90d', about: 'before you start the service with --retention 90d' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: 'the setting and what is due, one fact per line',
  parse: (args) => ({
    ageMs: ifGiven(args.text('older-than'), (text) => readDuration('--older-than', text, LONGEST_AGE_MS)),
  }),
  async run(context, { ageMs }) {
    const age = ageMs === undefined ? 'configured' : String(ageMs);
    const due = await callService(context, 'readRetention', { path: { age } });
    const fact = (name: string, text: string): string =>
      factLine(context.streams.stdout, name, text, 'retention '.length);
    await context.output.document(due, (safe, style) =>
      [
        `${style.bold('retention')} ${safe.retention_ms === null ? 'off: nothing is deleted' : durationText(safe.retention_ms)}`,
        ...(safe.age_ms === null
          ? []
          : [
              fact('age', `${durationText(safe.age_ms)} after the last event of an ended session`),
              fact(
                'due',
                `${formatQuantity(safe.sessions, 'session')}, ${formatQuantity(safe.events, 'event')}, ${formatQuantity(safe.attachments, 'attachment')} (${formatBytes(safe.attachment_bytes)})`,
              ),
            ]),
        ...(safe.oldest_ended_at === null ? [] : [`oldest    ended ${isoSeconds(safe.oldest_ended_at)}`]),
      ].join('\n'),
    );
  },
});

const STOP_POLL_MS = 50;

/** If its process cannot be seen from here, its record shows it: a service that stops removes that. */
async function isThere({ machine, paths }: Context, record: LocalServiceRecord): Promise<boolean> {
  if (!isElsewhere(record)) return machine.isProcessAlive(record.pid);
  return (await listRunningServices(paths, machine)).some(({ secret }) => secret === record.secret);
}

/** A service with that URL, or else the only one of this home directory. Never one that is merely the latest. */
async function findServiceToStop(context: Context, named: string | undefined): Promise<LocalServiceRecord> {
  const { machine, paths, globals } = context;
  const url = named ?? (globals.profile ? (await context.profile()).baseUrl : undefined);
  const running = await listRunningServices(paths, machine);
  const isMeant = (record: LocalServiceRecord): boolean =>
    url === undefined
      ? record.home === undefined || record.home === machine.homeDirectory
      : [record.url, record.operator_url].some((own) => new URL(own).origin === new URL(url).origin);
  const [meant, ...more] = running.filter(isMeant);
  if (meant !== undefined && more.length === 0) return meant;
  if (running.length === 0) throw localNotRunning(await context.endedService());
  const list = running.map(({ url: at, pid, data }) => `${at} (process ${pid}, data ${data})`).join(', ');
  if (meant !== undefined)
    throw usageError('Several local services are running: name the one to stop.', {
      why: `running: ${list}.`,
      next: ['asp', 'serve', 'stop', meant.url],
    });
  const where = url === undefined ? 'from this home directory' : `at ${url}`;
  throw new CliError('ASP_LOCAL_NOT_RUNNING', {
    message: `No local service ${where} is running.`,
    why: `others are, and were left alone: ${list}.`,
    next: ['asp', 'serve'],
    isRetryable: true,
  });
}

export const serveStop = command({
  path: 'serve stop',
  summary: 'stop the local service and wait until it is gone',
  details: [
    'Without a URL, it stops the one service that was started from this home directory. If several are running, it stops',
    'none and lists them.',
  ].join('\n'),
  arguments: [{ usage: '[url]', about: 'the service to stop, such as http://127.0.0.1:8744' }],
  examples: [
    { line: 'asp serve stop', about: 'finishes open requests first' },
    { line: 'asp serve stop http://127.0.0.1:8745', about: 'one of several' },
    { line: 'asp serve stop --timeout 5s', about: 'exit 8 if it takes longer' },
  ],
  effect: 'local',
  stdout: 'the base URL',
  parse(args) {
    const url = args.argument('url');
    if (url === undefined || (/^https?:/i.test(url) && URL.canParse(url))) return { url };
    throw usageError(`'${url}' is not a URL.`, { why: 'the URL of a local service looks like http://127.0.0.1:8744.' });
  },
  async run(context, { url }) {
    const { callOperator } = await import('../../context/operator.js');
    const record = await findServiceToStop(context, url);
    await callOperator(context, record, 'stopService');
    const gone = async (): Promise<void> => {
      while (await isThere(context, record)) await wait(context.clock, STOP_POLL_MS, context.signal);
    };
    await showProgress(context, 'waiting for the service to finish open requests', gone());
    await context.output.document({ url: record.url, pid: record.pid, stopped: true }, (safe) => safe.url);
  },
});

export const serveOpen = command({
  path: 'serve open',
  summary: 'open the local dashboard in the browser, signed in',
  details: [
    'Signs in as a local account: the only one, or that of the first seeded agent, unless --account names another. The',
    'printed link works once, within a minute, and only on this machine.',
  ].join('\n'),
  options: [
    { flags: '--account <name>', about: 'sign in as this account: alice for @alice.bot' },
    { flags: '--operator', about: 'open the operator’s area, if the account is an operator' },
    { flags: '--no-browser', about: 'only print the link' },
  ],
  examples: [
    { line: 'asp serve open', about: 'agents, sessions, and live messages' },
    {
      line: 'asp serve open --account alice --no-browser',
      about: 'a link to open yourself',
    },
    { line: 'asp serve open --operator', about: 'the state of the service, accounts, agents and the log' },
  ],
  effect: 'local',
  stdout: 'the link, which signs in once',
  parse: (args) => ({
    account: ifGiven(args.text('account'), readAccount),
    isOperator: args.flag('operator'),
    opensBrowser: !args.flag('no-browser'),
  }),
  async run(context, { account, isOperator, opensBrowser }) {
    const { output } = context;
    const body = { ...(account !== undefined && { account }), ...(isOperator && { operator: true }) };
    const link = await callService(context, 'createSignInLink', { body });
    const { openIfPossible } = await import('../../terminal/browser.js');
    // The link is valid only once, for a minute and on this machine; the secret that created it is not in any address.
    const isOpened = opensBrowser && (await openIfPossible(link.url, context));
    await output.document({ ...link, opened: isOpened }, (safe) => safe.url);
    await output.note(
      isOpened
        ? `The browser opens the dashboard, signed in as ${link.account}.`
        : `Open it on this machine within a minute: it signs in as ${link.account}, once.`,
    );
  },
});

export const serveKeysList = command({
  path: 'serve keys list',
  summary: 'list the keys that sign local access tokens',
  examples: [
    { line: 'asp serve keys list', about: 'the signing key, the next one, and how long old ones stay published' },
    { line: 'asp serve keys list --json', about: 'for scripts' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: describeTable('key, state, signs from, published until'),
  async run(context) {
    const { keys } = await callService(context, 'listSigningKeys');
    const now = context.clock.now();
    await context.output.list({ items: keys, next_cursor: null }, [
      { title: 'key', value: (key) => key.kid },
      { title: 'state', value: (key) => key.state },
      { ...timeColumn('signs from', ({ signs_from }) => signs_from, now), isOptional: true },
      { ...timeColumn('published until', ({ published_until }) => published_until, now), isOptional: true },
    ]);
  },
});

export const serveKeysRotate = command({
  path: 'serve keys rotate',
  summary: 'publish a new signing key, which takes over after ten minutes',
  details: [
    'No token fails: the new key is published ten minutes before it signs, and the old one until its last token has',
    'expired. Keys also rotate automatically every 90 days.',
  ].join('\n'),
  examples: [
    { line: 'asp serve keys rotate', about: 'the next key, and when it takes over' },
    { line: 'asp serve keys rotate --json', about: 'for scripts: rotated is false if one is already waiting' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the next key and when it begins to sign',
  async run(context) {
    const { rotated, keys } = await callService(context, 'rotateSigningKeys');
    const next = keys.find(({ state }) => state === 'next');
    if (!rotated && next !== undefined)
      await context.output.note('Nothing was changed: a new key is already published and about to take over.');
    await context.output.document({ rotated, next: next ?? null, keys }, (safe) =>
      safe.next === null ? '' : `${safe.next.kid} signs from ${isoSeconds(safe.next.signs_from)}`,
    );
  },
});

export const serveAgentList = command({
  path: 'serve agent list',
  summary: 'list local agents',
  examples: [
    { line: 'asp serve agent list', about: 'a table' },
    { line: 'asp serve agent list --json', about: 'for scripts' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: describeTable('handle, policy, state'),
  async run(context) {
    const { agents } = await callService(context, 'listOperatorAgents');
    await context.output.list({ items: agents, next_cursor: null }, [
      { title: 'handle', value: (agent) => agent.handle },
      { title: 'policy', value: (agent) => agent.inbound_policy, isOptional: true },
      { title: 'state', value: (agent) => (agent.paused ? 'paused' : agent.is_online ? 'online' : 'offline') },
    ]);
  },
});

export const serveAgentAdd = command({
  path: 'serve agent add',
  summary: 'add agents to the local service, and their accounts if new',
  details: MAY_BE_PARTIAL,
  arguments: [{ usage: '<handle...>', about: '@owner.name or owner.name' }],
  options: [
    {
      flags: '--policy <open|allowlist|hold>',
      about: 'who can reach them (default open)',
      choices: ['open', 'allowlist', 'hold'],
    },
    { flags: '--display-name <text>', about: 'display name, shown next to the handle' },
  ],
  examples: [
    { line: 'asp serve agent add alice.bot', about: 'an agent that anyone here can reach' },
    { line: 'asp serve agent add ops.bot --policy allowlist', about: 'an agent that only its allowlist can reach' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the handles, one per line',
  parse: (args) => ({
    handles: readHandles(args.argument('handle')),
    policy: args.text('policy') ?? 'open',
    displayName: args.text('display-name'),
  }),
  async run(context, { handles, policy, displayName }) {
    const name = displayName === undefined ? {} : { display_name: displayName };
    const print = printResults<{ handle: string }>(context, { title: 'handle', value: ({ handle }) => handle });
    await changeEach(context, { names: handles, did: 'Added', print }, (handle) =>
      callService(context, 'addOperatorAgent', { body: { handle, inbound_policy: policy, ...name } }),
    );
  },
});

export const serveAgentRemove = command({
  path: 'serve agent remove',
  summary: 'remove a local agent; its handle stays reserved',
  arguments: [HANDLE],
  examples: [
    { line: 'asp serve agent remove alice.bot', about: 'it leaves its sessions' },
    { line: 'asp serve agent remove alice.bot --json', about: 'for scripts' },
  ],
  effect: 'local',
  isForOperators: true,
  isDestructive: true,
  stdout: 'the handle',
  parse: (args) => ({ handle: readHandle(args.argument('handle')) }),
  async run(context, { handle }) {
    await callService(context, 'removeOperatorAgent', { path: { handle } });
    await context.output.document({ handle, removed: true }, (safe) => safe.handle);
    forget(context, 'handles', [handle]);
  },
});

async function setPaused(context: Context, handle: string, paused: boolean): Promise<void> {
  const agent = await callService(context, 'updateOperatorAgent', { path: { handle }, body: { paused } });
  await context.output.document(agent, (safe) => safe.handle);
}

export const serveAgentPause = command({
  path: 'serve agent pause',
  summary: 'pause a local agent: no one can reach it',
  arguments: [HANDLE],
  examples: [
    { line: 'asp serve agent pause alice.bot', about: 'invitations fail as if the agent did not exist' },
    { line: 'asp serve agent resume alice.bot', about: 'make it reachable again' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the handle',
  parse: (args) => ({ handle: readHandle(args.argument('handle')) }),
  run: (context, { handle }) => setPaused(context, handle, true),
});

export const serveAgentResume = command({
  path: 'serve agent resume',
  summary: 'resume a paused local agent',
  arguments: [HANDLE],
  examples: [
    { line: 'asp serve agent resume alice.bot', about: 'it can be reached again' },
    { line: 'asp serve agent list', about: 'shows which are paused' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the handle',
  parse: (args) => ({ handle: readHandle(args.argument('handle')) }),
  run: (context, { handle }) => setPaused(context, handle, false),
});

export const serveClientAdd = command({
  path: 'serve client add',
  summary: 'create a client id and secret for a local agent',
  details:
    'For programs that sign in without a browser: set ASP_CLIENT_ID and ASP_CLIENT_SECRET. Adds the agent if it is new.',
  arguments: [{ usage: '<handle>', about: 'the agent that the client acts as' }],
  options: [{ flags: '--scopes <list>', about: 'scopes of the client (default: all agent scopes)' }],
  examples: [
    { line: 'asp serve client add @me.ci', about: 'id and secret as JSON' },
    { line: 'asp serve client add @me.ci --scopes sessions:read,realtime:read', about: 'a client that can only read' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the client id and its secret, as one line of JSON, shown only once',
  async parse(args) {
    const { isScope } = await import('../../../wire/scope.js');
    const scopes = args
      .text('scopes')
      ?.split(/[\s,]+/)
      .filter((scope) => scope !== '');
    const unknown = scopes?.find((scope) => !isScope(scope));
    if (unknown !== undefined) throw usageError(`'${unknown}' is not a scope.`);
    return { handle: readHandle(args.argument('handle')), scopes: scopes?.filter(isScope) };
  },
  async run(context, { handle, scopes }) {
    const body = scopes === undefined ? { handle } : { handle, scopes };
    const client = await callService(context, 'addOperatorClient', { body });
    if (client.created_agent) await context.output.note(`${handle} is new, so it was added.`);
    await context.output.note('The secret is shown only once: store it as ASP_CLIENT_SECRET.');
    await context.output.record(client);
  },
});

export const serveClientList = command({
  path: 'serve client list',
  summary: 'list local clients that have a secret',
  details: 'Includes clients that people created in the dashboard. Secrets are not shown: only hashes are stored.',
  examples: [
    { line: 'asp serve client list', about: 'a table, by agent' },
    { line: 'asp serve client list --json', about: 'with scopes and last use' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: describeTable('client, agent, name, created, last used'),
  async run(context) {
    const { clients } = await callService(context, 'listOperatorClients');
    const now = context.clock.now();
    await context.output.list({ items: clients, next_cursor: null }, [
      { title: 'client', value: (client) => client.client_id },
      { title: 'agent', value: (client) => client.handle, isFlexible: 'last' },
      { title: 'name', value: (client) => client.name, isFlexible: true, isOptional: 'below' },
      { ...timeColumn('created', ({ created_at }) => created_at, now), isOptional: true },
      { ...timeColumn('last used', ({ last_used_at }) => last_used_at, now, 'never'), isOptional: true },
    ]);
  },
});

export const serveClientRevoke = command({
  path: 'serve client revoke',
  summary: 'revoke a local client',
  details: 'Its secret stops working, and its WebSockets close at once. Its agent stays. This cannot be undone.',
  arguments: [{ usage: '<client-id>', about: 'an id from asp serve client list' }],
  examples: [
    { line: 'asp serve client revoke oac_01M80GF51B0GB2QQXBEJWRFZF6', about: 'asks for confirmation' },
    { line: 'asp serve client revoke oac_01M80GF51B0GB2QQXBEJWRFZF6 --yes', about: 'for scripts' },
  ],
  effect: 'local',
  isForOperators: true,
  isDestructive: true,
  stdout: 'the client id',
  parse: (args) => ({ client: args.argument('client-id') }),
  async run(context, { client }) {
    if (!(await context.prompts.confirm(`Revoke ${client}? This cannot be undone.`, '--yes')))
      throw new CliError('ASP_CANCELED', { message: 'Canceled. Nothing was revoked.' });
    await callService(context, 'revokeOperatorClient', { path: { client } });
    await context.output.document({ client_id: client, revoked: true }, (safe) => safe.client_id);
  },
});
