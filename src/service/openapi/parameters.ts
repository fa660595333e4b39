import type * as z from 'zod/mini';

import { type Handle, HandlePart } from '../../wire/handle.js';
import type { Json, Schemas } from './schemas.js';

const ID = (prefix: string): Json => ({ type: 'string', pattern: `^${prefix}_[0-7][0-9A-HJKMNP-TV-Z]{25}$` });
const PART: Json = { type: 'string', pattern: patternOf(HandlePart) };

/** The parameters of paths. */
const PATH_PARAMETER: Readonly<Record<string, { readonly description: string; readonly schema: Json }>> = {
  session_id: { description: 'The session.', schema: ID('sess') },
  attachment_id: { description: 'The attachment, or the file.', schema: ID('(?:att|file)') },
  owner: { description: 'The first half of a handle, without `@`.', schema: PART },
  name: { description: 'The second half of a handle.', schema: PART },
  entry: { description: 'A handle, or `@owner.*`.', schema: { type: 'string' } },
  blocked: { description: `A handle or the id of an agent.`, schema: { type: 'string' } },
};

function patternOf(schema: typeof HandlePart | typeof Handle): string {
  const pattern = schema._zod.bag['patterns'];
  const [first] = pattern instanceof Set ? [...pattern] : [];
  return first instanceof RegExp ? first.source : '.+';
}

export function pathParameter(name: string): Json {
  const known = PATH_PARAMETER[name];
  if (known === undefined) throw new Error(`the path parameter ${name} is not described`);
  return { name, in: 'path', required: true, ...known };
}

/**
 * The members of a query. Their schemas are those of what the service reads, so that a number is an integer here, as OpenAPI
 * has it, although every value of a query is text on the wire.
 */
export function parametersOf(query: z.ZodMiniType, schemas: Schemas): Json[] {
  const { properties = {} } = schemas.inPlace(query, 'output') as { properties?: Record<string, Json> };
  const { required = [] } = schemas.inPlace(query, 'input') as { required?: readonly string[] };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }));
}
