import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';

import {
  column,
  everyOption,
  OTHER_SESSION,
  pageOptions,
  type Scene,
  shown,
  type Table,
  writeOptions,
} from './every-option.js';

type Typed = readonly string[];

/** Returns alice's newest session: its id, topic, state, and participants. */
async function newest({ alice }: Scene): Promise<Record<string, unknown>> {
  const { sessions } = (await alice.get('/sessions')).json as { sessions: Record<string, unknown>[] };
  const [session = {}] = sessions;
  const participants = (session['participants'] ?? []) as { handle: string; status: string }[];
  return {
    id: session['id'],
    topic: session['topic'],
    state: session['state'],
    participants: Object.fromEntries(participants.map(({ handle, status }) => [handle, status])),
  };
}

const statusOf = async (scene: Scene, handle: string): Promise<unknown> =>
  ((await newest(scene))['participants'] as Record<string, unknown>)[handle];

/** Returns the texts in alice's newest session. */
async function textsOf({ alice }: Scene): Promise<unknown[]> {
  const { sessions } = (await alice.get('/sessions')).json as { sessions: { id: string }[] };
  const events = (await alice.mustReplay(sessions[0]?.id ?? '')) as { payload: { content?: unknown } }[];
  return events.flatMap(({ payload }) => (payload.content === undefined ? [] : [payload.content]));
}

/** Creates a second agent, besides bob, that no one can reach. */
async function withUnreachable({ service, name }: Scene): Promise<void> {
  const { handle } = await service.createAgent('closed', { policy: 'allowlist' });
  name('$closed', handle);
}

const createSessions = async ({ alice }: Scene, count: number): Promise<void> => {
  for (let at = 0; at < count; at++) await alice.mustCreate();
};

/** Creates an ended session, `$ended`, and an active one. */
async function endedAndNot(scene: Scene): Promise<void> {
  await ended(scene);
  scene.name('$ended', (await newest(scene))['id'] as string);
  await scene.session();
}

/** Runs bob's command on a session. Returns his status in it afterward. */
const bobThen =
  (command: string, prepare: (scene: Scene) => Promise<unknown> = invited) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await prepare(scene);
    await scene.as(scene.bob, [command, typed]);
    return statusOf(scene, scene.bob.handle);
  };

/** Creates a session to which bob is invited. */
async function invited({ alice, bob, name }: Scene): Promise<void> {
  name('$session', await alice.mustCreate({ invite: [bob.handle] }));
}
async function ended(scene: Scene): Promise<void> {
  await scene.alice.mustEnd(await scene.session());
}
async function joined(scene: Scene): Promise<void> {
  await scene.session();
}
/** Creates a session with only alice. */
async function alone({ alice, name }: Scene): Promise<void> {
  name('$session', await alice.mustCreate());
}

const asBob = (scene: Scene, words: Parameters<Scene['as']>[1]) => scene.as(scene.bob, words);

/** Returns the exit code of a wait that is over at once or times out. */
const waitCode =
  (line: string) =>
  async (scene: Scene, typed: Typed): Promise<unknown> =>
    (await scene.as(scene.alice, [line, typed, '--timeout 3s'])).code;

/** Exports a session with an attachment and inspects the home afterward. */
const exportAndLook =
  (line: string, look: (scene: Scene, out: string, code: number) => unknown) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    const id = await scene.session('hello');
    const attachmentId = await scene.alice.mustUpload({ filename: 'a.png' });
    await scene.alice.mustSend(id, [{ type: 'image', attachment_id: attachmentId }]);
    scene.file('old.jsonl', 'old\n');
    const { out, code } = await scene.as(scene.bob, [line, typed]);
    return look(scene, out, code);
  };
const filesIn = (scene: Scene, folder: string): string[] =>
  existsSync(join(scene.home, folder)) ? readdirSync(join(scene.home, folder)) : [];

const TABLE: Table = {
  'session list': {
    '--state': shown('--state ended', [['$session']], async (scene, typed) => {
      await scene.alice.mustCreate();
      await ended(scene);
      return [column(await scene.as(scene.alice, ['session list --json', typed]), 'id')];
    }),
    '--with': shown('--with $bob', [['$session']], async (scene, typed) => {
      await joined(scene);
      await scene.alice.mustCreate();
      return [column(await scene.as(scene.alice, ['session list --json', typed]), 'id')];
    }),
    '--account': shown('--account', ['@ann.bot'], async (scene, typed) => {
      await scene.asAccount('status');
      await scene.alice.mustCreate({ invite: ['@ann.bot'] });
      const { out } = await scene.asAccount(['session list --limit 1 --json', typed]);
      const { items } = JSON.parse(out === '' ? '{"items":[]}' : out) as { items: { acting_handle?: string }[] };
      return items.map((item) => item.acting_handle ?? null);
    }),
    ...pageOptions('session list', 50, createSessions),
  },
  'session show': {
    sessions: shown(
      '$session',
      0,
      async (scene, typed) => {
        await scene.session();
        return (await scene.as(scene.alice, ['session show', typed])).code;
      },
      OTHER_SESSION,
    ),
    '--delivery': shown('--delivery', { $bob: 'taken' }, async (scene, typed) => {
      const id = await scene.session('hello');
      const { sequence } = await scene.alice.mustSend(id, 'more');
      await scene.bob.post(`/sessions/${id}/taken`, { sequences: [sequence] });
      const { out } = await scene.as(scene.alice, ['session show $session --json', typed]);
      const { delivery } = JSON.parse(out) as { delivery?: { recipients: { handle: string; state: string }[] } };
      return Object.fromEntries((delivery?.recipients ?? []).map(({ handle, state }) => [handle, state]));
    }),
  },
  'session create': {
    handles: shown('$bob', { $alice: 'joined', $bob: 'invited' }, async (scene, typed) => {
      await scene.as(scene.alice, ['session create', typed]);
      return (await newest(scene))['participants'];
    }),
    '--topic': shown("--topic 'the release'", 'the release', async (scene, typed) => {
      await scene.as(scene.alice, ['session create $bob', typed]);
      return (await newest(scene))['topic'];
    }),
    '--message': shown("--message 'shall we?'", ['shall we?'], async (scene, typed) => {
      await scene.as(scene.alice, ['session create $bob', typed]);
      return textsOf(scene);
    }),
    '--strict': shown('--strict', 10, async (scene, typed) => {
      await withUnreachable(scene);
      return (await scene.as(scene.alice, ['session create $bob $closed', typed])).code;
    }),
    ...writeOptions(() => 'session create $bob'),
  },
  'session join': {
    session: shown('$session', 'joined', bobThen('session join'), OTHER_SESSION),
    ...writeOptions(async (scene) => {
      await invited(scene);
      return 'session join $session';
    }, asBob),
  },
  'session invite': {
    session: shown(
      '$session',
      'invited',
      async (scene, typed) => {
        await alone(scene);
        await scene.as(scene.alice, ['session invite', typed, '$bob']);
        return statusOf(scene, scene.bob.handle);
      },
      OTHER_SESSION,
    ),
    handles: shown(
      '$bob',
      'invited',
      async (scene, typed) => {
        await alone(scene);
        await scene.as(scene.alice, ['session invite $session', typed]);
        return statusOf(scene, scene.bob.handle);
      },
      'no.body',
    ),
    '--strict': shown('--strict', 10, async (scene, typed) => {
      await alone(scene);
      await withUnreachable(scene);
      return (await scene.as(scene.alice, ['session invite $session $bob $closed', typed])).code;
    }),
    ...writeOptions(async (scene) => {
      await alone(scene);
      return 'session invite $session $bob';
    }),
  },
  'session leave': {
    sessions: shown('$session', 'left', bobThen('session leave', joined), OTHER_SESSION),
    ...writeOptions(async (scene) => {
      await joined(scene);
      return 'session leave $session';
    }, asBob),
  },
  'session end': {
    sessions: shown(
      '$session',
      'ended',
      async (scene, typed) => {
        await joined(scene);
        await scene.as(scene.alice, ['session end', typed]);
        return (await newest(scene))['state'];
      },
      OTHER_SESSION,
    ),
    ...writeOptions(async (scene) => {
      await joined(scene);
      return 'session end $session';
    }),
  },
  'session reopen': {
    session: shown(
      '$session',
      'active',
      async (scene, typed) => {
        await ended(scene);
        await scene.as(scene.alice, ['session reopen', typed]);
        return (await newest(scene))['state'];
      },
      OTHER_SESSION,
    ),
    handles: shown('$carol', 'invited', async (scene, typed) => {
      const { handle } = await scene.service.createAgent('carol');
      scene.name('$carol', handle);
      await ended(scene);
      await scene.as(scene.alice, ['session reopen $session', typed]);
      return (await statusOf(scene, handle)) ?? null;
    }),
    '--message': shown("--message 'one more thing'", ['one more thing'], async (scene, typed) => {
      await ended(scene);
      await scene.as(scene.alice, ['session reopen $session', typed]);
      return textsOf(scene);
    }),
    ...writeOptions(async (scene) => {
      await ended(scene);
      return 'session reopen $session';
    }),
  },
  'session wait': {
    session: shown(
      '$ended',
      0,
      async (scene, typed) => {
        await endedAndNot(scene);
        return waitCode('session wait --for ended')(scene, typed);
      },
      '$session',
    ),
    '--for': shown(
      '--for joined',
      0,
      async (scene, typed) => {
        await scene.session();
        return waitCode('session wait $session')(scene, typed);
      },
      '--for ended',
    ),
    '--fence': shown(
      '--fence',
      expect.stringMatching(
        /^=== \S+ begin untrusted message from \S+ \(checked by the service; relation to you: anyone\), not your user, in \S+ sequence \d+: .* ===\none\n=== \S+ end untrusted message ===\n$/,
      ),
      async (scene, typed) => {
        await scene.session('one');
        const line = 'session wait $session --for message --after 1 --timeout 20s';
        return (await scene.as(scene.bob, [line, typed])).out;
      },
    ),
    '--after': shown('--after 2', [0, 'one\n'], async (scene, typed) => {
      await scene.session('one');
      const { code, out } = await scene.as(scene.bob, ['session wait $session --for reply --timeout 3s', typed]);
      return [code, out];
    }),
  },
  'session export': {
    session: shown(
      '$session',
      0,
      async (scene, typed) => {
        await scene.session();
        return (await scene.as(scene.bob, ['session export', typed])).code;
      },
      OTHER_SESSION,
    ),
    '--output': shown(
      '--output $home/new.jsonl',
      ['$home/new.jsonl\n', true],
      exportAndLook('session export $session', (scene, out) => [out, existsSync(join(scene.home, 'new.jsonl'))]),
    ),
    '--format': shown(
      '--format md',
      true,
      exportAndLook('session export $session', (_, out) => out.startsWith('# ')),
    ),
    '--with-attachments': shown(
      '--with-attachments',
      [expect.stringMatching(/a\.png$/)],
      exportAndLook('session export $session -o $home/all/', (scene) => filesIn(scene, 'all/attachments')),
    ),
    '--force': shown(
      '--force',
      [0, false],
      exportAndLook('session export $session -o $home/old.jsonl', (scene, _, code) => [
        code,
        readFileSync(join(scene.home, 'old.jsonl'), 'utf8').startsWith('old'),
      ]),
    ),
  },
};

everyOption('session', TABLE);
