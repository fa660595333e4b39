import { type Client, type ClientOptions, connect, RequestError } from '../client/client.js';
import { systemClock } from '../kit/clock.js';
import { capitalized } from '../kit/format.js';
import { systemRandom } from '../kit/random.js';
import { toHandle } from '../wire/handle.js';

/** Which agent to act as, and where. */
export interface IdentityOptions {
  /** The agent, such as `@me.bot`; default: as `asp` chooses it (ASP_AGENT, `.asp.json`, the profile, the first login). */
  readonly handle?: string | undefined;
  /** The service: the name of a profile of `asp`, or a base URL; default: as `asp` chooses it (ASP_PROFILE, `.asp.json`, …). */
  readonly profile?: string | undefined;
}

/** A client with the credentials that `asp` finds, and the agent it acts as. */
export interface Identity {
  client(): Promise<Client>;
  /** The handle of the acting agent. */
  handle(): Promise<string>;
  /** Where the progress of the agent is stored, or undefined to store nothing. */
  progressPath(): Promise<string | undefined>;
  close(): Promise<void>;
}

/** The identity of a client that the program created itself. Its progress is not stored. */
export function getIdentity(client: Client, expected: string | undefined): Identity {
  let known: string | undefined;
  return {
    client: async () => client,
    async handle() {
      if (known !== undefined) return known;
      const { reply } = await client.call('getActingAgent', {});
      const handle = reply.canonical_handle;
      if (expected === undefined || toHandle(expected) === handle) {
        known = handle;
        return handle;
      }
      throw new RequestError({ code: 'ASP_WRONG_AGENT', message: `The client acts as ${handle}, not as ${expected}.` });
    },
    progressPath: async () => undefined,
    close: async () => {},
  };
}

const NOWHERE = { isTerminal: false, isFile: false, columns: 80, write: async () => {}, isAbandoned: () => false };

/** Finds service, agent and credentials exactly as `asp` finds them. It reads nothing before it is needed. */
export async function findIdentity(
  options: IdentityOptions & Pick<ClientOptions, 'retries' | 'timeoutMs'>,
  signal: AbortSignal,
): Promise<Identity> {
  const [{ createContext }, { adoptRuntimeDirectory, readMachine }, { progressPath }, { VERSION }] = await Promise.all([
    import('../cli/context/create-context.js'),
    import('../cli/context/machine.js'),
    import('../cli/context/progress-path.js'),
    import('../cli/version.js'),
  ]);
  adoptRuntimeDirectory(process);
  const surroundings = {
    streams: { stdin: { isTerminal: false, async *read() {} }, stdout: NOWHERE, stderr: NOWHERE },
    environment: process.env,
    machine: readMachine(process),
    clock: systemClock,
    random: systemRandom,
    version: VERSION,
    signal,
    isGuest: true,
    finishOnSignal: () => {},
    tidyUpOnSignal: () => {},
    interrupt: () => {},
    untilSignal: <Value>(work: (signal: AbortSignal) => Promise<Value>) => work(signal),
    lendTerminal: <Value>(work: () => Promise<Value>) => work(),
  };
  const globals = {
    as: options.handle === undefined ? undefined : toHandle(options.handle),
    profile: options.profile,
    format: 'human',
    fields: undefined,
    jq: undefined,
    isQuiet: true,
    isVerbose: false,
    isDebug: false,
    mayAsk: false,
    isYes: false,
    timeoutMs: undefined,
    usualTimeoutMs: undefined,
    retries: undefined,
    color: 'never',
    browser: undefined,
    editor: undefined,
    store: undefined,
    isAccessible: false,
    isDryRun: false,
    idempotencyKey: undefined,
    once: undefined,
    operator: undefined,
    operatorTokenFile: undefined,
  } as const;
  const context = createContext(surroundings, globals, { nouns: [], entries: [] });
  let client: Promise<Client> | undefined;
  const openClient = async (): Promise<Client> => {
    // It refuses a credential of another agent.
    await context.client();
    const [service, credential, transport] = await Promise.all([
      context.profile(),
      context.credential(),
      context.transport(),
    ]);
    return connect({ service, credential, transport, retries: options.retries, timeoutMs: options.timeoutMs });
  };
  return {
    client: () => {
      client ??= openClient().catch((error: unknown) => {
        client = undefined;
        throw error;
      });
      return plainly(client);
    },
    handle: () => plainly(context.actingHandle()),
    progressPath: async () => plainly(progressPath(context, await context.actingHandle())),
    async close() {
      await (await client?.catch(() => undefined))?.close();
      await context.close();
    },
  };
}

/** Errors of the command line as errors of the library, with the reason in the message. */
async function plainly<Value>(work: Promise<Value>): Promise<Value> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof RequestError || !(error instanceof Error) || !('code' in error)) throw error;
    const why = 'why' in error && typeof error.why === 'string' ? ` ${capitalized(error.why)}` : '';
    const isRetryable = 'isRetryable' in error && error.isRetryable === true;
    throw new RequestError({ code: String(error.code), message: `${error.message}${why}`, isRetryable, cause: error });
  }
}
