import type { ServiceContext } from './context.js';
import { type Meter, unmetered } from './meter.js';
import type { Metrics } from './metrics/metrics.js';
import { measureDatabase } from './store/operator-rows.js';

/** Who counts what the service does, and offers the counts to those who ask. */
export interface Watch {
  readonly meter: Meter;
  /** Where the metrics are; undefined: nobody asked for them. */
  start(context: Pick<ServiceContext, 'database' | 'log'>): Promise<string | undefined>;
  stop(): Promise<void>;
}

const NO_WATCH: Watch = { meter: unmetered, start: async () => undefined, stop: async () => {} };

/** Without a port nothing is counted, and nothing that could count is loaded. */
export async function createWatch(port: number | undefined, version: string): Promise<Watch> {
  if (port === undefined) return NO_WATCH;
  const { createMetrics } = await import('./metrics/metrics.js');
  const metrics: Metrics = createMetrics(version);
  let close = async (): Promise<void> => {};
  return {
    meter: metrics.meter,
    async start({ database, log }) {
      const databaseBytes = (): Promise<number | undefined> =>
        database.read(measureDatabase).catch((error) => {
          log.error('database_not_measured', error);
          return undefined;
        });
      metrics.observe({ databaseBytes });
      const { serveMetrics } = await import('./metrics/metrics-server.js');
      const server = await serveMetrics(metrics, port, log);
      close = server.close;
      return server.url;
    },
    async stop() {
      await close();
      metrics.close();
    },
  };
}
