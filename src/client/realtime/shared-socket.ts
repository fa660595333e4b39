import { type AsyncQueue, createAsyncQueue } from '../../kit/async-queue.js';
import { type Clock, orAborted } from '../../kit/clock.js';
import type { EventEnvelope } from '../../wire/schemas/event.js';
import { abortion } from '../http/request-error.js';
import { type LiveSocket, type OpenSocket, openSocket, type SocketOptions, WAITING_MAX } from './socket.js';

/**
 * Opens one connection for all that ask for one at the same time. It closes when the last of them has closed its own.
 * A reader that falls behind is cut off: memory stays bounded, and the others do not wait for it.
 */
export function createSharedSocket(): OpenSocket {
  let shared: SharedSocket | undefined;
  return (options) => {
    if (shared === undefined || shared.isOver) shared = new SharedSocket(options);
    return shared.join(options.signal);
  };
}

interface Reader {
  readonly queue: AsyncQueue<EventEnvelope>;
  hasDelivered: boolean;
}

class SharedSocket {
  readonly #clock: Clock;
  readonly #opening: Promise<LiveSocket>;
  readonly #readers = new Set<Reader>();
  /** One reader's signal must not end it for the others. */
  readonly #life = new AbortController();
  isOver = false;

  constructor(options: SocketOptions) {
    this.#clock = options.transport.clock;
    this.#opening = openSocket({ ...options, signal: this.#life.signal });
    this.#opening
      .then((socket) => this.#passOn(socket))
      .catch(() => {})
      .finally(() => this.#end());
  }

  async join(signal: AbortSignal | undefined): Promise<LiveSocket> {
    const reader: Reader = { queue: createAsyncQueue<EventEnvelope>(), hasDelivered: false };
    this.#readers.add(reader);
    const close = (): void => {
      signal?.removeEventListener('abort', close);
      reader.queue.end();
      this.#readers.delete(reader);
      if (this.#readers.size === 0) this.#close();
    };
    signal?.addEventListener('abort', close, { once: true });
    const opened =
      signal === undefined
        ? this.#opening
        : orAborted(this.#opening, signal, () => {
            throw abortion(signal, 'not_applied');
          });
    const socket = await opened.catch((error: unknown) => {
      close();
      throw error;
    });
    return {
      events: reader.queue,
      get closure() {
        return socket.closure;
      },
      get hasDelivered() {
        return reader.hasDelivered;
      },
      epoch: socket.epoch,
      // For this reader: how long another one had it says nothing about its own failures.
      openedAtMs: this.#clock.monotonic(),
      close,
    };
  }

  async #passOn(socket: LiveSocket): Promise<void> {
    for await (const event of socket.events)
      for (const reader of this.#readers)
        if (reader.queue.size < WAITING_MAX) {
          reader.queue.push(event);
          reader.hasDelivered = true;
        } else reader.queue.end();
  }

  #close(): void {
    this.isOver = true;
    this.#life.abort();
  }

  #end(): void {
    this.isOver = true;
    for (const { queue } of this.#readers) queue.end();
  }
}
