import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { startTestService } from '../../support/service.js';
import { freshHome, runWords, writeFileIn } from '../captured-run.js';

describe('asp serve --key-file', () => {
  const home = freshHome();
  const write = (name: string, text: string, mode?: number): string => writeFileIn(home, name, text, mode);

  it.each([
    ['that is missing', join(home, 'none'), /does not exist/],
    ['that others can read', write('open', 'a'.repeat(64), 0o644), /other users can read or write it/],
    ['that is empty', write('empty', ''), /contains no secret/],
    ['with a key that is too short', write('short', 'CANARY'), /has a line that is not a key.*32 random bytes/s],
    ['with a line that is not a key', write('second', `${'a'.repeat(64)}\nCANARY`), /has a line that is not a key/],
  ])('a file %s is refused with the reason, which repeats no key', async (_, path, reason) => {
    const { code, out, err } = await runWords(`serve --port 0 --data memory --key-file ${path}`);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(reason);
    expect(err).not.toContain('CANARY');
  });

  it('a service whose keys are sealed does not start without it, or with another', async () => {
    const directory = join(home, 'data');
    const key = Buffer.alloc(32, 7);
    const holdsClearKey = async (keySecrets: Buffer[], folder: string): Promise<boolean> => {
      await (await startTestService({ data: { directory: folder }, keySecrets })).stop();
      return readFileSync(join(folder, 'asp.sqlite')).includes('"dp":"');
    };
    expect(await holdsClearKey([], join(home, 'clear'))).toBe(true);
    expect(await holdsClearKey([key], directory)).toBe(false);
    const other = write('other', `${Buffer.alloc(32, 8).toString('base64')}\n`);
    for (const [words, reason] of [
      ['', /sealed, and the service has no key file/],
      [`--key-file ${other}`, /sealed with a key that is not in the key file/],
    ] as const) {
      const { code, out, err } = await runWords(`serve --port 0 --data ${directory} ${words}`);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(err).toMatch(reason);
    }
  });

  it('a restored service whose keys are sealed is started with it, as asp serve restore says', async () => {
    const restore = async (keySecrets: Buffer[], words: string): Promise<string> => {
      const name = `saved ${keySecrets.length}${words}`.replaceAll(/\W/g, '-');
      const [from, file, to] = [join(home, name), join(home, `${name}.tar`), join(home, `${name}-again`)];
      await (await startTestService({ data: { directory: from }, keySecrets })).stop();
      expect(await runWords(`serve backup ${file} --data ${from} ${words}`)).toMatchObject({ code: 0 });
      const { code, err } = await runWords(`serve restore ${file} --data ${to}`);
      expect(code).toBe(0);
      return err.replace(to, 'DIR');
    };
    const key = Buffer.alloc(32, 7);
    expect(await restore([key], '--with-keys')).toBe(
      'Restored. The signing keys are sealed: name the file with their key. Start it with: asp serve --data DIR --key-file <path>\n',
    );
    const plain = 'Restored. Start it with: asp serve --data DIR\n';
    expect([await restore([key], ''), await restore([], '--with-keys')]).toEqual([plain, plain]);
  });
});
