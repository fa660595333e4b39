import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

import { findViolations, type HouseRules, type VirtualFiles } from './support/house.js';

/** What the service knows, apart from how it is reached. */
const DOMAIN = [
  ...['access-token', 'agents', 'attachments', 'bus', 'events', 'limits', 'sessions', 'store', 'trust'],
  ...['context', 'service-error'],
].map((name) => `service/${name}`);

/** What every part of the command line may use: what a command is, what is typed, and the errors it leads to. */
const CLI_GROUND = ['argv', 'command', 'errors', 'help', 'input', 'options', 'parser', 'suggest', 'values'].map(
  (name) => `cli/${name}`,
);

/** The words of the whole service, and what keeps them. */
const GROUND = ['service/context', 'service/service-error', 'service/store', 'wire', 'kit'];

/**
 * The house: an hourglass, cli → client → wire ← service. A room is a folder, or the file of that name; the longest row
 * that fits a file counts. Within what its row allows, a room knows its children and never its parents.
 */
const HOUSE: HouseRules = {
  rooms: [
    { room: 'start', mayImport: ['cli'] },
    { room: 'main', mayImport: ['cli', 'kit'] },

    { room: 'cli', mayImport: ['cli', 'client', 'wire', 'kit'] },
    { room: 'cli/commands', mayImport: ['cli', 'client', 'wire', 'kit'] },
    { room: 'cli/commands/serve', mayImport: ['cli', 'client', 'wire', 'kit', 'service'] },
    { room: 'cli/commands/demo', mayImport: ['cli', 'client', 'wire', 'kit', 'service'] },
    // Of what stands above them they know the types.
    ...CLI_GROUND.map((room) => ({
      room,
      mayImport: [...CLI_GROUND, 'cli/context/context', 'cli/terminal/style', 'wire', 'kit'],
    })),
    {
      room: 'cli/context',
      mayImport: ['cli/context', 'cli/profile', ...CLI_GROUND, 'cli/terminal', 'client', 'wire', 'kit'],
    },
    { room: 'cli/profile', mayImport: ['cli/profile', ...CLI_GROUND, 'cli/terminal', 'client', 'wire', 'kit'] },
    {
      room: 'cli/login',
      mayImport: ['cli/login', 'cli/context', 'cli/profile', ...CLI_GROUND, 'cli/terminal', 'client', 'wire', 'kit'],
    },
    { room: 'cli/terminal', mayImport: ['cli/terminal', 'cli/errors', 'wire', 'kit'] },

    { room: 'client', mayImport: ['client', 'wire', 'kit'] },
    { room: 'client/http', mayImport: ['client/http', 'wire', 'kit'] },
    { room: 'client/rest', mayImport: ['client/rest', 'client/http', 'wire', 'kit'] },
    { room: 'client/realtime', mayImport: ['client', 'wire', 'kit'] },
    { room: 'client/oauth', mayImport: ['client/oauth', 'client/http', 'client/service-addresses', 'wire', 'kit'] },
    {
      room: 'client/credentials',
      mayImport: ['client/credentials', 'client/oauth', 'client/http', 'client/service-addresses', 'wire', 'kit'],
    },

    { room: 'wire', mayImport: ['wire'] },

    { room: 'service', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/rest', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/realtime', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/operator', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/authorization-server', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/dashboard', mayImport: ['service', 'wire', 'kit'] },
    {
      room: 'service/faults',
      mayImport: ['service/faults', 'service/context', 'service/service-error', 'wire', 'kit'],
    },
    { room: 'service/metrics', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/openapi', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/backup', mayImport: ['service/backup', 'service/store', 'wire', 'kit'] },
    { room: 'service/pages', mayImport: ['service', 'wire', 'kit'] },
    { room: 'service/access-token', mayImport: [...DOMAIN, 'wire', 'kit'] },
    { room: 'service/sessions', mayImport: [...DOMAIN, 'wire', 'kit'] },
    { room: 'service/trust', mayImport: [...DOMAIN, 'wire', 'kit'] },
    { room: 'service/attachments', mayImport: [...DOMAIN, 'wire', 'kit'] },
    { room: 'service/agents', mayImport: [...DOMAIN, 'wire', 'kit'] },
    { room: 'service/events', mayImport: [...DOMAIN, 'wire', 'kit'] },
    { room: 'service/bus', mayImport: ['service/bus', ...GROUND] },
    { room: 'service/limits', mayImport: ['service/limits', ...GROUND] },
    { room: 'service/store', mayImport: GROUND },

    { room: 'kit', mayImport: ['kit'] },
  ],

  packages: [
    { what: /^undici$/, only: ['client/http'], reason: 'only client/http sends requests' },
    { what: /^ws$/, only: ['client/realtime', 'service/realtime'], reason: 'only the realtime rooms import ws' },
    {
      what: /^(node:sqlite|@photostructure\/sqlite|better-sqlite3|pg)$/,
      only: ['service/store', 'client/credentials/process-lock'],
      reason: 'only service/store imports a database driver',
    },
    { what: /^keytar$/, only: ['client/credentials'], reason: 'only client/credentials opens the keychain' },
    { what: /^commander$/, only: ['cli'], reason: 'only cli knows words' },
    {
      what: /^(chalk|ora|open|@clack\/prompts)$/,
      only: ['cli/terminal'],
      reason: 'only cli/terminal speaks to a terminal',
    },
    { what: /^@nats-io\//, only: ['service/bus'], reason: 'only service/bus speaks to a bus' },
    { what: /^prom-client$/, only: ['service/metrics'], reason: 'only service/metrics counts' },
    { what: /^@?fastify(\/|$)/, only: ['service'], reason: 'only service answers HTTP' },
    { what: /^zod$/, only: ['service'], reason: 'what the program loads at its start imports zod/mini' },
  ],

  names: [
    {
      what: /^process\.(stdout|stderr|\*)$|^console\.\w+$/,
      only: ['cli/terminal', 'main', 'start'],
      reason: 'only cli/terminal and main touch the output streams',
    },
    { what: /^process\.(exit|exitCode|abort|reallyExit|\*)$/, only: ['main'], reason: 'only main sets an exit code' },
    {
      what: /^(Date\.now|new Date\(\)|Math\.random|performance\.now|crypto\.(randomUUID|\*))$/,
      only: ['cli', 'main', 'start', 'kit'],
      reason: 'time and chance are injected (Clock, Ids, Random)',
    },
    { what: /^as unknown as$/, only: [], reason: 'a cast through unknown believes anything' },
  ],

  starter: 'src/start.ts',
  forbiddenNames: ['utils', 'util', 'lib', 'libs', 'types', 'common', 'helpers', 'helper', 'manager', 'managers'],
};

const ROOT = fileURLToPath(new URL('..', import.meta.url));

function readHouse(): VirtualFiles {
  const folders = ['src', 'test', 'bench', 'scripts'];
  const present = readdirSync(ROOT).filter((entry) => folders.includes(entry));
  const paths = present.flatMap((folder) =>
    readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`),
  );
  const sources = paths.map((path) => path.replaceAll('\\', '/')).filter((path) => /\.(ts|mjs|js)$/.test(path));
  return new Map(sources.map((path) => [path, readFileSync(`${ROOT}${path}`, 'utf8')]));
}

const check = (files: Record<string, string>): string[] => findViolations(HOUSE, new Map(Object.entries(files)));

describe('the house', () => {
  it('keeps its rules', () => {
    expect(findViolations(HOUSE, readHouse())).toEqual([]);
  });

  it('keeps its rules while it is empty', () => {
    expect(check({})).toEqual([]);
  });

  it('names every room once', () => {
    const names = HOUSE.rooms.map(({ room }) => room);
    expect(new Set(names).size).toBe(names.length);
  });
});

/** Planted violations: the files of a small house, and the one sentence the checker must say of it. */
const PLANTED: Record<string, [files: Record<string, string>, sentence: string]> = {
  'the client imports the service': [
    { 'src/client/x.ts': "import { y } from '../service/y.js';" },
    'src/client/x.ts imports src/service/y.ts: client may import only client, wire, kit',
  ],
  'the service imports a type of the client': [
    { 'src/service/rest/x.ts': "import type { Y } from '../../client/rest/y.js';" },
    'src/service/rest/x.ts imports src/client/rest/y.ts: service/rest may import only service, wire, kit',
  ],
  'a command imports the service dynamically': [
    { 'src/cli/commands/send.ts': "const s = await import('../../service/service.js');" },
    'src/cli/commands/send.ts imports src/service/service.ts: cli/commands may import only cli, client, wire, kit',
  ],
  'a re-export crosses a wall': [
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
    'src/client/x.ts:1 imports something computed: name it',
  ],
  'the contract imports the kit': [
    { 'src/wire/x.ts': "import { y } from '../kit/y.js';", ...usersOfKit('y') },
    'src/wire/x.ts imports src/kit/y.ts: wire may import only wire',
  ],
  'the domain imports a transport': [
    { 'src/service/sessions/x.ts': "import { y } from '../rest/y.js';" },
    `src/service/sessions/x.ts imports src/service/rest/y.ts: service/sessions may import only ${DOMAIN.join(', ')}, wire, kit`,
  ],
  'a child imports its parent': [
    {
      'src/service/rest/x.ts': "import type { Service } from '../service.js';",
      'src/service/service.ts': "export * from './parts.js';",
      'src/service/parts.ts': "await import('./store/y.js');",
    },
    'src/service/rest/x.ts imports src/service/service.ts, which needs src/service/store/y.ts: parents know children, children never parents',
  ],
  'someone imports main': [
    { 'src/cli/x.ts': "import '../main.js';" },
    'src/cli/x.ts imports src/main.ts: nothing imports main',
  ],
  'the program imports a test': [
    { 'src/cli/x.ts': "import '../../test/support/y.js';" },
    'src/cli/x.ts imports test/support/y.ts: src imports nothing from outside src',
  ],
  'a file stands in the street': [{ 'src/x.ts': '' }, 'src/x.ts stands in no room of the house'],
  'a folder is no room': [
    { 'src/client/cache/x.ts': '' },
    'src/client/cache/x.ts stands in no room of the house: client/cache is not in the table',
  ],
  'ws is imported elsewhere': [
    { 'src/client/http/x.ts': "import { WebSocket } from 'ws';" },
    'src/client/http/x.ts imports ws: only the realtime rooms import ws',
  ],
  'a database driver is imported elsewhere': [
    { 'src/service/bus/x.ts': "const { DatabaseSync } = await import('node:sqlite');" },
    'src/service/bus/x.ts imports node:sqlite: only service/store imports a database driver',
  ],
  'a database driver is imported by a constant': [
    { 'src/service/bus/x.ts': "const DRIVER: string = 'pg';\nawait import(DRIVER);" },
    'src/service/bus/x.ts imports pg: only service/store imports a database driver',
  ],
  'the keychain is opened elsewhere': [
    { 'src/cli/commands/x.ts': "import keytar from 'keytar';" },
    'src/cli/commands/x.ts imports keytar: only client/credentials opens the keychain',
  ],
  'the client parses words': [
    { 'src/client/x.ts': "import { Command } from 'commander';" },
    'src/client/x.ts imports commander: only cli knows words',
  ],
  'a command colours': [
    { 'src/cli/commands/x.ts': "import chalk from 'chalk';" },
    'src/cli/commands/x.ts imports chalk: only cli/terminal speaks to a terminal',
  ],
  'the client serves': [
    { 'src/client/x.ts': "import multipart from '@fastify/multipart';" },
    'src/client/x.ts imports @fastify/multipart: only service answers HTTP',
  ],
  'the contract loads all of zod': [
    { 'src/wire/x.ts': "import * as z from 'zod';" },
    'src/wire/x.ts imports zod: what the program loads at its start imports zod/mini',
  ],
  'a command writes to stdout': [
    { 'src/cli/commands/x.ts': "\nprocess.stdout.write('x');" },
    'src/cli/commands/x.ts (line 2) uses process.stdout: only cli/terminal and main touch the output streams',
  ],
  'stderr is reached sideways': [
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
    'src/service/x.ts (line 1) uses Date.now: time and chance are injected (Clock, Ids, Random)',
  ],
  'the client reads the clock': [
    { 'src/client/x.ts': 'const now = new Date();' },
    'src/client/x.ts (line 1) uses new Date(): time and chance are injected (Clock, Ids, Random)',
  ],
  'the client rolls dice': [
    { 'src/client/x.ts': 'const jitter = Math.random();' },
    'src/client/x.ts (line 1) uses Math.random: time and chance are injected (Clock, Ids, Random)',
  ],
  'the service makes up an id': [
    { 'src/service/x.ts': "import { randomUUID } from 'node:crypto';" },
    'src/service/x.ts (line 1) uses crypto.randomUUID: time and chance are injected (Clock, Ids, Random)',
  ],
  'a cast believes anything': [
    { 'src/cli/x.ts': 'const one = 1 as unknown as string;' },
    'src/cli/x.ts (line 1) uses as unknown as: a cast through unknown believes anything',
  ],
  'conformance peeks': [
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
    'src/kit/x.ts has 1 users: a file of kit has at least two',
  ],
  'kit imports the project': [
    { 'src/kit/x.ts': "import '../wire/y.js';", ...usersOfKit('x') },
    'src/kit/x.ts imports src/wire/y.ts: kit may import only kit',
  ],
  'files import each other': [
    { 'src/wire/x.ts': "import './y.js';", 'src/wire/y.ts': "import './x.js';" },
    'src/wire/x.ts → src/wire/y.ts → src/wire/x.ts: files import each other in a circle',
  ],
  'a name is in camel case': [{ 'src/wire/someFile.ts': '' }, 'src/wire/someFile.ts: someFile is not kebab-case'],
  'a folder says nothing': [{ 'test/utils/x.ts': '' }, 'test/utils/x.ts: nothing is called utils, which says nothing'],
  'a file does not parse': [{ 'src/wire/x.ts': 'const = ;' }, 'src/wire/x.ts does not parse: Unexpected token'],
};

function usersOfKit(file: string): Record<string, string> {
  const text = `import '../kit/${file}.js';`;
  return { 'src/client/one.ts': text, 'src/service/two.ts': text };
}

describe('the checker sees', () => {
  for (const [title, [files, sentence]] of Object.entries(PLANTED)) {
    it(title, () => expect(check(files)).toEqual([sentence]));
  }
});

/** What looks like a violation and is none. */
const ALLOWED: Record<string, Record<string, string>> = {
  'serve and demo start the service': {
    'src/cli/commands/serve.ts': "const { startService } = await import('../../service/service.js');",
    'src/cli/commands/serve/agent-add.ts': "import { x } from '../../../service/agents/x.js';",
    'src/cli/commands/demo.ts': "import { startService } from '../../service/service.js';",
  },
  'a child uses the words that stand beside its parent': {
    'src/service/context.ts': "import type { Bus } from './bus/bus.js';",
    'src/service/bus/y.ts': "import type { ServiceContext } from '../context.js';",
    'src/service/store/x.ts': "import { ServiceError } from '../service-error.js';",
  },
  'types go round in a circle': {
    'src/wire/x.ts': "import type { Y } from './y.js';",
    'src/wire/y.ts': "import { type X } from './x.js';",
  },
  'a given time becomes a date': { 'src/service/x.ts': 'const at = new Date(clock.now()).toISOString();' },
  'names stand in comments and strings': { 'src/client/x.ts': "// process.stdout\nconst x = 'Date.now()';" },
};

describe('the checker allows that', () => {
  for (const [title, files] of Object.entries(ALLOWED)) it(title, () => expect(check(files)).toEqual([]));
});
