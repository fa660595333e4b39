import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Clock, systemClock } from '../../../src/kit/clock.js';
import { type Actor, actorOf, operate } from '../../support/actors.js';
import { request } from '../../support/http.js';
import { headerOf } from '../../support/oauth.js';
import { startTestService, type TestService } from '../../support/service.js';

interface Key {
  readonly kid: string;
  readonly state: string;
  readonly signs_from: number;
  readonly published_until: number | null;
}

const MINUTE_MS = 60_000;

/** The machine's clock plus an adjustable shift. */
function shiftedClock(): Clock & { shift(ms: number): void } {
  let shift = 0;
  return {
    now: () => systemClock.now() + shift,
    monotonic: () => systemClock.monotonic() + shift,
    schedule: (delayMs, action, isBackground) => systemClock.schedule(delayMs, action, isBackground),
    shift(ms) {
      shift += ms;
    },
  };
}

describe('the operator rotates the signing keys', () => {
  let clock: ReturnType<typeof shiftedClock>;
  let service: TestService;
  let alice: Actor;
  beforeEach(async () => {
    clock = shiftedClock();
    service = await startTestService({ clock });
    alice = await service.createAgent('alice');
  });
  afterEach(() => service.stop());

  const list = async (): Promise<readonly Key[]> =>
    ((await operate(service.operator, 'GET', '/keys')) as { keys: Key[] }).keys;
  const rotate = async () =>
    (await operate(service.operator, 'POST', '/keys/rotate')) as { rotated: boolean; keys: Key[] };
  const published = async (): Promise<string[]> => {
    const { json } = await request(`${service.authUrl}/.well-known/jwks.json`);
    return (json as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);
  };
  /** Requests a token that no service has seen before. */
  const freshToken = (): Promise<string> => actorOf(service.place, alice.handle, alice.credentials).token();
  const kidOf = (token: string): string => (headerOf(token) as { kid: string }).kid;
  const statusWith = async (token: string): Promise<number> => (await alice.get('/agents/me', { token })).status;

  it('without failing tokens: a key is published before it signs, and kept until its tokens are gone', async () => {
    const before = await freshToken();
    expect(await list()).toMatchObject([{ kid: kidOf(before), state: 'signing', published_until: null }]);

    const { rotated, keys } = await rotate();
    expect(rotated).toBe(true);
    const next = keys.find(({ state }) => state === 'next');
    expect(await published()).toEqual([kidOf(before), next?.kid]);
    const { headers } = await request(`${service.authUrl}/.well-known/jwks.json`);
    const maxAgeS = Number(/max-age=(\d+)/.exec(headers['cache-control'] ?? '')?.[1]);
    expect((next?.signs_from ?? 0) - clock.now()).toBeGreaterThan(maxAgeS * 1000);
    expect(kidOf(await freshToken())).toBe(kidOf(before));

    clock.shift(10 * MINUTE_MS);
    const after = await freshToken();
    expect(kidOf(after)).toBe(next?.kid);
    expect([await statusWith(before), await statusWith(after)]).toEqual([200, 200]);
    expect((await list()).map(({ state }) => state)).toEqual(['retired', 'signing']);

    clock.shift(16 * MINUTE_MS);
    expect(await published()).toContain(kidOf(before));
    clock.shift(5 * MINUTE_MS);
    await rotate();
    expect(await published()).not.toContain(kidOf(before));
  });

  it('repeatedly under load, and no token fails before its expiry', async () => {
    const tokens: { readonly token: string; readonly issuedAt: number }[] = [];
    for (let round = 0; round < 6; round += 1) {
      await rotate();
      for (const shiftMs of [0, 5 * MINUTE_MS, 5 * MINUTE_MS]) {
        clock.shift(shiftMs);
        tokens.push({ token: await freshToken(), issuedAt: clock.now() });
        const good = tokens.filter(({ issuedAt }) => clock.now() - issuedAt < 14 * MINUTE_MS);
        const statuses = await Promise.all(good.map(({ token }) => statusWith(token)));
        expect(new Set(statuses), `round ${round}`).toEqual(new Set([200]));
        expect(await published()).toEqual(expect.arrayContaining(good.map(({ token }) => kidOf(token))));
      }
    }
    expect(new Set(tokens.map(({ token }) => kidOf(token))).size).toBe(7);
  });

  it('one at a time: there is never a second next key', async () => {
    const first = await rotate();
    const second = await rotate();
    expect([first.rotated, second.rotated]).toEqual([true, false]);
    expect(second.keys).toEqual(first.keys);
    const together = await Promise.all([rotate(), rotate(), rotate()]);
    expect(together.some(({ rotated }) => rotated)).toBe(false);
    expect(await published()).toHaveLength(2);
  });

  it('and never sees a private key', async () => {
    await rotate();
    const text = JSON.stringify(await list());
    for (const member of ['"d"', '"p"', '"q"', 'jwk']) expect(text).not.toContain(member);
    const { text: set } = await request(`${service.authUrl}/.well-known/jwks.json`);
    for (const key of (JSON.parse(set) as { keys: object[] }).keys)
      expect(Object.keys(key).sort()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use']);
  });
});
