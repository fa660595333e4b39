import { describe, expect, it } from 'vitest';

import { readTracing } from '../../../src/cli/commands/serve/tracing.js';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
const read = (environment: Record<string, string>) => readTracing(environment, '1.2.3');

describe('the variables of OpenTelemetry', () => {
  it('export nothing unless one names an endpoint', () => {
    expect(read({})).toBeUndefined();
    expect(read({ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'nonsense' })).toBeUndefined();
    expect(read({ ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' })).toBeUndefined();
    expect(read({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' })).toBeUndefined();
    expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' })).toBeUndefined();
  });

  it('add the path to the common endpoint, and use the one for traces unchanged', () => {
    for (const base of ['http://c:4318', 'http://c:4318/', 'http://c:4318//'])
      expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: base })?.url).toBe('http://c:4318/v1/traces');
    expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/otlp' })?.url).toBe('https://c/otlp/v1/traces');
    expect(read({ ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://t/x' })?.url).toBe('https://t/x');
  });

  it('have the defaults of their specification', () => {
    expect(read(ENDPOINT)).toEqual({
      url: 'http://collector:4318/v1/traces',
      headers: {},
      timeoutMs: 10_000,
      sampling: { ratio: 1, isCallerIgnored: false },
      resource: { 'service.name': 'asp', 'service.version': '1.2.3' },
      queueMax: 2_048,
      batchMax: 512,
      pauseMs: 5_000,
    });
  });

  it('set headers, resource, sampling and the queue', () => {
    expect(
      read({
        ...ENDPOINT,
        OTEL_EXPORTER_OTLP_HEADERS: 'api-key=a%20b,X-Other=1',
        OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-other=2',
        OTEL_RESOURCE_ATTRIBUTES: 'service.name=ignored,deployment.environment.name=prod',
        OTEL_SERVICE_NAME: 'messages',
        OTEL_TRACES_SAMPLER: 'traceidratio',
        OTEL_TRACES_SAMPLER_ARG: '0.25',
        OTEL_BSP_MAX_QUEUE_SIZE: '100',
        OTEL_BSP_SCHEDULE_DELAY: '50',
        OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
      }),
    ).toMatchObject({
      headers: { 'api-key': 'a b', 'x-other': '2' },
      resource: { 'service.name': 'messages', 'deployment.environment.name': 'prod' },
      sampling: { ratio: 0.25, isCallerIgnored: true },
      queueMax: 100,
      batchMax: 100,
      pauseMs: 50,
      timeoutMs: 1_000,
    });
    const off = { ...ENDPOINT, OTEL_TRACES_SAMPLER: 'parentbased_always_off' };
    expect(read(off)?.sampling).toEqual({ ratio: 0, isCallerIgnored: false });
  });

  it.each([
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, 'must be a plain http or https address'],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://u:hunter2@collector' }, 'must be a plain http or https address'],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, "'grpc' is not supported"],
    [{ ...ENDPOINT, OTEL_TRACES_SAMPLER: 'jaeger_remote' }, "'jaeger_remote' is not known"],
    [{ ...ENDPOINT, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '1.5' }, 'from 0 to 1'],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS: 'hunter2' }, 'is not a list like name=value'],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS: 'a=%hunter2' }, 'is not a list like name=value'],
    [{ ...ENDPOINT, OTEL_BSP_MAX_QUEUE_SIZE: '0' }, 'from 1 to'],
  ])('are refused if they cannot be used: %j', (environment, message) => {
    let thrown: unknown;
    try {
      readTracing(environment, '1');
    } catch (error) {
      thrown = error;
    }
    expect(String(thrown)).toContain(message);
    expect(String(thrown)).not.toContain('hunter2');
  });
});
