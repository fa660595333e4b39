import { createHash } from 'node:crypto';
import type { Client } from 'pg';

import { systemClock } from '../../kit/clock.js';
import { keepOpen } from '../../kit/keep-open.js';
import type { Calls, Query } from './database.js';
import type { DatabaseAddress } from './database-address.js';
import { createClient } from './postgres-driver.js';

/**
 * LISTEN on a connection of its own, which is made anew when it is lost; NOTIFY outside of every transaction, because
 * inside one it would take a lock of the whole server through COMMIT.
 */
export function createCalls(
  address: DatabaseAddress,
  schema: string,
  aside: Query,
  onFault: (error: unknown) => void,
): Calls & { close(): Promise<void> } {
  const channel = `asp_${createHash('sha256').update(schema).digest('hex').slice(0, 24)}`;
  const listeners = new Set<(text: string) => void>();
  const stop = new AbortController();
  let running: Promise<void> | undefined;

  /** Resolves when the line is gone. */
  const listenOnce = async (): Promise<void> => {
    const client: Client = createClient(address);
    const ended = new Promise<void>((resolve) => {
      client.on('error', () => resolve());
      client.on('end', () => resolve());
      stop.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    client.on('notification', ({ payload = '' }) => {
      for (const listener of [...listeners]) listener(payload);
    });
    try {
      await client.connect();
      await client.query(`LISTEN ${channel}`);
      await ended;
    } finally {
      await client.end().catch(() => {});
    }
  };
  return {
    async send(text) {
      await aside.all('SELECT pg_notify($1, $2)', channel, text);
    },
    listen(listener) {
      listeners.add(listener);
      running ??= keepOpen(systemClock, listenOnce, onFault, stop.signal);
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
