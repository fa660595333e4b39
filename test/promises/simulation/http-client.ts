import type { Link } from './link.js';

export interface Reply {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
  readonly json: unknown;
}

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

const HEAD_END = '\r\n\r\n';

/**
 * An HTTP client with one connection, for one request after another. Returns undefined if the connection broke and the
 * result is unknown.
 */
export class HttpClient {
  readonly #connect: () => Link | undefined;
  #link: Link | undefined;
  #text = '';
  #settle: ((reply: Reply | undefined) => void) | undefined;

  constructor(connect: () => Link | undefined) {
    this.#connect = connect;
  }

  call({ method, path, headers, body }: Call): Promise<Reply | undefined> {
    const link = this.#open();
    if (link === undefined) return Promise.resolve(undefined);
    const lines = [`${method} ${path} HTTP/1.1`, 'host: 127.0.0.1:8744'];
    for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
    if (body !== undefined) lines.push(`content-length: ${Buffer.byteLength(body, 'latin1')}`);
    return new Promise((resolve) => {
      this.#settle = resolve;
      link.client.write(Buffer.from(`${lines.join('\r\n')}${HEAD_END}${body ?? ''}`, 'latin1'));
    });
  }

  #open(): Link | undefined {
    if (this.#link !== undefined && !this.#link.isOver) return this.#link;
    const link = this.#connect();
    this.#link = link;
    this.#text = '';
    if (link === undefined) return undefined;
    link.client.on('data', (chunk: Buffer) => {
      this.#text += chunk.toString('latin1');
      const reply = this.#read();
      if (reply === undefined) return;
      if (reply.headers.get('connection') === 'close') link.client.destroy();
      this.#finish(reply);
    });
    const onOver = (): void => {
      link.client.destroy();
      if (this.#link === link) this.#finish(undefined);
    };
    link.client.on('end', onOver).on('close', onOver);
    return link;
  }

  #finish(reply: Reply | undefined): void {
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.(reply);
  }

  #read(): Reply | undefined {
    const end = this.#text.indexOf(HEAD_END);
    if (end < 0) return undefined;
    const [first = '', ...lines] = this.#text.slice(0, end).split('\r\n');
    const headers = new Map(
      lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
    );
    const length = Number(headers.get('content-length') ?? 0);
    const start = end + HEAD_END.length;
    if (this.#text.length < start + length) return undefined;
    const text = Buffer.from(this.#text.slice(start, start + length), 'latin1').toString();
    this.#text = this.#text.slice(start + length);
    const isJson = headers.get('content-type')?.startsWith('application/json') === true;
    return { status: Number(first.split(' ')[1]), headers, text, json: isJson ? JSON.parse(text) : undefined };
  }
}
