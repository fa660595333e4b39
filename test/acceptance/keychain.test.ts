import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Ended, type Home, json, missing, type ServiceProcess, startServe } from './program.js';

const LIMIT_MS = 3000;
/** The extra time for starting a process on a busy machine. */
const START_MS = 4000;
const noKeyring = missing('dbus-run-session', 'gnome-keyring-daemon', 'gdbus', 'python3');
const UNLOCK = 'printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1';

describe('Keychain', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    home = createHome({ ASP_TOKEN_STORE: undefined, DBUS_SESSION_BUS_ADDRESS: undefined });
    service = await startServe(home, ['--demo']);
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  /** Expects a refusal within the limit, before a browser opens. */
  const mustRefuse = async (run: () => Promise<Ended>, code: string): Promise<void> => {
    const begun = performance.now();
    const ended = await run();
    expect(performance.now() - begun).toBeLessThan(LIMIT_MS + START_MS);
    expect(ended).toMatchObject({ status: 4, stdout: '' });
    expect(ended.stderr).not.toContain('http://127.0.0.1:8745');
    const line = ended.stderr.trim().split('\n').at(-1) ?? '';
    expect(json<{ error: { code: string; message: string } }>(line).error.code).toBe(code);
  };

  it('no session bus: a clear error, before any browser', async () => {
    await mustRefuse(() => home.asp(['login', '--json']), 'ASP_STORE_UNAVAILABLE');
  });

  it('a bus that accepts and never answers: a clear error in time', async () => {
    const silent = await listen(join(home.directory, 'silent-bus'));
    const environment = { DBUS_SESSION_BUS_ADDRESS: `unix:path=${home.directory}/silent-bus` };
    await mustRefuse(() => home.asp(['login', '--json'], { environment }), 'ASP_STORE_UNAVAILABLE');
    silent.close();
  });

  it.skipIf(noKeyring !== undefined)(`a bus without a keychain service ${noKeyring ?? ''}`, async () => {
    writeFileSync(join(home.directory, 'bus.conf'), BARE_BUS);
    const line = 'dbus-run-session --config-file=$HOME/bus.conf -- asp login --json';
    await mustRefuse(() => home.shell(line), 'ASP_STORE_UNAVAILABLE');
  });

  it.skipIf(noKeyring !== undefined)(`a locked keychain ${noKeyring ?? ''}`, async () => {
    const line = `dbus-run-session -- bash -c '${UNLOCK}; python3 -c "$LOCK"; exec asp login --json'`;
    await mustRefuse(() => home.shell(line, { environment: { LOCK: LOCK_ALL } }), 'ASP_STORE_LOCKED');
  });

  it.skipIf(noKeyring !== undefined)(
    `a real Secret Service stores the login, and no file does ${noKeyring ?? ''}`,
    async () => {
      const line = `dbus-run-session -- bash -c '${UNLOCK}; asp login @demo.you --yes && asp whoami && asp send @alice.bot hi --end && rm -rf $XDG_RUNTIME_DIR/asp-cli/tokens && asp session list --json && asp logout && asp whoami'`;
      const ended = await home.shell(line);
      expect(ended.stderr).toContain('stored in the keychain');
      const [login, whoami, sent, list, logout, ...rest] = ended.stdout.trim().split('\n');
      expect([login, whoami, logout, rest]).toEqual(['@demo.you', '@demo.you', '@demo.you', []]);
      expect(sent).toMatch(/^sess_/);
      expect(json<{ items: unknown[] }>(list ?? '').items).toHaveLength(1);
      expect(ended.status).toBe(4);
      // Where logins would be files; a refused login has tried whether it could write there.
      const folder = join(home.directory, '.local/state/asp-cli/secrets');
      expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
    },
  );
});

function listen(path: string): Promise<Server> {
  const server = createServer(() => {}).listen(path);
  return new Promise((resolve) => server.once('listening', () => resolve(server)));
}

/** A session bus that starts no services. */
const BARE_BUS = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`;

/** Locks every collection of the Secret Service, as a screen lock does. */
const LOCK_ALL = `
import subprocess
subprocess.run(['gdbus', 'call', '--session', '--dest', 'org.freedesktop.secrets', '--object-path', '/org/freedesktop/secrets',
  '--method', 'org.freedesktop.Secret.Service.Lock', "['/org/freedesktop/secrets/collection/login']"], check=True, stdout=subprocess.DEVNULL)
`;
