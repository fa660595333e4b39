import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadCommands } from '../../src/cli/command.js';
import { readPlaceholder, type Vocabulary } from '../../src/cli/commands/completion/candidates.js';
import { complete, readLine } from '../../src/cli/commands/completion/complete.js';
import { SHELLS, type Shell } from '../../src/cli/commands/completion/completion.js';
import { collectVocabulary } from '../../src/cli/commands/completion/known-words.js';
import { recall, remember } from '../../src/cli/context/completion-memory.js';
import { GLOBAL_OPTIONS } from '../../src/cli/options.js';
import { PROGRAM } from '../../src/cli/program.js';
import { captureStreams } from '../support/captured-streams.js';
import { startTestService, type TestService } from '../support/service.js';
import { documentOf, localHome } from './acting.js';
import { freshHome, runWords, surroundingsOf } from './captured-run.js';

const { commands: COMMANDS } = await loadCommands(PROGRAM);

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FILE: Readonly<Record<Shell, string>> = {
  bash: 'asp.bash',
  zsh: '_asp',
  fish: 'asp.fish',
  powershell: 'asp.ps1',
};
const fileOf = (shell: Shell): string => `${ROOT}completions/${FILE[shell]}`;
const SESSION = `sess_${'0'.repeat(25)}7`;
const OTHER_SESSION = `sess_${'0'.repeat(25)}8`;
const ATTACHMENT = `att_${'0'.repeat(25)}7`;
/** The default word breaks of bash. */
const BREAKS = ' \t\n"\'@><=;|&(:';
const hasShell = (name: string): boolean => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
const known: Vocabulary = collectVocabulary({ nouns: PROGRAM.nouns, commands: COMMANDS });

const stateOf = (home: string): string => join(home, '.local/state/asp-cli');

function writeMemory(home: string, kind: string, text: string): void {
  mkdirSync(join(stateOf(home), 'completion'), { recursive: true });
  writeFileSync(join(stateOf(home), 'completion', kind), text);
}

/** Creates a home in which commands have run, with its own `asp` on the path. */
function usedHome(): string {
  const home = freshHome();
  writeMemory(home, 'handles', '@alice.bot\tAlice answers\n@albert.bot\n@bob.bot\n');
  writeMemory(home, 'sessions', `${SESSION}\trelease: notes\n${OTHER_SESSION}\n`);
  writeMemory(home, 'attachments', `${ATTACHMENT}\treport.pdf\n`);
  writeMemory(home, 'entries', '@carol.*\n@dora.bot\n');
  writeMemory(home, 'blocked', '@spam.bot\n');
  mkdirSync(join(stateOf(home), 'logins'));
  const login = { handle: '@me.bot', baseUrl: 'https://api.example/v1' };
  writeFileSync(join(stateOf(home), 'logins', 'one.json'), JSON.stringify(login));
  mkdirSync(join(home, '.config/asp-cli'), { recursive: true });
  const config = {
    profiles: { work: { base_url: 'https://api.example/v1' } },
    aliases: { mine: ['session', 'show'], send: ['version'], 'not a name': ['version'], broken: 'version' },
  };
  writeFileSync(join(home, '.config/asp-cli/config.json'), JSON.stringify(config));
  writeFileSync(join(home, 'a file.txt'), '');
  mkdirSync(join(home, 'some folder'));
  mkdirSync(join(home, 'bin'));
  symlinkSync(`${ROOT}bin/asp.js`, join(home, 'bin/asp'));
  return home;
}

const environmentOf = (home: string): Record<string, string> => ({
  PATH: `${join(home, 'bin')}:${process.env['PATH']}`,
  HOME: home,
  TERM: 'dumb',
  XDG_CONFIG_HOME: join(home, '.config'),
});

function answer(home: string, args: readonly string[]): string[] {
  const { environment, machine } = surroundingsOf(captureStreams({}), { machine: { homeDirectory: home } });
  return complete(args, known, { environment, machine }).split('\n').slice(0, -1);
}

/** Returns the values offered after these words. The last word is the beginning of the value. */
function offered(home: string, ...words: string[]): string[] {
  return answer(home, ['zsh', '--', ...words])
    .filter((line) => !line.startsWith(':'))
    .map((line) => line.split('\t', 1)[0] ?? '');
}

const lastLine = (home: string, ...words: string[]): string => answer(home, ['zsh', '--', ...words]).at(-1) ?? '';

describe('Completion offers', () => {
  const home = usedHome();

  it('commands, nouns and the commands below them, with their descriptions', () => {
    expect(answer(home, ['zsh', '--', 'se'])).toEqual([
      'send\tsend a message to a handle or a session',
      'serve\trun a service on this machine',
      'session\tlist, create, join, invite, end and read sessions',
      ':',
    ]);
    expect(offered(home, 'session', 're')).toEqual(['reopen']);
    expect(offered(home, 'serve', 'agent', 'pa')).toEqual(['pause']);
    expect(answer(home, ['zsh', '--', 'serve', 'ag'])).toEqual(['agent\tlist, add, remove, pause, resume', ':']);
    expect(offered(home, '-p', 'work', '--json', 'session', 'sh')).toEqual(['show']);
  });

  it('aliases, and after one, what its command accepts', () => {
    expect(answer(home, ['zsh', '--', 'mi'])).toEqual(['mine\tasp session show', ':']);
    expect(offered(home, 'mine', '--del')).toEqual(['--delivery']);
    expect(offered(home, 'mine', 'sess_')).toEqual([SESSION, OTHER_SESSION]);
    expect(offered(home, 'alias', 'remove', 'mi')).toEqual(['mine']);
    // Real commands come before aliases, and invalid aliases are not offered.
    expect(offered(home, 'send', '--dry')).toEqual(['--dry-run']);
    expect(offered(home, 'send')).toEqual(['send']);
    expect(offered(home, 'bro')).toEqual([]);
  });

  it('plural nouns only to those who type them', () => {
    expect(offered(home, 'session')).toEqual(['session']);
    expect(offered(home, 'sessions')).toEqual(['sessions']);
    expect(offered(home, 'sessions', 'li')).toEqual(['list']);
  });

  it('every command and every option of the program in its place', () => {
    for (const { path, aliases, options } of COMMANDS) {
      for (const spelling of [path, ...aliases]) {
        const words = spelling.split(' ');
        expect(offered(home, ...words.slice(0, -1), ''), spelling).toContain(words.at(-1));
        const flags = offered(home, ...words, '-');
        for (const option of [...options, ...GLOBAL_OPTIONS]) {
          const names = option.flags.replace(/ <.*/, '').split(', ');
          for (const name of names) {
            if ('isHidden' in option && option.isHidden) expect(flags, spelling).not.toContain(name);
            else expect(flags, spelling).toContain(name);
          }
        }
      }
    }
  });

  it('an option once, and again only if it may be repeated', () => {
    expect(offered(home, 'send', 'alice.bot', '--topic', 'x', '--to')).toEqual([]);
    expect(offered(home, 'send', 'alice.bot', '--topic=x', '--to')).toEqual([]);
    expect(offered(home, 'send', '-m', 'x', '--mess')).toEqual(['--message-file']);
    expect(offered(home, 'send', '-qm', 'x', '--q')).toEqual([]);
    expect(offered(home, 'send', 'alice.bot', '--file', 'x', '--fil')).toEqual(['--file', '--filename']);
  });

  it('values of options: choices, and the same after = and after a short name', () => {
    expect(offered(home, 'session', 'export', SESSION, '--format', '')).toEqual(['jsonl', 'md']);
    expect(offered(home, 'session', 'export', '--format=j')).toEqual(['--format=jsonl']);
    expect(offered(home, '--color=al')).toEqual(['--color=always']);
    expect(offered(home, '-pw')).toEqual(['-pwork']);
    expect(offered(home, 'send', 'alice.bot', '--topic', '')).toEqual([]);
  });

  it('handles as they are typed, with or without @, and every one once', () => {
    expect(offered(home, 'send', 'al')).toEqual(['alice.bot', 'albert.bot']);
    expect(offered(home, 'send', '@al')).toEqual(['@alice.bot', '@albert.bot']);
    expect(offered(home, 'session', 'create', 'alice.bot', 'a')).toEqual(['albert.bot']);
    expect(offered(home, 'send', 'alice.bot,al')).toEqual(['alice.bot,albert.bot']);
    expect(offered(home, 'tail', '--from=@bob.bot,@al')).toEqual([
      '--from=@bob.bot,@alice.bot',
      '--from=@bob.bot,@albert.bot',
    ]);
    expect(answer(home, ['zsh', '--', 'agent', 'show', 'alic'])).toEqual(['alice.bot\tAlice answers', ':']);
  });

  it('known counterparts, agents of the allowlist and own agents; the last first for --as', () => {
    expect(offered(home, 'agent', 'show', '')).toEqual(['alice.bot', 'albert.bot', 'bob.bot', 'dora.bot', 'me.bot']);
    expect(offered(home, '--as', '')[0]).toBe('me.bot');
    expect(offered(home, 'agent', 'use', '')[0]).toBe('me.bot');
    expect(offered(home, 'allowlist', 'remove', '')).toEqual(['carol.*', 'dora.bot']);
    expect(offered(home, 'block', 'remove', '@')).toEqual(['@spam.bot']);
    expect(offered(home, 'run', '--from', 'any')).toEqual(['anyone']);
  });

  it('sessions with their topics, and attachments with their names', () => {
    expect(answer(home, ['zsh', '--', 'tail', 'se'])).toEqual([
      `${SESSION}\trelease: notes`,
      `${OTHER_SESSION}\t`,
      ':',
    ]);
    expect(offered(home, 'tail', SESSION, 's')).toEqual([OTHER_SESSION]);
    expect(offered(home, 'tail', 'alic')).toEqual(['alice.bot']);
    expect(offered(home, 'send', 'sess_')).toEqual([SESSION, OTHER_SESSION]);
    expect(answer(home, ['zsh', '--', 'attachment', 'download', ''])).toEqual([`${ATTACHMENT}\treport.pdf`, ':']);
    expect(offered(home, 'send', 'alice.bot', 'x', '--attach', 'a')).toEqual([ATTACHMENT]);
  });

  it('profiles, settings and their values', () => {
    expect(offered(home, '--profile', '')).toEqual(['work', 'local']);
    expect(offered(home, 'profile', 'use', 'w')).toEqual(['work']);
    expect(offered(home, 'config', 'get', 'profiles.')).toContain('profiles.work.base_url');
    expect(offered(home, 'config', 'set', 'default_profile', '')).toEqual(['work', 'local']);
    expect(offered(home, 'config', 'set', 'local_agent', 'me')).toEqual(['me.bot']);
    expect(offered(home, 'send', 'alice.bot', 'x', '--once', '')).toEqual([]);
  });

  it('topics, codes, schemas, fields, types, conditions, scopes, shells, systems and paths', () => {
    expect(offered(home, 'help', 'ex')).toEqual(['exit-codes', 'extensions', 'explain']);
    expect(offered(home, 'help', 'session', 'reo')).toEqual(['reopen']);
    expect(offered(home, 'commands', 'session', 'reo')).toEqual(['reopen']);
    expect(offered(home, 'explain', 'ASP_TIM')).toEqual(['ASP_TIMEOUT']);
    expect(offered(home, 'schema', 'session.mess')).toEqual(['session.message']);
    expect(offered(home, 'schema', 'session', 'li')).toEqual(['list']);
    expect(offered(home, 'session', 'list', '--fields', 'id,st')).toEqual(['id,state']);
    expect(offered(home, 'tail', '--type', 'mess')).toEqual(['message']);
    expect(offered(home, 'session', 'wait', SESSION, '--for', 're')).toEqual(['reply']);
    expect(offered(home, 'session', 'wait', SESSION, '--for', 'joined:@al')).toEqual([
      'joined:@alice.bot',
      'joined:@albert.bot',
    ]);
    expect(offered(home, 'login', '--scopes', 'sessions:read,sess')).toEqual(['sessions:read,sessions:write']);
    expect(offered(home, 'completion', '')).toEqual([...SHELLS]);
    expect(offered(home, 'auth', 'ci', 'git')).toEqual(['github', 'gitlab']);
    expect(offered(home, 'serve', 'account', 'tier', 'alice', '')).toEqual(['standard', 'trusted']);
    expect(offered(home, 'api', 'agents/')).toEqual(['agents/me']);
    expect(offered(home, 'api', 'agents/me', '-X', '')).toEqual(['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD']);
    expect(offered(home, 'connect', 'c')).toEqual(['claude-code', 'codex', 'copilot', 'cursor']);
    expect(offered(home, 'skill', 'install', 'c')).toEqual(['claude-code', 'codex', 'copilot']);
  });

  it('files and folders where they belong, and nowhere else', () => {
    expect(lastLine(home, 'send', 'alice.bot', '--file', '')).toBe(':files');
    expect(lastLine(home, 'send', 'alice.bot', '--file=a')).toBe(':files');
    expect(lastLine(home, 'attachment', 'upload', 'one', '')).toBe(':files');
    expect(lastLine(home, 'attachment', 'download', ATTACHMENT, '--dir', '')).toBe(':folders');
    expect(answer(home, ['zsh', '--', 'serve', '--data', 'mem'])).toEqual(['memory\t', ':folders']);
    expect(lastLine(home, 'session', 'export', SESSION, '--output', '')).toBe(':files');
    expect(lastLine(home, 'session', 'list', '')).toBe(':');
  });

  it('nothing after --, after the last argument, or behind an unknown word', () => {
    expect(answer(home, ['zsh', '--', 'send', '--', '--to'])).toEqual([':']);
    expect(answer(home, ['zsh', '--', 'send', 'alice.bot', '--', ''])).toEqual([':']);
    expect(answer(home, ['zsh', '--', 'session', 'join', SESSION, ''])).toEqual([':']);
    expect(answer(home, ['zsh', '--', 'nonsense', ''])).toEqual([':']);
    expect(answer(home, ['zsh'])).not.toEqual([]);
  });

  it('nothing for a new name or a text', () => {
    for (const words of [
      ['agent', 'create', ''],
      ['serve', 'agent', 'add', ''],
      ['serve', '--seed', ''],
      ['send', 'alice.bot', 'x', '--idempotency-key', ''],
      ['send', 'alice.bot', ''],
    ])
      expect(answer(home, ['zsh', '--', ...words]), words.join(' ')).toEqual([':']);
  });

  it('something for every placeholder of the program, or nothing on purpose', () => {
    const undecided = COMMANDS.flatMap(({ path, arguments: positional, options }) => [
      ...positional.flatMap(({ usage }) => readPlaceholder(path, usage).literals),
      ...options.flatMap(({ flags, ...option }) =>
        flags.endsWith('>') && !('choices' in option)
          ? readPlaceholder(path, /<[^>]+>$/.exec(flags)?.[0] ?? '').literals
          : [],
      ),
    ]);
    // These are words to type. Any other placeholder needs a row in PLACEHOLDERS.
    expect([...new Set(undecided)].sort()).toEqual([
      'anyone',
      'controlled',
      'memory',
      'no',
      'standard',
      'trusted',
      'yes',
    ]);
  });

  it('what the build wrote into the program', () => {
    expect(JSON.parse(readFileSync(`${ROOT}dist/known-words.json`, 'utf8'))).toEqual(JSON.parse(JSON.stringify(known)));
  });
});

describe('a line of bash', () => {
  const read = (line: string) => readLine('bash', line, BREAKS);
  const placed = (line: string): [string[], string, string] => {
    const { before, typed, spell } = read(line);
    return [[...before], typed, spell(`${typed}@x.y`)];
  };

  it('is split into words as in bash', () => {
    expect(placed('asp send "a b" \'c d\' e\\ f')).toEqual([['send', 'a b', 'c d'], 'e f', 'e\\ f@x.y']);
    expect(placed('asp send a ')).toEqual([['send', 'a'], '', '@x.y']);
    expect(placed('A=1 B=2 asp send "it\'s" x')).toEqual([['send', "it's"], 'x', 'x@x.y']);
    expect(placed('asp send "say \\"hi\\"" ')).toEqual([['send', 'say "hi"'], '', '@x.y']);
    expect(placed('/usr/bin/asp se')[1]).toBe('se');
    expect(placed('a sess')).toEqual([[], 'sess', 'sess@x.y']);
  });

  it('returns only what bash replaces: the text after the last word break', () => {
    expect(read('asp --as=al').spell('--as=alice.bot')).toBe('alice.bot');
    expect(read('asp --as=@al').spell('--as=@alice.bot')).toBe('@alice.bot');
    expect(read('asp send @al').spell('@alice.bot')).toBe('@alice.bot');
    expect(read('asp login --scopes sessions:r').spell('sessions:read')).toBe('read');
    expect(read("asp send 'a:b").spell('a:bc')).toBe('a:bc');
    expect(read('asp --as="@al').spell('--as=@alice.bot')).toBe('@alice.bot');
    expect(readLine('bash', 'asp --as=al', ' \t\n').spell('--as=alice.bot')).toBe('--as=alice.bot');
  });

  it('returns no character that bash would expand', () => {
    expect(read('asp allowlist remove ').spell('carol.*')).toBe('carol.\\*');
    expect(read('asp allowlist remove "').spell('carol.*')).toBe('carol.*');
    expect(read('asp x ').spell('$(id)`id`;')).toBe('\\$\\(id\\)\\`id\\`\\;');
    expect(read('asp x "').spell('$(id)`id`')).toBe('\\$(id)\\`id\\`');
  });

  it('offers files after a redirection, which is not an argument of the command', () => {
    expect(read('asp tail > f').isPath).toBe(true);
    expect(read('asp send x < ').isPath).toBe(true);
    expect(placed('asp send <in 2>&1 >> out al')).toEqual([['send'], 'al', 'al@x.y']);
  });
});

describe('The program, when a shell asks for completions,', () => {
  const home = usedHome();
  const ask = (args: readonly string[], environment: Record<string, string> = {}) =>
    spawnSync(process.execPath, [`${ROOT}bin/asp.js`, '__complete', ...args], {
      env: { ...environmentOf(home), ...environment },
      encoding: 'utf8',
    });

  it('answers every shell with the same candidates', () => {
    const expected = 'alice.bot\tAlice answers\nalbert.bot\t\n:\n';
    for (const args of [
      ['bash', BREAKS, '--', 'asp send al'],
      ['fish', '--', 'asp send al'],
      ['zsh', '--', 'send', 'al'],
      ['powershell', '1', '--', 'send', 'al'],
      ['powershell', '1', 'send', 'al'],
    ])
      expect(ask(args)).toMatchObject({ status: 0, stdout: expected, stderr: '' });
    expect(ask(['powershell', '1', '--', 'send']).stdout).toContain('alice.bot\tAlice answers\n');
  });

  it('writes nothing and leaves a login unchanged', () => {
    const before = readdirSync(home, { recursive: true }).sort();
    ask(['zsh', '--', 'send', '']);
    ask(['zsh', '--', '--as', '']);
    expect(readdirSync(home, { recursive: true }).sort()).toEqual(before);
  });

  it.each([
    ['without a home', { HOME: '/nonexistent', XDG_CONFIG_HOME: '' }],
    ['with a home that is a file', { HOME: '/dev/null', XDG_CONFIG_HOME: '' }],
    ['with a relative home', { HOME: 'here', XDG_CONFIG_HOME: 'there' }],
  ])('offers built-in words %s, and prints no error', (_, environment) => {
    expect(ask(['zsh', '--', 'session', 'reo'], environment)).toMatchObject({
      status: 0,
      stdout: 'reopen\treopen an ended session\n:\n',
      stderr: '',
    });
    expect(ask(['zsh', '--', 'tail', ''], environment)).toMatchObject({ status: 0, stdout: ':\n', stderr: '' });
  });

  it('prints no error for a home that it may not read or whose files are broken', () => {
    const broken = usedHome();
    writeFileSync(join(broken, '.config/asp-cli/config.json'), '{"profiles": [1, null');
    writeFileSync(join(stateOf(broken), 'logins', 'one.json'), 'null');
    chmodSync(join(stateOf(broken), 'completion'), 0);
    const environment = { HOME: broken, XDG_CONFIG_HOME: join(broken, '.config') };
    expect(ask(['zsh', '--', '--profile', ''], environment)).toMatchObject({
      stdout: 'local\tthe service on this machine\n:\n',
      stderr: '',
    });
    expect(ask(['zsh', '--', '--as', ''], environment)).toMatchObject({ status: 0, stderr: '' });
    chmodSync(join(stateOf(broken), 'completion'), 0o700);
  });

  it.each([[[]], [['tcsh']], [['bash']], [['bash', '--']], [['powershell', 'x', '--']], [['zsh', '--']]])(
    'prints no error for %j',
    (args) => {
      expect(ask(args)).toMatchObject({ status: 0, stderr: '' });
    },
  );

  it('does not wait for a pipe that replaces a file', () => {
    const piped = usedHome();
    for (const path of ['.config/asp-cli/config.json', '.local/state/asp-cli/completion/sessions']) {
      rmSync(join(piped, path));
      execFileSync('mkfifo', [join(piped, path)]);
    }
    const { stdout } = ask(['zsh', '--', '--profile', ''], { HOME: piped, XDG_CONFIG_HOME: join(piped, '.config') });
    expect(stdout).toBe('local\tthe service on this machine\n:\n');
    expect(ask(['zsh', '--', 'tail', 'sess_'], { HOME: piped }).stdout).toBe(':\n');
  });

  it('passes no hostile text from a file to a shell or a terminal', () => {
    const tampered = usedHome();
    writeMemory(
      tampered,
      'sessions',
      `$(touch pwned)\n\`id\`\nsess_x;ls\n${SESSION}\t\u001b[2J\u202eevil\r\n${OTHER_SESSION}\n`,
    );
    const { stdout } = ask(['zsh', '--', 'tail', 's'], { HOME: tampered });
    expect(stdout).toBe(`${SESSION}\t[2Jevil\n${OTHER_SESSION}\t\n:\n`);
  });

  it('calls no service', () => {
    const asked = ask(['zsh', '--', 'send', 'x'], {
      NODE_OPTIONS: `--require ${JSON.stringify(withoutNetwork())}`,
    });
    expect(asked).toMatchObject({ status: 0, stderr: '' });
  });
});

/** Writes a file that ends Node.js as soon as it opens a socket or starts a process. */
function withoutNetwork(): string {
  const path = join(mkdtempSync(join(tmpdir(), 'asp-net-')), 'none.cjs');
  writeFileSync(
    path,
    `const refuse = () => { process.stderr.write('refused'); process.exit(1); };
for (const [name, member] of [['net', 'connect'], ['net', 'createConnection'], ['child_process', 'spawn']]) require(name)[member] = refuse;
require('net').Socket.prototype.connect = refuse;`,
  );
  return path;
}

describe('asp completion', () => {
  it.each(SHELLS)('%s prints the file in completions/, which is short and static', async (shell) => {
    const script = readFileSync(fileOf(shell), 'utf8');
    expect((await runWords(`completion ${shell}`)).out).toBe(script);
    expect(execFileSync(process.execPath, [`${ROOT}bin/asp.js`, 'completion', shell], { encoding: 'utf8' })).toBe(
      script,
    );
    expect(script.split('\n').length).toBeLessThanOrEqual(41);
    expect(script).not.toMatch(/\beval\b|Invoke-Expression|\biex\b/i);
  });

  it('of an unknown shell: exit 2', async () => {
    expect(await runWords('completion tcsh')).toMatchObject({ code: 2, out: '' });
  });
});

describe('asp completion --install', () => {
  const install = (home: string, shell: string, environment: Record<string, string> = {}) =>
    spawnSync(process.execPath, [`${ROOT}bin/asp.js`, 'completion', shell, '--install', '--json'], {
      env: { ...environmentOf(home), ...environment },
      encoding: 'utf8',
    });
  const filesOf = ({ stdout }: { stdout: string }): { path: string; action: string }[] => JSON.parse(stdout).files;

  it('writes the script where bash and fish look for it, and changes nothing the second time', () => {
    for (const [shell, path] of [
      ['bash', '.local/share/bash-completion/completions/asp'],
      ['fish', '.config/fish/completions/asp.fish'],
    ] as const) {
      const home = usedHome();
      expect(filesOf(install(home, shell))).toEqual([{ path: join(home, path), action: 'create' }]);
      expect(readFileSync(join(home, path), 'utf8')).toBe(readFileSync(fileOf(shell), 'utf8'));
      const again = install(home, shell);
      expect(filesOf(again)).toEqual([{ path: join(home, path), action: 'keep' }]);
      expect(again.stderr).toContain('Nothing was changed');
      writeFileSync(join(home, path), '# an older asp __complete\n');
      expect(filesOf(install(home, shell))).toEqual([{ path: join(home, path), action: 'change' }]);
    }
  });

  it.skipIf(!hasShell('zsh'))('makes a new zsh load it, also where .zshrc is a link without a last newline', () => {
    const home = usedHome();
    const kept = join(home, 'it’s kept');
    mkdirSync(kept);
    writeFileSync(join(kept, 'zshrc'), 'unsetopt beep');
    symlinkSync(join(kept, 'zshrc'), join(home, '.zshrc'));
    const environment = { XDG_DATA_HOME: kept };
    const [script, startup] = filesOf(install(home, 'zsh', environment));
    expect(script).toEqual({ path: join(kept, 'asp-cli/completions/_asp'), action: 'create' });
    expect(startup).toEqual({ path: join(home, '.zshrc'), action: 'change' });
    expect(filesOf(install(home, 'zsh', environment)).map(({ action }) => action)).toEqual(['keep', 'keep']);
    expect(readFileSync(join(kept, 'zshrc'), 'utf8')).toMatch(/^unsetopt beep\n[^\n]+\n$/);
    for (const before of ['', 'autoload -Uz compinit; compinit -u -D; ']) {
      const asked = spawnSync('zsh', ['-f', '-c', `${before}source ~/.zshrc; print -r -- $_comps[asp]`], {
        env: environmentOf(home),
        encoding: 'utf8',
      });
      expect(asked).toMatchObject({ stdout: '_asp\n', stderr: '' });
    }
  });

  it.skipIf(!hasShell('fish'))('makes a new fish load it', () => {
    const home = usedHome();
    install(home, 'fish');
    const asked = spawnSync('fish', ['-c', 'complete -C "asp whoam"'], { env: environmentOf(home), encoding: 'utf8' });
    expect(asked.stdout).toBe('whoami\tshow the current agent, service and credential\n');
  });

  it('refuses PowerShell, another program’s file, and a folder that it cannot write, and says why', () => {
    const home = usedHome();
    expect(install(home, 'powershell')).toMatchObject({ status: 2, stderr: expect.stringContaining('>> $PROFILE') });
    const path = join(home, '.config/fish/completions/asp.fish');
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, 'complete -c asp\n');
    expect(install(home, 'fish')).toMatchObject({ status: 2, stderr: expect.stringContaining('move it away') });
    expect(readFileSync(path, 'utf8')).toBe('complete -c asp\n');
    writeFileSync(join(home, 'file'), '');
    const refused = install(home, 'bash', { XDG_DATA_HOME: join(home, 'file') });
    expect(refused).toMatchObject({ status: 2, stdout: '' });
    expect(refused.stderr).toContain('ENOTDIR');
  });
});

/** Removes comments from a PowerShell script and empties its quoted strings (about_Parsing, about_Quoting_Rules). */
function withoutTexts(script: string): string {
  const token = /'(?:[^']|'')*'|"(?:[^"`]|`[\s\S]|"")*"|#[^\n]*/g;
  return script.replace(token, (text) => (text.startsWith('#') ? '' : text.charAt(0).repeat(2)));
}

describe('The PowerShell script', () => {
  const bare = withoutTexts(readFileSync(fileOf('powershell'), 'utf8'));

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

  it('uses no variable before it has a value', () => {
    const given = new Set(['_', 'null']);
    for (const [, variable = '', isAssigned] of bare.matchAll(/[$@](\w+)(,|\s*=(?!=))?/g)) {
      const isParameter = new RegExp(`param\\([^)]*\\$${variable}\\b`).test(bare);
      if (isAssigned !== undefined || isParameter || new RegExp(`, \\$${variable} =`).test(bare)) given.add(variable);
      expect([...given], `$${variable}`).toContain(variable);
    }
  });
});

/** Types each line into an interactive shell in a terminal of zsh. Returns the words that were run. */
function typeInto(home: string, shell: string, setUp: string, lines: readonly string[]): string[] {
  const driver = `
zmodload zsh/zpty
zpty z ${shell}
zpty -w z ${JSON.stringify(setUp).replaceAll('$', '\\$').replaceAll('`', '\\`')}
zpty -r z all '*READY*'
for line in "$@"; do
  zpty -w z "$line"
  zpty -r z all '*RAN:*:NAR*'
  print -r -- \${\${all##*RAN:}%%:NAR*}
done
zpty -d z`;
  const folder = mkdtempSync(join(tmpdir(), 'asp-pty-'));
  writeFileSync(join(folder, 'driver'), driver);
  const ran = spawnSync('zsh', ['-f', join(folder, 'driver'), ...lines], {
    env: environmentOf(home),
    cwd: home,
    encoding: 'utf8',
    timeout: 50_000,
  });
  return ran.stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.trim()]));
}

const LEFT = '\u0002';

/** The typed text, which ends with a tab, and the words that the shell then runs. */
const TYPED: readonly (readonly [typed: string, ran: string])[] = [
  ['asp whoam', '[whoami]'],
  ['asp session reo', '[session][reopen]'],
  ['asp sessions lis', '[sessions][list]'],
  ['asp send --topi', '[send][--topic]'],
  ['asp send @alb', '[send][@albert.bot]'],
  ['asp send bob', '[send][bob.bot]'],
  ['asp --as=alb', '[--as=albert.bot]'],
  ['asp --as=@alb', '[--as=@albert.bot]'],
  ['asp --as @alb', '[--as][@albert.bot]'],
  ["asp send 'alb", '[send][albert.bot]'],
  ['asp send "@alb', '[send][@albert.bot]'],
  ['asp send alice.bot,alb', '[send][alice.bot,albert.bot]'],
  ['asp login --scopes sessions:read,age', '[login][--scopes][sessions:read,agents:read]'],
  ['asp session wait x --for joined:@alb', '[session][wait][x][--for][joined:@albert.bot]'],
  ['asp allowlist remove car', '[allowlist][remove][carol.*]'],
  [`asp attachment show att_`, `[attachment][show][${ATTACHMENT}]`],
  ['asp session export --format js', '[session][export][--format][jsonl]'],
  ['asp --profile wo', '[--profile][work]'],
  ['asp send bob.bot \'it is "here"\' --onc', '[send][bob.bot][it is "here"][--once]'],
  ['asp send x --file a', '[send][x][--file][a file.txt]'],
  ['asp send x --file=a', '[send][x][--file=a file.txt]'],
  ['asp send x < a', '[send][x]'],
  [`asp sen x${LEFT}${LEFT}`, '[send][x]'],
  ['asp send -- --to', '[send][--][--to]'],
  ['true | asp whoam', '[whoami]'],
  ['FOO=1 asp whoam', '[whoami]'],
  [`a tail ${SESSION} --ty`, `[tail][${SESSION}][--type]`],
];

describe.skipIf(!hasShell('zsh') || !hasShell('bash'))('bash', () => {
  const home = usedHome();
  const setUp = (more = ''): string =>
    `PS1=; bind "set bell-style none"; source ${fileOf('bash')}; asp() { printf "RAN:"; printf "[%s]" "$@"; printf ":NAR\\n"; }; alias a=asp; complete -o default -F _asp a; ${more} echo REA""DY`;

  it('completes what is typed at its prompt', () => {
    const lines = TYPED.map(([typed]) => `${typed}\t`);
    expect(typeInto(home, '"bash --norc -i"', setUp(), lines)).toEqual(TYPED.map(([, ran]) => ran));
  });

  it('completes handles and scopes if @, : and = do not break words', () => {
    const lines = ['asp send @alb\t', 'asp --as=@alb\t', 'asp login --scopes allowlist:w\t'];
    const ran = ['[send][@albert.bot]', '[--as=@albert.bot]', '[login][--scopes][allowlist:write]'];
    expect(typeInto(home, '"bash --norc -i"', setUp(`COMP_WORDBREAKS=\${COMP_WORDBREAKS//[@:=]/};`), lines)).toEqual(
      ran,
    );
  });

  /** Returns what bash would list after a second tab. */
  const list = (line: string, more = ''): string[] => {
    const script = `source "$FILE"; COMP_TYPE=63; COLUMNS=60; COMP_LINE=$1; COMP_POINT=\${#1}; ${more} _asp; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const env = { ...environmentOf(home), FILE: fileOf('bash') };
    return execFileSync('bash', ['--norc', '-c', script, 'bash', line], { env, encoding: 'utf8' }).trim().split('\n');
  };

  it('lists candidates with descriptions, no wider than the terminal', () => {
    expect(list('asp tail s')).toEqual([`${SESSION}  (release: notes)`, OTHER_SESSION]);
    expect(list('asp se')[2]).toBe('session  (list, create, join, invite, end and read sessions'.slice(0, 58));
    expect(list('asp whoam')).toEqual(['whoami']);
  });

  it('stays quiet without asp on the path', () => {
    expect(list('asp se', 'PATH=/nonexistent;')).toEqual(['']);
  });
});

describe.skipIf(!hasShell('zsh'))('zsh', () => {
  it('completes what is typed at its prompt', () => {
    const setUp = `PS1=; PROMPT_EOL_MARK=; unsetopt beep; autoload -Uz compinit; compinit -u -D; source ${fileOf('zsh')}; asp() { print -rn -- "RAN:"; printf "[%s]" "$@"; print -r -- ":NAR" }; alias a=asp; print REA""DY`;
    const lines = TYPED.map(([typed]) => `${typed}\t`);
    expect(typeInto(usedHome(), 'zsh -f -i', setUp, lines)).toEqual(TYPED.map(([, ran]) => ran));
  });
});

describe.skipIf(!hasShell('fish'))('fish', () => {
  const home = usedHome();
  const completions = (line: string): string[] => {
    const script = `source ${fileOf('fish')}; complete -C "$LINE"`;
    const env = { ...environmentOf(home), XDG_DATA_HOME: home, LINE: line };
    const ran = spawnSync('fish', ['--no-config', '-c', script], { env, encoding: 'utf8', cwd: home });
    expect(ran.stderr).toBe('');
    return ran.stdout.split('\n').slice(0, -1);
  };
  const values = (line: string): string[] => completions(line).map((each) => each.split('\t', 1)[0] ?? '');

  it('offers commands, options, choices and remembered values, with descriptions', () => {
    expect(completions('asp whoam')).toEqual(['whoami\tshow the current agent, service and credential']);
    expect(values('asp sessions li')).toEqual(['list']);
    expect(values('asp send --top')).toEqual(['--topic']);
    expect(values('asp session export --format ').sort()).toEqual(['jsonl', 'md']);
    expect(completions('asp tail sess_')).toEqual([`${SESSION}\trelease: notes`, OTHER_SESSION]);
    expect(values('asp -p ').sort()).toEqual(['local', 'work']);
  });

  it('keeps quotes, @, = and commas', () => {
    expect(values('asp send @alb')).toEqual(['@albert.bot']);
    expect(values('asp --as=@alb')).toEqual(['--as=@albert.bot']);
    expect(values("asp send 'alb")).toEqual(['albert.bot']);
    expect(values('asp send bob.bot \'it is "here"\' --onc')).toEqual(['--once']);
    expect(values('asp login --scopes sessions:read,age')).toEqual(['sessions:read,agents:read']);
    expect(values('true | asp whoam')).toEqual(['whoami']);
    expect(values('asp send -- --to')).toEqual([]);
  });

  it('offers files and folders, after = too', () => {
    expect(values('asp send x --file a')).toEqual(['a file.txt']);
    expect(values('asp send x --file=a')).toEqual(['--file=a file.txt']);
    expect(values('asp attachment download --dir so')).toEqual(['some folder/']);
  });
});

describe('The data remembered for completions', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(() => service.stop());

  const contextIn = (home: string): Parameters<typeof remember>[0] => {
    const profile = { credentialCommand: undefined };
    return { paths: { stateDirectory: stateOf(home) }, environment: {}, profile: async () => profile } as never;
  };

  it('leaves no half-written file behind where it cannot be stored', async () => {
    const home = freshHome();
    const folder = join(stateOf(home), 'completion');
    mkdirSync(join(folder, 'handles'), { recursive: true });
    await remember(contextIn(home), 'handles', [{ name: '@a.b', about: 'x' }]);
    expect(readdirSync(folder)).toEqual(['handles']);
  });

  it('is well-formed, private, newest first and bounded', async () => {
    const home = freshHome();
    const context = contextIn(home);
    const names = ['@a.b', '$(id)', '@a.b\n@c.d', '@B.c', '@a.b'];
    await remember(
      context,
      'handles',
      names.map((name) => ({ name, about: 'x\ty\u001b[0m\nz' })),
    );
    await remember(context, 'handles', [{ name: '@c.d', about: 'y'.repeat(1000) }]);
    const file = join(stateOf(home), 'completion/handles');
    expect(readFileSync(file, 'utf8')).toBe(`@c.d\t${'y'.repeat(60)}\n@a.b\tx y[0m z\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await remember(
      context,
      'handles',
      Array.from({ length: 300 }, (_, at) => ({ name: `@n.a${at}` })),
    );
    expect(recall(stateOf(home), 'handles')).toHaveLength(200);
  });

  it('comes from lists, and from creating, sending and uploading, and is removed with its object', async () => {
    const [alice, bob] = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
    const home = localHome(service);
    const bare = (handle: string): string => handle.slice(1);
    const run = (words: string) => home.run(words, { stdin: 'file' });
    expect((await home.run(`login ${alice.handle} --yes`)).code).toBe(0);
    const created = documentOf(await home.run(`session create ${bob.handle} --topic plans --json`));
    expect(answer(home.directory, ['zsh', '--', 'tail', ''])).toContain(`${created['session_id']}\tplans`);
    const invited = await bob.mustCreate({ invite: [alice.handle], topic: 'invited' });
    expect((await home.run('inbox')).code).toBe(0);
    expect(answer(home.directory, ['zsh', '--', 'session', 'join', 's'])[0]).toBe(`${invited}\tinvited`);
    expect(offered(home.directory, 'send', '')).toEqual(expect.arrayContaining([bare(bob.handle), bare(alice.handle)]));
    await home.run(`allowlist add ${bob.handle} @owner.*`);
    const entries = (): string[] => offered(home.directory, 'allowlist', 'remove', '');
    expect(entries()).toEqual(expect.arrayContaining([bare(bob.handle), 'owner.*']));
    await home.run('allowlist remove @owner.*');
    expect(entries()).toContain(bare(bob.handle));
    expect(entries()).not.toContain('owner.*');
    await home.run('block add @spam.*');
    expect(offered(home.directory, 'block', 'remove', '')).toEqual(['spam.*']);
    await home.run('block remove @spam.*');
    expect(offered(home.directory, 'block', 'remove', '')).toEqual([]);
    const [id] = (await run('attachment upload - --filename notes.txt')).out.split('\n');
    expect(answer(home.directory, ['zsh', '--', 'attachment', 'show', ''])).toEqual([`${id}\tnotes.txt`, ':']);
    await home.run(`allowlist remove ${bob.handle}`);
    await home.run(`serve agent remove ${bob.handle}`);
    expect(offered(home.directory, 'send', bare(bob.handle))).toEqual([]);
  });

  it('is empty if the environment sets the identity', async () => {
    const alice = await service.createAgent('alice');
    const home = freshHome();
    const environment = { ASP_PROFILE: service.baseUrl, ASP_TOKEN: await alice.token('api') };
    const machine = { homeDirectory: home, workingDirectory: home };
    expect((await runWords('session create --topic plans', { environment, machine })).code).toBe(0);
    expect((await runWords('agent list', { environment, machine })).code).toBe(0);
    expect(existsSync(join(stateOf(home), 'completion'))).toBe(false);
  });
});
