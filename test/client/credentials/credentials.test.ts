import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCommandCredential } from '../../../src/client/credentials/command-credential.js';
import { createClientCredential, createTokenCredential } from '../../../src/client/credentials/credential.js';
import { obtainClientId } from '../../../src/client/credentials/register-client.js';
import { createTransport } from '../../../src/client/http/transport.js';
import { discover } from '../../../src/client/oauth/discover.js';
import type { Clock } from '../../../src/kit/clock.js';
import { systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';
import { AGENT_SCOPES } from '../../../src/wire/scope.js';
import type { Actor } from '../../support/actors.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createLoginPlace } from '../../support/signed-in.js';

let service: TestService;
let alice: Actor;
let directory: string;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  alice = await service.createAgent('alice');
  directory = mkdtempSync(join(tmpdir(), 'asp-credentials-'));
});
afterAll(async () => {
  await service.stop();
  rmSync(directory, { recursive: true, force: true });
});

const clientOptions = (clock: Clock = systemClock) => ({
  transport: createTransport({ clock }),
  random: systemRandom,
  service: { baseUrl: service.baseUrl },
  ...alice.credentials,
});

describe('tokens from the environment', () => {
  it('are used as they are, and never again once refused', async () => {
    const credential = createTokenCredential({ api: 'one', ws: undefined });
    expect((await credential.accessToken('api')).token).toBe('one');
    await expect(credential.accessToken('api', { rejected: 'one' })).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    expect((await credential.accessToken('ws')).token).toBe('one');
    const both = createTokenCredential({ api: 'one', ws: 'two' });
    expect((await both.accessToken('ws')).token).toBe('two');
    const none = createTokenCredential({ api: '', ws: undefined });
    await expect(none.accessToken('ws')).rejects.toMatchObject({ code: 'ASP_NO_CREDENTIAL' });
  });
});

describe('client credentials', () => {
  it('are exchanged once per resource, and nothing is written without a token folder', async () => {
    const credential = createClientCredential(clientOptions());
    const [one, two] = await Promise.all([credential.accessToken('api'), credential.accessToken('api')]);
    expect(one.token).toBe(two.token);
    expect((await credential.accessToken('ws')).token).not.toBe(one.token);
    expect((await credential.accessToken('api', { rejected: one.token })).token).not.toBe(one.token);
  });

  it('are stored encrypted in a token folder', async () => {
    const cacheDirectory = join(directory, 'cache');
    const one = await createClientCredential({ ...clientOptions(), cacheDirectory }).accessToken('api');
    const two = await createClientCredential({ ...clientOptions(), cacheDirectory }).accessToken('api');
    expect(two.token).toBe(one.token);
    expect(readdirSync(cacheDirectory)).not.toEqual([]);
  });

  it('are exchanged again at most once when the clock jumps a day', async () => {
    for (const jumpMs of [86_400_000, -86_400_000]) {
      let shiftMs = 0;
      const cacheDirectory = join(directory, `jump${jumpMs}`);
      const clock: Clock = { ...systemClock, now: () => systemClock.now() + shiftMs };
      const credential = createClientCredential({ ...clientOptions(clock), cacheDirectory });
      const before = (await credential.accessToken('api')).token;
      shiftMs = jumpMs;
      const after = (await credential.accessToken('api')).token;
      expect(after).not.toBe(before);
      expect((await credential.accessToken('api')).token).toBe(after);
    }
  });

  it('that are wrong are reported only by their OAuth code', async () => {
    const credential = createClientCredential({ ...clientOptions(), clientSecret: 'CANARY-secret' });
    const error: unknown = await credential.accessToken('api').catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'invalid_client', oauthError: 'invalid_client', status: 401 });
    expect(JSON.stringify(error) + String(error)).not.toContain('CANARY');
  });
});

describe('a credential command', () => {
  const script = (text: string): string => {
    const path = join(directory, `command-${text.length}.sh`);
    writeFileSync(path, `#!/bin/sh\n${text}\n`);
    chmodSync(path, 0o700);
    return path;
  };
  const run = (text: string, more: { limitMs?: number } = {}) =>
    createCommandCredential({
      ...more,
      clock: systemClock,
      platform: process.platform,
      command: [script(text)],
      environment: { PATH: process.env['PATH'], GIVEN: 'given' },
      resources: { api: service.baseUrl, ws: undefined },
    });

  it('prints a token or JSON, and gets the resource in its environment', async () => {
    expect((await run('echo plain-$ASP_RESOURCE-$GIVEN').accessToken('api')).token).toBe('plain-api-given');
    const json = run(`echo '{"access_token":"abc","expires_in":900,"scope":"s"}'`);
    expect(await json.accessToken('api')).toMatchObject({ token: 'abc', scope: 's' });
  });

  it('that takes too long is an error that says so, whatever status it ends with', async () => {
    for (const text of ['exec sleep 60', "trap 'exit 143' TERM; while :; do sleep 0.1; done"])
      await expect(run(text, { limitMs: 500 }).accessToken('api')).rejects.toMatchObject({
        code: 'ASP_CREDENTIAL_COMMAND',
        message: 'The credential command took longer than 0.5 s.',
      });
  });

  it.each(['token.cmd', 'C:\\tools\\TOKEN.BAT', 'token.bat. '])(
    'that is a batch file is refused on Windows: %s',
    async (program) => {
      const credential = createCommandCredential({
        clock: systemClock,
        platform: 'win32',
        command: [program],
        environment: {},
        resources: { api: service.baseUrl, ws: undefined },
      });
      await expect(credential.accessToken('api')).rejects.toMatchObject({
        code: 'ASP_CREDENTIAL_COMMAND',
        message: expect.stringMatching(/is a batch file.*begin credential_command with "cmd", "\/c"/),
      });
    },
  );

  it('that fails or prints something else is an error without its output', async () => {
    for (const text of ['echo CANARY >&2; exit 3', 'echo "CANARY is no token"'])
      await expect(run(text).accessToken('api')).rejects.toMatchObject({
        code: 'ASP_CREDENTIAL_COMMAND',
        message: expect.not.stringContaining('CANARY'),
      });
  });
});

describe('a credential command that does not end', () => {
  it('is ended by the signal, and the error is that of the signal', async () => {
    const path = join(directory, 'endless.sh');
    writeFileSync(path, '#!/bin/sh\nexec sleep 60\n');
    chmodSync(path, 0o700);
    const credential = createCommandCredential({
      clock: systemClock,
      platform: process.platform,
      command: [path],
      environment: { PATH: process.env['PATH'] },
      resources: { api: service.baseUrl, ws: undefined },
    });
    const late = AbortSignal.timeout(100);
    await expect(credential.accessToken('api', { signal: late })).rejects.toMatchObject({ code: 'ASP_TIMEOUT' });
    const canceled = AbortSignal.abort();
    await expect(credential.accessToken('api', { signal: canceled })).rejects.toMatchObject({ code: 'ASP_ABORTED' });
  });
});

describe('registration', () => {
  it('happens once for 50 first logins at the same time', async () => {
    const place = createLoginPlace();
    const discovery = await discover(place.context, { baseUrl: service.baseUrl });
    const wish = { clientName: 'asp', scopes: AGENT_SCOPES };
    const ids = await Promise.all(Array.from({ length: 50 }, () => obtainClientId(place.context, discovery, wish)));
    expect(new Set(ids).size).toBe(1);
    expect(existsSync(`${place.directory}/state/clients`)).toBe(true);
    place.remove();
  });
});
