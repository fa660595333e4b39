import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createKeychain } from '../../../src/client/credentials/keychain.js';
import { systemClock } from '../../../src/kit/clock.js';
import { bundleProgram } from '../../support/program.js';

let directory: string;
let program: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'asp-keyring-'));
  program = await bundleProgram('test/support/programs/use-keychain.ts');
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const probe = (environment: Record<string, string | undefined>) =>
  createKeychain({ clock: systemClock, platform: 'linux', environment }).probe();

/** Starts a socket that plays a message bus up to some point and then stays silent. */
async function startStub(name: string, answer: string | undefined): Promise<{ address: string; server: Server }> {
  const path = join(directory, name);
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => answer !== undefined && socket.write(answer));
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return { address: `unix:path=${path}`, server };
}

describe('a keychain that cannot be used', () => {
  const within = async (environment: Record<string, string | undefined>, code: string): Promise<void> => {
    const began = performance.now();
    await expect(probe(environment)).rejects.toMatchObject({ code });
    expect(performance.now() - began).toBeLessThan(3000);
  };

  it('because there is no session bus', () => within({}, 'ASP_STORE_UNAVAILABLE'));

  it('because the session bus is gone', () =>
    within({ DBUS_SESSION_BUS_ADDRESS: `unix:path=${directory}/gone` }, 'ASP_STORE_UNAVAILABLE'));

  it('because the bus accepts connections and never answers', async () => {
    const { address, server } = await startStub('mute', undefined);
    await within({ DBUS_SESSION_BUS_ADDRESS: address }, 'ASP_STORE_UNAVAILABLE');
    server.close();
  });

  it('because the bus answers but the service does not', async () => {
    const { address, server } = await startStub('deaf', 'OK 0123456789abcdef0123456789abcdef\r\n');
    await within({ DBUS_SESSION_BUS_ADDRESS: address }, 'ASP_STORE_UNAVAILABLE');
    server.close();
  });
});

/** Runs a shell script on a separate session bus with a separate home. */
function onSessionBus(script: string): Promise<{ status: number | null; output: string; tookMs: number }> {
  const home = mkdtempSync(join(directory, 'home-'));
  const environment = {
    PATH: process.env['PATH'],
    HOME: home,
    XDG_RUNTIME_DIR: home,
    XDG_DATA_HOME: `${home}/data`,
    PROGRAM: `${process.execPath} ${program}`,
  };
  const began = performance.now();
  const child = spawn('dbus-run-session', ['--', 'sh', '-c', script], { env: environment });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString('utf8');
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (status) => resolve({ status, output, tookMs: performance.now() - began }));
  });
}

const unlock = 'printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1';
const lock =
  'dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets ' +
  'org.freedesktop.Secret.Service.Lock array:objpath:/org/freedesktop/secrets/collection/login >/dev/null';

const isSecretServiceHere = (process.env['PATH'] ?? '')
  .split(':')
  .some((folder) => existsSync(`${folder}/gnome-keyring-daemon`) && existsSync(`${folder}/dbus-run-session`));

describe.skipIf(!isSecretServiceHere)('the Secret Service', () => {
  it('stores, returns, and deletes an item', async () => {
    const { output } = await onSessionBus(`${unlock}; $PROGRAM`);
    expect(output.trim().split('\n')).toEqual(['probed', 'kept', 'deleted', 'nothing']);
  });

  it('is reported as locked at once', async () => {
    const { output, tookMs } = await onSessionBus(`${unlock}; ${lock}; $PROGRAM`);
    expect(output.trim()).toBe('ASP_STORE_LOCKED');
    expect(tookMs).toBeLessThan(6000);
  });

  it('is reported as unavailable without a keyring, and the process ends', async () => {
    const { output, tookMs } = await onSessionBus('$PROGRAM');
    expect(output.trim()).toBe('ASP_STORE_UNAVAILABLE');
    expect(tookMs).toBeLessThan(6000);
  });
});
