import type { Clock } from '../../kit/clock.js';
import type { Log } from './context.js';
import type { Database, Work } from './database.js';
import { findScope, type TraceParent } from './request-scope.js';

/** Something that took time, as part of a trace. */
export interface Span {
  readonly trace: TraceParent;
  readonly kind: 'server' | 'client';
  /** One of a fixed set, as are the values of texts in `attributes`, except for the id of a request. */
  readonly name: string;
  /** When it ended, in milliseconds since the epoch. */
  readonly endedAtMs: number;
  readonly ms: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** The type of the failure. */
  readonly error?: string | undefined;
}

/** Exports spans. Recording one never waits. */
export interface Tracer {
  /** The position of a new span below `parent`, or in its own trace. */
  begin(parent: TraceParent | undefined): TraceParent;
  /** Call this only if the trace is sampled. */
  record(span: Span): void;
  /** Exports the remaining spans, for a few seconds at most. */
  close(): Promise<void>;
}

/** Observers of requests. One that is undefined costs nothing. */
export interface Watchers {
  readonly clock: Clock;
  readonly log: Log;
  readonly tracer?: Tracer | undefined;
}

/** The same database, whose reads and writes for requests are spans, and lines of the log at its most detailed. */
export function watchDatabase(database: Database, watchers: Watchers): Database {
  const { clock, log, tracer } = watchers;
  const { debug } = log;
  if (tracer === undefined && debug === undefined) return database;
  const system = database.isExclusive ? 'sqlite' : 'postgresql';
  const watch = async <T>(operation: 'read' | 'write', work: () => Promise<T>): Promise<T> => {
    const scope = findScope();
    if (scope === undefined) return work();
    const trace = scope.trace?.isSampled === true ? tracer?.begin(scope.trace) : undefined;
    const startedMs = clock.monotonic();
    let error: string | undefined;
    try {
      return await work();
    } catch (thrown) {
      error = thrown instanceof Error ? thrown.name : 'Error';
      throw thrown;
    } finally {
      const ms = clock.monotonic() - startedMs;
      debug?.('database', { operation, ms: Math.round(ms), ...(error !== undefined && { error }) });
      const attributes = { 'db.system.name': system, 'db.operation.name': operation };
      if (trace !== undefined)
        tracer?.record({ trace, kind: 'client', name: operation, endedAtMs: clock.now(), ms, attributes, error });
    }
  };
  const watched: Work = {
    read: (work) => watch('read', () => database.read(work)),
    write: (work, holds) => watch('write', () => database.write(work, holds)),
  };
  // Its other members stay those of the database: some are getters, and some are absent.
  return Object.assign(Object.create(database) as Database, watched);
}
