import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createBrowser, type TestBrowser } from '../../service/authorization-server/browser.js';
import { type Actor, actorOf, operate } from '../../support/actors.js';
import { freePort } from '../../support/free-port.js';
import { request } from '../../support/http.js';
import { discover } from '../../support/oauth.js';
import { operatorOf } from '../../support/operator.js';
import { startTestService } from '../../support/service.js';
import { until } from '../../support/until.js';
import { freshHome, type Ran, type RunOptions, runWords } from '../captured-run.js';
import { column, everyOption, jsonOf, pause, type Scene, shown, type Table } from './every-option.js';

type Typed = readonly string[];

/** A service that `asp serve` runs in a separate home. */
interface Served {
  readonly home: string;
  readonly url: string;
  readonly origin: string;
  readonly err: () => string;
  /** Runs the program in that home. */
  run(words: string, options?: RunOptions): Promise<Ran>;
}

/** Starts `asp serve` with these words, calls `look`, and stops it. Returns null if it does not start. */
async function serving<Seen>(
  scene: Scene,
  words: readonly (string | Typed)[],
  look: (served: Served) => Promise<Seen> | Seen,
  options: RunOptions = {},
): Promise<Seen | null> {
  const home = freshHome();
  scene.name('$there', home);
  const running = scene.startElsewhere(home, ['serve', ...words], options);
  const run = (line: string, more: RunOptions = {}): Promise<Ran> =>
    runWords(line, {
      ...more,
      environment: { ASP_TOKEN_STORE: 'file', XDG_RUNTIME_DIR: join(home, 'run'), ...more.environment },
      machine: { homeDirectory: home, workingDirectory: home, ...more.machine },
    });
  const isStarted = async (): Promise<string | undefined> => /^http\S+$/m.exec(running.streams.out())?.[0];
  const url = await Promise.race([until('the service', isStarted), running.ended.then(() => undefined)]);
  try {
    if (url === undefined) return null;
    return await look({ home, url, origin: new URL(url).origin, err: running.streams.err, run });
  } finally {
    running.stop();
    await running.ended;
  }
}

const FREE = '--port 0';
const MEMORY = `${FREE} --data memory`;

const served =
  (line: string, look: (served: Served, scene: Scene) => unknown) =>
  async (scene: Scene, typed: Typed): Promise<unknown> =>
    serving(scene, [line, typed], (one) => look(one, scene));

/** Starts `asp serve` with these words and inspects its stderr, whether it starts or not. */
const refusal =
  (line: string, look: (err: string) => unknown) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    const running = scene.startElsewhere(freshHome(), ['serve', line, typed]);
    const started = until('the service', async () => /^http\S+$/m.test(running.streams.out()), 20_000).catch(() => {});
    await Promise.race([running.ended, started]);
    running.stop();
    return look((await running.ended).err);
  };

/** Returns the value of a setting of a service with a database. Only PostgreSQL's own tests start such a service. */
const printed =
  (name: string) =>
  async ({ asNobody }: Scene, typed: Typed): Promise<unknown> => {
    const line = 'serve --print-config --json --database postgres://asp@127.0.0.1:1/asp';
    const { items } = JSON.parse((await asNobody([line, typed])).out) as { items: { name: string; value: unknown }[] };
    return items.find((item) => item.name === name)?.value;
  };

interface SeenSession {
  readonly state: string;
  readonly participants: readonly { readonly handle: string }[];
}

/** Triggers an event and inspects the first session that a.bot sees, and the number of sessions. */
async function triggered(
  scene: Scene,
  event: string | Typed,
  more: string | Typed,
  look: (session: SeenSession, count: number) => unknown,
): Promise<unknown> {
  return serving(scene, [MEMORY, '--seed a.bot,b.bot'], async (one) => {
    await scene.startElsewhere(one.home, ['serve trigger', event, more]).ended;
    const { sessions } = (await (await actAs(one, 'a.bot')).get('/sessions')).json as { sessions: SeenSession[] };
    return look(sessions[0] ?? { state: 'none', participants: [] }, sessions.length);
  });
}

const agents = async ({ run }: Served, member = 'handle'): Promise<unknown> =>
  column(await run('serve agent list --json'), member);

/** Signs in as this agent and runs a line as it. */
async function asAgent({ run }: Served, handle: string, line: string): Promise<Ran> {
  await run(`login ${handle} --yes`);
  return run(`${line} --as ${handle}`);
}

/** Adds a client for an agent as the operator, and returns the agent. */
async function actAs({ url, run }: Served, handle: string): Promise<Actor> {
  const client = jsonOf(await run(`serve client add ${handle}`)) as Record<string, string>;
  const credentials = { clientId: client['client_id'] ?? '', clientSecret: client['client_secret'] ?? '' };
  return actorOf(await discover(url), `@${handle}`, credentials);
}

/** Signs up a person with an agent `@ann.main`. */
async function signUp({ origin }: Served): Promise<TestBrowser> {
  const browser = createBrowser(origin);
  const person = { username: 'ann', display_name: 'Ann', password: 'correct horse battery' };
  await browser.submit(await browser.get('/oauth/sign-in'), '/oauth/sign-up', person);
  await makeAgent(browser, 'main');
  return browser;
}
const makeAgent = async (browser: TestBrowser, name: string) =>
  browser.submit(await browser.get('/dashboard/new-agent'), '/dashboard/new-agent', { name, display_name: name });

/** Returns the status of a signed-up person's request. */
const signedUp = (act: (browser: TestBrowser, served: Served) => Promise<{ readonly status: number }>) =>
  served(MEMORY, async (one) => (await act(await signUp(one), one)).status);

/** Returns an agent of alice's service from the operator's list. */
const agentOf = async ({ asNobody }: Scene, handle: string): Promise<Record<string, unknown> | null> => {
  const { items } = jsonOf(await asNobody('serve agent list --json')) as { items: Record<string, unknown>[] };
  return items.find((item) => item['handle'] === handle) ?? null;
};

const operated =
  (before: string | undefined, line: string, look: (scene: Scene, handle: string) => unknown) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    if (before !== undefined) await scene.asNobody(before);
    await scene.asNobody([line, typed]);
    return look(scene, `@s${scene.number}.bot`);
  };
const ADD = 'serve agent add s$number.bot t$number.bot';
/** Returns a member of an account after this line. */
const accountIs =
  (member: string, line: string, before?: string) =>
  async (scene: Scene, typed: Typed): Promise<unknown> => {
    await scene.asNobody(ADD);
    if (before !== undefined) for (const name of ['s', 't']) await scene.asNobody(`${before} ${name}$number`);
    await scene.asNobody([line, typed]);
    const ran = await scene.asNobody('serve account show s$number --json');
    return ran.code === 0 ? (jsonOf(ran) as Record<string, unknown>)[member] : ran.code;
  };
const ACCOUNT = 's$number';
const ANOTHER = 't$number';

/** Creates a folder with the data of a stopped service. */
async function data(scene: Scene): Promise<void> {
  const directory = join(scene.home, 'data');
  const service = await startTestService({ data: { directory } });
  await service.stop();
  scene.name('$data', directory);
}

const unitOf = (ran: Ran): string => (jsonOf(ran) as { text: string }).text;

/** Options of the commands that also work from another machine. */
const forOperators = (line: string): Table[string] => ({
  '--operator': shown('--operator http://127.0.0.1:1', true, async ({ asNobody }, typed) => {
    const environment = { ASP_OPERATOR_TOKEN: 'a'.repeat(32) };
    return (await asNobody([line, '--retries 0', typed], { environment })).err.includes('127.0.0.1:1');
  }),
  '--operator-token-file': shown('--operator-token-file $home/none', true, async ({ asNobody }, typed) => {
    const ran = await asNobody([line, '--operator http://127.0.0.1:1 --retries 0', typed]);
    return ran.err.includes('(--operator-token-file) does not exist');
  }),
});

const TABLE: Table = {
  serve: {
    '--host': shown(
      '--host 127.0.0.2',
      true,
      served(MEMORY, ({ url }) => url.startsWith('http://127.0.0.2:')),
    ),
    '--port': shown(
      '--port $port',
      true,
      async (scene, typed) => {
        const port = String(await freePort());
        scene.name('$port', port);
        return serving(scene, ['--data memory', typed], ({ url }) => new URL(url).port === port);
      },
      '--port 0',
    ),
    '--data': shown(
      '--data $there/kept',
      true,
      served(FREE, ({ home }) => existsSync(join(home, 'kept'))),
    ),
    '--database': shown(
      '--database postgres://asp@127.0.0.1:1/asp',
      true,
      refusal(FREE, (err) => err.includes('127.0.0.1:1')),
    ),
    '--attachments': shown(
      '--attachments s3://bucket/prefix?region=eu-central-1',
      's3://bucket/prefix?region=eu-central-1',
      printed('attachments'),
    ),
    '--database-connections': shown('--database-connections 30', 30, printed('database-connections')),
    '--database-statement-timeout': shown(
      '--database-statement-timeout 30s',
      30_000,
      printed('database-statement-timeout'),
    ),
    '--database-lock-timeout': shown('--database-lock-timeout 5s', 5_000, printed('database-lock-timeout')),
    '--database-page': shown('--database-page 500', 500, printed('database-page')),
    '--bus': shown('--bus nats://127.0.0.1:1', true, async ({ asNobody }, typed) => {
      const line = 'serve --print-config --database postgres://asp@127.0.0.1:1/asp';
      return (await asNobody([line, typed])).out.includes('nats://127.0.0.1:1');
    }),
    '--key-file': shown(
      '--key-file $there/none.key',
      true,
      refusal(MEMORY, (err) => err.includes('does not exist')),
    ),
    '--bus-creds': shown(
      '--bus-creds $there/none.creds',
      true,
      refusal(`${FREE} --bus nats://127.0.0.1:1 --database postgres://asp@127.0.0.1:1/asp`, (err) =>
        err.includes('Cannot read the credentials'),
      ),
    ),
    '--public-url': shown(
      '--public-url https://asp.example',
      'https://asp.example/v1',
      served(MEMORY, ({ url }) => url),
    ),
    '--behind-proxy': shown(
      '--behind-proxy',
      true,
      served(`${MEMORY} --host 0.0.0.0`, () => true),
    ),
    '--seed': shown(
      '--seed a.bot,b.bot',
      ['@a.bot', '@b.bot'],
      served(MEMORY, (one) => agents(one)),
    ),
    '--policy': shown(
      '--policy allowlist',
      ['allowlist'],
      served(`${MEMORY} --seed a.bot`, (one) => agents(one, 'inbound_policy')),
    ),
    '--demo': shown(
      '--demo',
      true,
      served(MEMORY, async (one) => ((await agents(one)) as string[]).includes('@demo.echo')),
    ),
    '--limits': shown(
      '--limits off',
      true,
      served(`${MEMORY} --seed a.bot`, async (one) => {
        await asAgent(one, 'a.bot', 'agent show');
        let last: Ran | undefined;
        for (let at = 0; at < 31; at++) last = await one.run('session create --retries 0 --as a.bot');
        return last?.code === 0;
      }),
    ),
    '--trust': shown(
      '--trust symmetric',
      false,
      served(`${MEMORY} --seed a.bot,b.bot --policy allowlist`, async (one) => {
        await asAgent(one, 'b.bot', 'allowlist add a.bot');
        return (await asAgent(one, 'a.bot', 'session create b.bot')).code === 0;
      }),
    ),
    '--sign-up': shown(
      '--sign-up off',
      false,
      served(MEMORY, async ({ origin }) =>
        (await createBrowser(origin).get('/oauth/sign-in')).text.includes('sign-up'),
      ),
    ),
    '--account-agents': shown(
      '--account-agents 1',
      403,
      signedUp((browser) => makeAgent(browser, 'second')),
    ),
    '--account-clients': shown(
      '--account-clients 1',
      403,
      signedUp(async (browser) => {
        const form = '/dashboard/new-client';
        const make = async () =>
          browser.submit(await browser.get(form), form, { name: 'ci', agent: 'main', scope: 'sessions:read' });
        await make();
        return make();
      }),
    ),
    '--account-storage': shown(
      '--account-storage 10',
      403,
      signedUp(async (_, one) => (await actAs(one, 'ann.main')).upload({ bytes: 'more than ten' })),
    ),
    '--account-sessions': shown(
      '--account-sessions 1',
      429,
      signedUp(async (_, one) => {
        const ann = await actAs(one, 'ann.main');
        await ann.mustCreate();
        return ann.post('/sessions', {});
      }),
    ),
    '--open-agents': shown(
      '--open-agents all',
      0,
      served(`${MEMORY} --seed a.bot`, async ({ run }) => {
        await run('serve account tier a standard');
        await run('login a.bot --yes --scopes account:read,account:agents:read');
        return (await run('agent create a.second --policy open')).code;
      }),
    ),
    '--max-participants': shown(
      '--max-participants 2',
      false,
      served(
        `${MEMORY} --seed a.bot,b.bot,c.bot`,
        async (one) => (await asAgent(one, 'a.bot', 'session create b.bot c.bot')).code === 0,
      ),
    ),
    '--loop-guard': shown(
      '--loop-guard 2',
      11,
      served(`${MEMORY} --seed a.bot,b.bot`, async (one) => {
        await asAgent(one, 'a.bot', 'send b.bot first');
        for (const text of ['second', 'third']) {
          const { code } = await asAgent(one, 'a.bot', `send b.bot ${text} --continue`);
          if (code !== 0) return code;
        }
        return 0;
      }),
    ),
    '--presence-grace': shown(
      '--presence-grace 1s',
      'left',
      served(`${MEMORY} --seed a.bot`, async (one) => {
        const bob = await actAs(one, 'b.bot');
        const id = await bob.mustCreate({ invite: ['@a.bot'] });
        await (await bob.mustConnect()).close();
        const status = async (): Promise<unknown> => {
          const { json } = await bob.get(`/sessions/${id}`);
          const { participants } = json as { participants: { handle: string; status: string }[] };
          return participants.find(({ handle }) => handle === '@b.bot')?.status;
        };
        const hasLeft = until('b has left', async () => (await status()) === 'left', 6000);
        await hasLeft.catch(() => {});
        return status();
      }),
    ),
    '--retention': shown(
      '--retention 400d',
      34_560_000_000,
      served(MEMORY, async ({ run }) => (jsonOf(await run('serve retention --json')) as { age_ms: number }).age_ms),
    ),
    '--search': shown(
      '--search off',
      403,
      served(`${MEMORY} --seed a.bot`, async (one) => {
        const { err } = await asAgent(one, 'a.bot', 'message search heron --json');
        return err.includes('FEATURE_NOT_AVAILABLE') ? 403 : 200;
      }),
    ),
    '--name': shown(
      '--name Acme',
      'Create your account · Acme',
      served(
        MEMORY,
        async ({ origin }) => (/<title>(.*?)<\/title>/.exec((await request(`${origin}/oauth/sign-in`)).text) ?? [])[1],
      ),
    ),
    '--web-push': shown(
      '--web-push mailto:operator@asp.example',
      200,
      served(MEMORY, async ({ origin }) => (await request(`${origin}/dashboard/worker.js`)).status),
    ),
    '--webhooks': shown(
      '--webhooks any',
      'http://127.0.0.1:9/\n',
      served(MEMORY, async ({ run }) => {
        await run('serve agent add @a.bot');
        await run('login --account --yes');
        return (await run('webhook set http://127.0.0.1:9/ a.bot --jq .url')).out;
      }),
    ),
    '--share-links': shown(
      '--share-links off',
      false,
      served(MEMORY, async ({ run }) => {
        await run('serve agent add @a.bot');
        const { out } = await run('serve open --no-browser');
        const cookies = (await request(out.trim())).headers['set-cookie'] ?? [];
        const cookie = [cookies]
          .flat()
          .map((one) => one.split(';')[0])
          .join('; ');
        const settings = await request(`${new URL(out.trim()).origin}/dashboard/settings`, { headers: { cookie } });
        return settings.text.includes('/dashboard/links') || settings.status !== 200;
      }),
    ),
    '--drain-delay': shown(
      '--drain-delay 2s',
      [503, 200],
      served(MEMORY, async ({ home, origin }) => {
        await operate(operatorOf({ directory: home }), 'POST', '/stop');
        const statusAt = async (path: string): Promise<number> =>
          (await request(`${origin}${path}`).catch(() => undefined))?.status ?? 0;
        await until('the refusal', async () => (await statusAt('/ready')) !== 200);
        return [await statusAt('/ready'), await statusAt('/health')];
      }),
    ),
    '--log': shown(
      '--log text',
      true,
      served(MEMORY, async ({ origin, err }) => {
        await request(`${origin}/health`);
        return until('the line', async () => err().includes('/health'), 2000).catch(() => false);
      }),
    ),
    '--log-level': shown(
      '--log-level debug',
      true,
      served(MEMORY, async ({ origin, err }) => {
        await request(`${origin}/health`);
        return until('the line', async () => err().includes('debug request_received'), 2000).catch(() => false);
      }),
    ),
    '--security-log': shown(
      '--security-log $there/security.log',
      true,
      served(MEMORY, async (one) => {
        await signUp(one);
        const path = join(one.home, 'security.log');
        const isTold = async (): Promise<boolean> => existsSync(path) && readFileSync(path, 'utf8').includes('"ann"');
        return until('the line', isTold, 3000).catch(() => false);
      }),
    ),
    '--metrics-port': shown(
      '--metrics-port 0',
      200,
      served(MEMORY, async ({ err }) => {
        const url = /Metrics are at (\S+)\.\n/.exec(err())?.[1];
        return url === undefined ? null : (await request(url)).status;
      }),
    ),
    '--metrics-host': shown(
      '--metrics-host 0.0.0.0',
      true,
      refusal(`${MEMORY} --metrics-port 0`, (err) => err.includes('needs --metrics-token-file')),
    ),
    '--metrics-token-file': shown(
      '--metrics-token-file $there/none.token',
      true,
      refusal(`${MEMORY} --metrics-port 0`, (err) => err.includes('does not exist')),
    ),
    '--tls-cert': shown(
      '--tls-cert $there/none.pem',
      true,
      refusal(`${MEMORY} --tls-key none.key`, (err) => err.includes('Cannot read') && err.includes('none.pem')),
    ),
    '--tls-key': shown(
      '--tls-key $there/none.key',
      true,
      refusal(MEMORY, (err) => err.includes('--tls-cert and --tls-key need each other')),
    ),
    '--operator-port': shown(
      '--operator-port 0',
      true,
      refusal(MEMORY, (err) => err.includes('needs --operator-token-file')),
    ),
    '--operator-host': shown(
      '--operator-host 0.0.0.0',
      true,
      refusal(`${MEMORY} --operator-port 0 --operator-token-file x`, (err) => err.includes('in the clear')),
    ),
    '--operator-token-file': shown(
      '--operator-token-file $there/none.tokens',
      true,
      refusal(`${MEMORY} --operator-port 0`, (err) => err.includes('does not exist')),
    ),
    '--inject': shown(
      '--inject 500:100%',
      500,
      served(MEMORY, async ({ url }) => (await request(`${url}/agents`)).status),
    ),
    '--clock': shown(
      '--clock 2030-01-01T00:00:00Z',
      '2030',
      served(MEMORY, async ({ run }) => (await run('serve clock advance 0s')).out.slice(0, 4)),
    ),
    '--config': shown('--config $config', ['@a.bot'], async (scene, typed) => {
      scene.name('$config', scene.file('serve.json', '{"seed":["a.bot"]}'));
      return serving(scene, [MEMORY, typed], (one) => agents(one));
    }),
    '--print-config': shown(
      '--print-config',
      null,
      served(MEMORY, () => 'started'),
    ),
    '--adopt-attachments': shown('--adopt-attachments', 'started', async (scene, typed) => {
      const [mine, other] = [join(scene.home, 'mine'), join(scene.home, 'other')];
      for (const directory of [mine, other]) {
        const service = await startTestService({ data: { directory } });
        await (await service.createAgent('alice')).mustUpload();
        await service.stop();
      }
      renameSync(join(other, 'asp.sqlite'), join(mine, 'asp.sqlite'));
      return serving(scene, [[...FREE.split(' '), '--data', mine], typed], () => 'started');
    }),
    '--detach': shown('--detach', true, async (scene, typed) => {
      const home = freshHome();
      const program = fileURLToPath(new URL('../../../bin/asp.js', import.meta.url));
      const environment = { HOME: home, XDG_RUNTIME_DIR: join(home, 'run'), PATH: process.env['PATH'] ?? '' };
      const line = [...MEMORY.split(' '), '--json', ...typed];
      const machine = { commandLine: [process.execPath, program, 'serve', ...line] };
      const running = scene.startElsewhere(home, ['serve', line], { environment, machine });
      await until('the service', async () => running.streams.out().includes('"pid"'));
      const ended = await Promise.race([running.ended, pause(3000)]);
      const pid = Number(/"pid":(\d+)/.exec(running.streams.out())?.[1]);
      if (ended !== undefined) process.kill(pid);
      running.stop();
      await running.ended;
      return ended?.code === 0;
    }),
    '--ready-file': shown(
      '--ready-file $there/ready',
      true,
      served(MEMORY, async ({ home, url }) => {
        const isThere = async (): Promise<boolean> =>
          existsSync(join(home, 'ready')) && readFileSync(join(home, 'ready'), 'utf8') === `${url}\n`;
        return until('the ready file', isThere, 3000).catch(() => false);
      }),
    ),
  },
  'serve status': forOperators('serve status'),
  'serve keys list': forOperators('serve keys list'),
  'serve keys rotate': forOperators('serve keys rotate'),
  'serve agent list': forOperators('serve agent list'),
  'serve account list': forOperators('serve account list'),
  'serve invite list': forOperators('serve invite list'),
  'serve client list': forOperators('serve client list'),
  'serve open': {
    '--account': shown('--account s$number', true, async ({ asNobody, number }, typed) => {
      await asNobody(ADD);
      const link = jsonOf(await asNobody(['serve open --no-browser --json', typed])) as { account: unknown };
      return link.account === `s${number}`;
    }),
    '--operator': shown('--operator', true, async ({ asNobody, alice }, typed) => {
      const link = await asNobody([`serve open --no-browser --account ${alice.owner}`, typed]);
      return link.err.includes(`asp serve account operator ${alice.owner} yes`);
    }),
    '--no-browser': shown('--no-browser', false, async ({ asNobody, alice }, typed) => {
      const environment = { BROWSER: 'true', PATH: process.env['PATH'] ?? '' };
      const line = `serve open --account ${alice.owner} --json`;
      return (jsonOf(await asNobody([line, typed], { environment })) as { opened: unknown }).opened;
    }),
  },
  'serve stop': {
    url: shown('http://127.0.0.1:1', true, async (scene, typed) =>
      serving(scene, [MEMORY], async ({ home }) => {
        const { err } = await scene.startElsewhere(home, ['serve stop --timeout 2s', typed]).ended;
        return err.includes('No local service at http://127.0.0.1:1 is running.');
      }),
    ),
  },
  'serve logs': {
    '--last': shown('--last 1', 'two\n', async ({ asNobody, home }, typed) => {
      writeFileSync(join(home, `run/asp-cli/serve/${process.pid}-8744.log`), 'one\ntwo\n', { mode: 0o600 });
      return (await asNobody(['serve logs', typed])).out;
    }),
    '--follow': shown('--follow', 'one\ntwo\n', async ({ startElsewhere, home }, typed) => {
      const log = join(home, `run/asp-cli/serve/${process.pid}-8744.log`);
      writeFileSync(log, 'one\n', { mode: 0o600 });
      const running = startElsewhere(home, ['serve logs', typed]);
      await until('the first line', async () => running.streams.out() === 'one\n');
      writeFileSync(log, 'one\ntwo\n', { mode: 0o600 });
      const isThere = until('the second line', async () => running.streams.out() === 'one\ntwo\n').catch(() => {});
      await Promise.race([isThere, running.ended]);
      running.stop();
      return (await running.ended).out;
    }),
  },
  'serve reset': {
    '--data': shown('--data $data', false, async (scene, typed) => {
      await data(scene);
      await scene.asNobody(['serve reset --yes', typed]);
      return existsSync(join(scene.home, 'data/asp.sqlite'));
    }),
  },
  'serve install': {
    '--system': shown('--system', true, async (scene, typed) =>
      unitOf(await scene.asNobody(['serve install --dry-run --json', typed])).includes('WantedBy=multi-user.target'),
    ),
    '--run-as': shown('--run-as chat', true, async (scene, typed) =>
      unitOf(await scene.asNobody(['serve install --system --dry-run --json', typed])).includes('User=chat'),
    ),
    '--config': shown(
      `--config ${fileURLToPath(new URL('../../../package.json', import.meta.url))}x`,
      2,
      async (scene, typed) => (await scene.asNobody(['serve install --dry-run', typed])).code,
    ),
    '--dry-run': shown('--dry-run', 0, async (scene, typed) => {
      const environment = { PATH: scene.home };
      return (await scene.asNobody(['serve install', typed], { environment })).code;
    }),
  },
  'serve uninstall': {
    '--system': shown('--system', '/etc/systemd/system/asp.service', async (scene, typed) =>
      (await scene.asNobody(['serve uninstall --dry-run', typed])).out.trim(),
    ),
    '--dry-run': shown('--dry-run', 0, async (scene, typed) => {
      const environment = { PATH: scene.home, XDG_CONFIG_HOME: join(scene.home, 'units') };
      const unit = unitOf(await scene.asNobody('serve install --dry-run --json'));
      mkdirSync(join(scene.home, 'units/systemd/user'), { recursive: true });
      scene.file('units/systemd/user/asp.service', unit);
      return (await scene.asNobody(['serve uninstall', typed], { environment })).code;
    }),
  },
  'serve backup': {
    file: shown(
      '$home/saved.tar',
      true,
      async (scene, typed) => {
        await data(scene);
        await scene.asNobody(['serve backup --data $data', typed]);
        return existsSync(join(scene.home, 'saved.tar'));
      },
      '$home/other.tar',
    ),
    '--data': shown('--data $data', 0, async (scene, typed) => {
      await data(scene);
      return (await scene.asNobody(['serve backup $home/saved.tar', typed])).code;
    }),
    '--with-keys': shown('--with-keys', true, async (scene, typed) => {
      await data(scene);
      const ran = await scene.asNobody(['serve backup $home/saved.tar --data $data --json', typed]);
      return (jsonOf(ran) as { with_keys: unknown }).with_keys;
    }),
    '--force': shown('--force', [0, false], async (scene, typed) => {
      await data(scene);
      const path = scene.file('saved.tar', 'old');
      const { code } = await scene.asNobody(['serve backup $home/saved.tar --data $data', typed]);
      return [code, readFileSync(path, 'utf8') === 'old'];
    }),
  },
  'serve restore': {
    file: shown(
      '$home/saved.tar',
      0,
      async (scene, typed) => {
        await data(scene);
        await scene.asNobody('serve backup $home/saved.tar --data $data');
        return (await scene.asNobody(['serve restore --data $home/restored', typed])).code;
      },
      '$home/other.tar',
    ),
    '--data': shown('--data $home/restored', true, async (scene, typed) => {
      await data(scene);
      await scene.asNobody('serve backup $home/saved.tar --data $data');
      await scene.asNobody(['serve restore $home/saved.tar', typed]);
      return existsSync(join(scene.home, 'restored/asp.sqlite'));
    }),
  },
  'serve migrate': {
    '--plan': shown('--plan', true, async (scene, typed) => {
      const ran = await scene.asNobody(['serve migrate --data $home/none --json', typed]);
      return (jsonOf(ran) as { is_plan: unknown }).is_plan;
    }),
    '--data': shown('--data $data', 'number', async (scene, typed) => {
      await data(scene);
      const ran = await scene.asNobody(['serve migrate --plan --json', typed]);
      return typeof (jsonOf(ran) as { schema_version: unknown }).schema_version;
    }),
    '--database': shown('--database postgres://asp@127.0.0.1:1/asp', 2, async (scene, typed) => {
      return (await scene.asNobody(['serve migrate --plan', typed])).code;
    }),
    '--config': shown('--config $home/serve.json', 'elsewhere', async (scene, typed) => {
      scene.file('serve.json', '{"data":"elsewhere"}');
      const ran = await scene.asNobody(['serve migrate --plan --json', typed]);
      return basename((jsonOf(ran) as { data: string }).data);
    }),
  },
  'serve clock advance': {
    duration: shown(
      '40d',
      40,
      async (scene, typed) =>
        serving(scene, [MEMORY, '--clock controlled'], async ({ home }) => {
          const { ended } = scene.startElsewhere(home, ['serve clock advance --json', typed]);
          const { now } = jsonOf(await ended) as { now: number };
          return Math.round((now - Date.now()) / 86_400_000);
        }),
      '0s',
    ),
  },
  'serve trigger': {
    event: shown(
      'end',
      'ended',
      (scene, typed) => triggered(scene, typed, '--to a.bot', ({ state }) => state),
      'invitation',
    ),
    '--to': shown(
      '--to a.bot',
      1,
      (scene, typed) => triggered(scene, 'invitation', typed, (_, count) => count),
      '--to b.bot',
    ),
    '--from': shown('--from b.bot', true, (scene, typed) =>
      triggered(scene, 'invitation --to a.bot', typed, ({ participants }) =>
        participants.some(({ handle }) => handle === '@b.bot'),
      ),
    ),
    '--code': shown('--code 1013', 1013, async (scene, typed) =>
      serving(scene, [MEMORY, '--seed a.bot'], async (one) => {
        const socket = await (await actAs(one, 'a.bot')).mustConnect();
        await scene.startElsewhere(one.home, ['serve trigger drop --to a.bot', typed]).ended;
        return socket.mustBeClosed();
      }),
    ),
    '--times': shown('--times 2', [503, 503, 401], async (scene, typed) =>
      serving(scene, [MEMORY], async ({ home, url }) => {
        await scene.startElsewhere(home, ['serve trigger 503', typed]).ended;
        const statuses: number[] = [];
        for (let at = 0; at < 3; at += 1) statuses.push((await request(`${url}/agents`)).status);
        return statuses;
      }),
    ),
  },
  'serve agent add': {
    ...forOperators('serve agent add a.bot'),
    handle: shown(
      's$number.bot',
      true,
      operated(undefined, 'serve agent add', async (scene, handle) => (await agentOf(scene, handle)) !== null),
      'u$number.bot',
    ),
    '--policy': shown(
      '--policy allowlist',
      'allowlist',
      operated(undefined, ADD, async (scene, handle) => (await agentOf(scene, handle))?.['inbound_policy']),
    ),
    '--display-name': shown(
      '--display-name Sally',
      'Sally',
      operated(
        undefined,
        ADD,
        async ({ as, alice }, handle) =>
          (jsonOf(await as(alice, `agent show ${handle} --json`)) as { display_name: unknown }).display_name,
      ),
    ),
  },
  'serve agent remove': {
    ...forOperators('serve agent remove a.bot --yes'),
    handle: shown(
      's$number.bot',
      3,
      operated(
        ADD,
        'serve agent remove --yes',
        async ({ as, alice }, handle) => (await as(alice, `agent show ${handle}`)).code,
      ),
      't$number.bot',
    ),
  },
  'serve agent pause': {
    ...forOperators('serve agent pause a.bot'),
    handle: shown(
      's$number.bot',
      true,
      operated(ADD, 'serve agent pause', async (scene, handle) => (await agentOf(scene, handle))?.['paused']),
      't$number.bot',
    ),
  },
  'serve agent resume': {
    ...forOperators('serve agent resume a.bot'),
    handle: shown(
      's$number.bot',
      false,
      async (scene, typed) => {
        await scene.asNobody(ADD);
        for (const handle of ['s$number.bot', 't$number.bot']) await scene.asNobody(`serve agent pause ${handle}`);
        await scene.asNobody(['serve agent resume', typed]);
        return (await agentOf(scene, `@s${scene.number}.bot`))?.['paused'];
      },
      't$number.bot',
    ),
  },
  'serve account show': {
    ...forOperators('serve account show a'),
    account: shown(
      ACCOUNT,
      true,
      async ({ asNobody, number }, typed) => {
        await asNobody(ADD);
        const account = jsonOf(await asNobody(['serve account show --json', typed])) as { username: unknown };
        return account.username === `s${number}`;
      },
      ANOTHER,
    ),
  },
  'serve account suspend': {
    ...forOperators('serve account suspend a'),
    account: shown(ACCOUNT, 'suspended', accountIs('state', 'serve account suspend'), ANOTHER),
  },
  'serve account resume': {
    ...forOperators('serve account resume a'),
    account: shown(ACCOUNT, 'active', accountIs('state', 'serve account resume', 'serve account suspend'), ANOTHER),
  },
  'serve account tier': {
    ...forOperators('serve account tier a trusted'),
    account: shown(
      ACCOUNT,
      'standard',
      async (scene, typed) => accountIs('tier', 'serve account tier')(scene, [...typed, 'standard']),
      ANOTHER,
    ),
    'standard|trusted': shown('standard', 'standard', accountIs('tier', 'serve account tier s$number'), 'trusted'),
  },
  'serve account operator': {
    ...forOperators('serve account operator a yes'),
    account: shown(
      ACCOUNT,
      true,
      async (scene, typed) => accountIs('is_operator', 'serve account operator')(scene, [...typed, 'yes']),
      ANOTHER,
    ),
    'yes|no': shown('yes', true, accountIs('is_operator', 'serve account operator s$number'), 'no'),
  },
  'serve account export': {
    ...forOperators('serve account export a $home/a.json'),
    account: shown(
      ACCOUNT,
      true,
      async (scene, typed) => {
        await scene.asNobody(ADD);
        await scene.asNobody(['serve account export', typed, '$home/saved.json']);
        const { account } = JSON.parse(readFileSync(join(scene.home, 'saved.json'), 'utf8'));
        return account.username === `s${scene.number}`;
      },
      ANOTHER,
    ),
    file: shown(
      '$home/saved.json',
      true,
      async (scene, typed) => {
        await scene.asNobody(ADD);
        await scene.asNobody(['serve account export s$number', typed]);
        return existsSync(join(scene.home, 'saved.json'));
      },
      '$home/other.json',
    ),
    '--force': shown('--force', [0, false], async (scene, typed) => {
      await scene.asNobody(ADD);
      const path = scene.file('saved.json', 'old');
      const { code } = await scene.asNobody(['serve account export s$number $home/saved.json', typed]);
      return [code, readFileSync(path, 'utf8') === 'old'];
    }),
  },
  'serve account remove': {
    ...forOperators('serve account remove a --yes'),
    account: shown(ACCOUNT, 3, accountIs('state', 'serve account remove --yes'), ANOTHER),
    '--erase': shown('--erase', { sessions: 0, events: 0, attachments: 0 }, async ({ asNobody }, typed) => {
      await asNobody(ADD);
      const removed = jsonOf(await asNobody(['serve account remove s$number --yes --json', typed]));
      return (removed as { erased?: object }).erased;
    }),
  },
  'serve account reset-password': {
    ...forOperators('serve account reset-password a'),
    account: shown(
      'ann$number',
      ['ann$number', 0],
      async (scene, typed) => {
        const browser = createBrowser(scene.service.webUrl);
        const person = { username: `ann${scene.number}`, display_name: 'Ann', password: 'correct horse battery' };
        await browser.submit(await browser.get('/oauth/sign-in'), '/oauth/sign-up', person);
        const ran = await scene.asNobody(['serve account reset-password --json', typed]);
        const account = ran.code === 0 ? (jsonOf(ran) as { account: string }).account : null;
        return [account?.replace(String(scene.number), '$number'), ran.code];
      },
      'nobody',
    ),
  },
  'serve retention': {
    ...forOperators('serve retention'),
    '--older-than': shown('--older-than 90d', 7_776_000_000, async ({ asNobody }, typed) => {
      const { age_ms: age } = jsonOf(await asNobody(['serve retention --json', typed])) as { age_ms: number | null };
      return age;
    }),
  },
  'serve invite create': {
    ...forOperators('serve invite create'),
    '--expires': shown('--expires 1h', true, async ({ asNobody }, typed) => {
      const { expires_at: at } = jsonOf(await asNobody(['serve invite create --json', typed])) as {
        expires_at: number;
      };
      return at < Date.now() + 2 * 3_600_000;
    }),
  },
  'serve invite revoke': {
    ...forOperators('serve invite revoke lnk_01KAR5XJ5Z3YV0G6TWQ8N4M2PC'),
    id: shown(
      '$invitation',
      false,
      async ({ asNobody, name }, typed) => {
        for (let at = 0; at < 2; at++) await asNobody('serve invite create');
        const list = async () =>
          (jsonOf(await asNobody('serve invite list --json')) as { items: { id: string }[] }).items;
        const [first, second] = await list();
        name('$invitation', first?.id ?? '');
        name('$other', second?.id ?? '');
        await asNobody(['serve invite revoke', typed]);
        return (await list()).some(({ id }) => id === first?.id);
      },
      '$other',
    ),
  },
  'serve client revoke': {
    ...forOperators('serve client revoke oac_1 --yes'),
    'client-id': shown(
      '$client',
      false,
      async ({ asNobody, name, service }, typed) => {
        const add = async () => jsonOf(await asNobody('serve client add s$number.bot')) as Record<string, string>;
        const [mine, other] = [await add(), await add()];
        name('$client', mine['client_id'] ?? '');
        name('$other', other['client_id'] ?? '');
        await asNobody(['serve client revoke --yes', typed]);
        const environment = {
          ASP_PROFILE: service.baseUrl,
          ASP_CLIENT_ID: mine['client_id'] ?? '',
          ASP_CLIENT_SECRET: mine['client_secret'] ?? '',
        };
        return (await asNobody('session list', { environment })).code === 0;
      },
      '$other',
    ),
  },
  'serve client add': {
    ...forOperators('serve client add a.bot'),
    handle: shown(
      's$number.bot',
      true,
      async (scene, typed) => {
        await scene.asNobody(['serve client add', typed]);
        return (await agentOf(scene, `@s${scene.number}.bot`)) !== null;
      },
      'u$number.bot',
    ),
    '--scopes': shown('--scopes sessions:read', [0, 5], async ({ asNobody, service }, typed) => {
      const client = jsonOf(await asNobody(['serve client add s$number.bot', typed])) as Record<string, string>;
      const environment = {
        ASP_PROFILE: service.baseUrl,
        ASP_CLIENT_ID: client['client_id'] ?? '',
        ASP_CLIENT_SECRET: client['client_secret'] ?? '',
      };
      const codes = [];
      for (const line of ['session list', 'session create']) codes.push((await asNobody(line, { environment })).code);
      return codes;
    }),
  },
};

everyOption('serve', TABLE);
