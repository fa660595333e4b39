import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const SECRET = 'a secret that only the tests know';
const BUCKET = 'attachments';
const PAGE_MAX = 1_000;

/**
 * An object store with one bucket and the part of the S3 interface that the service uses. It refuses bad signatures.
 */
export interface ObjectStore {
  readonly endpoint: string;
  readonly bucket: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  /** The names of all objects, sorted. */
  names(): string[];
  /** Every request, as `PUT /attachments/name`. */
  readonly requests: string[];
  /** Decides what happens to a request: cut it, answer with a status, or (undefined) handle it normally. */
  fate: (line: string) => 'cut' | number | undefined;
  stop(): Promise<void>;
}

interface Reply {
  readonly status: number;
  readonly body?: Buffer | string;
}

const refuse = (status: number, code: string): Reply => ({
  status,
  body: `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${code} &amp; no more</Message></Error>`,
});

export async function startObjectStore(): Promise<ObjectStore> {
  const objects = new Map<string, Buffer>();
  const requests: string[] = [];
  const list = (query: URLSearchParams): Reply => {
    const after = Buffer.from(query.get('continuation-token') ?? '', 'base64').toString('utf8');
    const prefix = query.get('prefix') ?? '';
    const max = Math.min(Number(query.get('max-keys') ?? PAGE_MAX), PAGE_MAX);
    const names = [...objects.keys()].filter((name) => name.startsWith(prefix) && name > after).sort();
    const page = names.slice(0, max);
    const token = Buffer.from(page.at(-1) ?? '').toString('base64');
    const next = names.length > max ? `<NextContinuationToken>${token}</NextContinuationToken>` : '';
    const contents = page.map((name) => `<Contents><Key>${name}</Key><Size>1</Size></Contents>`).join('');
    return { status: 200, body: `<ListBucketResult><Prefix>${prefix}</Prefix>${next}${contents}</ListBucketResult>` };
  };
  const put = (name: string, { headers }: IncomingMessage, body: Buffer): Reply => {
    const source = headers['x-amz-copy-source'];
    const bytes = source === undefined ? body : objects.get(String(source).replace(`/${BUCKET}/`, ''));
    if (bytes === undefined) return refuse(404, 'NoSuchKey');
    objects.set(name, bytes);
    return source === undefined ? { status: 200 } : { status: 200, body: '<CopyObjectResult></CopyObjectResult>' };
  };
  const serve = (from: IncomingMessage, body: Buffer): Reply => {
    if (!isSigned(from, body)) return refuse(403, 'SignatureDoesNotMatch');
    const { pathname, searchParams } = new URL(from.url ?? '', 'http://store');
    const [, bucket = '', name = ''] = /^\/([^/]+)(?:\/(.*))?$/.exec(pathname) ?? [];
    if (bucket !== BUCKET) return refuse(404, 'NoSuchBucket');
    if (name === '') return list(searchParams);
    if (from.method === 'PUT') return put(name, from, body);
    if (from.method === 'DELETE') {
      objects.delete(name);
      return { status: 204 };
    }
    const found = objects.get(name);
    return found === undefined ? refuse(404, 'NoSuchKey') : { status: 200, body: found };
  };
  const store = { fate: (_line: string): 'cut' | number | undefined => undefined };
  const answer = async (from: IncomingMessage, to: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of from) chunks.push(chunk as Buffer);
    const line = `${from.method} ${from.url}`;
    requests.push(line);
    const fate = store.fate(line);
    if (fate === 'cut') return void from.socket.destroy();
    const reply = fate === undefined ? serve(from, Buffer.concat(chunks)) : refuse(fate, 'SlowDown');
    to.writeHead(reply.status).end(reply.body);
  };
  const server = createServer((from, to) => void answer(from, to));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bucket: BUCKET,
    credentials: { accessKeyId: 'tests', secretAccessKey: SECRET },
    names: () => [...objects.keys()].sort(),
    requests,
    get fate() {
      return store.fate;
    },
    set fate(fate) {
      store.fate = fate;
    },
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=tests\/(\d{8})\/([a-z0-9-]+)\/s3\/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$/;

const hash = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();

/** Checks Signature Version 4 against the received request (Amazon S3 API, "Signature calculations"). */
function isSigned({ method, url = '', headers }: IncomingMessage, body: Buffer): boolean {
  const [, day = '', region = '', names = '', signature] = AUTHORIZATION.exec(headers.authorization ?? '') ?? [];
  const content = String(headers['x-amz-content-sha256']);
  if (content !== 'UNSIGNED-PAYLOAD' && content !== hash(body)) return false;
  const { pathname, searchParams } = new URL(url, 'http://store');
  const query = [...searchParams]
    .map((pair) => pair.map(encodeURIComponent).join('='))
    .sort()
    .join('&');
  const signed = names.split(';').map((name) => `${name}:${headers[name]}\n`);
  const canonical = [method, pathname, query, signed.join(''), names, content].join('\n');
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, hash(canonical)].join('\n');
  const key = [day, region, 's3', 'aws4_request'].reduce<string | Buffer>(
    (one, part) => hmac(one, part),
    `AWS4${SECRET}`,
  );
  return hmac(key, text).toString('hex') === signature;
}
