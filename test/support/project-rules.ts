import { posix } from 'node:path';

import { readSourceFacts, type SourceFacts } from './source-facts.js';

/** A part of the project: a folder or file under src, and what its files may import. */
export interface PartRow {
  part: string;
  mayImport: readonly string[];
}

/** A package or platform name, and the only parts that may use it. */
interface OnlyRow {
  what: RegExp;
  only: readonly string[];
  reason: string;
}

export interface ProjectRules {
  parts: readonly PartRow[];
  packages: readonly OnlyRow[];
  names: readonly OnlyRow[];
  /** The only file that imports a computed name: the command that the user requested. */
  starter: string;
  forbiddenNames: readonly string[];
}

/** Maps each path, relative to the project's root, to its text. */
export type VirtualFiles = ReadonlyMap<string, string>;

interface Project {
  rules: ProjectRules;
  files: ReadonlyMap<string, SourceFacts>;
}

const isBelow = (part: string, above: string): boolean => part === above || part.startsWith(`${above}/`);

const withoutExtension = (path: string): string => path.replace(/\.[a-z]+$/, '');

/** `src/cli/commands/serve/agent-add.ts` → `cli/commands/serve/agent-add`. Parts match by prefix. */
const placeOf = (path: string): string => withoutExtension(path).replace(/^src\//, '');

function partOf({ parts }: ProjectRules, path: string): PartRow | undefined {
  if (!path.startsWith('src/')) return undefined;
  const candidates = parts.filter(({ part }) => isBelow(placeOf(path), part));
  return candidates.sort((left, right) => right.part.length - left.part.length)[0];
}

function targetOf(path: string, specifier: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  return posix.join(posix.dirname(path), specifier).replace(/\.js$/, '.ts');
}

/** Returns every file that this file needs at run time, including itself. */
function reachOf(project: Project, path: string, reached = new Set<string>()): ReadonlySet<string> {
  if (reached.has(path)) return reached;
  reached.add(path);
  for (const { specifier, isTypeOnly } of project.files.get(path)?.imports ?? []) {
    const target = specifier === undefined || isTypeOnly ? undefined : targetOf(path, specifier);
    if (target !== undefined) reachOf(project, target, reached);
  }
  return reached;
}

/** Finds a file that `path` needs in a folder below its own, which makes `path` a parent. */
function findChildOf(project: Project, path: string): string | undefined {
  const folder = posix.dirname(path);
  return [...reachOf(project, path)].find((one) => posix.dirname(one).startsWith(`${folder}/`));
}

function checkImport(project: Project, path: string, specifier: string): string[] {
  const target = targetOf(path, specifier);
  const from = partOf(project.rules, path);
  if (target === undefined || from === undefined) return [];
  const claim = `${path} imports ${target}`;
  if (!target.startsWith('src/')) return [`${claim}: src imports nothing from outside src`];
  if (target === 'src/main.ts') return [`${claim}: nothing imports main`];
  const isAllowed = from.mayImport.some((part) => isBelow(placeOf(target), part));
  if (!isAllowed) {
    const allowed = from.mayImport.length === 0 ? 'nothing of this project' : `only ${from.mayImport.join(', ')}`;
    return [`${claim}: ${from.part} may import ${allowed}`];
  }
  const isBelowTarget = posix.dirname(path).startsWith(`${posix.dirname(target)}/`);
  const child = isBelowTarget ? findChildOf(project, target) : undefined;
  return child === undefined
    ? []
    : [`${claim}, which needs ${child}: a folder may import from the folders in it, not the other way around`];
}

function checkImports(project: Project): string[] {
  return [...project.files].flatMap(([path, { imports }]) =>
    imports.flatMap(({ specifier, line }) => {
      if (specifier !== undefined) return checkImport(project, path, specifier);
      return path.startsWith('src/') && path !== project.rules.starter
        ? [`${path}:${line} imports a computed name: write the path`]
        : [];
    }),
  );
}

function checkPartsExist({ rules, files }: Project): string[] {
  return [...files.keys()].flatMap((path) => {
    const isInSrc = path.startsWith('src/');
    if (!isInSrc) return [];
    const part = partOf(rules, path);
    if (part === undefined) return [`${path} belongs to no part of the project`];
    const folder = placeOf(posix.dirname(path));
    const hasPartsInside = rules.parts.some((row) => row.part.startsWith(`${part.part}/`));
    const isInside = folder !== part.part && isBelow(folder, part.part);
    return hasPartsInside && isInside && !part.part.includes('/')
      ? [`${path} belongs to no part of the project: add ${folder} to test/architecture.test.ts`]
      : [];
  });
}

function only(rows: readonly OnlyRow[], path: string, what: string, verb: string): string[] {
  return rows
    .filter((row) => row.what.test(what) && !row.only.some((part) => isBelow(placeOf(path), part)))
    .map((row) => `${path} ${verb} ${what}: ${row.reason}`);
}

function checkPackages({ rules, files }: Project): string[] {
  return [...files].flatMap(([path, { imports }]) =>
    path.startsWith('src/')
      ? imports.flatMap(({ specifier = '.' }) =>
          specifier.startsWith('.') ? [] : only(rules.packages, path, specifier, 'imports'),
        )
      : [],
  );
}

function checkNames({ rules, files }: Project): string[] {
  return [...files].flatMap(([path, { uses }]) =>
    path.startsWith('src/')
      ? uses.flatMap(({ name, line }) => only(rules.names, path, name, `(line ${line}) uses`))
      : [],
  );
}

function checkConformanceIsBlackBox({ files }: Project): string[] {
  return [...files].flatMap(([path, { imports }]) =>
    imports.flatMap(({ specifier = '' }) => {
      const target = targetOf(path, specifier) ?? '';
      const isPeeking = path.startsWith('test/conformance/') && target.startsWith('src/');
      return isPeeking ? [`${path} imports ${target}: conformance is a black box and imports nothing from src`] : [];
    }),
  );
}

function checkKitHasUsers({ files }: Project): string[] {
  const kit = [...files.keys()].filter((path) => path.startsWith('src/kit/'));
  return kit.flatMap((path) => {
    const users = [...files].filter(
      ([user, { imports }]) =>
        user.startsWith('src/') &&
        imports.some(({ specifier }) => specifier !== undefined && targetOf(user, specifier) === path),
    );
    return users.length >= 2
      ? []
      : [`${path} has ${users.length} ${users.length === 1 ? 'user' : 'users'}: a file of kit needs at least two`];
  });
}

function checkNoCycles({ files }: Project): string[] {
  const reported: string[] = [];
  const finished = new Set<string>();
  const follow = (path: string, trail: readonly string[]): void => {
    const seenAt = trail.indexOf(path);
    if (seenAt >= 0) reported.push(`${[...trail.slice(seenAt), path].join(' → ')}: a circular import`);
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

function checkFileNames({ rules, files }: Project): string[] {
  return [...files.keys()].flatMap((path) => {
    const words = withoutExtension(path).split('/');
    const notKebab = words.filter((word) => !KEBAB_CASE.test(word));
    const forbidden = words.filter((word) => rules.forbiddenNames.includes(word));
    return [
      ...notKebab.map((word) => `${path}: ${word} is not kebab-case`),
      ...forbidden.map((word) => `${path}: choose a name that says more than ${word}`),
    ];
  });
}

function checkSyntax({ files }: Project): string[] {
  return [...files].flatMap(([path, { syntaxErrors }]) =>
    syntaxErrors.map((error) => `${path} does not parse: ${error}`),
  );
}

/** Returns one sentence for each violation of the rules. An empty project has none. */
export function findViolations(rules: ProjectRules, sources: VirtualFiles): string[] {
  const files = new Map([...sources].map(([path, text]) => [path, readSourceFacts(path, text)]));
  const project: Project = { rules, files };
  const checks = [
    checkSyntax,
    checkPartsExist,
    checkImports,
    checkPackages,
    checkNames,
    checkConformanceIsBlackBox,
    checkKitHasUsers,
    checkNoCycles,
    checkFileNames,
  ];
  return checks.flatMap((check) => check(project)).sort();
}
