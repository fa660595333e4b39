import { createHash } from 'node:crypto';

import type { Clock } from '../../../src/kit/clock.js';
import { createRandom, type SeededRandom } from '../../support/seeded-random.js';

/** What can go wrong on purpose, and how likely it is each time that it could. */
export const FAULTS = {
  'bell lost': 0.1,
  'bell late': 0.08,
  'bell doubled': 0.08,
  'commit failed': 0.025,
  'disk error': 0.0015,
  'file error': 0.02,
  'connection cut': 0.004,
  'crash before commit': 0.0012,
  'crash after commit': 0.0012,
  crash: 0.0003,
  stop: 0.0003,
  'clock forward': 0.002,
  'clock back': 0.001,
  sleep: 0.006,
} as const;
export type Fault = keyof typeof FAULTS;

/** One run of the service, from its start to its stop or death. What a dead one asks for is never given. */
export interface Life {
  isDead: boolean;
}

interface Waiting {
  readonly label: string;
  readonly life: Life | undefined;
  go(): void;
}

interface Timer {
  readonly life: Life;
  readonly at: number;
  readonly action: () => void;
  isDue: boolean;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const TURNS_TO_REST = 3;
const TRACE_KEPT = 5000;

/**
 * Everything that decides what happens next: one seed, a clock that moves when it is told to, and all that waits at the
 * borders of the service and its clients, of which one goes on at a time.
 */
export class World {
  readonly random: SeededRandom;
  readonly counts: Record<string, number> = {};
  readonly violations: string[] = [];
  readonly recent: string[] = [];
  /** No fault fires any more. */
  isCalm = false;
  steps = 0;
  #waiting: Waiting[] = [];
  readonly #timers = new Set<Timer>();
  readonly #hash = createHash('sha256');
  readonly #startMs: number;
  readonly #reluctant: string;
  readonly #temper: Partial<Record<Fault, number>>;
  #passedMs = 0;
  #shiftMs = 0;
  #outside = 0;

  constructor(seed: number, startMs: number) {
    this.random = createRandom(seed);
    this.#startMs = startMs;
    this.#reluctant = this.random.pick(['', '', 'bell', 'write', 'read', 'to client', 'to service', 'file', 'sign']);
    const names = Object.keys(FAULTS) as Fault[];
    this.#temper = Object.fromEntries(names.map((name) => [name, this.random.pick([0, 0.5, 1, 1, 3])]));
  }

  /** The state of the run so far in one number of 256 bits. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }

  trace(line: string): void {
    this.#hash.update(`${line}\n`);
    this.recent.push(line);
    if (this.recent.length > TRACE_KEPT) this.recent.shift();
  }

  violate(what: string): void {
    this.trace(`VIOLATION ${what}`);
    this.violations.push(what);
  }

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  chance(share: number): boolean {
    return this.random.below(1_000_000) < share * 1_000_000;
  }

  /** Whether this fault takes effect here and now; the answer true counts as one that did. */
  fires(fault: Fault): boolean {
    if (this.isCalm || !this.chance(FAULTS[fault] * (this.#temper[fault] ?? 1))) return false;
    this.took(fault);
    return true;
  }

  took(fault: string): void {
    this.count(fault);
    this.trace(`fault: ${fault}`);
  }

  later(label: string, go: () => void, life?: Life): void {
    this.#waiting.push({ label, life, go });
  }

  /** Resolves when the simulation chooses it; never for the dead. */
  turn(label: string, life?: Life): Promise<void> {
    return new Promise((resolve) => this.later(label, resolve, life));
  }

  /** Work that the machine does on another thread: nothing else goes on meanwhile. */
  async outside<T>(work: Promise<T>): Promise<T> {
    this.#outside += 1;
    try {
      return await work;
    } finally {
      this.#outside -= 1;
    }
  }

  get now(): number {
    return this.#startMs + this.#passedMs + this.#shiftMs;
  }

  /** How much time has passed, whatever the clock on the wall says. */
  get passedMs(): number {
    return this.#passedMs;
  }

  clockOf(life: Life): Clock {
    return {
      now: () => this.now,
      monotonic: () => this.#passedMs,
      schedule: (delayMs, action) => {
        const timer = { life, at: this.#passedMs + Math.max(0, Math.min(delayMs, DAY_MS * 24)), action, isDue: false };
        this.#timers.add(timer);
        return () => this.#timers.delete(timer);
      },
    };
  }

  /** Sets the clock on the wall; what waits for time to pass does not notice. */
  shift(ms: number): void {
    this.#shiftMs += ms;
    this.trace(`clock ${ms}`);
  }

  /** Time passes. What is due then waits like everything else, the earliest first. */
  advance(ms: number): void {
    this.#passedMs += ms;
    for (const timer of this.#timers) {
      if (timer.isDue || timer.at > this.#passedMs) continue;
      timer.isDue = true;
      this.later('timer', () => this.#fire(), timer.life);
    }
  }

  #fire(): void {
    let first: Timer | undefined;
    for (const timer of this.#timers)
      if (!timer.life.isDead && timer.at <= this.#passedMs && (first === undefined || timer.at < first.at))
        first = timer;
    if (first === undefined) return;
    this.#timers.delete(first);
    first.action();
  }

  /** Until the next timer is due. False: there is none. */
  advanceToTimer(): boolean {
    const ats = [...this.#timers].filter(({ life }) => !life.isDead).map(({ at }) => at);
    if (ats.length === 0) return false;
    const ms = Math.min(...ats) - this.#passedMs;
    this.advance(Math.max(0, ms));
    return true;
  }

  timersOf(life: Life): readonly string[] {
    return [...this.#timers]
      .filter((timer) => timer.life === life)
      .map(({ at, action }) => `in ${at - this.#passedMs} ms: ${action}`);
  }

  /** What waited for it is forgotten with it. */
  bury(life: Life): void {
    life.isDead = true;
    this.#waiting = this.#waiting.filter((one) => one.life !== life);
    for (const timer of this.#timers) if (timer.life === life) this.#timers.delete(timer);
  }

  get isIdle(): boolean {
    return this.#waiting.length === 0;
  }

  /** Lets one of those that wait go on, and often all writes at once, which then share a transaction. */
  release(): void {
    const [chosen] = this.#waiting.splice(this.#choose(), 1);
    if (chosen === undefined) return;
    this.steps += 1;
    this.trace(chosen.label);
    chosen.go();
    if (chosen.label !== 'write' || !this.chance(0.4)) return;
    const others = this.#waiting.filter(({ label }) => label === 'write');
    this.#waiting = this.#waiting.filter(({ label }) => label !== 'write');
    for (const other of others) other.go();
    if (others.length > 0) this.trace(`and ${others.length} more`);
  }

  #choose(): number {
    const index = this.random.below(this.#waiting.length);
    const isReluctant = this.#reluctant !== '' && this.#waiting[index]?.label.startsWith(this.#reluctant) === true;
    return isReluctant && this.chance(0.85) ? this.random.below(this.#waiting.length) : index;
  }

  /** Resolves when everything that could go on has come to a border, and no other thread works. */
  async rest(): Promise<void> {
    for (let calm = 0; calm < TURNS_TO_REST; calm += 1) {
      await new Promise(setImmediate);
      if (this.#outside > 0) calm = -1;
    }
  }
}
