import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';

import {
  column,
  everyOption,
  jsonOf,
  OTHER_SESSION,
  type Scene,
  shown,
  type Table,
  writeOptions,
} from './every-option.js';

type Typed = readonly string[];

/** Creates a session in which alice sent `a.png`. Its id is `$attachment`. */
async function sendPicture(scene: Scene): Promise<void> {
  const id = await scene.session();
  const attachmentId = await scene.alice.mustUpload({ filename: 'a.png' });
  await scene.alice.mustSend(id, [{ type: 'image', attachment_id: attachmentId }]);
  scene.name('$attachment', attachmentId);
  mkdirSync(join(scene.home, 'inbox'));
}

/** Downloads the picture as bob. Returns the files in his home and the exit code. */
const downloaded =
  (line: string, look: (scene: Scene, code: number) => unknown) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await sendPicture(scene);
    scene.file('old.png', 'old');
    const { code } = await scene.as(scene.bob, [line, typed]);
    return look(scene, code);
  };

const isThere = ({ home }: Scene, path: string): boolean => existsSync(join(home, path));

const TABLE: Table = {
  'attachment upload': {
    paths: shown(
      '$home/a.txt',
      'a.txt',
      async ({ as, alice, file }, typed) => {
        file('a.txt', 'a');
        file('b.txt', 'b');
        const { out } = await as(alice, ['attachment upload', typed]);
        return (jsonOf(await as(alice, `attachment show ${out.trim()} --json`)) as { filename: string }).filename;
      },
      '$home/b.txt',
    ),
    '--filename': shown('--filename change.txt', 'change.txt', async ({ as, alice }, typed) => {
      const { out } = await as(alice, ['attachment upload -', typed], { stdin: 'a change' });
      return (jsonOf(await as(alice, `attachment show ${out.trim()} --json`)) as { filename: string }).filename;
    }),
    '--as-text': shown('--as-text', ['main.ts', 'text/plain'], async ({ as, alice, file }, typed) => {
      const { out } = await as(alice, [`attachment upload ${file('main.ts', 'let a = 1;')}`, typed]);
      const { filename, content_type } = jsonOf(await as(alice, `attachment show ${out.trim()} --json`)) as {
        filename: string;
        content_type: string;
      };
      return [filename, content_type];
    }),
    ...writeOptions(({ file }) => `attachment upload ${file('a.txt', 'a')} ${file('b.txt', 'b')}`),
  },
  'attachment download': {
    ids: shown(
      '$attachment',
      [0, true],
      downloaded('attachment download --dir $home/inbox', (scene, code) => [code, isThere(scene, 'inbox/a.png')]),
      'att_01J00000000000000000000000',
    ),
    '--output': shown(
      '--output $home/new.png',
      true,
      downloaded('attachment download $attachment', (scene) => isThere(scene, 'new.png')),
    ),
    '--dir': shown(
      '--dir $home/inbox',
      true,
      downloaded('attachment download $attachment', (scene) => isThere(scene, 'inbox/a.png')),
    ),
    '--force': shown(
      '--force',
      [0, false],
      downloaded('attachment download $attachment -o $home/old.png', ({ home }, code) => [
        code,
        readFileSync(join(home, 'old.png'), 'utf8') === 'old',
      ]),
    ),
    '--max-size': shown(
      '--max-size 10',
      [expect.any(Number), false],
      downloaded('attachment download $attachment -o $home/new.png', (scene, code) => [
        code || null,
        isThere(scene, 'new.png'),
      ]),
    ),
  },
  'attachment show': {
    id: shown(
      '$attachment',
      'a.png',
      async (scene, typed) => {
        await sendPicture(scene);
        const ran = await scene.as(scene.bob, ['attachment show --json', typed]);
        return ran.code === 0 ? (jsonOf(ran) as { filename: string }).filename : ran.code;
      },
      'att_01J00000000000000000000000',
    ),
  },
  'attachment list': {
    session: shown(
      '$session',
      ['a.png'],
      async (scene, typed) => {
        await sendPicture(scene);
        return column(await scene.as(scene.bob, ['attachment list --json', typed]), 'filename');
      },
      OTHER_SESSION,
    ),
  },
};

everyOption('attachment', TABLE);
