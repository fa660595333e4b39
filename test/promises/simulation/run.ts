import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import type { SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { field, list } from '../../support/json.js';
import { Actor, type Credentials } from './actor.js';
import { Books } from './books.js';
import { HttpClient } from './http-client.js';
import { LiveReader } from './live-reader.js';
import { OPERATIONS } from './operations.js';
import { ServiceProcess, type Setting } from './process.js';
import { Stage } from './stage.js';
import { World } from './world.js';

const LANES_PER_ACTOR = 2;
const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000];
const DAY_AND_MORE = 25 * HOUR;
const SLEEPS = [200, 1100, 1100, 5 * SECOND, 5 * SECOND, 61 * SECOND, 61 * SECOND, 20 * MINUTE, 62 * MINUTE];
const POLLS = 3;
const EVENTS_PAGE = 1000;
/** How often something new is begun, or time passes, while others still wait. */
const [BEGINNINGS, TICKS] = [0.1, 0.02];
const TURNS_MAX = 100_000;
const STOP_GIVES_UP_MS = 10_000;
/** Each operation as often as its weight says. */
const DRAWN = OPERATIONS.flatMap(([weight, operation]) => Array.from({ length: weight }, () => operation));

/** Where a run begins: a copy of a database with agents, and what their programs hold. */
export interface Beginning {
  readonly directory: string;
  readonly startMs: number;
  readonly credentials: readonly Credentials[];
  readonly openConnection: (path: string) => SqliteConnection;
}

interface Lane {
  readonly actor: Actor;
  readonly http: HttpClient;
  isBusy: boolean;
}

/** One history of the whole service and its clients, decided by its seed alone. */
export class Run {
  readonly world: World;
  readonly books: Books;
  readonly stage: Stage;
  readonly #setting: Setting;
  readonly #lanes: Lane[] = [];
  #process: ServiceProcess | undefined;
  #operationsLeft: number;
  #turns = 0;

  constructor(seed: number, beginning: Beginning, operations: number) {
    this.world = new World(seed, beginning.startMs);
    const { random } = this.world;
    const { directory, openConnection } = beginning;
    this.books = new Books(this.world, directory, openConnection(join(directory, 'asp.sqlite')));
    this.#setting = {
      directory,
      openConnection,
      areLimitsOn: random.below(5) === 0,
      presenceGraceMs: random.below(3) === 0 ? 3 * SECOND : undefined,
      trust: random.below(5) === 0 ? 'symmetric' : 'recipient',
      committed: () => {
        this.world.count('commits');
        this.books.compare();
      },
    };
    this.stage = new Stage(this.world, this.books, {
      connect: () => this.#process?.connect(),
      operatorSecret: () => this.#process?.service?.operatorSecret ?? '',
      isUp: () => this.#isRunning,
    });
    const count = Math.min(beginning.credentials.length, 3 + random.below(4));
    for (const credentials of beginning.credentials.slice(0, count)) {
      const actor = new Actor(this.stage, credentials);
      this.stage.actors.push(actor);
      for (let lane = 0; lane < LANES_PER_ACTOR; lane += 1)
        this.#lanes.push({ actor, http: new HttpClient(this.stage.connect), isBusy: false });
    }
    this.#operationsLeft = operations;
  }

  get #isWrong(): boolean {
    return this.world.violations.length > 0;
  }

  get #isRunning(): boolean {
    return this.#process?.service !== undefined && !this.#process.isDead && !this.#process.isStopping;
  }

  /** Resolves at the end of the history, or at the first violation. */
  async play(): Promise<void> {
    await this.#until(() => this.#operationsLeft === 0, true);
    this.world.isCalm = true;
    await this.#until(() => this.#lanes.every((lane) => !lane.isBusy) && this.#isRunning);
    await this.#compareReaders();
    await this.#connectAll();
    await this.#compareReaders();
    if (this.#isWrong) return;
    await this.#readEverything();
    this.books.assertKeysUnique();
    for (const { what, isRefused } of this.stage.claims)
      if (isRefused === this.books.found.has(what))
        this.world.violate(`${what} was ${isRefused ? 'refused, and has' : 'acknowledged, and has no'} effect`);
  }

  /** Whoever has no socket gets one: what was lost with the others comes again. */
  async #connectAll(): Promise<void> {
    for (const actor of this.stage.actors) {
      const reader = new LiveReader(this.stage, actor);
      this.stage.readers.push(reader);
      await this.drive(reader.open());
    }
  }

  /** Until nothing happens any more but that time passes. */
  async #quieten(): Promise<void> {
    for (let poll = 0; poll < POLLS; poll += 1) {
      this.world.advance(1100);
      await this.#until(() => this.world.isIdle);
    }
  }

  /** Lets `work` go on with everything else until it is done; undefined: something went wrong before. */
  async drive<T>(work: Promise<T>): Promise<T | undefined> {
    let isDone = false;
    const done = work.finally(() => {
      isDone = true;
    });
    done.catch(() => {});
    await this.#until(() => isDone);
    return isDone ? done : undefined;
  }

  async #until(isOver: () => boolean, isBusy = false): Promise<void> {
    await this.world.rest();
    while (!this.#isWrong && !isOver()) {
      if (this.#turns > TURNS_MAX) this.world.violate('nothing comes to an end');
      this.#turns += 1;
      this.#tend();
      if (isBusy) this.#disturb();
      this.#tend();
      const isBegun = isBusy && (this.world.isIdle || this.world.chance(BEGINNINGS)) && this.#begin();
      if (!isBegun && (this.world.isIdle || (isBusy && this.world.chance(TICKS)))) this.world.advanceToTimer();
      else if (!isBegun) this.world.release();
      await this.world.rest();
    }
  }

  /** There is always a service, or one that starts. */
  #tend(): void {
    if (this.#isRunning) this.stage.callBack();
    if (this.#process !== undefined && !this.#process.isDead) return;
    this.#process?.clearAway();
    const process = new ServiceProcess(this.world, this.#setting);
    this.#process = process;
    this.world.count('starts');
    process.start().catch((error) => {
      if (process.isDead) return;
      // A disk that fails ends a start; the next one may succeed.
      this.world.trace(`did not start: ${error}`);
      this.world.bury(process);
    });
  }

  #disturb(): void {
    const { world } = this;
    const { random } = world;
    const process = this.#process;
    if (process === undefined) return;
    if (world.fires('crash')) world.bury(process);
    if (this.#isRunning && world.fires('stop')) void this.stop();
    const links = [...process.links];
    if (links.length > 0 && world.fires('connection cut')) random.pick(links).cut();
    if (world.fires('clock forward')) world.shift(1 + random.below(random.pick([MINUTE, 20 * MINUTE, 2 * HOUR])));
    if (world.fires('clock back')) world.shift(-1 - random.below(random.pick([SECOND, 10 * MINUTE])));
    if (world.fires('sleep')) this.#sleep();
  }

  #sleep(): void {
    const isAlone = this.#lanes.every((lane) => !lane.isBusy);
    if (isAlone && this.world.chance(0.5)) {
      this.world.took('a day passes');
      this.stage.recorded.length = 0;
      this.world.advance(DAY_AND_MORE);
    } else this.world.advance(this.world.random.pick(SLEEPS));
  }

  /** Gives a free lane something to do. False: all are busy, or nothing is left to do. */
  #begin(): boolean {
    const free = this.#lanes.filter((lane) => !lane.isBusy);
    if (free.length === 0 || this.#operationsLeft === 0) return false;
    const lane = this.world.random.pick(free);
    const operation = this.world.random.pick(DRAWN);
    this.#operationsLeft -= 1;
    this.world.count('operations');
    lane.isBusy = true;
    operation(this.stage, lane.actor, lane.http)
      .catch((error) => this.world.violate(`an operation has thrown ${error instanceof Error ? error.stack : error}`))
      .finally(() => {
        lane.isBusy = false;
      });
    return true;
  }

  /** Stops the service as its operator would; nothing of it may be left. */
  async stop(): Promise<void> {
    const process = this.#process;
    const before = this.world.passedMs;
    if (process !== undefined) process.isStopping = true;
    await process?.service?.stop().catch((error) => this.world.violate(`the stop failed: ${error}`));
    if (process === undefined || process.isDead) return;
    // While time leaps, a stop gives up waiting for what it stops, as it should.
    const isWhole = this.world.passedMs - before < STOP_GIVES_UP_MS;
    const left = isWhole ? this.world.timersOf(process) : [];
    if (left.length > 0) this.world.violate(`timers are left after the stop: ${left.join('; ')}`);
    this.world.bury(process);
  }

  /** Every agent with an open socket has been given what happened before its eyes, whichever bells were lost. */
  async #compareReaders(): Promise<void> {
    await this.#quieten();
    if (this.#isWrong) return;
    for (const reader of this.stage.readers.filter(({ isOpen }) => isOpen)) {
      const { handle } = reader.actor;
      if (this.stage.doomed.has(reader)) this.world.violate(`a socket of ${handle} outlived its grant`);
      for (const [session, log] of this.books.sessions) {
        const delivered = this.stage.delivered(handle, session);
        const missing = log.owedTo(handle).filter((sequence) => !delivered.has(sequence));
        if (missing.length > 0) this.world.violate(`${handle} was never given ${session} ${missing.join(' ')}`);
      }
      this.world.count('readers compared');
    }
  }

  /** What a fresh reader gets over REST is what the log says, as far as the reader may see it. */
  async #readEverything(): Promise<void> {
    for (const actor of this.stage.actors) {
      const http = new HttpClient(this.stage.connect);
      for (const [session, log] of this.books.sessions) {
        if (this.#isWrong) return;
        if (this.world.chance(0.6)) continue;
        const path = `/sessions/${session}/events?limit=${EVENTS_PAGE}`;
        const reply = await this.drive(actor.settle(http, { method: 'GET', path, key: '' }));
        if (reply === undefined) return;
        const visible = log.visibleTo(actor.handle)?.map((sequence) => log.events[sequence - 1]?.id);
        const read =
          reply.status === 200 ? list(reply.json, 'events').map((event) => field(event, 'event_id')) : undefined;
        if (reply.status !== 429 && String(read) !== String(visible))
          this.world.violate(`${actor.handle} reads ${read} of ${session}, and may see ${visible}`);
      }
    }
  }

  /** When a service starts an hour later, its sweep leaves the files of attachments that have a row, and no other. */
  async compareDisk(): Promise<void> {
    await this.drive(this.stop());
    this.world.advance(2 * HOUR);
    this.#tend();
    await this.#until(() => this.#isRunning && this.world.isIdle);
    this.world.advance(2 * HOUR);
    await this.#until(() => this.#isRunning && this.world.isIdle);
    const names = readdirSync(join(this.#setting.directory, 'attachments'));
    const onDisk = names.filter((name) => name.startsWith('att_')).sort();
    const known = this.books.attachmentIds().sort();
    if (!this.#isWrong && String(onDisk) !== String(known)) this.world.violate(`files ${onDisk}, and rows ${known}`);
  }

  async close(): Promise<void> {
    if (!this.#isWrong && this.#isRunning) await this.drive(this.stop());
    this.#process?.clearAway();
    await this.world.rest();
    this.books.close();
  }
}
