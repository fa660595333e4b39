import type { Login } from '../../../client/credentials/login.js';
import { inspectLogin } from '../../../client/credentials/open-logins.js';
import { RequestError } from '../../../client/http/request-error.js';
import { textWidth, wrapText } from '../../../kit/wrap.js';
import type { LocalServiceRecord } from '../../../wire/schemas/local-service.js';
import { splitScope } from '../../../wire/scope.js';
import { agentChoice, credentialKind, describeSource } from '../../context/build-credential.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { findAgent } from '../../context/create-context.js';
import { createLoginContext } from '../../context/login-store.js';
import { findLocalLogin } from '../../context/stopped-service.js';
import { CliError, usageError } from '../../errors.js';
import { LOCAL } from '../../profile/config.js';
import {
  agentCandidates,
  type Layer,
  listHandles,
  loginArgs,
  profileCandidates,
  type ResolvedProfile,
  resolveProfile,
  survey,
} from '../../profile/resolve-profile.js';
import { relativeTime } from '../../terminal/relative-time.js';
import type { OutputStream } from '../../terminal/streams.js';
import type { Style } from '../../terminal/style.js';

/** Every source for the service, the agent and the credential, with its value, even if it is overridden. */
async function explainLayers(context: Context): Promise<readonly Layer[]> {
  const profile = await context.profile().catch(() => undefined);
  const ofProfile = await survey('profile', profileCandidates(profileSources(context)));
  return [...ofProfile, ...(await agentLayers(context, profile)), ...(await credentialLayers(context, profile))];
}

const profileSources = ({ globals, environment, projectFile, config, localService, endedService }: Context) => ({
  flag: globals.profile,
  environment,
  projectFile,
  config,
  localService,
  endedService,
});

/** The same context, except that a local service that has stopped still counts: its logins are on this machine. */
function asIfRunning(context: Context): Context {
  const localService = async () =>
    (await context.localService()) ?? (await context.endedService()) ?? (await findStoppedService(context));
  const offline: Context = {
    ...context,
    localService,
    profile: () => resolveProfile(profileSources({ ...context, localService })),
    agent: () => findAgent(offline),
  };
  return offline;
}

/** A service that stops removes its record. */
async function findStoppedService(context: Context): Promise<LocalServiceRecord | undefined> {
  const latest = await findLocalLogin(context);
  if (latest === undefined) return undefined;
  const { baseUrl: url, issuer, wsUrl, savedAtMs } = latest;
  const addresses = { url, auth_url: issuer, web_url: issuer, ws_url: wsUrl ?? url, operator_url: url };
  return { name: LOCAL, ...addresses, pid: 0, version: '', data: '', started_at: savedAtMs, secret: '' };
}

async function agentLayers(context: Context, profile: ResolvedProfile | undefined): Promise<readonly Layer[]> {
  const { globals, environment, projectFile } = context;
  const choice = agentChoice(environment, profile);
  const storedHandles = async (): Promise<string[]> => (profile === undefined ? [] : storedHandlesAt(context, profile));
  const sources = { flag: globals.as, environment, profile, projectFile, storedHandles };
  const layers = await survey('agent', agentCandidates(sources, choice));
  return choice === 'bound' && !layers.some(({ said }) => said !== null)
    ? [...layers, { question: 'agent', place: 'the credential', said: 'decides', isChosen: true }]
    : layers;
}

async function storedHandlesAt(context: Context, { baseUrl }: ResolvedProfile): Promise<string[]> {
  return listHandles(await (await context.logins()).list(baseUrl));
}

/** The settings for each kind of credential; for a secret, only whether it is set. */
async function credentialLayers(context: Context, profile: ResolvedProfile | undefined): Promise<readonly Layer[]> {
  const { environment } = context;
  const text = (name: string): string | undefined => environment[name] || undefined;
  const login = async (): Promise<string | undefined> => {
    if (profile === undefined) return undefined;
    const agent = await context.agent().catch(() => undefined);
    const handle = agent?.handle ?? (await storedHandlesAt(context, profile))[0];
    if (handle === undefined) return undefined;
    const found = await (await context.logins()).find({ baseUrl: profile.baseUrl, handle });
    return found === undefined ? undefined : `${handle} in ${found.store === 'keychain' ? 'the keychain' : 'a file'}`;
  };
  return survey<string>('credential', [
    { place: 'ASP_TOKEN', ask: () => (text('ASP_TOKEN') === undefined ? undefined : 'set') },
    { place: 'ASP_CLIENT_ID', ask: () => text('ASP_CLIENT_ID') },
    {
      place: profile === undefined ? 'the profile' : `profile ${profile.name}`,
      ask: () => profile?.credentialCommand?.[0],
    },
    { place: 'stored login', ask: login },
  ]);
}

interface WhoamiOptions {
  /** Shows what this machine knows, without contacting the service. */
  readonly isOffline: boolean;
  readonly isExplaining: boolean;
  readonly isShort: boolean;
}

/** cli: Output shapes. */
interface Whoami {
  readonly handle: string;
  readonly agent_id: string | null;
  readonly account_id: string | null;
  readonly profile: string;
  readonly base_url: string;
  readonly source: string;
  readonly store: string | null;
  readonly scopes: readonly string[] | null;
  readonly expires_at: number | null;
}

export async function whoami(given: Context, options: WhoamiOptions): Promise<void> {
  const context = options.isOffline ? asIfRunning(given) : given;
  const { output } = context;
  const stored = options.isShort && output.format === 'human' ? await findStoredHandle(asIfRunning(given)) : undefined;
  if (stored !== undefined) return output.text(stored);
  const layers = options.isExplaining ? await explainLayers(context) : undefined;
  let who: Whoami;
  try {
    who = await (options.isOffline ? askThisMachine(context) : askService(context).catch(orAskThisMachine(context)));
  } catch (error) {
    // The sources matter most when there is no identity.
    if (layers !== undefined) await tellNobody(context, layers);
    throw error;
  }
  if (layers !== undefined) {
    return output.document(
      { ...who, layers: layers.map(outwardly) },
      (safe, style) =>
        `${style.bold(safe.handle)} at ${safe.base_url}\n\n${layersText(safe.layers, style, context.streams.stdout)}`,
    );
  }
  await output.document(who, (safe) => safe.handle);
  if (!options.isShort && output.format === 'human') await output.note(describeFacts(who, context.clock.now()));
}

type TellableLayer = ReturnType<typeof outwardly>;
const outwardly = ({ isChosen, ...layer }: Layer) => ({ ...layer, chosen: isChosen });

/** The value of every source, if there is no identity. */
async function tellNobody(context: Context, layers: readonly Layer[]): Promise<void> {
  const nobody = { handle: null, agent_id: null, account_id: null, profile: null, base_url: null, source: null };
  const document = { ...nobody, store: null, scopes: null, expires_at: null, layers: layers.map(outwardly) };
  await context.output.document(document, (safe, style) => layersText(safe.layers, style, context.streams.stdout));
}

/**
 * The handle of the stored login, for prompts, which appear many times a minute; undefined if only the service knows, or if
 * it has ended the login.
 */
async function findStoredHandle(context: Context): Promise<string | undefined> {
  try {
    const { handle } = await context.agent();
    const login = handle === undefined ? undefined : await findLogin(context, handle);
    return login?.ended === null ? handle : undefined;
  } catch {
    // The usual way reports what is wrong.
    return undefined;
  }
}

async function askService(context: Context): Promise<Whoami> {
  const agent = await read(context, 'getActingAgent', {});
  const profile = await context.profile();
  const login = await findLogin(context, agent.canonical_handle);
  const token = await (await context.credential()).accessToken('api', { signal: context.signal });
  return {
    handle: agent.canonical_handle,
    agent_id: agent.id,
    account_id: agent.owner_id,
    profile: profile.name,
    base_url: profile.baseUrl,
    source: describeSource(context.environment, profile),
    store: login?.store ?? null,
    scopes: token.scope === undefined ? (login?.scopes ?? null) : splitScope(token.scope),
    expires_at: token.expiresAtMs ?? null,
  };
}

/** If a login lacks the scope for this question, its record says who it is. */
function orAskThisMachine(context: Context): (error: unknown) => Promise<Whoami> {
  return async (error) => {
    const isRefused = error instanceof RequestError && error.code === 'INSUFFICIENT_SCOPE';
    const isLogin = credentialKind(context.environment, await context.profile()) === 'login';
    if (isRefused && isLogin) return askThisMachine(context);
    throw error;
  };
}

async function askThisMachine(context: Context): Promise<Whoami> {
  const profile = await context.profile();
  const source = describeSource(context.environment, profile);
  const { handle } = await context.agent();
  if (handle === undefined)
    throw usageError(`Cannot tell offline which agent ${source} acts as.`, { next: ['asp', 'whoami'] });
  const login = await findLogin(context, handle);
  if (login === undefined && source === 'login')
    throw new CliError('ASP_NO_CREDENTIAL', {
      message: `Not signed in as ${handle} at ${profile.baseUrl}.`,
      next: loginArgs(handle),
    });
  const inspection = login === undefined ? undefined : await inspectLogin(await createLoginContext(context), login);
  return {
    handle,
    agent_id: login?.agentId ?? null,
    account_id: login?.accountId ?? null,
    profile: profile.name,
    base_url: profile.baseUrl,
    source,
    store: login?.store ?? null,
    scopes: login?.scopes ?? null,
    expires_at: inspection?.expiresAtMs ?? null,
  };
}

/** The stored login of the credential, if it has one. */
async function findLogin(context: Context, handle: string): Promise<Login | undefined> {
  const profile = await context.profile();
  if (credentialKind(context.environment, profile) !== 'login') return undefined;
  return (await context.logins()).find({ baseUrl: profile.baseUrl, handle });
}

function describeFacts({ profile, base_url, source, store, scopes, expires_at }: Whoami, nowMs: number): string {
  return [
    profile === base_url ? base_url : `${profile} (${base_url})`,
    store === null
      ? `credential: ${source}`
      : `signed in (stored in ${store === 'keychain' ? 'the keychain' : 'a file'})`,
    ...(expires_at === null || expires_at <= nowMs ? [] : [`token expires ${relativeTime(expires_at, nowMs)}`]),
    ...(scopes === null ? [] : [`scopes: ${scopes.join(' ')}`]),
  ].join(' · ');
}

function layersText(layers: readonly TellableLayer[], style: Style, stdout: OutputStream): string {
  const width = Math.max(...layers.map(({ place }) => place.length));
  return layers
    .map(({ question, place, said, chosen }, index) => {
      const title = (layers[index - 1]?.question === question ? '' : question).padEnd(12);
      const value = `${place.padEnd(width + 2)}${said ?? '-'}`;
      const line = chosen ? `${style.green(value)}  ${style.dim(THIS_ONE.replaceAll(' ', UNBROKEN))}` : value;
      const wrapped = stdout.isTerminal ? wrapText(line, textWidth(stdout), title) : `${title}${line}`;
      return wrapped.replaceAll(UNBROKEN, ' ');
    })
    .join('\n');
}

const THIS_ONE = '← this one';
/** A space at which no line breaks. */
const UNBROKEN = '\u00a0';
