import { type Node, parseSync } from 'oxc-parser';

/** A name in a source file, and its line. */
interface Mention {
  name: string;
  line: number;
}

/**
 * An import, re-export, dynamic import, `require`, or `import('…')` type. `specifier` is undefined if it is computed.
 */
interface ImportMention {
  specifier: string | undefined;
  line: number;
  /** Erased at run time. */
  isTypeOnly: boolean;
  /** `import('…')`: loaded when execution reaches it. */
  isDynamic?: boolean;
}

/** The facts about one source file that the architecture rules need. */
export interface SourceFacts {
  imports: ImportMention[];
  /** Dotted names that are read, called, or destructured: `process.stdout`, `Date.now`, `new Date()`. */
  uses: Mention[];
  syntaxErrors: string[];
}

type Walk = (node: Node, parent: Node | undefined) => void;

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value;

export function walk(node: Node, visit: Walk, parent?: Node): void {
  visit(node, parent);
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) walk(child, visit, node);
  }
}

function textOf(node: Node): string | undefined {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : undefined;
  if (node.type === 'TemplateLiteral' && node.expressions.length === 0)
    return node.quasis[0]?.value.cooked ?? undefined;
  return undefined;
}

/** `a?.b['c']` → `a.b.c`. Returns undefined for anything that is not a chain of names. */
function dottedName(node: Node): string | undefined {
  switch (node.type) {
    case 'Identifier':
      return node.name;
    case 'ChainExpression':
    case 'ParenthesizedExpression':
    case 'TSNonNullExpression':
    case 'TSAsExpression':
      return dottedName(node.expression);
    case 'MemberExpression': {
      const object = dottedName(node.object);
      const property = node.computed ? textOf(node.property) : dottedName(node.property);
      return object === undefined || property === undefined ? undefined : `${object}.${property}`;
    }
    default:
      return undefined;
  }
}

/** `import { stdout as out } from 'node:process'` uses `process.stdout`. A namespace import may use everything. */
function namesOfNodeImport(node: Node): string[] {
  if (node.type !== 'ImportDeclaration') return [];
  const home = /^(?:node:)?(process|crypto)$/.exec(node.source.value)?.[1];
  if (home === undefined) return [];
  return node.specifiers.flatMap((specifier) => {
    if (specifier.type === 'ImportSpecifier') return [`${home}.${dottedName(specifier.imported) ?? '*'}`];
    return specifier.local.name === home ? [] : [`${home}.*`];
  });
}

const withoutGlobalThis = (name: string): string => name.replace(/^globalThis\./, '');

function usesIn(node: Node): string[] {
  if (node.type === 'MemberExpression') {
    const name = dottedName(node);
    return name === undefined ? [] : [withoutGlobalThis(name)];
  }
  if (node.type === 'VariableDeclarator' && node.id.type === 'ObjectPattern' && node.init !== null) {
    const from = dottedName(node.init);
    if (from === undefined) return [];
    return node.id.properties.flatMap((property) => {
      const key = property.type === 'Property' ? dottedName(property.key) : undefined;
      return key === undefined ? [] : [withoutGlobalThis(`${from}.${key}`)];
    });
  }
  if (node.type === 'NewExpression' && node.arguments.length === 0 && dottedName(node.callee) === 'Date') {
    return ['new Date()'];
  }
  if (node.type === 'TSAsExpression' && node.expression.type === 'TSAsExpression') {
    return node.expression.typeAnnotation.type === 'TSUnknownKeyword' ? ['as unknown as'] : [];
  }
  return namesOfNodeImport(node);
}

/** `const BUILT_IN = 'node:sqlite'` → BUILT_IN means that text, even in `import(BUILT_IN)`. */
function constantsIn(program: Node): ReadonlyMap<string, string> {
  const constants = new Map<string, string>();
  walk(program, (node, parent) => {
    if (node.type !== 'VariableDeclarator' || node.init === null) return;
    const isConstant = parent?.type === 'VariableDeclaration' && parent.kind === 'const';
    const [name, text] = [dottedName(node.id), textOf(node.init)];
    if (isConstant && name !== undefined && text !== undefined) constants.set(name, text);
  });
  return constants;
}

function importIn(node: Node, constants: ReadonlyMap<string, string>): Omit<ImportMention, 'line'> | undefined {
  switch (node.type) {
    case 'ImportDeclaration': {
      const areAllTypes =
        node.specifiers.length > 0 &&
        node.specifiers.every((one) => one.type === 'ImportSpecifier' && one.importKind === 'type');
      return { specifier: node.source.value, isTypeOnly: node.importKind === 'type' || areAllTypes };
    }
    case 'ExportAllDeclaration':
      return { specifier: node.source.value, isTypeOnly: node.exportKind === 'type' };
    case 'ExportNamedDeclaration':
      return node.source === null
        ? undefined
        : { specifier: node.source.value, isTypeOnly: node.exportKind === 'type' };
    case 'ImportExpression':
      return {
        specifier: textOf(node.source) ?? constants.get(dottedName(node.source) ?? ''),
        isTypeOnly: false,
        isDynamic: true,
      };
    case 'TSImportType':
      return { specifier: node.source.value, isTypeOnly: true };
    case 'CallExpression': {
      const [first] = node.arguments;
      if (dottedName(node.callee) !== 'require' || first === undefined) return undefined;
      return { specifier: textOf(first), isTypeOnly: false };
    }
    default:
      return undefined;
  }
}

/** Parses one TypeScript or JavaScript file without running it. */
export function readSourceFacts(path: string, source: string): SourceFacts {
  const { program, errors } = parseSync(path, source);
  const lineStarts = [0, ...[...source.matchAll(/\n/g)].map(({ index }) => index + 1)];
  const lineAt = (offset: number): number => lineStarts.findLastIndex((start) => start <= offset) + 1;
  const facts: SourceFacts = {
    imports: [],
    uses: [],
    syntaxErrors: errors.map(({ message }) => message),
  };
  const constants = constantsIn(program);
  walk(program, (node) => {
    const found = importIn(node, constants);
    const names = usesIn(node);
    // Most nodes have neither, and their lines would take a third of the time.
    if (found === undefined && names.length === 0) return;
    const line = lineAt(node.start);
    if (found !== undefined) facts.imports.push({ ...found, line });
    for (const name of names) facts.uses.push({ name, line });
  });
  return facts;
}
