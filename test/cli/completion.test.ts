import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { SHELLS } from '../../src/cli/commands/completion/completion.js';
import { completionScript } from '../../src/cli/commands/completion/scripts.js';
import { completionTree, namesOf } from '../../src/cli/commands/completion/tree.js';
import { remember } from '../../src/cli/context/completion-memory.js';
import { PROGRAM } from '../../src/cli/program.js';
import { documentOf, type Stage, startStage } from './acting.js';
import { freshHome, runWords } from './captured-run.js';

const FILE = { bash: 'asp.bash', zsh: '_asp', fish: 'asp.fish', powershell: 'asp.ps1' } as const;
const fileOf = (shell: keyof typeof FILE): string =>
  fileURLToPath(new URL(`../../completions/${FILE[shell]}`, import.meta.url));
const SESSION = `sess_${'0'.repeat(25)}7`;
const hasShell = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
const tree = completionTree(PROGRAM);

/** A home that remembers a few words. */
async function homeWithMemory(): Promise<string> {
  const home = freshHome();
  const paths = { stateDirectory: join(home, '.local/state/asp-cli') };
  const context = { paths } as Parameters<typeof remember>[0];
  await remember(context, 'handles', ['@alice.bot', '@albert.bot', '@bob.bot']);
  await remember(context, 'sessions', [SESSION]);
  await remember(context, 'profiles', ['work'], true);
  return home;
}

describe('the completion scripts', () => {
  it.each(SHELLS)(
    '%s: the file in completions/ is what the command tree says (vitest -u makes it anew)',
    async (shell) => {
      await expect(completionScript(shell, PROGRAM)).toMatchFileSnapshot(fileOf(shell));
      expect((await runWords(`completion ${shell}`)).out).toBe(completionScript(shell, PROGRAM));
    },
  );

  it.each(SHELLS)('%s names every command and every option', (shell) => {
    const script = completionScript(shell, PROGRAM);
    for (const { words, options } of tree.places) {
      for (const { word } of words) expect(script).toContain(word);
      for (const { long } of options) expect(script).toContain(shell === 'fish' ? ` -l ${long.slice(2)}` : long);
    }
  });

  it('never start asp and never reach the network', () => {
    for (const shell of SHELLS)
      expect(completionScript(shell, PROGRAM)).not.toMatch(/\$\(asp|\(asp |\bcurl\b|\bwget\b|Invoke-|& asp|\beval\b/);
  });

  it('an option takes a value everywhere or nowhere', () => {
    const all = [...tree.everywhere, ...tree.places.flatMap(({ options }) => options)];
    for (const option of all)
      for (const name of namesOf(option))
        expect(tree.takingValues.includes(name), name).toBe(option.value !== undefined);
  });

  it('of an unknown shell: exit 2', async () => {
    expect(await runWords('completion tcsh')).toMatchObject({ code: 2, out: '' });
  });

  it('offer every command of the tree, new ones included, where its words lead', () => {
    const offered = new Map(tree.places.map(({ path, words }) => [path, words.map(({ word }) => word)]));
    for (const { path, aliases, isHidden } of PROGRAM.commands) {
      if (isHidden) continue;
      for (const spelling of [path, ...aliases]) {
        const parts = spelling.split(' ');
        expect(offered.get(parts.slice(0, -1).join(' ')), spelling).toContain(parts.at(-1));
      }
    }
  });
});

/** A script of PowerShell without its comments, with every text in quotes as an empty one (about_Parsing, about_Quoting_Rules). */
function withoutTexts(script: string): string {
  const token = /'(?:[^']|'')*'|"(?:[^"`]|`[\s\S]|"")*"|#[^\n]*/g;
  return script.replace(token, (text) => (text.startsWith('#') ? '' : text.charAt(0).repeat(2)));
}

describe('the script of PowerShell, by the rules of its parser', () => {
  const script = completionScript('powershell', PROGRAM);
  const bare = withoutTexts(script);

  it('closes every bracket that it opens, in their order, and every quote', () => {
    const closing: Readonly<Record<string, string>> = { ')': '(', '}': '{', ']': '[' };
    const open: string[] = [];
    for (const character of bare) {
      if ('({['.includes(character)) open.push(character);
      else if (closing[character] !== undefined) expect(open.pop()).toBe(closing[character]);
    }
    expect(open).toEqual([]);
    expect(bare.replaceAll("''", '').replaceAll('""', '')).not.toMatch(/['"`]/);
  });

  it('has no key twice in a hash literal, where case does not count', () => {
    for (const [, literal = ''] of script.matchAll(/@\{([^}]*)\}/g)) {
      const keys = [...literal.matchAll(/(?:^|;)\s*'((?:[^']|'')*)'\s*=/g)].map(([, key = '']) => key.toLowerCase());
      expect(new Set(keys).size, literal).toBe(keys.length);
    }
  });

  it('keeps apart what differs by case alone', () => {
    const names = [...tree.everywhere, ...tree.places.flatMap(({ options }) => options)].flatMap(namesOf);
    expect(names).toEqual(expect.arrayContaining(['-v', '-V']));
    expect(script).not.toContain('@{');
    for (const name of names) expect(script).toMatch(new RegExp(`'${name}(?: [^']*)?'`));
  });

  it('uses no variable before it has a value', () => {
    const given = new Set(['_', 'env', 'home', 'ismacos', 'true', 'false', 'null']);
    for (const [, variable = '', isAssigned] of bare.matchAll(/\$(\w+)(,|\s*=(?!=)|\s+in\b)?/g)) {
      const isParameter = new RegExp(`param\\([^)]*\\$${variable}\\b`).test(bare);
      if (isAssigned !== undefined || isParameter) given.add(variable.toLowerCase());
      expect([...given], `$${variable}`).toContain(variable.toLowerCase());
    }
  });
});

describe.skipIf(!hasShell('bash'))('bash', () => {
  let home: string;
  beforeAll(async () => {
    home = await homeWithMemory();
  });
  const complete = (...words: string[]): string[] => {
    const script = `source "$FILE"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _asp; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const env = { PATH: process.env['PATH'], HOME: home, FILE: fileOf('bash') };
    const out = execFileSync('bash', ['--norc', '-c', script, 'bash', ...words], { env, encoding: 'utf8', cwd: home });
    return out.split('\n').filter((word) => word !== '');
  };

  it('offers commands, nouns, aliases and what stands below a noun', () => {
    expect(complete('asp', 'se')).toEqual(['send', 'serve', 'session']);
    expect(complete('asp', 'session', 're')).toEqual(['reopen']);
    expect(complete('asp', 'sessions', 'li')).toEqual(['list']);
    expect(complete('asp', 'serve', 'agent', 'pa')).toEqual(['pause']);
    expect(complete('asp', '-p', 'work', 'session', 'sh')).toEqual(['show']);
  });

  it('offers options, their choices and remembered words', () => {
    expect(complete('asp', 'send', '--to')).toEqual(['--topic']);
    expect(complete('asp', 'session', 'export', SESSION, '--format', '')).toEqual(['jsonl', 'md']);
    expect(complete('asp', 'send', 'al')).toEqual(['alice.bot', 'albert.bot']);
    expect(complete('asp', 'send', '@', 'bo')).toEqual(['bob.bot']);
    expect(complete('asp', 'tail', 'sess')).toEqual([SESSION]);
    expect(complete('asp', '--profile', '')).toEqual(['work']);
    expect(complete('asp', '--as', '=', 'bo')).toEqual(['bob.bot']);
    writeFileSync(join(home, 'a file.txt'), '');
    expect(complete('asp', 'send', 'alice.bot', '--file', 'a')).toEqual(['a file.txt']);
  });

  it('takes at most 80 ms', () => {
    const script = `source "$FILE"; COMP_WORDS=(asp send al); COMP_CWORD=2; a=$EPOCHREALTIME; for i in 1 2 3 4 5; do _asp; done; b=$EPOCHREALTIME; echo $(( (\${b/./} - \${a/./}) / 5 ))`;
    const env = { PATH: process.env['PATH'], HOME: home, FILE: fileOf('bash') };
    const micros = Number(execFileSync('bash', ['--norc', '-c', script], { env, encoding: 'utf8' }));
    expect(micros).toBeLessThan(80_000);
  });

  it('hands nothing of a file that was tampered with to the shell', () => {
    const folder = join(home, '.local/state/asp-cli/completion');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'sessions'), '$(touch pwned)\n`id`\nsess_x;ls\nsess_good\n\u001b[2J\n');
    expect(complete('asp', 'tail', '')).toEqual(['sess_good']);
  });
});

describe.skipIf(!hasShell('fish'))('fish', () => {
  let home: string;
  beforeAll(async () => {
    home = await homeWithMemory();
  });
  const complete = (line: string): string[] => {
    const env = { PATH: process.env['PATH'], HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home };
    const script = `source ${fileOf('fish')}; complete -C ${JSON.stringify(line)}`;
    const ran = spawnSync('fish', ['--no-config', '-c', script], { env, encoding: 'utf8', cwd: home });
    expect(ran.stderr).toBe('');
    return ran.stdout.split('\n').flatMap((text) => (text === '' ? [] : [text.split('\t', 1)[0] ?? '']));
  };

  it('offers commands, options, choices and remembered words', () => {
    expect(complete('asp se').sort()).toEqual(['send', 'serve', 'session']);
    expect(complete('asp session re')).toEqual(['reopen']);
    expect(complete('asp sessions li')).toEqual(['list']);
    expect(complete('asp send --top')).toEqual(['--topic']);
    expect(complete('asp session export --format ').sort()).toEqual(['jsonl', 'md']);
    expect(complete('asp send @al').sort()).toEqual(['@albert.bot', '@alice.bot']);
    expect(complete('asp tail sess')).toEqual([SESSION]);
    expect(complete('asp -p ')).toEqual(['work']);
  });
});

describe.skipIf(!hasShell('zsh'))('zsh', () => {
  let home: string;
  beforeAll(async () => {
    home = await homeWithMemory();
  });

  /** Types each line into an interactive zsh, with a tab at its end, and gives the words that were run. */
  const typed = (lines: readonly string[]): string[] => {
    const driver = `
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; PROMPT_EOL_MARK=; unsetopt beep; autoload -Uz compinit; compinit -u -D; source $FILE; asp() { print -r -- "RAN:$*:NAR" }; print REA""DY'
zpty -r z all '*READY*'
for line in "$@"; do
  zpty -w z "$line"$'\\t'
  zpty -r z all '*RAN:*:NAR*'
  print -r -- \${\${all##*RAN:}%%:NAR*}
done
zpty -d z`;
    const folder = mkdtempSync(join(tmpdir(), 'asp-zsh-'));
    writeFileSync(join(folder, 'driver'), driver);
    const env = { PATH: process.env['PATH'], HOME: home, FILE: fileOf('zsh'), TERM: 'dumb' };
    const ran = spawnSync('zsh', ['-f', join(folder, 'driver'), ...lines], { env, encoding: 'utf8', timeout: 40_000 });
    return ran.stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.trim()]));
  };

  it('completes commands, options, choices and remembered words', () => {
    expect(
      typed([
        'asp whoam',
        'asp session reo',
        'asp sessions lis',
        'asp send --topi',
        'asp session export --format js',
        'asp send @alb',
        'asp send bob',
        'asp tail sess_',
        'asp --profile wo',
      ]),
    ).toEqual([
      'whoami',
      'session reopen',
      'sessions list',
      'send --topic',
      'session export --format jsonl',
      'send @albert.bot',
      'send bob.bot',
      `tail ${SESSION}`,
      '--profile work',
    ]);
  });
});

describe('what is remembered for completions', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
  });
  afterAll(() => stage.stop());

  it('are the words that commands have shown, and nothing that is not well-formed', async () => {
    const home = freshHome();
    const paths = { stateDirectory: join(home, 'state') };
    const context = { paths } as Parameters<typeof remember>[0];
    await remember(context, 'handles', ['@a.b', '$(id)', '@a.b\n@c.d', '@B.c', '@a.b']);
    const { readFileSync, statSync } = await import('node:fs');
    const file = join(home, 'state/completion/handles');
    expect(readFileSync(file, 'utf8')).toBe('@a.b\n');
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it('come from what was listed, created and signed in', async () => {
    const home = freshHome();
    const { alice, bob } = stage;
    const machine = { homeDirectory: home, workingDirectory: home };
    const created = documentOf(await stage.as(alice, `session create ${bob.handle} --json`, { machine }));
    await stage.as(alice, 'agent list', { machine });
    await stage.as(alice, 'profile add work --base-url https://api.example/v1', { machine });
    const { readFileSync } = await import('node:fs');
    const read = (kind: string): string => readFileSync(join(home, '.local/state/asp-cli/completion', kind), 'utf8');
    expect(read('sessions')).toContain(created['session_id']);
    expect(read('handles')).toContain(alice.handle);
    expect(read('profiles')).toBe('work\nlocal\n');
  });
});
