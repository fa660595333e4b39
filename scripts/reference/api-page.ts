import { readFileSync } from 'node:fs';
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
import { EventEnvelope } from '../../src/wire/schemas/event.js';
import { Message } from '../../src/wire/schemas/message.js';
import { Content, Part } from '../../src/wire/schemas/requests.js';
import { Session } from '../../src/wire/schemas/session.js';
import { table } from './reference-page.js';

/** Types that are inferred from schemas, by the name that the library exports. Their declarations name only the schema. */
const SCHEMA: Readonly<Record<string, z.ZodMiniType>> = {
  ...{ AgentRecord: AgentAnswer, Attachment, Content, EventEnvelope, Message, Part, Session },
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
    .replace(/\breadonly /g, '');
}

/** A type with the names of a table, which it only refers to, as these names. */
function nameKeys(code: string, statements: readonly Declared[]): string {
  return code.replace(/keyof typeof (\w+)/, (all, table: string) => {
    const found = statements.find((one) => new RegExp(`^(?:export )?declare const ${table}: `).test(one.code));
    const names = [...(found?.code.matchAll(/^ {4}(?:readonly )?(\w+)\??:/gm) ?? [])].map(([, name]) => `'${name}'`);
    return names.length === 0 ? all : `\n  | ${names.join('\n  | ')}`;
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
        found.set(shown, shown === name ? one : { ...one, code: one.code.replace(name, shown) });
      }
      continue;
    }
    const [, name] =
      /^export (?:declare )?(?:abstract )?(?:function|class|interface|type|const) (\w+)/.exec(code) ?? [];
    if (name === undefined) continue;
    // A schema and its type have one name, and one of the two has the comment.
    const about = statement.about || found.get(name)?.about || '';
    found.set(name, { about, code: nameKeys(code, statements) });
  }
  return found;
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

function section(name: string, { about, code }: Declared): string {
  const schema = SCHEMA[name];
  // Types that follow from all schemas at once are too long to be read: what they are for says more.
  const declared = code.includes('z.') ? readable(code).replace(/ = [\s\S]*/, ' = …;') : readable(code);
  const names = NAMES[name]?.map((one) => `\n  | '${one}'`).join('');
  const known = names ?? (schema === undefined ? undefined : schemaText(schema));
  const shown = known === undefined ? declared : `type ${name} =${known.startsWith('\n') ? '' : ' '}${known};`;
  return [`### ${name}`, ...(about === '' ? [] : [about]), `\`\`\`ts\n${shown}\n\`\`\``].join('\n\n');
}

/** Values come before types: a reader starts with what can be called. */
function sectionsOf(file: string): string[] {
  const all = [...exportsOf(join(TYPES, file))];
  const isValue = ([, { code }]: [string, Declared]): boolean =>
    /^export (?:declare )?(?:function|class|const)/.test(code);
  return [...all.filter(isValue), ...all.filter((one) => !isValue(one))].map(([name, one]) => section(name, one));
}

/** The members of an input in short form: a mark says which ones can be left out. */
function membersText(schema: z.ZodMiniType | undefined): string {
  if (schema === undefined) return '';
  const { properties = {}, required = [] } = z.toJSONSchema(schema, { unrepresentable: 'any', io: 'input' }) as Json;
  return Object.keys(properties)
    .map((name) => `\`${name}${required.includes(name) ? '' : '?'}\``)
    .join(', ');
}

function operationTable(): string {
  const rows = (Object.keys(ENDPOINT) as Operation[])
    .filter((operation) => operation !== 'uploadAttachment')
    .map((operation) => {
      const { method, path, scopes } = ENDPOINT[operation];
      const { query, body } = endpointSchemas(operation);
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => `\`${name}\``).join(', ');
      const given = [
        ...(inPath === '' ? [] : [`path: ${inPath}`]),
        ...(membersText(query) === '' ? [] : [`query: ${membersText(query)}`]),
        ...(membersText(body) === '' ? [] : [`body: ${membersText(body)}`]),
      ];
      const { summary } = OPERATION_TEXT[operation];
      return [`\`${operation}\``, summary, given.join('<br>'), `\`${method} ${path}\``, scopes.join(', ')];
    });
  return table(['Operation', 'What it does', 'Input', 'Request', 'Scopes'], rows);
}

/** Returns the page with everything that `asp-cli` and `asp-cli/testing` export. */
export function apiPage(): string {
  return `${[
    '# API of the library',
    'Generated from the types of the library (`npm run generate`). [library.md](library.md) explains it with complete programs; [contract.md](contract.md) says what each field means.',
    'Members are read-only. A member with `?` can be left out or `undefined`.',
    '## Operations',
    '`client.call(operation, { path, query, body })` takes these names. A member with `?` can be left out. `client.upload` uploads a file.',
    operationTable(),
    '## asp-cli',
    ...sectionsOf('library/library.d.ts'),
    '## asp-cli/testing',
    ...sectionsOf('testing/testing.d.ts'),
  ].join('\n\n')}\n`;
}
