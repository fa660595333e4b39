import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { SETTING, SETTING_NAMES, toVariable } from '../../../src/cli/commands/serve/settings.js';
import { request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { freshHome, optionsOf, runWords } from '../captured-run.js';

const PAGE = readFileSync(fileURLToPath(new URL('../../../docs/operations.md', import.meta.url)), 'utf8');

/** Returns the lines of the code blocks in this language. */
const blocks = (language: string): string[] =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, text = '']) => text);

describe('docs/operations.md', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({ metricsPort: 0, data: { directory: join(freshHome(), 'data') } });
  });
  afterAll(() => service.stop());

  const commands = blocks('sh').flatMap((text) => text.split('\n').filter((line) => line !== ''));
  it('has commands', () => expect(commands.length).toBeGreaterThan(12));
  for (const line of new Set(commands))
    it(`${line} is a complete command`, async () => {
      const words = /^(?:[A-Z_]+=(?:'[^']*'|\S+) )*asp (.+)$/.exec(line)?.[1];
      expect(words).toBeDefined();
      expect(await optionsOf(words ?? '')).toBeTypeOf('object');
    });

  it('starts its unit with a complete command', async () => {
    const [, line = ''] = /^ExecStart=\/usr\/local\/bin\/asp (.+)$/m.exec(PAGE) ?? [];
    expect(await optionsOf(line)).toMatchObject({ configPath: '/etc/asp/serve.json' });
  });

  it('shows a valid configuration', async () => {
    const [config = ''] = blocks('json');
    const path = join(freshHome(), 'serve.json');
    writeFileSync(path, config);
    const { code, out, err } = await runWords(`serve --config ${path} --print-config`);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toContain('https://asp.example.org');
  });

  it('names every setting with its variable and its default', () => {
    for (const name of SETTING_NAMES) {
      expect(PAGE).toContain(`| \`--${name}\` | \`${toVariable(name)}\` |`);
      const { standard } = SETTING[name];
      const row = PAGE.split('\n').find((line) => line.startsWith(`| \`--${name}\``)) ?? '';
      if (typeof standard !== 'string' && typeof standard !== 'number') continue;
      // The defaults are in milliseconds, but the page may show seconds.
      const shown = [String(standard), `${Number(standard) / 1000} s`];
      expect(
        shown.some((text) => row.includes(text)),
        `${name}: ${row}`,
      ).toBe(true);
    }
  });

  it('names existing metrics', async () => {
    const { text } = await request(service.metricsUrl ?? '');
    const named = [...PAGE.matchAll(/`((?:asp|nodejs|process)_[a-z0-9_]+)(?:\{[^}]*\})?`/g)].map(
      ([, name = '']) => name,
    );
    expect(named.length).toBeGreaterThan(10);
    for (const name of named) expect(text, name).toContain(`# TYPE ${name} `);
    for (const [, name = ''] of text.matchAll(/# TYPE (asp_\w+)/g)) expect(named, name).toContain(name);
  });

  it('names probes that answer', async () => {
    for (const [, path = ''] of PAGE.matchAll(/^\| `GET (\/[a-z.]+)`/gm))
      expect((await request(`${service.authUrl}${path}`)).status, path).toBe(200);
  });

  it('links only to its own headings', () => {
    const headings = [...PAGE.matchAll(/^###? (.+)$/gm)].map(([, title = '']) =>
      title.toLowerCase().replaceAll(' ', '-'),
    );
    for (const [, anchor = ''] of PAGE.matchAll(/\]\(#([a-z-]+)\)/g)) expect(headings).toContain(anchor);
  });
});
