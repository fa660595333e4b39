import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { createHome, missing, startServe } from '../../acceptance/program.js';
import { createHomeWithService } from './signed-in-home.js';

const noPython = missing('python3');

describe.skipIf(noPython !== undefined)(`on a terminal of unknown size ${noPython ?? ''}`, () => {
  it('a question is printed as lines, and reads its answer', async () => {
    const { home, service } = await createHomeWithService();
    const runtime = home.environment['XDG_RUNTIME_DIR'];
    // Without a configured store or a keychain, asp asks the person.
    const own = createHome({ XDG_RUNTIME_DIR: runtime, ASP_TOKEN_STORE: undefined, TERM: 'xterm' });
    const login = own.terminal(['login', '@demo.you', '--no-browser']);
    await login.until('stdout', /This machine has no keychain\. Store logins in a file that only you can read\?/);
    login.child.stdin?.write('y');
    await login.until('stdout', /authorize\?/);
    login.child.stdin?.write('\x03');
    await login.ended;
    await service.stop();
    await own.dispose();
    await home.dispose();
  });

  it('a question answered with no leaves accounts and clients unchanged', async () => {
    const home = createHome();
    const service = await startServe(home, ['--seed', 'demo.you']);
    const added = await home.run(['serve', 'client', 'add', 'demo.you', '--json']);
    const { client_id: client } = JSON.parse(added.stdout) as { client_id: string };
    for (const args of [
      ['account', 'remove', 'demo'],
      ['client', 'revoke', client],
    ]) {
      const asked = home.terminal(['serve', ...args], { environment: { TERM: 'xterm' } });
      await asked.until('stdout', /cannot be undone|Revoke/);
      asked.child.stdin?.write('n');
      const { status, stdout } = await asked.ended;
      expect(status, stdout).toBe(1);
      expect(stdout).toMatch(/Canceled\.[\s\S]*ASP_CANCELED · exit 1/);
    }
    expect((await home.run(['serve', 'account', 'show', 'demo'])).status).toBe(0);
    expect((await home.run(['serve', 'client', 'list'])).stdout).toContain(client);
    await service.stop();
    await home.dispose();
  });
});

describe.skipIf(noPython !== undefined)(`a question at a terminal ${noPython ?? ''}`, () => {
  it('answered with no cancels, and Ctrl-C interrupts as everywhere', async () => {
    const home = createHome();
    await (await startServe(home, ['--data', join(home.directory, 'data')])).stop();
    for (const [key, status] of [
      ['n', 1],
      // The exit status that the pseudo-terminal's program reports after SIGINT.
      ['\x03', 254],
    ] as const) {
      const reset = home.terminal(['serve', 'reset', '--data', join(home.directory, 'data')], {
        environment: { TERM: 'xterm' },
      });
      await reset.until('stdout', /Delete the database and/);
      reset.child.stdin?.write(key);
      const { status: ended, stdout } = await reset.ended;
      expect(ended, stdout).toBe(status);
      if (key === 'n') expect(stdout).toMatch(/Canceled\. Nothing was deleted\.[\s\S]*ASP_CANCELED · exit 1/);
      else expect(stdout).not.toContain('error:');
    }
    await home.dispose();
  });
});
