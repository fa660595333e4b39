import { chmodSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';

import { operate } from '../../support/actors.js';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.js';
import {
  column,
  everyOption,
  jsonOf,
  pageOptions,
  type Scene,
  shown,
  type Table,
  writeOptions,
} from './every-option.js';

type Typed = readonly string[];
type LookAt = (scene: Scene, handle: string) => Promise<unknown>;

/** Creates an agent of the account with these words. Returns its handle. */
async function createAgent({ number, asAccount }: Scene, typed: Typed = []): Promise<string> {
  const handle = `@ann.a${number}`;
  const { code, err } = await asAccount([`agent create ${handle}`, typed]);
  if (code !== 0) throw new Error(err);
  return handle;
}

/** Creates agents for alice's owner until there are `count`. */
const fillOwner = async ({ service, alice }: Scene, count: number): Promise<void> => {
  for (let at = 1; at < count; at++)
    await operate(service.operator, 'POST', '/agents', { handle: `@${alice.owner}.n${at}` });
};
const asAccount = ({ asAccount: run }: Scene, words: Parameters<Scene['asAccount']>[0]) => run(words);

const member =
  (name: string): LookAt =>
  async ({ as, bob }, handle) =>
    (jsonOf(await as(bob, `agent show ${handle} --json`)) as Record<string, unknown>)[name];
const card: LookAt = async ({ as, bob }, handle) => (await as(bob, `agent card ${handle}`)).out.includes('My skill.');
const foundByBob: LookAt = async ({ as, bob }, handle) => (await as(bob, `agent show ${handle}`)).code;
const invitedByBob: LookAt = async ({ as, bob }, handle) => (await as(bob, `session create ${handle}`)).code;

/** Creates or changes an agent with the words and returns what bob sees of it. */
function fieldOptions(run: (look: LookAt) => (scene: Scene, typed: Typed) => Promise<unknown>): Table[string] {
  return {
    '--display-name': shown("--display-name 'The Second'", 'The Second', run(member('display_name'))),
    '--description': shown("--description 'counts sheep'", 'counts sheep', run(member('description'))),
    '--card': shown('--card $home/card.md', true, (scene, typed) => {
      scene.file('card.md', 'My skill.\n');
      return run(card)(
        scene,
        typed.map((word) => word.replace('$home', scene.home)),
      );
    }),
    '--policy': shown('--policy allowlist', 3, run(invitedByBob), '--policy open'),
    '--visibility': shown('--visibility private', 3, run(foundByBob)),
  };
}

const createdWith =
  (look: LookAt) =>
  async (scene: Scene, typed: Typed): Promise<unknown> =>
    look(scene, await createAgent(scene, typed));

const updatedWith =
  (look: LookAt, before?: string) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    const handle = await createAgent(scene);
    if (before !== undefined) await scene.asAccount(`agent update ${handle} ${before}`);
    await scene.asAccount([`agent update ${handle}`, typed]);
    return look(scene, handle);
  };

/** Returns the configured agent, and whether the folder has its own choice. */
const choices = async ({ asNobody, home }: Scene): Promise<unknown> => [
  (await asNobody('config get local_agent')).out.trim(),
  existsSync(join(home, '.asp.json')),
];

/** Whether the acting agent reports what it accepts after an update. */
const reportsTaken =
  (before: string) =>
  async ({ as, alice }: Scene, typed: readonly string[]): Promise<unknown> => {
    if (before !== '') await as(alice, `agent update ${before}`);
    await as(alice, ['agent update', typed]);
    return ((await alice.get('/agents/me')).json as { reports_taken: boolean }).reports_taken;
  };

let receiver: WebhookReceiver;
beforeAll(async () => {
  receiver = await startWebhookReceiver();
});
afterAll(() => receiver.close());

/** Runs with the URL of a receiver as `$hook`. */
const withHook = (run: (scene: Scene, typed: Typed) => Promise<unknown>) => (scene: Scene, typed: Typed) =>
  run(
    scene,
    typed.map((word) => word.replace('$hook', receiver.url()).replace('$home', scene.home)),
  );
/** Sets a webhook of a new agent. Returns its handle. */
const createHook = async (scene: Scene): Promise<string> => {
  const handle = await createAgent(scene);
  chmodSync(scene.file('hook.secret', receiver.secret), 0o600);
  const { code, err } = await scene.asAccount([
    `webhook set ${receiver.url()} ${handle} --signing-secret-file`,
    [join(scene.home, 'hook.secret')],
  ]);
  if (code !== 0) throw new Error(err);
  return handle;
};
const statusOf = async (scene: Scene, handle: string): Promise<unknown> =>
  (jsonOf(await scene.asAccount(`webhook show ${handle} --json`)) as { status: unknown }).status;
/** The status and the new secret, if there is one, of an agent that has had a webhook. */
const setAgain = withHook(async (scene, typed) => {
  const handle = await createHook(scene);
  const { code, out } = await scene.asAccount([`webhook set ${receiver.url()} ${handle} --json`, typed]);
  const { secret } = JSON.parse(out) as { secret: string | null };
  return [code, secret !== null && secret !== receiver.secret];
});

const TABLE: Table = {
  'agent use': {
    handle: shown(
      'ann.bot',
      ['@ann.bot', false],
      async (scene, typed) => {
        await scene.asNobody(['agent use', typed]);
        return choices(scene);
      },
      'eve.bot',
    ),
    '--here': shown('--here', ['', true], async (scene, typed) => {
      await scene.asNobody(['agent use ann.bot', typed]);
      return choices(scene);
    }),
    '--unset': shown('--unset', ['', false], async (scene, typed) => {
      await scene.asNobody('agent use ann.bot');
      await scene.asNobody(['agent use', typed]);
      return choices(scene);
    }),
  },
  'agent show': {
    handle: shown('$bob', '$bob', async ({ as, alice }, typed) => {
      const agent = jsonOf(await as(alice, ['agent show --json', typed])) as { canonical_handle: unknown };
      return agent.canonical_handle;
    }),
  },
  'agent card': {
    handle: shown('$bob', 0, async ({ as, alice }, typed) => (await as(alice, ['agent card', typed])).code, 'no.body'),
  },
  'agent list': {
    text: shown('n2', [expect.stringMatching(/\.n2$/)], async (scene, typed) => {
      await fillOwner(scene, 3);
      return column(await scene.as(scene.alice, ['agent list --json', typed]), 'canonical_handle');
    }),
    ...pageOptions('agent list', 50, fillOwner),
  },
  'agent search': {
    text: shown(
      'zebra tamer',
      ['$alice'],
      async ({ as, alice, bob }, typed) => {
        await as(alice, 'agent update --display-name "Zebra Tamer"');
        await as(bob, 'agent update --display-name "Zebra Feeder"');
        return column(await as(bob, ['agent search --json', typed]), 'canonical_handle');
      },
      'zebra',
    ),
    ...pageOptions('agent search $owner', 20, fillOwner),
  },
  'agent create': {
    handle: shown(
      'ann.a$number',
      0,
      async (scene, typed) => {
        await scene.asAccount(['agent create', typed]);
        return foundByBob(scene, `@ann.a${scene.number}`);
      },
      'ann.another$number',
    ),
    ...fieldOptions(createdWith),
    ...writeOptions(() => 'agent create ann.a$number', asAccount),
  },
  'agent update': {
    handle: shown('ann.a$number', ['x', 0], async (scene, typed) => {
      const handle = await createAgent(scene);
      const { code } = await scene.asAccount(['agent update --description x', typed]);
      return [await member('description')(scene, handle), code];
    }),
    ...fieldOptions(updatedWith),
    '--pause': shown('--pause', 3, updatedWith(invitedByBob, '--policy open')),
    '--resume': shown('--resume', 0, updatedWith(invitedByBob, '--policy open --pause')),
    '--hide-taken': shown('--hide-taken', false, reportsTaken(''), '--description x'),
    '--share-taken': shown('--share-taken', true, reportsTaken('--hide-taken'), '--description x'),
    ...writeOptions(async (scene) => `agent update ${await createAgent(scene)} --description x`, asAccount),
  },
  'agent remove': {
    handle: shown(
      'ann.a$number',
      3,
      async (scene, typed) => {
        const handle = await createAgent(scene);
        await scene.asAccount(['agent remove --yes', typed]);
        return foundByBob(scene, handle);
      },
      'ann.another$number',
    ),
    ...writeOptions(async (scene) => `agent remove ${await createAgent(scene)} --yes`, asAccount),
  },
  'webhook show': {
    handle: shown('ann.a$number', 'on', async (scene, typed) => {
      await createHook(scene);
      return (jsonOf(await scene.asAccount(['webhook show --json', typed])) as { status?: unknown }).status;
    }),
  },
  'webhook set': {
    url: shown(
      '$hook',
      0,
      withHook(async (scene, typed) => {
        const handle = await createHook(scene);
        return (await scene.asAccount(['webhook set', typed, handle])).code;
      }),
      'nowhere',
    ),
    handle: shown('ann.a$number', 'on', async (scene, typed) => {
      const handle = await createHook(scene);
      await scene.asAccount(`webhook remove ${handle}`);
      await scene.asAccount([
        `webhook set ${receiver.url()} --signing-secret-file`,
        [join(scene.home, 'hook.secret')],
        typed,
      ]);
      return statusOf(scene, handle);
    }),
    '--signing-secret-file': shown(
      '--signing-secret-file $home/made.secret',
      true,
      withHook(async (scene, typed) => {
        const handle = await createAgent(scene);
        receiver.answer((reply) => reply.writeHead(204).end());
        await scene.asAccount([`webhook set ${receiver.url('/unsigned')} ${handle}`, typed]);
        receiver.answer();
        return existsSync(join(scene.home, 'made.secret'));
      }),
    ),
    // The receiver knows only the old secret, so it refuses the test.
    '--new-secret': shown('--new-secret', [10, true], setAgain),
    ...writeOptions(async (scene) => `webhook set ${receiver.url()} ${await createHook(scene)}`, asAccount),
  },
  'webhook test': {
    handle: shown('ann.a$number', 0, async (scene, typed) => {
      await createHook(scene);
      return (await scene.asAccount(['webhook test', typed])).code;
    }),
    ...writeOptions(async (scene) => `webhook test ${await createHook(scene)}`, asAccount),
  },
  'webhook remove': {
    handle: shown('ann.a$number', null, async (scene, typed) => {
      const handle = await createHook(scene);
      await scene.asAccount(['webhook remove', typed]);
      return statusOf(scene, handle);
    }),
    ...writeOptions(async (scene) => `webhook remove ${await createHook(scene)}`, asAccount),
  },
};

everyOption('agent', TABLE);
