import * as z from 'zod/mini';

import { Agent, AgentSummary, InboundPolicy, Skill, Visibility } from '../../wire/agent.js';
import { EventEnvelope } from '../../wire/event.js';
import { Handle } from '../../wire/handle.js';
import { Content, Message, Part } from '../../wire/message.js';
import { InitialMessage, ListAccountSessionsReply, Participant, Session, SessionState } from '../../wire/session.js';
import { Block } from '../../wire/trust.js';

export type Json = { readonly [member: string]: unknown };

/** Shapes that have a name of their own in the document; others are named after the operation that uses them. */
const NAMED = {
  Agent,
  AgentSummary,
  Block,
  Content,
  EventEnvelope,
  Handle,
  InboundPolicy,
  InitialMessage,
  Message,
  Part,
  Participant,
  Session,
  SessionState,
  Skill,
  Visibility,
} as const satisfies Record<string, z.ZodMiniType>;

type Direction = 'input' | 'output';

/** The JSON Schemas of the document, each once. */
export interface Schemas {
  /** A reference to the schema, under the name it has or `name`. */
  of(schema: z.ZodMiniType, direction: Direction, name: string): Json;
  /** A schema as it is, for where a reference may not stand. */
  inPlace(schema: z.ZodMiniType, direction: Direction): Json;
  /** The sessions of an account, each row without its wrapper (wire: Aliases). */
  unwrapped(): Json;
  all(): Readonly<Record<string, Json>>;
}

export function createSchemas(): Schemas {
  const metadata = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(NAMED)) metadata.add(schema, { id });
  const components: Record<string, Json> = {};

  const keep = (name: string, json: Json): void => {
    const known = components[name];
    if (known !== undefined && name === ANY_JSON && JSON.stringify(known) !== JSON.stringify(json))
      throw new Error('a recursive schema of the contract needs a name of its own');
    components[name] ??= json;
  };
  const convert = (schema: z.ZodMiniType, direction: Direction): Json => {
    const json = z.toJSONSchema(schema, { io: direction, unrepresentable: 'any', metadata, reused: 'inline' });
    const { $schema: _, $defs = {}, ...rest } = moveReferences(json) as { $defs?: Record<string, Json> } & Json;
    for (const [name, definition] of Object.entries($defs)) keep(name, withoutId(definition));
    return withoutId(rest);
  };
  const reference = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
  const put = (name: string, json: Json): Json => {
    components[name] ??= json;
    return reference(name);
  };

  return {
    inPlace: convert,
    of(schema, direction, name) {
      const json = convert(schema, direction);
      // A schema with a name of its own comes back as its whole self.
      const known = Object.entries(NAMED).find(([, named]) => named === schema)?.[0];
      return put(known ?? name, json);
    },
    unwrapped() {
      convert(ListAccountSessionsReply, 'output');
      const acting = { type: 'object', properties: { acting_handle: { type: 'string' } }, required: ['acting_handle'] };
      const items = { allOf: [reference('Session'), acting] };
      return put('ListAccountSessionsFlatReply', {
        type: 'object',
        properties: { sessions: { type: 'array', items }, next_cursor: { type: ['string', 'null'] } },
        required: ['sessions', 'next_cursor'],
      });
    },
    all: () => Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** What zod makes of schemas that refer to themselves and have no name; the only one of the contract is any JSON. */
const NAMELESS = /^__schema\d+$/;
const ANY_JSON = 'AnyJson';
const nameOf = (name: string): string => (NAMELESS.test(name) ? ANY_JSON : name);

/** `#/$defs/X` is `#/components/schemas/X` in this document. */
function moveReferences(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(moveReferences);
  if (typeof json !== 'object' || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => {
      if (key === '$ref' && typeof value === 'string')
        return [key, `#/components/schemas/${nameOf(value.replace('#/$defs/', ''))}`];
      return [nameOf(key), moveReferences(value)];
    }),
  );
}

/** The name stands before it already. */
function withoutId({ id: _, $id: __, ...rest }: Json): Json {
  return rest;
}
