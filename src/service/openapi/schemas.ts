import * as z from 'zod/mini';

import { Agent, AgentSummary, InboundPolicy, Skill, Visibility } from '../../wire/agent.js';
import { EventEnvelope } from '../../wire/event.js';
import { Handle } from '../../wire/handle.js';
import { Content, JsonObject, Message, Part } from '../../wire/message.js';
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
  JsonObject,
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
  /** An attachment as a file, after an upload or with its download address (wire: Aliases). */
  file(isLink: boolean): Json;
  all(): Readonly<Record<string, Json>>;
}

export function createSchemas(): Schemas {
  const metadata = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(NAMED)) metadata.add(schema, { ...z.globalRegistry.get(schema), id });
  const components: Record<string, Json> = {};

  const convert = (schema: z.ZodMiniType, direction: Direction): Json => {
    const json = z.toJSONSchema(schema, { io: direction, unrepresentable: 'any', metadata, reused: 'inline' });
    const { $schema: _, $defs = {}, ...rest } = moveReferences(json) as { $defs?: Record<string, Json> } & Json;
    for (const [name, definition] of Object.entries($defs)) components[name] ??= withoutId(definition);
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
    file(isLink) {
      const link = isLink ? { url: { type: 'string' }, url_expires_at: { type: 'integer' } } : {};
      const properties = {
        id: { type: 'string' },
        filename: { type: 'string' },
        content_type: { type: 'string' },
        size_bytes: { type: 'integer' },
        ...link,
      };
      return put(isLink ? 'FileLink' : 'File', { type: 'object', properties, required: Object.keys(properties) });
    },
    all: () => Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** `#/$defs/X` is `#/components/schemas/X` in this document. */
function moveReferences(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(moveReferences);
  if (typeof json !== 'object' || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => {
      if (key === '$ref' && typeof value === 'string') return [key, value.replace('#/$defs/', '#/components/schemas/')];
      return [key, moveReferences(value)];
    }),
  );
}

/** The name stands before it already. */
function withoutId({ id: _, $id: __, ...rest }: Json): Json {
  return rest;
}
