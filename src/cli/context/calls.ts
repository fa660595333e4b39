import type { CallInput, CallResult } from '../../client/client.js';
import { stableKey } from '../../kit/random.js';
import type { Operation, PathOf } from '../../wire/endpoint.js';
import type { AnswerOf, BodyOf } from '../../wire/schemas/endpoint.js';
import { CliError } from '../errors.js';
import type { PageOptions } from '../options.js';
import type { Column } from '../terminal/output.js';
import type { Context } from './context.js';
import { type ErrorContext, explain, findErrorContext, withContext } from './explain.js';

/** Operations with a JSON request. */
export type JsonOperation = Exclude<Operation, 'uploadAttachment'>;

/**
 * The key that the user set: `--idempotency-key`, or a key made from `--once`; undefined: a new one. `actor` is the
 * acting agent unless the account itself acts.
 */
export async function chosenKey(
  context: Context,
  endpoint: string,
  suffix = '',
  actor?: string,
): Promise<string | undefined> {
  const { idempotencyKey, once } = context.globals;
  if (once === undefined && (idempotencyKey === undefined || suffix === '')) return idempotencyKey;
  if (once === undefined) return stableKey('', endpoint, `${idempotencyKey}${suffix}`);
  return stableKey(actor ?? (await context.actingHandle()), endpoint, `${once}${suffix}`);
}

/**
 * The method and path of a call: `POST` and `/sessions/sess_…/end`. The table of endpoints is loaded by the first call.
 */
export async function locate(
  operation: Operation,
  { path: parameters }: { readonly path?: unknown },
): Promise<{ readonly method: string; readonly path: string }> {
  const { endpointRow, fillPath } = await import('../../wire/endpoint.js');
  const { method, path } = endpointRow(operation);
  const isFilled = typeof parameters === 'object' && parameters !== null;
  return { method, path: fillPath(path, isFilled ? (parameters as Record<string, string>) : {}) };
}

/**
 * A call that changes something, with the key that the user set. `suffix` keeps the keys of several calls of one
 * command apart.
 */
export async function write<Name extends JsonOperation>(
  context: Context,
  operation: Name,
  input: CallInput<Name>,
  errorContext: ErrorContext = {},
  suffix = '',
): Promise<CallResult<AnswerOf<Name>>> {
  const { method, path } = await locate(operation, input);
  const idempotencyKey = await chosenKey(context, `${method} ${path}`, suffix);
  const client = await context.client();
  return explain(errorContext, client.call(operation, { ...input, idempotencyKey, signal: context.signal }));
}

/** The details of a command that uses `changeEach`. */
export const MAY_BE_PARTIAL = 'Exit 10 means that only part of it was done.';

/** The objects of a command that changes one after the other, and how it says so. */
interface Changing<Item> {
  readonly names: readonly string[];
  /** How the result begins, such as `Blocked`. */
  readonly did: string;
  readonly print: (items: readonly Item[]) => Promise<void>;
  /** The output of `--dry-run` for one object. */
  readonly preview?: (name: string, index: number) => Promise<void>;
}

/**
 * Changes one object after the other, and prints the results of the changes, even if a later one fails.
 * @throws CliError `ASP_PARTIAL` for a failure after the first change, or the failure itself if the command was stopped
 */
export async function changeEach<Item>(
  { globals, signal }: Pick<Context, 'globals' | 'signal'>,
  { names, did, print, preview }: Changing<Item>,
  change: (name: string, index: number) => Promise<Item>,
): Promise<void> {
  if (globals.isDryRun && preview !== undefined) {
    for (const [index, name] of names.entries()) await preview(name, index);
    return;
  }
  const items: Item[] = [];
  let failure: unknown;
  for (const [index, name] of names.entries())
    try {
      items.push(await change(name, index));
    } catch (error) {
      if (index === 0) throw error;
      const before = `${did} ${index} of ${names.length}`;
      failure = await (signal.aborted ? stopped(error, before) : partlyDone(error, before, names.slice(index)));
      break;
    }
  await print(items);
  if (failure !== undefined) throw failure;
}

function partlyDone(error: unknown, before: string, [failed, ...untried]: readonly string[]): unknown {
  if (!(error instanceof Error && 'outcome' in error)) return error;
  const isUnknown = error.outcome === 'unknown';
  const how = isUnknown ? 'may have been changed' : 'failed';
  const rest = untried.length > 0 ? ', and the rest were not tried' : '';
  return new CliError('ASP_PARTIAL', {
    message: `${before}; ${failed} ${how}${rest}.`,
    outcome: isUnknown ? 'unknown' : 'applied',
    endedBy: error,
  });
}

/** A deadline or Ctrl-C keeps its exit code. */
async function stopped(error: unknown, before: string): Promise<unknown> {
  const { RequestError } = await import('../../client/http/request-error.js');
  if (!(error instanceof RequestError)) return error;
  return withContext(error, { ...findErrorContext(error), ...afterChanges(`${before} before that.`) });
}

/** For a failure after changes that stay. `made` says which. */
export const afterChanges = (made: string): ErrorContext => ({
  outcome: { not_applied: 'applied' },
  outcomeText: { not_applied: made, applied: made, unknown: `${made} The last change may have been made.` },
});

/** Prints the results of changes as a list with one column. */
export const printResults =
  <Item extends object>({ output }: Pick<Context, 'output'>, column: Column<Item>) =>
  (items: readonly Item[]): Promise<void> =>
    output.list({ items, next_cursor: null }, [column]);

/** A call that changes nothing. */
export async function read<Name extends JsonOperation>(
  context: Context,
  operation: Name,
  input: CallInput<Name>,
  errorContext: ErrorContext = {},
): Promise<AnswerOf<Name>> {
  const client = await context.client();
  const call = client.call(operation, { ...input, signal: context.signal });
  return (await explain(errorContext, call)).reply;
}

/** The output of `--dry-run` instead of a write. */
export async function printRequest<Name extends JsonOperation>(
  context: Context,
  operation: Name,
  input: { readonly path?: PathOf<Name> | undefined; readonly body?: BodyOf<Name> | undefined },
  actor?: string,
  suffix = '',
): Promise<void> {
  const { method, path } = await locate(operation, input);
  const { baseUrl } = await context.profile();
  const request = {
    method,
    url: `${baseUrl}${path}`,
    idempotency_key: (await chosenKey(context, `${method} ${path}`, suffix, actor)) ?? null,
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

/** Items of a list, and where the list continues. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next_cursor: string | null;
}

/**
 * Reads as many pages as the options request, one after the other. With `isMatch`, only the items that match count. If a
 * page has more of them than requested, it is read again up to the last one, so that the cursor is exactly after it.
 */
export async function collectPages<Item>(
  { limit, isAll, cursor }: PageOptions,
  pageMax: number,
  readPage: (query: { limit: number; cursor?: string }) => Promise<Page<Item>>,
  isMatch?: (item: Item) => boolean,
): Promise<Page<Item>> {
  const items: Item[] = [];
  const wanted = isAll ? Number.POSITIVE_INFINITY : limit;
  const fits = isMatch ?? (() => true);
  let next: string | null = cursor ?? null;
  do {
    const left = wanted - items.length;
    const from: { cursor?: string } = next === null ? {} : { cursor: next };
    const size = isMatch === undefined ? Math.min(pageMax, left) : pageMax;
    let page = await readPage({ limit: size, ...from });
    const last = page.items.flatMap((item, at) => (fits(item) ? [at] : []))[left - 1];
    if (last !== undefined && last + 1 < Math.min(size, page.items.length))
      page = await readPage({ limit: last + 1, ...from });
    items.push(...page.items.filter(fits));
    next = page.next_cursor;
  } while (next !== null && items.length < wanted);
  return { items, next_cursor: next };
}

/** Says that a list is empty, or how to continue it. */
export async function notePage({ output }: Context, page: Page<unknown>, ifEmpty: string): Promise<void> {
  if (page.items.length === 0) await output.note(ifEmpty);
  else if (page.next_cursor !== null) await output.note('There are more than these: use a higher --limit, or --all.');
}
