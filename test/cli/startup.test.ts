import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

import { loadCommands } from '../../src/cli/command.js';
import { PROGRAM } from '../../src/cli/program.js';
import { readSourceFacts } from '../support/source-facts.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Modules of Node.js that are already loaded or cost nothing. Others, such as `node:fs/promises` and `node:http`, cost
 * milliseconds.
 */
const CHEAP = ['node:crypto', 'node:fs', 'node:os', 'node:path', 'node:util'];

interface Loaded {
  readonly files: ReadonlySet<string>;
  readonly packages: ReadonlySet<string>;
}

const known = new Map<string, ReturnType<typeof readSourceFacts>['imports']>();

function importsOf(file: string): ReturnType<typeof readSourceFacts>['imports'] {
  const imports = known.get(file) ?? readSourceFacts(file, readFileSync(ROOT + file, 'utf8')).imports;
  known.set(file, imports);
  return imports;
}

/** Returns everything that loads with a file: its imports and their imports, but not what an `import()` loads later. */
function loadedWith(path: string, { followsDynamic = true } = {}): Loaded {
  const files = new Set<string>();
  const packages = new Set<string>();
  const load = (file: string, isEntry: boolean): void => {
    if (files.has(file)) return;
    files.add(file);
    for (const { specifier = '', isTypeOnly, isDynamic } of importsOf(file)) {
      if (isTypeOnly || (isDynamic === true && !(isEntry && followsDynamic))) continue;
      if (!specifier.startsWith('.')) packages.add(specifier);
      else load(posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts'), false);
    }
  };
  load(path, true);
  return { files, packages };
}

const definesCommands = (file: string): boolean => / = command\(\{/.test(readFileSync(ROOT + file, 'utf8'));

describe('a command', () => {
  const definitions = readdirSync(`${ROOT}src/cli/commands`, { recursive: true, encoding: 'utf8' })
    .map((name) => `src/cli/commands/${name.replaceAll('\\', '/')}`)
    .filter((file) => file.endsWith('.ts') && definesCommands(file));

  it('has a file that the program knows', async () => {
    const { commands } = await loadCommands(PROGRAM);
    const defined = definitions.flatMap((file) =>
      [...readFileSync(ROOT + file, 'utf8').matchAll(/ = command\(\{\n {2}path: '([^']+)'/g)].map(([, path]) => path),
    );
    expect(commands.map(({ path }) => path).toSorted()).toEqual(defined.toSorted());
    expect(PROGRAM.entries.map(({ path }) => path)).toEqual(commands.map(({ path }) => path));
  });

  /** The file whose options a command has too. */
  const SHARES: Readonly<Record<string, string>> = {
    'mcp/mcp.ts': 'run/run.ts',
    'mock/mock.ts': 'run/run.ts',
    'replay/replay.ts': 'run/run.ts',
    'send/ask.ts': 'send/send.ts',
    'send/reply.ts': 'send/send.ts',
    'serve/accounts.ts': 'serve/operate.ts',
    'serve/rehearse.ts': 'serve/operate.ts',
  };

  it.each(definitions)('loads no definition but those in its own file: %s', (definition) => {
    const folder = 'src/cli/commands/';
    const shared = SHARES[definition.slice(folder.length)];
    expect([...loadedWith(definition).files].filter(definesCommands)).toEqual([
      definition,
      ...(shared === undefined ? [] : [folder + shared]),
    ]);
  });

  it.each(definitions)('loads nothing slow before it runs: %s', (definition) => {
    const { files, packages } = loadedWith(definition, { followsDynamic: false });
    expect([...packages].filter((name) => !CHEAP.includes(name))).toEqual([]);
    expect([...files].filter((file) => /^src\/(client|service)\//.test(file))).toEqual([]);
  });
});

describe('starting the program', () => {
  // main.ts loads all of its own modules at once with import().
  const { files, packages } = loadedWith('src/main.ts');

  it('loads no definition of a command, and no package', () => {
    expect([...files]).toContain('src/cli/program.ts');
    expect([...files].filter(definesCommands)).toEqual([]);
    expect([...packages].filter((name) => !CHEAP.includes(name))).toEqual([]);
  });

  it('loads nothing of the client or the service', () => {
    expect([...files].filter((file) => /^src\/(client|service)\//.test(file))).toEqual([]);
  });

  it.each(['complete', 'overview'])('loads no definition and no package for src/%s.ts', (name) => {
    const loaded = loadedWith(`src/${name}.ts`);
    expect([...loaded.packages].filter((name) => !CHEAP.includes(name))).toEqual([]);
    expect([...loaded.files].filter((file) => /^src\/(client|service)\//.test(file))).toEqual([]);
    expect([...loaded.files]).not.toContain('src/cli/program.ts');
  });

  it('loads nothing of the tools protocol until a model’s first request', () => {
    const service = loadedWith('src/service/service.ts');
    expect([...service.files]).toContain('src/service/mcp/endpoint.ts');
    expect([...service.files]).not.toContain('src/service/mcp/handler.ts');
    expect([...service.packages].filter((name) => name.startsWith('@modelcontextprotocol/'))).toEqual([]);
  });

  it('is checked: the test would notice an import that should be dynamic', () => {
    const follow = loadedWith('src/cli/commands/tail/follow.ts');
    expect([...follow.packages]).toEqual(expect.arrayContaining(['node:fs/promises', 'zod/mini']));
    expect(files).not.toContain('src/cli/commands/tail/follow.ts');
  });
});
