import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { operate } from '../support/actors.js';
import { startTestService, type TestService } from '../support/service.js';
import { documentOf, localHome } from './acting.js';

let service: TestService;
let home: ReturnType<typeof localHome>;
beforeAll(async () => {
  service = await startTestService();
  for (const handle of ['@ann.bot', '@ann.second']) await operate(service.operator, 'POST', '/agents', { handle });
  home = localHome(service);
});
afterAll(() => service.stop());

const rowsOf = async (words: string): Promise<[agent: string, session: string][]> => {
  const { items } = documentOf(await home.run(`session list --account --json ${words}`)) as {
    items: { acting_handle: string; session: { id: string } }[];
  };
  return items.map(({ acting_handle: agent, session }) => [agent, session.id]);
};

describe('asp session list --account', () => {
  it('needs a sign-in of the account, and says how', async () => {
    const { code, err } = await home.run('session list --account --json');
    expect(code).toBe(4);
    expect(JSON.parse(err).error).toMatchObject({ code: 'ASP_NO_CREDENTIAL', next: ['asp', 'login', '--account'] });
  });

  it('signs in as the only account, and among several as that of the acting agent', async () => {
    const signIn = async (words: string) => {
      const { code, out, err } = await localHome(service).run(`login --account --yes ${words}`);
      return { code, out, err };
    };
    expect(await signIn('')).toMatchObject({
      code: 0,
      out: '(account)\n',
      err: expect.stringContaining('Signing in as the account of @ann.bot.\n'),
    });
    await operate(service.operator, 'POST', '/agents', { handle: '@zoe.bot' });
    expect(await signIn('')).toMatchObject({
      code: 2,
      err: expect.stringMatching(
        /Which account\? Name one of its agents\.\n {2}why: {2}the local service has @ann\.bot, .*@zoe\.bot\.\n {2}try: {2}asp login @ann\.bot --account --yes\n/,
      ),
    });
    expect((await signIn('--as zoe.bot')).err).toContain('Signing in as the account of @zoe.bot.\n');
    const acting = localHome(service);
    expect((await acting.run('login @zoe.bot --yes')).code).toBe(0);
    expect((await acting.run('login --account --yes')).err).toContain('Signing in as the account of @zoe.bot.\n');
  });

  it('lists the sessions of every agent of the account, with the agent to act as', async () => {
    expect(documentOf(await home.run('login @ann.bot --account --yes --json'))).toMatchObject({ handle: null });
    const alice = await service.createAgent('alice');
    const first = await alice.mustCreate({ invite: ['@ann.bot'] });
    const second = await alice.mustCreate({ invite: ['@ann.second'] });
    await alice.mustEnd(second);
    expect(await rowsOf('')).toEqual([
      ['@ann.second', second],
      ['@ann.bot', first],
    ]);
    expect(await rowsOf('--state ended')).toEqual([['@ann.second', second]]);
    expect(await rowsOf('--state invited')).toEqual([['@ann.bot', first]]);
    expect(await rowsOf('--with ann.second')).toEqual([['@ann.second', second]]);
    expect((await home.run('session list --account --state active')).out).toMatch(
      new RegExp(`^${first}\\t@ann.bot\\tactive\\t`),
    );
  });

  it('is available only to the account', async () => {
    const alice = await service.createAgent('alice');
    const environment = { ASP_PROFILE: service.baseUrl, ASP_TOKEN: await alice.token('api') };
    const { code, err } = await home.run('session list --account', { environment });
    expect(code).toBe(5);
    expect(err).toContain('try:  asp login --account');
  });

  it('cannot be combined with other scopes', async () => {
    for (const words of ['login --account --scopes account:read', 'login --account --read-only'])
      expect((await home.run(words)).code).toBe(2);
  });
});

describe('asp open', () => {
  it('prints the address of the page if there is no browser', async () => {
    const alice = await service.createAgent('alice');
    const environment = { ASP_PROFILE: service.baseUrl, ASP_TOKEN: await alice.token('api') };
    const id = await alice.mustCreate({ invite: ['@ann.bot'] });
    const { code, out, err } = await home.run('open @ann.bot', { environment });
    expect({ code, out }).toEqual({ code: 0, out: `${service.webUrl}/dashboard/sessions/${id}\n` });
    expect(err).toContain('open the address yourself');
    expect((await home.run('open', { environment })).out).toBe(`${service.webUrl}/dashboard\n`);
  });

  it('prints an address that shows the session', async () => {
    const { out } = await home.run('open --no-browser');
    const { status } = await fetch(out.trim(), { redirect: 'manual' });
    expect([200, 302, 303]).toContain(status);
  });
});
