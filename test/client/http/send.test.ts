import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { RequestError } from '../../../src/client/http/request-error.js';
import { type Sending, type Sent, sendWithRetries } from '../../../src/client/http/send.js';
import { createTransport, type RetryPause, type Transport } from '../../../src/client/http/transport.js';
import { systemRandom } from '../../../src/kit/random.js';
import { RETRY_JITTER_MS } from '../../../src/wire/limit.js';
import { createHastyClock, type HastyClock } from '../../support/hasty-clock.js';
import { type Scene, type ScriptedServer, startScriptedServer } from '../../support/scripted-server.js';

let server: ScriptedServer;
let clock: HastyClock;
let transport: Transport;

beforeEach(async () => {
  server = await startScriptedServer();
  clock = createHastyClock();
  transport = createTransport({ clock });
});

afterEach(async () => {
  await transport.close();
  await server.finish();
});

const KEY = '3f0c9a52-3f2f-4a9e-9d5c-0a6f8f1b7c11';
const post = (given: Partial<Scene>): Scene => ({ method: 'POST', path: '/v1/sessions', ...given });
const sending = (given: Partial<Sending> = {}): Sending => ({
  method: 'POST',
  url: `${server.origin}/v1/sessions`,
  body: '{}',
  idempotencyKey: KEY,
  retries: 4,
  ...given,
});
const send = (given: Partial<Sending> = {}): Promise<Sent> => sendWithRetries(transport, systemRandom, sending(given));
const failed = async (given: Partial<Sending> = {}): Promise<RequestError> => {
  const error = await send(given).catch((reason: unknown) => reason);
  if (!(error instanceof RequestError)) throw new Error('the request did not fail');
  return error;
};
const limited = (retryAfter: string): Partial<Scene> => ({ status: 429, headers: { 'retry-after': retryAfter } });
const soon = new Date(1_800_000_007_000).toUTCString();
const date = new Date(1_800_000_000_000).toUTCString();

/**
 * The scenes of the server, then the final status and the parts of each wait that the service requested (spec: Rate
 * limits).
 */
const TABLE: [title: string, scenes: Partial<Scene>[], status: number, askedMs: number[]][] = [
  ['201 is the answer', [{ status: 201 }], 201, []],
  ['400 is not retried', [{ status: 400 }], 400, []],
  ['403 is not retried', [{ status: 403 }], 403, []],
  ['404 is not retried', [{ status: 404 }], 404, []],
  ['409 is not retried', [{ status: 409 }], 409, []],
  ['418 is not retried', [{ status: 418 }], 418, []],
  ['408 is retried', [{ status: 408 }, { status: 201 }], 201, [0]],
  ['425 is retried', [{ status: 425 }, { status: 201 }], 201, [0]],
  ['429 waits Retry-After', [limited('7'), { status: 201 }], 201, [7000]],
  ['429 twice adds 1 to 3 s', [limited('7'), limited('2'), { status: 201 }], 201, [7000, 2000]],
  ['429 with Retry-After 0', [limited('0'), { status: 201 }], 201, [0]],
  ['429 with a date', [{ status: 429, headers: { 'retry-after': soon, date } }, { status: 201 }], 201, [7000]],
  ['429 with garbage waits a second', [limited('soon'), { status: 201 }], 201, [1000]],
  ['429 with a negative number waits a second', [limited('-5'), { status: 201 }], 201, [1000]],
  ['it does not wait for a 429 with 10^9', [limited('1000000000')], 429, []],
  ['it does not wait for a 429 with a far date', [limited('Fri, 31 Dec 2199 23:59:59 GMT')], 429, []],
  ['500 is retried at once, then with jitter', [{ status: 500 }, { status: 500 }, { status: 201 }], 201, [0, 0]],
  ['503 honors Retry-After', [{ status: 503, headers: { 'retry-after': '3' } }, { status: 201 }], 201, [3000]],
  ['five tries in all', Array.from({ length: 5 }, () => ({ status: 503 })), 503, [0, 0, 0, 0]],
  ['a cut connection is retried with the same key', [{ fault: 'reset' }, { status: 201 }], 201, [0]],
  ['a cut answer is retried with the same key', [{ fault: 'half', body: { long: 'text' } }, { status: 201 }], 201, [0]],
  ['429 then 404 stops', [limited('1'), { status: 404 }], 404, [1000]],
];

describe('Errors › Client handling; Rate limits › recommended back-off', () => {
  for (const [title, scenes, status, askedMs] of TABLE) {
    it(title, async () => {
      server.expect(...scenes.map(post));
      const sent = await send();
      expect(sent.answer.status).toBe(status);
      expect(sent.attempts).toBe(scenes.length);
      expect(clock.waits).toHaveLength(askedMs.length);
      for (const [index, asked] of askedMs.entries()) {
        const [min, max] = RETRY_JITTER_MS[index] ?? [0, 0];
        expect(clock.waits[index]).toBeGreaterThanOrEqual(asked + min);
        expect(clock.waits[index]).toBeLessThanOrEqual(asked + max);
      }
      expect(server.received.map(({ headers }) => headers['idempotency-key'])).toEqual(scenes.map(() => KEY));
    });
  }

  it('a write without a key is sent once', async () => {
    server.expect(post({ fault: 'reset' }));
    const error = await failed({ idempotencyKey: undefined });
    expect(error).toMatchObject({ code: 'ASP_UNREACHABLE', outcome: 'unknown', attempts: 1, isRetryable: true });
  });

  it('a wait that passes the deadline is not begun', async () => {
    server.expect(post(limited('30')));
    const sent = await send({ deadline: 20_000 });
    expect(sent).toMatchObject({ attempts: 1, retryAfterMs: 30_000 });
    expect(clock.waits).toEqual([]);
  });

  it('a wait that does not fit the deadline reports the true time, no matter how long', async () => {
    server.expect(post(limited('3600')));
    expect(await send({ deadline: 60_000 })).toMatchObject({ attempts: 1, retryAfterMs: 3_600_000 });
    server.expect(post(limited('3600')));
    expect(await send()).toMatchObject({ attempts: 1, retryAfterMs: 3_600_000 });
    server.expect(post(limited('9'.repeat(40))));
    expect(await send()).toMatchObject({ attempts: 1, retryAfterMs: Number.MAX_SAFE_INTEGER });
    expect(clock.waits).toEqual([]);
  });

  it('without a deadline, the waits of one request last at most two minutes in total', async () => {
    server.expect(post(limited('50')), post(limited('50')), post(limited('50')));
    expect(await send()).toMatchObject({ attempts: 3, retryAfterMs: 50_000 });
    expect(clock.waits).toHaveLength(2);
  });

  it('the deadlines of the transport and the request both count', async () => {
    transport = createTransport({ clock, deadline: 20_000 });
    server.expect(post(limited('30')));
    expect(await send({ deadline: 60_000 })).toMatchObject({ attempts: 1, retryAfterMs: 30_000 });
  });

  it('each wait is announced with its length and its reason', async () => {
    const pauses: RetryPause[] = [];
    transport = createTransport({ clock, onPause: (pause) => void pauses.push(pause) });
    server.expect(post(limited('7')), post({ status: 503 }), post({ status: 201 }));
    await send();
    expect(pauses).toMatchObject([
      { delayMs: 7000, attempts: 1, failure: { code: 'RATE_LIMITED', retryAfterMs: 7000 } },
      { attempts: 2, failure: { code: 'INTERNAL_ERROR', status: 503 } },
    ]);
    expect(pauses[1]?.delayMs).toBe(clock.waits[1]);
  });

  it('tries twice if nothing listens on this machine', async () => {
    const closed = await startScriptedServer();
    await closed.finish();
    expect(await failed({ url: `${closed.origin}/v1/sessions` })).toMatchObject({
      code: 'ASP_UNREACHABLE',
      attempts: 2,
    });
  });

  it('a deadline that passes after failed tries says why they failed', async () => {
    const controller = new AbortController();
    const slow = { ...clock, schedule: () => () => {} };
    const onPause = (): void =>
      controller.abort(new RequestError({ code: 'ASP_TIMEOUT', message: 'The time is over.' }));
    transport = createTransport({ clock: slow, onPause: () => setImmediate(onPause) });
    server.expect(post({ fault: 'reset' }));
    expect(await failed({ signal: controller.signal })).toMatchObject({
      code: 'ASP_TIMEOUT',
      message: 'The time is over.',
      outcome: 'unknown',
      cause: { code: 'ASP_UNREACHABLE', message: expect.stringContaining('broke') },
    });
  });

  it('the number of tries can be chosen', async () => {
    server.expect(post({ status: 500 }));
    expect((await send({ retries: 0 })).attempts).toBe(1);
  });
});

describe('Refresh › reactive', () => {
  it('401 renews the token once and retries, with the same key', async () => {
    server.expect(post({ status: 401 }), post({ status: 201 }));
    const rejected: (string | undefined)[] = [];
    const bearer = async (token: string | undefined): Promise<string> => {
      rejected.push(token);
      return `token-${rejected.length}`;
    };
    const sent = await send({ bearer });
    expect(sent).toMatchObject({ attempts: 2, outcome: 'applied' });
    expect(rejected).toEqual([undefined, 'token-1']);
    expect(server.received.map(({ headers }) => headers['authorization'])).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ]);
    expect(clock.waits).toEqual([]);
  });

  it('a second 401 is the answer', async () => {
    server.expect(post({ status: 401 }), post({ status: 401 }));
    expect((await send({ bearer: async () => 'token' })).answer.status).toBe(401);
  });
});

describe('the outcome of a write', () => {
  it('is unknown when the connection breaks after the request is sent', async () => {
    server.expect(post({ fault: 'reset' }), post({ fault: 'reset' }));
    expect(await failed({ retries: 1 })).toMatchObject({ outcome: 'unknown', attempts: 2, idempotencyKey: KEY });
  });

  it('is unknown after 5xx, even if the last try was rate limited', async () => {
    server.expect(post({ status: 500 }), post(limited('1')));
    expect((await send({ retries: 1 })).outcome).toBe('unknown');
  });

  it('is known again when a later try of the same key gets a final answer', async () => {
    server.expect(post({ fault: 'reset' }), post({ status: 404 }));
    expect((await send()).outcome).toBe('not_applied');
  });

  it('is not applied if nothing listens', async () => {
    const closed = await startScriptedServer();
    await closed.finish();
    const error = await failed({ url: `${closed.origin}/v1/sessions`, retries: 1 });
    expect(error).toMatchObject({ code: 'ASP_UNREACHABLE', outcome: 'not_applied', attempts: 2 });
  });

  it('is unknown if the caller gives up while the request is in progress', async () => {
    const controller = new AbortController();
    server.expect(post({ status: 500 }));
    const bearer = async (): Promise<string> => 'token';
    const late = new RequestError({ code: 'ASP_TIMEOUT', message: 'too late' });
    const schedule = (): (() => void) => {
      setImmediate(() => controller.abort(late));
      return () => {};
    };
    const slow = { ...clock, schedule };
    const failing = sendWithRetries(
      { ...transport, clock: slow },
      systemRandom,
      sending({ bearer, signal: controller.signal }),
    );
    await expect(failing).rejects.toMatchObject({ code: 'ASP_TIMEOUT', outcome: 'unknown', idempotencyKey: KEY });
  });
});
