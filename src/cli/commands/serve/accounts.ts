import { resolve } from 'node:path';
import { formatBytes, formatQuantity } from '../../../kit/format.js';
import { INVITATION_LIFETIME_MS } from '../../../wire/limit.js';
import type { UpdateOperatorAccountRequest } from '../../../wire/schemas/operator.js';
import { type Argument, command, describeTable } from '../../command.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { factLine } from '../../terminal/fact-line.js';
import { isoSeconds, timeColumn } from '../../terminal/relative-time.js';
import { readDurationFrom } from '../../values.js';
import { callService, readAccount } from './operate.js';

const ACCOUNT = {
  usage: '<account>',
  about: 'the name of the account: alice for @alice.bot',
} as const satisfies Argument;
const TIERS = ['standard', 'trusted'] as const;

export const serveAccountList = command({
  path: 'serve account list',
  summary: 'list local accounts',
  examples: [
    { line: 'asp serve account list', about: 'a table' },
    { line: 'asp serve account list --json', about: 'for scripts' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: describeTable('account, state, tier, agents, created'),
  async run(context) {
    const { accounts } = await callService(context, 'listOperatorAccounts');
    await context.output.list({ items: accounts, next_cursor: null }, [
      { title: 'account', value: (account) => account.username },
      { title: 'state', value: (account) => account.state },
      { title: 'tier', value: (account) => (account.is_local ? 'local' : account.tier) },
      { title: 'agents', value: (account) => String(account.agents) },
      { ...timeColumn('created', ({ created_at }) => created_at, context.clock.now()), isOptional: true },
    ]);
  },
});

const ofMost = (most: number | undefined, format: (count: number) => string = String): string =>
  most === undefined ? '' : ` of ${format(most)}`;

export const serveAccountShow = command({
  path: 'serve account show',
  summary: 'show a local account and its usage',
  arguments: [ACCOUNT],
  examples: [
    { line: 'asp serve account show alice', about: 'a few lines' },
    { line: 'asp serve account show alice --json', about: 'for scripts' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: 'the account, one fact per line',
  parse: (args) => ({ account: readAccount(args.argument('account')) }),
  async run(context, { account }) {
    const found = await callService(context, 'readOperatorAccount', { path: { account } });
    const fact = (name: string, text: string): string => factLine(context.streams.stdout, name, text);
    await context.output.document(found, (safe, style) =>
      [
        `${style.bold(safe.username)}, ${safe.state}, “${safe.display_name}”`,
        fact('tier', safe.is_local ? 'local: it belongs to the person who runs the service' : safe.tier),
        ...(safe.is_operator ? [fact('operator', 'yes: it may use the operator’s area of the dashboard')] : []),
        fact('created', isoSeconds(safe.created_at)),
        fact('agents', `${safe.agents}${ofMost(safe.quota?.agents)}`),
        fact('clients', `${safe.clients}${ofMost(safe.quota?.clients)}`),
        fact(
          'storage',
          `${formatBytes(safe.attachment_bytes)}${ofMost(safe.quota?.attachment_bytes, formatBytes)} of attachments`,
        ),
        ...(safe.quota === null ? [] : [fact('sessions', `at most ${safe.quota.sessions_per_hour} new ones an hour`)]),
      ].join('\n'),
    );
  },
});

async function change(context: Context, account: string, body: UpdateOperatorAccountRequest): Promise<void> {
  const changed = await callService(context, 'updateOperatorAccount', { path: { account }, body });
  await context.output.document(changed, (safe) => safe.username);
}

export const serveAccountSuspend = command({
  path: 'serve account suspend',
  summary: 'suspend a local account: no one can act for it',
  details: [
    'This signs out its browsers and apps, closes its sockets and invalidates its tokens, and no one can invite its',
    'agents. After asp serve account resume, clients with a secret work again, and people have to sign in.',
  ].join('\n'),
  arguments: [ACCOUNT],
  examples: [
    { line: 'asp serve account suspend alice', about: 'at once' },
    { line: 'asp serve account resume alice', about: 'undo it' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the account',
  parse: (args) => ({ account: readAccount(args.argument('account')) }),
  run: (context, { account }) => change(context, account, { suspended: true }),
});

export const serveAccountResume = command({
  path: 'serve account resume',
  summary: 'resume a suspended local account',
  arguments: [ACCOUNT],
  examples: [
    { line: 'asp serve account resume alice', about: 'people sign in again' },
    { line: 'asp serve account list', about: 'shows which are suspended' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the account',
  parse: (args) => ({ account: readAccount(args.argument('account')) }),
  run: (context, { account }) => change(context, account, { suspended: false }),
});

export const serveAccountTier = command({
  path: 'serve account tier',
  summary: 'set whether you trust a local account',
  details: 'Trusted accounts may have open agents, and the --account-… limits of asp serve do not apply to them.',
  arguments: [ACCOUNT, { usage: '<standard|trusted>', about: 'whether you trust it; new accounts are standard' }],
  examples: [
    { line: 'asp serve account tier alice trusted', about: 'someone you know' },
    { line: 'asp serve account tier alice standard', about: 'undo it; open agents stay open' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the account',
  parse(args) {
    const text = args.argument('standard|trusted');
    const tier = TIERS.find((candidate) => candidate === text);
    if (tier === undefined) throw usageError(`'${text}' is not a tier: choose standard or trusted.`);
    return { account: readAccount(args.argument('account')), tier };
  },
  run: (context, { account, tier }) => change(context, account, { tier }),
});

export const serveAccountOperator = command({
  path: 'serve account operator',
  summary: 'set whether a local account is an operator',
  details: [
    'Operators get an extra area in the dashboard, with all accounts and the state of the service. There they can do',
    'the same as the other asp serve account commands except export, but not to other operators. Only this command',
    'can make someone an operator.',
  ].join('\n'),
  arguments: [ACCOUNT, { usage: '<yes|no>', about: 'whether it is an operator; new accounts are not' }],
  examples: [
    { line: 'asp serve account operator alice yes', about: 'adds “Operator” to the account menu in alice’s dashboard' },
    { line: 'asp serve account operator alice no', about: 'undo it, at once' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the account',
  parse(args) {
    const text = args.argument('yes|no');
    if (text !== 'yes' && text !== 'no') throw usageError(`'${text}' is not an answer: choose yes or no.`);
    return { account: readAccount(args.argument('account')), operator: text === 'yes' };
  },
  run: (context, { account, operator }) => change(context, account, { operator }),
});

export const serveAccountExport = command({
  path: 'serve account export',
  summary: 'save all data of a local account to a file',
  details: [
    'Writes the JSON document that its owner can download in the settings: the account, its agents, and every event that',
    'they may see, including messages from others. It contains no secrets and no attachments. The log of actions records',
    'the export.',
  ].join('\n'),
  arguments: [ACCOUNT, { usage: '<file>', about: 'the file to write, readable only by you' }],
  options: [{ flags: '--force', about: 'replace an existing file' }],
  examples: [
    { line: 'asp serve account export alice alice.json', about: 'for someone who asks for their data' },
    { line: 'asp serve account export alice alice.json --force', about: 'replacing an earlier one' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the path of the file',
  parse: (args) => ({
    account: readAccount(args.argument('account')),
    file: args.argument('file'),
    isForced: args.flag('force'),
  }),
  async run(context, { account, file: named, isForced }) {
    const [{ findOperatorAccess, openOperator }, { saveFile }] = await Promise.all([
      import('../../context/operator.js'),
      import('../attachment/transfer.js'),
    ]);
    const file = resolve(context.machine.workingDirectory, named);
    const access = await findOperatorAccess(context);
    async function* bytes(): AsyncGenerator<Uint8Array> {
      yield* await openOperator(context, access, 'exportOperatorAccount', { path: { account } });
    }
    await saveFile(file, bytes(), { isForced, random: context.random, mode: 0o600 });
    await context.output.document({ account, file }, (safe) => safe.file);
  },
});

export const serveAccountRemove = command({
  path: 'serve account remove',
  summary: 'remove a local account and its agents, for good',
  details: [
    'Its agents leave their sessions; their messages stay with the recipients. The name can never be used again.',
    'With --erase, sessions in which only its agents ever took part are deleted too, with their attachments, and so is what was',
    'written about its agents. To stop someone for now, use asp serve account suspend.',
  ].join('\n'),
  arguments: [ACCOUNT],
  options: [{ flags: '--erase', about: 'also delete what no one else can see' }],
  examples: [
    { line: 'asp serve account remove alice', about: 'asks for confirmation' },
    { line: 'asp serve account remove alice --erase --yes', about: 'for someone who wants their data erased' },
  ],
  effect: 'local',
  isForOperators: true,
  isDestructive: true,
  stdout: 'the account',
  parse: (args) => ({ account: readAccount(args.argument('account')), erases: args.flag('erase') }),
  async run(context, { account, erases }) {
    const path = { account };
    const { agents } = await callService(context, 'readOperatorAccount', { path });
    const what = erases ? 'Remove and erase' : 'Remove';
    const question = `${what} the account ${account} and its agents (${agents})? This cannot be undone.`;
    if (!(await context.prompts.confirm(question, '--yes')))
      throw new CliError('ASP_CANCELED', { message: 'Canceled. Nothing was removed.' });
    if (!erases) {
      await callService(context, 'removeOperatorAccount', { path });
      return context.output.document({ account, removed: true }, (safe) => safe.account);
    }
    const { sessions, events, attachments } = await callService(context, 'eraseOperatorAccount', { path });
    await context.output.note(
      `Erased: ${formatQuantity(sessions, 'session')}, ${formatQuantity(events, 'event')}, ${formatQuantity(attachments, 'attachment')}.`,
    );
    await context.output.document(
      { account, removed: true, erased: { sessions, events, attachments } },
      (safe) => safe.account,
    );
  },
});

export const serveAccountResetPassword = command({
  path: 'serve account reset-password',
  summary: 'create a link for setting a new password',
  details: [
    'For people who forgot their password: send them the link. It works once, within an hour. Setting the new password',
    'signs out every browser and app of the account, and removes its passkeys.',
  ].join('\n'),
  arguments: [ACCOUNT],
  examples: [
    { line: 'asp serve account reset-password alice', about: 'the link; earlier links stop working' },
    { line: 'asp serve account reset-password alice --json', about: 'for scripts' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the link, shown only once',
  parse: (args) => ({ account: readAccount(args.argument('account')) }),
  async run(context, { account }) {
    const link = await callService(context, 'createPasswordLink', { path: { account } });
    await context.output.document({ account, url: link.url, expires_at: link.expires_at }, (safe) => safe.url);
    await context.output.note(`Anyone who opens the link within an hour can set the password of ${account}, once.`);
  },
});

const DEFAULT_LIFETIME = '7d';

export const serveInviteCreate = command({
  path: 'serve invite create',
  summary: 'invite one person to sign up on the local service',
  details: 'Needed if asp serve runs with --sign-up invite.',
  options: [{ flags: '--expires <duration>', about: `how long it is valid (default ${DEFAULT_LIFETIME})` }],
  examples: [
    { line: 'asp serve invite create', about: 'a link for one person' },
    { line: 'asp serve invite create --expires 1d --json', about: 'for scripts' },
  ],
  effect: 'local',
  isForOperators: true,
  stdout: 'the link, shown only once',
  parse: (args) => ({
    lifetimeMs: readDurationFrom('--expires', args.text('expires') ?? DEFAULT_LIFETIME, INVITATION_LIFETIME_MS),
  }),
  async run(context, { lifetimeMs }) {
    const link = await callService(context, 'createInvitation', { body: { lifetime_ms: lifetimeMs } });
    await context.output.document(link, (safe) => safe.url);
    await context.output.note('One person can sign up with it. It is shown only once.');
  },
});

export const serveInviteList = command({
  path: 'serve invite list',
  summary: 'list invitations, and who used them',
  examples: [
    { line: 'asp serve invite list', about: 'a table' },
    { line: 'asp serve invite list --json', about: 'for scripts' },
  ],
  effect: 'read',
  isForOperators: true,
  stdout: describeTable('id, state, account, expires'),
  async run(context) {
    const { invitations } = await callService(context, 'listInvitations');
    await context.output.list({ items: invitations, next_cursor: null }, [
      { title: 'id', value: (invitation) => invitation.id },
      { title: 'state', value: (invitation) => invitation.state },
      { title: 'account', value: (invitation) => invitation.account ?? '', isOptional: true },
      { ...timeColumn('expires', ({ expires_at }) => expires_at, context.clock.now()), isOptional: true },
    ]);
  },
});

export const serveInviteRevoke = command({
  path: 'serve invite revoke',
  summary: 'revoke an invitation',
  details: 'An account created with it stays: see asp serve account.',
  arguments: [{ usage: '<id>', about: 'an id from asp serve invite list' }],
  examples: [
    { line: 'asp serve invite revoke lnk_01KAR5XJ5Z3YV0G6TWQ8N4M2PC', about: 'it can no longer be used' },
    { line: 'asp serve invite list', about: 'shows the remaining ones' },
  ],
  effect: 'local',
  isForOperators: true,
  isDestructive: true,
  stdout: 'the id',
  parse: (args) => ({ id: args.argument('id') }),
  async run(context, { id }) {
    await callService(context, 'revokeInvitation', { path: { id } });
    await context.output.document({ id, revoked: true }, (safe) => safe.id);
  },
});
