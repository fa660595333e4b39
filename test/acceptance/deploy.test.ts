import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { request } from '../support/http.js';
import { whyNoPostgres } from '../support/postgres-server.js';
import { createSchema, type Schema } from '../support/stores.js';
import { createHome, type Home, type Running } from './program.js';

const DEPLOY = fileURLToPath(new URL('../../deploy/', import.meta.url));
const read = (name: string): string => readFileSync(join(DEPLOY, name), 'utf8');

interface Compose {
  services: Record<string, { environment: Record<string, string>; stop_grace_period: string }>;
}
interface Deployment {
  kind: string;
  spec: {
    template: {
      spec: {
        terminationGracePeriodSeconds: number;
        containers: [
          {
            env: { name: string; value?: string; valueFrom?: object }[];
            volumeMounts: { mountPath: string }[];
            [probe: `${string}Probe`]: { httpGet: { path: string } };
          },
        ];
      };
    };
  };
}

const OF_A_PERSON: Record<string, string> = { ASP_DOMAIN: 'asp.example.org', ASP_DATABASE_PASSWORD: 'secret' };
/** The environment from a secret of the cluster. */
const OF_A_SECRET: Record<string, string> = {
  ASP_DATABASE: 'postgres://asp@db.example.org/asp',
  AWS_ACCESS_KEY_ID: 'key',
  AWS_SECRET_ACCESS_KEY: 'secret',
};

const compose = parse(read('compose.yaml')) as Compose;
const composed = compose.services['asp-1'] ?? { environment: {}, stop_grace_period: '' };
const deployment = parseAllDocuments(read('kubernetes.yaml'))
  .map((one) => one.toJS() as Deployment)
  .find(({ kind }) => kind === 'Deployment');
const [container] = deployment?.spec.template.spec.containers ?? [];

const inCompose = Object.fromEntries(
  Object.entries(composed.environment).map(([name, value]) => [
    name,
    value.replaceAll(/\$\{(\w+):\?\}/g, (_, variable: string) => OF_A_PERSON[variable] ?? ''),
  ]),
);
const inKubernetes = Object.fromEntries(
  (container?.env ?? []).map(({ name, value }) => [name, value ?? OF_A_SECRET[name] ?? '']),
);
const inImage = Object.fromEntries(
  [...read('Dockerfile').matchAll(/(ASP_SERVE_\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]),
);
const PLACES = [
  ['compose.yaml', inCompose],
  ['kubernetes.yaml', inKubernetes],
] as const;

const seconds = (text: string): number => Number(/^(\d+)s$/.exec(text)?.[1]);
/** How long requests and sockets have to finish after the drain delay. */
const FINISH_S = 20;

let home: Home;
beforeAll(() => {
  home = createHome();
});
afterAll(() => home.dispose());

describe('The files in deploy', () => {
  it.each(PLACES)('%s sets nothing but settings, and each of them takes effect', async (_file, environment) => {
    const variables = { ...inImage, ...environment };
    const { status, stdout, stderr } = await home.asp(['serve', '--print-config', '--json'], {
      environment: variables,
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const { items } = JSON.parse(stdout) as { items: { source: string }[] };
    const sources = items.map(({ source }) => source);
    for (const name of Object.keys(variables))
      if (/^ASP_(SERVE_|DATABASE$)/.test(name)) expect(sources).toContain(name);
  });

  it('mount each folder that a setting of a pod names', () => {
    const mounted = (container?.volumeMounts ?? []).map(({ mountPath }) => mountPath);
    const named = Object.values(inKubernetes).filter((value) => value.startsWith('/'));
    expect(named).toContain('/etc/asp/key');
    for (const path of named)
      expect(
        mounted.some((folder) => path.startsWith(`${folder}/`)),
        path,
      ).toBe(true);
  });

  it('give the proxy the same services as they start', () => {
    const started = Object.keys(compose.services).filter((name) => name.startsWith('asp-'));
    const [, upstreams = ''] = /reverse_proxy (.+) \{/.exec(read('Caddyfile')) ?? [];
    expect(upstreams.split(' ')).toEqual(started.map((name) => `${name}:8744`));
  });

  it('give a service more time to stop than it takes to drain and to finish', () => {
    const { environment, stop_grace_period: grace } = composed;
    expect(seconds(grace)).toBeGreaterThanOrEqual(seconds(environment['ASP_SERVE_DRAIN_DELAY'] ?? '') + FINISH_S);
    const inPod = deployment?.spec.template.spec.terminationGracePeriodSeconds ?? 0;
    expect(inPod).toBeGreaterThanOrEqual(seconds(inKubernetes['ASP_SERVE_DRAIN_DELAY'] ?? '') + FINISH_S);
  });
});

const reason = await whyNoPostgres();

describe.skipIf(reason !== undefined)('A service that runs according to the files in deploy', () => {
  let schema: Schema;
  let running: Running;
  /** The home is not writable, as in a container with a read-only file system. */
  const inside = () => ({ HOME: '/proc/none', XDG_RUNTIME_DIR: join(home.directory, 'run-of-a-container') });
  let port: string;

  beforeAll(async () => {
    schema = createSchema();
    const { ASP_SERVE_BUS: _bus, ...environment } = inCompose;
    running = home.start(['serve', '--port', '0', '--data', join(home.directory, 'data')], {
      environment: {
        ...inImage,
        ...environment,
        ASP_SERVE_DRAIN_DELAY: '0s',
        ASP_DATABASE: schema.url,
        ...inside(),
      },
    });
    [, port = ''] = await running.until('stderr', /Listening on \S+:(\d+)\./);
  });
  afterAll(async () => {
    running.kill('SIGTERM');
    await running.ended;
    await schema.drop();
  });

  it('answers the probes of an orchestrator, which use a different address', async () => {
    const paths = Object.entries(container ?? {}).flatMap(([name, value]) =>
      name.endsWith('Probe') ? [(value as { httpGet: { path: string } }).httpGet.path] : [],
    );
    expect(paths).toEqual(['/ready', '/ready', '/health']);
    for (const path of paths) {
      const { status } = await request(`http://127.0.0.1:${port}${path}`, { headers: { host: '10.0.0.7:8744' } });
      expect([path, status]).toEqual([path, 200]);
    }
  });

  it('is found by the operator commands in the same container', async () => {
    const { status, stderr } = await home.asp(['serve', 'account', 'list'], { environment: inside() });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it('passes the image’s health check, until nothing listens', async () => {
    const [, text = ''] = /HEALTHCHECK[\s\S]+?CMD (\[.+\])/.exec(read('Dockerfile')) ?? [];
    const check = async (at: string): Promise<number | null> => {
      const [command = '', ...words] = (JSON.parse(text) as string[]).map((word) => word.replace(':8744', `:${at}`));
      return (await home.spawn(command, words).ended).status;
    };
    expect([await check(port), await check('1')]).toEqual([0, 1]);
  });
});
