import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { expect, it, vi } from 'vitest';

import { until } from '../../support/until.js';
import type { RunOptions } from '../captured-run.js';
import { everyOption, fileOf, jsonOf, listCommands, pause, type Scene, shown, type Table } from './every-option.js';

type Typed = readonly string[];

/** Runs this line as alice and inspects the result. */
const run =
  (
    line: string,
    look: (ran: { code: number; out: string; err: string }, scene: Scene) => unknown,
    options: RunOptions = {},
  ) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await scene.session('hello');
    return look(await scene.as(scene.alice, [line, typed], options), scene);
  };

const isDocument = (out: string): boolean => out.startsWith('{') && out.trim().split('\n').length === 1;

/** Counts the requests to a service that always fails. */
async function countTries({ as, alice }: Scene, typed: Typed, line: string): Promise<number> {
  let count = 0;
  const server = createServer((_, response) => {
    count += 1;
    response.writeHead(503, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const environment = {
    ASP_PROFILE: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/v1`,
    ASP_RETRIES: '1',
  };
  await as(alice, [line, typed], { environment });
  server.close();
  return count;
}

/** Answers as bob after a short deadline has passed. */
async function answerLate({ alice, bob }: Scene): Promise<void> {
  await pause(1500);
  const session = await until('the session', async () => {
    const { sessions } = (await alice.get('/sessions')).json as { sessions: { id: string }[] };
    return sessions[0];
  });
  await bob.mustJoin(session.id);
  await bob.mustSend(session.id, 'pong');
}

const TABLE: Table = {
  '': {
    '--as': shown('--as $bob', '$bob', async ({ asNobody }, typed) => {
      for (const handle of ['$alice', '$bob']) await asNobody(`login ${handle} --yes`);
      const agent = jsonOf(await asNobody(['agent show --json', typed])) as { canonical_handle?: unknown };
      return agent.canonical_handle ?? null;
    }),
    '--profile': shown('--profile work', 'https://api.example/v1', async ({ asNobody }, typed) => {
      await asNobody('profile add home --base-url https://home.example/v1');
      await asNobody('profile add work --base-url https://api.example/v1');
      await asNobody('profile use home');
      return (jsonOf(await asNobody(['status --offline --json', typed])) as { base_url: unknown }).base_url;
    }),
    '--json': [
      shown(
        '--json',
        true,
        run('session list', ({ out }) => isDocument(out) && out.includes('"items"')),
      ),
      shown(
        '--json',
        true,
        run('send $session hi', ({ out }) => isDocument(out) && out.includes('"message_id"')),
      ),
    ],
    '--jsonl': shown(
      '--jsonl',
      [true, false],
      run('session list', ({ out }) => [isDocument(out), out.includes('"items"')]),
    ),
    '--fields': [
      shown(
        '--fields id',
        { items: [{ id: '$session' }], next_cursor: null },
        run('session list', ({ out, err }) => (out.startsWith('{') ? JSON.parse(out) : err)),
      ),
      shown(
        '--fields session_id',
        { session_id: '$session' },
        run('send $session hi', ({ out, err }) => (out.startsWith('{') ? JSON.parse(out) : err)),
      ),
    ],
    '--jq': [
      shown(
        '--jq .items[].id',
        '$session\n',
        run('session list', ({ out }) => out),
      ),
      shown(
        '--jq .session_id',
        '$session\n',
        run('send $session hi', ({ out }) => out),
      ),
    ],
    '--quiet': shown(
      '--quiet',
      '',
      run('send $session hi', ({ err }) => err),
    ),
    '--verbose': shown('--verbose', true, async (scene, typed) => {
      scene.file('note.txt', 'a note');
      return run('send $session hi --file $home/note.txt', ({ err }) => err.includes('uploaded note.txt'))(
        scene,
        typed,
      );
    }),
    '--debug': [
      shown(
        '--debug',
        true,
        run('session list', ({ err }) => err.includes('request GET ')),
      ),
      shown(
        '--debug',
        true,
        run('send $session hi', ({ err }) => err.includes('request POST ')),
      ),
    ],
    '--no-input': shown('--no-input', true, async (scene, typed) => {
      vi.spyOn(process.stderr, 'write').mockReturnValue(true);
      const line = 'agent remove $alice --timeout 1s';
      return run(line, ({ err }) => err.includes('pass the answer with --yes'), { isTerminal: true })(scene, typed);
    }),
    '--yes': shown('--yes', 3, async ({ asAccount, as, bob, number }, typed) => {
      await asAccount(`agent create ann.g${number}`);
      await asAccount([`agent remove ann.g${number}`, typed]);
      return (await as(bob, `agent show ann.g${number}`)).code;
    }),
    '--timeout': [
      shown(
        '--timeout 100ms',
        8,
        run('tail $session --idle 1s', ({ code }) => code),
      ),
      shown('--timeout 1s', 8, async (scene, typed) => {
        const asking = scene.as(scene.alice, ['send $bob hi --wait', typed]);
        await answerLate(scene);
        return (await asking).code;
      }),
    ],
    '--retries': [
      shown('--retries 0', 1, (scene, typed) => countTries(scene, typed, 'agent show')),
      shown('--retries 0', 1, (scene, typed) => countTries(scene, typed, 'session create $bob')),
    ],
    '--color': shown(
      '--color always',
      true,
      run('agent show', ({ out }) => out.includes('\u001b[')),
    ),
    '--accessible': shown('--accessible', false, async (scene, typed) => {
      const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
      await run('session wait $session --for ended --timeout 3s', () => {}, { isTerminal: true })(scene, typed);
      return written.mock.calls.some(([text]) => String(text).includes('waiting'));
    }),
    '--help': shown(
      '--help',
      [true, 0],
      run('session create $bob', ({ out }, { sent }) => [out.includes('Examples'), sent.length]),
    ),
    '--version': shown(
      '--version',
      ['1.2.3\n', 0],
      run('session create $bob', ({ out }, { sent }) => [out, sent.length]),
    ),
  },
};

everyOption('global', TABLE);

it('every command has its test file here', async () => {
  const paths = (await listCommands()).map(({ words }) => words);
  const todo = paths.flatMap((words) => {
    const file = fileOf(words);
    if (file === undefined) return [`Add '${words[0]}' to FILES in test/cli/every-option/every-option.ts.`];
    const path = new URL(`${file}.test.ts`, import.meta.url);
    return existsSync(path) ? [] : [`Write test/cli/every-option/${file}.test.ts for asp ${words.join(' ')}.`];
  });
  expect(todo).toEqual([]);
});
