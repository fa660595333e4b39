import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { installPacked, runToEnd, typeCheck } from './support/packed.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

interface Manifest {
  version: string;
  man: string[];
  engines: { node: string };
  dependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

interface LockedPackage {
  version?: string;
  resolved?: string;
  integrity?: string;
  name?: string;
  dev?: boolean;
  optional?: boolean;
  optionalDependencies?: Record<string, string>;
  hasInstallScript?: boolean;
}

const manifest: Manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const lockfile: { packages: Record<string, LockedPackage> } = JSON.parse(
  readFileSync(join(ROOT, 'package-lock.json'), 'utf8'),
);
const locked = Object.entries(lockfile.packages).filter(([path]) => path !== '');

const scratch = mkdtempSync(join(tmpdir(), 'asp-package-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return files.map((file) => file.slice(folder.length + 1)).sort();
}

describe('The lockfile', () => {
  it('has a sha512 for every package', () => {
    const without = locked.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'));
    expect(without.map(([path]) => path)).toEqual([]);
  });

  it('comes from the npm registry, and nothing from git or a folder', () => {
    const addressOf = (
      path: string,
      { name = path.replace(/^.*node_modules\//, ''), version }: LockedPackage,
    ): string => `https://registry.npmjs.org/${name}/-/${name.replace(/^.*\//, '')}-${version}.tgz`;
    const elsewhere = locked.filter(([path, found]) => found.resolved !== addressOf(path, found));
    expect(elsewhere.map(([path]) => path)).toEqual([]);
  });

  // npm leaves out an optional package that it cannot find, and then `npm ci` refuses the lockfile.
  it('has the packages of every platform, so that npm ci accepts it anywhere', () => {
    const wanted = locked.flatMap(([, { optionalDependencies = {} }]) => Object.keys(optionalDependencies));
    const present = new Set(locked.map(([path]) => path.replace(/^.*node_modules\//, '')));
    expect(wanted.filter((name) => !present.has(name))).toEqual([]);
  });

  it('has exact versions in the manifest', () => {
    const { dependencies, optionalDependencies, devDependencies } = manifest;
    const wanted = Object.entries({ ...dependencies, ...optionalDependencies, ...devDependencies });
    const loose = wanted.filter(
      ([, version]) => !/^(npm:@[a-z]+\/[a-z]+@)?\d+\.\d+\.\d+(-jq-\d+\.\d+\.\d+|-alpha\.\d+)?$/.test(version),
    );
    expect(loose).toEqual([]);
  });

  // Reviewed: each package ships a compiled addon or executable and works without running its script (.npmrc).
  it('has install scripts only in the reviewed native packages', () => {
    const scripted = locked.filter(([, { hasInstallScript }]) => hasInstallScript === true).map(([path]) => path);
    const reviewed = ['@photostructure/sqlite', 'esbuild', 'fsevents', 'keytar'].map((name) => `node_modules/${name}`);
    expect(scripted.filter((path) => !reviewed.includes(path))).toEqual([]);
    expect(readFileSync(join(ROOT, '.npmrc'), 'utf8')).toMatch(/^ignore-scripts=true$/m);
  });

  it('has a ws that survives a flood of fragments (8.21)', () => {
    const [major = 0, minor = 0] = (lockfile.packages['node_modules/ws']?.version ?? '').split('.').map(Number);
    expect(major * 1000 + minor).toBeGreaterThanOrEqual(8021);
  });

  it('refuses to install what does not run on the lowest supported Node.js', () => {
    const lowest = manifest.engines.node.replace('>=', '');
    expect(lowest).toMatch(/^20\.\d+$/);
    expect(readFileSync(join(ROOT, '.npmrc'), 'utf8')).toMatch(/^engine-strict=true$/m);
  });
});

describe('CI', () => {
  it('pins every action to a commit', () => {
    const workflows = filesBelow(join(ROOT, '.github/workflows')).map((name) =>
      readFileSync(join(ROOT, '.github/workflows', name), 'utf8'),
    );
    const used = workflows.flatMap((text) => [...text.matchAll(/uses: (\S+)/g)].map(([, action = '']) => action));
    expect(used.length).toBeGreaterThan(5);
    expect(used.filter((action) => !/@[0-9a-f]{40}$/.test(action))).toEqual([]);
  });

  it('gives no workflow more than read access by default', () => {
    for (const name of filesBelow(join(ROOT, '.github/workflows')))
      expect(readFileSync(join(ROOT, '.github/workflows', name), 'utf8')).toMatch(
        /^permissions:\n {2}contents: read$/m,
      );
  });
});

it('A release names the repository that it comes from, which npm requires of a provenance', () => {
  const { jobs }: { jobs: { publish: { steps: { run?: string }[] } } } = parse(
    readFileSync(join(ROOT, '.github/workflows/release.yml'), 'utf8'),
  );
  const commands = jobs.publish.steps.flatMap(({ run }) => run ?? []);
  const publish = commands.findIndex((command) => command.startsWith('npm publish --provenance'));
  const step = commands.findIndex((command) => command.startsWith('npm pkg set'));
  expect(step).toBeGreaterThan(-1);
  expect(step).toBeLessThan(publish);
  const folder = join(scratch, 'released');
  mkdirSync(folder);
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  const env = { ...process.env, GITHUB_SERVER_URL: 'https://code.example.org', GITHUB_REPOSITORY: 'asp/cli' };
  expect(spawnSync('bash', ['-e', '-c', commands[step] ?? ''], { cwd: folder, env }).status).toBe(0);
  expect(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))).toEqual({
    ...manifest,
    repository: { type: 'git', url: 'git+https://code.example.org/asp/cli.git' },
    homepage: 'https://code.example.org/asp/cli#readme',
    bugs: { url: 'https://code.example.org/asp/cli/issues' },
  });
});

/** The contents of the package. Anything else in it is a leak. */
const PACKED = [
  /^(package\.json|README\.md|CHANGELOG\.md|LICENSE)$/,
  /^bin\/(asp\.js|package\.json)$/,
  /^dist\/(start\.cjs|main\.cjs|complete\.cjs|overview\.cjs|known-words\.json|(index|testing)\.js(\.map)?)$/,
  /^dist\/jq\/(jq\.cjs|build\/jq\.wasm)$/,
  /^dist\/apart\/([\w.-]+\.cjs|chunks\/[\w.-]+\.js(\.map)?)$/,
  /^dist\/types\/(library|agent|client|wire|kit|testing)\/[\w./-]+\.d\.ts$/,
  /^dist\/(third-party-licenses\.txt|sbom\.cdx\.json)$/,
  /^completions\/[\w.-]+$/,
  /^man\/asp(-[a-z]+)?\.1$/,
];

/** Returns names that a declaration file exports without a comment at their first line. */
function undocumentedIn(declarations: string): string[] {
  const lines = declarations.split('\n');
  const first = new Map<string, string>();
  for (const [at, line] of lines.entries()) {
    const [, name] = /^export (?:declare )?(?:const|function|interface|class|type) (\w+)/.exec(line) ?? [];
    if (name !== undefined && !first.has(name)) first.set(name, lines[at - 1] ?? '');
  }
  return [...first].filter(([, before]) => !before.trimEnd().endsWith('*/')).map(([name]) => name);
}

describe('The package', () => {
  let folder = '';
  let packed: string[] = [];

  beforeAll(() => {
    folder = installPacked(scratch);
    packed = filesBelow(folder);
  });

  it('contains what a user needs and nothing else', () => {
    expect(packed.filter((path) => !PACKED.some((allowed) => allowed.test(path)))).toEqual([]);
    expect(packed).toEqual(
      expect.arrayContaining([
        'LICENSE',
        'bin/asp.js',
        'dist/index.js',
        'dist/main.cjs',
        'dist/start.cjs',
        'dist/types/library/library.d.ts',
      ]),
    );
  });

  it('has every manual page and declares each to npm', () => {
    const pages = packed.filter((path) => path.startsWith('man/'));
    expect(pages).toEqual(filesBelow(join(ROOT, 'man')).map((name) => `man/${name}`));
    expect([...manifest.man].sort()).toEqual(pages.map((path) => `./${path}`));
  });

  it('has source maps of the library alone, and names no path of the machine that built it', () => {
    const isLibrary = (path: string): boolean => /^dist\/(index|testing|apart\/chunks\/[^/]+)\.js$/.test(path);
    for (const path of packed.filter(isLibrary)) expect(packed).toContain(`${path}.map`);
    const telling = packed.filter((path) => {
      const text = readFileSync(join(folder, path), 'utf8');
      return (text.includes('sourceMappingURL=') && !isLibrary(path)) || text.includes(ROOT) || text.includes(scratch);
    });
    expect(telling).toEqual([]);
  });

  it('has a bill of materials that lists every bundled and every installed package, with its license and hash', () => {
    const bill: {
      bomFormat: string;
      components: {
        name: string;
        group?: string;
        version: string;
        licenses: [{ expression?: string }];
        hashes?: [{ content: string }];
      }[];
    } = JSON.parse(readFileSync(join(folder, 'dist/sbom.cdx.json'), 'utf8'));
    expect(bill.bomFormat).toBe('CycloneDX');
    const listed = bill.components.map(
      ({ group, name, version }) => `${group === undefined ? '' : `${group}/`}${name} ${version}`,
    );
    const licenses = readFileSync(join(folder, 'dist/third-party-licenses.txt'), 'utf8');
    const bundled = [...licenses.matchAll(/^(\S+ \d+\.\d+\.\d\S*) \(/gm)].map(([, one = '']) => one);
    expect(bundled.length).toBeGreaterThan(50);
    expect(bundled.filter((one) => !listed.includes(one))).toEqual([]);
    expect(listed).toContain(`zod ${manifest.dependencies['zod']}`);
    expect(
      bill.components.filter(({ licenses, hashes }) => licenses[0].expression === undefined || hashes === undefined),
    ).toEqual([]);
  });

  it('runs with only the packages it declares', () => {
    expect(runToEnd(process.execPath, [join(folder, 'bin/asp.js'), 'version'], scratch)).toContain(manifest.version);
  });

  it('says what to run if it was made or linked before the build', () => {
    const clone = join(scratch, 'clone');
    mkdirSync(join(clone, 'bin'), { recursive: true });
    for (const name of ['asp.js', 'package.json']) cpSync(join(ROOT, 'bin', name), join(clone, 'bin', name));
    const { status, stderr } = spawnSync(process.execPath, [join(clone, 'bin/asp.js')], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: asp is not built.*\n.*npm ci && npm run build$/m),
    ]);
    mkdirSync(join(clone, 'dist'));
    writeFileSync(join(clone, 'dist/start.cjs'), "require('./lost.cjs');");
    expect(spawnSync(process.execPath, [join(clone, 'bin/asp.js')], { encoding: 'utf8' }).stderr).toMatch(/lost\.cjs/);
  });

  it('can be imported by a program', () => {
    const importIt = "import('asp-cli').then(({ connect }) => console.log(typeof connect))";
    expect(runToEnd(process.execPath, ['--input-type=module', '-e', importIt], scratch)).toBe('function\n');
  });

  it('has types that compile and work in a strict program, whether or not it is an ES module', () => {
    const program = `
      import { connect, createClientCredential, isMessageEvent, RequestError } from 'asp-cli';
      import type { Client, EventEnvelope, Message, Session, TailItem } from 'asp-cli';
      const service = { baseUrl: 'https://asp.example/v1' };
      const client: Client = connect({
        service,
        credential: createClientCredential({ service, clientId: 'a', clientSecret: 'b' }),
      });
      export async function use(): Promise<string[]> {
        const { reply } = await client.call('createSession', { body: { invite: ['@a.b'], initial_message: { content: 'x' } } });
        const id: string = reply.session_id;
        const session: Session = (await client.call('getSession', { path: { session_id: id } })).reply;
        const texts: string[] = session.participants.map(({ handle }) => handle);
        const tail: AsyncIterable<TailItem> = client.tail({ sessions: [{ sessionId: id }] });
        try {
          for await (const item of tail) {
            if (item.kind !== 'event') continue;
            const event: EventEnvelope = item.event;
            if (!isMessageEvent(event)) continue;
            const message: Message = event.payload;
            if (typeof message.content === 'string') texts.push(message.content);
          }
        } catch (error) {
          if (error instanceof RequestError && error.outcome === 'unknown') texts.push(error.code);
        }
        return texts;
      }
      // @ts-expect-error an operation that there is not
      export const wrong = client.call('createSesion', {});
      // @ts-expect-error the path is missing
      export const alsoWrong = client.call('getSession', {});
    `;
    const names = ['program.mts', 'program.cts'];
    for (const name of names) writeFileSync(join(scratch, name), program);
    typeCheck(scratch, names);
  });

  it('documents every name that it exports', () => {
    const library = readFileSync(join(folder, 'dist/types/library/library.d.ts'), 'utf8');
    const exported = [...library.matchAll(/from '(\.[^']+)\.js'/g)].map(([, path = '']) => path);
    expect(exported.length).toBeGreaterThan(5);
    const behind = ['realtime/resume', 'rest/call', 'http/transport', 'http/request-error'];
    for (const path of [...exported, ...behind.map((name) => `../client/${name}`)]) {
      const text = readFileSync(join(folder, 'dist/types/library', `${path}.d.ts`), 'utf8');
      expect(undocumentedIn(text), path).toEqual([]);
    }
  });
});

describe('The package, if npm leaves out the optional packages,', () => {
  // Outside this project, because Node.js also looks for packages in parent folders.
  const project = mkdtempSync(join(tmpdir(), 'asp-package-'));
  afterAll(() => rmSync(project, { recursive: true, force: true }));
  const program = join(project, 'node_modules/asp-cli/bin/asp.js');
  const environment = { PATH: process.env['PATH'], HOME: project, XDG_RUNTIME_DIR: project };
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [program, ...words], { cwd: project, env: environment, encoding: 'utf8' });

  beforeAll(() => {
    installPacked(project);
    for (const name of Object.keys(manifest.optionalDependencies))
      rmSync(join(project, 'node_modules', name), { recursive: true });
  });

  it('leaves out every package with a compiled addon', () => {
    const native = locked.filter(([, found]) => found.hasInstallScript === true && found.dev !== true);
    expect(native.length).toBeGreaterThan(0);
    expect(native.filter(([, { optional }]) => optional !== true).map(([path]) => path)).toEqual([]);
  });

  it('runs, and a program can import it', () => {
    expect(run('version')).toMatchObject({ status: 0, stdout: `${manifest.version}\n` });
    const importIt = "import('asp-cli').then(({ connect }) => console.log(typeof connect))";
    expect(runToEnd(process.execPath, ['--input-type=module', '-e', importIt], project)).toBe('function\n');
  });

  it('a stack trace of the library names a file in src with --enable-source-maps', () => {
    const fail =
      "import('asp-cli').then(({ connect }) => connect({ nonsense: 1 })).catch(({ stack }) => console.log(stack))";
    const trace = (...options: string[]): string =>
      runToEnd(process.execPath, [...options, '--input-type=module', '-e', fail], project);
    expect(trace('--enable-source-maps')).toMatch(/\/src\/(library|client)\/[\w./-]+\.ts:\d+:\d+/);
    expect(trace()).not.toContain('.ts:');
  });

  // Newer versions of Node.js include SQLite.
  it.skipIf(Number(process.versions.node.split('.')[0]) >= 24)('says what is missing when it is needed', () => {
    const missing = /SQLite library .*: install asp-cli with its optional packages/;
    const service = 'http://127.0.0.1:9/v1';
    const login = run('connect', 'codex', '--as', '@me.bot', '-p', service, '--json');
    expect(login.stderr).toMatch(missing);
    expect(login.stderr).toContain('"code":"ASP_STORE_UNAVAILABLE"');
    const serve = run('serve', '--data', 'memory', '--port', '0', '--json');
    expect(serve).toMatchObject({ status: 2, stdout: '' });
    expect(serve.stderr).toMatch(missing);
    const data = join(project, 'data');
    mkdirSync(data);
    writeFileSync(join(data, 'asp.sqlite'), '');
    const reset = run('serve', 'reset', '--data', data, '--yes', '--json');
    expect(reset).toMatchObject({ status: 2, stdout: '' });
    expect(reset.stderr).toMatch(missing);
  });
});

describe('a build', () => {
  it('produces the same bytes each time', () => {
    const again = join(scratch, 'again');
    runToEnd(process.execPath, [join(ROOT, 'scripts/build.mjs'), again]);
    const bytes = (folder: string): [string, string][] =>
      filesBelow(folder).map((path) => [path, readFileSync(join(folder, path), 'base64')]);
    expect(bytes(again)).toEqual(bytes(join(ROOT, 'dist')));
  });
});
