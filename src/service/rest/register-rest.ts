import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';

import { ENDPOINT, ENDPOINT_ALIAS, type EndpointRow, endpointRow, type Operation } from '../../wire/endpoint.js';
import { splitHandle } from '../../wire/handle.js';
import { UPLOADS_PER_AGENT_MAX, UPLOADS_WAITING_MAX } from '../../wire/limit.js';
import type { Actor } from '../context.js';
import { createPlaces } from '../limits/places.js';
import { ServiceError } from '../service-error.js';
import type { Call } from './admit.js';
import { answerCall } from './pipeline.js';
import type { Rest } from './rest.js';
import { sendAnswer } from './send-answer.js';

/** The version segment of {base_url} (spec: Versioning). */
export const BASE_PATH = '/v1';

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** One address of an endpoint row. */
interface Route {
  readonly path: string;
  readonly operation: Operation;
  readonly isForActingAgent: boolean;
  readonly isUnwrapped: boolean;
}

/** Mounts every row of the endpoint table, and every alias, below the base path. */
export function registerRest(app: FastifyInstance, given: Omit<Rest, 'uploads'>): void {
  const uploads = createPlaces({
    perAgentMax: UPLOADS_PER_AGENT_MAX,
    waitingMax: UPLOADS_WAITING_MAX,
    refusal: 'This agent has too many uploads under way.',
  });
  const rest = { ...given, uploads };
  app.register(
    async (scope) => {
      // Bodies are read by the pipeline, once it is known that the caller may send one.
      scope.removeAllContentTypeParsers();
      await scope.register(multipart);
      scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
      const routes = listRoutes();
      for (const route of routes) {
        const { method } = endpointRow(route.operation);
        scope.route({
          method,
          url: toPattern(route.path),
          handler: (request, reply) => answerRoute(rest, toCall(route, request), reply),
        });
      }
      for (const path of new Set(routes.map((route) => route.path))) refuseOtherMethods(scope, path, routes);
    },
    { prefix: BASE_PATH },
  );
}

async function answerRoute(rest: Rest, call: Call, reply: FastifyReply): Promise<FastifyReply> {
  const { faults } = rest.context;
  const answer =
    faults === undefined ? await answerCall(rest, call) : await faults.around(() => answerCall(rest, call));
  if (answer !== undefined) return sendAnswer(reply, answer);
  reply.hijack();
  reply.raw.destroy();
  return reply;
}

function listRoutes(): Route[] {
  const rows = Object.entries(ENDPOINT) as [Operation, EndpointRow][];
  const aliases: readonly { path: string; operation: Operation; agent?: 'me'; isUnwrapped?: boolean }[] =
    ENDPOINT_ALIAS;
  return [
    ...rows.map(([operation, { path }]) => ({ path, operation, isForActingAgent: false, isUnwrapped: false })),
    ...aliases.map(({ path, operation, agent, isUnwrapped }) => ({
      path,
      operation,
      isForActingAgent: agent === 'me',
      isUnwrapped: isUnwrapped === true,
    })),
  ];
}

/** `{name}` of the table is `:name` of the router. */
function toPattern(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1');
}

function toCall(route: Route, request: FastifyRequest): Call {
  const given = request.params as Record<string, string>;
  const acting = (actor: Actor) => (route.isForActingAgent && actor.kind === 'agent' ? splitHandle(actor.handle) : {});
  return {
    operation: route.operation,
    request,
    pathFor: (actor) => ({ ...given, ...acting(actor) }),
    shape: route.isUnwrapped ? unwrapSessions : (reply) => reply,
  };
}

/** `/account/sessions` has the fields of a session and its handle in one row (wire: Aliases). */
function unwrapSessions(reply: unknown): unknown {
  const { sessions, ...page } = reply as { sessions: { session: object; acting_handle: string }[] };
  return { sessions: sessions.map(({ session, acting_handle }) => ({ ...session, acting_handle })), ...page };
}

function refuseOtherMethods(scope: FastifyInstance, path: string, routes: readonly Route[]): void {
  const known = routes.filter((route) => route.path === path).map((route) => endpointRow(route.operation).method);
  const method = METHODS.filter((candidate) => !(known as HTTPMethods[]).includes(candidate));
  const allow = [...new Set(known)].sort().join(', ');
  scope.route({
    method,
    url: toPattern(path),
    handler: async () => {
      throw new ServiceError('VALIDATION_ERROR', 'This method is not allowed here.', { status: 405, allow });
    },
  });
}
