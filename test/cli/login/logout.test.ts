import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, json, type ServiceProcess } from '../../acceptance/program.js';
import { copyHome, createHomeWithService } from './signed-in-home.js';

interface SignedOut {
  handle: string;
  base_url: string;
  revoked: boolean;
  deleted: boolean;
  error: string | null;
}

const items = (text: string): SignedOut[] => json<{ items: SignedOut[] }>(text).items;

describe('logout while the service runs', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    ({ home, service } = await createHomeWithService());
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });
  afterEach(async () => {
    await home.run(['logout', '--all']);
  });
  const signIn = (handle: string) => home.run(['login', handle, '--yes', '--quiet']);

  it('revokes at the service: a copy of the login no longer works', async () => {
    await signIn('@demo.you');
    const thief = copyHome(home);
    expect(await home.run(['logout'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    expect((await thief.run(['auth', 'refresh', '@demo.you', '-p', service.url])).status).toBe(4);
    expect((await home.run(['whoami'])).status).toBe(4);
    await thief.dispose();
  });

  it('signing in again revokes the login that it replaces, and no other one', async () => {
    await signIn('@demo.you');
    await signIn('@alice.bot');
    const copy = copyHome(home);
    const again = await home.run(['login', '@demo.you', '--yes', '--debug']);
    expect(again.status).toBe(0);
    expect(again.stderr.match(/POST http:\S+\/revoke/g)).toHaveLength(1);
    for (const [handle, status] of [
      ['@demo.you', 4],
      ['@alice.bot', 0],
    ] as const)
      expect((await copy.run(['auth', 'refresh', handle, '-p', service.url])).status, handle).toBe(status);
    for (const handle of ['@demo.you', '@alice.bot'])
      expect((await home.run(['whoami', '--as', handle, '--short'])).stdout, handle).toBe(`${handle}\n`);
    await copy.dispose();
  });

  it('does not contact the service with --local-only: a copy of the login still works', async () => {
    await signIn('@demo.you');
    const copy = copyHome(home);
    const ended = await home.run(['logout', '--local-only', '--json']);
    expect(items(ended.stdout)).toMatchObject([{ handle: '@demo.you', revoked: false, deleted: true }]);
    expect(await copy.run(['auth', 'refresh', '@demo.you', '-p', service.url])).toMatchObject({ status: 0 });
    expect((await home.run(['auth', 'status'])).stdout).toBe('');
    await copy.dispose();
  });

  it('ends only the named logins', async () => {
    await signIn('@demo.you');
    await signIn('@alice.bot');
    expect(await home.run(['logout', 'alice.bot'])).toMatchObject({ status: 0, stdout: '@alice.bot\n' });
    expect(await home.run(['whoami', '--short'])).toMatchObject({ stdout: '@demo.you\n' });
  });

  it('ends none without a handle if there are several logins, and names them (exit 4)', async () => {
    await signIn('@demo.you');
    await signIn('@alice.bot');
    const ended = await home.run(['logout']);
    expect(ended.status).toBe(4);
    expect(ended.stderr).toMatch(/@alice\.bot.*@demo\.you/);
    expect(items((await home.run(['auth', 'status', '--json'])).stdout)).toHaveLength(2);
  });

  it('ends all logins with --all; a second time, there is nothing to do, with exit 0', async () => {
    await signIn('@demo.you');
    await signIn('@alice.bot');
    const ended = await home.run(['logout', '--all', '--json']);
    expect(items(ended.stdout).map(({ handle, revoked, deleted }) => [handle, revoked, deleted])).toEqual([
      ['@alice.bot', true, true],
      ['@demo.you', true, true],
    ]);
    expect(await home.run(['logout', '--all'])).toMatchObject({ status: 0, stdout: '' });
  });

  it('refuses an agent that is not signed in (exit 4)', async () => {
    const ended = await home.run(['logout', '@nobody.here']);
    expect(ended).toMatchObject({ status: 4, stdout: '' });
    expect(ended.stderr).toContain('@nobody.here');
  });

  it('is not misled by credentials of the environment', async () => {
    await signIn('@demo.you');
    const ended = await home.run(['logout'], { environment: { ASP_TOKEN: 'x' } });
    expect(ended).toMatchObject({ status: 0, stdout: '@demo.you\n' });
  });
});

describe('logout while the service is gone', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    ({ home, service } = await createHomeWithService());
    for (const handle of ['@demo.you', '@alice.bot']) await home.run(['login', handle, '--yes']);
    service.running.kill('SIGKILL');
    await service.running.ended;
  });
  afterAll(() => home.dispose());

  it('deletes here anyway, exits with 0, and says that the service was not notified', async () => {
    const ended = await home.run(['logout', '@demo.you', '--json']);
    expect(ended.status).toBe(0);
    expect(items(ended.stdout)).toEqual([
      { handle: '@demo.you', base_url: service.url, revoked: false, deleted: true, error: expect.any(String) },
    ]);
    expect(ended.stderr).toContain('the service was not notified');
    expect((await home.run(['auth', 'status'])).stdout).not.toContain('@demo.you');
  });

  it('finds the only login without a handle', async () => {
    expect(await home.run(['logout'])).toMatchObject({ status: 0, stdout: '@alice.bot\n' });
    expect((await home.run(['auth', 'status'])).stdout).toBe('');
  });

  it('leaves no secret file behind', async () => {
    const left = await home.shell(
      'find "$HOME/.local/state/asp-cli/secrets" "$XDG_RUNTIME_DIR/asp-cli/tokens" -type f',
    );
    expect(left.stdout).toBe('');
  });
});

describe('logout without any login', () => {
  it('says so with 4', async () => {
    const home = createHome();
    expect((await home.run(['logout'])).status).toBe(4);
    await home.dispose();
  });
});
