import type { RequestListener, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import Fastify, { type FastifyInstance } from 'fastify';

import { HEALTH_PATH } from '../../wire/health.js';
import type { Log } from '../context.js';
import type { Meter } from '../meter.js';
import { ServiceError } from '../service-error.js';
import { answerOfError, answerWith, JSON_TYPE } from './error-answer.js';
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
  readonly log: Log;
  readonly meter: Meter;
}

export interface App {
  readonly fastify: FastifyInstance;
  /** Resolves when no request of a connection is in work. */
  whenFree(socket: Duplex): Promise<void>;
  /** From now on every request is refused; resolves when none is in work any more. */
  drain(): Promise<void>;
}

/** What all HTTP of the service has in common: the guard, the envelope for whatever goes wrong, the way out. */
export function createApp(options: AppOptions): App {
  const work = createWorkCount();
  const fastify = Fastify({
    serverFactory: (listener) => {
      options.useListener(listener);
      return options.server;
    },
    clientErrorHandler: (error, socket) => answerUnparsable(error, socket, work.on(socket)),
    frameworkErrors: (error, _request, reply) => sendAnswer(reply, answerOfError(error, options.log)),
    // The proxy's own word alone: what stands before it in the header is the caller's.
    trustProxy: options.isBehindProxy && ((_address, hop) => hop === 0),
    exposeHeadRoutes: false,
    return503OnClosing: false,
    forceCloseConnections: false,
    routerOptions: { maxParamLength: PATH_PARAMETER_MAX_LENGTH },
  });
  fastify.addHook('onRequest', (request, reply, done) => {
    work.begin(reply.raw);
    if (work.isDraining())
      throw new ServiceError('INTERNAL_ERROR', 'The service is shutting down.', { status: 503, retryAfterS: 1 });
    options.guardHost(request.raw);
    done();
  });
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
  fastify.setErrorHandler((error, _request, reply) => sendAnswer(reply, answerOfError(error, options.log)));
  fastify.setNotFoundHandler(() => {
    throw new ServiceError('NOT_FOUND');
  });
  fastify.get(HEALTH_PATH, (_request, reply) => sendAnswer(reply, answerWith(200, JSON_TYPE, '{"ok":true}')));
  return { fastify, whenFree: work.whenFree, drain: work.drain };
}

/** Knows the requests of each connection from their first hook until the connection is done with them. */
function createWorkCount() {
  const responsesOf = new Map<unknown, Set<ServerResponse>>();
  let finish: (() => void) | undefined;
  return {
    begin(response: ServerResponse): void {
      const { socket } = response.req;
      const responses = responsesOf.get(socket) ?? new Set();
      responsesOf.set(socket, responses.add(response));
      response.once('close', () => {
        responses.delete(response);
        if (responses.size === 0) responsesOf.delete(socket);
        if (responsesOf.size === 0) finish?.();
      });
    },
    on: (socket: unknown): readonly ServerResponse[] => [...(responsesOf.get(socket) ?? [])],
    async whenFree(socket: unknown): Promise<void> {
      const responses = [...(responsesOf.get(socket) ?? [])];
      await Promise.all(responses.map((response) => new Promise((resolve) => response.once('close', resolve))));
    },
    isDraining: (): boolean => finish !== undefined,
    drain: (): Promise<void> =>
      new Promise((resolve) => {
        finish = resolve;
        if (responsesOf.size === 0) resolve();
      }),
  };
}
