import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Operator } from '../support/actors.js';
import { programWords, shareCompiledCode } from '../support/built-program-file.js';
import { createTestClock } from '../support/clock.js';
import { text } from '../support/json.js';
import { startTestService } from '../support/service.js';
import { TEST_STORE, takeSchema } from '../support/stores.js';

/**
 * The service under test. Only this file knows how it starts. By default, the built program starts as its users start
 * it. With `ASP_CONFORMANCE_URL` (the REST base address), `ASP_CONFORMANCE_OPERATOR_URL` and
 * `ASP_CONFORMANCE_OPERATOR_SECRET`, the suite runs against an existing service; `ASP_CONFORMANCE_LIMITS=on` says that
 * its rate limits are on. Tests that move the clock need a service in this process and are skipped otherwise. With
 * `ASP_TEST_STORE=postgres`, every service has a separate schema in the PostgreSQL of the tests.
 */
export interface Target {
  readonly baseUrl: string;
  readonly operator: Operator;
  /** Moves the service's clock, if the test controls it. */
  advance(ms: number): void;
  stop(): Promise<void>;
}

export interface TargetOptions {
  readonly limits?: 'on' | 'off';
  /** A value of `--presence-grace`. */
  readonly presenceGrace?: string;
  /** A value of `--loop-guard`. */
  readonly loopGuard?: number;
  /** A value of `--webhooks`. */
  readonly webhooks?: 'any';
  readonly clock?: 'by hand';
}

const CLOCK_RUNS = (): never => {
  throw new Error('the clock of this service is not turned by hand');
};

/** Returns a service to test, or undefined if the given service does not support these options. */
export async function startTarget(options: TargetOptions): Promise<Target | undefined> {
  const { limits = 'off', presenceGrace, loopGuard, webhooks, clock } = options;
  const given = process.env['ASP_CONFORMANCE_URL'];
  if (given === undefined) {
    if (clock === 'by hand') return startHere(limits);
    const grace = presenceGrace === undefined ? [] : ['--presence-grace', presenceGrace];
    const guard = loopGuard === undefined ? [] : ['--loop-guard', String(loopGuard)];
    const calls = webhooks === undefined ? [] : ['--webhooks', webhooks];
    return startProgram(['--limits', limits, ...grace, ...guard, ...calls]);
  }
  const isOtherwise =
    clock !== undefined || presenceGrace !== undefined || loopGuard !== undefined || webhooks !== undefined;
  if (isOtherwise || limits !== (process.env['ASP_CONFORMANCE_LIMITS'] ?? 'off')) return undefined;
  return {
    baseUrl: given,
    operator: {
      url: process.env['ASP_CONFORMANCE_OPERATOR_URL'] ?? '',
      secret: process.env['ASP_CONFORMANCE_OPERATOR_SECRET'] ?? '',
    },
    advance: CLOCK_RUNS,
    stop: async () => {},
  };
}

async function startHere(limits: 'on' | 'off'): Promise<Target> {
  const clock = createTestClock();
  const service = await startTestService({ clock, areLimitsOn: limits === 'on' });
  return {
    baseUrl: service.baseUrl,
    operator: service.operator,
    advance: (ms) => clock.advance(ms),
    stop: () => service.stop(),
  };
}

async function startProgram(flags: readonly string[]): Promise<Target> {
  const home = mkdtempSync(join(tmpdir(), 'asp-conformance-'));
  const schema = TEST_STORE === 'postgres' ? takeSchema() : undefined;
  const data = schema === undefined ? ['--data', 'memory'] : [];
  shareCompiledCode(home);
  const program = spawn(process.execPath, programWords(['serve', '--json', '--port', '0', ...data, ...flags]), {
    env: { PATH: process.env['PATH'], ...homeOf(home), ...(schema && { ASP_DATABASE: schema.url }) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const notes: string[] = [];
  program.stderr.on('data', (chunk: Buffer) => notes.push(chunk.toString('utf8')));
  const line = await firstLine(program, notes);
  const record: unknown = JSON.parse(readFileSync(join(home, 'run', 'asp-cli', 'serve', 'default.json'), 'utf8'));
  return {
    baseUrl: text(JSON.parse(line), 'url'),
    operator: { url: text(record, 'operator_url'), secret: text(record, 'secret') },
    advance: CLOCK_RUNS,
    async stop() {
      const exited = once(program, 'exit');
      program.kill('SIGTERM');
      if (program.exitCode === null && program.signalCode === null) await exited;
      rmSync(home, { recursive: true, force: true });
      await schema?.drop();
    },
  };
}

function homeOf(home: string): Record<string, string> {
  return {
    HOME: home,
    XDG_CONFIG_HOME: join(home, 'config'),
    XDG_STATE_HOME: join(home, 'state'),
    XDG_DATA_HOME: join(home, 'data'),
    XDG_RUNTIME_DIR: join(home, 'run'),
  };
}

/** Returns the line that the program prints once it accepts requests. */
async function firstLine(program: ChildProcess, notes: readonly string[]): Promise<string> {
  if (program.stdout === null) throw new Error('the program has no stdout');
  const lines = createInterface({ input: program.stdout });
  const failed = once(program, 'exit').then(([code]) => {
    throw new Error(`asp serve ended with ${String(code)} before it was ready: ${notes.join('')}`);
  });
  const [line] = (await Promise.race([once(lines, 'line'), failed])) as [string];
  failed.catch(() => {});
  return line;
}
