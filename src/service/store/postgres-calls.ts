import type { Client } from 'pg';

import { systemClock } from '../../kit/clock.js';
import { keepOpen } from '../../kit/keep-open.js';
import type { Calls, Query } from './database.js';
import type { Driver } from './postgres-driver.js';

interface CallsOptions {
  readonly driver: Driver;
  /** Refuses a new connection by throwing. */
  readonly check: (client: Client) => Promise<void>;
  readonly channel: string;
  readonly aside: Query;
  readonly onFault: (error: unknown) => void;
}

/**
 * LISTEN on a connection of its own, which is made anew when it is lost; NOTIFY outside of every transaction, because
 * inside one it would take a lock of the whole server through COMMIT.
 */
export function createCalls({
  driver,
  check,
  channel,
  aside,
  onFault,
}: CallsOptions): Calls & { close(): Promise<void> } {
  const listeners = new Set<(text: string) => void>();
  const stop = new AbortController();
  let running: Promise<void> | undefined;

  /** Resolves when the line is gone. */
  const listenOnce = async (client: Client): Promise<void> => {
    const ended = new Promise<void>((resolve) => {
      client.on('error', () => resolve());
      client.on('end', () => resolve());
      stop.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    // A throw in an event of the driver would end the process.
    client.on('notification', ({ payload = '' }) => {
      for (const listener of [...listeners]) {
        try {
          listener(payload);
        } catch (error) {
          onFault(error);
        }
      }
    });
    await check(client);
    await client.query(`LISTEN ${channel}`);
    await ended;
  };
  return {
    async send(text) {
      await aside.all('SELECT pg_notify($1, $2)', channel, text);
    },
    listen(listener) {
      listeners.add(listener);
      running ??= keepOpen(systemClock, () => driver.useClient(listenOnce), onFault, stop.signal);
      return () => {
        listeners.delete(listener);
      };
    },
    async close() {
      stop.abort();
      await running;
    },
  };
}
