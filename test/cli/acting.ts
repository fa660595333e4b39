import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Actor } from '../support/actors.js';
import { startTestService, type TestService } from '../support/service.js';
import { freshHome, type Ran, type RunOptions, runWords } from './captured-run.js';

/** A real service, and agents whose commands run inside this process. */
export interface Stage {
  readonly service: TestService;
  readonly alice: Actor;
  readonly bob: Actor;
  /** Runs a command as this agent. All runs share one home. */
  as(actor: Actor, words: string | readonly string[], options?: RunOptions): Promise<Ran>;
  stop(): Promise<void>;
}

export async function startStage(options: Parameters<typeof startTestService>[0] = {}): Promise<Stage> {
  const service = await startTestService(options);
  const [alice, bob] = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
  const home = freshHome();
  return {
    service,
    alice,
    bob,
    async as(actor, words, options = {}) {
      const environment = {
        ASP_PROFILE: service.baseUrl,
        ASP_TOKEN: await actor.token('api'),
        ASP_WS_TOKEN: await actor.token('ws'),
        ...options.environment,
      };
      const machine = { homeDirectory: home, workingDirectory: home, ...options.machine };
      return runWords(words, { ...options, environment, machine });
    },
    stop: () => service.stop(),
  };
}

/** Returns options for running the program with this agent's client credentials in this home. */
export const optionsAs = (service: Pick<TestService, 'baseUrl'>, { credentials }: Actor, home: string): RunOptions => ({
  machine: { homeDirectory: home, workingDirectory: home, temporaryDirectory: home },
  environment: {
    XDG_RUNTIME_DIR: join(home, 'run'),
    ASP_PROFILE: service.baseUrl,
    ASP_CLIENT_ID: credentials.clientId,
    ASP_CLIENT_SECRET: credentials.clientSecret,
  },
});

/** Returns the document that a successful command printed. */
export function documentOf({ code, out, err }: Ran): Record<string, unknown> {
  if (code !== 0) throw new Error(`exit ${code}: ${err}`);
  return JSON.parse(out) as Record<string, unknown>;
}

/**
 * Creates a home whose `local` profile is this service, as `asp serve` sets it up for its OS user. Logins go to a file.
 */
export function localHome(service: TestService): {
  run(words: string | readonly string[], options?: RunOptions): Promise<Ran>;
  directory: string;
} {
  const directory = freshHome();
  const folder = join(directory, 'run', 'asp-cli', 'serve');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const record = {
    name: 'default',
    url: service.baseUrl,
    auth_url: service.authUrl,
    web_url: service.webUrl,
    ws_url: service.wsUrl,
    operator_url: service.operatorUrl,
    pid: process.pid,
    version: '1.2.3',
    data: 'memory',
    started_at: 1,
    secret: service.operatorSecret,
  };
  writeFileSync(join(folder, 'default.json'), JSON.stringify(record), { mode: 0o600 });
  return {
    directory,
    run: (words, options = {}) =>
      runWords(words, {
        ...options,
        environment: { ASP_TOKEN_STORE: 'file', XDG_RUNTIME_DIR: join(directory, 'run'), ...options.environment },
        machine: { homeDirectory: directory, workingDirectory: directory, ...options.machine },
      }),
  };
}
