import type * as z from 'zod/mini';

import type { EndpointRow } from '../../wire/endpoint.js';
import { isHandle, isOwnerGlob, joinHandle } from '../../wire/handle.js';
import { isId } from '../../wire/id.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../../wire/limit.js';
import { EmptyRequest } from '../../wire/session.js';
import { ServiceError } from '../service-error.js';
import { errorOfIssues } from './request-issue.js';

const PRINTABLE = /^[\x20-\x7e]+$/;

/**
 * Checks the parameters of a path. An id that cannot exist is answered as one that does not (spec: States, rule 3);
 * whatever is wrong with a handle is INVALID_HANDLE.
 */
export function checkPath(path: Readonly<Record<string, string>>): void {
  const { session_id, attachment_id, owner, name, entry, blocked } = path;
  if (session_id !== undefined && !isId('session', session_id)) throw new ServiceError('NOT_FOUND');
  if (attachment_id !== undefined && !isId('attachment', attachment_id)) throw new ServiceError('NOT_FOUND');
  if (owner !== undefined && !isHandle(joinHandle(owner, name ?? ''))) throw new ServiceError('INVALID_HANDLE');
  if (entry !== undefined && !isHandle(entry) && !isOwnerGlob(entry)) throw new ServiceError('INVALID_HANDLE');
  if (blocked !== undefined && !isHandle(blocked) && !isOwnerGlob(blocked) && !isId('agent', blocked))
    throw new ServiceError('INVALID_HANDLE');
}

/** The idempotency key of the header, or undefined without one. Any 1 to 255 printable ASCII characters will do. */
export function readKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header !== 'string' || header.length > IDEMPOTENCY_KEY_MAX_LENGTH || !PRINTABLE.test(header)) {
    if (header === '') throw new ServiceError('MISSING_IDEMPOTENCY_KEY');
    throw new ServiceError('VALIDATION_ERROR', 'Idempotency-Key must be 1 to 255 printable ASCII characters.');
  }
  return header;
}

/** The key that an ASP client puts in the body instead (wire: Common rules, idempotency). */
export function readBodyKey(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'idempotency_key')) return undefined;
  const key: unknown = Reflect.get(body, 'idempotency_key');
  return typeof key === 'string' ? key : undefined;
}

/** The query of a request by the schema of its row: each parameter once, and none that the row does not name. */
export function readQuery(row: EndpointRow, url: string): unknown {
  const mark = url.indexOf('?');
  const parameters = [...new URLSearchParams(mark === -1 ? '' : url.slice(mark + 1))];
  const names = new Set(parameters.map(([name]) => name));
  if (names.size < parameters.length) throw new ServiceError('VALIDATION_ERROR', 'A query parameter is given twice.');
  if (row.query !== undefined) return validate(row.query, Object.fromEntries(parameters));
  if (names.size > 0) throw new ServiceError('VALIDATION_ERROR', 'This endpoint takes no query parameters.');
  return {};
}

/**
 * A JSON body by the schema of its row, as it was sent: the schemas change nothing, and a validated copy would lose
 * members named `__proto__`, which are data here.
 */
export function checkBody(row: EndpointRow, body: unknown): unknown {
  const rule = row.body;
  if (rule === 'file') throw new TypeError('a file is not read as JSON');
  if (body === undefined && rule?.isOptional !== false) return {};
  if (rule === undefined) {
    validate(EmptyRequest, body);
    return {};
  }
  if (body === undefined) throw new ServiceError('VALIDATION_ERROR', 'This endpoint needs a JSON body.');
  validate(rule.schema, body);
  return body;
}

/** The first issue answers the request. Collecting every issue of a body made of nothing else costs many times what parsing it does. */
const UP_TO_FIRST_ISSUE: z.core.ParseContextInternal<z.core.$ZodIssue> = { reportInput: true, abortEarly: true };

export function validate(schema: z.ZodMiniType, value: unknown): unknown {
  const result = schema.safeParse(value, UP_TO_FIRST_ISSUE);
  if (result.success) return result.data;
  throw errorOfIssues(result.error.issues);
}
