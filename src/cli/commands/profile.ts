import { messageOf, quoteArgs } from '../../kit/format.js';
import { didYouMean } from '../../kit/suggest.js';
import type { LocalServiceRecord } from '../../wire/schemas/local-service.js';
import { type Args, type Argument, command, describeTable, type Option } from '../command.js';
import type { Context } from '../context/context.js';
import { loginsAt } from '../context/login-store.js';
import { CliError, usageError } from '../errors.js';
import {
  type Config,
  LOCAL,
  LOCAL_AGENT_SETTING,
  PROFILE_NAME,
  type ProfileEntry,
  readServiceUrl,
} from '../profile/config.js';

const NAME = { usage: '<name>', about: 'letters, digits, _ and -' } as const satisfies Argument;
const ADDRESS_OPTIONS = [
  { flags: '--base-url <url>', about: 'the REST API: https://…/v1' },
  { flags: '--auth-url <url>', about: 'the authorization server, if it cannot be discovered' },
  { flags: '--web-url <url>', about: 'the website' },
  { flags: '--ws-url <url>', about: 'the WebSocket, if it cannot be discovered' },
] as const satisfies readonly Option[];

/** Addresses to store; undefined: unchanged, empty: remove. */
type Addresses = Readonly<Partial<Record<'base_url' | 'auth_url' | 'web_url' | 'ws_url', string>>>;

const ADDRESSES = [
  ['base_url', 'base-url', ['https:', 'http:']],
  ['auth_url', 'auth-url', ['https:', 'http:']],
  ['web_url', 'web-url', ['https:', 'http:']],
  ['ws_url', 'ws-url', ['wss:', 'ws:']],
] as const;

/** The addresses from the options, each encrypted or on this machine. */
function readAddresses(args: Args<(typeof ADDRESS_OPTIONS)[number]>): Addresses {
  const addresses: Partial<Record<keyof Addresses, string>> = {};
  for (const [key, option, protocols] of ADDRESSES) {
    const text = args.text(option);
    if (text === undefined) continue;
    try {
      addresses[key] = text === '' && key !== 'base_url' ? '' : readServiceUrl(text, protocols);
    } catch (error) {
      throw usageError(`--${option} '${text}' ${messageOf(error)}.`);
    }
  }
  return addresses;
}

/** The entry with these addresses; a new base URL drops the addresses that belonged to the old one. */
function withAddresses(entry: ProfileEntry, addresses: Addresses): ProfileEntry {
  const isMoved = addresses.base_url !== undefined && addresses.base_url !== entry.base_url;
  const before: ProfileEntry = isMoved ? { base_url: entry.base_url, agent: entry.agent } : entry;
  const kept = (text: string | undefined): string | undefined => (text === '' ? undefined : text);
  return {
    ...before,
    base_url: addresses.base_url ?? entry.base_url,
    auth_url: kept(addresses.auth_url ?? before.auth_url),
    web_url: kept(addresses.web_url ?? before.web_url),
    ws_url: kept(addresses.ws_url ?? before.ws_url),
  };
}

/** A valid name for the user's own profile. */
function readProfileName(text: string): string {
  if (text === LOCAL)
    throw usageError(`'${LOCAL}' always means the service that runs on this machine.`, {
      next: ['asp', 'serve', '--help'],
    });
  if (PROFILE_NAME.test(text)) return text;
  throw usageError(`'${text}' is not a valid profile name.`, {
    why: 'names have 1 to 63 letters, digits, _ and -.',
  });
}

/** A profile as it is shown; `local` stands for the service that runs on this machine. */
const toView = (name: string, entry: ProfileEntry, config: Config) => ({
  name,
  base_url: entry.base_url,
  auth_url: entry.auth_url ?? null,
  web_url: entry.web_url ?? null,
  ws_url: entry.ws_url ?? null,
  agent: entry.agent ?? null,
  credential_command: entry.credential_command ?? null,
  default: config.default_profile === name,
  local: false,
});

function toLocalView({ url: base_url, auth_url, web_url, ws_url }: LocalServiceRecord, config: Config) {
  const agent = config.settings[LOCAL_AGENT_SETTING];
  return { ...toView(LOCAL, { base_url, auth_url, web_url, ws_url, agent }, config), local: true };
}

/** The entry with that name. @throws CliError that lists the existing ones */
function requireEntry({ profiles }: Config, name: string): ProfileEntry {
  const entry = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (entry !== undefined) return entry;
  const known = Object.keys(profiles);
  const others = known.length === 0 ? 'there are no profiles yet.' : `profiles: ${known.join(', ')}.`;
  throw new CliError('ASP_CONFIG', {
    message: `'${name}' is not a profile.`,
    why: didYouMean(name, known, "'") ?? others,
    next: ['asp', 'profile', 'list'],
  });
}

export const profileList = command({
  path: 'profile list',
  summary: 'list the services named on this machine',
  examples: [
    { line: 'asp profile list', about: 'a table; the arrow marks the current one' },
    { line: 'asp profile list --json', about: 'for scripts' },
  ],
  effect: 'none',
  stdout: describeTable('profile, base URL, agent'),
  async run(context) {
    const [config, record] = await Promise.all([context.config(), context.localService()]);
    const own = Object.entries(config.profiles).map(([name, entry]) => toView(name, entry, config));
    const items = record === undefined || LOCAL in config.profiles ? own : [...own, toLocalView(record, config)];
    const used = await context.profile().then(
      ({ name }) => name,
      () => undefined,
    );
    await context.output.list({ items, next_cursor: null }, [
      {
        title: 'profile',
        value: ({ name }) => (name === used ? `→ ${name}` : `  ${name}`),
        paint: (text, { name }, style) => (name === used ? style.green(text) : text),
        piped: ({ name }) => name,
      },
      { title: 'base url', value: ({ base_url }) => base_url, isFlexible: true },
      { title: 'agent', value: ({ agent }) => agent ?? '-' },
    ]);
    if (items.length === 0)
      await context.output.note(
        'No profiles yet. Add one: asp profile add work --base-url https://…, or run a service: asp serve',
      );
  },
});

export const profileShow = command({
  path: 'profile show',
  summary: 'show the addresses and the agent of a profile',
  arguments: [{ usage: '[name]', about: 'a profile (default: the current one)' }],
  examples: [
    { line: 'asp profile show', about: 'the one that a command here would use' },
    { line: 'asp profile show work --json', about: 'for scripts' },
  ],
  effect: 'none',
  stdout: 'the profile, one address per line',
  parse: (args) => ({ name: args.argument('name') }),
  async run(context, { name }) {
    const view = name === undefined ? await viewUsed(context) : await viewNamed(context, name);
    await context.output.document(view, (safe, style) =>
      [
        `${style.bold(safe.name)}${safe.default ? style.dim(' (default)') : ''}`,
        `base url  ${safe.base_url}`,
        `auth url  ${safe.auth_url ?? 'discovered from the base URL'}`,
        ...(safe.web_url === null ? [] : [`web url   ${safe.web_url}`]),
        `ws url    ${safe.ws_url ?? 'discovered from the base URL'}`,
        `agent     ${safe.agent ?? '-'}`,
        ...(safe.credential_command === null ? [] : [`token from ${quoteArgs(safe.credential_command)}`]),
      ].join('\n'),
    );
  },
});

async function viewNamed(context: Context, name: string) {
  const config = await context.config();
  const record = name === LOCAL && !Object.hasOwn(config.profiles, name) ? await context.localService() : undefined;
  return record === undefined ? toView(name, requireEntry(config, name), config) : toLocalView(record, config);
}

async function viewUsed(context: Context) {
  const [config, used] = await Promise.all([context.config(), context.profile()]);
  if (used.local !== undefined) return toLocalView(used.local, config);
  const { name, baseUrl: base_url, authUrl: auth_url, webUrl: web_url, wsUrl: ws_url, agent } = used;
  const credential_command = used.credentialCommand;
  return toView(name, { base_url, auth_url, web_url, ws_url, agent, credential_command }, config);
}

export const profileAdd = command({
  path: 'profile add',
  summary: 'add a service under a name',
  details: 'Its other addresses are discovered from the base URL. The first profile becomes the default.',
  arguments: [NAME],
  options: ADDRESS_OPTIONS,
  examples: [
    { line: 'asp profile add work --base-url https://api.example.com/v1', about: 'and then: asp login' },
    {
      line: 'asp profile add old --base-url https://a.example --auth-url https://id.example',
      about: 'a service that does not publish its authorization server',
    },
  ],
  effect: 'local',
  stdout: 'the name',
  parse(args) {
    const name = readProfileName(args.argument('name'));
    const addresses = readAddresses(args);
    const { base_url } = addresses;
    if (base_url !== undefined) return { name, base_url, addresses };
    throw usageError('A profile needs the base URL of its service.', {
      next: ['asp', 'profile', 'add', name, '--base-url', 'https://api.example.com/v1'],
    });
  },
  async run(context, { name, base_url, addresses }) {
    const entry = withAddresses({ base_url }, addresses);
    const { before, next } = await context.changeConfig((config) => {
      if (Object.hasOwn(config.profiles, name))
        throw usageError(`The profile '${name}' already exists.`, { next: ['asp', 'profile', 'set', name, '--help'] });
      return {
        ...config,
        default_profile: isEmpty(config) ? name : config.default_profile,
        profiles: { ...config.profiles, [name]: entry },
      };
    });
    await context.output.note(
      isEmpty(before)
        ? `It is now the default. To sign in: asp login`
        : `Use it with -p ${name}, or make it the default: asp profile use ${name}`,
    );
    await context.output.document(toView(name, entry, next), (safe) => safe.name);
  },
});

/** Whether no service has been chosen or named yet. */
const isEmpty = ({ default_profile, profiles }: Config): boolean =>
  default_profile === undefined && Object.keys(profiles).length === 0;

export const profileSet = command({
  path: 'profile set',
  summary: 'change the addresses of a profile',
  details: 'A new base URL drops the other addresses, unless you set them too. An empty text removes an address.',
  arguments: [NAME],
  options: ADDRESS_OPTIONS,
  examples: [
    { line: 'asp profile set work --base-url https://api.example.org/v1', about: 'the service has moved' },
    { line: "asp profile set work --ws-url ''", about: 'discover the WebSocket again' },
  ],
  effect: 'local',
  stdout: 'the name',
  parse(args) {
    const name = readProfileName(args.argument('name'));
    const addresses = readAddresses(args);
    if (Object.keys(addresses).length > 0) return { name, addresses };
    throw usageError('Name at least one change.', { next: ['asp', 'profile', 'set', '--help'] });
  },
  async run(context, { name, addresses }) {
    const { before: old, next } = await context.changeConfig((config) => {
      const entry = withAddresses(requireEntry(config, name), addresses);
      return { ...config, profiles: { ...config.profiles, [name]: entry } };
    });
    const [before, entry] = [requireEntry(old, name), requireEntry(next, name)];
    const oldLogins = entry.base_url === before.base_url ? [] : await loginsAt(context, before.base_url);
    if (oldLogins.length > 0)
      await context.output.note(
        `Logins belong to an address, so sign in again. To end the old ones: asp logout --all -p ${before.base_url}`,
      );
    await context.output.document(toView(name, entry, next), (safe) => safe.name);
  },
});

export const profileRemove = command({
  path: 'profile remove',
  summary: 'remove a profile; its logins stay until asp logout',
  arguments: [NAME],
  examples: [
    { line: 'asp profile remove old', about: 'removes only the name' },
    { line: 'asp logout --all -p old', about: 'first: end the logins there' },
  ],
  effect: 'local',
  stdout: 'the name',
  parse: (args) => ({ name: args.argument('name') }),
  async run(context, { name }) {
    const { before, next } = await context.changeConfig((config) => {
      requireEntry(config, name);
      const { [name]: _, ...profiles } = config.profiles;
      return {
        ...config,
        default_profile: config.default_profile === name ? undefined : config.default_profile,
        profiles,
      };
    });
    const entry = requireEntry(before, name);
    const isDefault = before.default_profile === name;
    const logins = await loginsAt(context, entry.base_url);
    if (logins.length > 0)
      await context.output.note(`Its logins are still stored. To end them: asp logout --all -p ${entry.base_url}`);
    if (isDefault) await context.output.note('It was the default. To choose another: asp profile use.');
    await context.output.document({ ...toView(name, entry, next), removed: true }, (safe) => safe.name);
  },
});

export const profileUse = command({
  path: 'profile use',
  summary: 'make a profile the default',
  arguments: [{ usage: '<name>', about: 'a profile, or local for the service on this machine' }],
  examples: [
    { line: 'asp profile use work', about: 'the default from now on' },
    { line: 'asp -p local whoami', about: 'a different one for a single command' },
  ],
  effect: 'local',
  stdout: 'the name',
  parse: (args) => ({ name: args.argument('name') }),
  async run(context, { name }) {
    const findEntry = (config: Config): ProfileEntry | undefined =>
      name === LOCAL && !Object.hasOwn(config.profiles, LOCAL) ? undefined : requireEntry(config, name);
    const { before } = await context.changeConfig((config) => {
      findEntry(config);
      return { ...config, default_profile: name };
    });
    const entry = findEntry(before);
    const { environment, output } = context;
    const file = await context.projectFile();
    const named = environment['ASP_PROFILE'] ?? '';
    if (named !== '' && named !== name) await output.note(`ASP_PROFILE is still set to ${named}.`);
    else if (file?.profile !== undefined && file.profile !== name)
      await output.note(`In this folder, ${file.path} still sets ${file.profile}.`);
    await output.document({ name, base_url: entry?.base_url ?? null, default: true }, (safe) => safe.name);
  },
});
