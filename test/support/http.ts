import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';

/**
 * A complete answer. Header names are lowercase; `setCookies` keeps the cookies apart because they cannot be joined.
 */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly setCookies: readonly string[];
  readonly bytes: Buffer;
  readonly text: string;
  /** The body as JSON. Throws if it is not JSON. */
  readonly json: unknown;
}

export interface RequestOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

const connections = new Agent({ keepAlive: true, maxSockets: 64 });

/** Makes one request. Does not follow redirects. */
export function request(url: string, { method = 'GET', headers = {}, body }: RequestOptions = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const isPlain = url.startsWith('http:');
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const options = { method, headers: { ...length, ...headers } };
    const sent = isPlain ? httpRequest(url, { ...options, agent: connections }) : httpsRequest(url, options);
    let isAnswered = false;
    sent.on('response', (message) => {
      isAnswered = true;
      readAnswer(message).then(resolve, reject);
    });
    // A service may answer and close the connection before it has read a body that is too large.
    sent.on('error', (error) => {
      if (!isAnswered) reject(error);
    });
    sent.end(body);
  });
}

async function readAnswer(message: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  return answerOf(message.statusCode ?? 0, message.headers, bytes);
}

export function answerOf(
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  bytes: Buffer,
): Answer {
  const single = Object.entries(headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.join(', ') : value,
  ]);
  const cookies = headers['set-cookie'];
  const text = bytes.toString('utf8');
  return {
    status,
    headers: Object.fromEntries(single),
    setCookies: Array.isArray(cookies) ? cookies : cookies === undefined ? [] : [cookies],
    bytes,
    text,
    get json(): unknown {
      return JSON.parse(text);
    },
  };
}

/** Encodes a form body. A value may repeat. */
export function formBody(fields: Readonly<Record<string, string | readonly string[] | undefined>>): string {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(fields))
    for (const one of value === undefined ? [] : typeof value === 'string' ? [value] : value) form.append(name, one);
  return form.toString();
}

export function postForm(
  url: string,
  fields: Readonly<Record<string, string | readonly string[] | undefined>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return request(url, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: formBody(fields),
  });
}
