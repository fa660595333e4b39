import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, missing, type ServiceProcess, startServe } from './program.js';

const TERMINAL = { TERM: 'xterm-256color', LANG: 'C.UTF-8' };

describe('a person who is signed in', () => {
  let home: Home;
  let service: ServiceProcess;
  let session: string;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--demo']);
    expect((await home.run(['login', '@demo.you', '--yes'])).status).toBe(0);
    session = (await home.asp(['send', '@alice.bot', 'hi'])).stdout.trim();
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  it('finds the session and the agent of a send in completions', () => {
    const remembered = (kind: string): string =>
      readFileSync(join(home.directory, '.local/state/asp-cli/completion', kind), 'utf8');
    expect(remembered('sessions').split('\n')[0]).toBe(`${session}\t@alice.bot`);
    expect(remembered('handles').split('\n')).toContain('@alice.bot');
  });

  it('leaves no files behind if its identity comes from the environment', async () => {
    const { stdout } = await home.asp(['serve', 'client', 'add', '@alice.bot']);
    const { client_id, client_secret } = JSON.parse(stdout) as { client_id: string; client_secret: string };
    const other = createHome({ ASP_PROFILE: service.url, ASP_CLIENT_ID: client_id, ASP_CLIENT_SECRET: client_secret });
    expect((await other.asp(['send', '@demo.echo', 'hi'])).status).toBe(0);
    expect(other.exists('.local/state/asp-cli/completion')).toBe(false);
    await other.dispose();
  });

  describe.skipIf(missing('python3') !== undefined)('at a terminal', () => {
    it('sees a note while asp waits for something; a program does not', async () => {
      const shown = home.terminal(['session', 'wait', session, '--for', 'message'], { environment: TERMINAL });
      await shown.until('stdout', /waiting/);
      shown.kill();
      await shown.ended;
      const piped = await home.asp(['session', 'wait', session, '--for', 'message', '--timeout', '1s']);
      expect(piped).toMatchObject({ status: 8, stdout: '' });
      expect(piped.stderr).toContain('error: Timed out after 1s waiting for a message');
      expect(piped.stderr).not.toContain('\u001b');
    });

    it('--accessible asks by a line of text, and draws nothing', async () => {
      const asked = home.terminal(['agent', 'remove', '@demo.you', '--accessible'], { environment: TERMINAL });
      // At 80 columns, the question breaks between words.
      await asked.until('stdout', /Remove @demo\.you for good\?.* can never be\r?\nused again\. \[y\/N\] /);
      asked.child.stdin?.write('n\r');
      const { status, stdout } = await asked.ended;
      expect(status).not.toBe(0);
      expect(stdout).not.toMatch(/[\u2500-\u25ff]|\u001b\[\d*[A-HJK]/);
      expect((await home.asp(['agent', 'show', '@demo.you'])).status).toBe(0);
    });

    it('--accessible numbers the choices', async () => {
      await home.run(['login', '@alice.bot', '--yes']);
      const asked = home.terminal(['use', '--accessible'], { environment: TERMINAL });
      await asked.until('stdout', /Which agent\?\s+1 {2}@alice\.bot\s+2 {2}@demo\.you\s+Number \(1 to 2\): /);
      asked.child.stdin?.write('2\r');
      expect(await asked.ended).toMatchObject({ status: 0 });
      expect((await home.asp(['whoami', '--short'])).stdout).toBe('@demo.you\n');
      await home.asp(['logout', '@alice.bot']);
    });

    it('is asked before something is deleted, and no means no', async () => {
      const words = ['agent', 'remove', '@demo.you'];
      const asked = home.terminal(words, { environment: TERMINAL });
      await asked.until('stdout', /Remove @demo\.you for good\?/);
      asked.child.stdin?.write('n\r');
      expect((await asked.ended).status).not.toBe(0);
      const refused = home.terminal([...words, '--no-input'], { environment: TERMINAL });
      expect((await refused.ended).stdout).toContain('--yes');
      expect((await home.asp(['agent', 'show', '@demo.you'])).status).toBe(0);
    });
  });
});
