import type { Environment } from '../../../kit/environment.js';
import type { TraceOptions } from '../../../service/operator/traces.js';
import { usageError } from '../../errors.js';

const TRACES_PATH = 'v1/traces';
const SERVICE_NAME = 'asp';
const TIMEOUT_MS = 10_000;
const QUEUE_MAX = 2_048;
const BATCH_MAX = 512;
const PAUSE_MS = 5_000;
const NUMBER_MAX = 10 ** 6;

/**
 * Where traces go, from the standard variables of OpenTelemetry; undefined unless one of them names an endpoint. A
 * value that cannot be used is an error: silently losing traces helps no one.
 */
export function readTracing(environment: Environment, version: string): TraceOptions | undefined {
  const read = (name: string): string | undefined => environment[`OTEL_${name}`]?.trim() || undefined;
  const own = read('EXPORTER_OTLP_TRACES_ENDPOINT');
  const common = read('EXPORTER_OTLP_ENDPOINT');
  if (own === undefined && common === undefined) return undefined;
  if (read('SDK_DISABLED')?.toLowerCase() === 'true' || read('TRACES_EXPORTER') === 'none') return undefined;
  requireJson(read);
  const resource = readPairs('OTEL_RESOURCE_ATTRIBUTES', read('RESOURCE_ATTRIBUTES') ?? '');
  const headers = ['EXPORTER_OTLP_HEADERS', 'EXPORTER_OTLP_TRACES_HEADERS'].map((name) =>
    Object.entries(readPairs(`OTEL_${name}`, read(name) ?? '')).map(([key, value]) => [key.toLowerCase(), value]),
  );
  const number = (names: readonly string[], standard: number, max = NUMBER_MAX): number => {
    const name = names.find((candidate) => read(candidate) !== undefined);
    return name === undefined ? standard : readNumber(`OTEL_${name}`, read(name) ?? '', max);
  };
  const queueMax = number(['BSP_MAX_QUEUE_SIZE'], QUEUE_MAX);
  return {
    url:
      own === undefined
        ? new URL(TRACES_PATH, `${readUrl('OTEL_EXPORTER_OTLP_ENDPOINT', common ?? '').replace(/\/*$/, '')}/`).href
        : readUrl('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', own),
    headers: Object.fromEntries(headers.flat()),
    timeoutMs: number(['EXPORTER_OTLP_TRACES_TIMEOUT', 'EXPORTER_OTLP_TIMEOUT'], TIMEOUT_MS),
    sampling: readSampling(read),
    resource: {
      'service.name': SERVICE_NAME,
      ...resource,
      ...(read('SERVICE_NAME') !== undefined && { 'service.name': read('SERVICE_NAME') ?? '' }),
      'service.version': version,
    },
    queueMax,
    batchMax: Math.min(queueMax, number(['BSP_MAX_EXPORT_BATCH_SIZE'], BATCH_MAX)),
    pauseMs: number(['BSP_SCHEDULE_DELAY'], PAUSE_MS),
  };
}

type Read = (name: string) => string | undefined;

/** `http/protobuf` is the default of OpenTelemetry, and is often set without a thought; its port takes JSON too. */
function requireJson(read: Read): void {
  const name = ['EXPORTER_OTLP_TRACES_PROTOCOL', 'EXPORTER_OTLP_PROTOCOL'].find((one) => read(one) !== undefined);
  const protocol = name === undefined ? 'http/json' : read(name);
  if (protocol === 'http/json' || protocol === 'http/protobuf') return;
  throw usageError(`OTEL_${name} '${protocol}' is not supported.`, {
    why: 'asp sends traces as http/json, usually to port 4318 of a collector.',
  });
}

function readUrl(name: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url !== undefined && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (isPlain) return url.href;
  throw usageError(`${name} must be a plain http or https address.`, {
    why: 'credentials go into OTEL_EXPORTER_OTLP_HEADERS.',
  });
}

function readNumber(name: string, text: string, max: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (value >= 1 && value <= max) return value;
  throw usageError(`${name} '${text}' is not a number from 1 to ${max}.`);
}

/** `name=value,name=value`; values are percent-encoded. The text may hold secrets, so errors do not repeat it. */
function readPairs(name: string, text: string): Record<string, string> {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '');
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, key = '', value = ''] = /^\s*([\w.-]+)\s*=\s*([\x21-\x7e]*)\s*$/.exec(pair) ?? [];
      try {
        if (key !== '') return [key, decodeURIComponent(value)];
      } catch {
        // Not percent-encoded: the same error.
      }
      throw usageError(`${name} is not a list like name=value,name=value.`);
    }),
  );
}

const SAMPLER = /^(parentbased_)?(always_on|always_off|traceidratio)$/;

function readSampling(read: Read): TraceOptions['sampling'] {
  const text = read('TRACES_SAMPLER') ?? 'parentbased_always_on';
  const [, parent, kind] = SAMPLER.exec(text) ?? [];
  if (kind === undefined)
    throw usageError(`OTEL_TRACES_SAMPLER '${text}' is not known.`, {
      why: 'samplers: always_on, always_off, traceidratio, each also with the prefix parentbased_.',
    });
  const ratio = kind === 'always_on' ? 1 : kind === 'always_off' ? 0 : readRatio(read('TRACES_SAMPLER_ARG') ?? '1');
  return { ratio, isCallerIgnored: parent === undefined };
}

function readRatio(text: string): number {
  const ratio = /^\d(\.\d{1,12})?$/.test(text) ? Number(text) : Number.NaN;
  if (ratio <= 1) return ratio;
  throw usageError(`OTEL_TRACES_SAMPLER_ARG '${text}' is not a number from 0 to 1.`);
}
