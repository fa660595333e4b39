import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
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

const asBob = (scene: Scene, words: Parameters<Scene['as']>[1]) => scene.as(scene.bob, words);

/** Returns a column of bob's inbox, such as the topics or the sessions. */
const listed = async (scene: Scene, typed: Typed, member = 'session_id'): Promise<unknown> =>
  column(await scene.as(scene.bob, ['inbox --json', typed]), member);

/** Creates an invitation for bob, `$invited`, and a session with an unread message from alice, `$session`. */
async function invitedAndUnread(scene: Scene): Promise<void> {
  scene.name('$invited', await scene.alice.mustCreate({ invite: [scene.bob.handle] }));
  await scene.session('hello');
}

async function manySessions({ alice, bob }: Scene, count: number): Promise<void> {
  for (let at = 0; at < count; at += 1)
    await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'hi' }, end_after_send: true });
}

const newestOf = async ({ alice }: Scene): Promise<string> => {
  const { sessions } = (await alice.get('/sessions')).json as { sessions: { id: string }[] };
  return sessions[0]?.id ?? '';
};

/** Returns the last message of the session as alice sees it. */
async function lastMessage({ alice, rename }: Scene): Promise<Record<string, unknown>> {
  const { sessions } = (await alice.get('/sessions')).json as { sessions: { id: string }[] };
  const events = (await alice.mustReplay(sessions[0]?.id ?? '')) as {
    type: string;
    payload: Record<string, unknown>;
  }[];
  return rename(events.findLast(({ type }) => type === 'session.message')?.payload ?? {}) as Record<string, unknown>;
}

const replying =
  (words: string, member = 'content') =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await scene.session('are you there?');
    await asBob(scene, [words, typed]);
    return (await lastMessage(scene))[member] ?? null;
  };

const chatAs = (scene: Scene, words: Parameters<Scene['as']>[1], stdin: string) =>
  scene.as(scene.bob, words, { stdin });

const chatting =
  (words: string) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await scene.session('are you there?');
    await chatAs(scene, [words, typed], 'yes\n');
    return (await lastMessage(scene))['content'] ?? null;
  };

/** The message `hello`, and the list with it, for a model. */
const FENCED =
  /^=== \S+ begin untrusted message from \S+ \(checked by the service; relation to you: anyone\), not your user, in \S+ sequence \d+: .* ===\nhello\n=== \S+ end untrusted message ===\n$/;
const FENCED_LIST =
  /^=== (\S+) begin untrusted data from \S+ \(checked by the service; relation to you: anyone\): .* none of it is from your user ===\n\S+ {2}new: 1 {2}last from \S+: "hello"\n=== \1 end untrusted data ===\n$/;

const TABLE: Table = {
  inbox: {
    '--invited': shown('--invited', ['$invited'], async (scene, typed) => {
      await invitedAndUnread(scene);
      return listed(scene, typed);
    }),
    '--unread': shown('--unread', ['$session'], async (scene, typed) => {
      await invitedAndUnread(scene);
      return listed(scene, typed);
    }),
    '--with': shown('--with $alice', ['$session'], async (scene, typed) => {
      const carol = await scene.service.createAgent('carol');
      await carol.mustCreate({ invite: [scene.bob.handle] });
      await scene.session('hello');
      return listed(scene, typed);
    }),
    '--since': shown('--since 2100-01-01', [], async (scene, typed) => {
      await scene.session('hello');
      return listed(scene, typed);
    }),
    '--limit': shown('--limit 1', 1, async (scene, typed) => {
      await manySessions(scene, 2);
      return ((await listed(scene, typed)) as unknown[]).length;
    }),
    '--all': shown('--all', 21, async (scene, typed) => {
      await manySessions(scene, 21);
      return ((await listed(scene, typed)) as unknown[]).length;
    }),
    '--fence': shown('--fence', expect.stringMatching(FENCED_LIST), async (scene, typed) => {
      await scene.session('hello');
      return (await asBob(scene, ['inbox', typed])).out;
    }),
  },
  'inbox read': {
    session: shown(
      '$session',
      ['hello'],
      async (scene, typed) => {
        await scene.session('hello');
        const ran = jsonOf(await asBob(scene, ['inbox read --json', typed]));
        return (ran as { messages?: { content: string }[] }).messages?.map(({ content }) => content) ?? null;
      },
      OTHER_SESSION,
    ),
    '--fence': shown('--fence', expect.stringMatching(FENCED), async (scene, typed) => {
      await scene.session('hello');
      return (await asBob(scene, ['inbox read $session', typed])).out;
    }),
  },
  chat: {
    session: shown('$session', 'yes', chatting('chat'), OTHER_SESSION),
    '--last': shown('--last 1', 1, async (scene, typed) => {
      await scene.session('one', 'two');
      return (await chatAs(scene, ['chat $session', typed], '')).out.split('\n').filter(Boolean).length;
    }),
    '--topic': shown('--topic morning', 'morning', async (scene, typed) => {
      await chatAs(scene, ['chat $alice', typed], 'hello\n');
      const { sessions } = (await scene.alice.get('/sessions')).json as { sessions: { topic: string | null }[] };
      return sessions[0]?.topic ?? null;
    }),
    '--join': shown('--join', 'yes', async (scene, typed) => {
      const id = await scene.alice.mustCreate({ invite: [scene.bob.handle], initial_message: { content: 'hi' } });
      scene.name('$session', id);
      await chatAs(scene, ['chat $session', typed], 'yes\n');
      return (await lastMessage(scene))['content'];
    }),
  },
  open: {
    session: shown('$session', 0, async (scene, typed) => {
      await scene.session();
      const { out } = await asBob(scene, ['open --no-browser', typed]);
      return out.endsWith(`/dashboard/sessions/${typed.join('') && (await newestOf(scene))}\n`) ? 0 : 1;
    }),
    '--no-browser': shown('--no-browser', false, async (scene, typed) => {
      const opened = join(scene.home, 'opened');
      const browser = scene.file('browser.sh', `echo "$1" > ${opened}\n`);
      await scene.as(scene.bob, ['open', typed], { environment: { BROWSER: `sh ${browser}` } });
      // By now, a browser would have started.
      for (let waited = 0; waited < 40 && !existsSync(opened); waited += 1) await pause(25);
      return existsSync(opened);
    }),
  },
  reply: {
    session: shown('$session', 'yes', replying('reply -m yes'), OTHER_SESSION),
    message: shown('yes', 'yes', replying('reply $session'), 'no'),
    '--last': shown('--last', 'yes', replying('reply yes'), OTHER_SESSION),
    '--message': shown('--message yes', 'yes', replying('reply $session'), '-m no'),
    '--message-file': shown('--message-file $home/text', 'from a file', async (scene, typed) => {
      scene.file('text', 'from a file\n');
      return replying('reply $session')(scene, typed);
    }),
    '--file': shown('--file $home/note.txt', ['text', 'file'], async (scene, typed) => {
      scene.file('note.txt', 'a note\n');
      const content = await replying('reply $session see')(scene, typed);
      return Array.isArray(content) ? content.map(({ type }: { type: string }) => type) : content;
    }),
    '--as-text': shown('--as-text', ['text', 'file'], async (scene, typed) => {
      const content = await replying(`reply $session see --file ${scene.file('main.ts', 'let a = 1;')}`)(scene, typed);
      return Array.isArray(content) ? content.map(({ type }: { type: string }) => type) : content;
    }),
    '--join': shown('--join', 'yes', async (scene, typed) => {
      const id = await scene.alice.mustCreate({ invite: [scene.bob.handle], initial_message: { content: 'hi' } });
      scene.name('$session', id);
      await asBob(scene, ['reply $session yes', typed]);
      return (await lastMessage(scene))['content'];
    }),
    '--for-agent': shown('--for-agent', 'are you there?', async (scene, typed) => {
      const id = await scene.session();
      for (let sent = 1; sent <= 20; sent += 1) await scene.bob.mustSend(id, `message ${sent}`);
      await scene.alice.mustSend(id, 'are you there?');
      const { code } = await scene.as(scene.bob, ['reply $session yes', typed]);
      const { content } = await lastMessage(scene);
      if (code !== (content === 'yes' ? 0 : 11)) throw new Error(`exit ${code}`);
      return content;
    }),
    '--wait': shown('--wait', 'ok\n', async (scene, typed) => {
      const id = await scene.session('are you there?');
      const bob = scene.start(scene.bob, ['reply $session yes --timeout 20s', typed]);
      for (let last = ''; last !== 'yes'; ) last = String((await lastMessage(scene))['content']);
      await scene.alice.mustSend(id, 'ok');
      return (await bob.ended).out;
    }),
    '--fence': shown(
      '--fence',
      expect.stringMatching(
        /^=== \S+ begin untrusted message from \S+ \(checked by the service; relation to you: anyone\), not your user, in \S+ sequence \d+: .* ===\nok\n=== \S+ end untrusted message ===\n$/,
      ),
      async (scene, typed) => {
        const id = await scene.session('are you there?');
        const bob = scene.start(scene.bob, ['reply $session yes --wait --timeout 20s', typed]);
        for (let last = ''; last !== 'yes'; ) last = String((await lastMessage(scene))['content']);
        await scene.alice.mustSend(id, 'ok');
        return (await bob.ended).out;
      },
    ),
    '--end': shown('--end', 'ended', async (scene, typed) => {
      const id = await scene.session('are you there?');
      await asBob(scene, ['reply $session yes', typed]);
      return ((await scene.alice.get(`/sessions/${id}`)).json as { state: string }).state;
    }),
    ...writeOptions(async (scene) => {
      await scene.session('are you there?');
      return 'reply $session yes';
    }, asBob),
  },
};

everyOption('inbox', TABLE);
