import { posix } from 'node:path';

import { readSourceFacts, type SourceFacts } from './source-facts.js';

/** A room: a folder or file under src, and the parts of this project that its files may import. */
export interface RoomRow {
  room: string;
  mayImport: readonly string[];
}

/** A package or platform name, and the only rooms that may use it. */
interface OnlyRow {
  what: RegExp;
  only: readonly string[];
  reason: string;
}

export interface HouseRules {
  rooms: readonly RoomRow[];
  packages: readonly OnlyRow[];
  names: readonly OnlyRow[];
  /** The only file that imports a computed name: the command that the user requested. */
  starter: string;
  forbiddenNames: readonly string[];
}

/** Maps each path, relative to the project's root, to its text. */
export type VirtualFiles = ReadonlyMap<string, string>;

interface House {
  rules: HouseRules;
  files: ReadonlyMap<string, SourceFacts>;
}

const isBelow = (room: string, above: string): boolean => room === above || room.startsWith(`${above}/`);

const withoutExtension = (path: string): string => path.replace(/\.[a-z]+$/, '');

/** `src/cli/commands/serve/agent-add.ts` → `cli/commands/serve/agent-add`. Rooms match by prefix. */
const placeOf = (path: string): string => withoutExtension(path).replace(/^src\//, '');

function roomOf({ rooms }: HouseRules, path: string): RoomRow | undefined {
  if (!path.startsWith('src/')) return undefined;
  const candidates = rooms.filter(({ room }) => isBelow(placeOf(path), room));
  return candidates.sort((left, right) => right.room.length - left.room.length)[0];
}

function targetOf(path: string, specifier: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  return posix.join(posix.dirname(path), specifier).replace(/\.js$/, '.ts');
}

/** Returns every file that this file needs at run time, including itself. */
function reachOf(house: House, path: string, reached = new Set<string>()): ReadonlySet<string> {
  if (reached.has(path)) return reached;
  reached.add(path);
  for (const { specifier, isTypeOnly } of house.files.get(path)?.imports ?? []) {
    const target = specifier === undefined || isTypeOnly ? undefined : targetOf(path, specifier);
    if (target !== undefined) reachOf(house, target, reached);
  }
  return reached;
}

/** Finds a file that `path` needs in a folder below its own, which makes `path` a parent. */
function findChildOf(house: House, path: string): string | undefined {
  const folder = posix.dirname(path);
  return [...reachOf(house, path)].find((one) => posix.dirname(one).startsWith(`${folder}/`));
}

function checkImport(house: House, path: string, specifier: string): string[] {
  const target = targetOf(path, specifier);
  const from = roomOf(house.rules, path);
  if (target === undefined || from === undefined) return [];
  const claim = `${path} imports ${target}`;
  if (!target.startsWith('src/')) return [`${claim}: src imports nothing from outside src`];
  if (target === 'src/main.ts') return [`${claim}: nothing imports main`];
  const isAllowed = from.mayImport.some((room) => isBelow(placeOf(target), room));
  if (!isAllowed) {
    const allowed = from.mayImport.length === 0 ? 'nothing of this project' : `only ${from.mayImport.join(', ')}`;
    return [`${claim}: ${from.room} may import ${allowed}`];
  }
  const isBelowTarget = posix.dirname(path).startsWith(`${posix.dirname(target)}/`);
  const child = isBelowTarget ? findChildOf(house, target) : undefined;
  return child === undefined ? [] : [`${claim}, which needs ${child}: parents know children, children never parents`];
}

function checkImports(house: House): string[] {
  return [...house.files].flatMap(([path, { imports }]) =>
    imports.flatMap(({ specifier, line }) => {
      if (specifier !== undefined) return checkImport(house, path, specifier);
      return path.startsWith('src/') && path !== house.rules.starter
        ? [`${path}:${line} imports something computed: name it`]
        : [];
    }),
  );
}

function checkRoomsExist({ rules, files }: House): string[] {
  return [...files.keys()].flatMap((path) => {
    const isInSrc = path.startsWith('src/');
    if (!isInSrc) return [];
    const room = roomOf(rules, path);
    if (room === undefined) return [`${path} stands in no room of the house`];
    const folder = placeOf(posix.dirname(path));
    const hasRoomsInside = rules.rooms.some((row) => row.room.startsWith(`${room.room}/`));
    const isInside = folder !== room.room && isBelow(folder, room.room);
    return hasRoomsInside && isInside && !room.room.includes('/')
      ? [`${path} stands in no room of the house: ${folder} is not in the table`]
      : [];
  });
}

function only(rows: readonly OnlyRow[], path: string, what: string, verb: string): string[] {
  return rows
    .filter((row) => row.what.test(what) && !row.only.some((room) => isBelow(placeOf(path), room)))
    .map((row) => `${path} ${verb} ${what}: ${row.reason}`);
}

function checkPackages({ rules, files }: House): string[] {
  return [...files].flatMap(([path, { imports }]) =>
    path.startsWith('src/')
      ? imports.flatMap(({ specifier = '.' }) =>
          specifier.startsWith('.') ? [] : only(rules.packages, path, specifier, 'imports'),
        )
      : [],
  );
}

function checkNames({ rules, files }: House): string[] {
  return [...files].flatMap(([path, { uses }]) =>
    path.startsWith('src/')
      ? uses.flatMap(({ name, line }) => only(rules.names, path, name, `(line ${line}) uses`))
      : [],
  );
}

function checkConformanceIsBlackBox({ files }: House): string[] {
  return [...files].flatMap(([path, { imports }]) =>
    imports.flatMap(({ specifier = '' }) => {
      const target = targetOf(path, specifier) ?? '';
      const isPeeking = path.startsWith('test/conformance/') && target.startsWith('src/');
      return isPeeking ? [`${path} imports ${target}: conformance is a black box and imports nothing from src`] : [];
    }),
  );
}

function checkKitHasUsers({ files }: House): string[] {
  const kit = [...files.keys()].filter((path) => path.startsWith('src/kit/'));
  return kit.flatMap((path) => {
    const users = [...files].filter(
      ([user, { imports }]) =>
        user.startsWith('src/') &&
        imports.some(({ specifier }) => specifier !== undefined && targetOf(user, specifier) === path),
    );
    return users.length >= 2 ? [] : [`${path} has ${users.length} users: a file of kit has at least two`];
  });
}

function checkNoCycles({ files }: House): string[] {
  const reported: string[] = [];
  const finished = new Set<string>();
  const follow = (path: string, trail: readonly string[]): void => {
    const seenAt = trail.indexOf(path);
    if (seenAt >= 0)
      reported.push(`${[...trail.slice(seenAt), path].join(' → ')}: files import each other in a circle`);
    const facts = files.get(path);
    if (seenAt >= 0 || finished.has(path) || facts === undefined) return;
    for (const { specifier, isTypeOnly } of facts.imports) {
      const target = specifier === undefined || isTypeOnly ? undefined : targetOf(path, specifier);
      if (target !== undefined) follow(target, [...trail, path]);
    }
    finished.add(path);
  };
  for (const path of files.keys()) if (path.startsWith('src/')) follow(path, []);
  return reported;
}

const KEBAB_CASE = /^[a-z0-9]+(-[a-z0-9]+)*(\.(long|test|config|d))*$/;

function checkFileNames({ rules, files }: House): string[] {
  return [...files.keys()].flatMap((path) => {
    const words = withoutExtension(path).split('/');
    const notKebab = words.filter((word) => !KEBAB_CASE.test(word));
    const forbidden = words.filter((word) => rules.forbiddenNames.includes(word));
    return [
      ...notKebab.map((word) => `${path}: ${word} is not kebab-case`),
      ...forbidden.map((word) => `${path}: nothing is called ${word}, which says nothing`),
    ];
  });
}

function checkSyntax({ files }: House): string[] {
  return [...files].flatMap(([path, { syntaxErrors }]) =>
    syntaxErrors.map((error) => `${path} does not parse: ${error}`),
  );
}

/** Returns one sentence for each violation of the rules. An empty house has none. */
export function findViolations(rules: HouseRules, sources: VirtualFiles): string[] {
  const files = new Map([...sources].map(([path, text]) => [path, readSourceFacts(path, text)]));
  const house: House = { rules, files };
  const checks = [
    checkSyntax,
    checkRoomsExist,
    checkImports,
    checkPackages,
    checkNames,
    checkConformanceIsBlackBox,
    checkKitHasUsers,
    checkNoCycles,
    checkFileNames,
  ];
  return checks.flatMap((check) => check(house)).sort();
}
