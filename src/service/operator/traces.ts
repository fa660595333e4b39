import { type Clock, within } from '../../kit/clock.js';
import type { Random } from '../../kit/random.js';
import { beatEvery } from '../../kit/repeat.js';
import type { Log } from '../core/context.js';
import type { Meter } from '../core/meter.js';
import type { Span, Tracer } from '../core/tracer.js';

/** Which traces are exported: the caller decides if it sent a trace, unless `isCallerIgnored`; otherwise this share. */
interface Sampling {
  readonly ratio: number;
  readonly isCallerIgnored: boolean;
}

/** Where traces go, and how. */
export interface TraceOptions {
  readonly url: string;
  /** They may hold a secret. */
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly sampling: Sampling;
  /** Attributes of everything from this process. */
  readonly resource: Readonly<Record<string, string>>;
  /** Spans in memory; those beyond it are dropped. */
  readonly queueMax: number;
  readonly batchMax: number;
  readonly pauseMs: number;
}

interface TracerParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly meter: Meter;
}

const TRACE_ID_BYTES = 16;
const SPAN_ID_BYTES = 8;
const CLOSE_MAX_MS = 3_000;
/** Statuses after which the same batch may be accepted later (OTLP §OTLP/HTTP Response). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** Sends spans as OTLP in JSON over HTTP, a batch at a time, behind the requests that they describe. */
export function createTracer(options: TraceOptions, { clock, random, log, meter }: TracerParts): Tracer {
  const { queueMax, batchMax, sampling } = options;
  let queue: Span[] = [];
  let exporting: Promise<void> | undefined;
  let isDown = false;
  let dropped = 0;

  const newId = (bytes: number): string => Buffer.from(random.bytes(bytes)).toString('hex');
  const drop = (count: number): void => {
    dropped += count;
    meter.spansDropped(count);
  };
  const report = (fault: unknown): void => {
    if (fault === undefined && isDown) log.info('traces_up', { dropped });
    if (fault === undefined) dropped = 0;
    else if (!isDown) log.warn('traces_down', fault, { url: options.url });
    isDown = fault !== undefined;
  };
  /** False: the collector cannot take more now. */
  const exportBatch = async (): Promise<boolean> => {
    const batch = queue.slice(0, batchMax);
    const result = await post(options, batch);
    // Nothing else removes spans, so they are still the first ones.
    if (!result.isRetryable) queue = queue.slice(batch.length);
    if (result.fault !== undefined && !result.isRetryable) drop(batch.length);
    if (result.rejected > 0) drop(result.rejected);
    report(result.fault);
    return !result.isRetryable;
  };
  const exportAll = async (): Promise<void> => {
    while (queue.length > 0 && (await exportBatch()));
  };
  const flush = (): Promise<void> => {
    exporting ??= exportAll().finally(() => {
      exporting = undefined;
    });
    return exporting;
  };
  const stop = beatEvery(clock, options.pauseMs, () => void flush());

  return {
    begin(parent) {
      const traceId = parent?.traceId ?? newId(TRACE_ID_BYTES);
      const isDecided = parent !== undefined && (parent.isOurs === true || !sampling.isCallerIgnored);
      return {
        traceId,
        spanId: newId(SPAN_ID_BYTES),
        parentSpanId: parent?.spanId,
        isSampled: isDecided ? parent.isSampled : isChosen(traceId, sampling.ratio),
        isOurs: true,
      };
    },
    record(span) {
      if (queue.length >= queueMax) return drop(1);
      queue.push(span);
      if (queue.length === batchMax && !isDown) void flush();
    },
    async close() {
      stop();
      // One batch may be in flight, and spans may have arrived since.
      await within(clock, CLOSE_MAX_MS, flush().then(flush), () => {});
      if (queue.length > 0) drop(queue.length);
    },
  };
}

const RATIO_DIGITS = 13;

/** The same for each service that sees the trace: its id is random. */
function isChosen(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(-RATIO_DIGITS), 16) / 16 ** RATIO_DIGITS < ratio;
}

interface Exported {
  /** Why the batch was not taken. */
  readonly fault?: unknown;
  readonly isRetryable: boolean;
  readonly rejected: number;
}

async function post(options: TraceOptions, batch: readonly Span[]): Promise<Exported> {
  try {
    const answer = await fetch(options.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...options.headers },
      body: JSON.stringify(toDocument(options.resource, batch)),
      redirect: 'manual',
      signal: AbortSignal.timeout(options.timeoutMs),
    });
    const text = await answer.text();
    if (answer.ok) return { isRetryable: false, rejected: readRejected(text) };
    const fault = new Error(`The collector answered with ${answer.status}.`);
    return { fault, isRetryable: RETRYABLE.has(answer.status), rejected: 0 };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return { fault: cause, isRetryable: true, rejected: 0 };
  }
}

/** How many spans the collector did not accept, although it took the batch. */
function readRejected(text: string): number {
  try {
    const count = Number(JSON.parse(text)?.partialSuccess?.rejectedSpans ?? 0);
    return Number.isSafeInteger(count) && count > 0 ? count : 0;
  } catch {
    return 0;
  }
}

const KIND = { server: 2, client: 3 } as const;
const STATUS_ERROR = 2;

/** The request of the OTLP exporter in its JSON form: ids in hex, 64-bit numbers as texts. */
function toDocument(resource: TraceOptions['resource'], spans: readonly Span[]): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: toAttributes(resource) },
        scopeSpans: [{ scope: { name: 'asp-cli' }, spans: spans.map(toSpan) }],
      },
    ],
  };
}

function toSpan({ trace, kind, name, endedAtMs, ms, attributes, error }: Span): object {
  return {
    traceId: trace.traceId,
    spanId: trace.spanId,
    ...(trace.parentSpanId !== undefined && { parentSpanId: trace.parentSpanId }),
    name,
    kind: KIND[kind],
    startTimeUnixNano: toNanoseconds(endedAtMs - ms),
    endTimeUnixNano: toNanoseconds(endedAtMs),
    attributes: toAttributes(error === undefined ? attributes : { ...attributes, 'error.type': error }),
    status: error === undefined ? {} : { code: STATUS_ERROR },
  };
}

/** A number of nanoseconds since the epoch is beyond what a double can hold. */
function toNanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(6, '0')}`;
}

function toAttributes(values: Readonly<Record<string, string | number>>): object[] {
  return Object.entries(values).map(([key, value]) => ({
    key,
    value: typeof value === 'string' ? { stringValue: value } : { intValue: String(Math.round(value)) },
  }));
}
