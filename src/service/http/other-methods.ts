import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import createRouter from 'find-my-way';
import { ServiceError } from '../core/errors.js';

/** The methods that an address answers with 405 if it does not have them. Any other method gets 404. */
export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** The length up to which the router reads a parameter of a path. */
export const PATH_PARAMETER_MAX_LENGTH = 500;

/** Answers a request whose method its address does not have. `route` is the pattern of the address. */
type Refuse = (request: FastifyRequest, reply: FastifyReply, route: string) => FastifyReply;

/**
 * The addresses that answer 405 to the methods that they do not have. If these answers were routes, registering them
 * would take as long as registering everything else.
 */
export interface OtherMethods {
  refuse(route: string, refuse: Refuse): void;
  /** Answers a request that has no route; undefined: its address has none for any method. */
  answer(request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined;
  /** The pattern of the address that `answer` has refused the request for. */
  routeOf(request: IncomingMessage): string | undefined;
}

export function createOtherMethods(): OtherMethods {
  const refusals = new Map<string, Refuse>();
  const refused = new WeakMap<IncomingMessage, string>();
  let find: ((url: string) => string | undefined) | undefined;
  return {
    refuse: (route, refuse) => void refusals.set(route, refuse),
    answer(request, reply) {
      if (!(METHODS as readonly string[]).includes(request.method)) return undefined;
      find ??= createFinder([...refusals.keys()]);
      const route = find(request.raw.url ?? '');
      const refuse = route === undefined ? undefined : refusals.get(route);
      if (route === undefined || refuse === undefined) return undefined;
      refused.set(request.raw, route);
      return refuse(request, reply, route);
    },
    routeOf: (request) => refused.get(request),
  };
}

/** Finds the route of an address the way the router of the service does. */
function createFinder(routes: readonly string[]): (url: string) => string | undefined {
  const router = createRouter({ maxParamLength: PATH_PARAMETER_MAX_LENGTH });
  for (const route of routes) router.on('GET', route, () => {}, route);
  return (url) => router.find('GET', url)?.store ?? undefined;
}

/** The refusal of a method in the interfaces for programs. */
export function methodNotAllowed(allowed: readonly string[]): ServiceError {
  const allow = allowed.join(', ');
  return new ServiceError('VALIDATION_ERROR', 'This method is not allowed here.', { status: 405, allow });
}
