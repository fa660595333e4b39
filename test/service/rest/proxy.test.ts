import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { request } from '../../support/http.js';
import { REDIRECT_URI } from '../../support/oauth.js';
import { startTestService, type TestService } from '../../support/service.js';

/** Registrations are counted by address, which makes addresses visible from outside. */
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

  it('is not believed without a proxy', async () => {
    expect(await countAccepted(direct, (index) => `192.0.2.${index}`)).toBeLessThan(40);
  });

  it('is believed behind one as far as the proxy has written it, and no further', async () => {
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
