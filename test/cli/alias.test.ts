import { chmodSync, existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { freshHome, type Ran, runWords } from './captured-run.js';

/** Creates a home and returns a function that runs asp in it with these environment variables. */
function startHome(environment: Record<string, string> = {}) {
  const home = freshHome();
  const asp = (words: string | readonly string[], more: Record<string, string> = {}): Promise<Ran> =>
    runWords(words, {
      environment: { PATH: '/usr/bin:/bin', ...environment, ...more },
      machine: { homeDirectory: home },
    });
  return { home, asp, file: join(home, '.config', 'asp-cli', 'config.json') };
}

const errorIn = ({ err }: Ran): { code: string; message: string; hint?: string; next?: string[] } =>
  (JSON.parse(err.trim().split('\n').at(-1) ?? '') as { error: never }).error;

describe('an alias', () => {
  it('is replaced by its words, with options before it and everything after it', async () => {
    const { asp } = startHome();
    expect(await asp(['alias', 'set', 'why', '--', 'explain', 'ASP_USAGE'])).toMatchObject({ code: 0, out: 'why\n' });
    const direct = await asp('explain ASP_USAGE --json');
    expect((await asp('why --json')).out).toBe(direct.out);
    expect((await asp('--json why')).out).toBe(direct.out);
    // The first `why` is the value of an option, not the alias.
    expect((await asp('--jq .code --profile why why')).out).toBe('ASP_USAGE\n');
    expect((await asp('why extra')).code).toBe(2);
  });

  it('keeps each word intact, without a shell', async () => {
    const { asp } = startHome();
    await asp(['alias', 'set', 'say', '--', 'send', '@a.bot', "it's $HOME; *", '--dry-run', '--json']);
    const { out } = await asp('say -p https://service.example/v1', { ASP_TOKEN: 'x' });
    expect(out).toContain(`"it's $HOME; *"`);
    expect((await asp('alias list')).out).toBe("say\tsend @a.bot 'it'\\''s $HOME; *' --dry-run --json\n");
  });

  it('is stored even if other commands change the settings at the same time', async () => {
    const { asp } = startHome();
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    const changes = [
      ...names.map((name) => asp(['alias', 'set', name, '--', 'explain', 'ASP_USAGE'])),
      asp('config set local_agent @demo.you'),
      asp('profile add work --base-url https://service.example/v1'),
    ];
    for (const { code } of await Promise.all(changes)) expect(code).toBe(0);
    const { items } = JSON.parse((await asp('alias list --json')).out) as { items: { name: string }[] };
    expect(items.map(({ name }) => name).toSorted()).toEqual(names);
    expect((await asp('config get local_agent')).out).toBe('@demo.you\n');
    expect((await asp('config get profiles.work.base_url')).out).toBe('https://service.example/v1\n');
  });

  it('can replace a noun', async () => {
    const { asp } = startHome();
    await asp('alias set c -- config');
    expect((await asp('c path')).out).toContain('config.json');
    expect((await asp('c --help')).out).toContain('change settings of this machine');
  });

  it('never hides a command of asp, and comes before a program on the PATH', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'asp-path-'));
    writeFileSync(join(folder, 'asp-greet'), '#!/bin/sh\nexit 7\n');
    chmodSync(join(folder, 'asp-greet'), 0o755);
    const { asp, file } = startHome({ PATH: folder });
    expect((await asp('greet')).code).toBe(7);
    await asp('alias set greet -- config path');
    expect(await asp('greet')).toMatchObject({ code: 0, out: `${file}\n` });
    for (const name of ['send', 'session', 'sessions', 'tail'])
      expect(errorIn(await asp(`alias set ${name} --json -- version`)).message, name).toContain('is a command of asp');
    // Even an alias written by hand cannot replace a command.
    writeFileSync(file, JSON.stringify({ aliases: { version: ['config', 'path'] } }));
    expect((await asp('version')).out).toBe('1.2.3\n');
  });

  it('is not expanded within another alias, so that none can loop', async () => {
    const { asp, file } = startHome();
    await asp('alias set one -- version');
    const refused = await asp('alias set two -- one --json');
    expect(refused.code).toBe(2);
    expect(refused.err).toContain("'one' is an alias, and an alias cannot begin with another one.");
    expect(refused.err).toContain('asp alias set two -- version --json');
    writeFileSync(file, JSON.stringify({ aliases: { loop: ['loop'], two: ['one'], one: ['version'] } }));
    for (const name of ['loop', 'two']) expect(errorIn(await asp(`${name} --json`)).code, name).toBe('ASP_USAGE');
  });

  it('is refused with the line that would work', async () => {
    const { asp, file } = startHome();
    const quoted = await asp(['alias', 'set', 'mine', 'session list']);
    expect(quoted.err).toContain("error: asp 'session list' is not a command.");
    expect(quoted.err).toContain('asp alias set mine -- session list');
    const proposal = async (command: string): Promise<unknown> => {
      const { next } = errorIn(await asp(['alias', 'set', 'hi', command, '--json']));
      return next?.slice(5);
    };
    // Its words are those that a shell makes of the text: quotes group, and are not part of the message.
    expect(await proposal('send @demo.echo "hi there"')).toEqual(['send', '@demo.echo', 'hi there']);
    expect(await proposal(`send @a.bot 'say "hi"'  ""  --end`)).toEqual(['send', '@a.bot', 'say "hi"', '', '--end']);
    expect(await proposal(String.raw`send @a.bot it\'s "\"50\\\$\" \n"'!'`)).toEqual([
      ...['send', '@a.bot', "it's", String.raw`"50\$" \n!`],
    ]);
    // A text without its last quote has no words to propose.
    expect(await proposal('send @a.bot "hi')).toBeUndefined();
    for (const name of ['Mine', '-x', 'a b', '9', 'a'.repeat(51)])
      expect((await asp(['alias', 'set', '--', name, 'version'])).code, name).toBe(2);
    expect((await asp('alias set mine -- nonsense')).code).toBe(2);
    expect((await asp('alias set mine')).code).toBe(2);
    expect(existsSync(file)).toBe(false);
  });

  it('says what it replaced, and goes away when removed', async () => {
    const { asp } = startHome();
    await asp('alias set mine -- session list');
    expect((await asp('alias set mine -- session list')).err).toBe('');
    expect((await asp('alias set mine -- inbox')).err).toBe('It was: asp session list\n');
    expect(JSON.parse((await asp('alias remove mine --json')).out)).toEqual({
      ...{ name: 'mine', words: ['inbox'], removed: true },
    });
    expect((await asp('alias remove mine')).code).toBe(3);
    expect((await asp('mine')).code).toBe(2);
  });
});

describe('config edit', () => {
  const editing = (script: string) => {
    const place = startHome();
    const editor = join(place.home, 'editor.sh');
    writeFileSync(editor, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    const edit = (words = '') => place.asp(`config edit ${words}`, { VISUAL: '', EDITOR: `${editor} ${place.file}` });
    return { ...place, edit };
  };

  const keptText = (err: string): string => readFileSync(/^Your text is in (\S+)\.$/m.exec(err)?.[1] ?? '', 'utf8');

  it('replaces the settings with the text of the editor', async () => {
    const { asp, edit, file } = editing(
      `grep -q '"profiles": {}' "$2" && echo '{"settings":{"local_agent":"@a.bot"}}' > "$2"`,
    );
    expect(await edit()).toMatchObject({ code: 0, out: `${file}\n`, err: '' });
    expect((await asp('config get local_agent')).out).toBe('@a.bot\n');
    expect(statSync(file).mode & 0o077).toBe(0);
  });

  it('changes nothing if the text is unchanged', async () => {
    const { edit, file } = editing('true');
    const { out, err } = await edit('--json');
    expect(JSON.parse(out)).toEqual({ config: file, changed: false });
    expect(err).toContain('Nothing was changed.');
    expect(existsSync(file)).toBe(false);
  });

  it('keeps an invalid text, and says where it is', async () => {
    const { asp, edit, file } = editing(`echo '{"profiles":{"work":{}}}' > "$2"`);
    await asp('config set local_agent a.bot');
    const before = readFileSync(file, 'utf8');
    const { err } = await edit();
    expect(err).toContain('The settings are not valid. Nothing was changed.');
    expect(err).toContain('profiles.work.base_url is missing.');
    expect(keptText(err)).toBe('{"profiles":{"work":{}}}\n');
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  it('keeps both texts when the file changed in the meantime', async () => {
    const { asp, edit, file } = editing(`echo '{}' > "$2"; echo '{"settings":{"local_agent":"@b.bot"}}' > "$1"`);
    await asp('config set local_agent a.bot');
    const { err } = await edit();
    expect(err).toContain('Someone else changed the settings in the meantime. Nothing was changed.');
    expect(keptText(err)).toBe('{}\n');
    expect(readFileSync(file, 'utf8')).toContain('@b.bot');
  });

  it('keeps the text if it cannot be stored', async () => {
    const { home, edit } = editing(`echo '{}' > "$2"`);
    writeFileSync(join(home, '.config'), 'a file where the folder should be');
    const { code, err } = await edit();
    expect(code).toBe(2);
    expect(keptText(err)).toBe('{}\n');
  });

  it('replaces a file that asp cannot read', async () => {
    const { asp, edit, file } = editing(`echo '{}' > "$2"`);
    await asp('config set local_agent a.bot');
    writeFileSync(file, '{ broken');
    expect((await asp('config list')).err).toContain('asp config edit');
    expect((await edit()).code).toBe(0);
    expect((await asp('config list')).code).toBe(0);
  });
});
