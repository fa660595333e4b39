import { createHash } from 'node:crypto';

import type { Clock } from '../../../src/kit/clock.js';
import { createRandom, type SeededRandom } from '../../support/seeded-random.js';

/** The faults, and the probability of each one at every opportunity. */
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
  stop: 0.0006,
  'clock forward': 0.002,
  'clock back': 0.001,
  sleep: 0.006,
} as const;
export type Fault = keyof typeof FAULTS;

/** One run of the service, from its start to its stop or death. Requests of a dead one are never answered. */
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
 * Controls what happens next: one seed, a clock that moves only on command, and a queue of all work at the borders of
 * the service and its clients. One item runs at a time.
 */
export class World {
  readonly random: SeededRandom;
  readonly counts: Record<string, number> = {};
  readonly violations: string[] = [];
  readonly recent: string[] = [];
  /** Turns off all faults. */
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

  /** Returns a 256-bit digest of the run so far. */
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

  /** Decides whether this fault happens now, and counts it if so. */
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

  /** Resolves when the simulation chooses it; never after `life` has died. */
  turn(label: string, life?: Life): Promise<void> {
    return new Promise((resolve) => this.later(label, resolve, life));
  }

  /** Pauses everything else while the machine works on another thread. */
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

  /** The time passed, independent of the wall clock. */
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

  /** Sets the wall clock. Timers are not affected. */
  shift(ms: number): void {
    this.#shiftMs += ms;
    this.trace(`clock ${ms}`);
  }

  /** Advances time. Timers that come due join the queue, earliest first. */
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

  /** Advances time until the next timer is due. Returns false if there is none. */
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

  /** Kills a process, and drops its waiting work and timers. */
  bury(life: Life): void {
    life.isDead = true;
    this.#waiting = this.#waiting.filter((one) => one.life !== life);
    for (const timer of this.#timers) if (timer.life === life) this.#timers.delete(timer);
  }

  get isIdle(): boolean {
    return this.#waiting.length === 0;
  }

  /** Runs one item of the queue, and often all writes at once, which then share a transaction. */
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

  /** Resolves when everything has reached a border and no other thread works. */
  async rest(): Promise<void> {
    for (let calm = 0; calm < TURNS_TO_REST; calm += 1) {
      await new Promise(setImmediate);
      if (this.#outside > 0) calm = -1;
    }
  }
}
