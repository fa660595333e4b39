import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import type { Database } from '../../../src/service/core/database.js';
import { createMemoryLimits, unlimited } from '../../../src/service/core/rate-limits.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';
import type { SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { field, list } from '../../support/json.js';
import { Actor, type Credentials } from './actor.js';
import { Books } from './books.js';
import { HttpClient } from './http-client.js';
import { LiveReader } from './live-reader.js';
import { OPERATIONS } from './operations.js';
import { ServiceProcess, type Setting } from './process.js';
import { Stage } from './stage.js';
import { faultyDriver, type SharedStore } from './storage.js';
import { World } from './world.js';

const LANES_PER_ACTOR = 2;
const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000];
const DAY_AND_MORE = 25 * HOUR;
const SLEEPS = [200, 1100, 1100, 5 * SECOND, 5 * SECOND, 61 * SECOND, 61 * SECOND, 20 * MINUTE, 62 * MINUTE];
const POLLS = 3;
/** Enough to notice a lost notification: if its process has died, the next heartbeat is missing for 12 s. */
const POLLS_TO_HEAR = 13;
/** Only PostgreSQL has this table. */
const CHORES = 'CREATE TABLE IF NOT EXISTS chore (name TEXT PRIMARY KEY, taken_at INTEGER NOT NULL)';
/** The same in all processes, so that any of them can serve the operator. */
const OPERATOR_SECRET = new Uint8Array(32).fill(7);
const EVENTS_PAGE = 1000;
/** How often a new operation begins, or time passes, while others wait. */
const [BEGINNINGS, TICKS] = [0.1, 0.02];
const TURNS_MAX = 100_000;
const STOP_GIVES_UP_MS = 10_000;
/** Each operation, repeated by its weight. */
const DRAWN = OPERATIONS.flatMap(([weight, operation]) => Array.from({ length: weight }, () => operation));

/** Where a run begins: a copy of a database with agents, and the credentials of their programs. */
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

/** One history of the whole service and its clients, determined by the seed. */
export class Run {
  readonly world: World;
  readonly books: Books;
  readonly stage: Stage;
  readonly #setting: Setting;
  readonly #lanes: Lane[] = [];
  /** One place for each process that runs at the same time. */
  readonly #processes: (ServiceProcess | undefined)[];
  readonly #openStore: () => Promise<Database>;
  #store: Promise<SharedStore> | undefined;
  #operationsLeft: number;
  #turns = 0;

  constructor(seed: number, beginning: Beginning, operations: number, processes = 1) {
    this.world = new World(seed, beginning.startMs);
    const { random } = this.world;
    const { directory, openConnection } = beginning;
    this.books = new Books(this.world, directory, openConnection(join(directory, 'asp.sqlite')));
    this.#processes = Array.from({ length: processes }, () => undefined);
    const areLimitsOn = random.below(5) === 0;
    this.#openStore = () => this.#openDatabase(directory, openConnection);
    this.#setting = {
      directory,
      openConnection,
      areLimitsOn,
      presenceGraceMs: random.below(3) === 0 ? 3 * SECOND : undefined,
      trust: random.below(5) === 0 ? 'symmetric' : 'recipient',
      committed: () => {
        this.world.count('commits');
        this.books.compare();
      },
      shared: processes === 1 ? undefined : () => this.#share(areLimitsOn),
      operatorSecret: OPERATOR_SECRET,
    };
    this.stage = new Stage(this.world, this.books, {
      connect: () => this.#pick()?.connect(),
      operatorSecret: () => Buffer.from(OPERATOR_SECRET).toString('base64url'),
      isUp: () => this.#running.length > 0,
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

  get #running(): readonly ServiceProcess[] {
    return this.#processes.filter(
      (one) => one?.service !== undefined && !one.isDead && !one.isStopping,
    ) as ServiceProcess[];
  }

  /** Whether all processes are running. */
  get #isRunning(): boolean {
    return this.#running.length === this.#processes.length;
  }

  #pick(): ServiceProcess | undefined {
    const running = this.#running;
    return running.length > 1 ? this.world.random.pick(running) : running[0];
  }

  #share(areLimitsOn: boolean): Promise<SharedStore> {
    this.#store ??= (async () => {
      const clock = this.world.clockOf({ isDead: false });
      const limits = areLimitsOn ? createMemoryLimits(clock) : unlimited;
      return { database: await this.#openStore(), limits, listeners: new Set() };
    })();
    // A failing disk ends the start of every waiting process. The next start opens the store again.
    this.#store.catch(() => {
      this.#store = undefined;
    });
    return this.#store;
  }

  /** The database outlives the processes, so a crash kills one process instead of all. */
  #openDatabase(directory: string, open: Beginning['openConnection']): Promise<Database> {
    const crash = (): void => {
      const one = this.#pick();
      if (one !== undefined) this.world.bury(one);
    };
    const connection = open(join(directory, 'asp.sqlite'));
    connection.exec(CHORES);
    connection.close();
    const events = { committed: this.#setting.committed, crash, isShared: true };
    const openConnection = faultyDriver(this.world, { isDead: false }, open, events);
    const onFault = (error: unknown): void => this.world.violate(`an effect after a commit has thrown ${error}`);
    return openSqlite({ directory }, { openConnection, onFault });
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

  /** Opens a socket for every agent, so that events lost with earlier sockets arrive again. */
  async #connectAll(): Promise<void> {
    for (const actor of this.stage.actors) {
      const reader = new LiveReader(this.stage, actor);
      this.stage.readers.push(reader);
      await this.drive(reader.open());
    }
  }

  /** Runs until nothing is left to do but wait for timers. */
  async #quieten(): Promise<void> {
    const polls = this.#processes.length === 1 ? POLLS : POLLS_TO_HEAR;
    for (let poll = 0; poll < polls; poll += 1) {
      this.world.advance(1100);
      await this.#until(() => this.world.isIdle);
    }
  }

  /** Runs everything until `work` is done. Returns undefined if a violation came first. */
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

  /** Starts a service in every place whose process has died. */
  #tend(): void {
    if (this.#running.length > 0) this.stage.callBack();
    for (const [place, before] of this.#processes.entries()) {
      if (before !== undefined && !before.isDead) continue;
      before?.clearAway();
      const process = new ServiceProcess(this.world, this.#setting);
      this.#processes[place] = process;
      this.world.count('starts');
      process.start().catch((error) => {
        if (process.isDead) return;
        // A failing disk ends a start. The next one may succeed.
        this.world.trace(`did not start: ${error}`);
        this.world.bury(process);
      });
    }
  }

  #disturb(): void {
    const { world } = this;
    const { random } = world;
    const alive = this.#processes.filter((one) => one !== undefined && !one.isDead) as ServiceProcess[];
    const process = alive.length > 1 ? random.pick(alive) : alive[0];
    if (process === undefined) return;
    if (world.fires('crash')) world.bury(process);
    const running = this.#pick();
    if (running !== undefined && world.fires('stop')) void this.#stop(running);
    const links = [...process.links];
    if (links.length > 0 && world.fires('connection cut')) random.pick(links).cut();
    // If the database is shared, a process with a different clock is not ready.
    if (this.#processes.length === 1 && world.fires('clock forward'))
      world.shift(1 + random.below(random.pick([MINUTE, 20 * MINUTE, 2 * HOUR])));
    if (this.#processes.length === 1 && world.fires('clock back'))
      world.shift(-1 - random.below(random.pick([SECOND, 10 * MINUTE])));
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

  /** Starts an operation on a free lane. Returns false if all are busy or no operations are left. */
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

  /** Stops all processes as an operator would. */
  async stop(): Promise<void> {
    for (const process of this.#running) await this.#stop(process);
  }

  /** Stops a process and checks that no timers are left. */
  async #stop(process: ServiceProcess): Promise<void> {
    const before = this.world.passedMs;
    process.isStopping = true;
    await process.service?.stop().catch((error) => this.world.violate(`the stop failed: ${error}`));
    if (process.isDead) return;
    // When time jumps, a stop rightly gives up waiting.
    const isWhole = this.world.passedMs - before < STOP_GIVES_UP_MS;
    const left = isWhole ? this.world.timersOf(process) : [];
    if (left.length > 0) this.world.violate(`timers are left after the stop: ${left.join('; ')}`);
    this.world.bury(process);
  }

  /**
   * Checks that every agent with an open socket has received all events it could see, and each open socket all that
   * happened since it opened, even if notifications were lost.
   */
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
      const lost = reader.listMissing();
      if (lost.length > 0) this.world.violate(`a socket of ${handle} was never given ${lost.join(', ')}`);
      this.world.count('readers compared');
    }
  }

  /** Checks that a new reader gets exactly the events over REST that it may see. */
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

  /** Checks that after a restart, the sweep keeps exactly the files of attachments with a row. */
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
    for (const process of this.#processes) process?.clearAway();
    await this.world.rest();
    await (await this.#store)?.database.close();
    this.books.close();
  }
}
