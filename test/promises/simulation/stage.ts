import type { Actor, Write } from './actor.js';
import type { Books } from './books.js';
import type { Link } from './link.js';
import type { LiveReader } from './live-reader.js';
import type { World } from './world.js';

/** A call whose answer the service recorded under its key, and the bytes of that answer. */
export interface Recorded {
  readonly actor: Actor;
  readonly write: Write;
  readonly status: number;
  readonly text: string;
  readonly at: number;
}

/** An operation with a unique text in its effect, and whether the service refused it. */
export interface Claim {
  readonly what: string;
  isRefused: boolean;
}

interface Ways {
  readonly connect: () => Link | undefined;
  readonly operatorSecret: () => string;
  /** Whether a service is listening. */
  readonly isUp: () => boolean;
}

/** The state that all actors of a run share. */
export class Stage {
  readonly world: World;
  readonly books: Books;
  readonly actors: Actor[] = [];
  readonly readers: LiveReader[] = [];
  readonly recorded: Recorded[] = [];
  readonly claims: Claim[] = [];
  rotations = 0;
  readonly uploads = new Map<Actor, string[]>();
  /** The highest acknowledged sequence of each session. */
  readonly acknowledged = new Map<string, number>();
  /** Sockets that were open before the acknowledged revocation of their grant. */
  readonly doomed = new Set<LiveReader>();
  readonly #delivered = new Map<string, Set<number>>();
  readonly connect: () => Link | undefined;
  readonly #readSecret: () => string;
  readonly #isUp: () => boolean;
  #callers: (() => void)[] = [];
  #names = 0;

  constructor(world: World, books: Books, ways: Ways) {
    this.world = world;
    this.books = books;
    this.connect = ways.connect;
    this.#readSecret = ways.operatorSecret;
    this.#isUp = ways.isUp;
  }

  get operatorSecret(): string {
    return this.#readSecret();
  }

  /** Waits for some time, and until a service is listening. */
  async pause(): Promise<void> {
    if (!this.#isUp()) await new Promise<void>((resolve) => this.#callers.push(resolve));
    await this.world.turn('pause');
  }

  /** Call this when a service is listening. */
  callBack(): void {
    for (const call of this.#callers.splice(0)) call();
  }

  /** Returns a unique text. */
  name(kind: string): string {
    this.#names += 1;
    return `${kind}-${this.#names}`;
  }

  delivered(handle: string, session: string): Set<number> {
    const place = `${handle} ${session}`;
    const known = this.#delivered.get(place) ?? new Set();
    this.#delivered.set(place, known);
    return known;
  }

  claim(what: string): Claim {
    const claim = { what, isRefused: false };
    this.claims.push(claim);
    return claim;
  }
}
