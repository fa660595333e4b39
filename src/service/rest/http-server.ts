import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import { ServiceError } from '../service-error.js';
import { answerOf } from './error-answer.js';
import { writeRawAnswer } from './raw-answer.js';

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 120_000;
const KEEP_ALIVE_MS = 72_000;
const TIMEOUT_CHECK_MS = 2_000;
const HEADERS_MAX_BYTES = 16 * 1024;
const CONNECTIONS_MAX = 10_000;
const REQUESTS_PER_CONNECTION_MAX = 100_000;

/** What Node's parser calls the faults of a request that have a status of their own. */
const PARSER_STATUS: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** A server that bounds what a stranger can hold open, and that leaves no refusal to Node's own words. */
export function createHttpServer(listener: RequestListener): Server {
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: TIMEOUT_CHECK_MS,
      maxHeaderSize: HEADERS_MAX_BYTES,
      // Node would refuse a request without Host itself, without the envelope; the host guard does it instead.
      requireHostHeader: false,
    },
    listener,
  );
  server.maxConnections = CONNECTIONS_MAX;
  server.maxRequestsPerSocket = REQUESTS_PER_CONNECTION_MAX;
  server.on('connect', (_request, socket) => {
    socket.on('error', () => {});
    writeRawAnswer(socket, refusal(405));
  });
  server.on('checkExpectation', (_request, response) => {
    const answer = refusal(417);
    for (const [name, value] of answer.headers) response.setHeader(name, value);
    response.writeHead(answer.status, { connection: 'close', 'content-length': Buffer.byteLength(answer.body) });
    response.end(answer.body);
  });
  return server;
}

/**
 * Answers what could not be parsed. Where an answer is on its way, or the fault lies behind a request that is still in
 * work, an answer of ours would be taken for its answer: then the connection just ends.
 */
export function answerUnparsable(
  error: Error & { code?: string },
  socket: Duplex,
  inWork: readonly ServerResponse[],
): void {
  const isFree = inWork.every((response) => !response.headersSent && !response.req.complete);
  if (error.code === 'ECONNRESET' || inWork.length > 1 || !isFree) socket.destroy();
  else writeRawAnswer(socket, refusal(PARSER_STATUS[error.code ?? ''] ?? 400));
}

function refusal(status: number) {
  return answerOf(new ServiceError('VALIDATION_ERROR', 'The request is not valid HTTP for this service.', { status }));
}
