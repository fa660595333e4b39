import type { IncomingMessage } from 'node:http';

import { MESSAGE_BODY_MAX_BYTES } from '../../wire/limit.js';
import { ServiceError } from '../service-error.js';
import { parseJson } from './json-text.js';

/** Never one run of blanks beside another, between which a long one could be shared out in every way. */
const JSON_MEDIA_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?(?:;[ \t]*)?$/i;

/** The JSON body of a request, or undefined when it has none. `receive` gives its bytes. */
export async function readJsonBody(
  request: IncomingMessage,
  receive: (request: IncomingMessage) => Promise<Buffer> = readBytes,
): Promise<unknown> {
  if (!hasBody(request)) return undefined;
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') throw unsupported('A compressed body');
  const bytes = await receive(request);
  if (bytes.length === 0) return undefined;
  if (!JSON_MEDIA_TYPE.test(request.headers['content-type'] ?? ''))
    throw unsupported('A body other than application/json');
  return parseJson(bytes);
}

function unsupported(what: string): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `${what} is not supported here.`, { status: 415 });
}

function hasBody(request: IncomingMessage): boolean {
  const length = request.headers['content-length'];
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** The body, in memory; no longer one than a message may have. */
export async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = (): ServiceError =>
    new ServiceError('VALIDATION_ERROR', `The body is larger than ${MESSAGE_BODY_MAX_BYTES} bytes.`, { status: 413 });
  if (Number(request.headers['content-length'] ?? 0) > MESSAGE_BODY_MAX_BYTES) throw tooLarge();
  // It may have waited for its turn, and nobody would ever say that a body which broke off meanwhile has ended.
  if (request.destroyed) throw incomplete();
  return await new Promise<Buffer>((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size <= MESSAGE_BODY_MAX_BYTES) chunks.push(chunk);
      else settle(() => reject(tooLarge()));
    };
    const settle = (finish: () => void): void => {
      request.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken);
      request.on('error', () => {});
      finish();
    };
    const onEnd = (): void => settle(() => resolve(Buffer.concat(chunks, size)));
    const onBroken = (): void => settle(() => reject(incomplete()));
    request.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  });
}

function incomplete(): ServiceError {
  return new ServiceError('VALIDATION_ERROR', 'The body is incomplete.');
}
