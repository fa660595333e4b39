import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Actor } from '../../support/actors.js';
import { until } from '../../support/until.js';
import {
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

const RUDE_AGENT = join(import.meta.dirname, '../../support/programs/acp-rude-agent.mjs');
const SDK_AGENT = join(import.meta.dirname, '../../support/programs/acp-sdk-agent.mjs');

/** Returns the messages of a session that `actor` can read. */
async function textsIn(actor: Actor, sessionId: string): Promise<unknown[]> {
  const events = (await actor.mustReplay(sessionId)) as { payload: { content?: unknown } }[];
  return events.flatMap(({ payload }) => (payload.content === undefined ? [] : [payload.content]));
}

async function topicsOf(actor: Actor): Promise<unknown[]> {
  const { sessions } = (await actor.get('/sessions')).json as { sessions: { topic: unknown }[] };
  return sessions.map(({ topic }) => topic);
}

/** Runs bob's agent with these words. Calls `ask` when it is ready, and `look` shortly after `isDone`. */
async function running<Seen>(
  scene: Scene,
  words: readonly (string | Typed)[],
  ask: () => Promise<unknown>,
  isDone: (told: number) => Promise<boolean> | boolean,
  look: (code: number | null) => Promise<Seen> | Seen,
  graceMs = 500,
): Promise<Seen> {
  const agent = scene.start(scene.bob, words);
  await until('the agent answers', async () => agent.streams.err().includes('Answering as'));
  await ask();
  await until('the agent is done', async () => isDone(agent.streams.out().split('\n').length - 1));
  const ended = await Promise.race([agent.ended, pause(graceMs)]);
  agent.stop();
  await agent.ended;
  return look(ended?.code ?? null);
}

/** Runs bob's agent with these words and sends it `ping`. Returns the messages in the session afterward. */
const asked =
  (
    line: string,
    look: (scene: Scene, sessionId: string, code: number | null) => unknown = ({ alice }, id) => textsIn(alice, id),
    graceMs?: number,
  ) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    const id = await scene.session();
    return running(
      scene,
      [line, typed],
      () => scene.alice.mustSend(id, 'ping'),
      (told) => told > 0,
      (code) => look(scene, id, code),
      graceMs,
    );
  };

/** Answers each line with `text`, as a line. */
const linesOf = (text: string): string =>
  `sed -u 's/.*"event_id":"\\([^"]*\\)".*/{"event_id":"\\1","content":"${text}"}/'`;

/** As `asked`, with any command. */
const handled =
  (command: string) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    const id = await scene.session();
    return running(
      scene,
      ['run --from anyone --exec', [command], typed],
      () => scene.alice.mustSend(id, 'ping'),
      (told) => told > 0,
      () => textsIn(scene.alice, id),
    );
  };

/** Sends `a` and `b` as alice. Returns the messages in the session, sorted. */
async function askTwice(scene: Scene, words: readonly (string | Typed)[]): Promise<unknown> {
  const id = await scene.session();
  const ask = async (): Promise<void> => {
    await scene.alice.mustSend(id, 'a');
    await scene.alice.mustSend(id, 'b');
  };
  const texts = async (): Promise<unknown[]> => (await textsIn(scene.alice, id)).sort();
  return running(scene, words, ask, (told) => told > 1, texts);
}

const askedTwice =
  (more = '') =>
  (scene: Scene, typed: Typed): Promise<unknown> =>
    askTwice(scene, [`run --from anyone --exec 'echo pong' ${more}`, typed]);

/** Asks bob's agent as carol and as alice, each in a separate session; then calls `look`. */
async function twoAsk(
  scene: Scene,
  words: readonly (string | Typed)[],
  isDone: (texts: readonly unknown[][]) => boolean,
  look: (texts: readonly unknown[][]) => unknown,
): Promise<unknown> {
  const { alice, bob } = scene;
  const carol = await scene.service.createAgent('carol');
  scene.name('$carol', carol.handle);
  const alices = await scene.session();
  const carols = await carol.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(carols);
  const ask = async (): Promise<unknown> => [
    await alice.mustSend(alices, 'ping'),
    await carol.mustSend(carols, 'ping'),
  ];
  const texts = (): Promise<unknown[][]> => Promise.all([textsIn(alice, alices), textsIn(carol, carols)]);
  return running(
    scene,
    words,
    ask,
    async () => isDone(await texts()),
    async () => look(await texts()),
  );
}

/** Whether `$home/ready` exists while the agent answers, and afterward. */
async function readiness(scene: Scene, words: readonly (string | Typed)[]): Promise<unknown> {
  const id = await scene.session();
  const path = join(scene.home, 'ready');
  let wasThere = false;
  const ask = async (): Promise<void> => {
    wasThere = existsSync(path);
    await scene.alice.mustSend(id, 'ping');
  };
  return running(
    scene,
    words,
    ask,
    (told) => told > 0,
    () => [wasThere, existsSync(path)],
  );
}

/** Writes scripts for mocks: one that answers everything, and one that answers nothing. */
function writeScripts(scene: Scene): void {
  scene.file('pong.json', '{ "rules": [{ "required": true, "do": [{ "reply": "pong" }] }] }');
  scene.file('not.json', '{ "rules": [{ "when": { "contains": "other" }, "do": [] }] }');
}

/** Does the same as `asked` for a mock. */
const mocked =
  (line: string, look?: (scene: Scene, sessionId: string, code: number | null) => unknown) =>
  (scene: Scene, typed: Typed): Promise<unknown> => {
    writeScripts(scene);
    return asked(line, look, 3000)(scene, typed);
  };

/** A message of a recording. */
function recorded(sequence: number, sender: string, content: string): string {
  const payload = { id: `msg_${sequence}`, session_id: OTHER_SESSION, sender, sequence, content, created_at: 1 };
  const about = { session_id: OTHER_SESSION, event_id: `evt_${sequence}`, sequence, created_at: 1 };
  return `${JSON.stringify({ type: 'session.message', ...about, payload })}\n`;
}

/**
 * Replays `recording.jsonl`, in which two agents asked and got `a`. Returns the exit code and the first recorded
 * answer.
 */
const replayed =
  (words: string | Typed) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    const asks = ['@bob.bot', '@carol.bot'].flatMap((handle, at) => [
      recorded(2 * at + 1, handle, 'ping'),
      recorded(2 * at + 2, '@me.bot', 'a'),
    ]);
    scene.file('recording.jsonl', asks.join(''));
    scene.file('other.jsonl', recorded(1, '@me.bot', 'nothing'));
    const { code, out } = await scene.asNobody(['replay --as me.bot --json', words, typed]);
    const [first = 'null'] = out.split('\n');
    return [code, (JSON.parse(first || 'null') as { recorded: { messages: string[] } } | null)?.recorded.messages[0]];
  };

const mockedTwice =
  (more = '') =>
  (scene: Scene, typed: Typed): Promise<unknown> => {
    writeScripts(scene);
    return askTwice(scene, [`mock --from anyone --script $home/pong.json ${more}`, typed]);
  };

/** Sends one MCP request to `asp mcp` with these words and returns the result. */
async function askTools<Result>(
  scene: Scene,
  actor: Actor,
  words: readonly (string | Typed)[],
  request: { readonly method: string; readonly params?: object },
): Promise<Result> {
  const messages = [
    {
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
    },
    { method: 'notifications/initialized' },
    { id: 2, ...request },
  ];
  const stdin = messages.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join('');
  const { out } = await scene.as(actor, ['mcp', ...words], { stdin });
  const answers = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line)) as { id: number; result: Result }[];
  const found = answers.find(({ id }) => id === 2);
  if (found === undefined) throw new Error(out);
  return found.result;
}

const tools = async (scene: Scene, typed: Typed): Promise<string[]> => {
  mkdirSync(join(scene.home, 'shared'));
  type Listed = { tools: { name: string }[] };
  const listed = await askTools<Listed>(scene, scene.alice, [typed], { method: 'tools/list' });
  return listed.tools.map(({ name }) => name);
};

/** Sends two messages to alice, each after one from her. Returns whether each was refused. */
const sendsTwice =
  (more = '', metadata?: object) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    const id = await scene.session();
    const refused: boolean[] = [];
    for (const text of ['a', 'b']) {
      await scene.alice.mustSend(id, 'ping', metadata);
      const params = { name: 'send', arguments: { to: id, text } };
      const request = { method: 'tools/call', params };
      const { isError } = await askTools<{ isError?: boolean }>(scene, scene.bob, [more, typed], request);
      refused.push(isError === true);
    }
    return refused;
  };

const createAndList = async ({ alice }: Scene, count: number): Promise<void> => {
  for (let at = 0; at < count; at++) await alice.mustCreate({ topic: `t${at}` });
};

const TABLE: Table = {
  run: {
    '--exec': shown(`--exec 'echo pong'`, ['ping', 'pong'], asked('run --from anyone'), `--exec 'echo no'`),
    '--lines': shown('--lines', ['ping', 'pong'], handled(linesOf('pong'))),
    '--reply-json': shown('--reply-json', ['ping', 'pong'], handled(`echo '{"content":"pong"}'`)),
    '--recent': shown('--recent 1', ['ping', 'yes'], handled(`grep -q '"recent":' && echo yes || echo no`)),
    '--acp': shown(`--acp 'node ${RUDE_AGENT}'`, ['ping', 'polite'], asked('run --from anyone'), `--exec 'echo pong'`),
    '--allow': shown('--allow read', ['permission read', 'read: once'], async (scene, typed) => {
      const id = await scene.session();
      return running(
        scene,
        [`run --from anyone --acp`, [`node ${SDK_AGENT} ${join(scene.home, 'log')}`], typed],
        () => scene.alice.mustSend(id, 'permission read'),
        (told) => told > 0,
        () => textsIn(scene.alice, id),
      );
    }),
    '--ask': shown('--ask $alice', true, async (scene, typed) => {
      const id = await scene.session();
      const isAsked = async (): Promise<boolean> =>
        (await topicsOf(scene.alice)).includes(`Permission for ${scene.bob.handle}`);
      return running(
        scene,
        [`run --from anyone --grace 100ms --acp`, [`node ${SDK_AGENT} ${join(scene.home, 'log')}`], typed],
        () => scene.alice.mustSend(id, 'permission read'),
        async (told) => told > 0 || (await isAsked()),
        isAsked,
      );
    }),
    '--ask-wait': shown('--ask-wait 1s', ['permission read', 'read: no'], async (scene, typed) => {
      const id = await scene.session();
      let isOver = false;
      return running(
        scene,
        [`run --from anyone --grace 100ms --ask $alice --acp`, [`node ${SDK_AGENT} ${join(scene.home, 'log')}`], typed],
        async () => {
          await scene.alice.mustSend(id, 'permission read');
          void pause(5000).then(() => {
            isOver = true;
          });
        },
        (told) => told > 0 || isOver,
        () => textsIn(scene.alice, id),
      );
    }),
    '--max-replies': shown('--max-replies 1', ['a', 'b', 'pong'], askedTwice()),
    '--human': shown('--human $alice', ['a', 'b', 'pong', 'pong'], askedTwice('--max-replies 1')),
    '--max-replies-per-hour': shown('--max-replies-per-hour 1', ['a', 'b', 'pong'], askedTwice()),
    '--max-hops': shown('--max-hops 3', ['ping'], async (scene, typed) => {
      const id = await scene.session();
      return running(
        scene,
        [`run --from anyone --exec 'echo pong'`, typed],
        () => scene.alice.mustSend(id, 'ping', { hops: 3 }),
        (told) => told > 0,
        () => textsIn(scene.alice, id),
      );
    }),
    '--max-tokens': shown('--max-tokens 42', 3, async (scene, typed) => {
      const words = [`run --from anyone --acp`, [`node ${SDK_AGENT} ${join(scene.home, 'log')}`], typed];
      return ((await askTwice(scene, words)) as unknown[]).length;
    }),
    // A turn of this program costs 0.25.
    '--max-cost': shown('--max-cost 0.25', 3, async (scene, typed) => {
      const words = [`run --from anyone --acp`, [`node ${SDK_AGENT} ${join(scene.home, 'log')}`], typed];
      return ((await askTwice(scene, words)) as unknown[]).length;
    }),
    '--on-limit': shown('--on-limit stop', 11, async (scene, typed) => {
      const id = await scene.session();
      return running(
        scene,
        [`run --from anyone --exec 'echo pong' --max-replies 1`, typed],
        async () => {
          await scene.alice.mustSend(id, 'a');
          await scene.alice.mustSend(id, 'b');
        },
        (told) => told > 1,
        (code) => code,
      );
    }),
    '--from': shown(
      '--from $carol',
      [['ping'], ['ping', 'pong']],
      (scene, typed) =>
        twoAsk(
          scene,
          [`run --exec 'echo pong'`, typed],
          (texts) => texts.some(({ length }) => length > 1),
          (texts) => texts,
        ),
      '--from $alice',
    ),
    '--no-join': shown('--no-join', 'invited', async (scene, typed) => {
      const { alice, bob } = scene;
      const id = await alice.mustCreate({ invite: [bob.handle] });
      const other = await scene.session();
      // The answer in another session shows that the agent has seen the invitation.
      return running(
        scene,
        [`run --from anyone --exec 'echo pong'`, typed],
        () => alice.mustSend(other, 'ping'),
        (told) => told > 0,
        async () => {
          const { participants } = (await alice.mustRead(id)) as { participants: { handle: string; status: string }[] };
          return participants.find(({ handle }) => handle === bob.handle)?.status;
        },
      );
    }),
    '--shared': shown('--shared', ['ping'], async (scene, typed) => {
      const { alice, bob } = scene;
      const [taken, free] = [await scene.session(), await scene.session()];
      const other = { worker: 'another', event_id: 'evt_00000000000000000000000000', sequence: 1 };
      await bob.post(`/sessions/${taken}/claim`, { ...other, lease_ms: 600_000 });
      return running(
        scene,
        [`run --from anyone --concurrency 1 --exec 'echo pong'`, typed],
        async () => {
          await alice.mustSend(taken, 'ping');
          await alice.mustSend(free, 'ping');
        },
        async () => (await textsIn(alice, free)).length > 1,
        () => textsIn(alice, taken),
      );
    }),
    '--end': shown(
      '--end',
      'ended',
      asked(
        `run --from anyone --exec 'echo pong'`,
        async ({ alice }, id) => ((await alice.mustRead(id)) as { state: string }).state,
      ),
    ),
    '--count': shown(
      '--count 1',
      0,
      asked(`run --from anyone --exec 'echo pong'`, (_, __, code) => code, 3000),
    ),
    '--concurrency': shown('--concurrency 1', ['begin', 'end', 'begin', 'end'], async (scene, typed) => {
      const log = join(scene.home, 'log');
      const command = `echo begin >> ${log}; sleep 0.5; echo end >> ${log}`;
      const lines = (): string[] => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : []);
      return twoAsk(scene, ['run --from anyone', ['--exec', command], typed], () => lines().length === 4, lines);
    }),
    '--command-timeout': shown(
      '--command-timeout 100ms',
      ['ping'],
      asked(`run --from anyone --on-failure skip --exec 'sleep 0.5; echo late'`),
    ),
    '--grace': shown('--grace 5s', ['ping', 'pong'], async (scene, typed) => {
      const id = await scene.session();
      const begun = join(scene.home, 'begun');
      const command = ['--exec', `touch ${begun}; sleep 1; echo pong`];
      const instead = typed.length === 0 ? ['--grace', '1ms'] : typed;
      const isBegun = () => existsSync(begun);
      const words = ['run --from anyone', command, instead];
      return running(
        scene,
        words,
        () => scene.alice.mustSend(id, 'ping'),
        isBegun,
        () => textsIn(scene.alice, id),
      );
    }),
    '--on-failure': shown('--on-failure skip', ['ping'], asked(`run --from anyone --exec 'exit 3'`)),
    '--ready-file': shown('--ready-file $home/ready', [true, false], async (scene, typed) =>
      readiness(scene, [`run --from anyone --exec 'echo pong'`, typed]),
    ),
    '--since': shown('--since 1h', 2, async (scene, typed) => {
      const id = await scene.session('ping');
      // The service reports times in whole seconds.
      await pause(1100);
      const words = [`run --from anyone --exec 'echo pong'`, typed];
      const isDone = (told: number): boolean => told > (typed.length > 0 ? 1 : 0);
      const pongs = async (): Promise<number> =>
        (await textsIn(scene.alice, id)).filter((text) => text === 'pong').length;
      return running(scene, words, () => scene.alice.mustSend(id, 'ping'), isDone, pongs);
    }),
    '--tries': shown(
      '--tries 2',
      ['ping', 'pong'],
      asked(`run --from anyone --exec 'test -e $home/again && echo pong || { echo > $home/again; exit 1; }'`),
    ),
    '--cursor-file': shown(
      '--cursor-file $home/place.json',
      true,
      asked(`run --from anyone --exec 'echo pong'`, ({ home }) => existsSync(join(home, 'place.json'))),
    ),
  },
  mock: {
    handle: shown(
      '$bob',
      0,
      async (scene, typed) => {
        const stdin = '{"rules":[{"on":"invitation","required":true,"do":"join"}]}';
        await scene.alice.mustCreate({ invite: [scene.bob.handle] });
        return (
          await scene.as(scene.bob, ['mock', typed, '--timeout 20s --until-met --from anyone --script -'], { stdin })
        ).code;
      },
      '$alice',
    ),
    '--script': shown(
      '--script $home/pong.json',
      ['ping', 'pong'],
      mocked('mock --from anyone'),
      '--script $home/not.json',
    ),
    '--strict': shown('--strict', 13, async (scene, typed) => {
      writeScripts(scene);
      const id = await scene.session();
      const agent = scene.start(scene.bob, ['mock --from anyone --script $home/not.json', typed]);
      await until('the agent answers', async () => agent.streams.err().includes('Answering as'));
      await scene.alice.mustSend(id, 'ping');
      await until('the message is seen', async () => agent.streams.err().includes('no rule fits'));
      agent.stop();
      return (await agent.ended).code;
    }),
    '--until-met': shown(
      '--until-met',
      0,
      mocked('mock --from anyone --script $home/pong.json', (_, __, code) => code),
    ),
    '--from': shown(
      '--from $carol',
      [['ping'], ['ping', 'pong']],
      (scene, typed) => {
        writeScripts(scene);
        return twoAsk(
          scene,
          ['mock --script $home/pong.json', typed],
          (texts) => texts.some(({ length }) => length > 1),
          (texts) => texts,
        );
      },
      '--from $alice',
    ),
    '--count': shown(
      '--count 1',
      0,
      mocked('mock --from anyone --script $home/pong.json', (_, __, code) => code),
    ),
    '--since': shown('--since 1h', 2, async (scene, typed) => {
      writeScripts(scene);
      const id = await scene.session('ping');
      // The service reports times in whole seconds.
      await pause(1100);
      const isDone = (told: number): boolean => told > (typed.length > 0 ? 1 : 0);
      const pongs = async (): Promise<number> =>
        (await textsIn(scene.alice, id)).filter((text) => text === 'pong').length;
      const words = ['mock --from anyone --script $home/pong.json', typed];
      return running(scene, words, () => scene.alice.mustSend(id, 'ping'), isDone, pongs);
    }),
    '--max-replies': shown('--max-replies 1', ['a', 'b', 'pong'], mockedTwice()),
    '--human': shown('--human $alice', ['a', 'b', 'pong', 'pong'], mockedTwice('--max-replies 1')),
    '--max-replies-per-hour': shown('--max-replies-per-hour 1', ['a', 'b', 'pong'], mockedTwice()),
    '--max-hops': shown('--max-hops 3', ['ping'], async (scene, typed) => {
      writeScripts(scene);
      const id = await scene.session();
      return running(
        scene,
        ['mock --from anyone --script $home/pong.json', typed],
        () => scene.alice.mustSend(id, 'ping', { hops: 3 }),
        (told) => told > 0,
        () => textsIn(scene.alice, id),
      );
    }),
    '--ready-file': shown('--ready-file $home/ready', [true, false], async (scene, typed) => {
      writeScripts(scene);
      return readiness(scene, ['mock --from anyone --script $home/pong.json', typed]);
    }),
  },
  replay: {
    'recording|-': shown('recording.jsonl', [0, 'a'], replayed(`--exec 'echo a'`), 'other.jsonl'),
    '--exec': shown(`--exec 'echo a'`, [0, 'a'], replayed('recording.jsonl'), `--exec 'echo b'`),
    '--lines': shown('--lines', [0, 'a'], replayed(['recording.jsonl', '--exec', linesOf('a')])),
    '--reply-json': shown('--reply-json', [0, 'a'], replayed(['recording.jsonl', '--exec', `echo '{"content":"a"}'`])),
    '--recent': shown(
      '--recent 1',
      [0, 'a'],
      replayed(['recording.jsonl', '--exec', `grep -q '"recent":' && echo a || echo b`]),
    ),
    '--acp': shown(
      `--acp 'node ${RUDE_AGENT}'`,
      [13, 'a'],
      replayed('recording.jsonl --from bob.bot'),
      `--exec 'echo a'`,
    ),
    '--allow': shown('--allow read', 'read: once', async (scene, typed) => {
      scene.file('asked.jsonl', recorded(1, '@bob.bot', 'permission read') + recorded(2, '@me.bot', 'x'));
      const program = `node ${SDK_AGENT} ${join(scene.home, 'log')}`;
      const { out } = await scene.asNobody(['replay --as me.bot --json asked.jsonl --acp', [program], typed]);
      return (JSON.parse(out) as { replayed: { messages: string[] } }).replayed.messages[0];
    }),
    '--from': shown(
      '--from bob.bot',
      [0, 'a'],
      replayed(`recording.jsonl --exec 'test $ASP_ACTOR = @bob.bot && echo a || echo b'`),
    ),
    '--command-timeout': shown(
      '--command-timeout 100ms',
      [13, 'a'],
      replayed(`recording.jsonl --exec 'sleep 0.5; echo a'`),
    ),
    '--tries': shown('--tries 2', [0, 'a'], replayed(`recording.jsonl --exec 'test $ASP_TRY = 2 && echo a'`)),
    '--ignore': shown('--ignore [0-9]', [0, 'a'], replayed(`recording.jsonl --exec 'echo a7'`)),
  },
  mcp: {
    '--read-only': shown('--read-only', [true, false], async (scene, typed) => {
      const names = await tools(scene, typed);
      return [names.includes('session_list'), names.includes('send')];
    }),
    '--tools': shown('--tools send,read --tools wait', ['send', 'wait', 'read'], tools),
    // A test with a real inbox is in test/acceptance/mcp.test.ts.
    '--wake': shown('--wake', true, async ({ as, alice }, typed) => {
      const { err } = await as(alice, ['mcp --verbose', typed], { stdin: '' });
      return err.includes('takes no messages from it, so --wake does nothing');
    }),
    '--files': shown('--files $home/shared', true, async (scene, typed) =>
      (await tools(scene, typed)).includes('attachment_upload'),
    ),
    '--max-replies': shown('--max-replies 1', [false, true], sendsTwice()),
    '--human': shown('--human $alice', [false, false], sendsTwice('--max-replies 1')),
    '--max-replies-per-hour': shown('--max-replies-per-hour 1', [false, true], sendsTwice()),
    '--max-hops': shown('--max-hops 3', [true, true], sendsTwice('--max-replies 0', { hops: 3 })),
  },
  api: {
    path: shown(
      'agents/me',
      '$alice',
      async ({ as, alice }, typed) =>
        (jsonOf(await as(alice, ['api --json', typed])) as { canonical_handle?: string }).canonical_handle ?? null,
      'sessions',
    ),
    '--method': shown('--method post', true, async ({ session, as, alice, bob }, typed) => {
      await session();
      await as(bob, ['api sessions/$session/leave', typed]);
      return (await as(alice, 'session show $session --json')).out.includes('"left"');
    }),
    '--http-header': shown(`--http-header 'X-Mine: yes'`, ['yes'], async ({ as, alice, sent }, typed) => {
      await as(alice, ['api agents/me', typed]);
      return sent.map(({ headers }) => headers['x-mine']);
    }),
    '--include': shown('--include', true, async ({ as, alice }, typed) =>
      (await as(alice, ['api agents/me', typed])).out.startsWith('HTTP 200\n'),
    ),
    '--field': shown('--field topic=hello', 'hello', async ({ as, alice }, typed) => {
      await as(alice, ['api sessions -X POST', typed]);
      const { sessions } = jsonOf(await as(alice, 'api sessions --json')) as { sessions: { topic: unknown }[] };
      return sessions[0]?.topic ?? null;
    }),
    '--typed': shown(`--typed 'invite=["$bob"]'`, 2, async ({ as, alice }, typed) => {
      await as(alice, ['api sessions -X POST', typed]);
      const { sessions } = jsonOf(await as(alice, 'api sessions --json')) as {
        sessions: { participants: unknown[] }[];
      };
      return sessions[0]?.participants.length ?? null;
    }),
    '--input': shown('--input -', 'from stdin', async ({ as, alice }, typed) => {
      await as(alice, ['api sessions -X POST', typed], { stdin: '{"topic":"from stdin"}' });
      const { sessions } = jsonOf(await as(alice, 'api sessions --json')) as { sessions: { topic: unknown }[] };
      return sessions[0]?.topic ?? null;
    }),
    '--paginate': shown('--paginate', 3, async (scene, typed) => {
      await createAndList(scene, 3);
      const { out } = await scene.as(scene.alice, ['api sessions?limit=1 --json', typed]);
      return out.trim().split('\n').length;
    }),
    ...writeOptions(() => 'api sessions --field topic=x'),
  },
};

everyOption('run', TABLE);
