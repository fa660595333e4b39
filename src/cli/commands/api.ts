import { promises } from 'node:fs';

import type { RawAnswer, RawRequest } from '../../client/client.js';
import { escapeJson, toJsonLine } from '../../kit/json-line.js';
import { sanitizeLine } from '../../kit/sanitize.js';
import { type Args, type Argument, command, type Option } from '../command.js';
import { chosenKey } from '../context/calls.js';
import type { Context } from '../context/context.js';
import { explain } from '../context/explain.js';
import { usageError } from '../errors.js';
import { fileFailure, readSource, readToSend } from '../input.js';

const PATH = {
  usage: '<path>',
  about: 'a path: sessions, agents/me, sessions/sess_…/events?limit=5',
} as const satisfies Argument;
const OPTIONS = [
  { flags: '-X, --method <method>', about: 'method (default GET; POST if there is a body)' },
  { flags: '-H, --http-header <header>', about: 'a header, as name: value', isRepeatable: true },
  { flags: '-i, --include', about: 'print status and headers too' },
  { flags: '--field <name=text>', about: 'a string for the JSON body, or for the query', isRepeatable: true },
  { flags: '--typed <name=json>', about: 'any JSON value for the body, or for the query', isRepeatable: true },
  { flags: '--input <file|->', about: 'the body, sent unchanged' },
  { flags: '--paginate', about: 'every page, one document after the other' },
] as const satisfies readonly Option[];

export const api = command({
  path: 'api',
  summary: 'send any request to the service and print the answer',
  details: [
    'The path is below the base URL, without a leading slash. asp adds the credential and, for writes, an idempotency key.',
    'The answer is printed whatever its status; the exit code is that of its error. Paths outside the base URL are refused.',
  ].join('\n'),
  arguments: [PATH],
  options: OPTIONS,
  examples: [
    { line: 'asp api agents/me', about: 'a GET' },
    { line: `asp api sessions --typed 'invite=["@alice.bot"]' --field topic=hello`, about: 'a POST' },
    { line: "asp api sessions --paginate --jq '.sessions[].id'", about: 'page by page' },
  ],
  effect: 'write',
  isDestructive: true,
  stdout: 'the body of the answer; with -i, its status and headers first',
  parse,
  async run(context, options) {
    const request = await toRequest(context, options);
    if (context.globals.isDryRun) return printDryRun(context, request);
    let path: string | undefined = request.path;
    while (path !== undefined) {
      const answer = await send(context, { ...request, path });
      await print(context, answer, options);
      await refuseFailure(answer, request);
      path = options.isPaginated ? nextPath(path, answer) : undefined;
    }
  },
});

type ApiOptions = ReturnType<typeof parse>;

function parse(args: Args<(typeof OPTIONS)[number], typeof PATH>) {
  for (const option of ['field', 'typed', 'paginate'] as const) args.refuseBoth('input', option);
  const fields = [...args.texts('field').map((text) => split('--field', text)), ...args.texts('typed').map(readTyped)];
  const input = args.text('input');
  const method = readMethod(args.text('method'), fields.length > 0 || input !== undefined);
  const isPaginated = args.flag('paginate');
  if (isPaginated && method !== 'GET') throw usageError('--paginate is for GET.');
  if ((method === 'GET' || method === 'HEAD') && input !== undefined)
    throw usageError(`${method} takes no body.`, { why: 'use --field and --typed for the query.' });
  return {
    method,
    /** Below the base URL, without its leading slash; its query string included. */
    path: readPath(args.argument('path')),
    headers: Object.fromEntries(args.texts('http-header').map(readHeader)),
    showsHead: args.flag('include'),
    /** Members of the JSON body, or of the query if there is no body. */
    fields,
    /** A path, or `-`: the body, sent unchanged. */
    input,
    isPaginated,
  };
}

export const METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD'] as const;
type Method = (typeof METHODS)[number];

function readMethod(text: string | undefined, writes: boolean): Method {
  if (text === undefined) return writes ? 'POST' : 'GET';
  const method = METHODS.find((one) => one === text.toUpperCase());
  if (method !== undefined) return method;
  throw usageError(`'${text}' is not a method.`, { why: `methods are ${METHODS.join(', ')}.` });
}

/** A path, never an address: the token goes only to this service. */
function readPath(text: string): string {
  if (/^[a-z][a-z0-9+.-]*:|^\/\//i.test(text))
    throw usageError(`'${text}' is an address. Give a path below the base URL.`, {
      next: ['asp', 'api', 'sessions'],
    });
  return text.replace(/^\//, '');
}

function split(option: string, text: string): readonly [string, string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw usageError(`${option} '${text}' does not have the form name=value.`);
}

function readTyped(text: string): readonly [string, unknown] {
  const [name, value] = split('--typed', text);
  try {
    return [name, JSON.parse(value)];
  } catch (error) {
    throw usageError(`--typed '${name}': its value is not JSON.`, {
      why: 'use --field for strings, or put the value in quotation marks.',
      cause: error,
    });
  }
}

const OURS: Readonly<Record<string, string>> = {
  authorization: 'the credential sets it.',
  'idempotency-key': 'use --idempotency-key or --once.',
  host: 'the base URL sets it.',
  'content-length': 'the body sets it.',
};

function readHeader(text: string): readonly [string, string] {
  const match = /^([!#$%&'*+.^`|~\w-]+):\s*([\t\x20-\x7e]*)$/.exec(text);
  if (match?.[1] === undefined)
    throw usageError(`-H '${text}' is not a header.`, { why: 'a header is name: value, in ASCII.' });
  const name = match[1].toLowerCase();
  const why = Object.hasOwn(OURS, name) ? OURS[name] : undefined;
  if (why !== undefined) throw usageError(`-H cannot set ${name}.`, { why });
  return [name, match[2] ?? ''];
}

const INPUT_MAX_BYTES = 16 * 1024 * 1024;

async function toRequest(context: Context, options: ApiOptions): Promise<RawRequest> {
  const { method, headers, fields, input } = options;
  const isRead = method === 'GET' || method === 'HEAD';
  const path = isRead ? withQuery(options.path, fields) : options.path;
  const endpoint = `${method} /${path.split('?', 1)[0]}`;
  const idempotencyKey = isRead ? undefined : await chosenKey(context, endpoint);
  const body =
    input !== undefined
      ? await readToSend(() => readInput(context, input))
      : isRead || fields.length === 0
        ? undefined
        : JSON.stringify(Object.fromEntries(fields));
  const type = body === undefined || 'content-type' in headers ? {} : { 'content-type': 'application/json' };
  return { method, path, headers: { ...type, ...headers }, body, idempotencyKey, signal: context.signal };
}

function withQuery(path: string, fields: ApiOptions['fields']): string {
  if (fields.length === 0) return path;
  const query = new URLSearchParams(
    fields.map(([name, value]): [string, string] => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  );
  return `${path}${path.includes('?') ? '&' : '?'}${query}`;
}

async function readInput(context: Context, source: string): Promise<Buffer> {
  if (source !== '-') {
    const facts = await promises.stat(source).catch((error: unknown) => Promise.reject(fileFailure(source, error)));
    if (!facts.isFile()) throw usageError(`${source} is not a regular file.`);
  }
  return readSource(context, source, INPUT_MAX_BYTES);
}

async function send(context: Context, request: RawRequest): Promise<RawAnswer> {
  const client = await context.client();
  return explain({ subject: `${request.method} ${request.path}` }, client.raw(request));
}

function parseBody({ body }: RawAnswer): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(body.toString('utf8')) };
  } catch {
    return undefined;
  }
}

/**
 * JSON on one line if JSON was requested, otherwise indented; escaped in both cases, so that it parses back to the same
 * value.
 */
async function print(context: Context, answer: RawAnswer, { showsHead }: ApiOptions): Promise<void> {
  const { output } = context;
  const json = parseBody(answer);
  if (output.format !== 'human') {
    const body = json === undefined ? answer.body.toString('utf8') : json.value;
    if (showsHead) return output.record({ status: answer.status, headers: answer.headers, body });
    if (typeof body === 'object' && body !== null) return output.record(body);
    return answer.body.length === 0 ? undefined : output.records(`${toJsonLine(body)}\n`);
  }
  if (showsHead) {
    const lines = Object.entries(answer.headers).map(
      ([name, value]) => `${sanitizeLine(name)}: ${sanitizeLine(value)}`,
    );
    await output.verbatim(`HTTP ${answer.status}\n${lines.join('\n')}\n\n`);
  }
  if (json !== undefined) return output.verbatim(escapeJson(JSON.stringify(json.value, null, 2)));
  if (answer.body.length > 0) await output.text(answer.body.toString('utf8'));
}

function nextPath(path: string, answer: RawAnswer): string | undefined {
  const json = parseBody(answer)?.value;
  const next = typeof json === 'object' && json !== null && 'next_cursor' in json ? json.next_cursor : undefined;
  if (typeof next !== 'string' || next === '') return undefined;
  const [where = '', query = ''] = path.split('?', 2);
  const parameters = new URLSearchParams(query);
  const name = /\/events$/.test(where) ? 'after_sequence' : 'cursor';
  if (parameters.get(name) === next) return undefined;
  parameters.set(name, next);
  return `${where}?${parameters}`;
}

/** The answer was printed; its code decides the exit code. */
async function refuseFailure(answer: RawAnswer, request: RawRequest): Promise<void> {
  const { status, attempts, idempotencyKey } = answer;
  const { method } = request;
  if (status < 400) return;
  const [{ MESSAGE_MAX_LENGTH, RequestError }, { ErrorEnvelope }] = await Promise.all([
    import('../../client/http/request-error.js'),
    import('../../wire/schemas/base.js'),
  ]);
  const envelope = ErrorEnvelope.safeParse(parseBody(answer)?.value);
  const isUnknown = method !== 'GET' && method !== 'HEAD' && status >= 500;
  const otherCode = status >= 500 ? 'INTERNAL_ERROR' : 'ASP_BAD_ANSWER';
  throw new RequestError({
    code: envelope.data?.error.code ?? (method === 'HEAD' ? CODE_OF_HEAD[status] : undefined) ?? otherCode,
    message: envelope.data?.error.message.slice(0, MESSAGE_MAX_LENGTH) ?? `The service answered with status ${status}.`,
    status,
    attempts,
    idempotencyKey,
    outcome: isUnknown ? 'unknown' : 'not_applied',
    request: { method, path: `/${request.path.split('?', 1)[0]}` },
  });
}

/** An answer to HEAD has no body, so only its status says what is wrong. */
const CODE_OF_HEAD: Readonly<Record<number, string>> = {
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  429: 'RATE_LIMITED',
};

async function printDryRun(
  context: Context,
  { method, path, headers, body, idempotencyKey }: RawRequest,
): Promise<void> {
  const { baseUrl } = await context.profile();
  const text = body === undefined ? null : Buffer.from(body).toString('utf8');
  const document = { method, url: `${baseUrl}/${path}`, headers, idempotency_key: idempotencyKey ?? null, body: text };
  const isRead = method === 'GET' || method === 'HEAD';
  await context.output.document(document, (safe, style) =>
    [
      `${style.bold(safe.method)} ${safe.url}`,
      ...Object.entries(safe.headers ?? {}).map(([name, value]) => `${style.dim(`${name}:`)} ${value}`),
      ...(isRead ? [] : [`${style.dim('Idempotency-Key:')} ${safe.idempotency_key ?? '(a new UUID)'}`]),
      ...(safe.body === null ? [] : [safe.body]),
    ].join('\n'),
  );
  await context.output.note('Nothing was sent (--dry-run).');
}
