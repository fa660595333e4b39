import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

import type { Answer } from './error-answer.js';

/** What is handed to a connection at once: more than this of an answer that nobody reads does not lie in its buffers. */
const CHUNK_BYTES = 64 * 1024;

/** How much of a refused body is taken after its answer. */
const DISCARDED_MAX_BYTES = 16 * 1024 * 1024;

/** Sends an answer; a long one in pieces, as its reader takes them. */
export function sendAnswer(reply: FastifyReply, { status, headers, body, more }: Answer): FastifyReply {
  reply.code(status);
  for (const [name, value] of headers) if (status !== 204 || name !== 'content-type') reply.header(name, value);
  if (status === 204) return reply.send();
  if (more !== undefined) return reply.send(toStream(concatenate(body, more)));
  const isBodyUnread = !reply.request.raw.complete && (!reply.raw.shouldKeepAlive || closes(headers));
  if (body.length <= CHUNK_BYTES && !isBodyUnread) return reply.send(body);
  const bytes = Buffer.from(body);
  if (isBodyUnread)
    return reply.header('content-length', bytes.length).send(toStream(answerThenDiscard(bytes, reply.request.raw)));
  return reply.header('content-length', bytes.length).send(toStream(cut(bytes)));
}

function toStream(chunks: Iterable<Buffer> | AsyncIterable<Buffer>): Readable {
  return Readable.from(chunks, { objectMode: false, highWaterMark: CHUNK_BYTES });
}

function closes(headers: Answer['headers']): boolean {
  return headers.some(([name, value]) => name === 'connection' && value === 'close');
}

/**
 * A connection that closes while its peer still sends is reset, and the peer loses the answer with it. So the rest of the body is
 * taken first. A peer that stops sending is ended as any other.
 */
async function* answerThenDiscard(bytes: Buffer, request: IncomingMessage): AsyncGenerator<Buffer> {
  yield* cut(bytes);
  if (request.destroyed) return;
  await new Promise<void>((resolve) => {
    let size = 0;
    request
      .on('error', () => {})
      .once('close', resolve)
      .once('end', resolve);
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > DISCARDED_MAX_BYTES) resolve();
    });
  });
}

async function* concatenate(first: string, more: AsyncIterable<string>): AsyncGenerator<Buffer> {
  yield* cut(Buffer.from(first));
  for await (const text of more) yield* cut(Buffer.from(text));
}

function* cut(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) yield bytes.subarray(start, start + CHUNK_BYTES);
}
