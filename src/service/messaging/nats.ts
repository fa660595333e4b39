import { readFile } from 'node:fs/promises';
import { type ConnectionOptions, connect, credsAuthenticator, type NatsConnection } from '@nats-io/transport-node';
import { type Clock, orAborted, within } from '../../kit/clock.js';
import { keepOpen } from '../../kit/repeat.js';
import type { Log } from '../core/context.js';
import type { Calls } from '../core/database.js';
import type { BusAddress } from './bus-address.js';

const CONNECT_MS = 5_000;
const PING_MS = 10_000;
const PINGS_MISSED_MAX = 2;
const FLUSH_MS = 1_000;

export interface NatsOptions {
  readonly address: BusAddress;
  /** In the format of NATS: a user's JWT and seed. Read again for each connection. */
  readonly credentialsFile: string | undefined;
  /** The part of the subject that services with the same data share. */
  readonly subject: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** Only the beginning and the end of an outage are reported. */
interface Line {
  connection: NatsConnection | undefined;
  isKnownDown: boolean;
}

/** Notifications over NATS, or over `fallback` while the connection is down. */
export interface NatsCalls extends Calls {
  close(): Promise<void>;
}

/**
 * Nothing waits for NATS: the connection is reopened forever, and meanwhile `fallback` carries the notifications. Both
 * are received at all times, because another service may have lost a connection that this one still has.
 */
export function createNatsCalls(options: NatsOptions, fallback: Calls): NatsCalls {
  const { address, subject, clock, log } = options;
  const listeners = new Set<(text: string) => void>();
  const upListeners: (() => void)[] = [];
  const stop = new AbortController();
  const line: Line = { connection: undefined, isKnownDown: false };
  const hear = (text: string): void => {
    for (const listener of [...listeners]) listener(text);
  };
  const onFault = (error: unknown): void => {
    if (!line.isKnownDown) log.warn('bus_down', error, { bus: address.shown });
    line.isKnownDown = true;
  };
  const stayOpen = async (): Promise<void> => {
    const connection = await openUnlessStopped(await connectionOptions(options), stop.signal);
    if (connection === undefined) return;
    try {
      const lost = subscribe(connection, subject, hear);
      await Promise.race([lost, connection.flush()]);
      line.connection = connection;
      for (const listener of upListeners) listener();
      if (line.isKnownDown) log.info('bus_up', { bus: address.shown });
      line.isKnownDown = false;
      await orAborted(lost, stop.signal, () => {});
    } finally {
      line.connection = undefined;
      await flushAndClose(connection, clock);
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
    // Another service may send over either.
    isUp: () => line.connection !== undefined && fallback.isUp(),
    lines: () => ({ ...fallback.lines(), nats: line.connection !== undefined }),
    onUp(listener) {
      upListeners.push(listener);
      fallback.onUp(listener);
    },
    async close() {
      stop.abort();
      await running;
    },
  };
}

/** We reconnect ourselves: a library would keep notifications in the meantime, which are useless later. */
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
  const opened = await orAborted(opening, signal, () => undefined);
  if (opened === undefined)
    opening.then(
      (late) => late.close(),
      () => {},
    );
  return opened;
}

/** The promise rejects when the connection is lost, or the server does not allow us to subscribe or publish. */
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

/** The latest notifications are still sent, unless the other side no longer accepts anything. */
async function flushAndClose(connection: NatsConnection, clock: Clock): Promise<void> {
  if (connection.isClosed()) return;
  await within(clock, FLUSH_MS, connection.flush(), () => {}).catch(() => {});
  await connection.close().catch(() => {});
}
