import { type AsyncQueue, createAsyncQueue } from '../../kit/async-queue.js';
import { orAborted } from '../../kit/clock.js';
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

class SharedSocket {
  readonly #opening: Promise<LiveSocket>;
  readonly #readers = new Set<AsyncQueue<EventEnvelope>>();
  isOver = false;

  constructor(options: SocketOptions) {
    // One reader's signal must not end it for the others.
    this.#opening = openSocket({ ...options, signal: undefined });
    this.#opening
      .then((socket) => this.#passOn(socket))
      .catch(() => {})
      .finally(() => this.#end());
  }

  async join(signal: AbortSignal | undefined): Promise<LiveSocket> {
    const queue = createAsyncQueue<EventEnvelope>();
    this.#readers.add(queue);
    const close = (): void => {
      signal?.removeEventListener('abort', close);
      queue.end();
      this.#readers.delete(queue);
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
      events: queue,
      get closure() {
        return socket.closure;
      },
      get hasDelivered() {
        return socket.hasDelivered;
      },
      epoch: socket.epoch,
      openedAtMs: socket.openedAtMs,
      close,
    };
  }

  async #passOn(socket: LiveSocket): Promise<void> {
    for await (const event of socket.events)
      for (const queue of this.#readers)
        if (queue.size < WAITING_MAX) queue.push(event);
        else queue.end();
  }

  #close(): void {
    this.isOver = true;
    this.#opening.then(
      (socket) => socket.close(),
      () => {},
    );
  }

  #end(): void {
    this.isOver = true;
    for (const queue of this.#readers) queue.end();
  }
}
