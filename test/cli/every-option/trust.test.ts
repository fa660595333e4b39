import type { Actor } from '../../support/actors.js';
import { column, everyOption, pageOptions, type Scene, shown, type Table, writeOptions } from './every-option.js';

/** Returns alice's allowlist without the agents of her owner, which are always there. */
async function listed({ as, alice }: Scene): Promise<unknown> {
  const { out } = await as(alice, 'allowlist list');
  return out.split('\n').filter((entry) => entry !== '' && entry !== `@${alice.owner}.*`);
}

/** Returns the agents that alice blocks. */
const blocked = async ({ as, alice }: Scene): Promise<unknown> =>
  column(await as(alice, 'block list --json'), 'blocked_handle');

const blockMany = async ({ alice, service }: Scene, count: number): Promise<void> => {
  for (let at = 0; at < count; at++) {
    const { handle } = await service.createAgent('spam');
    await alice.post('/blocks', { handle });
  }
};

/** The agent of each scene that holds knocks from strangers, if it has one. */
const holders = new WeakMap<Scene, Actor>();
const findHolder = (scene: Scene): Actor => holders.get(scene) ?? scene.alice;

/** Creates an agent that holds knocks from strangers, with the knocks `$first`, `$second`, and `$third`. */
async function haveKnocked(scene: Scene): Promise<void> {
  const holder = await scene.service.createAgent('holder', { policy: 'hold' });
  holders.set(scene, holder);
  for (const name of ['first', 'second', 'third'] as const) {
    const stranger = await scene.service.createAgent(name);
    scene.name(`$${name}`, stranger.handle);
    await stranger.post('/sessions', { invite: [holder.handle] });
  }
}

/** Puts `carol.bot` on alice's allowlist and `dave.bot` in her file `$home/friends`. */
async function prepareFile({ as, alice, file }: Scene): Promise<void> {
  await as(alice, 'allowlist add carol.bot');
  file('friends', 'dave.bot\n');
}

/** With the same key, the second run repeats the first and does not restore what was removed in between. */
async function applyAgain(scene: Scene, typed: readonly string[]): Promise<unknown> {
  const { as, alice } = scene;
  await prepareFile(scene);
  await as(alice, ['allowlist apply $home/friends', typed]);
  await as(alice, 'allowlist remove dave.bot');
  await as(alice, ['allowlist apply $home/friends', typed]);
  return listed(scene);
}

const TABLE: Table = {
  'allowlist add': {
    entries: shown('carol.bot dave.*', ['@carol.bot', '@dave.*'], async (scene, typed) => {
      await scene.as(scene.alice, ['allowlist add', typed]);
      return listed(scene);
    }),
    ...writeOptions(() => 'allowlist add carol.bot dave.bot'),
  },
  'allowlist remove': {
    entries: shown('carol.bot dave.bot', ['@erin.bot'], async (scene, typed) => {
      await scene.as(scene.alice, 'allowlist add carol.bot,dave.bot,erin.bot');
      await scene.as(scene.alice, ['allowlist remove', typed]);
      return listed(scene);
    }),
    ...writeOptions(async ({ as, alice }) => {
      await as(alice, 'allowlist add carol.bot,dave.bot');
      return 'allowlist remove carol.bot dave.bot';
    }),
  },
  'allowlist apply': {
    'file|-': shown('$home/friends', ['@carol.bot', '@dave.bot'], async (scene, typed) => {
      await prepareFile(scene);
      await scene.as(scene.alice, ['allowlist apply', typed]);
      return listed(scene);
    }),
    '--prune': shown('--prune', ['@dave.bot'], async (scene, typed) => {
      await prepareFile(scene);
      await scene.as(scene.alice, ['allowlist apply $home/friends', typed]);
      return listed(scene);
    }),
    ...writeOptions(async (scene) => {
      await prepareFile(scene);
      return 'allowlist apply $home/friends';
    }),
    '--idempotency-key': shown('--idempotency-key mine', ['@carol.bot'], applyAgain),
    '--once': shown('--once nightly', ['@carol.bot'], applyAgain),
  },
  'allowlist check': {
    handle: shown(
      'carol.bot',
      0,
      async ({ service, as }, typed) => {
        const closed = await service.createAgent('closed', { policy: 'allowlist' });
        await as(closed, 'allowlist add carol.bot');
        return (await as(closed, ['allowlist check', typed])).code;
      },
      'dave.bot',
    ),
  },
  'knock dismiss': {
    handles: shown('$first $third', ['$second'], async (scene, typed) => {
      await haveKnocked(scene);
      await scene.as(findHolder(scene), ['knock dismiss', typed]);
      return column(await scene.as(findHolder(scene), 'knock list --json'), 'sender');
    }),
    ...writeOptions(
      async (scene) => {
        await haveKnocked(scene);
        return 'knock dismiss $first $second';
      },
      (scene, words) => scene.as(findHolder(scene), words),
    ),
  },
  'block list': pageOptions('block list', 50, blockMany),
  'block add': {
    handles: shown('$bob dave.*', ['@dave.*', '$bob'], async (scene, typed) => {
      await scene.as(scene.alice, ['block add', typed]);
      return blocked(scene);
    }),
    ...writeOptions(() => 'block add $bob dave.*'),
  },
  'block remove': {
    blocked: shown('$bob', ['@dave.*'], async (scene, typed) => {
      await scene.as(scene.alice, 'block add $bob dave.*');
      await scene.as(scene.alice, ['block remove', typed]);
      return blocked(scene);
    }),
    ...writeOptions(async ({ as, alice }) => {
      await as(alice, 'block add $bob dave.*');
      return 'block remove $bob dave.*';
    }),
  },
};

everyOption('trust', TABLE);
