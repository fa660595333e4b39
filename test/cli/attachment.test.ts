import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { safeFilename, saveFile } from '../../src/cli/commands/attachment/transfer.js';
import { systemRandom } from '../../src/kit/random.js';
import { ANY_CHARACTER } from '../support/hostile-text.js';
import { documentOf, type Stage, startStage } from './acting.js';
import { optionsOf, runWords } from './captured-run.js';

const ID = `att_${'0'.repeat(26)}`;
const folderOf = (): string => mkdtempSync(join(tmpdir(), 'asp-files-'));

describe('the words of attachment', () => {
  it.each([
    ['attachment upload a.txt b.pdf', { paths: ['a.txt', 'b.pdf'] }],
    ['attachment upload - --filename a.txt', { paths: ['-'], filename: 'a.txt' }],
    [`attachments download ${ID} -o -`, { ids: [ID], output: '-' }],
    [`attachment download ${ID} --dir x --force`, { directory: 'x', isForced: true }],
    [`attachment download ${ID} --max-size 64K`, { maxBytes: 65_536 }],
    [`attachment download ${ID} --max-size 2g`, { maxBytes: 2_147_483_648 }],
    [`attachment show ${ID}`, { id: ID }],
  ])('asp %s', async (line, options) => expect(await optionsOf(line)).toMatchObject(options));

  it.each([
    [`attachment download ${ID},att_${'1'.repeat(26)} -o x`, /for one attachment/],
    [`attachment download ${ID} -o x --dir y`, /cannot be used together/],
    [`attachment download ${ID} -o - --json`, /cannot be used together/],
    [`attachment download ${ID} -o - --jq .id`, /--output and --jq cannot be used together/],
    ['attachment download a.b', /is a handle/],
    [`attachment download ${ID} --max-size much`, /is not a size/],
    ['attachment upload - -', /once/],
    ['attachment upload a.txt --filename b.txt', /standard input/],
  ])('asp %s is refused with exit 2', async (line, said) => {
    const { code, err } = await runWords(line);
    expect(err).toMatch(said);
    expect(code).toBe(2);
  });
});

describe('what a service calls a file', () => {
  it.each([
    ['report.pdf', 'report.pdf'],
    ['../../.ssh/authorized_keys', 'authorized_keys'],
    ['C:\\Windows\\system32\\a.dll', 'a.dll'],
    ['..', 'file'],
    ['.bashrc', 'bashrc'],
    ['-rf', 'rf'],
    ['a\u0000b\u202etxt.exe', 'a b txt.exe'],
    ['CON.txt', '_CON.txt'],
    ['nul .txt', '_nul .txt'],
    ['COM¹.txt', '_COM¹.txt'],
    ['a;rm -rf $HOME`x`.txt', 'a_rm -rf _HOME_x_.txt'],
    ['日本.txt', '日本.txt'],
    ['', 'file'],
  ])('%j becomes %j', (given, name) => expect(safeFilename(given)).toBe(name));

  it('becomes a single file name in a folder', () =>
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER, maxLength: 400 }), (given) => {
        const name = safeFilename(given);
        expect(name).not.toMatch(/[/\\\p{C}]|^[.\- ]|[. ]$/u);
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(180);
        expect(name.length).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    ));
});

describe('A saved file', () => {
  const bytes = async function* (text: string): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  };
  const save = (path: string, isForced = false): Promise<void> =>
    saveFile(path, bytes('new'), { isForced, random: systemRandom });

  it('replaces nothing, neither a file nor a link, and leaves no trace', async () => {
    const folder = folderOf();
    writeFileSync(join(folder, 'there'), 'old');
    writeFileSync(join(folder, 'target'), 'old');
    symlinkSync(join(folder, 'target'), join(folder, 'linked'));
    symlinkSync(join(folder, 'nowhere'), join(folder, 'dangling'));
    for (const name of ['there', 'linked', 'dangling'])
      await expect(save(join(folder, name))).rejects.toMatchObject({ code: 'ASP_FILE_EXISTS' });
    expect(readFileSync(join(folder, 'target'), 'utf8')).toBe('old');
    expect(readdirSync(folder).sort()).toEqual(['dangling', 'linked', 'target', 'there']);
  });

  it('replaces with force a link itself, but never its target or a folder', async () => {
    const folder = folderOf();
    writeFileSync(join(folder, 'target'), 'old');
    symlinkSync(join(folder, 'target'), join(folder, 'linked'));
    mkdirSync(join(folder, 'sub'));
    await save(join(folder, 'linked'), true);
    expect(lstatSync(join(folder, 'linked')).isFile()).toBe(true);
    expect(readFileSync(join(folder, 'target'), 'utf8')).toBe('old');
    await expect(save(join(folder, 'sub'), true)).rejects.toThrow(/is a folder/);
  });

  it('is not written if its bytes are incomplete', async () => {
    const folder = folderOf();
    const broken = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half');
      throw new Error('cut');
    };
    const path = join(folder, 'a');
    await expect(saveFile(path, broken(), { isForced: false, random: systemRandom })).rejects.toThrow('cut');
    expect(readdirSync(folder)).toEqual([]);
  });

  it('does not replace a file that appears in the meantime', async () => {
    const path = join(folderOf(), 'a');
    const slow = async function* (): AsyncGenerator<Uint8Array> {
      writeFileSync(path, 'someone else');
      yield Buffer.from('new');
    };
    await expect(saveFile(path, slow(), { isForced: false, random: systemRandom })).rejects.toMatchObject({
      code: 'ASP_FILE_EXISTS',
    });
    expect(readFileSync(path, 'utf8')).toBe('someone else');
  });
});

describe('attachments on a service', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
  });
  afterAll(() => stage.stop());

  const sendFile = async (text: string | Uint8Array, name = 'notes.txt'): Promise<{ id: string; session: string }> => {
    const { alice, bob } = stage;
    const id = (await stage.as(alice, `attachment upload - --filename ${name}`, { stdin: text })).out.trim();
    const sent = documentOf(await stage.as(alice, `send ${bob.handle} see --attach ${id} --json`));
    const session = String(sent['session_id']);
    await stage.as(bob, `session join ${session}`);
    return { id, session };
  };

  it('upload prints ids; --dry-run sends nothing; unsupported files are refused in advance', async () => {
    const folder = folderOf();
    writeFileSync(join(folder, 'a.txt'), 'a');
    writeFileSync(join(folder, 'b.png'), 'no picture');
    const words = ['attachment', 'upload', join(folder, 'a.txt')];
    expect((await stage.as(stage.alice, words)).out).toMatch(/^att_\w{26}\n$/);
    expect((await stage.as(stage.alice, [...words, '--dry-run'])).out).toBe('a.txt\ttext/plain\t1\n');
    const refused = await stage.as(stage.alice, [...words, join(folder, 'b.png')]);
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect((await stage.as(stage.alice, ['attachment', 'upload', folder])).code).toBe(2);
  });

  it('download writes the same bytes under the name it was sent with, once', async () => {
    const { id } = await sendFile('the text');
    const folder = folderOf();
    const words = ['attachment', 'download', id, '--dir', folder];
    const first = await stage.as(stage.bob, words);
    expect(first).toMatchObject({ code: 0, out: `${join(folder, 'notes.txt')}\n` });
    expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe('the text');
    expect(statSync(join(folder, 'notes.txt')).mode & 0o111).toBe(0);
    const again = await stage.as(stage.bob, words);
    expect(again).toMatchObject({ code: 6, out: '' });
    expect(again.err).toContain('already exists');
    expect((await stage.as(stage.bob, [...words, '--force'])).code).toBe(0);
    const json = documentOf(
      await stage.as(stage.bob, ['attachment', 'download', id, '-o', join(folder, 'x'), '--json']),
    );
    expect(json['items']).toEqual([
      { id, path: join(folder, 'x'), filename: 'notes.txt', content_type: 'text/plain', size: 8 },
    ]);
  });

  it('download -o creates the folder it names', async () => {
    const { id } = await sendFile('deep');
    const path = join(folderOf(), 'new', 'deep.txt');
    expect(await stage.as(stage.bob, ['attachment', 'download', id, '-o', path])).toMatchObject({ code: 0 });
    expect(readFileSync(path, 'utf8')).toBe('deep');
  });

  it('download refuses what is larger than --max-size, and says how to accept it', async () => {
    const { id } = await sendFile('more than ten bytes');
    const { code, err } = await stage.as(stage.bob, ['attachment', 'download', id, '--max-size', '10', '--json']);
    expect(code).toBe(2);
    expect(JSON.parse(err).error).toMatchObject({
      code: 'ASP_FILE_TOO_LARGE',
      message: expect.stringContaining('The attachment has 19 bytes; the maximum is 10.'),
      hint: expect.stringContaining('--max-size'),
    });
  });

  it('download -o - is the bytes and nothing else', async () => {
    const { id } = await sendFile('only this');
    expect(await stage.as(stage.bob, `attachment download ${id} -o -`)).toMatchObject({ code: 0, out: 'only this' });
  });

  it('download -o - shows a terminal only text, without characters that could control it', async () => {
    const { id } = await sendFile('a\u001b[31mred');
    const shown = await stage.as(stage.bob, `attachment download ${id} -o -`, { isTerminal: true });
    expect(shown).toMatchObject({ code: 0, out: 'a[31mred\n' });
    const picture = await sendFile(Buffer.from('89504e470d0a1a0a001b5d303b', 'hex'), 'p.png');
    const refused = await stage.as(stage.bob, `attachment download ${picture.id} -o -`, { isTerminal: true });
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect(refused.err).toContain(`asp attachment download ${picture.id}`);
    expect((await stage.as(stage.bob, `attachment download ${picture.id} -o -`)).code).toBe(0);
  });

  it('several, one of which is not available, are exit 10, and the written ones are reported', async () => {
    const { id } = await sendFile('one', 'one.txt');
    const { code, out, err } = await stage.as(stage.bob, ['attachment', 'download', id, ID, '--dir', folderOf()]);
    expect(code).toBe(10);
    expect(out).toMatch(/one\.txt\n$/);
    expect(err).toContain(`error: Downloaded 1 of 2; ${ID} failed.\n`);
    const rest = await sendFile('two', 'two.txt');
    const more = await stage.as(stage.bob, ['attachment', 'download', id, ID, rest.id, '--dir', folderOf()]);
    expect(more.err).toContain(`error: Downloaded 1 of 3; ${ID} failed, and the rest were not tried.\n`);
  });

  it('uploads end at the first failure: exit 10, the ids of the others, and what was not tried', async () => {
    const folder = folderOf();
    const [one, bad, rest] = ['one.txt', 'bad.txt', 'rest.txt'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(one, 'one');
    writeFileSync(bad, `${'a'.repeat(100_000)}\u0000`);
    writeFileSync(rest, 'rest');
    const { code, out, err } = await stage.as(stage.alice, ['attachment', 'upload', one, bad, rest]);
    expect({ code, err }).toMatchObject({
      code: 10,
      err: expect.stringContaining('error: Uploaded 1 of 3; bad.txt failed, and the rest were not tried.\n'),
    });
    expect(out).toMatch(/^att_\w{26}\n$/);
  });

  it('show and list describe them', async () => {
    const { id, session } = await sendFile('shown', 'shown.txt');
    expect(documentOf(await stage.as(stage.bob, `attachment show ${id} --json`))).toMatchObject({ id, size: 5 });
    const { items } = documentOf(await stage.as(stage.bob, `attachment list ${session} --json`));
    expect(items).toMatchObject([{ id, type: 'file', filename: 'shown.txt', size: 5, sender: stage.alice.handle }]);
    expect((await stage.as(stage.bob, `attachment show ${ID}`)).code).toBe(3);
  });
});

describe('--as-text', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
  });
  afterAll(() => stage.stop());

  it('sends source code as plain text under its own name, and nothing that is not text', async () => {
    const folder = folderOf();
    const write = (name: string, bytes: string | Uint8Array): string => {
      writeFileSync(join(folder, name), bytes);
      return join(folder, name);
    };
    const [code, note] = [write('main.ts', 'let a = 1;\n'), write('note.md', '# A')];
    const refused = await stage.as(stage.alice, ['attachment', 'upload', code]);
    expect(refused.code).toBe(2);
    expect(refused.err).toContain('To send it as plain text, add --as-text.');
    const types = async (words: readonly string[], options = {}): Promise<unknown> => {
      const reply = documentOf(await stage.as(stage.alice, ['attachment', 'upload', ...words, '--json'], options));
      const { items = [reply] } = reply as { items?: readonly Record<string, unknown>[] };
      return items.map(({ filename, content_type: type }) => [filename, type]);
    };
    expect(await types([code, note, '--as-text'])).toEqual([
      ['main.ts', 'text/plain'],
      ['note.md', 'text/markdown'],
    ]);
    expect(await types(['-', '--as-text'], { stdin: 'diff' })).toEqual([['stdin.txt', 'text/plain']]);
    const program = write('a.out', Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 0, 1]));
    const binary = await stage.as(stage.alice, ['attachment', 'upload', program, '--as-text']);
    expect(binary).toMatchObject({
      code: 2,
      err: expect.stringContaining('a.out is not a text file. Nothing was sent.'),
    });
    const picture = write('a.png', 'not a picture');
    expect((await stage.as(stage.alice, ['attachment', 'upload', picture, '--as-text'])).err).toContain(
      'is not a valid image/png file',
    );
    expect((await stage.as(stage.alice, ['send', stage.bob.handle, 'hi', '--as-text'])).code).toBe(2);
  });
});
