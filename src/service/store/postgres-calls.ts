import { createHash } from 'node:crypto';
import type { Client } from 'pg';

import { systemClock, wait } from '../../kit/clock.js';
import type { Calls, Query } from './database.js';
import type { DatabaseAddress } from './database-address.js';
import { createClient } from './postgres-driver.js';

const RECONNECT_PAUSE_MS = 250;
const RECONNECT_PAUSE_MAX_MS = 5_000;

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
  const listenForEver = async (): Promise<void> => {
    let pause = RECONNECT_PAUSE_MS;
    while (!stop.signal.aborted) {
      const startedAt = systemClock.monotonic();
      await listenOnce().catch(onFault);
      if (stop.signal.aborted) return;
      const wasLong = systemClock.monotonic() - startedAt > RECONNECT_PAUSE_MAX_MS;
      pause = wasLong ? RECONNECT_PAUSE_MS : Math.min(pause * 2, RECONNECT_PAUSE_MAX_MS);
      await wait(systemClock, pause, stop.signal).catch(() => {});
    }
  };

  return {
    async send(text) {
      await aside.all('SELECT pg_notify($1, $2)', channel, text);
    },
    listen(listener) {
      listeners.add(listener);
      running ??= listenForEver();
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
