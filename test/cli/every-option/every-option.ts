import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { GLOBAL_OPTIONS } from '../../../src/cli/options.js';
import { type Actor, operate } from '../../support/actors.js';
import { type CapturedStreams, captureStreams } from '../../support/captured-streams.js';
import { startTestService, type TestService } from '../../support/service.js';
import { localHome } from '../acting.js';
import { freshHome, type Ran, type RunOptions, runWords, splitWords } from '../captured-run.js';
import { type SentRequest, watchRequests } from './sent-requests.js';

/** The commands of each test file here, by their first words. The longest match wins. */
const FILES: Readonly<Record<string, readonly string[]>> = {
  agent: ['agent', 'webhook'],
  trust: ['allowlist', 'knock', 'block'],
  session: ['session'],
  tail: ['session tail', 'session events'],
  message: ['message', 'ask'],
  inbox: ['inbox', 'reply', 'chat', 'open'],
  attachment: ['attachment'],
  run: ['run', 'mock', 'replay', 'mcp', 'api'],
  auth: ['auth'],
  serve: ['serve'],
  here: [
    ...[
      'profile',
      'config',
      'alias',
      'status',
      'doctor',
      'completion',
      'schema',
      'help',
      'version',
      'commands',
      'explain',
    ],
    ...['demo', 'connect', 'disconnect', 'skill'],
  ],
  global: [''],
};

/**
 * What every look starts with: two agents and fresh homes. In words and results, `$alice` stands for her handle, and
 * likewise for other names.
 */
export interface Scene {
  readonly service: TestService;
  readonly alice: Actor;
  readonly bob: Actor;
  /** The home and the working directory of every run. */
  readonly home: string;
  /** A number that no other scene has. */
  readonly number: number;
  /** All requests that the runs have sent so far. */
  readonly sent: readonly SentRequest[];
  as(actor: Actor, words: Words, options?: RunOptions): Promise<Ran>;
  /** Runs as a signed-in account in a home whose local service is this one. All scenes of a file share it. */
  asAccount(words: Words): Promise<Ran>;
  /** Runs without credentials in a home whose local service is this one. */
  asNobody(words: Words, options?: RunOptions): Promise<Ran>;
  /** Starts a run that continues in the background. */
  start(actor: Actor, words: Words, options?: RunOptions): Started;
  /** Starts a run in another, empty home that continues in the background. */
  startElsewhere(directory: string, words: Words, options?: RunOptions): Started;
  /** Writes a file in the home and returns its path. */
  file(name: string, content: string): string;
  /** Creates a session of both in which alice sent these texts. Its name is `$session`. */
  session(...texts: string[]): Promise<string>;
  /** Defines a name that can be used in words. */
  name(name: `$${string}`, text: string): void;
  /** Replaces values in a result with their names. */
  rename(seen: unknown): unknown;
}

interface Started {
  readonly streams: CapturedStreams;
  readonly ended: Promise<Ran>;
  stop(): void;
}

/** A shell line, or several parts of one, some of which may already be split. */
type Words = string | readonly (string | readonly string[])[];

/** The words with the option or argument, or the words used instead. */
type Typed = readonly string[];
type Look = (scene: Scene, typed: Typed) => Promise<unknown>;

interface Shown {
  readonly typed: string;
  readonly seen: unknown;
  readonly look: Look;
  readonly instead: string;
}
/** The command (`session list`), then the option or argument (`--limit`, `session`). */
export type Table = Readonly<Record<string, Readonly<Record<string, Shown | readonly Shown[]>>>>;

/**
 * Expects `look` to return `seen` with the words `typed`, and something else in another scene with the words `instead`,
 * which are empty by default.
 */
export const shown = (typed: string, seen: unknown, look: Look, instead = ''): Shown => ({
  typed,
  seen,
  look,
  instead,
});

/** The id of a session that does not exist, for commands such as `session show`. */
export const OTHER_SESSION = 'sess_01J00000000000000000000000';

/** Returns the tests of the options that every write has. `prepare` returns the words of a valid write. */
export function writeOptions(
  prepare: (scene: Scene) => string | Promise<string>,
  run: (scene: Scene, words: Words) => Promise<Ran> = (scene, words) => scene.as(scene.alice, words),
): Table[string] {
  const writes = ({ sent }: Scene): SentRequest[] => sent.filter(({ method }) => method !== 'GET');
  const keysOf = (requests: readonly SentRequest[]): (string | undefined)[] =>
    requests.map(({ headers }) => headers['idempotency-key']);
  return {
    '--dry-run': shown('--dry-run', [0, true, 0], async (scene, typed) => {
      const words = await prepare(scene);
      const before = writes(scene).length;
      const { code, err } = await run(scene, [words, typed]);
      return [code, /Nothing was (sent|changed) \(--dry-run\)/.test(err), writes(scene).length - before];
    }),
    // If there are several requests, each has its own key, made from this one.
    '--idempotency-key': shown('--idempotency-key mine', [true, true, true], async (scene, typed) => {
      const { isDone, isRepeated, keys } = await runTwice(scene, typed);
      return [isDone, isRepeated, keys.every((key) => key === 'mine' || UUID.test(key ?? ''))];
    }),
    '--once': shown('--once nightly', [true, true], async (scene, typed) => {
      const { isDone, isRepeated } = await runTwice(scene, typed);
      return [isDone, isRepeated];
    }),
  };

  async function runTwice(scene: Scene, typed: Typed) {
    const words = await prepare(scene);
    const before = writes(scene).length;
    const ran = [await run(scene, [words, typed]), await run(scene, [words, typed])];
    const keys = keysOf(writes(scene).slice(before));
    const half = keys.length / 2;
    const isRepeated = half > 0 && keys.slice(0, half).join() === keys.slice(half).join();
    return { isDone: ran.every(({ code }) => code === 0), isRepeated, keys };
  }
}

const UUID = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;

/** Returns the tests of the options of a paged list. `fill` creates `count` items. */
export function pageOptions(
  line: string,
  defaultLimit: number,
  fill: (scene: Scene, count: number) => Promise<void>,
  run: (scene: Scene, words: Words) => Promise<Ran> = (scene, words) => scene.as(scene.alice, words),
): Table[string] {
  const list = async (scene: Scene, words: Words): Promise<[count: number, cursor: string | null, first: unknown]> => {
    const ran = await run(scene, [line, '--json', ...words]);
    const page = jsonOf(ran) as { items: unknown[]; next_cursor: string | null };
    return [page.items.length, page.next_cursor, page.items[0]];
  };
  return {
    '--limit': shown('--limit 1', [1, expect.any(String)], async (scene, typed) => {
      await fill(scene, 2);
      return (await list(scene, [typed])).slice(0, 2);
    }),
    '--all': shown('--all', [defaultLimit + 1, null], async (scene, typed) => {
      await fill(scene, defaultLimit + 1);
      return (await list(scene, [typed])).slice(0, 2);
    }),
    '--cursor': shown('--cursor $cursor', [true, null], async (scene, typed) => {
      await fill(scene, 2);
      const [, next, first] = await list(scene, ['--limit 1']);
      scene.name('$cursor', next ?? '');
      const [, end, second] = await list(scene, ['--limit 1', typed]);
      return [JSON.stringify(second) !== JSON.stringify(first), end];
    }),
  };
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export const jsonOf = ({ out, err }: Ran): unknown => (out === '' ? err : JSON.parse(out));

/** Returns the values of this member in a printed list. */
export function column(ran: Ran, name: string): unknown {
  if (ran.code !== 0) return ran.err;
  return (JSON.parse(ran.out) as { items: Record<string, unknown>[] }).items.map((item) => item[name]);
}

/** Defines the tests of one file: each entry of the table, and the completeness of the table. */
export function everyOption(file: string, table: Table): void {
  let ground: Ground;
  beforeAll(async () => {
    const service = await startTestService({ areLimitsOn: false, webhooks: 'any' });
    ground = { service, requests: watchRequests(), account: openAccount(service) };
  });
  afterAll(async () => {
    ground.requests.stop();
    await ground.service.stop();
  });

  for (const [command, entries] of Object.entries(table))
    describe(`asp ${command}`.trim(), () => {
      for (const [name, found] of Object.entries(entries).flatMap(([name, all]) =>
        [all].flat().map((one) => [name, one] as const),
      ))
        it(name.startsWith('-') ? found.typed : `<${name}>: ${found.typed}`, async () => {
          const { typed, instead, seen, look } = found;
          const typedRuns: string[][] = [];
          const see = async (line: string, runs: string[][]): Promise<unknown> => {
            const scene = await openScene(ground, runs);
            return scene.rename(await look(scene, splitWords(line)));
          };
          expect(await see(typed, typedRuns)).toEqual(seen);
          expect(isTyped(typedRuns, command, name, typed)).toBe(true);
          expect(await see(instead, [])).not.toEqual(seen);
        });
    });

  it('every option and argument has its entry in the table', async () => {
    expect(await listGaps(file, table)).toEqual([]);
  });
}

/** Whether some run was of this command and contained these words. */
function isTyped(runs: readonly string[][], command: string, name: string, typed: string): boolean {
  const path = command.split(' ').filter(Boolean);
  const last = path.at(-1);
  const words = splitWords(typed);
  return runs.some((argv) => {
    const isCommand = last === undefined || path.every((word) => argv.includes(word)) || argv.includes(last);
    const isThere = name.startsWith('-') ? words.some((word) => word.split('=')[0] === name) : words.length > 0;
    return isCommand && isThere && words.every((word) => word.includes('$') || argv.includes(word));
  });
}

/** What all scenes of a file share. */
interface Ground {
  readonly service: TestService;
  readonly requests: ReturnType<typeof watchRequests>;
  readonly account: () => Promise<ReturnType<typeof localHome>>;
}

/** Opens the home of an account with one agent. The account signs in on first use. */
function openAccount(service: TestService): () => Promise<ReturnType<typeof localHome>> {
  const signIn = async () => {
    const home = localHome(service);
    await operate(service.operator, 'POST', '/agents', { handle: '@ann.bot' });
    const { code, err } = await home.run('login @ann.bot --yes --scopes account:read,account:agents:read');
    if (code !== 0) throw new Error(err);
    return home;
  };
  let signedIn: ReturnType<typeof signIn> | undefined;
  return () => {
    signedIn ??= signIn();
    return signedIn;
  };
}

let scenes = 0;

async function openScene({ service, requests, account }: Ground, runs: string[][]): Promise<Scene> {
  const [alice, bob] = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
  const local = localHome(service);
  const home = local.directory;
  const names = new Map([
    ['$alice', alice.handle],
    ['$bob', bob.handle],
    ['$owner', alice.owner],
    ['$home', home],
  ]);
  const number = scenes;
  requests.sent.length = 0;
  scenes += 1;

  const spelled = (words: Words): string[] => {
    const lines = typeof words === 'string' ? [words] : words;
    const flat = lines.flatMap((line) => (typeof line === 'string' ? splitWords(line) : line));
    const all = [...names, ['$number', String(number)] as const];
    return flat.map((word) => all.reduce((text, [name, value]) => text.replaceAll(name, value), word));
  };
  const settingsOf = async (actor: Actor, options: RunOptions): Promise<RunOptions> => ({
    ...options,
    environment: {
      ASP_PROFILE: service.baseUrl,
      ASP_TOKEN: await actor.token('api'),
      ASP_WS_TOKEN: await actor.token('ws'),
      XDG_RUNTIME_DIR: join(home, 'run'),
      ...options.environment,
    },
    machine: { homeDirectory: home, workingDirectory: home, temporaryDirectory: home, ...options.machine },
  });
  const noted = (words: Words): string[] => {
    const argv = spelled(words);
    runs.push(argv);
    return argv;
  };

  const startBeside = (
    words: Words,
    options: RunOptions,
    settle: (options: RunOptions) => Promise<RunOptions>,
  ): Started => {
    const streams = captureStreams({ stdin: options.stdin ?? 'terminal' });
    const stop = new AbortController();
    const argv = noted(words);
    const ended = settle({ ...options, streams, signal: stop.signal }).then((all) => runWords(argv, all));
    return { streams, ended, stop: () => stop.abort(new Error('stopped by SIGINT')) };
  };

  return {
    ...{ service, alice, bob, home, number, sent: requests.sent },
    as: async (actor, words, options = {}) => runWords(noted(words), await settingsOf(actor, options)),
    asNobody: async (words, options) => local.run(noted(words), options),
    asAccount: async (words) => (await account()).run(noted(words)),
    start: (actor, words, options = {}) => startBeside(words, options, (all) => settingsOf(actor, all)),
    startElsewhere: (directory, words, options = {}) =>
      startBeside(words, options, async (all) => ({
        ...all,
        machine: {
          homeDirectory: directory,
          workingDirectory: directory,
          temporaryDirectory: directory,
          ...all.machine,
        },
      })),
    file(name, content) {
      const path = join(home, name);
      writeFileSync(path, content);
      return path;
    },
    async session(...texts) {
      const id = await alice.mustCreate({ invite: [bob.handle] });
      await bob.mustJoin(id);
      for (const text of texts) await alice.mustSend(id, text);
      names.set('$session', id);
      return id;
    },
    name: (name, text) => void names.set(name, text),
    rename(seen) {
      const text = [...names].reduce(
        (all, [name, value]) => all.replaceAll(value, name),
        JSON.stringify(seen) ?? 'null',
      );
      return JSON.parse(text);
    },
  };
}

interface Listed {
  readonly words: readonly string[];
  readonly arguments: readonly { readonly name: string }[];
  readonly options: readonly { readonly name: string }[];
}

export async function listCommands(): Promise<readonly Listed[]> {
  const { out } = await runWords('commands --json', { machine: { homeDirectory: freshHome() } });
  return (JSON.parse(out) as { items: Listed[] }).items;
}

/** Returns the test file for this command. */
export function fileOf(words: readonly string[]): string | undefined {
  const path = words.join(' ');
  const fitting = Object.entries(FILES).flatMap(([file, starts]) =>
    starts.flatMap((start) => (path === start || path.startsWith(`${start} `) ? [{ file, length: start.length }] : [])),
  );
  return fitting.sort((one, other) => other.length - one.length)[0]?.file;
}

/** The function that returns the tests of an option which many commands have. */
const MAKER: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['--dry-run', '--idempotency-key', '--once'].map((name) => [name, 'writeOptions'])),
  ...Object.fromEntries(['--limit', '--all', '--cursor'].map((name) => [name, 'pageOptions'])),
};

/** Lists what to do, one sentence each: entries to add, and entries whose option no longer exists. */
async function listGaps(file: string, table: Table): Promise<string[]> {
  const globals = new Set(GLOBAL_OPTIONS.map(({ flags }) => /--[a-z-]+/.exec(flags)?.[0] ?? ''));
  const wanted = new Map<string, string[]>();
  for (const { words, arguments: positional, options } of await listCommands()) {
    const own = options.map(({ name }) => name).filter((name) => !globals.has(name));
    if (file === 'global') wanted.set('', [...globals]);
    else if (fileOf(words) === file) wanted.set(words.join(' '), [...positional.map(({ name }) => name), ...own]);
  }
  const missing = [...wanted].flatMap(([command, names]) =>
    names
      .filter((name) => !Object.hasOwn(table[command] ?? {}, name))
      .map((name) => {
        const look = `async (scene, typed) => <run asp ${command} with typed, and look>`;
        const entry = `'${name}': shown('<words that type it>', <what is seen then>, ${look})`;
        const maker = MAKER[name];
        const shared = maker === undefined ? entry : `...${maker}(…), which has '${name}'`;
        return `Add to the table of test/cli/every-option/${file}.test.ts, under '${command}': ${shared}.`;
      }),
  );
  const leftOver = Object.entries(table).flatMap(([command, entries]) =>
    Object.keys(entries)
      .filter((name) => !(wanted.get(command)?.includes(name) ?? false))
      .map((name) => `Remove from the table of test/cli/every-option/${file}.test.ts: '${command}' has no '${name}'.`),
  );
  return [...missing, ...leftOver];
}
