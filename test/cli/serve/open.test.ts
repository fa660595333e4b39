import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, json, type ServiceProcess, startServe } from '../../acceptance/program.js';
import { request } from '../../support/http.js';
import { until } from '../../support/until.js';

describe('asp serve open', () => {
  let home: Home;
  let service: ServiceProcess;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--seed', 'alice.bot,bob.bot']);
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });
  const secretOf = (): string =>
    json<{ secret: string }>(readFileSync(join(home.directory, 'run/asp-cli/serve/default.json'), 'utf8')).secret;

  it('--no-browser prints a link that works once; nothing shows the secret', async () => {
    const ended = await home.run(['serve', 'open', '--no-browser', '--debug']);
    expect(ended.status, ended.stderr).toBe(0);
    const url = ended.stdout.trim();
    expect((await request(url)).headers['location']).toBe('/dashboard');
    expect((await request(url)).status).toBe(403);
    expect(`${ended.stdout}${ended.stderr}`).not.toContain(secretOf());
    expect(ended.stderr).toContain('signs in as alice, once');
  });

  it('opens the browser only with the link, for --account; --json reports it', async () => {
    const browser = join(home.directory, 'browser.sh');
    writeFileSync(
      browser,
      `#!/bin/sh\nprintf '%s\\n' "$@" > ${home.directory}/opened.new && mv ${home.directory}/opened.new ${home.directory}/opened\n`,
      { mode: 0o755 },
    );
    const ended = await home.run(['serve', 'open', '--account', 'bob', '--json'], {
      environment: { BROWSER: browser },
    });
    expect(ended.status, ended.stderr).toBe(0);
    const link = json<{ url: string }>(ended.stdout);
    expect(link).toMatchObject({ account: 'bob', opened: true, expires_at: expect.any(Number) });
    const words = await until(
      'the browser',
      async () => home.exists('opened') && readFileSync(join(home.directory, 'opened'), 'utf8'),
    );
    expect(words).toBe(`${link.url}\n`);
    expect(words).not.toContain(secretOf());
  });

  it('exits with 2 for a missing account, and names those that exist', async () => {
    const ended = await home.run(['serve', 'open', '--account', 'carol', '--no-browser', '--json']);
    expect(ended).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining('alice, bob') });
    expect((await home.run(['serve', 'open', '--account', 'not valid'])).status).toBe(2);
  });

  it('exits with 9 without a local service', async () => {
    const other = createHome();
    expect(await other.run(['serve', 'open'])).toMatchObject({ status: 9, stdout: '' });
    await other.dispose();
  });
});
