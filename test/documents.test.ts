import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

import { findCommand } from '../src/cli/argv.js';
import { listSpellings, loadCommands, optionName } from '../src/cli/command.js';
import { SETTING_ABOUT } from '../src/cli/commands/config.js';
import { MEANING } from '../src/cli/commands/help/explain.js';
import { ENVIRONMENT_VARIABLES, TOPICS } from '../src/cli/commands/help/topics.js';
import { ENVIRONMENT_PREFIX, SETTING_NAMES } from '../src/cli/commands/serve/settings.js';
import { everyOption } from '../src/cli/options.js';
import { PROGRAM } from '../src/cli/program.js';
import { ENDPOINT } from '../src/wire/endpoint.js';

const { commands: COMMANDS } = await loadCommands(PROGRAM);

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const variableOf = (setting: string): string => `${ENVIRONMENT_PREFIX}${setting.replaceAll('-', '_').toUpperCase()}`;

/** The pages that people read. Generated pages are correct by construction and need no check. */
const PAGES = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)]
  .filter((path) => path.endsWith('.md'))
  .map((path) => [path, read(path)] as const);
const TEXTS = [...PAGES, ...Object.entries(TOPICS).map(([name, text]) => [`asp help ${name}`, text] as const)];
const everything = TEXTS.map(([, text]) => text).join('\n');

const OPTIONS = new Set(
  COMMANDS.flatMap((command) => everyOption(command).map(({ flags }) => `--${optionName(flags).long}`)),
);
const VARIABLES = new Set([
  ...ENVIRONMENT_VARIABLES.flatMap(({ names }) => names),
  ...[...SETTING_NAMES, 'config'].map(variableOf),
]);
const CODES = new Set(Object.keys(MEANING));

/** The files in which asp starts programs with extra environment variables. */
const SOURCES = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts') && !path.includes('/help/'))
  .map((path) => read(`src/${path}`));

/** Returns the commands in code: between backticks, or at the beginning of a line in a block. */
function commandsIn(text: string): string[] {
  const inline = [...text.matchAll(/`(asp [^`\n]+)`/g)].map(([, line = '']) => line);
  const blocks = [...text.matchAll(/```\w*\n([\s\S]*?)```/g)].flatMap(([, block = '']) =>
    [...block.matchAll(/(?:^|[$(|;&] *)(asp [^|;&)#\n]+)/gm)].map(([, line = '']) => line),
  );
  return [...inline, ...blocks];
}

/** Returns the leading plain words, which include the name of the command. */
const plainWords = (line: string): string[] => {
  const words = line.trim().split(/\s+/).slice(1);
  const end = words.findIndex((word) => !/^[a-z]+(?:-[a-z]+)*$/.test(word));
  return end === -1 ? words : words.slice(0, end);
};

describe.each(TEXTS)('%s', (_, text) => {
  it('names existing commands', async () => {
    for (const line of commandsIn(text)) {
      const words = plainWords(line);
      const isNoun =
        words.length === 1 && PROGRAM.nouns.some(({ noun, plural }) => noun === words[0] || plural === words[0]);
      const found = words.length === 0 || isNoun || (await findCommand(PROGRAM, words)).command !== undefined;
      expect(found, line).toBe(true);
    }
  });

  it('names options that its commands have', async () => {
    for (const line of commandsIn(text)) {
      const { command } = await findCommand(PROGRAM, plainWords(line));
      const options = everyOption(command).map(({ flags }) => `--${optionName(flags).long}`);
      const known = command === undefined ? [...OPTIONS] : options;
      const [own = ''] = line.split(' -- ');
      for (const [option] of own.matchAll(/(?<=\s)--[a-z][a-z-]*/g)) expect(known, line).toContain(option);
    }
    for (const [, option = ''] of text.matchAll(/`(--[a-z][a-z-]*)(?:[ =][^`]*)?`/g))
      expect(OPTIONS, option).toContain(option);
  });

  it('names existing variables and codes', () => {
    for (const [name] of text.matchAll(/\bASP_[A-Z][A-Z_]*[A-Z]\b/g)) {
      const isGiven = name.startsWith('ASP_TEST_') || SOURCES.some((source) => source.includes(name));
      expect(VARIABLES.has(name) || CODES.has(name) || isGiven, name).toBe(true);
    }
  });
});

describe('The pages and help mention', () => {
  it('every command and every option', () => {
    const reference = read('docs/reference.md');
    for (const command of COMMANDS) {
      expect(
        listSpellings(command, PROGRAM).some((spelling) => reference.includes(`### asp ${spelling}\n`)),
        `asp ${command.path} is missing: npm run generate`,
      ).toBe(true);
      for (const { flags, isHidden } of everyOption(command))
        if (isHidden !== true) expect(reference, `${command.path} ${flags}`).toContain(`--${optionName(flags).long}`);
    }
  });

  it('every endpoint, in the contract', () => {
    const contract = read('docs/contract.md');
    const missing = Object.values(ENDPOINT).filter(({ path }) => {
      const noun = path.split('/').findLast((segment) => segment !== '' && !segment.startsWith('{'));
      return !new RegExp(`/${noun}\\b`).test(contract);
    });
    const calls = missing.map(({ method, path }) => `${method} ${path}`);
    expect(calls, 'describe them in docs/contract.md').toEqual([]);
  });

  it('every asp error code, with its meaning and a fix', () => {
    for (const code of CODES) expect(everything, code).toContain(code);
  });

  it('every variable', () => {
    for (const { names } of ENVIRONMENT_VARIABLES) for (const name of names) expect(everything, name).toContain(name);
  });

  it('every setting of the configuration, and of a service', () => {
    for (const [key] of SETTING_ABOUT) expect(everything, key).toContain(key.replace('profiles.<name>.', ''));
    const operations = read('docs/operations.md');
    for (const name of SETTING_NAMES) expect(operations, name).toContain(`--${name}`);
  });
});
