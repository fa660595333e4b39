import { randomBytes } from 'node:crypto';

export interface FilePart {
  readonly name?: string;
  readonly filename?: string;
  readonly type?: string;
  readonly bytes: Uint8Array | string;
}

/** Builds a multipart/form-data body and its content type with a new boundary. */
export function multipart(parts: readonly FilePart[]): { readonly type: string; readonly body: Buffer } {
  const boundary = `----${randomBytes(12).toString('hex')}`;
  const chunks = parts.flatMap(({ name = 'file', filename = 'note.txt', type = 'text/plain', bytes }) => [
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="${name}"; filename="${filename}"\r\n`),
    Buffer.from(`content-type: ${type}\r\n\r\n`),
    Buffer.from(bytes),
    Buffer.from('\r\n'),
  ]);
  return {
    type: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]),
  };
}

/** Encodes a form without files as multipart, the way a browser does. The fields come as a query string. */
export function multipartFields(query: string): { readonly type: string; readonly text: string } {
  const boundary = `----${randomBytes(12).toString('hex')}`;
  const parts = [...new URLSearchParams(query)].map(
    ([name, value]) =>
      `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value.replace(/\r\n?|\n/g, '\r\n')}\r\n`,
  );
  return { type: `multipart/form-data; boundary=${boundary}`, text: `${parts.join('')}--${boundary}--\r\n` };
}

const hex = (digits: string, rest = 'rest of the file'): Buffer =>
  Buffer.concat([Buffer.from(digits, 'hex'), Buffer.from(rest)]);

/** A minimal valid file of each supported type. */
export const SAMPLE: Readonly<Record<string, Buffer>> = {
  'application/pdf': hex('255044462d', '1.7\n%%EOF\n'),
  'application/json': Buffer.from('{"a":1}'),
  'image/png': hex('89504e470d0a1a0a'),
  'image/jpeg': hex('ffd8ffe0'),
  'image/gif': hex('474946383961'),
  'text/plain': Buffer.from('plain'),
  'text/markdown': Buffer.from('# mark'),
  'text/csv': Buffer.from('a,b\n1,2\n'),
};
