import type { RequestListener, Server } from 'node:http';

import Fastify, { type FastifyInstance, type FastifyReply } from 'fastify';

import type { Clock } from '../../kit/clock.js';
import { HEALTH_PATH } from '../../wire/health.js';
import { REQUESTS_PER_ADDRESS_MAX } from '../../wire/limit.js';
import { networkOf } from '../authorization-server/network-of.js';
import type { Log } from '../context.js';
import { createSemaphore } from '../limits/semaphore.js';
import type { Meter } from '../meter.js';
import { ServiceError } from '../service-error.js';
import { answerOfError, answerWith, JSON_TYPE } from './error-answer.js';
import { createExchanges, type Exchanges } from './exchanges.js';
import type { HostGuard } from './host-guard.js';
import { answerUnparsable } from './http-server.js';
import { sendAnswer } from './send-answer.js';

const PATH_PARAMETER_MAX_LENGTH = 500;

export interface AppOptions {
  /** Already bound; it is told what answers its requests. */
  readonly server: Server;
  readonly useListener: (listener: RequestListener) => void;
  readonly guardHost: HostGuard;
  readonly isBehindProxy: boolean;
  /** Where the REST interface publishes its metadata. The operator interface has none. */
  readonly metadataUrl?: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
}

export interface App {
  readonly fastify: FastifyInstance;
  readonly exchanges: Exchanges;
}

/** What all HTTP of the service has in common: the guard, the envelope for whatever goes wrong, the way out. */
export function createApp(options: AppOptions): App {
  const exchanges = createExchanges(options.clock);
  const answerError = (error: unknown, reply: FastifyReply): FastifyReply =>
    sendAnswer(reply, answerOfError(error, options.log, options.metadataUrl));
  const fastify = Fastify({
    serverFactory: (listener) => {
      options.useListener(listener);
      return options.server;
    },
    clientErrorHandler: (error, socket) => answerUnparsable(error, socket, exchanges.on(socket)),
    frameworkErrors: (error, _request, reply) => answerError(error, reply),
    // The proxy's own word alone: what stands before it in the header is the caller's.
    trustProxy: options.isBehindProxy && ((_address, hop) => hop === 0),
    exposeHeadRoutes: false,
    return503OnClosing: false,
    forceCloseConnections: false,
    routerOptions: { maxParamLength: PATH_PARAMETER_MAX_LENGTH },
  });
  fastify.addHook('onRequest', (request, reply, done) => {
    exchanges.begin(request.raw, reply.raw);
    if (exchanges.isDraining())
      throw new ServiceError('INTERNAL_ERROR', 'The service is shutting down.', { status: 503, retryAfterS: 1 });
    options.guardHost(request.raw);
    done();
  });
  if (options.isBehindProxy) boundByAddress(fastify, exchanges);
  fastify.addHook('onResponse', async (request, reply) => {
    // The route, not the address: it holds no id, no handle and no signature (D-59).
    const { url = '*' } = request.routeOptions;
    const route = url.endsWith('*') ? 'none' : url;
    const { method } = request;
    const { statusCode: status, elapsedTime } = reply;
    options.meter.answered({ method, route, status, ms: elapsedTime });
    options.log.info('request', { method, route, status, ms: Math.round(elapsedTime) });
  });
  // Each scope says which bodies it reads; elsewhere none is, so that an unknown address is one whatever was sent to it.
  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser('*', (_request, _payload, done) => done(null));
  fastify.setErrorHandler((error, _request, reply) => answerError(error, reply));
  fastify.setNotFoundHandler(() => {
    throw new ServiceError('NOT_FOUND');
  });
  fastify.get(HEALTH_PATH, (_request, reply) => sendAnswer(reply, answerWith(200, JSON_TYPE, '{"ok":true}')));
  return { fastify, exchanges };
}

/** Before it is known who asks, only the address tells one stranger from another; without a proxy it is this machine's own. */
function boundByAddress(fastify: FastifyInstance, exchanges: Exchanges): void {
  const ofAddresses = createSemaphore({
    max: REQUESTS_PER_ADDRESS_MAX,
    waitingMax: 0,
    refusal: 'Too many requests from this address are in work.',
  });
  fastify.addHook('onRequest', async (request, reply) => {
    const release = await ofAddresses.acquire(networkOf(request.ip));
    exchanges.whenDone(reply.raw, release);
  });
}
