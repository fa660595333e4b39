import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home } from './program.js';

let home: Home;
beforeEach(() => {
  home = createHome();
});
afterEach(() => home.dispose());

/** Installs a program on the PATH of the home. */
const install = (name: string, script: string, mode = 0o755, folder = 'bin'): void => {
  mkdirSync(join(home.directory, folder), { recursive: true });
  writeFileSync(join(home.directory, folder, name), `#!/bin/sh\n${script}\n`, { mode });
};

const completed = async (...words: readonly string[]): Promise<string[]> =>
  (await home.asp(['__complete', 'zsh', '--', ...words])).stdout.trimEnd().split('\n');

describe('a program called asp-<name> on the PATH', () => {
  it('is the command asp <name>, with its arguments, input and output, exit code and environment', async () => {
    install('asp-deploy', 'printf "[%s]" "$@"; cat; echo oops >&2; echo "$ASP_TOKEN $MINE"; exit 7');
    const ran = await home.asp(['deploy', '--json', 'a b', '', '--help', '--version', '--', '-x'], {
      input: 'from a pipe\n',
      environment: { ASP_TOKEN: 'secret', MINE: 'yes' },
    });
    expect(ran).toEqual({
      status: 7,
      signal: null,
      stdout: '[--json][a b][][--help][--version][--][-x]from a pipe\nsecret yes\n',
      stderr: 'oops\n',
    });
  });

  it('can call asp back, as the agent of its environment', async () => {
    install('asp-who', 'exec asp whoami --explain --json');
    const { stdout } = await home.asp(['who'], { environment: { ASP_AGENT: 'alice.bot' } });
    expect(stdout).toContain('@alice.bot');
  });

  it('never takes the place of a command, of its plural, or of an alias', async () => {
    for (const name of ['send', 'version', 'sessions', 'login', 'agent'])
      install(`asp-${name}`, 'echo the extension ran');
    for (const words of [['send'], ['version'], ['sessions'], ['login', '--help'], ['agent', 'nonsense']])
      expect((await home.asp(words)).stdout).not.toContain('the extension ran');
  });

  it('is found only if it is executable, in an absolute folder of the PATH, with a plain name', async () => {
    install('asp-data', 'echo ran', 0o644);
    install('asp-here', 'echo ran', 0o755, '.');
    install('asp-Upper', 'echo ran');
    mkdirSync(join(home.directory, 'bin', 'asp-folder'));
    const environment = { PATH: `.::${home.environment['PATH']}` };
    for (const name of ['data', 'here', 'Upper', 'folder', '../bin/asp-x']) {
      const { status, stdout, stderr } = await home.asp([name], { environment });
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
      expect(stderr).toContain(`'${name}' is not a command of asp.`);
    }
  });

  it('that cannot be started is an error that names it', async () => {
    writeFileSync(join(home.directory, 'bin', 'asp-broken'), '#!/no/such/interpreter\n', { mode: 0o755 });
    const { status, stderr } = await home.asp(['broken']);
    expect(status).toBe(2);
    expect(stderr).toContain('asp-broken could not be run.');
  });

  it('must come before options: the error says where they go', async () => {
    install('asp-deploy', 'echo ran');
    const { status, stdout, stderr } = await home.asp(['--profile', 'local', 'deploy']);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain("'deploy' is an extension: its name follows asp directly.");
    expect(stderr).toContain('try:  asp deploy\n');
  });

  it('is stopped with asp, which then dies of the same signal', async () => {
    install('asp-slow', 'trap "echo stopped; exit 0" TERM; echo started; while :; do sleep 0.05; done');
    const running = home.start(['slow']);
    await running.until('stdout', /started/);
    running.kill('SIGTERM');
    expect(await running.ended).toMatchObject({ signal: 'SIGTERM', stdout: 'started\nstopped\n' });
  });

  it('gets the terminal, including Ctrl-C', async () => {
    install(
      'asp-talk',
      'trap "echo caught; exit 3" INT; test -t 0 && echo on a terminal; while :; do sleep 0.05; done',
    );
    const running = home.terminal(['talk']);
    await running.until('stdout', /on a terminal/);
    running.child.stdin?.write('\u0003');
    const { status, stdout } = await running.ended;
    expect(stdout).toContain('caught');
    expect(status).toBe(3);
  });

  it('that a signal ends has the exit code that a shell reports', async () => {
    install('asp-killed', 'kill -KILL $$');
    expect((await home.asp(['killed'])).status).toBe(137);
  });

  it('is offered by completion, followed by files', async () => {
    install('asp-deploy', 'true');
    install('asp-send', 'true');
    expect(await completed('dep')).toEqual(['deploy\tthe program asp-deploy', ':']);
    expect((await completed('sen')).filter((line) => line.includes('asp-send'))).toEqual([]);
    expect(await completed('deploy', '')).toEqual([':files']);
    expect(await completed('--profile', 'dep')).not.toContain('deploy\tthe program asp-deploy');
  });
});
