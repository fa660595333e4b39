import { chmodSync, existsSync } from 'node:fs';
import { join } from 'node:path';

import { freePort } from '../../support/free-port.js';
import { until } from '../../support/until.js';
import { column, everyOption, type Scene, shown, type Table } from './every-option.js';

type Typed = readonly string[];

const AGENT_SCOPE = 'sessions:read';

/** Returns the handles of the agents signed in in the home. */
const signedIn = async ({ asNobody }: Scene): Promise<unknown> =>
  column(await asNobody('auth status --json'), 'handle');

async function signInBoth({ asNobody }: Scene): Promise<void> {
  for (const handle of ['$alice', '$bob']) await asNobody(`login ${handle} --yes`);
}
const signInAlice = async ({ asNobody }: Scene): Promise<unknown> => asNobody('login $alice --yes');

/** Creates a browser that writes its address to `$home/opened`. */
function browser({ home, file }: Scene): string {
  const script = file('browser.sh', `#!/bin/sh\necho "$1" > ${join(home, 'opened')}\n`);
  chmodSync(script, 0o700);
  return script;
}

/** Signs alice in with these words. Returns a column of her login, such as its scopes or store. */
const loggedIn =
  (name: string, environment = {}) =>
  async ({ asNobody }: Scene, typed: Typed): Promise<unknown> => {
    await asNobody(['login $alice --yes', typed], { environment });
    return column(await asNobody('auth status --json'), name);
  };

const isOpened = ({ home }: Scene): Promise<boolean> =>
  until('the browser has started', async () => existsSync(join(home, 'opened')), 3000).catch(() => false);

/** Approves as a person and returns the address to which the browser is redirected. */
async function approve({ service }: Scene, url: string): Promise<string> {
  const headers = { authorization: `Bearer ${service.operatorSecret}` };
  const answer = await fetch(url, { method: 'POST', headers, redirect: 'manual' });
  return answer.headers.get('location') ?? '';
}

/** Gets a token for alice with these words and inspects it. */
const token =
  (look: (token: string, scene: Scene) => unknown) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await signInAlice(scene);
    return look((await scene.asNobody(['auth token', typed])).out.trim(), scene);
  };
const claims = (text: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(text.split('.')[1] ?? '', 'base64url').toString());

const whoami =
  (look: (ran: { out: string; err: string }, asked: number) => unknown) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await signInAlice(scene);
    const before = scene.sent.length;
    const ran = await scene.asNobody(['whoami', typed]);
    return look(ran, scene.sent.length - before);
  };

const posts = ({ sent }: Scene): number => sent.filter(({ method }) => method === 'POST').length;

const TABLE: Table = {
  'auth login': {
    handle: shown(
      '$alice',
      ['$alice'],
      async (scene, typed) => {
        await scene.asNobody(['login --yes', typed]);
        return signedIn(scene);
      },
      '$bob',
    ),
    '--no-browser': shown('--no-browser', false, async (scene, typed) => {
      await scene.asNobody(['login $alice --timeout 2500ms', typed], { environment: { BROWSER: browser(scene) } });
      return isOpened(scene);
    }),
    '--browser': shown('--browser $home/browser.sh', true, async (scene, typed) => {
      browser(scene);
      await scene.asNobody(['login $alice --timeout 2500ms', typed]);
      return isOpened(scene);
    }),
    '--callback-port': shown('--callback-port $port', true, async ({ asNobody, name }, typed) => {
      const port = await freePort();
      name('$port', String(port));
      const { err } = await asNobody(['login $alice --no-browser --timeout 2500ms', typed]);
      return err.includes(encodeURIComponent(`127.0.0.1:${port}/`));
    }),
    '--callback-host': shown('--callback-host 192.0.2.1', true, async ({ asNobody }, typed) => {
      const words = `login $alice --no-browser --timeout 2500ms --callback-port ${await freePort()}`;
      return (await asNobody([words, typed])).err.includes('this machine has no address 192.0.2.1');
    }),
    '--scopes': shown(`--scopes ${AGENT_SCOPE}`, [[AGENT_SCOPE]], loggedIn('scopes')),
    '--account': shown('--account', [['account:read', 'account:agents:read']], loggedIn('scopes')),
    '--read-only': shown(
      '--read-only',
      [['agents:read', 'sessions:read', 'allowlist:read', 'realtime:read']],
      loggedIn('scopes'),
    ),
    '--store': shown(
      '--store file',
      ['file'],
      loggedIn('store', { ASP_TOKEN_STORE: 'keychain', DBUS_SESSION_BUS_ADDRESS: '' }),
    ),
    '--start': shown(
      '--start',
      0,
      async ({ asNobody }, typed) => (await asNobody(['login $alice --no-browser --timeout 2500ms', typed])).code,
    ),
    '--finish': shown(
      '--finish $callback',
      ['$alice'],
      async (scene, typed) => {
        const { out } = await scene.asNobody('login $alice --start');
        scene.name('$callback', await approve(scene, out.trim()));
        await scene.asNobody(['login', typed]);
        return signedIn(scene);
      },
      '--start',
    ),
  },
  'auth logout': {
    handle: shown(
      '$alice',
      ['$bob'],
      async (scene, typed) => {
        await signInBoth(scene);
        await scene.asNobody(['logout', typed]);
        return signedIn(scene);
      },
      '$bob',
    ),
    '--all': shown('--all', [], async (scene, typed) => {
      await signInBoth(scene);
      await scene.asNobody(['logout', typed]);
      return signedIn(scene);
    }),
    '--local-only': shown('--local-only', [[], 0], async (scene, typed) => {
      await signInAlice(scene);
      const before = posts(scene);
      await scene.asNobody(['logout', typed]);
      return [await signedIn(scene), posts(scene) - before];
    }),
  },
  'auth whoami': {
    '--offline': shown(
      '--offline',
      ['$alice\n', 0],
      whoami(({ out }, asked) => [out, asked]),
    ),
    '--explain': shown(
      '--explain',
      true,
      whoami(({ out }) => out.includes('stored login')),
    ),
    '--short': shown(
      '--short',
      ['$alice\n', ''],
      whoami(({ out, err }) => [out, err]),
    ),
  },
  'auth token': {
    '--resource': shown(
      '--resource ws',
      true,
      token((text, { service }) => claims(text)['aud'] === service.wsUrl),
    ),
    '--min-ttl': shown('--min-ttl 24h', true, async (scene, typed) => {
      await signInAlice(scene);
      const before = posts(scene);
      await scene.asNobody(['auth token', typed]);
      return posts(scene) > before;
    }),
    '--header': shown(
      '--header',
      true,
      token((text) => text.startsWith('Authorization: Bearer ')),
    ),
  },
  'auth refresh': {
    handle: shown('$bob', [0, '$bob\n'], async (scene, typed) => {
      await signInBoth(scene);
      const { code, out } = await scene.asNobody(['auth refresh', typed]);
      return [code, out];
    }),
    '--scopes': shown(`--scopes ${AGENT_SCOPE}`, AGENT_SCOPE, async (scene, typed) => {
      await signInAlice(scene);
      await scene.asNobody(['auth refresh', typed]);
      return claims((await scene.asNobody('auth token')).out)['scope'];
    }),
  },
  'auth ci': {
    system: shown(
      'github',
      true,
      async ({ asNobody }, typed) => (await asNobody(['auth ci', typed])).out.startsWith('- name:'),
      'gitlab',
    ),
  },
};

everyOption('auth', TABLE);
