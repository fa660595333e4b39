import { createHash } from 'node:crypto';

import type { CallInput, CallResult } from '../../client/client.js';
import { type BodyOf, endpointRow, fillPath, type Operation, type PathOf, type ReplyOf } from '../../wire/endpoint.js';
import type { Context } from './context.js';
import { type About, explain } from './explain.js';

/** Operations with a JSON request. */
export type JsonOperation = Exclude<Operation, 'uploadAttachment'>;

type Input<Name extends JsonOperation> = Pick<
  CallInput<Name>,
  Extract<'path' | 'body' | 'query', keyof CallInput<Name>>
>;

/** A key of the form of a version 4 UUID that is the same whenever agent, endpoint and name are (RFC 9562 §5.4). */
export function stableKey(handle: string, endpoint: string, name: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([handle, endpoint, name]))
    .digest();
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x40;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  const hex = hash.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;
}

/**
 * The key that the user asked for: `--idempotency-key`, or `--once` made into one; undefined: a new one. `actor` is the
 * acting agent unless the account itself acts.
 */
export async function chosenKey(
  context: Context,
  endpoint: string,
  suffix = '',
  actor?: string,
): Promise<string | undefined> {
  const { idempotencyKey, once } = context.globals;
  if (once === undefined) return idempotencyKey === undefined ? undefined : `${idempotencyKey}${suffix}`;
  return stableKey(actor ?? (await context.actingHandle()), endpoint, `${once}${suffix}`);
}

/**
 * A call that changes something, with the key the user asked for and the command's words for its failure. `suffix` keeps
 * the keys of several calls of one command apart.
 */
export async function write<Name extends JsonOperation>(
  context: Context,
  operation: Name,
  input: Input<Name>,
  about: About = {},
  suffix = '',
): Promise<CallResult<ReplyOf<Name>>> {
  const { method, path } = endpointRow(operation);
  const concrete = fillPath(path, pathOf(input));
  const idempotencyKey = await chosenKey(context, `${method} ${concrete}`, suffix);
  const client = await context.client();
  const call = { ...input, idempotencyKey, signal: context.signal } as CallInput<Name>;
  return explain(about, client.call(operation, call));
}

/** A call that changes nothing. */
export async function read<Name extends JsonOperation>(
  context: Context,
  operation: Name,
  input: Input<Name>,
  about: About = {},
): Promise<ReplyOf<Name>> {
  const client = await context.client();
  const { reply } = await explain(
    about,
    client.call(operation, { ...input, signal: context.signal } as CallInput<Name>),
  );
  return reply;
}

/** What `--dry-run` prints in place of a write. */
export async function printRequest<Name extends JsonOperation>(
  context: Context,
  operation: Name,
  input: { path?: PathOf<Name> | undefined; body?: BodyOf<Name> | undefined },
  actor?: string,
): Promise<void> {
  const { method, path } = endpointRow(operation);
  const concrete = fillPath(path, pathOf(input));
  const { baseUrl } = await context.profile();
  const request = {
    method,
    url: `${baseUrl}${concrete}`,
    idempotency_key: (await chosenKey(context, `${method} ${concrete}`, '', actor)) ?? null,
    body: input.body ?? null,
  };
  await context.output.document(request, (safe, style) =>
    [
      `${style.bold(safe.method)} ${safe.url}`,
      `${style.dim('Idempotency-Key:')} ${safe.idempotency_key ?? '(a new UUID)'}`,
      ...(safe.body === null ? [] : [JSON.stringify(safe.body, null, 2)]),
    ].join('\n'),
  );
  await context.output.note('Nothing was sent (--dry-run).');
}

function pathOf(input: { path?: unknown }): Readonly<Record<string, string>> {
  return typeof input.path === 'object' && input.path !== null ? (input.path as Record<string, string>) : {};
}
