import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, type Running, startServe } from '../../acceptance/program.js';
import { request } from '../../support/http.js';
import { until } from '../../support/until.js';

/** Listens as systemd does and prints each line. It closes the descriptor of a barrier, which ends the wait for it. */
const LISTENER = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print('listening', flush=True)
while True:
    data, descriptors, _, _ = socket.recv_fds(s, 4096, 8)
    for descriptor in descriptors:
        os.close(descriptor)
    for line in data.decode().splitlines():
        if line != 'BARRIER=1':
            print(line, flush=True)
`;

let home: Home;
let listener: Running;
let notifySocket: string;
beforeEach(async () => {
  home = createHome();
  notifySocket = join(home.directory, 'notify.sock');
  listener = home.spawn('python3', ['-c', LISTENER, notifySocket]);
  await listener.until('stdout', /^listening$/m);
});
afterEach(async () => {
  listener.kill('SIGKILL');
  await listener.ended;
  await home.dispose();
});

const lines = (): string[] => listener.stdout().trim().split('\n').slice(1);
const serve = (environment: NodeJS.ProcessEnv): Running =>
  home.start(['serve', '--port', '0', '--data', 'memory'], { environment });

const hasSystemd = spawnSync('systemd-notify', ['--version']).status === 0;

describe.skipIf(!hasSystemd)('asp serve under systemd', () => {
  it('reports READY=1 once it accepts requests, and STOPPING=1 before it ends', async () => {
    const running = serve({ NOTIFY_SOCKET: notifySocket });
    await listener.until('stdout', /^READY=1$/m);
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    expect((await request(`${new URL(url).origin}/health`)).status).toBe(200);
    expect(lines()).toEqual(['READY=1']);
    running.kill('SIGTERM');
    await running.ended;
    expect(lines()).toEqual(['READY=1', 'STOPPING=1']);
    expect(running.stderr()).not.toContain('systemd');
  });

  it('notifies the watchdog at least twice per interval until it stops', async () => {
    const running = serve({ NOTIFY_SOCKET: notifySocket, WATCHDOG_USEC: '400000' });
    await until('three reports have arrived', async () => lines().length >= 4);
    running.kill('SIGTERM');
    await running.ended;
    const [first, ...rest] = lines();
    expect([first, rest.at(-1)]).toEqual(['READY=1', 'STOPPING=1']);
    expect(new Set(rest.slice(0, -1))).toEqual(new Set(['WATCHDOG=1']));
  });

  it('leaves the watchdog of another process alone, and reports nothing without being asked', async () => {
    const watched = serve({ NOTIFY_SOCKET: notifySocket, WATCHDOG_USEC: '20000', WATCHDOG_PID: '1' });
    await listener.until('stdout', /^READY=1$/m);
    const quiet = serve({ WATCHDOG_USEC: '20000' });
    await quiet.until('stderr', /Ready\./);
    for (const one of [watched, quiet]) one.kill('SIGTERM');
    await Promise.all([watched.ended, quiet.ended]);
    expect(lines()).toEqual(['READY=1', 'STOPPING=1']);
  });

  it.each([
    ['nothing listens', () => ({ NOTIFY_SOCKET: join(home.directory, 'none.sock') }), /ended with 1/],
    ['systemd-notify is missing', () => ({ NOTIFY_SOCKET: notifySocket, PATH: home.directory }), /is not installed/],
  ])('keeps serving, and reports it once, if %s', async (_, environment, said) => {
    const running = home.spawn(process.execPath, ['bin/asp.js', 'serve', '--port', '0', '--data', 'memory'], {
      environment: { ...environment(), WATCHDOG_USEC: '100000' },
      cwd: process.cwd(),
    });
    await running.until('stderr', said);
    const [, url = ''] = await running.until('stdout', /^(http:\S+)$/m);
    expect((await request(`${new URL(url).origin}/health`)).status).toBe(200);
    running.kill('SIGTERM');
    const { status, stderr } = await running.ended;
    expect(status).not.toBeNull();
    expect(stderr.match(/systemd did not get/g)).toHaveLength(1);
  });
});

describe.skipIf(!hasSystemd)('asp run under systemd', () => {
  it('reports READY=1 once it answers, notifies the watchdog, and reports STOPPING=1 before it ends', async () => {
    const service = await startServe(home, ['--seed', 'demo.bot']);
    expect(await home.run(['login', '@demo.bot', '--yes'])).toMatchObject({ status: 0 });
    await service.stop();
    const running = home.start(['run', '-a', '@demo.bot', '--exec', 'cat'], {
      environment: { NOTIFY_SOCKET: notifySocket, WATCHDOG_USEC: '400000', ASP_PROFILE: service.url },
    });
    await running.until('stderr', /Waiting until it runs|Retrying until it works/);
    expect(lines()).toEqual([]);
    const again = await startServe(home, [], service.url);
    await until('two reports have arrived', async () => lines().length >= 3, 60_000);
    running.kill('SIGTERM');
    expect(await running.ended).toMatchObject({ status: 0 });
    const [first, ...rest] = lines();
    expect([first, rest.at(-1)]).toEqual(['READY=1', 'STOPPING=1']);
    expect(new Set(rest.slice(0, -1))).toEqual(new Set(['WATCHDOG=1']));
    await again.stop();
  });
});
