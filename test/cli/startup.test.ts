import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

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

/** Returns everything that loads with a file: its imports and their imports, but not what an `import()` loads later. */
function loadedWith(path: string): Loaded {
  const files = new Set<string>();
  const packages = new Set<string>();
  const load = (file: string, isEntry: boolean): void => {
    if (files.has(file)) return;
    files.add(file);
    for (const { specifier = '', isTypeOnly, isDynamic } of readSourceFacts(file, readFileSync(ROOT + file, 'utf8'))
      .imports) {
      if (isTypeOnly || (isDynamic === true && !isEntry)) continue;
      if (!specifier.startsWith('.')) packages.add(specifier);
      else load(posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts'), false);
    }
  };
  load(path, true);
  return { files, packages };
}

describe('starting the program', () => {
  // main.ts loads all of its own modules at once with import().
  const { files, packages } = loadedWith('src/main.ts');

  it('loads the definition of every command, and no package', () => {
    expect(files).toContain('src/cli/commands/session/session.ts');
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
