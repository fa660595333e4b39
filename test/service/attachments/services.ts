import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunningService, type ServiceOptions, startService } from '../../../src/service/service.js';
import { type Actor, createActor } from '../../support/actors.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { discover } from '../../support/oauth.js';
import { createSchema, type Schema, TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';

/** Where a service keeps its data: in a PostgreSQL schema, or next to its attachments. */
export interface Data {
  readonly folder: string;
  readonly databaseUrl: string | undefined;
}

/** Starts and stops services that share one folder and one clock. */
export interface Services {
  readonly directory: string;
  readonly clock: TestClock;
  /** The lines that the services logged. */
  readonly lines: string[];
  newData(folder?: string): Data;
  start(data: Data, more?: Partial<ServiceOptions>): Promise<RunningService>;
  stop(service: RunningService): Promise<void>;
  passMinutes(minutes: number): Promise<void>;
  /** Advances time until the sweep has done its work. */
  untilSwept(what: string, isDone: () => boolean): Promise<unknown>;
  dispose(): Promise<void>;
}

export function createServices(): Services {
  const directory = mkdtempSync(join(tmpdir(), 'asp-attachments-'));
  const clock = createTestClock();
  const lines: string[] = [];
  const schemas: Schema[] = [];
  const running: RunningService[] = [];
  const passMinutes = async (minutes: number): Promise<void> => {
    for (let minute = 0; minute < minutes; minute += 1) {
      clock.advance(60_000);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  return {
    directory,
    clock,
    lines,
    newData(folder = join(directory, 'data')) {
      if (TEST_STORE !== 'postgres') return { folder, databaseUrl: undefined };
      // New, because some of these tests need a database without tables.
      const schema = createSchema();
      schemas.push(schema);
      return { folder, databaseUrl: schema.url };
    },
    async start({ folder, databaseUrl }, more = {}) {
      const service = await startService({
        host: '127.0.0.1',
        port: 0,
        data: { directory: folder },
        databaseUrl,
        clock,
        areLimitsOn: false,
        log: {
          info: (event, fields) => lines.push(`${event} ${JSON.stringify(fields)}`),
          warn: (event, error) => lines.push(`${event} ${error}`),
          error: (event, error, fields) => lines.push(`${event} ${error} ${JSON.stringify(fields)}`),
        },
        ...more,
      });
      running.push(service);
      return service;
    },
    async stop(service) {
      running.splice(running.indexOf(service), 1);
      await service.stop();
    },
    passMinutes,
    untilSwept: (what, isDone) =>
      until(
        what,
        async () => {
          await passMinutes(1);
          return isDone();
        },
        30_000,
      ),
    async dispose() {
      for (const service of running) await service.stop();
      for (const schema of schemas) await schema.drop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export const actorAt = async (service: RunningService, name = 'alice'): Promise<Actor> =>
  createActor(await discover(service.baseUrl), { url: service.operatorUrl, secret: service.operatorSecret }, name);
