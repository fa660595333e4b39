import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Ended, type Home, json } from '../../acceptance/program.js';

const OPERATIONS = fileURLToPath(new URL('../../../docs/operations.md', import.meta.url));

/**
 * A stand-in for systemctl that records its calls; `broken` in its folder names the verb that fails. Tests have no
 * systemd.
 */
const SYSTEMCTL = `#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/asked"
for word; do if [ -e "$here/broken" ] && [ "$word" = "$(cat "$here/broken")" ]; then echo "Job failed." >&2; exit 1; fi; done
`;

const canVerify = spawnSync('systemd-analyze', ['--version']).status === 0;

describe('asp serve install', () => {
  let home: Home;
  let folder: string;
  let unit: string;
  beforeEach(() => {
    home = createHome();
    folder = join(home.directory, 'systemd');
    unit = join(home.directory, 'units/systemd/user/asp.service');
    mkdirSync(folder);
    writeFileSync(join(folder, 'systemctl'), SYSTEMCTL);
    chmodSync(join(folder, 'systemctl'), 0o755);
  });
  afterEach(() => home.dispose());

  const asp = (words: string, path = `${folder}:/usr/bin:/bin`): Promise<Ended> =>
    home.asp(words.split(' ').filter(Boolean), {
      environment: { PATH: path, XDG_CONFIG_HOME: join(home.directory, 'units') },
    });
  const asked = (): string[] => readFileSync(join(folder, 'asked'), 'utf8').trim().split('\n');
  const settings = (values: object): string => {
    writeFileSync(join(home.directory, 'serve.json'), JSON.stringify(values));
    return join(home.directory, 'serve.json');
  };

  it('writes a unit that starts this program, and has systemd start it now and at boot', async () => {
    const { status, stdout, stderr } = await asp('serve install');
    expect({ status, stdout }, stderr).toEqual({ status: 0, stdout: `${unit}\n` });
    expect(readFileSync(unit, 'utf8')).toMatch(/^ExecStart=\/\S+ \S+\/bin\/asp\.js serve$/m);
    expect(asked()).toEqual([
      '--user show-environment',
      '--user daemon-reload',
      '--user enable asp.service',
      '--user restart asp.service',
    ]);
    expect((await asp('serve install')).status).toBe(0);
  });

  it('is undone by uninstall, which leaves nothing behind and succeeds if there is nothing', async () => {
    await asp('serve install');
    writeFileSync(join(folder, 'asked'), '');
    const { status, stdout } = await asp('serve uninstall');
    expect({ status, stdout }).toEqual({ status: 0, stdout: `${unit}\n` });
    expect(existsSync(unit)).toBe(false);
    expect(asked().slice(1)).toEqual(['--user disable --now asp.service', '--user daemon-reload']);
    const again = await asp('serve uninstall');
    expect(again).toMatchObject({ status: 0, stderr: expect.stringContaining('Nothing was changed') });
  });

  it('changes nothing with --dry-run, and prints the unit and the commands', async () => {
    const { status, stdout, stderr } = await asp('serve install --dry-run', '/nowhere');
    expect({ status, isThere: existsSync(unit) }, stderr).toEqual({ status: 0, isThere: false });
    expect(stdout).toContain('[Service]\nType=notify\n');
    expect(stderr).toContain('Would run: systemctl --user restart asp.service');
    await asp('serve install');
    await asp('serve uninstall --dry-run');
    expect(existsSync(unit)).toBe(true);
  });

  it('does not touch someone else’s unit', async () => {
    mkdirSync(dirname(unit), { recursive: true });
    writeFileSync(unit, '[Unit]\nDescription=mine\n');
    for (const words of ['serve install', 'serve uninstall']) {
      const { status, stderr } = await asp(words);
      expect({ status, stderr }).toMatchObject({ status: 6, stderr: expect.stringContaining('was not written by') });
    }
    expect(readFileSync(unit, 'utf8')).toBe('[Unit]\nDescription=mine\n');
  });

  it('reports that systemd is missing or not running, and writes nothing', async () => {
    const missing = await asp('serve install', '/nowhere');
    expect(missing).toMatchObject({ status: 2, stderr: expect.stringContaining('systemctl is not installed.') });
    writeFileSync(join(folder, 'broken'), 'show-environment');
    const asleep = await asp('serve install');
    expect(asleep).toMatchObject({ status: 2, stderr: expect.stringContaining('asp serve --detach') });
    expect(existsSync(unit)).toBe(false);
  });

  it('says where to look when the service does not start', async () => {
    writeFileSync(join(folder, 'broken'), 'restart');
    const { status, stderr } = await asp('serve install');
    expect(status).toBe(1);
    expect(stderr).toContain('systemctl --user restart asp.service failed: Job failed.');
    expect(stderr).toContain('try:  journalctl --user --unit asp.service -n 20');
  });

  it('refuses settings that asp serve would refuse', async () => {
    const { status, stderr } = await asp(`serve install --config ${settings({ prot: 1 })}`);
    expect({ status, stderr }).toMatchObject({ status: 2, stderr: expect.stringContaining('prot') });
  });

  it('gives a system unit access only to the folders that its settings name', async () => {
    const path = settings({ data: '/srv/asp data', 'security-log': '/var/log/asp/s.jsonl', 'drain-delay': '15s' });
    const textOf = async (words: string): Promise<string> =>
      json<{ text: string }>((await asp(`serve install ${words} --dry-run --json --config ${path}`)).stdout).text;
    const text = await textOf('--system');
    expect(text.match(/^ReadWritePaths=.*$/gm)).toEqual([
      'ReadWritePaths="/srv/asp data"',
      'ReadWritePaths=/var/log/asp',
    ]);
    expect(text).toContain('\nTimeoutStopSec=50\n');
    expect(await textOf('')).not.toContain('ReadWritePaths');
    const inside = settings({ data: '/var/lib/asp/more' });
    expect(
      json<{ text: string }>((await asp(`serve install --system --dry-run --json --config ${inside}`)).stdout).text,
    ).not.toContain('ReadWritePaths');
  });

  it('lets a system unit listen on a port below 1024 only if its settings name one', async () => {
    const capabilities = async (chosen: object): Promise<string[] | null> => {
      const { stdout } = await asp(`serve install --system --dry-run --json --config ${settings(chosen)}`);
      return json<{ text: string }>(stdout).text.match(/^.*Capabilit.*$/gm);
    };
    expect(await capabilities({ port: 8744 })).toEqual(['CapabilityBoundingSet=']);
    expect(await capabilities({ port: 443 })).toEqual([
      'CapabilityBoundingSet=CAP_NET_BIND_SERVICE',
      'AmbientCapabilities=CAP_NET_BIND_SERVICE',
    ]);
  });

  it('refuses a system unit that cannot see its program or settings', async () => {
    // The program and the folder of the tests can be somewhere that a unit sees.
    const hidden = mkdtempSync('/tmp/asp-install-');
    try {
      const path = join(hidden, 'serve.json');
      writeFileSync(path, '{}');
      const { status, stderr } = await asp(`serve install --system --config ${path}`);
      expect({ status, stderr }).toMatchObject({ status: 2, stderr: expect.stringContaining('could not read') });
      expect(existsSync(join(folder, 'asked'))).toBe(false);
    } finally {
      rmSync(hidden, { recursive: true, force: true });
    }
  });

  it('writes the unit that the documentation shows', async () => {
    const documented = /```ini\n(\[Unit\]\nDescription=Agent messaging service\n[\s\S]*?)```/.exec(
      readFileSync(OPERATIONS, 'utf8'),
    )?.[1];
    const { text } = json<{ text: string }>((await asp('serve install --system --dry-run --json')).stdout);
    const linesOf = (unitText = ''): string[] =>
      unitText.split('\n').filter((line) => line !== '' && !/^(#|ExecStart=)/.test(line));
    expect(linesOf(text)).toEqual(linesOf(documented));
  });

  it.skipIf(!canVerify)('writes units that systemd understands', async () => {
    for (const [words, scope] of [
      ['serve install --dry-run --json', '--user'],
      ['serve install --system --run-as root --dry-run --json', '--system'],
    ] as const) {
      const { text } = json<{ text: string }>((await asp(words)).stdout);
      const path = join(home.directory, 'asp.service');
      writeFileSync(path, text);
      const { status, stderr } = spawnSync('systemd-analyze', ['verify', scope, path], {
        encoding: 'utf8',
        env: { ...process.env, XDG_RUNTIME_DIR: home.directory },
      });
      expect({ status, stderr }, stderr).toEqual({
        status: 0,
        stderr: '',
      });
    }
  });
});
