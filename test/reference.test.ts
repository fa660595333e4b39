import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

import { apiPage } from '../scripts/reference/api-page.js';
import { COMMANDS, topWords } from '../scripts/reference/command-facts.js';
import { manPages } from '../scripts/reference/man-pages.js';
import { referencePage } from '../scripts/reference/reference-page.js';
import { escapeRoff, page, paragraphs, verbatim } from '../scripts/reference/roff.js';
import { optionName } from '../src/cli/command.js';
import { MEANING } from '../src/cli/commands/help/explain.js';
import { ENVIRONMENT_VARIABLES, EXIT_CODES, TOPICS } from '../src/cli/commands/help/topics.js';
import { COMMAND_OUTPUT } from '../src/cli/commands/schema/output-shapes.js';
import { OWN_ERROR } from '../src/cli/errors.js';
import { everyOption, GLOBAL_OPTIONS } from '../src/cli/options.js';
import { ERROR } from '../src/wire/error.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const PAGES = manPages(version);
const REFERENCE = referencePage();
const API = apiPage();

const scratch = mkdtempSync(join(tmpdir(), 'asp-man-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const has = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;

/** Returns what a program writes about a page to its two streams. */
function said(program: string, words: readonly string[], text: string): { out: string; err: string } {
  const file = join(scratch, 'page.1');
  writeFileSync(file, text);
  const env = { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8', MANWIDTH: '200', MAN_KEEP_FORMATTING: '' };
  const ran = spawnSync(program, [...words, file], { encoding: 'utf8', env });
  return { out: ran.stdout, err: ran.stderr };
}

describe('The manual pages', () => {
  it.each([...PAGES])('%s is what the command table says (npm run generate)', async (name, text) => {
    await expect(text).toMatchFileSnapshot(join(ROOT, 'man', name));
  });

  it('are complete, and there are no others', () => {
    expect(readdirSync(join(ROOT, 'man')).sort()).toEqual([...PAGES.keys()].sort());
  });

  it('include one for each first word of a command, and asp.1 names them all', () => {
    expect([...PAGES.keys()].sort()).toEqual(['asp.1', ...topWords().map(({ word }) => `asp-${word}.1`)].sort());
    for (const { word } of topWords()) expect(PAGES.get('asp.1')).toContain(`.BR asp\\-${word} (1)`);
  });

  it('list every option of every command', () => {
    for (const command of COMMANDS) {
      const name = (command.aliases.find((alias) => !alias.includes(' ')) ?? command.path).split(' ')[0];
      for (const { flags, isHidden } of everyOption(command)) {
        const text = PAGES.get(GLOBAL_OPTIONS.some((option) => option.flags === flags) ? 'asp.1' : `asp-${name}.1`);
        const { long } = optionName(flags);
        if (isHidden !== true)
          expect(text, `${command.path} --${long}`).toContain(`\\fB${escapeRoff(`--${long}`)}\\fR`);
      }
    }
  });
});

describe.skipIf(!has('groff'))('groff', () => {
  it.each([...PAGES])('does not warn about %s', (_, text) => {
    for (const device of ['-Tutf8', '-Tascii'])
      expect(said('groff', ['-man', '-ww', '-z', device], text)).toEqual({ out: '', err: '' });
  });
});

describe.skipIf(!has('mandoc'))('mandoc', () => {
  it.each([...PAGES])('does not warn about %s', (_, text) => {
    expect(said('mandoc', ['-Tlint', '-Wwarning'], text)).toEqual({ out: '', err: '' });
  });

  // No matter what a future row contains.
  it('prints text unchanged, even if it looks like roff', () => {
    const lines = [
      '.SH not a heading',
      "'br not a request",
      'a \\fBbackslash\\fR, \\n(dn and \\',
      '--two-dashes - one’s "quotes" `ticks` ^ ~ $(x) %s | #',
      'sess_…',
      '..',
    ];
    const text = page([
      '.TH X 1 2026-01-01 "x" "y"',
      '.SH "NAME"',
      'x \\- y',
      '.SH "EXAMPLES"',
      verbatim(lines.join('\n')),
    ]);
    const printed = said('mandoc', ['-Tutf8'], text).out.replaceAll('\u0008', '');
    for (const line of lines) expect(printed).toContain(line.replace('…', '...'));
  });
});

describe.skipIf(!has('man'))('man', () => {
  it('shows a page', () => {
    const { out, err } = said('man', ['--warnings', '-l'], PAGES.get('asp-send.1') ?? '');
    expect(err).toBe('');
    expect(out).toContain('asp send <to> [message] [options]');
    expect(out).toContain('--idempotency-key <key>');
    expect(out).toContain('asp send @alice.bot "hi" --end');
  });
});

describe('roff', () => {
  it('gets no line that begins with a request, no matter where lines break', () => {
    const text = Array.from({ length: 200 }, () => ".x 'y \\z").join(' ');
    for (const line of `${paragraphs(text)}\n${escapeRoff(text.replaceAll(' ', '\n'))}`.split('\n'))
      expect(line).toMatch(/^(?:\\&\.|\\\(aq|\\e)/);
  });

  it('gets no unknown character', () => {
    for (const [name, text] of PAGES) expect(text, name).toMatch(/^[\n\x20-\x7e]*$/);
  });
});

describe('The reference', () => {
  it('is what the command table says (npm run generate)', async () => {
    await expect(REFERENCE).toMatchFileSnapshot(join(ROOT, 'docs/reference.md'));
  });

  it('lists every command with its options, output, effect, and examples', () => {
    for (const { path, aliases, options, examples, effect, isDestructive } of COMMANDS) {
      const first = aliases[0] ?? path;
      const start = REFERENCE.indexOf(`### asp ${first}\n`);
      expect(start, first).toBeGreaterThan(0);
      const part = REFERENCE.slice(start, REFERENCE.indexOf('\n##', start + 4));
      for (const { flags, isHidden } of options)
        if (isHidden !== true) expect(part, `${first} ${flags}`).toContain(flags.replaceAll('|', '\\|'));
      for (const { line } of examples) expect(part).toContain(line);
      expect(part).toContain(`**Effect**: ${isDestructive ? 'destructive' : effect}.`);
      expect(part).toContain('**stdout**: ');
    }
  });

  it('lists every exit code, error code, variable, and topic', () => {
    for (const { code } of EXIT_CODES) expect(REFERENCE).toContain(`\n| ${code} | `);
    for (const code of Object.keys(MEANING)) expect(REFERENCE).toContain(`| \`${code}\` |`);
    for (const topic of Object.keys(TOPICS)) expect(REFERENCE).toContain(`### asp help ${topic}\n`);
  });
});

describe('The page about the API of the library', () => {
  it('is what its types say (npm run generate)', async () => {
    await expect(API).toMatchFileSnapshot(join(ROOT, 'docs/api.md'));
  });

  it('has every value that programs can import', async () => {
    for (const names of [await import('../src/library/library.js'), await import('../src/testing/testing.js')])
      for (const name of Object.keys(names)) expect(API).toContain(`\n### ${name}\n`);
  });
});

describe('The source of the documents', () => {
  it('has the JSON shape of each command, except those that pass on answers of others', () => {
    const paths: string[] = COMMANDS.map(({ path }) => path);
    const without = paths.filter((path) => !Object.hasOwn(COMMAND_OUTPUT, path));
    const forgotten = without.filter((path) => !['api', 'mcp'].includes(path));
    expect(forgotten, 'add their shape to src/cli/commands/schema/output-shapes.ts').toEqual([]);
  });

  it('has every exit code that an error leads to', () => {
    const known = EXIT_CODES.map(({ code }) => code);
    const used = [...Object.values(OWN_ERROR), ...Object.values(ERROR).map(({ exit_code }) => exit_code)];
    expect(used.filter((code) => !known.includes(code))).toEqual([]);
  });

  it('has every variable that the program reads by name', () => {
    const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((path) =>
      /\.ts$/.test(path),
    );
    const read = sources.flatMap((path) => {
      const text = readFileSync(join(ROOT, 'src', path), 'utf8');
      return [...text.matchAll(/environment(?:\[|: )'([A-Z][A-Z_]+)'(?!\] = )/g)].map(([, name = '']) => name);
    });
    const known = ENVIRONMENT_VARIABLES.flatMap(({ names }) => names);
    const unknown = new Set(read.filter((name) => !known.includes(name) && !OF_THE_SYSTEM.includes(name)));
    expect([...unknown]).toEqual([]);
  });
});

/** asp reads these variables to learn about its environment. No one sets them for asp. */
const OF_THE_SYSTEM = [
  ...['DBUS_SESSION_BUS_ADDRESS', 'DISPLAY', 'WAYLAND_DISPLAY', 'SSH_CONNECTION', 'SSH_TTY'],
  ...['NODE_TLS_REJECT_UNAUTHORIZED', 'NPM_CONFIG_REGISTRY', 'APPDATA', 'LOCALAPPDATA'],
  ...['NOTIFY_SOCKET', 'WATCHDOG_PID', 'WATCHDOG_USEC'],
];
