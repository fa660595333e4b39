import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';

export const METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD'] as const;
export type Method = (typeof METHODS)[number];

export interface ApiOptions {
  readonly method: Method;
  /** Below the base URL, without its leading slash; its query string included. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly showsHead: boolean;
  /** Members of the JSON body; of the query when nothing is written. */
  readonly fields: readonly (readonly [name: string, value: unknown])[];
  /** A path, or `-`: the body as it is. */
  readonly input: string | undefined;
  readonly isPaginated: boolean;
}

export function readApiOptions(words: Words): ApiOptions {
  for (const option of ['field', 'typed', 'paginate']) words.refuseBoth('input', option);
  const fields = [...words.texts('field').map(readText), ...words.texts('typed').map(readTyped)];
  const input = words.text('input');
  const writes = fields.length > 0 || input !== undefined;
  const method = readMethod(words.text('method'), writes);
  const isPaginated = words.flag('paginate');
  if (isPaginated && method !== 'GET') throw new UsageError('--paginate is for GET.');
  if ((method === 'GET' || method === 'HEAD') && input !== undefined)
    throw new UsageError(`${method} takes no body.`, { why: 'with --field and --typed its query is given.' });
  return {
    method,
    path: readPath(words.arguments[0] ?? ''),
    headers: Object.fromEntries(words.texts('http-header').map(readHeader)),
    showsHead: words.flag('include'),
    fields,
    input,
    isPaginated,
  };
}

function readMethod(text: string | undefined, writes: boolean): Method {
  if (text === undefined) return writes ? 'POST' : 'GET';
  const method = METHODS.find((one) => one === text.toUpperCase());
  if (method !== undefined) return method;
  throw new UsageError(`'${text}' is not a method.`, { why: `methods are ${METHODS.join(', ')}.` });
}

/** A path, never an address: the token goes to the service alone. */
function readPath(text: string): string {
  if (/^[a-z][a-z0-9+.-]*:|^\/\//i.test(text))
    throw new UsageError(`'${text}' is an address; a path below the base URL belongs here.`, {
      next: ['asp', 'api', 'sessions'],
    });
  return text.replace(/^\//, '');
}

function split(option: string, text: string): readonly [string, string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new UsageError(`${option} '${text}' is not of the form name=value.`);
}

const readText = (text: string): readonly [string, string] => split('--field', text);

function readTyped(text: string): readonly [string, unknown] {
  const [name, value] = split('--typed', text);
  try {
    return [name, JSON.parse(value)];
  } catch (error) {
    throw new UsageError(`--typed '${name}': its value is not JSON.`, {
      why: 'a text goes with --field, or in quotation marks.',
      cause: error,
    });
  }
}

const OURS: Readonly<Record<string, string>> = {
  authorization: 'the credential sets it.',
  'idempotency-key': 'say it with --idempotency-key or --once.',
  host: 'the base URL sets it.',
  'content-length': 'the body sets it.',
};

function readHeader(text: string): readonly [string, string] {
  const match = /^([!#$%&'*+.^`|~\w-]+):\s*([\t\x20-\x7e]*)$/.exec(text);
  if (match?.[1] === undefined)
    throw new UsageError(`-H '${text}' is not a header.`, { why: 'a header is name: value, in ASCII.' });
  const name = match[1].toLowerCase();
  const why = Object.hasOwn(OURS, name) ? OURS[name] : undefined;
  if (why !== undefined) throw new UsageError(`-H may not set ${name}.`, { why });
  return [name, match[2] ?? ''];
}
