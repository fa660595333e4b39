import { Duplex } from 'node:stream';

import type { Life, World } from './world.js';

const WINDOW_BYTES = 64 * 1024;

type Chunk = Buffer | null;

/** One end of a connection. Bytes written here arrive at the other end when the simulation delivers them. */
class End extends Duplex {
  readonly remoteAddress = '127.0.0.1';
  readonly #world: World;
  readonly #label: string;
  readonly #life: Life;
  readonly #queue: Chunk[] = [];
  #other: End | undefined;
  #isWaiting = false;
  #isWanted = true;
  #stalled: (() => void) | undefined;

  constructor(world: World, label: string, life: Life) {
    super();
    this.#world = world;
    this.#label = label;
    this.#life = life;
  }

  join(other: End): void {
    this.#other = other;
  }

  /** The number of bytes sent from here but not yet delivered. */
  get inFlight(): number {
    return this.#queue.reduce((sum, chunk) => sum + (chunk?.length ?? 0), 0);
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#queue.push(chunk);
    this.#arm();
    if (this.inFlight <= WINDOW_BYTES) done();
    else this.#stalled = done;
  }

  /** Sends what was written together as one chunk. */
  override _writev(parts: { readonly chunk: Buffer }[], done: () => void): void {
    this._write(Buffer.concat(parts.map(({ chunk }) => chunk)), '', done);
  }

  override _final(done: () => void): void {
    this.#queue.push(null);
    this.#arm();
    done();
  }

  override _read(): void {
    this.#isWanted = true;
    if (this.#other !== undefined) this.#other.#arm();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#queue.push(null);
    this.#arm();
    done(error);
  }

  /** Drops everything sent from here but not yet delivered. */
  lose(): void {
    this.#queue.length = 0;
    this.destroy();
  }

  #arm(): void {
    const other = this.#other;
    if (this.#isWaiting || this.#queue.length === 0 || other === undefined || !other.#isWanted) return;
    this.#isWaiting = true;
    this.#world.later(this.#label, () => this.#deliver(other), this.#life);
  }

  #deliver(other: End): void {
    this.#isWaiting = false;
    const chunk = this.#queue.shift();
    if (chunk === undefined || other.destroyed) return;
    if (chunk === null) {
      this.#deliverEnd(other);
      return;
    }
    const isTorn = chunk.length > 1 && this.#world.chance(0.05);
    const count = isTorn ? 1 + this.#world.random.below(chunk.length - 1) : chunk.length;
    if (count < chunk.length) this.#queue.unshift(chunk.subarray(count));
    other.#isWanted = other.push(chunk.subarray(0, count));
    if (this.inFlight <= WINDOW_BYTES) {
      const done = this.#stalled;
      this.#stalled = undefined;
      done?.();
    }
    this.#arm();
  }

  #deliverEnd(other: End): void {
    if (this.destroyed) other.destroy();
    else if (!other.readableEnded) other.push(null);
  }
}

/** A connection between a client and a service process. */
export interface Link {
  readonly client: End;
  readonly server: End;
  readonly isOver: boolean;
  /** Breaks the connection and drops all undelivered data. */
  cut(): void;
}

export function createLink(world: World, life: Life): Link {
  const client = new End(world, 'to service', life);
  const server = new End(world, 'to client', life);
  client.join(server);
  server.join(client);
  for (const end of [client, server]) end.on('error', () => {});
  return {
    client,
    server,
    get isOver() {
      return client.destroyed || server.destroyed;
    },
    cut() {
      if (server.inFlight > 0) world.took('answer lost');
      if (client.inFlight > 0) world.took('request lost');
      client.lose();
      server.lose();
    },
  };
}
