import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

import { findViolations, type PartRow, type ProjectRules, type VirtualFiles } from './support/project-rules.js';

/** The parts of the service, independent of how it is reached. */
const SERVICE = ['core', 'store', 'agents', 'messaging', 'attachments', 'oauth'];

/** The files that every folder of the command line may use: commands, their input, and their errors. */
const CLI_FILES = ['argv', 'command', 'errors', 'help', 'input', 'options', 'parser', 'ready-file', 'values'].map(
  (name) => `cli/${name}`,
);

/**
 * A part of the project. Each of its folders may import the folders before it, `below`, and the part's own `files`. A
 * file next to the folders may import all of them.
 */
function layers(
  name: string,
  folders: readonly string[],
  below: readonly string[],
  files: readonly string[] = [],
): PartRow[] {
  const parts = folders.map((folder) => `${name}/${folder}`);
  const rows = parts.map((part, index) => ({ part, mayImport: [...parts.slice(0, index + 1), ...files, ...below] }));
  return [{ part: name, mayImport: [name, ...below] }, ...rows];
}

/** The architecture: an hourglass, cli → client → wire ← service, and the order of the folders within each part. */
const RULES: ProjectRules = {
  parts: [
    ...layers('kit', [], []),
    ...layers('wire', ['schemas'], [], ['wire']),
    ...layers('client', ['http', 'oauth', 'credentials', 'rest', 'realtime'], ['wire', 'kit'], ['client/client']),
    { part: 'agent', mayImport: ['agent', 'client', 'wire', 'kit'] },
    ...layers('service', [...SERVICE, 'http', 'mcp', 'web', 'operator'], ['wire', 'kit']),
    ...layers('cli', ['terminal', 'profile', 'context', 'commands'], ['agent', 'client', 'wire', 'kit'], CLI_FILES),
    {
      part: 'library',
      mayImport: ['library', 'agent', 'client', 'cli/context', 'cli/version', 'wire', 'kit'],
    },
    { part: 'testing', mayImport: ['testing', 'client', 'service', 'wire', 'kit'] },
    { part: 'cli/commands/serve', mayImport: ['cli', 'agent', 'client', 'service', 'wire', 'kit'] },
    { part: 'cli/commands/demo', mayImport: ['cli', 'agent', 'client', 'service', 'wire', 'kit'] },
    { part: 'main', mayImport: ['cli', 'kit'] },
    { part: 'complete', mayImport: ['cli', 'kit'] },
    { part: 'overview', mayImport: ['cli', 'kit'] },
    { part: 'start', mayImport: ['cli'] },
  ],

  packages: [
    { what: /^undici$/, only: ['client/http'], reason: 'only client/http sends requests' },
    {
      what: /^ws$/,
      only: ['client/realtime', 'service/http/realtime', 'service/messaging/live-socket'],
      reason: 'only the files for live events import ws',
    },
    {
      what: /^(node:sqlite|@photostructure\/sqlite|better-sqlite3|pg)$/,
      only: ['service/store', 'client/credentials/process-lock'],
      reason: 'only service/store imports a database driver',
    },
    { what: /^keytar$/, only: ['client/credentials'], reason: 'only client/credentials opens the keychain' },
    { what: /^commander$/, only: ['cli'], reason: 'only cli parses arguments' },
    {
      what: /^(chalk|ora|open|@clack\/prompts)$/,
      only: ['cli/terminal'],
      reason: 'only cli/terminal talks to a terminal',
    },
    { what: /^@nats-io\//, only: ['service/messaging/nats'], reason: 'only messaging/nats talks to NATS' },
    {
      what: /^@modelcontextprotocol\//,
      only: ['cli/commands/mcp', 'service/mcp'],
      reason: 'only the MCP folders import the MCP SDK',
    },
    { what: /^prom-client$/, only: ['service/operator/metrics'], reason: 'only operator/metrics keeps metrics' },
    { what: /^@?fastify(\/|$)/, only: ['service'], reason: 'only service answers HTTP' },
    {
      what: /^zod\/mini$/,
      only: ['wire/schemas', 'client', 'agent', 'cli', 'service'],
      reason: 'src/wire itself loads no package; schemas go to src/wire/schemas',
    },
    { what: /^zod$/, only: ['service'], reason: 'only the service may load all of zod; elsewhere import zod/mini' },
  ],

  names: [
    {
      what: /^process\.(stdout|stderr|\*)$|^console\.\w+$/,
      only: ['cli/terminal', 'main', 'start', 'overview'],
      reason: 'only cli/terminal and main touch the output streams',
    },
    { what: /^process\.(exit|exitCode|abort|reallyExit|\*)$/, only: ['main'], reason: 'only main sets an exit code' },
    {
      what: /^(Date\.now|new Date\(\)|Math\.random|performance\.now|crypto\.(randomUUID|\*))$/,
      // Page scripts run in a browser, where nothing injects a clock.
      only: ['cli', 'main', 'start', 'kit', 'service/web/assets'],
      reason: 'inject time and randomness (Clock, Ids, Random)',
    },
    { what: /^as unknown as$/, only: [], reason: 'a cast through unknown hides type errors' },
  ],

  starter: 'src/start.ts',
  forbiddenNames: ['utils', 'util', 'lib', 'libs', 'types', 'common', 'helpers', 'helper', 'manager', 'managers'],
};

const ROOT = fileURLToPath(new URL('..', import.meta.url));

function readProject(): VirtualFiles {
  const folders = ['src', 'test', 'bench', 'scripts'];
  const present = readdirSync(ROOT).filter((entry) => folders.includes(entry));
  const paths = present.flatMap((folder) =>
    readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`),
  );
  const sources = paths.map((path) => path.replaceAll('\\', '/')).filter((path) => /\.(ts|mjs|js)$/.test(path));
  return new Map(sources.map((path) => [path, readFileSync(`${ROOT}${path}`, 'utf8')]));
}

const check = (files: Record<string, string>): string[] => findViolations(RULES, new Map(Object.entries(files)));

/** Lists exports without a comment at their first declaration. A type shares the name and the comment of its schema. */
function nameUndocumented([path, text]: [string, string]): string[] {
  const lines = text.split('\n');
  const before = new Map<string, string>();
  for (const [at, line] of lines.entries()) {
    const [, name] =
      /^export (?:abstract )?(?:async )?(?:const|function\*?|class|interface|type|enum) (\w+)/.exec(line) ?? [];
    if (name !== undefined && !before.has(name)) before.set(name, lines[at - 1] ?? '');
  }
  return [...before].filter(([, line]) => !line.trimEnd().endsWith('*/')).map(([name]) => `${path}: ${name}`);
}

describe('The architecture', () => {
  it('keeps its rules', () => {
    expect(findViolations(RULES, readProject())).toEqual([]);
  });

  it('keeps its rules while it is empty', () => {
    expect(check({})).toEqual([]);
  });

  it('has five classes of errors; callers distinguish errors by code', () => {
    const classes = [...readProject()]
      .filter(([path]) => path.startsWith('src/'))
      .flatMap(([, text]) => [...text.matchAll(/^\s*(?:export )?class (\w+) extends \w*Error\b/gm)])
      .map(([, name]) => name);
    expect(classes.sort()).toEqual(['CliError', 'OAuthError', 'OperatorError', 'RequestError', 'ServiceError']);
  });

  it('documents every name that wire, client, agent, library, kit and testing export', () => {
    const undocumented = [...readProject()]
      .filter(([path]) => /^src\/(wire|client|agent|library|kit|testing)\//.test(path))
      .flatMap(nameUndocumented);
    expect(undocumented).toEqual([]);
  });

  it('names every part once', () => {
    const names = RULES.parts.map(({ part }) => part);
    expect(new Set(names).size).toBe(names.length);
  });
});

/** Planted violations: the files of a small project, and the sentence that the checker must report. */
const PLANTED: Record<string, [files: Record<string, string>, sentence: string]> = {
  'the client imports the service': [
    { 'src/client/x.ts': "import { y } from '../service/y.js';" },
    'src/client/x.ts imports src/service/y.ts: client may import only client, wire, kit',
  ],
  'the service imports a type of the client': [
    { 'src/service/http/x.ts': "import type { Y } from '../../client/rest/y.js';" },
    `src/service/http/x.ts imports src/client/rest/y.ts: service/http may import only ${[...SERVICE, 'http'].map((part) => `service/${part}`).join(', ')}, wire, kit`,
  ],
  'a command imports the service dynamically': [
    { 'src/cli/commands/send.ts': "const s = await import('../../service/service.js');" },
    `src/cli/commands/send.ts imports src/service/service.ts: cli/commands may import only ${[
      'terminal',
      'profile',
      'context',
      'commands',
    ]
      .map((name) => `cli/${name}`)
      .concat(CLI_FILES)
      .join(', ')}, agent, client, wire, kit`,
  ],
  'a re-export breaks a rule': [
    { 'src/client/x.ts': "export * from '../cli/run.js';" },
    'src/client/x.ts imports src/cli/run.ts: client may import only client, wire, kit',
  ],
  'a type is imported inside an expression': [
    { 'src/wire/x.ts': "export type X = import('../service/y.js').Y;" },
    'src/wire/x.ts imports src/service/y.ts: wire may import only wire',
  ],
  'a module is required': [
    { 'src/client/x.ts': "const y = require('../service/y.js');" },
    'src/client/x.ts imports src/service/y.ts: client may import only client, wire, kit',
  ],
  'an import is computed': [
    { 'src/client/x.ts': 'const y = await import(process.argv[2]);' },
    'src/client/x.ts:1 imports a computed name: write the path',
  ],
  'the contract imports the kit': [
    { 'src/wire/x.ts': "import { y } from '../kit/y.js';", ...usersOfKit('y') },
    'src/wire/x.ts imports src/kit/y.ts: wire may import only wire',
  ],
  'the store imports a later folder': [
    { 'src/service/store/x.ts': "import { y } from '../messaging/y.js';" },
    'src/service/store/x.ts imports src/service/messaging/y.ts: service/store may import only service/core, service/store, wire, kit',
  ],
  'a child imports its parent': [
    {
      'src/client/realtime/x.ts': "import type { Client } from '../client.js';",
      'src/client/client.ts': "export * from './parts.js';",
      'src/client/parts.ts': "await import('./rest/y.js');",
    },
    'src/client/realtime/x.ts imports src/client/client.ts, which needs src/client/rest/y.ts: a folder may import from the folders in it, not the other way around',
  ],
  'someone imports main': [
    { 'src/cli/x.ts': "import '../main.js';" },
    'src/cli/x.ts imports src/main.ts: nothing imports main',
  ],
  'the program imports a test': [
    { 'src/cli/x.ts': "import '../../test/support/y.js';" },
    'src/cli/x.ts imports test/support/y.ts: src imports nothing from outside src',
  ],
  'a file is in no folder': [{ 'src/x.ts': '' }, 'src/x.ts belongs to no part of the project'],
  'a folder is not in the table': [
    { 'src/client/cache/x.ts': '' },
    'src/client/cache/x.ts belongs to no part of the project: add client/cache to test/architecture.test.ts',
  ],
  'ws is imported elsewhere': [
    { 'src/client/http/x.ts': "import { WebSocket } from 'ws';" },
    'src/client/http/x.ts imports ws: only the files for live events import ws',
  ],
  'a database driver is imported elsewhere': [
    { 'src/service/messaging/x.ts': "const { DatabaseSync } = await import('node:sqlite');" },
    'src/service/messaging/x.ts imports node:sqlite: only service/store imports a database driver',
  ],
  'a database driver is imported by a constant': [
    { 'src/service/messaging/x.ts': "const DRIVER: string = 'pg';\nawait import(DRIVER);" },
    'src/service/messaging/x.ts imports pg: only service/store imports a database driver',
  ],
  'the keychain is opened elsewhere': [
    { 'src/cli/commands/x.ts': "import keytar from 'keytar';" },
    'src/cli/commands/x.ts imports keytar: only client/credentials opens the keychain',
  ],
  'the client parses arguments': [
    { 'src/client/x.ts': "import { Command } from 'commander';" },
    'src/client/x.ts imports commander: only cli parses arguments',
  ],
  'a command prints colors': [
    { 'src/cli/commands/x.ts': "import chalk from 'chalk';" },
    'src/cli/commands/x.ts imports chalk: only cli/terminal talks to a terminal',
  ],
  'the client answers HTTP': [
    { 'src/client/x.ts': "import multipart from '@fastify/multipart';" },
    'src/client/x.ts imports @fastify/multipart: only service answers HTTP',
  ],
  'a fact of the contract loads a schema library': [
    { 'src/wire/x.ts': "import * as z from 'zod/mini';" },
    'src/wire/x.ts imports zod/mini: src/wire itself loads no package; schemas go to src/wire/schemas',
  ],
  'the contract loads all of zod': [
    { 'src/wire/x.ts': "import * as z from 'zod';" },
    'src/wire/x.ts imports zod: only the service may load all of zod; elsewhere import zod/mini',
  ],
  'a command writes to stdout': [
    { 'src/cli/commands/x.ts': "\nprocess.stdout.write('x');" },
    'src/cli/commands/x.ts (line 2) uses process.stdout: only cli/terminal and main touch the output streams',
  ],
  'stderr is reached through globalThis': [
    { 'src/client/x.ts': "const { stderr } = globalThis['process'];" },
    'src/client/x.ts (line 1) uses process.stderr: only cli/terminal and main touch the output streams',
  ],
  'stdout is imported': [
    { 'src/client/x.ts': "import { stdout as out } from 'node:process';" },
    'src/client/x.ts (line 1) uses process.stdout: only cli/terminal and main touch the output streams',
  ],
  'the service logs to the console': [
    { 'src/service/x.ts': "console.error('x');" },
    'src/service/x.ts (line 1) uses console.error: only cli/terminal and main touch the output streams',
  ],
  'a command exits': [
    { 'src/cli/commands/x.ts': 'process.exit(1);' },
    'src/cli/commands/x.ts (line 1) uses process.exit: only main sets an exit code',
  ],
  'the terminal sets an exit code': [
    { 'src/cli/terminal/x.ts': 'process.exitCode = 1;' },
    'src/cli/terminal/x.ts (line 1) uses process.exitCode: only main sets an exit code',
  ],
  'the service reads the clock': [
    { 'src/service/x.ts': 'const now = Date.now();' },
    'src/service/x.ts (line 1) uses Date.now: inject time and randomness (Clock, Ids, Random)',
  ],
  'the client reads the clock': [
    { 'src/client/x.ts': 'const now = new Date();' },
    'src/client/x.ts (line 1) uses new Date(): inject time and randomness (Clock, Ids, Random)',
  ],
  'the client calls Math.random': [
    { 'src/client/x.ts': 'const jitter = Math.random();' },
    'src/client/x.ts (line 1) uses Math.random: inject time and randomness (Clock, Ids, Random)',
  ],
  'the service creates an id directly': [
    { 'src/service/x.ts': "import { randomUUID } from 'node:crypto';" },
    'src/service/x.ts (line 1) uses crypto.randomUUID: inject time and randomness (Clock, Ids, Random)',
  ],
  'a cast goes through unknown': [
    { 'src/cli/x.ts': 'const one = 1 as unknown as string;' },
    'src/cli/x.ts (line 1) uses as unknown as: a cast through unknown hides type errors',
  ],
  'a conformance test imports src': [
    { 'test/conformance/x.test.ts': "import { y } from '../../src/wire/y.js';" },
    'test/conformance/x.test.ts imports src/wire/y.ts: conformance is a black box and imports nothing from src',
  ],
  'a file of kit has one user': [
    {
      'src/main.ts': '',
      'src/kit/x.ts': '',
      'src/client/y.ts': "import '../kit/x.js';",
      'test/y.test.ts': "import '../src/kit/x.js';",
    },
    'src/kit/x.ts has 1 user: a file of kit needs at least two',
  ],
  'kit imports the project': [
    { 'src/kit/x.ts': "import '../wire/y.js';", ...usersOfKit('x') },
    'src/kit/x.ts imports src/wire/y.ts: kit may import only kit',
  ],
  'files import each other': [
    { 'src/wire/x.ts': "import './y.js';", 'src/wire/y.ts': "import './x.js';" },
    'src/wire/x.ts → src/wire/y.ts → src/wire/x.ts: a circular import',
  ],
  'a name is in camel case': [{ 'src/wire/someFile.ts': '' }, 'src/wire/someFile.ts: someFile is not kebab-case'],
  'a folder has a vague name': [{ 'test/utils/x.ts': '' }, 'test/utils/x.ts: choose a name that says more than utils'],
  'a file does not parse': [{ 'src/wire/x.ts': 'const = ;' }, 'src/wire/x.ts does not parse: Unexpected token'],
};

function usersOfKit(file: string): Record<string, string> {
  const text = `import '../kit/${file}.js';`;
  return { 'src/client/one.ts': text, 'src/service/two.ts': text };
}

describe('The checker finds', () => {
  for (const [title, [files, sentence]] of Object.entries(PLANTED)) {
    it(title, () => expect(check(files)).toEqual([sentence]));
  }
});

/** Code that looks like a violation but is not one. */
const ALLOWED: Record<string, Record<string, string>> = {
  'serve and demo start the service': {
    'src/cli/commands/serve.ts': "const { startService } = await import('../../service/service.js');",
    'src/cli/commands/serve/agent-add.ts': "import { x } from '../../../service/agents/x.js';",
    'src/cli/commands/demo.ts': "import { startService } from '../../service/service.js';",
  },
  'a folder uses the files next to it': {
    'src/cli/command.ts': "import type { Style } from './terminal/style.js';",
    'src/cli/profile/x.ts': "import type { Command } from '../command.js';",
    'src/cli/context/y.ts': "import { CliError } from '../errors.js';",
  },
  'types import each other': {
    'src/wire/x.ts': "import type { Y } from './y.js';",
    'src/wire/y.ts': "import { type X } from './x.js';",
  },
  'a given time becomes a date': { 'src/service/x.ts': 'const at = new Date(clock.now()).toISOString();' },
  'names are in comments and strings': { 'src/client/x.ts': "// process.stdout\nconst x = 'Date.now()';" },
};

describe('The checker allows', () => {
  for (const [title, files] of Object.entries(ALLOWED)) it(title, () => expect(check(files)).toEqual([]));
});
