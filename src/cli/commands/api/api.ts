import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';

import { type RawAnswer, type RawRequest, RequestError } from '../../../client/client.js';
import { escapeJson, toJsonLine } from '../../../kit/json-line.js';
import { ErrorEnvelope } from '../../../wire/error.js';
import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { chosenKey } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { sanitizeLine } from '../../terminal/sanitize.js';
import type { Words } from '../../words/words.js';
import { fileFailure, readStdin, tooLarge } from '../message/message-source.js';
import { type ApiOptions, readApiOptions } from './api-options.js';

const INPUT_MAX_BYTES = 16 * 1024 * 1024;

export function parse(words: Words): ApiOptions {
  return readApiOptions(words);
}

export async function run(context: Context, options: ApiOptions): Promise<void> {
  const request = await requestOf(context, options);
  if (context.globals.isDryRun) return printDryRun(context, request);
  let path: string | undefined = request.path;
  while (path !== undefined) {
    const answer = await send(context, { ...request, path });
    await print(context, answer, options);
    refuseFailure(answer, request);
    path = options.isPaginated ? nextPath(path, answer) : undefined;
  }
}

async function requestOf(context: Context, options: ApiOptions): Promise<RawRequest> {
  const { method, headers, fields, input } = options;
  const isRead = method === 'GET' || method === 'HEAD';
  const path = isRead ? withQuery(options.path, fields) : options.path;
  const endpoint = `${method} /${path.split('?', 1)[0]}`;
  const idempotencyKey = isRead ? undefined : await chosenKey(context, endpoint);
  const body =
    input !== undefined
      ? await readInput(context, input)
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
  if (source === '-') return readStdin(context, INPUT_MAX_BYTES);
  try {
    const facts = await stat(source);
    if (!facts.isFile()) throw new UsageError(`${source} is no regular file.`);
    if (facts.size > INPUT_MAX_BYTES) throw tooLarge(source, INPUT_MAX_BYTES);
    const parts: Buffer[] = [];
    for await (const bytes of createReadStream(source)) parts.push(bytes as Buffer);
    return Buffer.concat(parts);
  } catch (error) {
    throw fileFailure(source, error);
  }
}

async function send(context: Context, request: RawRequest): Promise<RawAnswer> {
  const client = await context.client();
  return explain({ subject: `${request.method} ${request.path}` }, client.raw(request));
}

function jsonOf({ body }: RawAnswer): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(body.toString('utf8')) };
  } catch {
    return undefined;
  }
}

/** JSON as one line when JSON was asked for, else laid out; both escaped, so that it parses back to what was sent. */
async function print(context: Context, answer: RawAnswer, { showsHead }: ApiOptions): Promise<void> {
  const { output } = context;
  const json = jsonOf(answer);
  if (output.format !== 'human') {
    const body = json === undefined ? answer.body.toString('utf8') : json.value;
    if (showsHead) return output.record({ status: answer.status, headers: answer.headers, body });
    if (typeof body === 'object' && body !== null) return output.record(body);
    return answer.body.length === 0 ? undefined : output.verbatim(toJsonLine(body));
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
  const json = jsonOf(answer)?.value;
  const next = typeof json === 'object' && json !== null && 'next_cursor' in json ? json.next_cursor : undefined;
  if (typeof next !== 'string' || next === '') return undefined;
  const [where = '', query = ''] = path.split('?', 2);
  const parameters = new URLSearchParams(query);
  const name = /\/events$/.test(where) ? 'after_sequence' : 'cursor';
  if (parameters.get(name) === next) return undefined;
  parameters.set(name, next);
  return `${where}?${parameters}`;
}

/** The answer was printed; its code decides how the command ends. */
function refuseFailure(answer: RawAnswer, request: RawRequest): void {
  const { status, attempts, idempotencyKey } = answer;
  if (status < 400) return;
  const envelope = ErrorEnvelope.safeParse(jsonOf(answer)?.value);
  const isUnknown = request.method !== 'GET' && request.method !== 'HEAD' && status >= 500;
  throw new RequestError({
    code: envelope.data?.error.code ?? (status >= 500 ? 'INTERNAL_ERROR' : 'ASP_BAD_ANSWER'),
    message: envelope.data?.error.message ?? `The service answered ${status}.`,
    status,
    attempts,
    idempotencyKey,
    outcome: isUnknown ? 'unknown' : 'not_applied',
    request: { method: request.method, path: `/${request.path.split('?', 1)[0]}` },
  });
}

async function printDryRun(
  context: Context,
  { method, path, headers, body, idempotencyKey }: RawRequest,
): Promise<void> {
  const { baseUrl } = await context.profile();
  const text = body === undefined ? null : Buffer.from(body).toString('utf8');
  const document = { method, url: `${baseUrl}/${path}`, headers, idempotency_key: idempotencyKey ?? null, body: text };
  await context.output.document(document, (safe, style) =>
    [`${style.bold(safe.method)} ${safe.url}`, ...(safe.body === null ? [] : [safe.body])].join('\n'),
  );
  await context.output.note('Nothing was sent (--dry-run).');
}
