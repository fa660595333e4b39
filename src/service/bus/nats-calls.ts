import { readFile } from 'node:fs/promises';
import { type ConnectionOptions, connect, credsAuthenticator, type NatsConnection } from '@nats-io/transport-node';

import { type Clock, wait } from '../../kit/clock.js';
import { keepOpen } from '../../kit/keep-open.js';
import type { Log } from '../context.js';
import type { Calls } from '../store/database.js';
import type { BusAddress } from './bus-address.js';

const CONNECT_MS = 5_000;
const PING_MS = 10_000;
const PINGS_MISSED_MAX = 2;
const FAREWELL_MS = 1_000;

export interface NatsOptions {
  readonly address: BusAddress;
  /** Of the form that NATS gives out: a user's JWT and seed. Read anew for each connection. */
  readonly credentialsFile: string | undefined;
  /** What those who hear each other have in common. */
  readonly subject: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** Of an outage only the beginning and the end are told. */
interface Line {
  connection: NatsConnection | undefined;
  isKnownDown: boolean;
}

/** Notifications over NATS, or over `fallback` while the line is down. */
export interface NatsCalls extends Calls {
  close(): Promise<void>;
}

/**
 * Nothing waits for NATS: the line is opened anew for ever, and meanwhile `fallback` carries what is sent. Both are heard
 * at all times, because another service may have lost a line that this one still has.
 */
export function createNatsCalls(options: NatsOptions, fallback: Calls): NatsCalls {
  const { address, subject, clock, log } = options;
  const listeners = new Set<(text: string) => void>();
  const stop = new AbortController();
  const line: Line = { connection: undefined, isKnownDown: false };
  const hear = (text: string): void => {
    for (const listener of [...listeners]) listener(text);
  };
  const onFault = (error: unknown): void => {
    if (!line.isKnownDown) log.error('bus_down', error, { bus: address.shown });
    line.isKnownDown = true;
  };
  const stayOpen = async (): Promise<void> => {
    const connection = await openUnlessStopped(await connectionOptions(options), stop.signal);
    if (connection === undefined) return;
    try {
      const lost = subscribe(connection, subject, hear);
      await Promise.race([lost, connection.flush()]);
      line.connection = connection;
      if (line.isKnownDown) log.info('bus_up', { bus: address.shown });
      line.isKnownDown = false;
      await unlessAborted(lost, stop.signal);
    } finally {
      line.connection = undefined;
      await farewell(connection, clock);
    }
  };
  const running = keepOpen(clock, stayOpen, onFault, stop.signal);

  return {
    async send(text) {
      if (line.connection === undefined) return fallback.send(text);
      line.connection.publish(subject, text);
    },
    listen(listener) {
      listeners.add(listener);
      const stop = fallback.listen(listener);
      return () => {
        stop();
        listeners.delete(listener);
      };
    },
    async close() {
      stop.abort();
      await running;
    },
  };
}

/** We open lines anew ourselves: a library that does keeps what was called meanwhile, which is of no use later. */
async function connectionOptions({ address, credentialsFile }: NatsOptions): Promise<ConnectionOptions> {
  const { servers, isEncrypted, user, password, token } = address;
  return {
    servers: [...servers],
    name: 'asp',
    reconnect: false,
    noEcho: true,
    timeout: CONNECT_MS,
    pingInterval: PING_MS,
    maxPingOut: PINGS_MISSED_MAX,
    noAsyncTraces: true,
    ...(isEncrypted ? { tls: {} } : {}),
    ...(user === undefined ? {} : { user, pass: password ?? '' }),
    ...(token === undefined ? {} : { token }),
    ...(credentialsFile === undefined ? {} : { authenticator: credsAuthenticator(await readFile(credentialsFile)) }),
  };
}

async function openUnlessStopped(options: ConnectionOptions, signal: AbortSignal): Promise<NatsConnection | undefined> {
  const opening = connect(options);
  const opened = await unlessAborted(opening, signal);
  if (opened === undefined)
    opening.then(
      (late) => late.close(),
      () => {},
    );
  return opened;
}

/** The answer rejects when the line is lost, or the server does not let us hear or speak. */
function subscribe(connection: NatsConnection, subject: string, hear: (text: string) => void): Promise<never> {
  return new Promise((_, reject) => {
    connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) hear(message.string());
        else reject(error);
      },
    });
    const watch = async (): Promise<void> => {
      for await (const status of connection.status()) if (status.type === 'error') reject(status.error);
    };
    watch().catch(reject);
    connection.closed().then((error) => reject(error ?? new Error('The connection to the bus was closed.')), reject);
  });
}

/** What was called last still goes out, unless the other side takes nothing any more. */
async function farewell(connection: NatsConnection, clock: Clock): Promise<void> {
  if (connection.isClosed()) return;
  const patience = new AbortController();
  await Promise.race([connection.flush(), wait(clock, FAREWELL_MS, patience.signal)]).catch(() => {});
  patience.abort();
  await connection.close().catch(() => {});
}

/** Undefined as soon as `signal` is aborted. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => resolve(undefined);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp));
  });
}
