import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { operate } from '../../support/actors.js';
import { startTestService, type TestService } from '../../support/service.js';
import { localHome } from '../acting.js';
import { runWords } from '../captured-run.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  for (const handle of ['@me.one', '@me.two', '@me.three'])
    await operate(service.operator, 'POST', '/agents', { handle });
});
afterAll(() => service.stop());

describe('a second login', () => {
  it('says as whom commands act now', async () => {
    const home = localHome(service);
    const login = async (handle: string) =>
      (await home.run(`login ${handle} --yes`)).err.trimEnd().split('\n').slice(1);
    expect(await login('@me.one')).toEqual([]);
    expect(await login('@me.two')).toEqual(['Several agents are signed in now: choose with asp use @me.two, or --as.']);
    await home.run('use me.one');
    expect(await login('@me.three')).toEqual(['Commands act as @me.one still: asp use @me.three, or --as.']);
    expect(await login('@me.one')).toEqual([]);
  });
});

describe('a logout where nobody is signed in', () => {
  it('says so', async () => {
    const { code, err } = await runWords('logout', { environment: { ASP_TOKEN_STORE: 'file' } });
    expect(code).toBe(4);
    expect(err).toContain('error: Nobody is signed in here.\n');
  });
});
