/**
 * A private service for tests, in the process of the test: in memory, on a free port of this machine, without limits.
 *
 * ```ts
 * import { startService } from 'asp-cli/testing';
 *
 * await using service = await startService({ agents: ['alice.bot', 'bob.bot'] });
 * const alice = service.client('@alice.bot');
 * await alice.call('createSession', { body: { invite: ['@bob.bot'], initial_message: { content: 'hi' } } });
 * ```
 */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type Client, type ClientOptions, connect } from '../client/client.js';
import { createClientCredential } from '../client/credentials/credential.js';
import { createTransport } from '../client/http/transport.js';
import { discover } from '../client/oauth/discover.js';
import { requestClientCredentials } from '../client/oauth/token-endpoint.js';
import { systemClock } from '../kit/clock.js';
import { readMs } from '../kit/duration.js';
import { systemRandom } from '../kit/random.js';
import { requireKnownOptions } from '../kit/suggest.js';
import { createTurnableClock } from '../kit/turnable-clock.js';
import type { Fault } from '../service/core/faults.js';
import { endpointRow, type Operation } from '../wire/endpoint.js';
import { ErrorEnvelope } from '../wire/schemas/base.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import { OPERATOR_ENDPOINT } from '../wire/schemas/operator.js';
import { createExpectations, type MessageExpectation, readHandle, type TestMessage } from './expectations.js';

export type { MessageExpectation, TestMessage } from './expectations.js';

/** Options of a service for tests. */
export interface TestServiceOptions {
  /** Agents that exist from the start, such as `alice.bot`. They accept messages from everyone. */
  readonly agents?: readonly string[] | undefined;
  /** Whether the rate limits and quotas of the specification apply (default: false). */
  readonly areLimitsOn?: boolean | undefined;
  /** With a seed, faults with a chance strike the same requests in each run. */
  readonly seed?: number | undefined;
}

/** The clock of a service for tests: it runs as usual, and jumps ahead on request. */
export interface TestClock {
  /** Milliseconds since the epoch, as the service sees it. */
  now(): number;
  /**
   * Jumps ahead, for example by `15m`, `1d` or a number of milliseconds: tokens, signed addresses and limits expire.
   * The service catches up at once: everything that became due runs once. Clients keep the time of this machine.
   */
  advance(duration: string | number): void;
}

const STATUSES = [429, 500, 502, 503, 504] as const;

/** A fault and when it strikes: always, unless `times`, `every` or `chance` limits it. */
export type TestFault = (
  | {
      /** An HTTP status: the call is refused before it has any effect. */
      readonly kind: (typeof STATUSES)[number];
    }
  | {
      /**
       * `lost`: the call takes effect but gets 500. `cut`: it takes effect, and the connection ends without an answer.
       */
      readonly kind: 'lost' | 'cut';
    }
  | {
      readonly kind: 'delay';
      /** How long, for example `200ms` or a number of milliseconds. */
      readonly for: string | number;
    }
) & {
  /** Only calls of this operation, such as `sendMessage` (default: every call, and opening an event stream). */
  readonly on?: Operation | undefined;
} & TestFaultRate;

/** A fault of the event stream: it breaks right after an event. */
export type TestStreamFault = { readonly kind: 'drop' } & TestFaultRate;

/** How often a fault strikes. */
export interface TestFaultRate {
  /** The first N. */
  readonly times?: number | undefined;
  /** Every Nth. */
  readonly every?: number | undefined;
  /** At random: a number between 0 and 1. */
  readonly chance?: number | undefined;
}

/** Options of a client for tests. */
export type TestClientOptions = Pick<ClientOptions, 'retries' | 'timeoutMs'>;

/** A running service for tests. */
export interface TestService extends AsyncDisposable {
  /** The REST resource, ending in `/v1`. */
  readonly baseUrl: string;
  /** The authorization server. */
  readonly authUrl: string;
  /** The event stream. */
  readonly wsUrl: string;
  /** The tools for models: MCP over streamable HTTP. */
  readonly mcpUrl: string;
  readonly clock: TestClock;
  /** Adds an agent. With the policy `allowlist` or `hold`, strangers cannot write to it. */
  addAgent(handle: string, options?: { readonly policy?: 'open' | 'allowlist' | 'hold' | undefined }): Promise<void>;
  /** A client that acts as an agent of this service. */
  client(handle: string, options?: TestClientOptions): Client;
  /**
   * An access token that lets an MCP client act as an agent at `mcpUrl`, sent as `Authorization: Bearer <token>`. It
   * expires 15 minutes later by the clock of the service.
   */
  mcpToken(handle: string): Promise<string>;
  /**
   * Environment variables for a child process, in which `asp` and programs that use this library then act as an agent.
   * They store their files in a folder that is removed with the service.
   */
  env(handle: string): Record<string, string>;
  /** Injects a fault from now on. Call the returned function to stop it. */
  inject(fault: TestFault | TestStreamFault): () => void;
  /**
   * Breaks the event streams of an agent, as a failing network would. Its clients connect again. Returns how many
   * there were.
   */
  cut(handle: string): Promise<number>;
  /**
   * Waits for a message that matches and returns it. A message that came before is found too, but each one only once,
   * so that repeated calls return one message after the other.
   * @throws Error if none comes in time. It lists the messages that came instead.
   */
  expectMessage(expected?: MessageExpectation): Promise<TestMessage>;
  /** Everything that has happened in all sessions, in the order in which it happened. */
  events(): readonly EventEnvelope[];
  /**
   * Prepares the next test: deletes sessions, messages, allowlists, blocks, knocks and idempotency keys, and stops all
   * faults. Agents, clients, open event streams and the clock stay as they are.
   */
  reset(): Promise<void>;
  /** Closes the clients and the service, and removes its files. */
  close(): Promise<void>;
}

const OPTIONS: Record<keyof Required<TestServiceOptions>, true> = { agents: true, areLimitsOn: true, seed: true };

/** Starts a service for tests. Any number of them can run at the same time. */
export async function startService(options: TestServiceOptions = {}): Promise<TestService> {
  requireKnownOptions('startService', options, OPTIONS);
  const agents = (options.agents ?? []).map(readHandle);
  const clock = createTurnableClock(systemClock);
  const faults: Fault[] = [];
  const expectations = createExpectations();
  const { startService: start } = await import('../service/service.js');
  const service = await start({
    host: '127.0.0.1',
    port: 0,
    data: 'memory',
    areLimitsOn: options.areLimitsOn ?? false,
    clock,
    faults: { faults, seed: options.seed },
    rehearsal: { clock, faults, onEvents: expectations.add },
  });
  const transport = createTransport({ clock: systemClock });
  const { baseUrl, authUrl, wsUrl, mcpUrl } = service;
  const credentials = new Map<string, { readonly clientId: string; readonly clientSecret: string }>();
  const clients = new Set<Client>();
  let folder: string | undefined;
  let closing: Promise<void> | undefined;

  const operate = async (
    operation: 'addOperatorAgent' | 'addOperatorClient' | 'triggerEvent',
    body: object,
  ): Promise<unknown> => {
    const { method, path } = OPERATOR_ENDPOINT[operation];
    const headers = { authorization: `Bearer ${service.operatorSecret}`, 'content-type': 'application/json' };
    const url = `${service.operatorUrl}${path}`;
    const answer = await transport.send({ method, url, headers, body: JSON.stringify(body) });
    const reply: unknown = JSON.parse(answer.body.toString('utf8'));
    if (answer.status < 300) return reply;
    throw new Error(ErrorEnvelope.safeParse(reply).data?.error.message ?? `The service answered ${answer.status}.`);
  };
  const addAgent: TestService['addAgent'] = async (name, agentOptions = {}) => {
    requireOpen();
    requireKnownOptions('addAgent', agentOptions, { policy: true });
    const { policy = 'open' } = agentOptions;
    const handle = readHandle(name);
    if (credentials.has(handle)) throw new Error(`${handle} is already on this service.`);
    await operate('addOperatorAgent', { handle, inbound_policy: policy });
    const client = OPERATOR_ENDPOINT.addOperatorClient.reply.parse(await operate('addOperatorClient', { handle }));
    credentials.set(handle, { clientId: client.client_id, clientSecret: client.client_secret });
  };
  const requireOpen = (): void => {
    if (closing !== undefined) throw new Error('This service was closed.');
  };
  const findCredential = (name: string): { clientId: string; clientSecret: string } => {
    requireOpen();
    const handle = readHandle(name);
    const found = credentials.get(handle);
    if (found !== undefined) return found;
    const known = credentials.size === 0 ? 'It has no agents.' : `Its agents: ${[...credentials.keys()].join(', ')}.`;
    throw new Error(
      `${handle} is not on this service. ${known} Add it with startService({ agents: ['${handle.slice(1)}'] }) or addAgent.`,
    );
  };
  const closeAll = async (): Promise<void> => {
    expectations.end();
    await Promise.all([...clients].map((client) => client.close()));
    await service.stop();
    await transport.close();
    clock.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  const close = (): Promise<void> => {
    closing ??= closeAll();
    return closing;
  };

  try {
    for (const handle of agents) await addAgent(handle);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    baseUrl,
    authUrl,
    wsUrl,
    mcpUrl,
    clock: {
      now: clock.now,
      advance(duration) {
        requireOpen();
        clock.advance(readMs('advance', duration));
      },
    },
    addAgent,
    client(handle, clientOptions = {}) {
      requireKnownOptions('client', clientOptions, { retries: true, timeoutMs: true });
      const connection = { service: { baseUrl, authUrl, wsUrl }, transport };
      const credential = createClientCredential({ ...connection, ...findCredential(handle) });
      const client = connect({ ...connection, ...clientOptions, credential });
      clients.add(client);
      return client;
    },
    async mcpToken(handle) {
      const client = findCredential(handle);
      const over = { transport, random: systemRandom };
      const discovery = await discover(over, { baseUrl, authUrl, wsUrl });
      return (await requestClientCredentials({ ...over, discovery }, client, mcpUrl)).accessToken;
    },
    env(handle) {
      const { clientId, clientSecret } = findCredential(handle);
      folder ??= mkdtempSync(join(tmpdir(), 'asp-testing-'));
      const variables = ['XDG_CONFIG_HOME', 'XDG_STATE_HOME', 'XDG_DATA_HOME', 'XDG_RUNTIME_DIR'];
      const places = [...variables, ...(process.platform === 'win32' ? ['APPDATA', 'LOCALAPPDATA'] : [])];
      return {
        ...Object.fromEntries(places.map((name) => [name, join(folder ?? '', name.toLowerCase())])),
        ASP_PROFILE: baseUrl,
        ASP_AGENT: readHandle(handle),
        ASP_CLIENT_ID: clientId,
        ASP_CLIENT_SECRET: clientSecret,
        // These would take precedence.
        ASP_TOKEN: '',
        ASP_WS_TOKEN: '',
      };
    },
    inject(fault) {
      requireOpen();
      const injected = readFault(fault);
      faults.push(injected);
      return () => {
        const index = faults.indexOf(injected);
        if (index >= 0) faults.splice(index, 1);
      };
    },
    async cut(handle) {
      findCredential(handle);
      const answer = await operate('triggerEvent', { event: 'drop', handle: readHandle(handle) });
      return OPERATOR_ENDPOINT.triggerEvent.reply.parse(answer).count;
    },
    expectMessage: expectations.expectMessage,
    events: expectations.list,
    async reset() {
      requireOpen();
      faults.length = 0;
      await service.reset();
      expectations.clear('the service was reset');
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

const FAULT_OPTIONS = { kind: true, on: true, for: true, times: true, every: true, chance: true } as const;

function readFault(fault: TestFault | TestStreamFault): Fault {
  requireKnownOptions('inject', fault, FAULT_OPTIONS);
  const rate = readRate(fault);
  if (fault.kind === 'drop') return { kind: fault.kind, rate };
  const operation = fault.on;
  if (operation !== undefined) endpointRow(operation);
  if (fault.kind === 'delay') {
    // A program in JavaScript may leave it out.
    if ((fault.for as unknown) === undefined)
      throw new TypeError("A delay needs a duration: { kind: 'delay', for: '200ms' }.");
    return { kind: 'delay', delayMs: readMs('delay', fault.for), rate, operation };
  }
  if (fault.kind === 'lost' || fault.kind === 'cut') return { kind: fault.kind, rate, operation };
  if (STATUSES.includes(fault.kind)) return { kind: 'refuse', status: fault.kind, rate, operation };
  throw new TypeError(`'${fault.kind}' is not a fault: use lost, cut, delay, drop or one of ${STATUSES.join(', ')}.`);
}

function readRate({ times, every, chance }: TestFaultRate): Extract<Fault, { kind: 'drop' }>['rate'] {
  if ([times, every, chance].filter((given) => given !== undefined).length > 1)
    throw new TypeError('A fault has one of times, every and chance.');
  if (chance !== undefined) {
    if (chance > 0 && chance <= 1) return { chance };
    throw new TypeError(`chance ${chance} is not between 0 and 1.`);
  }
  for (const count of [times, every])
    if (count !== undefined && !(Number.isSafeInteger(count) && count > 0))
      throw new TypeError(`${count} is not a number of calls: times and every are 1 or more.`);
  return times === undefined ? { every: every ?? 1 } : { first: times };
}
