import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createFileStore } from '../../../src/client/credentials/file-store.js';
import type { LoginContext, LoginKey } from '../../../src/client/credentials/login.js';
import { createLoginCredential } from '../../../src/client/credentials/login-credential.js';
import { openLogins } from '../../../src/client/credentials/open-logins.js';
import { refreshLogin } from '../../../src/client/credentials/refresh-login.js';
import { createTransport } from '../../../src/client/http/transport.js';
import { systemClock } from '../../../src/kit/clock.js';
import { bundleProgram, runProgram } from '../../support/program.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createLoginPlace, type LoginPlace, signIn } from '../../support/signed-in.js';

const HANDLE = '@alice.bot';
/** The secret `a secret` of `@alice.bot` at the default local service, under the passphrase `correct horse`. */
const EARLIER =
  '{"v":1,"kdf":"scrypt","salt":"6onFWn9i/EMi99f0cUVxbA==","iv":"K9ZmzztvM7o6MwcH","tag":"hKQW6K9lUamDJW7l6K7fiw==","data":"2OlfBkQbvl8="}';
let service: TestService;
let place: LoginPlace;
let key: LoginKey;

beforeAll(async () => {
  service = await startTestService({ seeds: [{ handle: HANDLE }], areLimitsOn: false });
  key = { baseUrl: service.baseUrl, handle: HANDLE };
});
afterAll(() => service.stop());
beforeEach(() => {
  place = createLoginPlace();
});
afterEach(() => place.remove());

describe('a stored login', () => {
  it('returns tokens for both resources, and the same one until it expires', async () => {
    await signIn(service, place.context, HANDLE);
    const credential = createLoginCredential(place.context, key);
    const [api, ws] = [await credential.accessToken('api'), await credential.accessToken('ws')];
    expect(api.token).not.toBe(ws.token);
    expect((await createLoginCredential(place.context, key).accessToken('api')).token).toBe(api.token);
    expect((await credential.accessToken('api', { minTtlS: 901 })).token).not.toBe(api.token);
  });

  it('that is replaced is revoked in the background, and a service that does not answer delays nothing', async () => {
    const { transport } = place.context;
    const revoked: unknown[] = [];
    let isSilent = false;
    const held: Promise<unknown>[] = [];
    const context: LoginContext = {
      ...place.context,
      holdExit: (work) => void held.push(work),
      transport: {
        ...transport,
        send(request) {
          if (!request.url.endsWith('/revoke')) return transport.send(request);
          revoked.push(request.url);
          if (!isSilent) return transport.send(request);
          return new Promise((_, reject) => request.signal?.addEventListener('abort', () => reject(new Error('late'))));
        },
      },
    };
    await signIn(service, context, HANDLE);
    expect(revoked).toEqual([]);
    await signIn(service, context, HANDLE);
    expect(await Promise.all(held)).toEqual([{ isRevoked: true, error: undefined }]);
    isSilent = true;
    await signIn(service, context, HANDLE);
    expect(await Promise.race([Promise.all(held), 'not yet'])).toBe('not yet');
    expect(await held[1]).toMatchObject({ isRevoked: false });
    expect((await refreshLogin(context, key, 'api', { isForced: true })).token.token).toBeTruthy();
  });

  it('renews a refused token once for all of its users', async () => {
    await signIn(service, place.context, HANDLE, true);
    const [one, two] = [createLoginCredential(place.context, key), createLoginCredential(place.context, key)];
    const rejected = (await one.accessToken('api')).token;
    expect((await two.accessToken('api')).token).toBe(rejected);
    const renewed = (await one.accessToken('api', { rejected })).token;
    expect(renewed).not.toBe(rejected);
    expect((await two.accessToken('api', { rejected })).token).toBe(renewed);
  });

  it('is not spent where the new one could not be stored', async () => {
    await signIn(service, place.context, HANDLE);
    const secrets = `${place.directory}/state/secrets`;
    const renew = () => refreshLogin(place.context, key, 'api', { isForced: true });
    // Stands for a full or read-only disk: nothing is written to a folder that others can write to.
    chmodSync(secrets, 0o777);
    await expect(renew()).rejects.toMatchObject({ code: 'ASP_STORE_UNAVAILABLE' });
    chmodSync(secrets, 0o700);
    expect((await renew()).token.token).toBeTruthy();
  });

  it('is remembered as ended when the service refuses it, and later commands do not ask again', async () => {
    await signIn(service, place.context, HANDLE);
    const secrets = `${place.directory}/state/secrets`;
    const [name = ''] = readdirSync(secrets);
    const before = readFileSync(`${secrets}/${name}`, 'utf8');
    await refreshLogin(place.context, key, 'api', { isForced: true });
    const { writePrivateFile } = await import('../../../src/kit/private-file.js');
    await writePrivateFile(`${secrets}/${name}`, before);
    const reuse = refreshLogin(place.context, key, 'api', { isForced: true });
    await expect(reuse).rejects.toMatchObject({ code: 'ASP_LOGIN_ENDED', oauthError: 'invalid_client' });
    expect(readdirSync(secrets)).toEqual([]);
    const offline = {
      ...place.context,
      transport: createTransport({ clock: systemClock, trace: () => expect.fail() }),
    };
    const again = createLoginCredential(offline, key).accessToken('api');
    await expect(again).rejects.toMatchObject({ code: 'ASP_LOGIN_ENDED' });
    expect((await openLogins(place.context).find(key))?.ended?.error).toBe('invalid_client');
    await signIn(service, place.context, HANDLE);
    expect((await openLogins(place.context).find(key))?.ended).toBeNull();
  });

  it('survives answers that are not OAuth errors', async () => {
    await signIn(service, place.context, HANDLE);
    const captive = await startPortal();
    const context = { ...place.context, addressesOf: () => ({ baseUrl: key.baseUrl }) };
    const real = context.transport;
    const transport = {
      ...real,
      send: (request: Parameters<typeof real.send>[0]) =>
        real.send(request.url.endsWith('/token') ? { ...request, url: captive.url } : request),
    };
    const failing = refreshLogin({ ...context, transport }, key, 'api', { isForced: true });
    await expect(failing).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER' });
    await captive.stop();
    expect((await refreshLogin(place.context, key, 'api', { isForced: true })).token.token).toBeTruthy();
  });

  it('is revoked and deleted when it is removed, and still deleted when the service is down', async () => {
    await signIn(service, place.context, HANDLE);
    const logins = openLogins(place.context);
    expect(await logins.remove(key)).toEqual({ isRevoked: true, revocationError: undefined });
    expect(await logins.list()).toEqual([]);
    await signIn(service, place.context, HANDLE);
    const away = { ...place.context.transport, send: () => Promise.reject(new Error('away')) };
    const removal = await openLogins({ ...place.context, transport: away }).remove(key);
    expect(removal).toMatchObject({ isRevoked: false });
    expect(await logins.list()).toEqual([]);
  });
});

describe('the refresh token of a login', () => {
  /** Returns a context that records requests. A test can replace their answers. */
  const watched = (context: LoginContext): { context: LoginContext; bodies: string[] } => {
    const bodies: string[] = [];
    const { transport } = context;
    const send: typeof transport.send = (request) => {
      bodies.push(String(request.body ?? ''));
      return transport.send(request);
    };
    return { context: { ...context, transport: { ...transport, send } }, bodies };
  };
  const refreshTokenIn = (): string => {
    const secrets = `${place.directory}/state/secrets`;
    const [name = ''] = readdirSync(secrets);
    return /"rt":"([^"]+)"/.exec(readFileSync(`${secrets}/${name}`, 'utf8'))?.[1] ?? 'nothing';
  };

  it('goes only to its own authorization server when the login is removed', async () => {
    await signIn(service, place.context, HANDLE);
    const token = refreshTokenIn();
    const other = await startTestService({ areLimitsOn: false });
    const findAddresses = () => ({ baseUrl: service.baseUrl, authUrl: new URL(other.baseUrl).origin });
    const { context, bodies } = watched({ ...place.context, findAddresses });
    const removal = await openLogins(context).remove(key);
    await other.stop();
    expect(removal).toMatchObject({ isRevoked: false, revocationError: { code: 'ASP_DISCOVERY' } });
    expect(bodies.join()).not.toContain(token);
    expect(await openLogins(context).list()).toEqual([]);
  });

  it('is not sent anywhere without a record that names its issuer', async () => {
    await signIn(service, place.context, HANDLE);
    rmSync(`${place.directory}/state/logins`, { recursive: true });
    const token = refreshTokenIn();
    const { context, bodies } = watched(place.context);
    expect(await openLogins(context).remove(key)).toMatchObject({ isRevoked: false });
    expect(bodies.join()).not.toContain(token);
    expect(readdirSync(`${place.directory}/state/secrets`)).toEqual([]);
  });

  it('is not sent anywhere while the local service that issued it is not running', async () => {
    let isRunning = true;
    const isLocalServiceAt = async (): Promise<boolean> => isRunning;
    const { context, bodies } = watched({ ...place.context, isLocalServiceAt });
    await signIn(service, context, HANDLE, false, true);
    await createLoginCredential(context, key).accessToken('api');
    isRunning = false;
    bodies.length = 0;
    const gone = { code: 'ASP_LOCAL_NOT_RUNNING', outcome: 'not_applied', isRetryable: true };
    await expect(createLoginCredential(context, key).accessToken('api')).rejects.toMatchObject(gone);
    await expect(refreshLogin(context, key, 'api', { isForced: true })).rejects.toMatchObject(gone);
    const removal = await openLogins(context).remove(key);
    expect(removal).toMatchObject({ isRevoked: false, revocationError: gone });
    expect(bodies.filter((body) => body.includes('refresh_token'))).toEqual([]);
  });
});

// test/acceptance/refresh.test.ts does the same with 20 real programs.
describe('six processes with one login', () => {
  it('send exactly one token request, even after it is refused, and all succeed', async () => {
    await signIn(service, place.context, HANDLE);
    const program = await bundleProgram('test/support/programs/use-login.ts');
    for (let round = 0, rejected = ''; round < 2; round += 1) {
      const words = [place.directory, service.baseUrl, HANDLE, 'file', rejected].slice(0, rejected === '' ? 4 : 5);
      const runs = await Promise.all(Array.from({ length: 6 }, () => runProgram(program, words).ended));
      expect(runs.filter(({ status }) => status !== 0)).toEqual([]);
      const tokens = new Set(runs.map(({ stdout }) => stdout.trim()));
      expect(tokens.size).toBe(1);
      expect([...tokens]).not.toContain(rejected);
      rejected = [...tokens][0] ?? '';
    }
  });
});

describe('the file store', () => {
  const secretPath = (): string => {
    const directory = `${place.directory}/state/secrets`;
    return `${directory}/${readdirSync(directory)[0]}`;
  };

  it('writes files for this user alone, whatever the umask', async () => {
    const before = process.umask(0);
    await signIn(service, place.context, HANDLE).finally(() => process.umask(before));
    expect(statSync(secretPath()).mode & 0o777).toBe(0o600);
    expect(statSync(`${place.directory}/state/secrets`).mode & 0o777).toBe(0o700);
    expect(readdirSync(`${place.directory}/state/secrets`)).toHaveLength(1);
  });

  it('refuses a file that others can read, and a symbolic link', async () => {
    await signIn(service, place.context, HANDLE);
    chmodSync(secretPath(), 0o640);
    const reading = createLoginCredential(place.context, key).accessToken('api');
    await expect(reading).rejects.toMatchObject({ code: 'ASP_STORE_UNAVAILABLE' });
    const other = createLoginPlace();
    mkdirSync(`${other.directory}/state/secrets`, { recursive: true, mode: 0o700 });
    symlinkSync(secretPath(), secretPath().replace(place.directory, other.directory));
    const linked = createLoginCredential(other.context, key).accessToken('api');
    await expect(linked).rejects.toMatchObject({ code: 'ASP_STORE_UNAVAILABLE' });
    other.remove();
  });

  it('is encrypted under a passphrase', async () => {
    const context = { ...place.context, passphrase: 'correct horse' };
    await signIn(service, context, HANDLE);
    expect(readFileSync(secretPath(), 'utf8')).not.toContain('"rt"');
    expect((await createLoginCredential(context, key).accessToken('api')).token).toBeTruthy();
    for (const passphrase of [undefined, 'wrong']) {
      const locked = createLoginCredential({ ...place.context, passphrase }, key).accessToken('api');
      await expect(locked).rejects.toMatchObject({ code: 'ASP_STORE_LOCKED' });
    }
  });

  it('does not open an encrypted file with only the beginning of its tag, which could be guessed', async () => {
    const context = { ...place.context, passphrase: 'correct horse' };
    await signIn(service, context, HANDLE);
    const content = JSON.parse(readFileSync(secretPath(), 'utf8')) as { tag: string };
    const tag = Buffer.from(content.tag, 'base64').subarray(0, 4).toString('base64');
    writeFileSync(secretPath(), JSON.stringify({ ...content, tag }));
    const opened = createLoginCredential(context, key).accessToken('api');
    await expect(opened).rejects.toMatchObject({ code: 'ASP_STORE_LOCKED' });
  });

  it('opens a file that was encrypted by an earlier version', async () => {
    const directory = `${place.directory}/earlier`;
    mkdirSync(directory, { mode: 0o700 });
    const login = { baseUrl: 'http://127.0.0.1:8744/v1', handle: '@alice.bot' };
    const store = createFileStore(directory, 'correct horse');
    await store.set(login, 'new');
    const [name = ''] = readdirSync(directory);
    writeFileSync(`${directory}/${name}`, EARLIER);
    expect(await store.get(login)).toBe('a secret');
  });

  it('keeps access tokens encrypted', async () => {
    await signIn(service, place.context, HANDLE);
    const { token } = await createLoginCredential(place.context, key).accessToken('api');
    const [name = ''] = readdirSync(`${place.directory}/run/tokens`);
    expect(readFileSync(`${place.directory}/run/tokens/${name}`, 'utf8')).not.toContain(token.slice(0, 20));
  });
});

async function startPortal(): Promise<{ url: string; stop(): Promise<void> }> {
  const { startScriptedServer } = await import('../../support/scripted-server.js');
  const portal = await startScriptedServer({
    method: 'POST',
    path: '/token',
    status: 403,
    body: '<h1>Please pay</h1>',
  });
  return { url: `${portal.origin}/token`, stop: () => portal.finish() };
}
