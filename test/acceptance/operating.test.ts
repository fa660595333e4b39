import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Actor, actorOf, createActor, type Operator } from '../support/actors.js';
import { request } from '../support/http.js';
import { discover, headerOf } from '../support/oauth.js';
import { createHome, type Home, json, type ServiceProcess, startServe } from './program.js';

const RATE = 200;
const SECONDS = 3;

interface KeyList {
  readonly items: readonly { readonly kid: string; readonly state: string }[];
}

describe('A running service', () => {
  let home: Home;
  let service: ServiceProcess | undefined;
  beforeEach(() => {
    home = createHome();
  });
  afterEach(() => home.dispose());

  const operator = (): Operator => {
    const record = JSON.parse(readFileSync(join(home.directory, 'run/asp-cli/serve/default.json'), 'utf8'));
    return { url: record.operator_url, secret: record.secret };
  };
  const mustRun = async (...words: string[]): Promise<string> => {
    const { status, stdout, stderr } = await home.asp(words);
    expect(status, stderr).toBe(0);
    return stdout;
  };

  it('rotates its keys while old and new tokens are valid, and both keys are published', async () => {
    service = await startServe(home);
    const place = await discover(service.url);
    const alice = await createActor(place, operator(), 'alice');
    const before = await alice.token();
    const [first] = json<KeyList>(await mustRun('serve', 'keys', 'list', '--json')).items;
    expect(first).toMatchObject({ kid: (headerOf(before) as { kid: string }).kid, state: 'signing' });

    const rotated = json<{ rotated: boolean; next: { kid: string } }>(
      await mustRun('serve', 'keys', 'rotate', '--json'),
    );
    expect(rotated.rotated).toBe(true);
    const { items } = json<KeyList>(await mustRun('serve', 'keys', 'list', '--json'));
    expect(items.map(({ state }) => state)).toEqual(['signing', 'next']);
    const set = (await request(`${place.issuer}/.well-known/jwks.json`)).json as { keys: { kid: string }[] };
    expect(set.keys.map(({ kid }) => kid)).toEqual([first?.kid, rotated.next.kid]);
    const after = await actorOf(place, alice.handle, alice.credentials).token();
    for (const token of [before, after]) expect((await alice.get('/agents/me', { token })).status).toBe(200);

    const again = await home.asp(['serve', 'keys', 'rotate']);
    expect(again.stderr).toContain('Nothing was changed');
    expect(again.stdout).toMatch(/^\S+ signs from \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$/);
  });

  it(`is backed up while ${RATE} messages per second arrive, and restored as a prefix without gaps`, async () => {
    service = await startServe(home, ['--limits', 'off']);
    const alice = await createActor(await discover(service.url), operator(), 'alice');
    const session = await alice.mustCreate({ topic: 'busy' });
    const sent: Promise<{ sequence: number }>[] = [];
    const sending = sendSteadily(alice, session, sent);
    await pause(1_000);
    const before = await Promise.all([...sent]);
    const backup = join(home.directory, 'asp.tar');
    const made = json<{ file: string; bytes: number }>(await mustRun('serve', 'backup', 'asp.tar', '--json'));
    expect(made).toMatchObject({ file: backup, bytes: statSync(backup).size });
    await sending;
    const all = await Promise.all(sent);
    expect(all.length).toBe(RATE * SECONDS);

    const twice = await home.asp(['serve', 'backup', 'asp.tar', '--json']);
    expect({
      status: twice.status,
      error: JSON.parse(twice.stderr.trim().split('\n').at(-1) ?? '').error,
    }).toMatchObject({
      status: 6,
      error: { code: 'ASP_FILE_EXISTS', next: ['asp', 'serve', 'backup', 'asp.tar', '--force'] },
    });
    await mustRun('serve', 'restore', 'asp.tar', '--data', 'restored');
    const over = await home.asp(['serve', 'restore', 'asp.tar', '--data', 'restored']);
    expect({ status: over.status, stderr: over.stderr }).toMatchObject({
      status: 6,
      stderr: expect.stringContaining('is not empty'),
    });

    await service.stop();
    const second = await startServe(home, ['--data', 'restored', '--limits', 'off']);
    const again = actorOf(await discover(second.url), alice.handle, alice.credentials);
    const events = (await again.mustReplay(session)) as { sequence: number }[];
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
    expect(events.length).toBeGreaterThanOrEqual(Math.max(...before.map(({ sequence }) => sequence)));
    expect(events.length).toBeLessThanOrEqual(Math.max(...all.map(({ sequence }) => sequence)));
    await second.stop();
  });

  it('refuses data from a newer program with exit 2, and says what to do', async () => {
    service = await startServe(home);
    await service.stop();
    const { loadSqlite } = await import('../../src/service/store/sqlite-driver.js');
    const connection = (await loadSqlite())(join(service.data, 'asp.sqlite'));
    connection.exec('INSERT INTO schema_version VALUES (9999, 9999)');
    connection.close();
    const { status, stderr } = await home.asp(['serve', '--port', '0', '--data', service.data]);
    expect(status).toBe(2);
    expect(stderr).toMatch(/written by a newer asp \(schema version 9999; this one uses \d+\)\. Upgrade asp/);
  });

  it('works behind a proxy, with status, keys and stop on a separate port', async () => {
    const running = home.start([
      ...['serve', '--port', '0', '--data', 'memory'],
      ...['--behind-proxy', '--public-url', 'https://asp.example.org'],
    ]);
    await running.until('stdout', /^https:\/\/asp\.example\.org\/v1$/m);
    const status = json<{ url: string; pid: number }>(await mustRun('serve', 'status', '--json'));
    expect(status).toMatchObject({ url: 'https://asp.example.org/v1', pid: running.pid });
    expect(json<KeyList>(await mustRun('serve', 'keys', 'list', '--json')).items).toHaveLength(1);
    await mustRun('serve', 'stop');
    expect((await running.ended).status).toBe(0);
  });

  it('says which port is taken, the metrics’ or its own', async () => {
    service = await startServe(home, ['--metrics-port', '0']);
    const [, taken = ''] = await service.running.until('stderr', /Metrics are at http:\/\/127\.0\.0\.1:(\d+)\/metrics/);
    const words = ['serve', '--port', '0', '--data', 'memory', '--json', '--metrics-port', taken];
    const { status, stderr } = await home.asp(words);
    expect(status).toBe(6);
    expect(JSON.parse(stderr.trim().split('\n').at(-1) ?? '').error).toMatchObject({
      code: 'ASP_PORT_IN_USE',
      next: ['asp', 'serve', '--metrics-port', '0'],
    });
  });

  it('takes its settings from a file, including its metrics port', async () => {
    writeFileSync(join(home.directory, 'serve.json'), JSON.stringify({ 'metrics-port': 0, data: 'memory', port: 0 }));
    const running = home.start(['serve', '--config', 'serve.json']);
    await running.until('stdout', /^(http:\S+)$/m);
    const [, metrics = ''] = await running.until('stderr', /Metrics are at (\S+)\./);
    expect((await request(metrics)).text).toContain('asp_requests_total');
    running.kill('SIGINT');
    expect((await running.ended).status).toBe(0);
  });
});

/** Sends messages at a steady rate, without waiting for answers. */
async function sendSteadily(alice: Actor, session: string, sent: Promise<{ sequence: number }>[]): Promise<void> {
  const start = performance.now();
  for (let index = 0; index < RATE * SECONDS; index += 1) {
    const due = start + (index * 1000) / RATE;
    if (due > performance.now()) await pause(due - performance.now());
    sent.push(alice.mustSend(session, `message ${index}`));
  }
}
