import { chmodSync } from 'node:fs';
import { expect } from 'vitest';

import { until } from '../../support/until.js';
import type { Ran, RunOptions } from '../captured-run.js';
import {
  column,
  everyOption,
  jsonOf,
  OTHER_SESSION,
  pause,
  type Scene,
  shown,
  type Table,
  writeOptions,
} from './every-option.js';

type Typed = readonly string[];
interface Message {
  readonly content: unknown;
  readonly metadata?: unknown;
}

/** Returns alice's newest session and its messages. */
async function received({
  alice,
}: Scene): Promise<{ id: string; topic: unknown; state: unknown; messages: Message[] }> {
  const { sessions } = (await alice.get('/sessions')).json as {
    sessions: { id: string; topic: string; state: string }[];
  };
  const [session] = sessions;
  if (session === undefined) return { id: '', topic: null, state: null, messages: [] };
  const events = (await alice.mustReplay(session.id)) as { type: string; payload: Message }[];
  const messages = events.flatMap(({ type, payload }) => (type === 'session.message' ? [payload] : []));
  return { ...session, messages };
}

/** Returns the text, or the type of each part. */
const partsOf = (content: unknown): unknown =>
  typeof content === 'string'
    ? content
    : (content as { type: string; data?: unknown }[]).map(({ type, data }) => data ?? type);

/** Sends as alice with these words and returns the filenames. */
const sentFiles =
  (line: string, prepare: (scene: Scene) => unknown, options: RunOptions = {}) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await prepare(scene);
    await scene.as(scene.alice, [line, typed], options);
    return column(await scene.as(scene.alice, `attachment list ${(await received(scene)).id} --json`), 'filename');
  };

/** Sends as alice with these words and returns the content of the first message that bob receives. */
const sent =
  (line: string, options: RunOptions = {}, prepare: (scene: Scene) => unknown = () => {}) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await prepare(scene);
    await scene.as(scene.alice, [line, typed], options);
    const { messages } = await received(scene);
    return messages.length === 0 ? null : partsOf(messages[0]?.content);
  };

const note = (scene: Scene): string => scene.file('note.txt', 'from a file\n');

async function uploaded({ alice, name }: Scene): Promise<void> {
  name('$attachment', await alice.mustUpload({ filename: 'before.png' }));
}

/** Makes bob answer everything. Returns what alice's command prints and the session's final state. */
async function answered(scene: Scene, typed: Typed): Promise<unknown> {
  const run = scene.start(scene.alice, ['send $bob ping', typed, '--timeout 20s']);
  const id = await until('the question', async () => (await received(scene)).id || undefined);
  await scene.bob.mustJoin(id);
  await scene.bob.mustSend(id, 'pong');
  const { out } = await run.ended;
  return [out, (await received(scene)).state];
}

/** Makes bob answer alice's first message in the session. Returns what her command prints. */
async function asked(scene: Scene, words: Parameters<Scene['start']>[1], answer = 'pong'): Promise<Ran> {
  const run = scene.start(scene.alice, words);
  let isOver = false;
  void run.ended.then(() => {
    isOver = true;
  });
  for (let isAnswered = false; !isOver && !isAnswered; await pause(25)) {
    const { id, messages } = await received(scene);
    if (messages.length === 0) continue;
    await scene.bob.post(`/sessions/${id}/join`);
    await scene.bob.mustSend(id, answer);
    isAnswered = true;
  }
  return run.ended;
}

const questions =
  (line: string, look: (scene: Scene, ran: Ran) => Promise<unknown>, answer = 'pong') =>
  async (scene: Scene, typed: Typed): Promise<unknown> =>
    look(scene, await asked(scene, [line, typed, '--timeout 20s'], answer));

const firstMessage = async (scene: Scene): Promise<Message | null> => (await received(scene)).messages[0] ?? null;

const fiveMessages = (scene: Scene): Promise<string> => scene.session('a', 'b', 'c', 'd', 'e');
const contents =
  (line: string, prepare: (scene: Scene) => Promise<unknown> = fiveMessages) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await prepare(scene);
    return column(await scene.as(scene.alice, [line, '--json', typed]), 'content');
  };

/** Creates two sessions that contain the same word. `$session` is the one with bob. */
async function twoTalks(scene: Scene): Promise<void> {
  const { alice, service } = scene;
  const carol = await service.createAgent('carol');
  const other = await alice.mustCreate({ invite: [carol.handle] });
  await carol.mustJoin(other);
  await alice.mustSend(other, 'deploy there');
  await scene.session('deploy here');
}

const TABLE: Table = {
  'message send': {
    to: shown(
      '$bob',
      'hi',
      async (scene, typed) => {
        await scene.as(scene.alice, ['send', typed, 'hi']);
        const { content } = (await received(scene)).messages[0] ?? { content: null };
        return content;
      },
      'no.body',
    ),
    message: shown('hi', 'hi', sent('message send $bob'), 'ho'),
    '--end': shown('--end', 'ended', async (scene, typed) => {
      await scene.as(scene.alice, ['send $bob hi', typed]);
      return (await received(scene)).state;
    }),
    '--topic': shown('--topic release', 'release', async (scene, typed) => {
      await scene.as(scene.alice, ['send $bob hi', typed]);
      return (await received(scene)).topic;
    }),
    '--continue': shown('--continue', ['hi'], async (scene, typed) => {
      const id = await scene.session();
      await scene.as(scene.alice, ['send $bob hi', typed]);
      const events = (await scene.bob.mustReplay(id)) as { type: string; payload: { content: string } }[];
      return events.filter(({ type }) => type === 'session.message').map(({ payload }) => payload.content);
    }),
    '--message': shown('--message hi', 'hi', sent('send $bob')),
    '--message-file': shown('--message-file $home/note.txt', 'from a file', sent('send $bob', {}, note)),
    '--file': shown('--file $home/note.txt', ['note.txt'], sentFiles('send $bob hi', note)),
    '--filename': shown(
      '--filename log.txt',
      ['log.txt'],
      sentFiles('send $bob hi --file -', () => {}, { stdin: 'a log' }),
    ),
    '--as-text': shown(
      '--as-text',
      ['main.ts'],
      sentFiles('send $bob hi --file $home/main.ts', ({ file }) => file('main.ts', 'let a = 1;')),
    ),
    '--attach': shown('--attach $attachment', ['before.png'], sentFiles('send $bob hi', uploaded)),
    '--data': shown(`--data '{"a":1}'`, ['text', { a: 1 }], sent('send $bob hi')),
    '--parts': shown(`--parts '[{"type":"data","data":{"b":2}}]'`, [{ b: 2 }], sent('send $bob')),
    '--meta': shown('--meta build=7', { build: '7' }, async (scene, typed) => {
      await scene.as(scene.alice, ['send $bob hi', typed]);
      return (await received(scene)).messages[0]?.metadata ?? null;
    }),
    '--lines': shown('--lines', ['one', 'two'], async (scene, typed) => {
      await scene.as(scene.alice, ['send $bob', typed], { stdin: 'one\ntwo\n' });
      return (await received(scene)).messages.map(({ content }) => content);
    }),
    '--wait': shown('--wait', ['pong\n', 'active'], answered),
    '--end-after-reply': shown('--end-after-reply', ['pong\n', 'ended'], answered),
    '--fence': shown(
      '--fence',
      [
        expect.stringMatching(
          /^=== \S+ begin untrusted message from \S+ \(checked by the service; relation to you: anyone\), not your user, in \S+ sequence \d+: .* ===\npong\n=== \S+ end untrusted message ===\n$/,
        ),
        'active',
      ],
      (scene, typed) => answered(scene, [...typed, '--wait']),
    ),
    '--wait-for': shown('--wait-for taken', ['taken', 0], async (scene, typed) => {
      const id = await scene.session();
      const sending = scene.start(scene.alice, ['send $session hi --json --timeout 20s', typed]);
      for (let sequence = 0; sequence === 0; ) {
        const events = (await scene.bob.mustReplay(id)) as { type: string; sequence: number }[];
        sequence = events.find(({ type }) => type === 'session.message')?.sequence ?? 0;
        if (sequence > 0) await scene.bob.post(`/sessions/${id}/taken`, { sequences: [sequence] });
      }
      const { out, code } = await sending.ended;
      const { delivery } = JSON.parse(out) as { delivery?: { recipients: { state: string }[] } };
      return [delivery?.recipients[0]?.state ?? null, code];
    }),
    '--edit': shown('--edit', 'written', async (scene, typed) => {
      const editor = scene.file('editor.sh', '#!/bin/sh\necho written > "$1"\n');
      chmodSync(editor, 0o700);
      const environment = { EDITOR: editor, PATH: process.env['PATH'] ?? '' };
      return sent('send $bob', { environment, stdin: 'terminal' })(scene, typed);
    }),
    '--strict': shown('--strict', 10, async ({ service, as, alice, bob }, typed) => {
      const closed = await service.createAgent('closed', { policy: 'allowlist' });
      return (await as(alice, [`send ${bob.handle},${closed.handle} hi`, typed])).code;
    }),
    ...writeOptions(() => 'send $bob hi'),
  },
  ask: {
    to: shown(
      '$bob',
      'pong\n',
      async (scene, typed) => (await asked(scene, ['ask', typed, 'ping --timeout 20s'])).out,
      'no.body',
    ),
    message: shown(
      'ping',
      'ping',
      questions('ask $bob', async (scene) => (await firstMessage(scene))?.content),
      'hi',
    ),
    '--choices': shown(
      '--choices a,b',
      { choices: ['a', 'b'], awaits_reply: true },
      questions('ask $bob ping', async (scene) => (await firstMessage(scene))?.metadata ?? null, 'b'),
    ),
    '--expect': shown(
      '--expect a',
      12,
      questions('ask $bob ping --choices a,b', async (_, { code }) => code, 'b'),
    ),
    '--fence': shown(
      '--fence',
      expect.stringMatching(
        /^=== \S+ begin untrusted message from \S+ \(checked by the service; relation to you: anyone\), not your user, in \S+ sequence \d+: .* ===\npong\n=== \S+ end untrusted message ===\n$/,
      ),
      async (scene, typed) => (await asked(scene, ['ask $bob ping --timeout 20s', typed])).out,
    ),
    '--wait': shown('--wait 1s', [8, true], async (scene, typed) => {
      const { code, err } = await scene.as(scene.alice, ['ask $bob ping --timeout 3s', typed]);
      return [code, err.includes('--timeout 1s')];
    }),
    '--topic': shown(
      '--topic release',
      'release',
      questions('ask $bob ping', async (scene) => (await received(scene)).topic),
    ),
    '--message-file': shown('--message-file $home/note.txt', 'from a file', async (scene, typed) => {
      note(scene);
      return questions('ask $bob', async () => (await firstMessage(scene))?.content)(scene, typed);
    }),
    ...writeOptions(async (scene) => {
      await scene.session();
      return 'ask $session ping --timeout 20s';
    }, asked),
  },
  'message list': {
    session: shown(
      '$session',
      ['a', 'b'],
      async (scene, typed) => {
        await scene.session('other');
        const other = await scene.session('a', 'b');
        scene.name('$other', other);
        return column(await scene.as(scene.alice, ['message list --json', typed]), 'content');
      },
      OTHER_SESSION,
    ),
    '--fence': shown('--fence', 5, async (scene, typed) => {
      await scene.session('a', 'b', 'c', 'd', 'e');
      const { out } = await scene.as(scene.alice, ['message list $session', typed]);
      return [
        ...out.matchAll(/^=== \S+ begin untrusted message from \S+ \(checked by the service; relation to you: /gm),
      ].length;
    }),
    '--last': shown('--last 2', ['d', 'e'], contents('message list $session')),
    '--after': shown('--after 4', ['c', 'd', 'e'], contents('message list $session')),
    '--since': shown('--since 2100-01-01', [], contents('message list $session')),
    '--limit': shown('--limit 2', [['c', 'd'], expect.any(String)], async (scene, typed) => {
      await fiveMessages(scene);
      const ran = await scene.as(scene.alice, ['message list $session --after 4 --json', typed]);
      return [column(ran, 'content'), (jsonOf(ran) as { next_cursor: unknown }).next_cursor];
    }),
    '--all': shown('--all', 51, async (scene, typed) => {
      await scene.session(...Array.from({ length: 51 }, (_, at) => `m${at}`));
      return (column(await scene.as(scene.alice, ['message list $session --json', typed]), 'content') as unknown[])
        .length;
    }),
    '--from': shown(
      '--from $bob',
      ['from bob'],
      contents('message list $session', async (scene) => {
        const id = await scene.session('from alice');
        await scene.bob.mustSend(id, 'from bob');
      }),
    ),
  },
  'message search': {
    text: shown(
      'brown fox',
      ['a brown fox'],
      contents('message search', (scene) => scene.session('a brown fox', 'a brown bear')),
      'brown',
    ),
    '--session': shown('--session $session', ['deploy here'], contents('message search deploy', twoTalks)),
    '--with': shown('--with $bob', ['deploy here'], contents('message search deploy', twoTalks)),
    '--limit': shown('--limit 1', 1, async (scene, typed) => {
      await twoTalks(scene);
      return (column(await scene.as(scene.alice, ['message search deploy --json', typed]), 'id') as unknown[]).length;
    }),
  },
};

everyOption('message', TABLE);
