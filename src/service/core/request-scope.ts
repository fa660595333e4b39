import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage } from 'node:http';
import type { Random } from '../../kit/random.js';
import { isRequestId, REQUEST_ID_HEADER } from '../../wire/http.js';
import type { Log, LogFields } from './context.js';
import type { Tracer } from './tracer.js';

/** The position of a request in a trace (W3C Trace Context). */
export interface TraceParent {
  readonly traceId: string;
  /** The span of the caller, or our own when the service exports traces. */
  readonly spanId: string;
  readonly isSampled: boolean;
  /** The span of the caller, if `spanId` is our own. */
  readonly parentSpanId?: string | undefined;
  /** True if this service created it and decided about `isSampled`. */
  readonly isOurs?: boolean;
}

/** The request that code works for. */
export interface RequestScope {
  readonly requestId: string;
  readonly trace?: TraceParent | undefined;
}

interface Followed {
  readonly request: object;
  readonly scope: RequestScope;
}

const storage = new AsyncLocalStorage<Followed>();
const scopes = new WeakMap<IncomingMessage, RequestScope>();
const followed = new Set<object>();

/** The request that the running code works for; undefined for work behind requests. */
export function findScope(): RequestScope | undefined {
  const current = storage.getStore();
  return current !== undefined && followed.has(current.request) ? current.scope : undefined;
}

/**
 * Runs `work`, and everything that it starts, for this request, until {@link unfollow}. Before Node.js 24, every promise
 * of the process costs more while any request is followed.
 */
export function follow<T>(request: object, scope: RequestScope, work: () => T): T {
  followed.add(request);
  return storage.run({ request, scope }, work);
}

/** The request is over, or stays open without work of its own: what it has started no longer belongs to it. */
export function unfollow(request: object): void {
  if (followed.delete(request) && followed.size === 0) storage.disable();
}

/** Binds `work` to the current request, even if it runs during another one. */
export function keepScope<Arguments extends unknown[], T>(
  work: (...values: Arguments) => T,
): (...values: Arguments) => T {
  const kept = storage.getStore();
  return (...values) => {
    if (followed.size === 0 || kept === storage.getStore()) return work(...values);
    return kept === undefined ? storage.exit(work, ...values) : storage.run(kept, work, ...values);
  };
}

const ID_BYTES = 10;

/** Not a ULID, which takes ten times as long to make; every request gets one. */
function createRequestId(random: Random): string {
  return `req_${Buffer.from(random.bytes(ID_BYTES)).toString('hex')}`;
}

interface ScopeParts {
  readonly random: Random;
  readonly tracer?: Pick<Tracer, 'begin'> | undefined;
}

/** The scope of a request, with the id and the trace that its caller chose if they are valid. */
export function openScope(request: IncomingMessage, { random, tracer }: ScopeParts): RequestScope {
  const known = scopes.get(request);
  if (known !== undefined) return known;
  const { [REQUEST_ID_HEADER]: supplied, traceparent } = request.headers;
  const requestId = typeof supplied === 'string' && isRequestId(supplied) ? supplied : createRequestId(random);
  const caller = typeof traceparent === 'string' ? readTraceParent(traceparent) : undefined;
  const scope: RequestScope = { requestId, trace: tracer === undefined ? caller : tracer.begin(caller) };
  scopes.set(request, scope);
  return scope;
}

/** The scope that {@link openScope} gave to a request. */
export function scopeOf(request: IncomingMessage): RequestScope | undefined {
  return scopes.get(request);
}

const TRACE_PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;
const SAMPLED = 0x01;

/** A `traceparent` header; undefined if it is not valid. Later versions may have more fields (Trace Context §4.3). */
export function readTraceParent(header: string): TraceParent | undefined {
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACE_PARENT.exec(header) ?? [];
  const isKnown = version !== undefined && version !== 'ff' && (version !== '00' || more === undefined);
  if (!isKnown || ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

/** The fields that name a request in a line of the log. */
export function describeScope(scope: RequestScope | undefined): LogFields {
  if (scope === undefined) return {};
  const { requestId, trace } = scope;
  return {
    request_id: requestId,
    ...(trace !== undefined && { trace_id: trace.traceId, span_id: trace.spanId }),
  };
}

/** The same log. Its lines name the request that caused them, if it is followed. */
export function nameRequests(log: Log): Log {
  const named = (fields: LogFields | undefined): LogFields | undefined => {
    const scope = findScope();
    return scope === undefined ? fields : { ...fields, ...describeScope(scope) };
  };
  const { debug, security } = log;
  return {
    info: (event, fields) => log.info(event, named(fields)),
    warn: (event, error, fields) => log.warn(event, error, named(fields)),
    error: (event, error, fields) => log.error(event, error, named(fields)),
    ...(debug !== undefined && { debug: (event, fields) => debug(event, named(fields) ?? fields) }),
    ...(security !== undefined && {
      security: (event, fields) => security(event, { ...fields, ...(named({}) as Readonly<Record<string, string>>) }),
    }),
  };
}
