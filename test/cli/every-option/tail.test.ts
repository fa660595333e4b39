import { chmodSync, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

import { until } from '../../support/until.js';
import { everyOption, pause, type Scene, shown, type Table } from './every-option.js';

type Typed = readonly string[];
interface Event {
  readonly type: string;
  readonly session_id?: string;
  readonly sequence?: number;
  readonly payload?: { readonly content?: unknown };
}

const eventsOf = (out: string): Event[] =>
  out
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
const sequencesOf = (out: string): unknown[] => eventsOf(out).map(({ sequence }) => sequence);
const typesOf = (out: string): string[] => eventsOf(out).map(({ type }) => type);

/** Creates a session with five events: 1 invited, 2 joined, 3 and 4 messages from alice, 5 a message from bob. */
async function fiveEvents(scene: Scene): Promise<string> {
  const id = await scene.session('one', 'two');
  await scene.bob.mustSend(id, 'three');
  return id;
}

/** Returns what bob's command prints from such a session. */
const shownOf =
  (line: string, look: (out: string, scene: Scene) => unknown = sequencesOf) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await fiveEvents(scene);
    return look((await scene.as(scene.bob, [line, typed])).out, scene);
  };

/** Collects what is posted to an address during `work`. */
async function posted(scene: Scene, work: () => Promise<unknown>, header?: string): Promise<unknown[]> {
  const bodies: unknown[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += String(part);
    bodies.push(header === undefined ? JSON.parse(body).sequence : request.headers[header]);
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  scene.name('$hook', `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/`);
  await work();
  server.close();
  return bodies;
}

/** Returns the tests of the options that both event commands have. `line` prints all events of `$session`. */
function eventOptions(line: string): Table[string] {
  return {
    '--last': shown('--last 2', [4, 5], shownOf(line)),
    '--after': shown('--after 3', [4, 5], shownOf(line)),
    // Each test reads the time of the third event from the service.
    '--since': shown('--since $time', [3, 4, 5], async (scene, typed) => {
      await atThird(scene);
      return sequencesOf((await scene.as(scene.bob, [line, typed])).out);
    }),
    '--until': shown('--until $time', [1, 2, 3], async (scene, typed) => {
      await atThird(scene);
      return sequencesOf((await scene.as(scene.bob, [line, typed])).out);
    }),
    '--type': shown('--type joined', [2], shownOf(line)),
    '--from': shown('--from $alice', [1, 3, 4], shownOf(line)),
    '--not-me': shown('--not-me', [1, 3, 4], shownOf(line)),
    '--count': shown('--count 2', [1, 2], shownOf(line)),
    '--cursor-file': shown('--cursor-file $home/cursor', [1, 2, 3, 4, 5, 6], async (scene, typed) => {
      const id = await fiveEvents(scene);
      const first = await scene.as(scene.bob, [line, typed]);
      await scene.alice.mustSend(id, 'four');
      return sequencesOf(first.out + (await scene.as(scene.bob, [line, typed])).out);
    }),
    '--pretty': shown(
      '--pretty',
      true,
      shownOf(line, (out, { bob }) => out.includes(`${bob.handle} joined`)),
    ),
    '--text': shown(
      '--text',
      'one\ntwo\nthree\n',
      shownOf(line, (out) => out),
    ),
    '--fence': shown(
      '--fence',
      3,
      shownOf(line, (out) => [...out.matchAll(/^=== \S{16} begin untrusted message from @/gm)].length),
    ),
    '--exec': shown(
      `--exec 'echo "$ASP_SEQUENCE"'`,
      '1\n2\n3\n4\n5\n',
      shownOf(line, (out) => out),
    ),
    '--on-error': shown(
      '--on-error skip',
      '1\n3\n4\n5\n',
      shownOf(`${line} --exec '[ "$ASP_SEQUENCE" != 2 ] && echo "$ASP_SEQUENCE"'`, (out) => out),
    ),
    '--forward': shown('--forward $hook', [1, 2, 3, 4, 5], async (scene, typed) => {
      await fiveEvents(scene);
      return posted(scene, () => scene.as(scene.bob, [line, typed]));
    }),
    '--forward-secret-file': shown('--forward-secret-file $home/secret', true, async (scene, typed) => {
      chmodSync(scene.file('secret', `whsec_${Buffer.alloc(32, 7).toString('base64')}`), 0o600);
      await fiveEvents(scene);
      const run = () => scene.as(scene.bob, [`${line} --forward $hook`, typed]);
      const signatures = await posted(scene, run, 'webhook-signature');
      return signatures.length === 5 && signatures.every((text) => /^v1,[\w+/]{43}=$/.test(String(text)));
    }),
  };
}

/** Creates five events at three times. `$time` is the time of the third event. */
async function atThird(scene: Scene): Promise<void> {
  const id = await scene.session();
  await pause(5);
  await scene.alice.mustSend(id, 'one');
  await pause(5);
  await scene.alice.mustSend(id, 'two');
  await scene.bob.mustSend(id, 'three');
  const events = (await scene.bob.mustReplay(id)) as { created_at: number }[];
  scene.name('$time', String(events[2]?.created_at));
}

/** Runs `meanwhile` during a live tail, then stops the tail after some time if it has not ended. */
const live =
  (
    line: string,
    meanwhile: (scene: Scene) => Promise<unknown>,
    look: (out: string, code: number | null, scene: Scene) => unknown,
    graceMs = 500,
  ) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await fiveEvents(scene);
    const tail = scene.start(scene.bob, [line, typed]);
    const isLive = (): boolean =>
      existsSync(join(scene.home, 'live')) || typesOf(tail.streams.out()).includes('asp.ready');
    await until('the tail is live', async () => isLive());
    await meanwhile(scene);
    const ended = await Promise.race([tail.ended, pause(graceMs)]);
    tail.stop();
    await tail.ended;
    return look(tail.streams.out(), ended?.code ?? null, scene);
  };

const nothing = async (): Promise<void> => {};
const endIt = async ({ alice, as }: Scene): Promise<unknown> => as(alice, 'session end $session');

const TABLE: Table = {
  'session events': {
    sessions: shown(
      '$session',
      5,
      async (scene, typed) => {
        await scene.session();
        scene.name('$other', await scene.session());
        await fiveEvents(scene);
        return eventsOf((await scene.as(scene.bob, ['session events', typed])).out).length;
      },
      '$other',
    ),
    ...eventOptions('session events $session'),
  },
  'session tail': {
    sessions: shown(
      '$session',
      5,
      live(
        'tail --control',
        ({ session }) => session('in another one'),
        (out) => typesOf(out).filter((type) => type.startsWith('session.')).length,
        1500,
      ),
    ),
    ...eventOptions('tail --no-follow $session'),
    '--no-follow': shown('--no-follow', [5, 0], async (scene, typed) => {
      await fiveEvents(scene);
      const { code, out } = await scene.as(scene.bob, ['tail $session --timeout 3s', typed]);
      return [eventsOf(out).length, code];
    }),
    '--idle': shown('--idle 200ms', 0, async (scene, typed) => {
      await fiveEvents(scene);
      return (await scene.as(scene.bob, ['tail $session --timeout 3s', typed])).code;
    }),
    '--keep': shown(
      '--keep',
      null,
      live('tail $session --control', endIt, (_, code) => code, 3000),
    ),
    '--control': shown(
      '--control',
      ['asp.ready', 'asp.end'],
      live(
        'tail $session --ready-file $home/live',
        endIt,
        (out) => typesOf(out).filter((type) => type.startsWith('asp.')),
        10_000,
      ),
    ),
    '--heartbeat': shown(
      '--heartbeat 100ms',
      true,
      live('tail $session --ready-file $home/live', nothing, (out) => typesOf(out).includes('asp.heartbeat'), 1500),
    ),
    '--ready-file': shown('--ready-file $home/ready', true, async (scene, typed) => {
      const ready = join(scene.home, 'ready');
      let wasThere = false;
      const look = async (): Promise<void> => {
        wasThere = existsSync(ready);
      };
      await live('tail $session --control', look, () => null)(scene, typed);
      return wasThere && !existsSync(ready);
    }),
    '--for-agent': shown(
      '--for-agent',
      2,
      live(
        'tail $session --ready-file $home/live',
        nothing,
        (out) => out.split('\n').filter((line) => line.startsWith('[asp] ')).length,
        3000,
      ),
    ),
    '--join': shown(
      '--join',
      'joined',
      live(
        'tail --control',
        async ({ alice, bob, name }) => name('$session', await alice.mustCreate({ invite: [bob.handle] })),
        async (_, __, { as, alice, bob }) => {
          const { participants } = JSON.parse((await as(alice, 'session show $session --json')).out);
          return participants.find(({ handle }: { handle: string }) => handle === bob.handle).status;
        },
        1500,
      ),
    ),
  },
};

everyOption('tail', TABLE);
