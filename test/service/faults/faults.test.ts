import { afterEach, describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/service/core/errors.js';
import type { Fault, FaultPlan } from '../../../src/service/core/faults.js';
import { createFaults } from '../../../src/service/core/faults.js';
import { unmetered } from '../../../src/service/core/meter.js';
import type { Actor } from '../../support/actors.js';
import { request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/until.js';

const often = (every: number) => ({ every });

describe('faults of a service', () => {
  let service: TestService | undefined;
  afterEach(() => service?.stop());

  /** Starts a service whose faults begin with the agent's first call. */
  const start = async (...faults: Fault[]): Promise<Actor> => {
    service = await startTestService({ faults: { faults, seed: 1 } });
    return service.createAgent('alice');
  };
  const contents = async (alice: Actor, session: string): Promise<unknown[]> =>
    ((await alice.mustReplay(session)) as { type: string; payload: { content?: unknown } }[])
      .filter(({ type }) => type === 'session.message')
      .map(({ payload }) => payload.content);

  for (const [status, code, retryAfter] of [
    [429, 'RATE_LIMITED', '1'],
    [500, 'INTERNAL_ERROR', undefined],
    [502, 'INTERNAL_ERROR', undefined],
    [503, 'INTERNAL_ERROR', '1'],
    [504, 'INTERNAL_ERROR', undefined],
  ] as const)
    it(`${status}: every second call is refused before its effect, in the envelope and with the headers of the real thing`, async () => {
      const alice = await start({ kind: 'refuse', status, rate: often(2) });
      const session = await alice.mustCreate();
      const refused = await alice.post(`/sessions/${session}/messages`, { content: 'never' });
      expect(refused.status).toBe(status);
      expect(refused.json).toEqual({ error: { code, message: expect.any(String) } });
      expect(refused.headers).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        'cache-control': 'no-store',
      });
      expect(refused.headers['retry-after']).toBe(retryAfter);
      expect(await contents(alice, session)).toEqual([]);
    });

  it('lost: the call takes effect, the answer is 500, and repeating the key returns the answer without a second effect', async () => {
    const alice = await start({ kind: 'lost', rate: often(2) });
    const session = await alice.mustCreate();
    const key = 'k-lost';
    const lost = await alice.post(`/sessions/${session}/messages`, { content: 'once' }, { key });
    expect({ status: lost.status, json: lost.json }).toMatchObject({
      status: 500,
      json: { error: { code: 'INTERNAL_ERROR' } },
    });
    const again = await alice.post(`/sessions/${session}/messages`, { content: 'once' }, { key });
    expect(again.status).toBe(201);
    expect((await alice.get(`/sessions/${session}`)).status).toBe(500);
    expect(await contents(alice, session)).toEqual(['once']);
  });

  it('cut: the call takes effect, and the connection ends without an answer', async () => {
    const alice = await start({ kind: 'cut', rate: often(2) });
    const session = await alice.mustCreate();
    await expect(alice.post(`/sessions/${session}/messages`, { content: 'once' })).rejects.toMatchObject({
      code: 'ECONNRESET',
    });
    expect(await contents(alice, session)).toEqual(['once']);
  });

  it('drop: the socket ends without a closing handshake, and the next one gets what it missed', async () => {
    const alice = await start({ kind: 'drop', rate: often(2) });
    const session = await alice.mustCreate();
    const socket = await alice.mustConnect();
    await alice.mustSend(session, 'one');
    await socket.mustReceiveEvent('session.message', session);
    await socket.mustPing();
    await alice.mustSend(session, 'two');
    expect(await socket.mustBeClosed()).toBe(1006);
    await until('the second message', async () => {
      const next = await alice.mustConnect();
      await next.mustReceive('an event', () => true);
      const hasSecond = next.frames.some((frame) => JSON.stringify(frame).includes('"two"'));
      await next.close();
      return hasSecond;
    });
  });

  it('drop after a time: each socket ends when it has been open this long', async () => {
    const alice = await start({ kind: 'expire', afterMs: 20 });
    expect(await (await alice.mustConnect()).mustBeClosed()).toBe(1006);
  });

  it('a refused handshake is an HTTP answer with the envelope', async () => {
    const alice = await start({ kind: 'refuse', status: 503, rate: often(1) });
    const refused = await alice.connect();
    expect(refused).toMatchObject({ status: 503, json: { error: { code: 'INTERNAL_ERROR' } } });
  });

  it('spare the authorization server, its key set, the probes and the operator', async () => {
    const alice = await start({ kind: 'refuse', status: 500, rate: often(1) });
    expect(await alice.token()).toEqual(expect.any(String));
    for (const path of ['/health', '/ready', '/.well-known/jwks.json', '/openapi.json'])
      expect((await request(`${service?.authUrl}${path}`)).status, path).toBe(200);
    expect((await alice.get('/agents/me')).status).toBe(500);
  });

  it('are counted by kind', async () => {
    service = await startTestService({
      metricsPort: 0,
      faults: { faults: [{ kind: 'refuse', status: 429, rate: often(1) }], seed: undefined },
    });
    await (await service.createAgent('alice')).get('/agents/me');
    expect((await request(service.metricsUrl ?? '')).text).toContain('asp_injected_faults_total{fault="429"} 1');
  });
});

describe('a plan of faults', () => {
  /** Returns the results of `calls` consecutive calls. */
  const outcomes = async (plan: FaultPlan, calls: number): Promise<string[]> => {
    const waits: number[] = [];
    const faults = createFaults(plan, {
      clock: {
        now: () => 0,
        monotonic: () => 0,
        schedule(delayMs, action) {
          waits.push(delayMs);
          action();
          return () => {};
        },
      },
      random: { bytes: (count) => new Uint8Array(count), fraction: () => 0 },
      log: { info: () => {}, warn: () => {}, error: () => {} },
      meter: unmetered,
    });
    const seen: string[] = [];
    for (let call = 0; call < calls; call += 1) {
      const before = waits.length;
      const outcome = await faults
        .around('getActingAgent', async () => 'answered')
        .then(
          (answer) => answer ?? 'cut',
          (error: unknown) => (error instanceof ServiceError ? String(error.status) : 'bug'),
        );
      seen.push(`${outcome}${waits.length > before ? '+' : ''}`);
    }
    return seen;
  };
  const half: Fault[] = [
    { kind: 'refuse', status: 429, rate: { chance: 0.25 } },
    { kind: 'cut', rate: { chance: 0.25 } },
    { kind: 'delay', delayMs: 5, rate: { chance: 0.5 } },
  ];

  it('occurs at exactly the given frequency', async () => {
    const seen = await outcomes({ faults: [{ kind: 'refuse', status: 500, rate: { every: 3 } }], seed: 0 }, 7);
    expect(seen).toEqual(['answered', 'answered', '500', 'answered', 'answered', '500', 'answered']);
  });

  it('fires at random with the given probability', async () => {
    const seen = await outcomes({ faults: half, seed: 7 }, 4000);
    const share = (what: RegExp): number => seen.filter((one) => what.test(one)).length / seen.length;
    expect(share(/^429/)).toBeCloseTo(0.25, 1);
    expect(share(/\+$/)).toBeCloseTo(0.5, 1);
    expect(share(/^answered/)).toBeCloseTo(0.75 * 0.75, 1);
  });

  it('repeats with the same seed, and differs with another', async () => {
    const first = await outcomes({ faults: half, seed: 7 }, 50);
    expect(await outcomes({ faults: half, seed: 7 }, 50)).toEqual(first);
    expect(await outcomes({ faults: half, seed: 8 }, 50)).not.toEqual(first);
  });
});
