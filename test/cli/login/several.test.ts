import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, startServe } from '../../acceptance/program.js';
import { operate } from '../../support/actors.js';
import { newPerson, openBrowser } from '../../support/browser.js';
import { startTestService, type TestService } from '../../support/service.js';
import { localHome } from '../acting.js';
import { runWords } from '../captured-run.js';
import { approve, startLogin } from './signed-in-home.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  for (const handle of ['@me.one', '@me.two', '@me.three'])
    await operate(service.operator, 'POST', '/agents', { handle });
});
afterAll(() => service.stop());

describe('a second login', () => {
  it('says which agent commands use now', async () => {
    const home = localHome(service);
    const login = async (handle: string) =>
      (await home.run(`login ${handle} --yes`)).err.trimEnd().split('\n').slice(1);
    expect(await login('@me.one')).toEqual([]);
    const still = (first: string, other: string): string[] => [
      `Commands still act as ${first}. To change that: asp use ${other}, or --as.`,
    ];
    expect(await login('@me.two')).toEqual(still('@me.one', '@me.two'));
    expect(await login('@me.one')).toEqual([]);
    await home.run('use me.two');
    expect(await login('@me.three')).toEqual(still('@me.two', '@me.three'));
  });

  it('changes nothing for commands that name no agent', async () => {
    const home = localHome(service);
    const whoami = async () => (await home.run('whoami --short')).out;
    await home.run('login me.two --yes');
    await home.run('login me.one --yes');
    expect(await whoami()).toBe('@me.two\n');
    // Signing in again does not change the order.
    await home.run('login me.two --yes');
    expect(await whoami()).toBe('@me.two\n');
    await home.run('logout me.two');
    expect(await whoami()).toBe('@me.one\n');
  });

  it('says that a credential of the environment still wins', async () => {
    const home = localHome(service);
    const { err } = await home.run('login me.one --yes', { environment: { ASP_TOKEN: 'x.y.z' } });
    expect(err).toContain('ASP_TOKEN is set, so commands use that instead of this login.');
  });

  it('--yes keeps the login in a file if there is no keychain, unless one was requested', async () => {
    const home = localHome(service);
    const environment = { ASP_TOKEN_STORE: '', DBUS_SESSION_BUS_ADDRESS: '' };
    const kept = await home.run('login me.one --yes --json', { environment });
    expect({ code: kept.code, ...JSON.parse(kept.out) }).toMatchObject({ code: 0, store: 'file' });
    const refused = await home.run('login me.one --yes --store keychain --json', { environment });
    expect(JSON.parse(refused.err).error).toMatchObject({ code: 'ASP_STORE_UNAVAILABLE' });
  });
});

describe('a login in the browser', () => {
  it('says that the browser did not start, and how long it waits', async () => {
    const home = localHome(service);
    const { code, err } = await home.run('login me.one --browser nosuchprogram --timeout 1s');
    expect(code).toBe(8);
    expect(err).toContain('Could not open the browser. Open the address yourself.');
    expect(err).toContain('Waiting up to 1s for the browser.');
  });
});

describe('The suggested login', () => {
  it('has the requested scopes, and no others', async () => {
    const home = localHome(service);
    const proposed = async (words: string, environment = {}) =>
      /^ {2}try: {2}(.*)$/m.exec((await home.run(words, { environment })).err)?.[1];
    expect(await proposed('login --yes --read-only')).toBe(
      'asp login @me.one --scopes agents:read,sessions:read,allowlist:read,realtime:read --yes',
    );
    const noKeychain = { ASP_TOKEN_STORE: 'keychain', DBUS_SESSION_BUS_ADDRESS: '' };
    expect(await proposed('login me.one --yes --scopes agents:read', noKeychain)).toBe(
      'asp login @me.one --scopes agents:read --yes --store file',
    );
    expect(await proposed('login --yes --scopes account:read', noKeychain)).toBe(
      'asp login @me.one --scopes account:read --yes --store file',
    );
    expect(await proposed('login --yes --account', noKeychain)).toBe('asp login @me.one --account --yes --store file');
  });
});

describe('a local sign-in at an address without its path', () => {
  it('names the whole address', async () => {
    const { code, err } = await localHome(service).run(`login me.one --yes -p ${service.authUrl}`);
    expect(code).toBe(2);
    expect(err).toContain(`The address of the local service is ${service.baseUrl}, not ${service.authUrl}.`);
  });
});

describe('a logout without a login', () => {
  it('says so', async () => {
    const { code, err } = await runWords('logout', { environment: { ASP_TOKEN_STORE: 'file' } });
    expect(code).toBe(4);
    expect(err).toContain('error: Not signed in here.\n');
  });
});

describe('two local services of one user', () => {
  it('a login in the browser at the first one signs in there, while "local" means the second', async () => {
    const home = createHome();
    const first = await startServe(home, ['--seed', 'me.one']);
    const second = await startServe(home, ['--seed', 'me.two', '--data', 'memory']);
    const browser = openBrowser();
    const person = newPerson('gina');

    const { login: started, url } = await startLogin(home, ['-p', first.url]);
    expect(new URL(url).origin).toBe(new URL(first.url).origin);
    await browser.open(await approve(browser, url, person));
    const signedIn = await started.ended;
    expect(signedIn).toMatchObject({ status: 0, stdout: `${person.handle}\n` });
    expect(signedIn.stderr).toContain(`Signed in at ${first.url}.`);

    const whoami = (...words: string[]) => home.run(['whoami', '--short', ...words]);
    expect(await whoami('-p', first.url)).toMatchObject({ status: 0, stdout: `${person.handle}\n` });
    expect(await home.run(['session', 'list', '-p', first.url])).toMatchObject({ status: 0 });
    // The login is for the first service only, and none of its tokens go to the second.
    expect(await home.run(['session', 'list'])).toMatchObject({ status: 4 });
    expect(await home.run(['login', '@me.two', '--yes'])).toMatchObject({ status: 0, stdout: '@me.two\n' });
    expect(await whoami()).toMatchObject({ stdout: '@me.two\n' });
    expect(await whoami('-p', first.url)).toMatchObject({ stdout: `${person.handle}\n` });
    await second.stop();
    expect(await whoami()).toMatchObject({ status: 0, stdout: `${person.handle}\n` });
    await first.stop();
    await home.dispose();
  });
});
