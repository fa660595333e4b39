import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';

import { freshHome, type Ran, runWords } from './captured-run.js';

/** The service and the agent in every entry. */
const PLACE = ['-p', 'http://127.0.0.1:9/v1', '--as', '@alice.bot'];

let home: string;
beforeEach(() => {
  home = freshHome();
  writeFile('bin/asp', '#!/bin/sh\n');
  mkdirSync(at('project'));
});

const at = (path: string): string => join(home, path);
const read = (path: string): string => readFileSync(at(path), 'utf8');
function writeFile(path: string, text: string | Uint8Array, mode = 0o644): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), text, { mode });
}

const run = (words: string, environment: Readonly<Record<string, string>> = {}): Promise<Ran> =>
  runWords(words, {
    machine: {
      homeDirectory: home,
      workingDirectory: at('project'),
      temporaryDirectory: home,
      commandLine: ['/opt/node', '/opt/asp.js'],
    },
    environment: {
      XDG_RUNTIME_DIR: at('run'),
      PATH: at('bin'),
      ASP_PROFILE: 'http://127.0.0.1:9/v1',
      ASP_AGENT: '@alice.bot',
      ...environment,
    },
  });
async function must(words: string, environment?: Readonly<Record<string, string>>): Promise<Ran> {
  const ran = await run(words, environment);
  expect({ code: ran.code, err: ran.err }).toEqual({ code: 0, err: ran.err });
  return ran;
}

/** Returns every file in the home except asp's own state, with its bytes and mode. */
function everything(folder = home): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => a.name.localeCompare(b.name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (path === at('.local') || path === at('run')) return [];
      const mode = (lstatSync(path).mode & 0o777).toString(8);
      if (entry.isDirectory()) return [`${path} ${mode}`, ...everything(path)];
      return [`${path} ${mode} ${readFileSync(path).toString('hex')}`];
    });
}

/** Realistic settings: comments, odd formatting, other servers, other line endings. */
const SETTINGS: readonly [agent: string, path: string, text: string][] = [
  [
    'gemini',
    '.gemini/settings.json',
    '{\n  // mine\n  "theme": "Dracula",\n  "mcpServers": {\n    "git": { "command": "uvx" }, // keep\n  }\n}\n',
  ],
  ['gemini', '.gemini/settings.json', '{}'],
  ['gemini', '.gemini/settings.json', ''],
  ['gemini', '.gemini/settings.json', '\ufeff{\r\n\t"a": [1,2 ,3],\r\n\t"mcpServers": {}\r\n}\r\n'],
  ['gemini', '.gemini/settings.json', '{"mcpServers":{"x":{"command":"y"}},"a":1}'],
  ['cursor', '.cursor/mcp.json', '{\n    "mcpServers": {\n        "one": {"url": "https://example.com"}\n    }\n}'],
  [
    'copilot',
    '.copilot/mcp-config.json',
    '{\n  "mcpServers": {\n    "t1": {\n      "tools": [\n        "*"\n      ],\n      "type": "local",\n      "command": "echo"\n    }\n  }\n}',
  ],
  ['qwen', '.qwen/settings.json', '{\n  // mine\n  "tools": { "approvalMode": "default" }\n}\n'],
  ['kimi', '.kimi-code/mcp.json', '{"mcpServers":{}}'],
  [
    'opencode',
    '.config/opencode/opencode.json',
    '{\n  "$schema": "https://opencode.ai/config.json",\n  "model": "a/b" /* best */\n}\n',
  ],
  [
    'opencode',
    '.config/opencode/opencode.jsonc',
    '// mine\n{\n  "mcp": { "a": { "type": "remote", "url": "x", }, },\n}\n',
  ],
  [
    'codex',
    '.codex/config.toml',
    '# mine\nmodel = "gpt"\n\n[mcp_servers.other]   # keep\ncommand = "x"\nargs = [ "a",\n  "b" ]\n',
  ],
  ['codex', '.codex/config.toml', 'model = "gpt"'],
  ['codex', '.codex/config.toml', '\r\n# windows\r\n[tui]\r\ntheme = "dark"\r\n'],
  ['codex', '.codex/config.toml', ''],
];

describe('asp connect and asp disconnect', () => {
  for (const [agent, path, text] of SETTINGS)
    it(`${agent}: disconnect restores every byte of ${JSON.stringify(text).slice(0, 60)}`, async () => {
      writeFile(path, text, 0o640);
      chmodSync(at(path), 0o640);
      const before = everything();
      await must(`connect ${agent}`);
      expect(read(path)).toContain('@alice.bot');
      expect(statSync(at(path)).mode & 0o777).toBe(0o640);
      for (const line of text.split(/\r?\n/).filter((each) => /\w\w/.test(each) && each.length < 60 && text.length > 4))
        expect(read(path).replaceAll(/\s/g, '')).toContain(
          line
            .replaceAll(/[\s,}]+$/g, '')
            .replaceAll(/\s/g, '')
            .slice(0, 12),
        );
      await must(`connect ${agent}`);
      await must(`disconnect ${agent}`);
      expect(everything()).toEqual(before);
    });

  for (const agent of ['claude-code', 'codex', 'opencode', 'gemini', 'copilot', 'qwen', 'kimi', 'cursor'])
    it(`${agent}: without settings, disconnect leaves nothing behind`, async () => {
      const before = everything();
      const { out } = await must(`connect ${agent} --json`);
      const files = (JSON.parse(out) as { files: { path: string; action: string }[] }).files;
      expect(files.every(({ path, action }) => action === 'create' && existsSync(path))).toBe(true);
      const again = JSON.parse((await must(`connect ${agent} --json`)).out) as { files: { action: string }[] };
      expect(again.files.map(({ action }) => action)).toEqual(files.map(() => 'keep'));
      await must(`disconnect ${agent}`);
      expect(everything()).toEqual(before);
      expect((await must(`disconnect ${agent}`)).err).toContain('is not connected');
    });

  it('--dry-run prints each file with its changes and writes nothing', async () => {
    writeFile('.codex/config.toml', 'model = "gpt"\n');
    const before = everything();
    const { out, err } = await must('connect codex --dry-run');
    expect(out).toContain(`change ${at('.codex/config.toml')}`);
    expect(out).toContain('+[mcp_servers.asp]');
    expect(out).toContain(`create ${at('.codex/skills/asp/SKILL.md')}`);
    expect(out).not.toContain('-model');
    expect(err).toContain('Nothing was changed');
    expect(everything()).toEqual(before);
    await must('connect codex');
    const dry = await must('disconnect codex --dry-run');
    expect(dry.out).toContain('-[mcp_servers.asp]');
    expect(read('.codex/config.toml')).toContain('[mcp_servers.asp]');
  });

  it('the monitor, the tools and the skill of Claude Code name the agent and the service', async () => {
    await must('connect claude-code --as carol.bot', { CLAUDE_CONFIG_DIR: at('elsewhere') });
    const plugin = 'elsewhere/skills/asp';
    const [monitor] = JSON.parse(read(`${plugin}/monitors/monitors.json`)) as { command: string }[];
    expect(monitor?.command).toBe('asp tail --for-agent --join -p http://127.0.0.1:9/v1 --as @carol.bot');
    expect(JSON.parse(read(`${plugin}/.claude-plugin/plugin.json`))).toMatchObject({
      name: 'asp',
      mcpServers: { asp: { command: 'asp', args: ['mcp', '-p', 'http://127.0.0.1:9/v1', '--as', '@carol.bot'] } },
    });
    expect(read(`${plugin}/SKILL.md`)).toMatch(/^---\nname: asp\n/);
  });

  it('connecting as another agent replaces the entry', async () => {
    writeFile('.codex/config.toml', '# mine\n');
    await must('connect codex');
    await must('connect codex --as carol.bot');
    expect(read('.codex/config.toml').match(/mcp_servers/g)).toHaveLength(1);
    expect(read('.codex/config.toml')).toContain('@carol.bot');
    await must('disconnect codex');
    expect(read('.codex/config.toml')).toBe('# mine\n');
  });

  it('additions by others stay, and so do their changes to our entry', async () => {
    writeFile('.gemini/settings.json', '{\n  "theme": "x"\n}\n');
    await must('connect gemini');
    writeFile(
      '.gemini/settings.json',
      read('.gemini/settings.json').replace('"theme": "x"', '"theme": "y", "new": {"a": 1}'),
    );
    await must('disconnect gemini');
    expect(read('.gemini/settings.json')).toBe('{\n  "theme": "y", "new": {"a": 1}\n}\n');
    await must('connect gemini');
    const changed = read('.gemini/settings.json').replace('"mcp"', '"mcp", "--read-only"');
    writeFile('.gemini/settings.json', changed);
    writeFile('.gemini/skills/asp/SKILL.md', 'mine now');
    const { err } = await must('disconnect gemini');
    expect(err).toContain('mcpServers.asp was changed since it was written, so it stays');
    expect(err).toContain('SKILL.md: it was changed since it was written');
    expect(read('.gemini/settings.json')).toBe(changed);
    expect(read('.gemini/skills/asp/SKILL.md')).toBe('mine now');
  });

  it('--force replaces an entry of ours that someone changed, and disconnect restores the rest', async () => {
    writeFile('.gemini/settings.json', '{\n  "theme": "x" // mine\n}\n');
    await must('connect gemini');
    const edited = read('.gemini/settings.json').replace('"mcp"', '"mcp", "--read-only"');
    writeFile('.gemini/settings.json', edited);
    expect(await run('connect gemini')).toMatchObject({ code: 6, err: expect.stringContaining('with --force') });
    expect(read('.gemini/settings.json')).toBe(edited);
    await must('connect gemini --force');
    expect(read('.gemini/settings.json')).not.toContain('--read-only');
    await must('disconnect gemini');
    expect(read('.gemini/settings.json')).toBe('{\n  "theme": "x" // mine\n}\n');

    await must('connect codex');
    const table = read('.codex/config.toml').replace('"mcp"', '"mcp", "--read-only"');
    writeFile('.codex/config.toml', table);
    const { code, err } = await run('connect codex --force');
    expect({ code, err }).toMatchObject({ code: 6, err: expect.stringContaining('Remove it yourself') });
    expect(read('.codex/config.toml')).toBe(table);
  });

  it.each([
    [
      'gemini',
      '.gemini/settings.json',
      '{\n  "a": 1,\n  "b" 2\n}',
      /settings\.json:3:\d+ cannot be parsed as JSON: colon expected/,
    ],
    ['gemini', '.gemini/settings.json', '[1]', /settings\.json cannot be parsed as JSON: it is not an object/],
    [
      'gemini',
      '.gemini/settings.json',
      '{"mcpServers": 3}',
      /has a form to which asp cannot add mcpServers\.asp\.\n.*Add this by hand: "mcpServers": \{"asp":\{"command":/,
    ],
    ['codex', '.codex/config.toml', 'a = 1\nb == 2\n', /config\.toml:2:\d+ cannot be parsed as TOML/],
    [
      'codex',
      '.codex/config.toml',
      'mcp_servers = { a = { command = "x" } }\n',
      /Add this by hand: \[mcp_servers\.asp\] command = ".+" args = \[/,
    ],
    [
      'codex',
      '.codex/config.toml',
      '[mcp_servers.asp]\ncommand = "mine"\n',
      /already has mcp_servers\.asp, and it is not from asp connect/,
    ],
    ['gemini', '.gemini/settings.json', Buffer.from([0x7b, 0xff, 0x7d]), /cannot be changed[\s\S]*not UTF-8/],
    ['claude-code', '.claude/skills/asp/SKILL.md', 'mine', /SKILL\.md exists and is not from asp/],
  ])('%s: refuses %s if it cannot change it safely, and changes nothing', async (agent, path, text, message) => {
    writeFile(path, text);
    const before = everything();
    for (const line of [`connect ${agent} --dry-run`, `connect ${agent}`]) {
      const { code, err } = await run(line);
      expect(err).toMatch(message);
      expect(code).toBeGreaterThan(1);
    }
    expect(everything()).toEqual(before);
  });

  it('refuses a read-only file, a folder and a broken link, and writes through a link to a file', async () => {
    writeFile('.gemini/settings.json', '{}', 0o444);
    chmodSync(at('.gemini/settings.json'), 0o444);
    expect((await run('connect gemini')).err).toContain('it is read-only');
    unlinkSync(at('.gemini/settings.json'));
    mkdirSync(at('.gemini/settings.json'));
    expect((await run('connect gemini')).err).toContain('it is not a file');
    symlinkSync('nowhere', at('.cursor-link'));
    mkdirSync(at('.cursor'));
    symlinkSync('../.cursor-link', at('.cursor/mcp.json'));
    expect((await run('connect cursor')).err).toContain('a broken link');
    unlinkSync(at('.cursor/mcp.json'));
    writeFile('dotfiles/mcp.json', '{ "mcpServers": {} }\n');
    symlinkSync('../dotfiles/mcp.json', at('.cursor/mcp.json'));
    await must('connect cursor');
    expect(lstatSync(at('.cursor/mcp.json')).isSymbolicLink()).toBe(true);
    expect(read('dotfiles/mcp.json')).toContain('@alice.bot');
    await must('disconnect cursor');
    expect(read('dotfiles/mcp.json')).toBe('{ "mcpServers": {} }\n');
    expect(lstatSync(at('.cursor/mcp.json')).isSymbolicLink()).toBe(true);
  });

  it('refuses a record that is damaged or that others can write', async () => {
    await must('connect codex');
    const record = '.local/state/asp-cli/connect.json';
    const text = read(record);
    writeFile(record, '{');
    expect((await run('disconnect codex')).err).toMatch(/connect\.json is damaged/);
    writeFile(record, text);
    chmodSync(at(record), 0o666);
    const { code, err } = await run('disconnect codex');
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining('other users can read or write') });
    chmodSync(at(record), 0o600);
    await must('disconnect codex');
  });

  it('two runs at once have the same result as one after another', async () => {
    writeFile('.codex/config.toml', '# mine\n');
    await Promise.all([must('connect codex'), must('connect codex'), must('connect gemini')]);
    expect(read('.codex/config.toml').match(/mcp_servers\.asp/g)).toHaveLength(1);
    const { out } = await must('connect --list --json');
    const { items } = JSON.parse(out) as { items: { agent: string; connected: boolean }[] };
    expect(items.filter(({ connected }) => connected).map(({ agent }) => agent)).toEqual(['codex', 'gemini']);
    await Promise.all([must('disconnect codex'), must('disconnect gemini')]);
    expect(read('.codex/config.toml')).toBe('# mine\n');
  });

  it('--list says what wakes each coding agent, and which version was tested', async () => {
    const { out, err } = await must('connect --list');
    expect(out).toMatch(/^claude-code\tno\tits monitor\t2\.1\.\d+$/m);
    expect(out).toMatch(/^gemini\tno\tasp run --acp\t0\.61\.0$/m);
    expect(out).toMatch(/^qwen\tno\tasp mcp --wake\t0\.24\.4$/m);
    expect(out).toMatch(/^cursor\tno\tasp run --acp\tnot measured$/m);
    expect(err).toContain('Unless one of these wakes it, a coding agent reads messages only while it works.');
  });

  it('says whether anything changed, and to restart the coding agent if so', async () => {
    const restart = 'Restart it to load the changes.';
    expect((await must('connect gemini')).err).toContain(`Gemini CLI is connected as @alice.bot. ${restart}`);
    expect((await must('connect gemini')).err).toContain('folders that you trust: enter /permissions trust there.');
    expect((await must('connect gemini')).err).toContain(
      'Gemini CLI was already connected as @alice.bot; nothing was changed.',
    );
    expect((await must('disconnect gemini --dry-run')).err).not.toContain(restart);
    expect((await must('disconnect gemini')).err).toContain(`Gemini CLI is no longer connected. ${restart}`);
    expect((await must('disconnect gemini')).err).toContain('Gemini CLI is not connected.');
  });

  it('without asp on the PATH, the entry starts this Node.js with this script', async () => {
    await must('connect gemini', { PATH: '/nowhere' });
    const { mcpServers } = JSON.parse(read('.gemini/settings.json')) as { mcpServers: Record<string, unknown> };
    expect(mcpServers['asp']).toMatchObject({ command: '/opt/node', args: ['/opt/asp.js', 'mcp', ...PLACE] });
  });
});

describe('asp skill', () => {
  it('install writes the skill, and replaces only what asp wrote', async () => {
    await must('skill install codex');
    expect(read('.codex/skills/asp/SKILL.md')).toBe(`${(await must('skill show')).out}`);
    writeFile('.codex/skills/asp/SKILL.md', 'changed');
    const { code, err } = await run('skill install codex');
    expect(code).toBe(6);
    expect(err).toContain('SKILL.md was changed since asp wrote it');
    await must('skill install codex --force');
    await must('disconnect codex');
    expect(existsSync(at('.codex'))).toBe(false);
  });

  it('--project installs it in the working folder, where disconnect leaves it', async () => {
    await must('skill install claude-code --project');
    await must('connect claude-code');
    await must('disconnect claude-code');
    expect(existsSync(at('.claude'))).toBe(false);
    expect(existsSync(at('project/.claude/skills/asp/SKILL.md'))).toBe(true);
  });
});
