import { join } from 'node:path';
import { splitHandle } from '../../wire/handle.js';
import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX, SEARCH_LIMIT_DEFAULT, SEARCH_LIMIT_MAX } from '../../wire/limit.js';
import type { AgentAnswer, AgentSummaryAnswer } from '../../wire/schemas/agent.js';
import type { UpdateAgentRequest } from '../../wire/schemas/requests.js';
import { type Args, type Argument, command, describeTable, type Option } from '../command.js';
import { ACCOUNT_ACTOR, BY_ACCOUNT, callAsAccount } from '../context/account.js';
import { collectPages, notePage, printRequest, read, write } from '../context/calls.js';
import { forget, remember } from '../context/completion-memory.js';
import type { Context } from '../context/context.js';
import { unknownAgent } from '../context/explain.js';
import { loginsAt } from '../context/login-store.js';
import { CliError, usageError } from '../errors.js';
import { decodeText, readSource } from '../input.js';
import { pageOptions, readPageOptions } from '../options.js';
import { type Config, LOCAL_AGENT_SETTING, PROFILE_NAME } from '../profile/config.js';
import { changeProjectFile, PROJECT_FILE_NAME } from '../profile/project-file.js';
import type { ResolvedProfile } from '../profile/resolve-profile.js';
import { factLine } from '../terminal/fact-line.js';
import type { OutputStream } from '../terminal/streams.js';
import type { Style } from '../terminal/style.js';
import { ifGiven, readHandle, readSearchText } from '../values.js';

const HANDLE = { usage: '<handle>', about: '@owner.name or owner.name' } as const satisfies Argument;

export const agentUse = command({
  path: 'agent use',
  summary: 'act as this agent from now on',
  details:
    'The choice is stored with the profile; --here stores it, and the profile, in this folder (.asp.json) instead.',
  arguments: [{ usage: '[handle]', about: '@owner.name or owner.name' }],
  options: [
    { flags: '--here', about: 'only in this folder and below' },
    { flags: '--unset', about: 'remove the choice' },
  ],
  examples: [
    { line: 'asp use alice.bot', about: 'for commands without --as and ASP_AGENT' },
    { line: 'asp use alice.bot --here', about: 'in this folder only' },
  ],
  effect: 'local',
  stdout: 'the handle',
  parse(args) {
    const text = args.argument('handle');
    const isUnset = args.flag('unset');
    if (isUnset && text !== undefined) throw usageError('--unset and a handle cannot be used together.');
    return { handle: ifGiven(text, readHandle), isHere: args.flag('here'), isUnset };
  },
  async run(context, { handle: named, isHere, isUnset }) {
    const file = join(context.machine.workingDirectory, PROJECT_FILE_NAME);
    if (isUnset && isHere) {
      await changeProjectFile(file, ({ profile }) => ({ profile }));
      return printChoice(context, { handle: null, profile: null, path: file });
    }
    const profile = await context.profile();
    const handle = isUnset ? undefined : (named ?? (await askHandle(context, profile)));
    if (isHere) {
      if (!PROFILE_NAME.test(profile.name)) throw withoutName(profile);
      await changeProjectFile(file, () => ({ profile: profile.name, agent: handle }));
    } else await context.changeConfig((config) => withAgent(config, profile, handle));
    const path = isHere ? file : (context.paths.configFile ?? '');
    await printChoice(context, { handle: handle ?? null, profile: profile.name, path });
    if (handle !== undefined) await warnOfOtherChoices(context, profile, handle, isHere);
  },
});

async function printChoice(
  { output }: Context,
  choice: { handle: string | null; profile: string | null; path: string },
): Promise<void> {
  const { handle, profile, path } = choice;
  const where = profile === null || path.endsWith(PROJECT_FILE_NAME) ? path : `profile ${profile}`;
  await output.note(handle === null ? `No agent is set in ${where} anymore.` : `Saved in ${where}.`);
  await output.document(choice, (safe) => safe.handle ?? '');
}

async function askHandle(context: Context, { baseUrl }: ResolvedProfile): Promise<string> {
  const logins = await loginsAt(context, baseUrl);
  const handles = logins.flatMap(({ handle }) => (handle === null ? [] : [handle]));
  if (handles.length === 0 || !context.prompts.canAsk)
    throw usageError('Which agent?', {
      why: handles.length === 0 ? undefined : `signed in: ${handles.slice(0, 8).join(', ')}.`,
      next: ['asp', 'use', handles[0] ?? 'alice.bot'],
    });
  return context.prompts.choose('Which agent?', handles, 'its handle');
}

function withAgent(config: Config, profile: ResolvedProfile, handle: string | undefined): Config {
  if (profile.local !== undefined) {
    const { [LOCAL_AGENT_SETTING]: _, ...settings } = config.settings;
    return { ...config, settings: handle === undefined ? settings : { ...settings, [LOCAL_AGENT_SETTING]: handle } };
  }
  const entry = Object.hasOwn(config.profiles, profile.name) ? config.profiles[profile.name] : undefined;
  if (entry === undefined) throw withoutName(profile);
  return { ...config, profiles: { ...config.profiles, [profile.name]: { ...entry, agent: handle } } };
}

function withoutName({ baseUrl }: ResolvedProfile): CliError {
  return usageError('The agent is stored with a profile, and this service has no profile yet.', {
    next: ['asp', 'profile', 'add', 'work', '--base-url', baseUrl],
  });
}

/** Settings that override the choice. */
async function warnOfOtherChoices(
  context: Context,
  profile: ResolvedProfile,
  handle: string,
  isHere: boolean,
): Promise<void> {
  const { environment, output } = context;
  const { ASP_AGENT, ASP_CLIENT_ID, ASP_TOKEN } = environment;
  const file = isHere ? undefined : await context.projectFile();
  const isFileAbove = file?.agent !== undefined && (file.profile === undefined || file.profile === profile.name);
  if ((ASP_AGENT ?? '') !== '') await output.note(`ASP_AGENT is still set to ${ASP_AGENT}.`);
  else if (isFileAbove && file.agent !== handle)
    await output.note(`In this folder, ${file.path} still sets ${file.agent}.`);
  if (profile.credentialCommand !== undefined || (ASP_CLIENT_ID ?? ASP_TOKEN) !== undefined) return;
  const logins = await loginsAt(context, profile.baseUrl);
  if (!logins.some((login) => login.handle === handle))
    await output.note(`It is not signed in yet: asp login ${handle}`);
}

export const agentShow = command({
  path: 'agent show',
  summary: 'show an agent (default: the acting agent)',
  arguments: [{ usage: '[handle]', about: '@owner.name or owner.name' }],
  examples: [
    { line: 'asp agent show alice.bot', about: 'its profile and its policies' },
    { line: 'asp agent show --json', about: 'the acting agent, as the service describes it' },
  ],
  effect: 'read',
  stdout: 'the agent, one fact per line',
  parse: (args) => ({ handle: ifGiven(args.argument('handle'), readHandle) }),
  async run(context, { handle }) {
    if (handle === undefined) {
      const own = await read(context, 'getActingAgent', {});
      return context.output.document(own, (safe, style) => agentText(safe, style, context.streams.stdout));
    }
    const view = await read(context, 'getAgent', { path: splitHandle(handle) }, unknownAgent(handle));
    await context.output.document(view.agent, (safe, style) => agentText(safe, style, context.streams.stdout));
    const length = view.shared_sessions?.length ?? 0;
    if (length > 0) await context.output.note(`You share ${length === 1 ? 'a session' : `${length} sessions`}.`);
    await rememberAgents(context, [view.agent]);
  },
});

/** An agent for people; its values are already sanitized. */
function agentText(agent: AgentSummaryAnswer, style: Style, stdout: OutputStream): string {
  const reach = reachText(agent);
  const one = (text: string): string => text.replace(/\s+/g, ' ');
  const line = (title: string, text: string): string[] => (text === '' ? [] : [factLine(stdout, title, one(text))]);
  const { owner_display_name: owner, owner_label: label } = agent;
  const paintedReach = reach === 'online' ? style.green(reach) : style.dim(reach);
  return [
    `${style.bold(agent.canonical_handle)}${reach === '' ? '' : `  ${paintedReach}`}`,
    ...line('name', agent.display_name ?? ''),
    ...line('about', agent.description ?? ''),
    ...line('owner', owner !== null && label !== null ? `${owner} (${label})` : (owner ?? label ?? '')),
    ...line('policy', [agent.inbound_policy, agent.visibility].filter((fact) => fact !== null).join(', ')),
  ].join('\n');
}

/** Empty if the service does not say. */
function reachText({ inactive, paused, is_online: isOnline }: AgentSummaryAnswer): string {
  if (inactive === true) return 'removed';
  if (paused === true) return 'paused';
  if (isOnline === null) return '';
  return isOnline ? 'online' : 'offline';
}

export const agentCard = command({
  path: 'agent card',
  summary: "print an agent's card, in Markdown",
  arguments: [HANDLE],
  examples: [
    { line: 'asp agent card alice.bot', about: 'the skills it describes' },
    { line: 'asp agent card alice.bot > card.md', about: 'into a file' },
  ],
  effect: 'read',
  stdout: 'the card',
  parse: (args) => ({ handle: readHandle(args.argument('handle')) }),
  async run(context, { handle }) {
    const about = unknownAgent(handle, { ASP_NOT_OFFERED: `The service offers no cards, so ${handle} has none here.` });
    const card = await read(context, 'getAgentCard', { path: splitHandle(handle) }, about);
    await context.output.document({ handle, card }, (safe) => safe.card);
  },
});

export const agentList = command({
  path: 'agent list',
  summary: "list the account's own agents",
  arguments: [{ usage: '[text]', about: 'only agents that match' }],
  options: pageOptions(LIST_LIMIT_DEFAULT),
  examples: [
    { line: 'asp agent list', about: 'a table' },
    { line: "asp agents list --all --jsonl | jq -r '.canonical_handle'", about: 'every handle, for a script' },
  ],
  effect: 'read',
  stdout: describeTable('handle, state, policy, name'),
  parse: (args) => ({ ...readPageOptions(args, LIST_LIMIT_DEFAULT), text: args.argument('text') }),
  async run(context, { text, ...options }) {
    const page = await collectPages<AgentAnswer>(options, LIST_LIMIT_MAX, async (query) => {
      const q = text === undefined ? {} : { q: text };
      const { agents, next_cursor } = await read(context, 'listAgents', { query: { ...query, ...q } });
      return { items: agents, next_cursor };
    });
    await context.output.list(page, [
      { title: 'handle', value: ({ canonical_handle: handle }) => handle },
      {
        title: 'state',
        value: reachText,
        paint: (state, _, style) => (state === 'online' ? style.green(state) : style.dim(state)),
      },
      { title: 'policy', value: ({ inbound_policy: policy }) => policy ?? '', isOptional: true },
      { title: 'name', value: ({ display_name: name }) => name ?? '', isFlexible: true, isOptional: true },
    ]);
    await notePage(context, page, 'No agents.');
    await rememberAgents(context, page.items);
  },
});

export const agentSearch = command({
  path: 'agent search',
  summary: 'search public agents by handle, name and skills',
  arguments: [{ usage: '<text...>', about: 'the beginnings of words, 2 to 100 characters' }],
  options: pageOptions(SEARCH_LIMIT_DEFAULT),
  examples: [
    { line: 'asp agent search deploy', about: 'by one word' },
    { line: 'asp agent search release notes --json', about: 'by two words, for a script' },
  ],
  effect: 'read',
  stdout: describeTable('handle, name'),
  parse: (args) => ({
    ...readPageOptions(args, SEARCH_LIMIT_DEFAULT),
    text: readSearchText(args.argument('text').join(' ')),
  }),
  async run(context, { text: q, ...options }) {
    const page = await collectPages(options, SEARCH_LIMIT_MAX, async (query) => {
      const { agents, next_cursor } = await read(context, 'searchAgents', { query: { q, ...query } });
      return { items: agents, next_cursor };
    });
    await context.output.list(page, [
      { title: 'handle', value: ({ canonical_handle: handle }) => handle },
      { title: 'name', value: ({ display_name: name }) => name ?? '', isFlexible: true },
    ]);
    await notePage(context, page, `No agent matches '${q}'.`);
    await rememberAgents(context, page.items);
  },
});

function rememberAgents(
  context: Context,
  agents: readonly { readonly canonical_handle: string; readonly display_name: string | null }[],
): Promise<void> {
  const handles = agents.map(({ canonical_handle: name, display_name: about }) => ({ name, about }));
  return remember(context, 'handles', handles);
}

const FIELD_OPTIONS = [
  { flags: '--display-name <text>', about: 'display name, shown next to the handle' },
  { flags: '--description <text>', about: 'description; an empty text removes it' },
  { flags: '--card <path|->', about: 'its card, in Markdown' },
  {
    flags: '--policy <open|allowlist|hold>',
    about: 'who can start a session with it',
    choices: ['open', 'allowlist', 'hold'],
  },
  { flags: '--visibility <public|private>', about: 'who can find it', choices: ['public', 'private'] },
] as const satisfies readonly Option[];

const readFields = (args: Args<(typeof FIELD_OPTIONS)[number]>) => ({
  displayName: args.text('display-name'),
  description: args.text('description'),
  /** A path, or `-`. */
  cardFile: args.text('card'),
  policy: args.text('policy'),
  visibility: args.text('visibility'),
});

/** The members to change; an empty description or card removes the existing one. */
async function toRequest(context: Context, fields: ReturnType<typeof readFields>): Promise<UpdateAgentRequest> {
  const { displayName, description, cardFile, policy, visibility } = fields;
  const card = cardFile === undefined ? undefined : await readCard(context, cardFile);
  return {
    ...(displayName !== undefined && { display_name: displayName }),
    ...(description !== undefined && { description: description === '' ? null : description }),
    ...(card !== undefined && { card_body: card === '' ? null : card }),
    ...(policy !== undefined && { inbound_policy: policy }),
    ...(visibility !== undefined && { visibility }),
  };
}

const CARD_MAX_BYTES = 80_000;

async function readCard(context: Context, source: string): Promise<string> {
  try {
    const bytes = await readSource(context, source, CARD_MAX_BYTES);
    return decodeText(bytes, source === '-' ? 'Standard input' : source).trimEnd();
  } catch (error) {
    if (error instanceof CliError && error.code === 'ASP_FILE_TOO_LARGE')
      throw usageError(`The card is too large.`, { why: 'the limit is 20000 characters.', cause: error });
    throw error;
  }
}

export const agentCreate = command({
  path: 'agent create',
  summary: "create an agent under the account's own name",
  details: BY_ACCOUNT,
  arguments: [HANDLE],
  options: FIELD_OPTIONS,
  examples: [
    { line: 'asp agent create alice.helper --description "answers questions"', about: 'prints its handle' },
    { line: 'asp agent create alice.helper --card card.md --json', about: 'with a card, as JSON' },
  ],
  effect: 'write',
  stdout: 'the handle',
  parse: (args) => ({ handle: readHandle(args.argument('handle')), fields: readFields(args) }),
  async run(context, { handle, fields }) {
    const { owner, name } = splitHandle(handle);
    const request = await toRequest(context, fields);
    const body = { ...request, display_name: request.display_name ?? name, local_name: name };
    if (context.globals.isDryRun) return printRequest(context, 'createAgent', { body }, ACCOUNT_ACTOR);
    await refuseForeignOwner(context, owner, name);
    const { reply } = await callAsAccount(
      context,
      'createAgent',
      { body },
      {
        subject: handle,
        messages: {
          DUPLICATE_HANDLE: `${handle} already exists, or its handle is reserved.`,
        },
      },
    );
    if (reply.canonical_handle !== handle)
      throw new CliError('ASP_WRONG_AGENT', {
        message: `Created ${reply.canonical_handle}: the signed-in account is not @${owner}.`,
        outcome: 'applied',
        next: ['asp', 'agent', 'remove', reply.canonical_handle],
      });
    await context.output.note(`Created. To sign in as this agent: asp login ${handle}`);
    await context.output.document(reply, (safe) => safe.canonical_handle);
    await rememberAgents(context, [reply]);
  },
});

/** An account creates agents under its own name only; any of its agents shows that name. */
async function refuseForeignOwner(context: Context, owner: string, name: string): Promise<void> {
  const { reply } = await callAsAccount(context, 'listAgents', { query: { limit: 1 } });
  const namespace = reply.agents[0]?.canonical_handle.slice(1).split('.', 1)[0];
  if (namespace === undefined || namespace === owner) return;
  throw usageError(
    `You are signed in as ${namespace} and can only create @${namespace}.… agents, not @${owner}.${name}.`,
    {
      next: ['asp', 'agent', 'create', `${namespace}.${name}`],
    },
  );
}

export const agentUpdate = command({
  path: 'agent update',
  summary: 'change an agent (default: the acting agent)',
  details: [
    `With a handle, ${BY_ACCOUNT.charAt(0).toLowerCase()}${BY_ACCOUNT.slice(1)} Only the account`,
    'can use --policy, --visibility, --pause and --resume: name the agent then, even if it is the acting one.',
  ].join('\n'),
  arguments: [{ usage: '[handle]', about: 'one of the agents of the account' }],
  options: [
    ...FIELD_OPTIONS,
    { flags: '--pause', about: 'pause it: no one can reach it' },
    { flags: '--resume', about: 'make it reachable again' },
    { flags: '--hide-taken', about: 'do not tell senders which messages it has taken' },
    { flags: '--share-taken', about: 'tell senders again' },
  ],
  examples: [
    { line: 'asp agent update --description "on call until Friday"', about: "the acting agent's own description" },
    { line: 'asp agent update alice.helper --policy allowlist --pause', about: 'as its account' },
  ],
  effect: 'write',
  stdout: 'the handle',
  parse(args) {
    args.refuseBoth('pause', 'resume');
    args.refuseBoth('hide-taken', 'share-taken');
    const reportsTaken = args.flag('hide-taken') ? false : args.flag('share-taken') ? true : undefined;
    const text = args.argument('handle');
    const fields = readFields(args);
    const paused = args.flag('pause') ? true : args.flag('resume') ? false : undefined;
    if ((paused ?? reportsTaken) === undefined && Object.values(fields).every((field) => field === undefined))
      throw usageError('Name at least one change.', { next: ['asp', 'agent', 'update', '--help'] });
    if (text === undefined && (paused ?? fields.policy ?? fields.visibility) !== undefined)
      throw usageError("Only an agent's account can change who can find and reach it and whether it is paused.", {
        why: 'name the agent. Without a handle, the acting agent changes its own profile.',
        next: ['asp', 'agent', 'update', '--help'],
      });
    return { handle: ifGiven(text, readHandle), fields, paused, reportsTaken };
  },
  async run(context, { handle, fields, paused, reportsTaken }) {
    const request = {
      ...(await toRequest(context, fields)),
      ...(reportsTaken !== undefined && { reports_taken: reportsTaken }),
    };
    if (handle === undefined) {
      if (context.globals.isDryRun) return printRequest(context, 'updateActingAgent', { body: request });
      const { reply } = await write(context, 'updateActingAgent', { body: request });
      return context.output.document(reply, (safe) => safe.canonical_handle);
    }
    const body = { ...request, ...(paused !== undefined && { paused }) };
    const path = splitHandle(handle);
    if (context.globals.isDryRun) return printRequest(context, 'updateAgent', { path, body }, ACCOUNT_ACTOR);
    const { reply } = await callAsAccount(context, 'updateAgent', { path, body }, unknownAgent(handle));
    await context.output.document(reply, (safe) => safe.canonical_handle);
  },
});

export const agentRemove = command({
  path: 'agent remove',
  summary: 'remove an agent for good; its handle stays reserved',
  details: BY_ACCOUNT,
  arguments: [HANDLE],
  examples: [
    { line: 'asp agent remove alice.helper', about: 'asks for confirmation' },
    { line: 'asp agent remove alice.helper --yes --json', about: 'for a script' },
  ],
  effect: 'write',
  isDestructive: true,
  stdout: 'the handle',
  parse: (args) => ({ handle: readHandle(args.argument('handle')) }),
  async run(context, { handle }) {
    const path = splitHandle(handle);
    if (context.globals.isDryRun) return printRequest(context, 'removeAgent', { path }, ACCOUNT_ACTOR);
    const question = `Remove ${handle} for good? It leaves its sessions, and its handle can never be used again.`;
    if (!(await context.prompts.confirm(question, '--yes')))
      throw new CliError('ASP_CANCELED', { message: `Canceled. ${handle} was not removed.` });
    const { idempotencyKey } = await callAsAccount(context, 'removeAgent', { path }, unknownAgent(handle));
    const result = { handle, removed: true, idempotency_key: idempotencyKey ?? null };
    await context.output.document(result, (safe) => safe.handle);
    forget(context, 'handles', [handle]);
  },
});
