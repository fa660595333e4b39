import * as z from 'zod/mini';

import { lazily } from './lazily.js';

import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from './limit.js';

const DIGITS = /^(0|[1-9]\d{0,15})$/;

/**
 * A whole number in a query string, or the number itself on the client's side: decimal digits only, from `min` to `max`.
 * `1e2`, `+1`, ` 1` and `1.0` are refused.
 */
export function queryInteger(min: number, max: number) {
  return z.pipe(
    z.pipe(z.union([z.string().check(z.regex(DIGITS, 'must be a whole number')), z.number()]), z.transform(Number)),
    z.int().check(z.gte(min), z.lte(max)),
  );
}

/** The `limit` of a list: 1 to `max`, `standard` when absent. */
export function queryLimit(max: number = LIST_LIMIT_MAX, standard: number = LIST_LIMIT_DEFAULT) {
  return z._default(queryInteger(1, max), standard);
}

/** An opaque cursor: the `next_cursor` of the page before (wire: Common rules, lists). */
export const Cursor = lazily(() => z.string().check(z.minLength(1), z.maxLength(512)));

/** `limit` and `cursor`, as every list takes them. */
export const PageQuery = lazily(() => z.strictObject({ limit: queryLimit(), cursor: z.optional(Cursor) }));
export type PageQuery = z.infer<typeof PageQuery>;

/** Epoch time in milliseconds. */
export const EpochMs = lazily(() => z.int());
