import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/kit/clock.js';
import type { Log } from '../../../src/service/core/context.js';
import { watchDatabase } from '../../../src/service/core/tracer.js';
import type { TraceOptions } from '../../../src/service/operator/traces.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';
import { request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { openSocket } from '../../support/socket.js';
import { until } from '../../support/until.js';
import { type Collector, plain, type ReceivedSpan, startCollector } from './collector.js';

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN_ID = '00f067aa0ba902b7';
const SERVER = 2;
const CLIENT = 3;

describe('traces', () => {
  let collector: Collector;
  let service: TestService | undefined;
  const lines: Record<string, unknown>[] = [];
  const log: Log = {
    info: (event, fields) => void lines.push({ event, ...fields }),
    warn: (event, error, fields) => void lines.push({ event, error: String(error), ...fields }),
    error: (event, error, fields) => void lines.push({ event, error: String(error), ...fields }),
  };
  beforeEach(async () => {
    lines.length = 0;
    collector = await startCollector();
  });
  afterEach(async () => {
    await service?.stop();
    service = undefined;
    await collector.close();
  });

  const start = async (more: Partial<TraceOptions> = {}): Promise<TestService> => {
    service = await startTestService({
      log,
      areLimitsOn: false,
      metricsPort: 0,
      traces: {
        url: `${collector.url}/v1/traces`,
        headers: { 'x-key': 'secret-of-the-collector' },
        timeoutMs: 500,
        sampling: { ratio: 1, isCallerIgnored: false },
        resource: { 'service.name': 'asp' },
        queueMax: 2_048,
        batchMax: 512,
        pauseMs: 20,
        ...more,
      },
    });
    return service;
  };
  const ofRoute = (route: string): ReceivedSpan[] =>
    collector.spans.filter(({ attributes }) => plain(attributes)['http.route'] === route);
  const metric = async ({ metricsUrl = '' }: TestService): Promise<number> =>
    Number(/^asp_trace_spans_dropped_total (\d+)$/m.exec((await request(metricsUrl)).text)?.[1]);

  it('have a span for each request, with one below it for each read and write that it waited for', async () => {
    const { createAgent } = await start();
    const alice = await createAgent('alice');
    await alice.mustCreate({ topic: 'said-in-private' });
    await until('it was exported', async () => ofRoute('/v1/sessions').length > 0);
    const [span] = ofRoute('/v1/sessions');
    expect(span).toMatchObject({ kind: SERVER, name: 'POST /v1/sessions', status: {} });
    expect(span?.parentSpanId).toBeUndefined();
    expect(plain(span?.attributes ?? [])).toEqual({
      'http.request.method': 'POST',
      'http.route': '/v1/sessions',
      'http.response.status_code': 201,
      'asp.request_id': expect.stringMatching(/^req_/),
    });
    const below = collector.spans.filter(({ parentSpanId }) => parentSpanId === span?.spanId);
    expect(below.map(({ name }) => name)).toContain('write');
    for (const child of below) {
      expect(child).toMatchObject({ kind: CLIENT, traceId: span?.traceId, status: {} });
      expect(plain(child.attributes)['db.system.name']).toMatch(/^(sqlite|postgresql)$/);
      expect(BigInt(child.startTimeUnixNano) <= BigInt(child.endTimeUnixNano)).toBe(true);
      expect(Math.abs(Number(BigInt(child.startTimeUnixNano) / 1_000_000n) - Date.now())).toBeLessThan(60_000);
    }
    const line = lines.find(({ event, route }) => event === 'request' && route === '/v1/sessions');
    expect(line).toMatchObject({ trace_id: span?.traceId, span_id: span?.spanId });
  });

  it('contain no token, handle, session id, or content', async () => {
    const { createAgent, stop } = await start();
    const alice = await createAgent('alice');
    const id = await alice.mustCreate({ topic: 'said-in-private' });
    await alice.mustSend(id, 'said-in-private');
    await request(`${service?.baseUrl}/sessions/${id}?token=said-in-private`, {
      headers: { authorization: 'Bearer x' },
    });
    const token = await alice.token();
    await stop();
    service = undefined;
    const sent = collector.texts.join('');
    expect(sent).toContain('/v1/sessions/:session_id');
    for (const secret of ['said-in-private', id, alice.handle, alice.credentials.clientSecret, token])
      expect(sent).not.toContain(secret);
    expect(JSON.stringify(lines)).not.toContain('secret-of-the-collector');
    expect(collector.headers[0]).toMatchObject({ 'x-key': 'secret-of-the-collector' });
    expect(collector.resources[0]).toEqual({ 'service.name': 'asp' });
  });

  it('continue the trace of the caller, which decides whether it is exported', async () => {
    const { baseUrl } = await start();
    const ask = (flags: string) =>
      request(`${baseUrl}/agents/me`, { headers: { traceparent: `00-${TRACE_ID}-${SPAN_ID}-${flags}` } });
    await ask('00');
    await ask('01');
    await until('it was exported', async () => ofRoute('/v1/agents/me').length > 0);
    expect(ofRoute('/v1/agents/me')).toMatchObject([{ traceId: TRACE_ID, parentSpanId: SPAN_ID }]);
    const [unsampled, sampled] = lines.filter(({ route }) => route === '/v1/agents/me');
    expect(unsampled?.['trace_id']).toBe(TRACE_ID);
    expect(sampled?.['span_id']).toBe(ofRoute('/v1/agents/me')[0]?.spanId);
  });

  it('are sampled at the configured rate, whatever a stranger requests', async () => {
    const { baseUrl, stop } = await start({ sampling: { ratio: 0.5, isCallerIgnored: true } });
    for (let count = 0; count < 60; count += 1) await request(`${baseUrl}/agents/me`);
    for (let count = 0; count < 10; count += 1)
      await request(`${baseUrl}/agents/me`, { headers: { traceparent: `00-${'f'.repeat(32)}-${SPAN_ID}-01` } });
    for (let count = 0; count < 10; count += 1)
      await request(`${baseUrl}/agents/me`, {
        headers: { traceparent: `00-${'f'.repeat(16)}${'0'.repeat(15)}1-${SPAN_ID}-00` },
      });
    await stop();
    service = undefined;
    const exported = ofRoute('/v1/agents/me');
    expect(exported.filter(({ traceId }) => traceId === 'f'.repeat(32))).toEqual([]);
    expect(exported.filter(({ traceId }) => /^f{16}0/.test(traceId))).toHaveLength(10);
    const own = exported.filter(({ parentSpanId }) => parentSpanId === undefined);
    expect(own.length).toBeGreaterThan(12);
    expect(own.length).toBeLessThan(48);
  });

  it('include the handshake of a WebSocket, and the status of a failure', async () => {
    const { wsUrl, createAgent } = await start();
    const alice = await createAgent('alice');
    const socket = await alice.mustConnect();
    await openSocket(wsUrl, { authorization: 'Bearer no' });
    await until('both were exported', async () => ofRoute('/connect').length === 2);
    expect(ofRoute('/connect').map(({ attributes }) => plain(attributes)['http.response.status_code'])).toEqual([
      101, 401,
    ]);
    await socket.close();
  });

  it('delay no request and fill no memory if the collector is silent, and are counted when lost', async () => {
    const running = await start({ queueMax: 20, batchMax: 10 });
    collector.answer = 'silence';
    const startedAt = performance.now();
    for (let count = 0; count < 200; count += 1) await request(`${running.webUrl}/health`);
    // The 20 exports alone would take ten seconds if anything waited for them.
    expect(performance.now() - startedAt).toBeLessThan(9_000);
    await until('most were dropped', async () => (await metric(running)) > 150);
    await until('it is known', async () => lines.some(({ event }) => event === 'traces_down'));
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(lines.filter(({ event }) => event === 'traces_down')).toHaveLength(1);
    collector.answer = { status: 200 };
    await until('the rest came', async () => collector.spans.length >= 20);
    await until('it is known', async () => lines.some(({ event }) => event === 'traces_up'));
    expect(lines.find(({ event }) => event === 'traces_up')?.['dropped']).toBeGreaterThan(150);
    expect(new Set(collector.spans.map(({ spanId }) => spanId)).size).toBe(collector.spans.length);
  });

  it('wait for a collector that is down for a moment, and are dropped if it refuses them', async () => {
    const running = await start();
    collector.answer = { status: 503 };
    await request(`${running.webUrl}/health`);
    await until('it is known', async () => lines.some(({ event }) => event === 'traces_down'));
    collector.answer = { status: 200, body: '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"no"}}' };
    await until('it came after all', async () => ofRoute('/health').length === 1);
    await until('the refused one is counted', async () => (await metric(running)) === 1);
    collector.answer = { status: 400 };
    await request(`${running.webUrl}/health`);
    await until('it was dropped', async () => (await metric(running)) === 2);
    collector.answer = { status: 200 };
    await request(`${running.webUrl}/ready`);
    await until('the next one came', async () => ofRoute('/ready').length === 1);
    expect(ofRoute('/health')).toHaveLength(1);
  });

  it('that remain at the end are exported before the service stops', async () => {
    const running = await start({ pauseMs: 60_000 });
    await request(`${running.webUrl}/health`);
    await running.stop();
    service = undefined;
    expect(ofRoute('/health')).toHaveLength(1);
  });
});

describe('a service without traces', () => {
  it('uses the database directly, without a wrapper', async () => {
    const database = await openSqlite('memory');
    const log: Log = { info: () => {}, warn: () => {}, error: () => {} };
    expect(watchDatabase(database, { clock: systemClock, log })).toBe(database);
    await database.close();
  });
});
