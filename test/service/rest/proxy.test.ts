import { connect, type Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createMemoryLimits } from '../../../src/service/core/rate-limits.js';
import { openSigningKeys } from '../../../src/service/oauth/access-tokens.js';
import { createAuthorizationServer, createSignInLinks, takeForAddress } from '../../../src/service/oauth/server.js';
import { startService } from '../../../src/service/service.js';
import { OWN_RATE_LIMIT, REQUESTS_PER_ADDRESS_MAX } from '../../../src/wire/limit.js';
import { operate } from '../../support/actors.js';
import { request } from '../../support/http.js';
import { REDIRECT_URI } from '../../support/oauth.js';
import { startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/until.js';
import { openStage } from '../sessions/stage.js';

/** Registrations are limited by address, which makes the service's idea of the address visible from outside. */
const register = (service: TestService, forwardedFor: string) =>
  request(service.place.registerUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-forwarded-for': forwardedFor },
    body: JSON.stringify({ redirect_uris: [REDIRECT_URI] }),
  });
const countAccepted = async (service: TestService, addressOf: (index: number) => string): Promise<number> => {
  const statuses: number[] = [];
  for (let index = 0; index < 40; index += 1) statuses.push((await register(service, addressOf(index))).status);
  return statuses.filter((status) => status === 201).length;
};

describe('X-Forwarded-For', () => {
  let direct: TestService;
  let proxied: TestService;
  beforeAll(async () => {
    direct = await startTestService();
    proxied = await startTestService({ isBehindProxy: true });
  });
  afterAll(async () => {
    await direct.stop();
    await proxied.stop();
  });

  it('is ignored without a proxy', async () => {
    expect(await countAccepted(direct, (index) => `192.0.2.${index}`)).toBeLessThan(40);
  });

  it('is trusted behind a proxy only as far as the proxy has written it', async () => {
    expect(await countAccepted(proxied, (index) => `192.0.2.${index}`)).toBe(40);
    expect(await countAccepted(proxied, (index) => `192.0.2.${index}, 198.51.100.7`)).toBeLessThan(40);
  });

  it('counts IPv6 by the network of 64 bits, and a mapped address as the IPv4 address it is', async () => {
    const hex = (index: number) => (index + 1).toString(16);
    expect(await countAccepted(proxied, (index) => `2001:db8:0:1:${hex(index)}::1`)).toBe(20);
    expect(await countAccepted(proxied, (index) => `2001:db8:1:${hex(index)}::1`)).toBe(40);
    const both = (index: number) => (index % 2 ? '203.0.113.9' : '::ffff:203.0.113.9');
    expect(await countAccepted(proxied, both)).toBe(20);
  });
});

const askFrom = ({ port }: { readonly port: number }, address: string) =>
  request(`http://127.0.0.1:${port}/health`, { headers: { 'x-forwarded-for': address } });

/** Begins a request, and does not finish it. */
function holdFrom({ port }: { readonly port: number }, address: string): Socket {
  const socket = connect({ host: '127.0.0.1', port });
  const head = ['POST /token HTTP/1.1', 'host: x', `x-forwarded-for: ${address}`, 'content-length: 100'];
  socket.write(`${[...head, 'content-type: application/x-www-form-urlencoded'].join('\r\n')}\r\n\r\n`);
  return socket.on('error', () => {});
}

describe('Requests from one address', () => {
  it(`are at most ${REQUESTS_PER_ADDRESS_MAX} at once behind a proxy, before authentication`, async () => {
    const service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', isBehindProxy: true });
    const ask = (address: string) => askFrom(service, address);
    const held = Array.from({ length: REQUESTS_PER_ADDRESS_MAX }, () => holdFrom(service, '192.0.2.1'));
    await until('the address is refused', async () => (await ask('192.0.2.1')).status === 429);
    expect((await ask('192.0.2.2')).status).toBe(200);
    for (const socket of held) socket.destroy();
    await until('it is let in again', async () => (await ask('192.0.2.1')).status === 200);
    await service.stop();
  });

  it('are at most five times as many from an IPv6 network of 48 bits, which one site may have', async () => {
    const service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', isBehindProxy: true });
    const held = Array.from({ length: 10 }, (_, network) =>
      Array.from({ length: REQUESTS_PER_ADDRESS_MAX / 2 }, () => holdFrom(service, `2001:db8:1:${network}::1`)),
    ).flat();
    await until('its other networks are refused', async () => {
      return (await askFrom(service, '2001:db8:1:ffff::1')).status === 429;
    });
    expect((await askFrom(service, '2001:db8:2::1')).status).toBe(200);
    for (const socket of held) socket.destroy();
    await until('it is let in again', async () => (await askFrom(service, '2001:db8:1:ffff::1')).status === 200);
    await service.stop();
  });
});

describe('a public https address without a declared proxy', () => {
  it('does not let one stranger lock everyone out of signing in, although all share one address', async () => {
    const service = await startService({
      host: '127.0.0.1',
      port: 0,
      data: 'memory',
      publicUrl: 'https://asp.example',
    });
    expect(service.isAddressShared).toBe(true);
    await service.stop();
    const stage = await openStage();
    const serverOf = async (isAddressShared: boolean) => {
      const context = { ...stage.context, settings: { ...stage.context.settings, isAddressShared } };
      const keys = await openSigningKeys(context);
      const options = { keys, localSecret: '', signInLinks: createSignInLinks(context) };
      return {
        ...createAuthorizationServer(context, options),
        context: { ...context, limits: createMemoryLimits(context.clock) },
      };
    };
    const [shared, own] = [await serverOf(true), await serverOf(false)];
    for (const { signInsOfAddress, signInsOfAccount } of [shared, own])
      for (let count = 0; count < 500; count += 1) {
        signInsOfAddress.add('127.0.0.1');
        signInsOfAccount.add('somebody 127.0.0.1');
      }
    expect(own.signInsOfAddress.waitS('127.0.0.1')).toBeGreaterThan(0);
    expect(shared.signInsOfAddress.waitS('127.0.0.1')).toBe(0);
    const authorize = async ({ context }: typeof own, count: number) => {
      for (let taken = 0; taken < count; taken += 1)
        await takeForAddress(context, 'authorize', { ip: '127.0.0.1' } as FastifyRequest);
    };
    const { count } = OWN_RATE_LIMIT.authorize;
    await authorize(own, count);
    await expect(authorize(own, 1)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    await authorize(shared, 100 * count);
    await expect(authorize(shared, 1)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    expect(shared.signInsOfAccount.waitS('somebody 127.0.0.1')).toBeGreaterThan(0);
    expect(shared.signInsOfAccount.waitS('another 127.0.0.1')).toBe(0);
    await stage.close();
  });
});

describe('The operator’s endpoints', () => {
  it('are not on an address that others can reach, and are on one of this machine', async () => {
    const service = await startService({ host: '0.0.0.0', port: 0, data: 'memory', isBehindProxy: true });
    const headers = { authorization: `Bearer ${service.operatorSecret}` };
    expect((await request(`http://127.0.0.1:${service.port}/operator/status`, { headers })).status).toBe(404);
    expect(service.operatorUrl).toMatch(/^http:\/\/127\.0\.0\.1:/);
    expect(service.operatorUrl).not.toContain(`:${service.port}/`);
    await operate({ url: service.operatorUrl, secret: service.operatorSecret }, 'GET', '/status');
    await service.stop();
  });
});
