import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, json } from '../../acceptance/program.js';
import { until } from '../../support/until.js';

/**
 * Returns the commands of all processes whose environment names `folder`: those that the demo started, and their
 * children.
 */
function programsIn(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(join(folder, 'asp-demo-'));
    } catch {
      return false;
    }
  });
}

describe.skipIf(process.platform !== 'linux')('asp demo', () => {
  let home: Home;
  let temporary: string;
  beforeEach(() => {
    home = createHome();
    temporary = join(home.directory, 'tmp');
    mkdirSync(temporary);
  });
  afterEach(() => home.dispose());
  const environment = (): NodeJS.ProcessEnv => ({ TMPDIR: temporary });

  const leavesNothing = async (): Promise<void> => {
    await until('no program is left', async () => programsIn(temporary).length === 0, 2000);
    expect(readdirSync(temporary).filter((name) => name.startsWith('asp-demo-'))).toEqual([]);
    expect(existsSync(join(home.directory, '.config'))).toBe(false);
    expect(existsSync(join(home.directory, '.local'))).toBe(false);
    expect(readdirSync(join(home.directory, 'run'))).toEqual([]);
  };

  it('shows each command as typed with its real output, exits on its own with 0, and leaves nothing behind', async () => {
    const ended = await home.asp(['demo'], { environment: environment() });
    expect(ended.status).toBe(0);
    const typed = ended.stdout.split('\n').filter((line) => line.startsWith('$ asp '));
    expect(typed.map((line) => line.replace(/sess_\w+/, 'sess_…'))).toEqual([
      expect.stringMatching(/^\$ asp serve --demo .*&$/),
      '$ asp login @demo.you --yes',
      '$ asp send @demo.echo hi',
      '$ asp tail sess_… --type message -c 2 --pretty',
      '$ asp session end sess_…',
      '$ asp tail sess_… --no-follow',
      '$ asp send @alice.bot hi --end',
    ]);
    expect(ended.stdout).toMatch(/@demo\.you {2}hi\n.*@demo\.echo {2}hi\n/);
    expect(ended.stdout).toContain('"type":"session.ended"');
    await leavesNothing();
  });

  it('prints the same as one document with --json', async () => {
    const ended = await home.asp(['demo', '--json'], { environment: environment() });
    expect(ended.status).toBe(0);
    const { steps } = json<{ steps: { command: string; exit_code: number | null }[] }>(ended.stdout);
    expect(steps.slice(1).map(({ exit_code }) => exit_code)).toEqual([0, 0, 0, 0, 0, 0]);
    await leavesNothing();
  });

  it('reads nothing of its user: neither settings nor credentials nor a running service', async () => {
    const misleading = {
      ...environment(),
      ASP_PROFILE: 'https://elsewhere.example.com/v1',
      ASP_TOKEN: 'a-token-of-mine',
      ASP_AGENT: 'nobody.here',
      ASP_FORMAT: '',
    };
    const ended = await home.asp(['demo'], { environment: misleading });
    expect(ended.status).toBe(0);
    expect(`${ended.stdout}${ended.stderr}`).not.toMatch(/a-token-of-mine|elsewhere/);
  });

  for (const [moment, stream, pattern] of [
    ['before its service runs', 'stdout', /\$ asp serve/],
    ['while it signs in', 'stdout', /\$ asp login/],
    ['while it talks', 'stdout', /\$ asp tail/],
  ] as const)
    it(`interrupted ${moment} dies by the signal and leaves nothing behind`, async () => {
      const running = home.start(['demo'], { environment: environment() });
      await running.until(stream, pattern);
      running.kill('SIGINT');
      expect(await running.ended).toMatchObject({ status: null, signal: 'SIGINT' });
      await leavesNothing();
    });

  it('leaves nothing behind when its reader goes away', async () => {
    const ended = await home.shell('asp demo | head -2', { environment: environment() });
    expect(ended.status).toBe(0);
    await leavesNothing();
  });

  it('leaves nothing behind when its deadline passes (exit 8)', async () => {
    const ended = await home.asp(['demo', '--timeout', '1s'], { environment: environment() });
    expect(ended.status).toBe(8);
    await leavesNothing();
  });
});
