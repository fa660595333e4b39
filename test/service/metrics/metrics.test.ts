import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { OperatorError } from '../../../src/service/core/errors.js';
import { createBackup } from '../../../src/service/operator/backup.js';

import { type Actor, callApi } from '../../support/actors.js';
import { createTestClock } from '../../support/clock.js';
import { request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/until.js';
import { createBrowser } from '../authorization-server/browser.js';

const CANARY = 'canary-of-the-metrics';

const readDeployed = (name: string): string =>
  readFileSync(new URL(`../../../deploy/${name}`, import.meta.url), 'utf8');

interface Dashboard {
  readonly panels: readonly { readonly id: number; readonly targets: readonly { readonly expr: string }[] }[];
}
interface Rules {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
}

/** Returns every metric in a PromQL expression, with the labels that it selects. */
function metricsIn(expression: string): { metric: string; labels: string[] }[] {
  return [...expression.matchAll(/\b((?:asp|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)].map(
    ([, metric = '', labels = '']) => ({
      metric,
      labels: [...labels.matchAll(/(\w+)=~?"/g)].map(([, label = '']) => label),
    }),
  );
}

/** There are none for a data folder, so no alert about them can fire. */
const POSTGRES_ALONE = ['asp_database_connections', 'asp_database_connections_max', 'asp_bus_connected'];

describe('the metrics of a service', () => {
  let folder: string;
  let service: TestService;
  let alice: Actor;
  let bob: Actor;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'asp-metrics-'));
    service = await startTestService({ data: { directory: folder }, metricsPort: 0, version: '1.2.3', loopGuard: 20 });
    alice = await service.createAgent('alice');
    bob = await service.createAgent('bob');
  });
  afterAll(async () => {
    await service.stop();
    await rm(folder, { recursive: true });
  });

  const read = async (): Promise<string> => (await request(service.metricsUrl ?? '')).text;
  const sampleOf = (text: string, sample: string): number =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${sample} `))
        ?.slice(sample.length + 1) ?? Number.NaN,
    );
  const settled = (sample: string, least: number): Promise<string> =>
    until(sample, async () => {
      const text = await read();
      return sampleOf(text, sample) >= least && text;
    });

  it('are in Prometheus’ text format, on a separate local port', async () => {
    const { metricsUrl = '' } = service;
    expect(metricsUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
    expect(new URL(metricsUrl).port).not.toBe(String(service.port));
    const answer = await request(metricsUrl);
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
    for (const line of answer.text.split('\n'))
      expect(line).toMatch(/^$|^# (HELP|TYPE) \w+ .+$|^\w+(\{(\w+="[^"]*",?)+\})? (-?[\d.e+-]+|NaN|\+Inf)$/);
    expect(answer.text).toContain('asp_info{version="1.2.3"} 1');
    expect((await request(`${service.authUrl}/metrics`)).status).toBe(404);
    expect((await request(metricsUrl.replace('/metrics', '/other'))).status).toBe(404);
    expect((await request(metricsUrl, { method: 'POST' })).status).toBe(405);
    expect((await request(metricsUrl, { headers: { host: 'evil.example' } })).status).toBe(403);
  });

  it('include when the last successful backup began, even after one that failed', async () => {
    const sample = 'asp_backup_last_success_timestamp_seconds';
    expect(sampleOf(await read(), sample)).toBe(0);
    const options = { directory: folder, file: join(folder, 'saved.tar'), isForced: false, withKeys: false };
    await createBackup({ ...options, now: 1_800_000_000_000 });
    await expect(createBackup({ ...options, now: 1_900_000_000_000 })).rejects.toThrow('exists');
    expect(sampleOf(await read(), sample)).toBe(1_800_000_000);
    writeFileSync(join(folder, 'backups.json'), '[{"began_at":"never"}]');
    expect(sampleOf(await read(), sample)).toBe(0);
  });

  it('count requests by method, route pattern and status, with their latency', async () => {
    const id = await alice.mustCreate({ topic: CANARY });
    await alice.get(`/sessions/${id}`);
    await bob.get(`/sessions/${id}`);
    const labels = 'method="GET",route="/v1/sessions/:session_id"';
    const text = await settled(`asp_requests_total{${labels},status="404"}`, 1);
    expect(sampleOf(text, `asp_requests_total{${labels},status="200"}`)).toBe(1);
    expect(sampleOf(text, `asp_request_duration_seconds_count{${labels}}`)).toBe(2);
    expect(sampleOf(text, `asp_request_duration_seconds_bucket{le="+Inf",${labels}}`)).toBe(2);
  });

  it('count sockets, deliveries and close codes', async () => {
    const socket = await bob.mustConnect();
    await settled('asp_sockets', 1);
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: CANARY } });
    await socket.mustReceiveEvent('session.invited', id);
    await settled('asp_feed_events_total', 1);
    await socket.close();
    const text = await settled('asp_socket_closes_total{code="1006"}', 1);
    expect(sampleOf(text, 'asp_sockets')).toBe(0);
    expect(sampleOf(text, 'asp_socket_closes_total{code="1013"}')).toBe(0);
  });

  it('count what the rate limits refuse', async () => {
    expect(sampleOf(await read(), 'asp_rate_limit_refusals_total{limit="search"}')).toBe(0);
    const statuses = [];
    for (let call = 0; call < 31; call += 1) statuses.push((await alice.get('/search/agents?q=bob')).status);
    expect(statuses.at(-1)).toBe(429);
    expect(sampleOf(await read(), 'asp_rate_limit_refusals_total{limit="search"}')).toBe(1);
  });

  it('count what the loop guard refuses', async () => {
    const id = await alice.mustCreate();
    for (let count = 0; count < 20; count += 1) await alice.mustSend(id, 'again');
    expect(sampleOf(await read(), 'asp_loop_guard_refusals_total')).toBe(0);
    expect((await alice.post(`/sessions/${id}/messages`, { content: 'again' })).status).toBe(403);
    expect(sampleOf(await read(), 'asp_loop_guard_refusals_total')).toBe(1);
  });

  it('include how many writes share a commit, the database size, and the event loop’s lag', async () => {
    const id = await alice.mustCreate();
    await Promise.all(Array.from({ length: 20 }, (_, index) => alice.mustSend(id, `message ${index}`)));
    const text = await read();
    expect(sampleOf(text, 'asp_commit_writes_sum')).toBeGreaterThan(20);
    expect(sampleOf(text, 'asp_commit_writes_count')).toBeGreaterThan(0);
    expect(sampleOf(text, 'asp_database_bytes')).toBeGreaterThan(4096);
    expect(sampleOf(text, 'nodejs_eventloop_lag_seconds')).toBeGreaterThanOrEqual(0);
    expect(sampleOf(text, 'process_resident_memory_bytes')).toBeGreaterThan(1e6);
  });

  it('include how long commits take, and what waits for the database or failed there', async () => {
    await alice.mustCreate();
    const text = await read();
    expect(sampleOf(text, 'asp_commit_duration_seconds_count')).toBe(sampleOf(text, 'asp_commit_writes_count'));
    expect(sampleOf(text, 'asp_commit_duration_seconds_sum')).toBeGreaterThan(0);
    expect(sampleOf(text, 'asp_database_waiting')).toBe(0);
    for (const failure of ['lost', 'refused', 'unknown'])
      expect(sampleOf(text, `asp_database_failures_total{failure="${failure}"}`)).toBe(0);
  });

  it('include how far inboxes and the search index are behind the log', async () => {
    const clock = createTestClock();
    let shift = 0;
    const still = await startTestService({
      clock: { ...clock, now: () => clock.now() + shift },
      metricsPort: 0,
    });
    const carol = await still.createAgent('carol');
    const backlog = async (): Promise<number[][]> => {
      const { text } = await request(still.metricsUrl ?? '');
      return ['inboxes', 'search'].map((queue) =>
        ['events', 'oldest_seconds'].map((what) => sampleOf(text, `asp_backlog_${what}{queue="${queue}"}`)),
      );
    };
    expect(await backlog()).toEqual([
      [0, 0],
      [0, 0],
    ]);
    await carol.mustSend(await carol.mustCreate(), 'one event');
    shift = 7_000;
    expect(await backlog()).toEqual([
      [1, 7],
      [1, 7],
    ]);
    await until('nothing is left', async () => {
      clock.advance(1_000);
      return (await backlog()).flat().every((value) => value === 0);
    });
    await still.stop();
  });

  it('include the age of the signing key, and when each background task last succeeded', async () => {
    const nowS = Date.now() / 1000;
    const text = await settled('asp_chore_last_success_timestamp_seconds{chore="sweep_attachments"}', nowS - 600);
    const created = sampleOf(text, 'asp_signing_key_created_timestamp_seconds');
    expect(created).toBeGreaterThan(nowS - 600);
    expect(created).toBeLessThanOrEqual(nowS + 1);
    expect(sampleOf(text, 'asp_chore_last_success_timestamp_seconds{chore="index_messages"}')).toBeGreaterThan(0);
    expect(sampleOf(text, 'asp_chore_last_success_timestamp_seconds{chore="delete_old_sessions"}')).toBe(0);
  });

  it('count tokens by grant type, sign-ins, and the bytes of attachments', async () => {
    const before = await read();
    const issued = 'asp_tokens_issued_total{grant_type="client_credentials"}';
    expect(sampleOf(before, issued)).toBeGreaterThan(0);
    expect(sampleOf(before, 'asp_tokens_issued_total{grant_type="refresh_token"}')).toBe(0);
    expect(sampleOf(before, 'asp_sign_ins_total')).toBe(0);
    const carol = createBrowser(service.webUrl);
    const form = { username: 'carol', display_name: 'Carol', password: 'correct horse battery' };
    await carol.submit(await carol.get('/oauth/sign-in'), '/oauth/sign-up', form);
    await settled('asp_sign_ins_total', 1);
    const id = await alice.mustUpload({ filename: 'a.txt', type: 'text/plain', bytes: 'x'.repeat(1000) });
    const { url } = (await alice.get(`/attachments/${id}`)).json as { url: string };
    expect((await request(url, { headers: { range: 'bytes=0-99' } })).text).toHaveLength(100);
    const text = await settled('asp_attachment_bytes_total{direction="out"}', 100);
    expect(sampleOf(text, 'asp_attachment_bytes_total{direction="in"}')).toBe(1000);
    expect(sampleOf(text, 'asp_attachment_bytes_total{direction="out"}')).toBe(100);
  });

  it('name no agent, no session, no invented address, and no message content', async () => {
    for (const path of ['/sessions/nonsense-here', `/agents/${alice.owner}/${alice.name}`, '/made/up/nowhere'])
      await callApi(service.baseUrl, await alice.token(), 'GET', path);
    for (let index = 0; index < 50; index += 1) await request(`${service.authUrl}/made-up-${index}`);
    const text = await settled('asp_requests_total{method="GET",route="none",status="404"}', 51);
    const secrets = [alice.owner, bob.owner, CANARY, 'sess_', 'msg_', 'agt_', 'acct_', 'made-up', 'nonsense', 'eyJ'];
    for (const secret of secrets) expect(text).not.toContain(secret);
    const series = text.split('\n').filter((line) => line.startsWith('asp_requests_total'));
    expect(series.length).toBeLessThan(60);
  });

  it('exist under the names and labels that the Grafana dashboard and the alerts use', async () => {
    const dashboard = JSON.parse(readDeployed('grafana.json')) as Dashboard;
    const { groups } = parse(readDeployed('prometheus-alerts.yaml')) as Rules;
    const expressions = [
      ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
      ...groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
    ];
    expect(expressions.length).toBeGreaterThan(25);
    await alice.mustCreate();
    const text = await settled('asp_requests_total{method="POST",route="/v1/sessions",status="201"}', 1);
    const samples = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    // Prometheus adds these two labels.
    const labelsOf = (metric: string): string[] => [
      'job',
      'instance',
      ...samples
        .filter((line) => line.startsWith(`${metric}{`))
        .flatMap((line) => [...line.matchAll(/[{,](\w+)="/g)].map(([, label = '']) => label)),
    ];
    for (const expression of expressions) {
      const used = metricsIn(expression);
      expect(used, expression).not.toEqual([]);
      const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/, */));
      for (const { metric, labels } of used) {
        expect(
          samples.some((line) => /^\w+/.exec(line)?.[0] === metric),
          `${metric} in ${expression}`,
        ).toBe(!POSTGRES_ALONE.includes(metric));
        if (POSTGRES_ALONE.includes(metric)) continue;
        for (const label of [...labels, ...grouped]) expect(labelsOf(metric), expression).toContain(label);
      }
    }
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  });

  it('go only to holders of the token, if there is one', async () => {
    const token = 'a'.repeat(32);
    const guarded = await startTestService({ metricsPort: 0, metricsHost: '0.0.0.0', metricsToken: token });
    const url = (guarded.metricsUrl ?? '').replace('0.0.0.0', '127.0.0.1');
    const ask = (authorization?: string, host?: string) =>
      request(url, { headers: { ...(authorization && { authorization }), ...(host && { host }) } });
    for (const wrong of [undefined, 'Bearer', `Bearer ${'b'.repeat(32)}`, `Bearer ${token}a`, `Basic ${token}`]) {
      const answer = await ask(wrong);
      expect([answer.status, answer.headers['www-authenticate'], answer.text]).toEqual([401, 'Bearer', '']);
    }
    expect((await ask(`Bearer ${token}`)).text).toContain('asp_ready 1');
    expect((await ask(`Bearer ${token}`, 'metrics.example')).status).toBe(200);
    await guarded.stop();
    const local = await startTestService({ metricsPort: 0, metricsToken: token });
    const headers = { authorization: `Bearer ${token}`, host: 'evil.example' };
    expect((await request(local.metricsUrl ?? '', { headers })).status).toBe(403);
    await local.stop();
  });

  it('are off by default', async () => {
    const quiet = await startTestService();
    expect(quiet.metricsUrl).toBeUndefined();
    await quiet.stop();
  });

  it('keep the service from starting if they cannot be served, and leave nothing behind', async () => {
    const port = Number(new URL(service.metricsUrl ?? '').port);
    const failure = await startTestService({ metricsPort: port }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(OperatorError);
    expect(failure).toMatchObject({ code: 'PORT_IN_USE' });
  });

  it('end with the service', async () => {
    const other = await startTestService({ metricsPort: 0 });
    await other.stop();
    await expect(request(other.metricsUrl ?? '')).rejects.toThrow();
  });
});
