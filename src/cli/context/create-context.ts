import type { Client } from '../../client/client.js';
import type { AccessTokenRequest, Resource } from '../../client/credentials/credential.js';
import type { Transport } from '../../client/http/transport.js';
import type { LocalServiceRecord } from '../../wire/schemas/local-service.js';
import { splitScope } from '../../wire/scope.js';
import type { Program } from '../command.js';
import { usageError } from '../errors.js';
import { changeConfig, readConfig } from '../profile/config.js';
import { findLocalService } from '../profile/local-service.js';
import { type Paths, resolvePaths } from '../profile/paths.js';
import { findProjectFile } from '../profile/project-file.js';
import {
  listHandles,
  type ResolvedAgent,
  type ResolvedProfile,
  resolveAgent,
  resolveProfile,
} from '../profile/resolve-profile.js';
import { createOutput, type Filter, type Output } from '../terminal/output.js';
import { createPrompts } from '../terminal/prompts.js';
import { waitText } from '../terminal/relative-time.js';
import { isColored } from '../terminal/style.js';
import { agentChoice, buildCredential, describeSource } from './build-credential.js';
import type { ClosableContext, Context, Surroundings } from './context.js';
import type { ActingIdentity, Changes } from './describe-failure.js';
import type { Globals } from './globals.js';

/** The context of one command. Nothing is read, opened or requested until a command needs it. */
export function createContext(
  surroundings: Surroundings,
  globals: Globals,
  program: Program,
  filter?: Filter,
): ClosableContext {
  const { streams, environment, signal, interrupt } = surroundings;
  const output = createOutput(streams, {
    format: globals.format,
    fields: globals.fields,
    filter,
    isQuiet: globals.isQuiet,
    isVerbose: globals.isVerbose,
    isOutColored: isColored(globals.color, environment, streams.stdout.isTerminal),
    isErrColored: isColored(globals.color, environment, streams.stderr.isTerminal),
  });
  const prompts = createPrompts(streams, { ...globals, signal, interrupt });
  const changes: Changes = { count: 0, sessionId: undefined };
  const hasLocalLogin = async (): Promise<boolean> => {
    const found = await (await context.logins()).list();
    return found.some(({ isLocal }) => isLocal === true);
  };
  const service = createServiceChoice(surroundings, globals, output, changes, () => hasLocalLogin().catch(() => false));
  const identity = createIdentity(() => context, service.profile, changes);
  const context: ClosableContext = {
    ...surroundings,
    globals,
    output,
    program,
    prompts,
    ...service,
    ...identity,
  };
  return context;
}

/** The service, and the settings that lead to it. */
type ServiceChoice = Pick<
  ClosableContext,
  | 'paths'
  | 'config'
  | 'changeConfig'
  | 'projectFile'
  | 'localService'
  | 'endedService'
  | 'profile'
  | 'transport'
  | 'holdExit'
  | 'close'
>;

/** The settings of this machine and the service they name, each read on first use. */
function createServiceChoice(
  surroundings: Surroundings,
  globals: Globals,
  output: Output,
  changes: Changes,
  hasLocalLogin: () => Promise<boolean>,
): ServiceChoice {
  const { environment, machine } = surroundings;
  const paths: Paths = resolvePaths({ environment, machine });
  const opened: Transport[] = [];
  const held = new Set<Promise<unknown>>();
  const transport = lazy(async () => {
    const built = await openTransport(surroundings, globals, output);
    opened.push(built);
    return noteSilence(noteChanges(built, changes), surroundings, output);
  });
  const projectFile = lazy(() => findProjectFile({ environment, machine }));
  const config = lazy(() => readConfig(paths.configFile));
  let running: LocalServiceRecord | undefined;
  /** Looks again as long as none runs: a command may wait for it. */
  const localService = async () => {
    const found = running === undefined ? await findLocalService(paths, machine) : undefined;
    if (found?.isRunning === true) running = found.record;
    return running;
  };
  const endedService = async () => {
    const found = await findLocalService(paths, machine);
    return found?.isRunning === false ? found.record : undefined;
  };
  const flag = globals.profile;
  return {
    paths,
    config,
    changeConfig: (change) => changeConfig(surroundings, paths.configFile, change),
    projectFile,
    localService,
    endedService,
    profile: lazy(() =>
      resolveProfile({ flag, environment, projectFile, config, localService, endedService, hasLocalLogin }),
    ),
    transport,
    holdExit: (work) => {
      held.add(work);
      const drop = (): void => void held.delete(work);
      work.then(drop, drop);
    },
    close: async () => {
      await Promise.allSettled(held);
      for (const each of opened) await each.close();
    },
  };
}

async function openTransport(
  { clock, environment, version, machine, deadline, isGuest }: Surroundings,
  globals: Globals,
  output: Output,
): Promise<Transport> {
  if (isGuest !== true && machine.nodeVersion.startsWith('v20.')) keepParserUnoptimized();
  const { createTransport, proxyFromEnvironment } = await import('../../client/http/transport.js');
  const trace = globals.isDebug ? (entry: { kind: string; text: string }) => void output.trace(entry) : undefined;
  return createTransport({
    clock,
    proxy: proxyFromEnvironment(environment),
    trace,
    userAgent: `asp-cli/${version}`,
    deadline: deadline?.atMs,
    onPause: ({ delayMs, failure }) => {
      if (delayMs >= NOTED_PAUSE_MS)
        void output.note(`Waiting ${waitText(delayMs)} before the next try: ${failure.message}`);
    },
  });
}

/** Says once whose answer the command waits for. Uploads and waits for others say what they wait for themselves. */
function noteSilence(transport: Transport, { clock }: Pick<Surroundings, 'clock'>, output: Output): Transport {
  let isSaid = output.format !== 'human';
  return {
    ...transport,
    async send(request) {
      const say = (): void => {
        if (isSaid) return;
        isSaid = true;
        void output.note(`Waiting for ${new URL(request.url).host} to answer.`);
      };
      // The service answers an upload once it has all of it.
      const isUpload = typeof request.body === 'object' && Symbol.asyncIterator in request.body;
      const cancel = isSaid || isUpload ? undefined : clock.schedule(NOTED_SILENCE_MS, say, true);
      try {
        return await transport.send(request);
      } finally {
        cancel?.();
      }
    },
  };
}

/** A busy service may need a second. */
const NOTED_SILENCE_MS = 2000;

/** Counts successful writes: those that carry an idempotency key. */
function noteChanges(transport: Transport, changes: Changes): Transport {
  return {
    ...transport,
    async send(request) {
      const answer = await transport.send(request);
      if (request.headers?.['idempotency-key'] === undefined || answer.status < 200 || answer.status > 299)
        return answer;
      changes.count += 1;
      const [id] = SESSION_ID.exec(request.url) ?? SESSION_ID.exec(answer.body.toString('utf8')) ?? [];
      if (id !== undefined) changes.sessionId = id;
      return answer;
    },
  };
}

const SESSION_ID = /\bsess_\w+/;

/** Shorter pauses are not worth a note. */
const NOTED_PAUSE_MS = 1000;

let isParserKeptUnoptimized = false;

/**
 * undici parses answers in WebAssembly, which Node.js 20 optimizes after some twenty calls: that costs three times the
 * CPU of a whole command, for a parser that is just as fast without it. Compiled code is kept for the next run under
 * the flags at its end, so the flags are reset; V8 switched off the second and the third with the first.
 */
function keepParserUnoptimized(): void {
  if (isParserKeptUnoptimized) return;
  isParserKeptUnoptimized = true;
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  setFlagsFromString('--liftoff-only');
  process.prependOnceListener('exit', () => {
    for (const flag of ['--no-liftoff-only', '--wasm-tier-up', '--wasm-dynamic-tiering']) setFlagsFromString(flag);
  });
}

/** The agent that a command acts as, and its credential. */
type Identity = Pick<
  Context,
  'profile' | 'agent' | 'logins' | 'credential' | 'client' | 'knownHandle' | 'actingHandle' | 'identity'
>;

/** The acting agent and its credential, each determined on first use. `context` is complete by then. */
function createIdentity(
  context: () => Context,
  findProfile: () => Promise<ResolvedProfile>,
  changes: Changes,
): Identity {
  const known: {
    profile?: ResolvedProfile;
    agent?: ResolvedAgent;
    source?: string;
    handle?: string;
    scopes?: string[];
  } = {};
  const profile = lazy(async () => {
    known.profile = await findProfile();
    return known.profile;
  });
  const logins = lazy(async () => (await import('./login-store.js')).openStoredLogins(context()));
  const agent = lazy(async () => {
    known.agent = await findAgent(context());
    return known.agent;
  });
  const credential = lazy(async () => {
    known.source = describeSource(context().environment, await profile());
    const built = await buildCredential(context());
    return {
      ...built,
      async accessToken(resource: Resource, request?: AccessTokenRequest) {
        const token = await built.accessToken(resource, request);
        if (resource === 'api' && token.scope !== undefined) known.scopes = splitScope(token.scope);
        return token;
      },
    };
  });
  const askHandle = async (client: Client): Promise<string> => {
    const { reply } = await client.call('getActingAgent', { signal: context().signal });
    known.handle = reply.canonical_handle;
    return known.handle;
  };
  const client = lazy(async () => {
    const built = await openClient(context());
    const { handle, isExplicit } = await agent();
    // A credential that is bound to an agent acts as that agent, whatever the user says.
    if (isExplicit && agentChoice(context().environment, await profile()) !== 'stored') {
      const real = await askHandle(built);
      if (real !== handle)
        throw usageError(`You asked for ${handle}, but the credential (${known.source}) acts as ${real}.`);
    }
    return built;
  });
  const knownHandle = lazy(async () => {
    const { handle } = await agent();
    return handle ?? (await (await credential()).accessToken('api', { signal: context().signal })).handle;
  });
  return {
    profile,
    logins,
    agent,
    credential,
    client,
    knownHandle,
    actingHandle: lazy(async () => (await knownHandle()) ?? askHandle(await client())),
    identity: (): ActingIdentity => ({
      as: known.handle ?? known.agent?.handle,
      profile: known.profile?.name,
      source: known.source,
      at: known.profile,
      scopes: known.scopes,
      flags: context().globals,
      changes,
    }),
  };
}

/** The agent of a context, from its sources. */
export async function findAgent({
  globals,
  environment,
  projectFile,
  profile,
  logins,
}: Context): Promise<ResolvedAgent> {
  const at = await profile();
  const storedHandles = async (): Promise<string[]> => listHandles(await (await logins()).list(at.baseUrl));
  const sources = { flag: globals.as, environment, profile: at, projectFile, storedHandles };
  return resolveAgent(sources, agentChoice(environment, at));
}

/** The client of a context, with its service and its credential. */
export async function openClient({ profile, credential, transport, globals, random }: Context): Promise<Client> {
  const [{ connect }, at, by, over] = await Promise.all([
    import('../../client/client.js'),
    profile(),
    credential(),
    transport(),
  ]);
  return connect({ service: at, credential: by, transport: over, retries: globals.retries, random });
}

/** Builds a value once, on first use. */
function lazy<Value>(build: () => Promise<Value>): () => Promise<Value> {
  let built: Promise<Value> | undefined;
  return () => {
    built ??= build().catch((error: unknown) => {
      built = undefined;
      throw error;
    });
    return built;
  };
}
