import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ENDPOINT, ENDPOINT_ALIAS, type EndpointRow, endpointRow, type Operation } from '../../wire/endpoint.js';
import { splitHandle } from '../../wire/handle.js';
import { OPENAPI_PATH, READY_PATH } from '../../wire/http.js';
import { toAttachmentId, toFileId } from '../../wire/id.js';
import type { Attachment } from '../../wire/schemas/attachment.js';
import type { Actor, ServiceContext } from '../core/context.js';
import { answerWith, GET_AND_HEAD, JSON_TYPE, METHODS, methodNotAllowed, sendAnswer } from './answers.js';
import type { AddressBook } from './app.js';
import { answerCall, type Call, type PresentedReply, presentAsItIs, type Rest } from './pipeline.js';

/** The version segment of {base_url} (spec: Versioning). */
export const BASE_PATH = '/v1';

/** One address of an endpoint row. */
interface Route {
  readonly path: string;
  readonly operation: Operation;
  readonly isForActingAgent: boolean;
  readonly present: Call['present'];
}

/** Mounts every row of the endpoint table, and every alias, below the base path. */
export function registerRest({ fastify, otherMethods }: AddressBook, rest: Rest): void {
  const routes = listRoutes();
  const allowed = listAllowed(routes);
  for (const [url, methods] of allowed)
    otherMethods.refuse(url, () => {
      throw methodNotAllowed(methods);
    });
  fastify.register(
    async (scope) => {
      // The pipeline reads bodies, once it is known that the caller may send one.
      scope.removeAllContentTypeParsers();
      await scope.register(multipart);
      scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
      for (const route of routes) {
        const { method } = endpointRow(route.operation);
        scope.route({
          method: methodsFor(method),
          url: toPattern(route.path),
          handler: (request, reply) => answerRoute(rest, toCall(rest, route, request, reply), reply),
        });
      }
      for (const [url, methods] of allowed)
        for (const method of METHODS) {
          // Another path has this method, and a parameter where this one has a fixed segment, such as `me`.
          const isHidden = !methods.includes(method) && fastify.findRoute({ method, url }) !== null;
          if (!isHidden) continue;
          const handler = (): never => {
            throw methodNotAllowed(methods);
          };
          scope.route({ method, url: url.slice(BASE_PATH.length), handler });
        }
    },
    { prefix: BASE_PATH },
  );
}

/** HEAD is GET without its body (RFC 9110, 9.1). */
const methodsFor = (method: EndpointRow['method']): string[] => (method === 'GET' ? ['GET', 'HEAD'] : [method]);

/** The methods of each address. */
function listAllowed(routes: readonly Route[]): ReadonlyMap<string, readonly string[]> {
  const allowed = new Map<string, string[]>();
  for (const { path, operation } of routes) {
    const url = `${BASE_PATH}${toPattern(path)}`;
    const { method } = endpointRow(operation);
    allowed.set(url, [...new Set([...(allowed.get(url) ?? []), ...methodsFor(method)])].sort());
  }
  return allowed;
}

async function answerRoute(rest: Rest, call: Call, reply: FastifyReply): Promise<FastifyReply> {
  const { faults } = rest.context;
  const answer =
    faults === undefined
      ? await answerCall(rest, call)
      : await faults.around(call.operation, () => answerCall(rest, call));
  if (answer !== undefined) return sendAnswer(reply, answer, rest.context.log);
  reply.hijack();
  reply.raw.destroy();
  return reply;
}

interface Alias {
  readonly path: string;
  readonly operation: Operation;
  readonly agent?: 'me';
  readonly isUnwrapped?: boolean;
  readonly isFile?: boolean;
}

function listRoutes(): Route[] {
  const rows = Object.entries(ENDPOINT) as [Operation, EndpointRow][];
  const aliases: readonly Alias[] = ENDPOINT_ALIAS;
  return [
    ...rows.map(([operation, { path }]) => ({ path, operation, isForActingAgent: false, present: presentAsItIs })),
    ...aliases.map(({ path, operation, agent, isUnwrapped, isFile }) => ({
      path,
      operation,
      isForActingAgent: agent === 'me',
      present: isUnwrapped === true ? unwrapSessions : isFile === true ? presentFile : presentAsItIs,
    })),
  ];
}

/** `{name}` in the table is `:name` in the router. */
function toPattern(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1');
}

function toCall({ exchanges }: Rest, route: Route, request: FastifyRequest, reply: FastifyReply): Call {
  const { operation, isForActingAgent, present } = route;
  const pathParameters = request.params as Record<string, string>;
  const { attachment_id: id } = pathParameters;
  const attachment = id === undefined ? {} : { attachment_id: toAttachmentId(id) };
  const actingParts = (actor: Actor) => (isForActingAgent && actor.kind === 'agent' ? splitHandle(actor.handle) : {});
  return {
    operation,
    request,
    pathFor: (actor) => ({ ...pathParameters, ...attachment, ...actingParts(actor) }),
    present,
    whenDone: (listener) => exchanges.whenDone(reply.raw, listener),
  };
}

/** `/account/sessions` has the fields of a session and its handle in one row (wire: Aliases). */
function unwrapSessions(reply: unknown): PresentedReply {
  const { sessions, ...page } = reply as { sessions: { session: object; acting_handle: string }[] };
  return { body: { sessions: sessions.map(({ session, acting_handle }) => ({ ...session, acting_handle })), ...page } };
}

/**
 * `/files` names an attachment `file_…` and its size `size_bytes`; reading one redirects to its bytes (wire: Aliases).
 */
function presentFile(reply: unknown): PresentedReply {
  const { id, size, ...facts } = reply as Attachment & { readonly url?: string };
  const body = { ...facts, id: toFileId(id), size_bytes: size };
  return facts.url === undefined ? { body } : { body, location: facts.url };
}

/** Endpoints for monitoring the service and for writing clients: whether it is ready, and its interface. */
export function registerProbes(
  app: FastifyInstance,
  { log, settings }: Pick<ServiceContext, 'log' | 'settings'>,
  health: { requireReady(): Promise<void> },
): void {
  app.get(READY_PATH, GET_AND_HEAD, async (_request, reply) => {
    await health.requireReady();
    return sendAnswer(reply, answerWith(200, JSON_TYPE, '{"ok":true}'), log);
  });
  let description: Promise<string> | undefined;
  app.get(OPENAPI_PATH, GET_AND_HEAD, async (_request, reply) => {
    description ??= import('./openapi.js').then(({ describeApi }) => JSON.stringify(describeApi(settings.addresses)));
    return sendAnswer(reply, answerWith(200, JSON_TYPE, await description), log);
  });
}
