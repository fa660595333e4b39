import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as z from 'zod/mini';

import { OPERATION_TEXT } from '../../src/service/http/openapi.js';
import { ENDPOINT, type Operation } from '../../src/wire/endpoint.js';
import { ERROR } from '../../src/wire/error.js';
import { EVENT_TYPES } from '../../src/wire/event.js';
import { AgentAnswer } from '../../src/wire/schemas/agent.js';
import { Attachment } from '../../src/wire/schemas/attachment.js';
import { endpointSchemas } from '../../src/wire/schemas/endpoint.js';
import { EVENT_PAYLOAD } from '../../src/wire/schemas/event.js';
import { Message } from '../../src/wire/schemas/message.js';
import { Content, Part } from '../../src/wire/schemas/requests.js';
import { Session } from '../../src/wire/schemas/session.js';
import { table } from './reference-page.js';

/** Types that are inferred from schemas, by the name that the library exports. Their declarations name only the schema. */
const SCHEMA: Readonly<Record<string, z.ZodMiniType>> = {
  ...{ AgentRecord: AgentAnswer, Attachment, Content, Message, Part, Session },
};

/** Types that name the rows of a table: their declarations name only the table. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  ...{ ErrorCode: Object.keys(ERROR), EventType: EVENT_TYPES, Operation: Object.keys(ENDPOINT) },
};

/** One exported name: what its doc comment says, and its declaration without a body. */
interface Declared {
  readonly about: string;
  readonly code: string;
}

const TYPES = fileURLToPath(new URL('../../dist/types/', import.meta.url));

/** Names of the source that the library exports under another one. */
const ALIAS: ReadonlyMap<string, string> = new Map([
  ['AgentAnswer', 'AgentRecord'],
  ['AnswerOf', 'ReplyOf'],
]);

/** How many brackets a line opens, minus those that it closes. Comments and texts do not count. */
function depthOf(line: string): number {
  const bare = line.replace(/'[^']*'|"[^"]*"|\/\/.*|\/\*.*?\*\/|=>/g, '');
  return (bare.match(/[{([<]/g) ?? []).length - (bare.match(/[})\]>]/g) ?? []).length;
}

/** The statements of a declaration file, each with the doc comment before it. */
function* statementsOf(file: string): Generator<Declared> {
  const lines = readFileSync(file, 'utf8').split('\n');
  let comment: string[] = [];
  let code: string[] = [];
  let depth = 0;
  let isComment = false;
  for (const line of lines) {
    const startsComment = /^\s*\/\*\*/.test(line);
    if (code.length === 0 && startsComment) comment = [];
    isComment ||= startsComment;
    (code.length === 0 && isComment ? comment : code).push(line);
    if (isComment) {
      isComment = !line.endsWith('*/');
      continue;
    }
    depth += depthOf(line);
    const isBlock = /^(?:export )?(?:declare )?(?:class|interface) /.test(code[0] ?? '');
    if (depth > 0 || !line.endsWith(isBlock ? '}' : ';')) continue;
    yield { about: prose(comment.join('\n')), code: code.join('\n') };
    [comment, code] = [[], []];
  }
}

/** A doc comment as a paragraph of Markdown. Its citations name documents for people who work on asp. */
function prose(comment: string): string {
  return comment
    .replace(/^\s*\/\*\*|\*\/\s*$/g, '')
    .replace(/^\s*\* ?/gm, '')
    .replace(/ \((?:spec|wire)[:;)][^)]*\)?/g, '')
    .replace(/\{@link ([\w.]+)\}/g, '`$1`')
    .replace(
      /\s*@throws (\w+)( (?=`))?([^@]*?)\.?\s*$/,
      (_, name, codes, rest) => `\n\nThrows \`${name}\`${codes ? ': ' : ''}${rest}.`,
    )
    .replace(/(?<!\n)\n(?!\n)/g, ' ')
    .trim();
}

/** A declaration as people read it: optional members without `undefined`, comments without citations. */
function readable(code: string): string {
  return code
    .replace(/^export (?:declare )?/, '')
    .replace(/^( +)/gm, (spaces) => ' '.repeat(spaces.length / 2))
    .replace(/^( *)(?:\/\*\*[^\n]*\*\/|\/\*\*\n(?: *\*[^\n]*\n)*? *\*\/)/gm, (comment, indent: string) =>
      prose(comment)
        .split(/\n+/)
        .map((paragraph) => `${indent}// ${paragraph}`)
        .join('\n'),
    )
    .replace(/\?: ([^;]*?) \| undefined;/g, '?: $1;')
    .replace(/\?: \((\(.*\) => [^;]+)\);$/gm, '?: $1;')
    .replace(/\breadonly /g, '')
    .replace(/\b\w+\b/g, (name) => ALIAS.get(name) ?? name);
}

/** A type that refers to the names or the values of a table, with these instead. */
function nameKeys(code: string, statements: readonly Declared[]): string {
  const find = (table: string): string =>
    statements.find((one) => new RegExp(`^(?:export )?declare const ${table}: `).test(one.code))?.code ?? '';
  return code
    .replace(/ keyof typeof (\w+)/, (all, table: string) => {
      const names = [...find(table).matchAll(/^ {4}(?:readonly )?['"]?([\w/+.-]+)['"]?\??:/gm)].map(
        ([, name]) => `'${name}'`,
      );
      return names.length === 0 ? all : names.map((name) => `\n    | ${name}`).join('');
    })
    .replace(/\(typeof (\w+)\)\[number\]/, (all, table: string) => {
      const [, values] = /readonly \[(.*)\];$/.exec(find(table)) ?? [];
      return values === undefined ? all : values.split(', ').join(' | ');
    });
}

/** The exported names of a declaration file and of those that it exports again, in their order. */
function exportsOf(file: string): Map<string, Declared> {
  const found = new Map<string, Declared>();
  const statements = [...statementsOf(file)];
  for (const statement of statements) {
    const { code } = statement;
    const again = /^export (?:type )?(\*|\{([\s\S]*)\}) from '(.+)\.js';$/.exec(code);
    const [, kind, names = '', from = ''] = again ?? [];
    if (kind !== undefined) {
      const all = exportsOf(join(dirname(file), `${from}.d.ts`));
      const wanted = names.split(',').map((name) => name.replace(/^\s*type |\s+$/g, '').trim());
      const pairs = wanted.filter((name) => name !== '').map((name) => name.split(' as ') as [string, string?]);
      const list: readonly [string, string?][] = kind === '*' ? [...all.keys()].map((name) => [name]) : pairs;
      for (const [name, shown = name] of list) {
        const one = all.get(name);
        if (one === undefined) throw new Error(`${file} exports ${name}, which ${from} does not have`);
        // A later declaration of the same name replaces what `export *` brought.
        found.set(shown, one);
      }
      continue;
    }
    const [, name] =
      /^export (?:declare )?(?:abstract )?(?:function|class|interface|type|const) (\w+)/.exec(code) ?? [];
    if (name === undefined) continue;
    // A schema and its type have one name: the type says what it is, and one of the two has the comment.
    const before = found.get(name);
    const type = [before?.code ?? '', code].find((one) => /^export type /.test(one));
    found.set(name, { about: statement.about || before?.about || '', code: nameKeys(type ?? code, statements) });
  }
  return found;
}

/** Everything that any declaration file declares, by name: the library may name a type that it does not export. */
function everyDeclared(): Map<string, Declared> {
  const files = readdirSync(TYPES, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.d.ts'));
  const all = new Map<string, Declared>();
  for (const file of files) {
    const statements = [...statementsOf(join(TYPES, file))];
    for (const { about, code } of statements) {
      const [, name] = /^(?:export )?(?:declare )?(?:class|interface|type) (\w+)/.exec(code) ?? [];
      if (name !== undefined) all.set(name, { about, code: nameKeys(code, statements) });
    }
  }
  return all;
}

type Json = z.core.JSONSchema.BaseSchema;

const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null;

/** A JSON Schema as a type of TypeScript. */
function typeText(schema: Json, indent = ''): string {
  const { anyOf, oneOf, enum: values, const: value, type, items, properties, additionalProperties } = schema;
  const choices = anyOf ?? oneOf;
  if (choices !== undefined) return choices.map((one) => (isJson(one) ? typeText(one, indent) : 'unknown')).join(' | ');
  if (value !== undefined) return JSON.stringify(value).replaceAll('"', "'");
  if (values !== undefined) return values.map((one) => JSON.stringify(one).replaceAll('"', "'")).join(' | ');
  if (type === 'array') {
    const item = isJson(items) ? typeText(items, indent) : 'unknown';
    const isUnion = isJson(items) && (items.anyOf ?? items.oneOf ?? items.enum) !== undefined;
    return isUnion ? `(${item})[]` : `${item}[]`;
  }
  // What `null` makes of a type that has no members of its own.
  if (Array.isArray(type)) return (type as string[]).map((one) => (one === 'integer' ? 'number' : one)).join(' | ');
  if (type === 'integer') return 'number';
  if (type !== 'object') return typeof type === 'string' ? type : 'unknown';
  // Parts that a service sends may be of types that no one knows yet.
  if (properties !== undefined && Object.keys(properties).join() === 'type') return '(Part & Record<string, unknown>)';
  if (properties === undefined) {
    const member = isJson(additionalProperties) ? typeText(additionalProperties, indent) : 'unknown';
    return `Record<string, ${member}>`;
  }
  const inner = `${indent}  `;
  const members = Object.entries(properties).map(([name, one]) => {
    const mark = schema.required?.includes(name) === true ? '' : '?';
    return `${inner}${name}${mark}: ${isJson(one) ? typeText(one, inner) : 'unknown'};`;
  });
  return `{\n${members.join('\n')}\n${indent}}`;
}

const schemaText = (schema: z.ZodMiniType): string =>
  typeText(z.toJSONSchema(schema, { unrepresentable: 'any', reused: 'inline' }));

function shownType(name: string, code: string): string {
  const names = NAMES[name]?.map((one) => `\n  | '${one}'`).join('');
  if (names !== undefined) return `type ${name} =${names};`;
  const schema = SCHEMA[name];
  if (schema !== undefined) return `type ${name} = ${schemaText(schema)};`;
  if (name === 'EventPayload') return `type EventPayload<Type extends EventType> = ${payloadText()}[Type];`;
  const shown = readable(code);
  // Types that follow from whole tables are too long to be read. The table of operations has what they are for.
  return /\bz\.|\btypeof [A-Z]/.test(shown) ? shown.replace(/ = [\s\S]*/, ' = …;') : shown;
}

function payloadText(): string {
  const members = Object.entries(EVENT_PAYLOAD).map(([type, schema]) => {
    const json = z.toJSONSchema(schema, { unrepresentable: 'any', reused: 'inline' });
    return `  '${type}': ${type === 'session.message' ? 'Message' : typeText(json, '  ')};`;
  });
  return `{\n${members.join('\n')}\n}`;
}

interface Section {
  readonly name: string;
  readonly about: string;
  readonly shown: string;
}

const toSection = ([name, { about, code }]: [string, Declared]): Section => ({
  name,
  about,
  shown: shownType(name, code),
});

const toMarkdown = ({ name, about, shown }: Section): string =>
  [`### ${name}`, ...(about === '' ? [] : [about]), `\`\`\`ts\n${shown}\n\`\`\``].join('\n\n');

/** Values come before types: a reader starts with what can be called. */
function sectionsOf(file: string): Section[] {
  const all = [...exportsOf(join(TYPES, file))];
  const isValue = ([, { code }]: [string, Declared]): boolean =>
    /^export (?:declare )?(?:function|class|const)/.test(code);
  return [...all.filter(isValue), ...all.filter((one) => !isValue(one))].map(toSection);
}

/** Names that TypeScript and Node.js declare. */
const KNOWN = new Set(
  `AbortSignal AsyncDisposable AsyncIterable Blob Buffer Error Exclude Extract File Omit Partial Pick Promise Readonly Record
  RegExp Socket Symbol Uint8Array URL`.split(/\s+/),
);

/** The types that these sections name, and that no one can import, until every name is explained. */
function othersOf(sections: readonly Section[]): Section[] {
  const declared = everyDeclared();
  const known = new Set([...KNOWN, ...sections.map(({ name }) => name)]);
  const others: Section[] = [];
  const explain = ({ shown }: Section): void => {
    const code = shown.replace(/\/\/.*/g, '').replace(/'[^']*'/g, '');
    const [, parameters = ''] = /^\w+ \w+<([^>]*)>/.exec(code) ?? [];
    const bound = [...code.matchAll(/[<[]\s*(\w+)(?= extends | in )|infer (\w+)/g)].map(
      ([, name, part]) => name ?? part,
    );
    const own = new Set([...bound, ...parameters.split(',').map((one) => one.trim().split(' ', 1)[0])]);
    for (const [name] of code.matchAll(/\b[A-Z]\w*(?=\b(?!\s*\??:))/g)) {
      if (known.has(name) || own.has(name) || name.length === 1) continue;
      const found = declared.get(name);
      if (found === undefined) throw new Error(`docs/api.md names ${name}, which it does not explain: ${shown}`);
      known.add(name);
      const section = toSection([name, found]);
      others.push(section);
      explain(section);
    }
  };
  for (const section of sections) explain(section);
  return others.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** The members of an object in short form: a mark says which ones may be missing. */
function membersText(schema: z.ZodMiniType | undefined, io: 'input' | 'output'): string {
  if (schema === undefined) return '';
  const { properties = {}, required = [] } = z.toJSONSchema(schema, { unrepresentable: 'any', io }) as Json;
  return Object.keys(properties)
    .map((name) => `\`${name}${required.includes(name) ? '' : '?'}\``)
    .join(', ');
}

function operationTable(): string {
  const rows = (Object.keys(ENDPOINT) as Operation[])
    .filter((operation) => operation !== 'uploadAttachment')
    .map((operation) => {
      const { method, path, scopes, accountScopes = [] } = ENDPOINT[operation];
      const { query, body, answer } = endpointSchemas(operation);
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => `\`${name}\``).join(', ');
      const given = [
        ...(inPath === '' ? [] : [`path: ${inPath}`]),
        ...(membersText(query, 'input') === '' ? [] : [`query: ${membersText(query, 'input')}`]),
        ...(membersText(body, 'input') === '' ? [] : [`body: ${membersText(body, 'input')}`]),
      ];
      const reply = operation === 'getAgentCard' ? 'Markdown' : membersText(answer, 'output');
      const rights = accountScopes.length === 0 ? '' : `<br>account: ${accountScopes.join(', ')}`;
      const { summary } = OPERATION_TEXT[operation];
      const request = `\`${method} ${path}\``;
      return [`\`${operation}\``, summary, given.join('<br>'), reply, request, `${scopes.join(', ')}${rights}`];
    });
  return table(['Operation', 'What it does', 'Input', 'Reply', 'Request', 'Scopes'], rows);
}

/** Returns the page with everything that `asp-cli` and `asp-cli/testing` export. */
export function apiPage(): string {
  const main = sectionsOf('library/library.d.ts');
  const testing = sectionsOf('testing/testing.d.ts');
  return `${[
    '# API of the library',
    'Generated from the types of the library (`npm run generate`). [library.md](library.md) explains it with complete programs; [contract.md](contract.md) says what each field means.',
    'Objects that the library returns are read-only. A member with `?` can be left out or `undefined`.',
    '## Operations',
    '`client.call(operation, { path, query, body })` takes these names. A member with `?` can be left out of an input, and may be missing in a reply. `client.upload` uploads a file.',
    operationTable(),
    '## asp-cli',
    ...main.map(toMarkdown),
    '## asp-cli/testing',
    ...testing.map(toMarkdown),
    '## Types without an export',
    'The types above name these. They cannot be imported.',
    ...othersOf([...main, ...testing]).map(toMarkdown),
  ].join('\n\n')}\n`;
}
