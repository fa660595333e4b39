import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

import type { Answer } from './error-answer.js';

/** What is handed to a connection at once: more than this of an answer that nobody reads does not lie in its buffers. */
const CHUNK_BYTES = 64 * 1024;

/** Sends an answer; a long one in pieces, as its reader takes them. */
export function sendAnswer(reply: FastifyReply, { status, headers, body, more }: Answer): FastifyReply {
  reply.code(status);
  for (const [name, value] of headers) if (status !== 204 || name !== 'content-type') reply.header(name, value);
  if (status === 204) return reply.send();
  if (more !== undefined) return reply.send(toStream(concatenate(body, more)));
  if (body.length <= CHUNK_BYTES) return reply.send(body);
  const bytes = Buffer.from(body);
  return reply.header('content-length', bytes.length).send(toStream(cut(bytes)));
}

function toStream(chunks: Iterable<Buffer> | AsyncIterable<Buffer>): Readable {
  return Readable.from(chunks, { objectMode: false, highWaterMark: CHUNK_BYTES });
}

async function* concatenate(first: string, more: AsyncIterable<string>): AsyncGenerator<Buffer> {
  yield* cut(Buffer.from(first));
  for await (const text of more) yield* cut(Buffer.from(text));
}

function* cut(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) yield bytes.subarray(start, start + CHUNK_BYTES);
}
