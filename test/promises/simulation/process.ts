import type { FileHandle } from 'node:fs/promises';

import { createIds } from '../../../src/kit/ids.js';
import type { Random } from '../../../src/kit/random.js';
import { toAddresses } from '../../../src/service/addresses.js';
import { openAttachmentFiles } from '../../../src/service/attachments/files.js';
import { DEFAULT_ACCOUNT_POLICY, type ServiceContext } from '../../../src/service/core/context.js';
import { unmetered } from '../../../src/service/core/meter.js';
import { createMemoryLimits, unlimited } from '../../../src/service/core/rate-limits.js';
import { createHeldBytes } from '../../../src/service/core/semaphore.js';
import { createHttpServer } from '../../../src/service/http/app.js';
import { createLocalBus, createSharedBus } from '../../../src/service/messaging/shared-bus.js';
import { composeService, type RunningService } from '../../../src/service/service.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';
import type { SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { UNREAD_MAX_BYTES } from '../../../src/wire/limit.js';
import { createLink, type Link } from './link.js';
import {
  faultyDriver,
  isInjected,
  type SharedStore,
  scheduledBus,
  scheduledDatabase,
  scheduledFiles,
  sharedDatabase,
} from './storage.js';
import type { Life, World } from './world.js';

const PLACE = { host: '127.0.0.1', isBehindProxy: false };
const PORT = 8744;
export const ADDRESSES = toAddresses(PLACE, PORT);

/** The inputs of one service process, besides randomness. */
export interface Setting {
  readonly directory: string;
  readonly openConnection: (path: string) => SqliteConnection;
  readonly areLimitsOn: boolean;
  readonly presenceGraceMs: number | undefined;
  readonly trust: 'recipient' | 'symmetric';
  /** Called right after each commit. */
  committed(): void;
  /** The store that this process shares with others, if any. */
  readonly shared: (() => Promise<SharedStore>) | undefined;
  readonly operatorSecret: Uint8Array;
}

/** The real service on a real database. The simulation controls everything that enters or leaves it. */
export class ServiceProcess implements Life {
  isDead = false;
  isStopping = false;
  /** Undefined until it has started. */
  service: RunningService | undefined;
  readonly links = new Set<Link>();
  readonly openFiles = new Set<FileHandle>();
  readonly #world: World;
  readonly #setting: Setting;
  readonly #opened: SqliteConnection[] = [];
  #server: ReturnType<typeof createHttpServer> | undefined;

  constructor(world: World, setting: Setting) {
    this.#world = world;
    this.#setting = setting;
  }

  async start(): Promise<void> {
    const { areLimitsOn, presenceGraceMs, trust, directory } = this.#setting;
    const clock = this.#world.clockOf(this);
    const random = randomOf(this.#world, this.#setting.operatorSecret);
    const store = await this.#openStore();
    const context: Omit<ServiceContext, 'inboxes' | 'refusals'> = {
      clock,
      random,
      ids: createIds(clock, random),
      ...store,
      files: scheduledFiles(
        this.#world,
        this,
        await this.#world.outside(openAttachmentFiles(directory)),
        this.openFiles,
      ),
      unread: createHeldBytes(UNREAD_MAX_BYTES),
      meter: unmetered,
      log: {
        // The duration of a request is real time, which the simulation does not control.
        info: (event, fields) =>
          this.#world.trace(`log: ${event} ${event === 'request' ? '' : JSON.stringify(fields)}`),
        warn: (event) => this.#world.trace(`log: ${event}`),
        error: (event, error) => this.#note(event, error),
      },
      settings: {
        addresses: ADDRESSES,
        trust,
        areLimitsOn,
        participantsMax: 1_000,
        accountPolicy: DEFAULT_ACCOUNT_POLICY,
        presenceGraceMs,
        isBehindProxy: false,

        isAddressShared: false,
      },
    };
    let listener: Parameters<typeof createHttpServer>[0] = () => {};
    const server = createHttpServer((request, response) => listener(request, response));
    const service = await composeService({
      options: { host: PLACE.host, port: PORT, data: { directory } },
      context,
      server,
      port: PORT,
      useListener: (next) => {
        listener = next;
      },
      metricsUrl: undefined,
      undo: [context.files, context.database, context.bus].map((one) => () => one.close()),
    });
    if (this.isDead) return;
    this.#server = server;
    this.service = service;
  }

  async #openStore(): Promise<Pick<ServiceContext, 'database' | 'bus' | 'limits'>> {
    const { shared, areLimitsOn } = this.#setting;
    const clock = this.#world.clockOf(this);
    const onFault = (error: unknown): void => this.#world.violate(`a bell has thrown ${error}`);
    if (shared === undefined)
      return {
        database: scheduledDatabase(this.#world, this, await this.#openDatabase()),
        bus: scheduledBus(this.#world, this, createLocalBus(onFault)),
        limits: areLimitsOn ? createMemoryLimits(clock) : unlimited,
      };
    const store = await shared();
    const database = sharedDatabase(this.#world, this, store);
    const processId = createIds(clock, randomOf(this.#world)).ulid();
    return { database, bus: createSharedBus(database.calls, { processId, onFault, clock }), limits: store.limits };
  }

  /** Only injected faults may cause errors while the process is running. */
  #note(event: string, error: unknown): void {
    this.#world.trace(`log: ${event} ${error}`);
    // Hours can pass during an upload, and another process then moves its file to the trash.
    const isOvertaken =
      this.#setting.shared !== undefined && error instanceof Error && /^ENOENT: .*\/att_/.test(error.message);
    if (!this.isDead && !this.isStopping && !isInjected(error) && !isOvertaken)
      this.#world.violate(`${event}: ${error instanceof Error ? error.stack : error}`);
  }

  #openDatabase() {
    const open = faultyDriver(
      this.#world,
      this,
      (path) => {
        const connection = this.#setting.openConnection(path);
        this.#opened.push(connection);
        return connection;
      },
      { committed: this.#setting.committed, crash: () => this.#world.bury(this) },
    );
    const onFault = (error: unknown): void => this.#world.violate(`an effect after a commit has thrown ${error}`);
    return openSqlite({ directory: this.#setting.directory }, { openConnection: open, onFault });
  }

  /** Opens a connection. Returns undefined if the process does not listen. */
  connect(): Link | undefined {
    if (this.isDead || this.isStopping || this.#server === undefined) return undefined;
    const link = createLink(this.#world, this);
    this.links.add(link);
    link.client.once('close', () => this.links.delete(link));
    this.#server.emit('connection', link.server);
    return link;
  }

  /** Removes everything that the process held in memory. Its commits remain. */
  clearAway(): void {
    this.#world.bury(this);
    for (const file of this.openFiles) void this.#world.outside(file.close());
    this.openFiles.clear();
    for (const link of this.links) link.cut();
    for (const connection of this.#opened.splice(0).reverse())
      try {
        if (connection.isTransaction) connection.exec('ROLLBACK');
        connection.close();
      } catch {
        // The process had closed it.
      }
  }
}

/** `first` is the result of the first draw with its length, which is the operator's secret. */
function randomOf(world: World, first?: Uint8Array): Random {
  let next = first;
  return {
    bytes: (count) => {
      const given = count === next?.length ? next : undefined;
      if (given !== undefined) next = undefined;
      return given ?? Uint8Array.from({ length: count }, () => world.random.below(256));
    },
    fraction: () => world.random.below(1_000_000) / 1_000_000,
  };
}
