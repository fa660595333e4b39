import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';

import { isNewerVersion } from '../../src/cli/commands/help/newest-version.js';
import { COMMAND_OUTPUT } from '../../src/cli/commands/schema/output-shapes.js';
import { type Scene, type ScriptedServer, startScriptedServer } from '../support/scripted-server.js';
import { type Ran, runWords } from './captured-run.js';

let registry: ScriptedServer | undefined;
afterEach(async () => {
  await registry?.finish();
  registry = undefined;
});

/** Runs `asp version --check …` while the registry plays this scene below `path`. */
async function check(words: string, scene: Partial<Scene>, path = ''): Promise<Ran> {
  registry = await startScriptedServer({ method: 'GET', path: `${path}/asp-cli/latest`, ...scene });
  return runWords(`version --check ${words}`, { environment: { npm_config_registry: `${registry.origin}${path}` } });
}

describe('asp version --check', () => {
  it('prints the newest version and says how to get it', async () => {
    expect(await check('', { body: { name: 'asp-cli', version: '1.10.0' } })).toEqual({
      code: 0,
      out: '1.10.0\n',
      err: 'This is asp 1.2.3. npm install -g asp-cli@1.10.0\n',
    });
  });

  it('asks the registry of npm_config_registry once, whatever its path, and sends only the request', async () => {
    await check('', { body: { version: '1.2.3' } }, '/npm/mirror');
    expect(registry?.received).toHaveLength(1);
    const [question] = registry?.received ?? [];
    expect(Object.keys(question?.headers ?? {}).sort()).toEqual(['accept', 'connection', 'host', 'user-agent']);
    expect(question?.headers['user-agent']).toBe('asp-cli/1.2.3');
    expect(question?.body).toBe('');
  });

  it.each(['1.2.3', '1.2.2', '1.2.3-beta.4'])('says that nothing is newer when the newest is %s', async (version) => {
    const { code, out, err } = await check('', { body: { version } });
    expect({ code, out, err }).toEqual({
      code: 0,
      out: `${version}\n`,
      err: 'This is asp 1.2.3, the latest version.\n',
    });
  });

  it('prints one document that matches its schema with --json', async () => {
    const { code, out, err } = await check('--json', { body: { version: '2.0.0' } });
    const document: unknown = JSON.parse(out);
    expect(COMMAND_OUTPUT.version.safeParse(document).error).toBeUndefined();
    expect(document).toMatchObject({
      version: '1.2.3',
      newest: '2.0.0',
      up_to_date: false,
      update: ['npm', 'install', '-g', 'asp-cli@2.0.0'],
      registry: `${registry?.origin}/`,
    });
    expect(code).toBe(0);
    expect(JSON.parse(err)).toEqual({ note: 'This is asp 1.2.3. npm install -g asp-cli@2.0.0' });
  });

  it.each<[string, Partial<Scene>]>([
    ['has no such package', { status: 404, body: { error: 'Not found' } }],
    ['says no JSON', { body: '<html>sign in to the network</html>' }],
    ['returns an invalid version', { body: { version: '9.9.9; rm -rf ~' } }],
    ['says nothing of a version', { body: [] }],
    ['fails', { status: 503, body: {} }],
    ['sends elsewhere', { status: 302, headers: { location: 'http://127.0.0.1:9/' }, body: '' }],
  ])('exit 9 when the registry %s', async (_, scene) => {
    const { code, out, err } = await check('--json', scene);
    expect({ code, out }).toEqual({ code: 9, out: '' });
    expect(JSON.parse(err)).toMatchObject({ error: { code: 'ASP_BAD_ANSWER', exit_code: 9 } });
    expect(err).not.toContain('rm -rf');
  });

  it('offline: exit 9, which registry, and which version this is', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    const environment = { npm_config_registry: `http://127.0.0.1:${port}` };
    const { code, out, err } = await runWords('version --check', { environment });
    expect({ code, out }).toEqual({ code: 9, out: '' });
    expect(err).toContain(`error: Could not reach the npm registry at http://127.0.0.1:${port}/`);
    expect(err).toContain('this is asp 1.2.3');
    expect(err).toContain('ASP_UNREACHABLE');
  });

  it('a silent registry: exit 9 after 5 seconds', async () => {
    const server = createServer(() => {}).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const environment = { NPM_CONFIG_REGISTRY: `http://127.0.0.1:${port}` };
    const { code, err } = await runWords('version --check', { environment });
    server.closeAllConnections();
    server.close();
    expect(err).toContain('Could not reach');
    expect(code).toBe(9);
  });

  it('never uses plain http to another machine', async () => {
    const environment = { npm_config_registry: 'http://registry.example' };
    expect(await runWords('version --check', { environment })).toMatchObject({ code: 2, out: '' });
  });

  it('contacts the registry only with --check', async () => {
    registry = await startScriptedServer();
    const environment = { npm_config_registry: registry.origin };
    for (const words of ['version', 'version --json', '--version', '-V --json'])
      expect((await runWords(words, { environment })).code).toBe(0);
    expect(registry.received).toEqual([]);
  });
});

describe('which version is newer', () => {
  // The order of Semantic Versioning 2.0.0 §11, ascending.
  const ASCENDING = [
    ...['0.9.9', '1.0.0-alpha', '1.0.0-alpha.1', '1.0.0-alpha.beta', '1.0.0-beta', '1.0.0-beta.2', '1.0.0-beta.11'],
    ...['1.0.0-rc.1', '1.0.0', '1.0.1', '1.2.0', '1.10.0', '2.0.0'],
  ];

  it('is decided by number, and a pre-release is before its release', () => {
    for (const [at, one] of ASCENDING.entries())
      for (const [place, other] of ASCENDING.entries())
        expect(isNewerVersion(one, other), `${one} after ${other}`).toBe(at > place);
  });

  it('is undefined if one is not a version', () => {
    expect(isNewerVersion('2.0', '1.0.0')).toBe(false);
    expect(isNewerVersion('2.0.0', 'here')).toBe(false);
  });

  it('ignores build metadata', () => expect(isNewerVersion('1.0.0+2', '1.0.0+1')).toBe(false));
});
