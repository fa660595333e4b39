import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isObject } from '../../kit/parse-json.js';
import { MCP_PATH, SUBSCRIPTIONS_MAX } from '../../wire/mcp.js';
import type { AgentActor, ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { scopeOf, unfollow } from '../core/request-scope.js';
import { createSemaphore } from '../core/semaphore.js';
import { answerOfError, answerWith, JSON_TYPE, methodNotAllowed, sendAnswer } from '../http/answers.js';
import type { AddressBook } from '../http/app.js';
import { ADMITTED_FOR_MS, type Rest, readBearer, requireShortQueue, takeBudget } from '../http/pipeline.js';
import { readJsonBody } from '../http/request.js';
import { createWorkBounds } from '../http/work-bounds.js';
import { resourceMetadataUrl } from '../oauth/metadata.js';
import type { Handler } from './handler.js';
import type { Caller } from './unread.js';

/** The endpoint, until the service stops. */
export interface McpEndpoint {
  /** Ends all waiting: open calls are answered with what they have. */
  stop(): void;
  /** Once no request is open. */
  close(): Promise<void>;
}

interface Admitted {
  readonly actor: AgentActor;
  /** Makes room for another request of the agent before this one is done. */
  readonly release: () => void;
}

/** The headers that the protocol needs. The package gets no others. */
const HEADERS = ['accept', 'content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name'] as const;

/**
 * The Model Context Protocol over HTTP: one request, one answer, and no state in between. It has the checks of the REST
 * interface, in the same order, and its own kind of token.
 */
export function registerMcp({ fastify, otherMethods }: AddressBook, rest: Rest, version: string): McpEndpoint {
  const { context } = rest;
  const { mcpUrl } = context.settings.addresses;
  const metadataUrl = resourceMetadataUrl(mcpUrl);
  /** Ends the wait of each request: in Node.js 20, one signal for all would keep a bit of memory for every request. */
  const open = new Set<AbortController>();
  let isStopping = false;
  // Calls that wait must not keep an agent from using the REST interface.
  const bounds = createWorkBounds(context);
  const subscriptions = createSemaphore({
    max: SUBSCRIPTIONS_MAX,
    waitingMax: 0,
    refusal: 'This agent has too many subscriptions open.',
  });
  let loading: Promise<Handler> | undefined;
  const load = (): Promise<Handler> => {
    loading ??= loadHandler(context, version).catch((error) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };

  const admit = async (request: FastifyRequest, reply: FastifyReply): Promise<Admitted> => {
    requireShortQueue(context);
    requireOwnPage(context, request.headers.origin);
    const actor = await rest.verify(readBearer(request.headers.authorization), mcpUrl);
    if (actor.kind !== 'agent') throw new ServiceError('FORBIDDEN');
    const release = await bounds.begin(actor, request.raw);
    rest.exchanges.whenDone(reply.raw, release);
    // The client is gone, so there is no one to answer.
    if (request.raw.socket.destroyed) throw new ServiceError('VALIDATION_ERROR');
    await takeBudget(context, actor, 'general');
    return { actor, release };
  };

  otherMethods.refuse(MCP_PATH, () => {
    throw methodNotAllowed(['POST']);
  });
  fastify.register(async (scope) => {
    // Bodies are read once it is known that the caller may send one.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
    scope.setErrorHandler((error, _request, reply) =>
      sendAnswer(reply, answerOfError(error, context.log, scopeOf(reply.request.raw), metadataUrl), context.log),
    );
    scope.post(MCP_PATH, async (request, reply) => {
      const { actor, release } = await admit(request, reply);
      const admittedMs = context.clock.monotonic();
      const message = await readJsonBody(request.raw, (body) => rest.bounds.receive(actor, body));
      // Several calls in one request would cost one call of the rate limit.
      if (!isObject(message)) return refuseMessage(reply, context);
      const gone = new AbortController();
      const over = new AbortController();
      if (isStopping) over.abort();
      open.add(over);
      rest.exchanges.whenDone(reply.raw, () => {
        open.delete(over);
        for (const each of [over, gone]) each.abort();
      });
      const { authorization } = request.headers;
      const caller: Caller = {
        actor,
        gone: over.signal,
        recheck: async () => void (await rest.verify(readBearer(authorization), mcpUrl)),
      };
      if (context.clock.monotonic() - admittedMs > ADMITTED_FOR_MS) await caller.recheck();
      const handler = await load();
      const asked = toWebRequest(mcpUrl, request, gone.signal);
      if (!('method' in message) || message.method !== 'subscriptions/listen')
        return sendResponse(reply, await handler.fetch(asked, caller, message));
      rest.exchanges.whenDone(reply.raw, await subscriptions.acquire(actor.agentId));
      const stream = await handler.listen(asked, caller, message);
      // An open stream is not work. It has its own limit.
      release();
      unfollow(request.raw);
      return sendResponse(reply, stream);
    });
  });

  return {
    stop() {
      isStopping = true;
      for (const over of open) over.abort();
    },
    async close() {
      const handler = await loading?.catch(() => undefined);
      await handler?.close();
    },
  };
}

/**
 * A page of another site could use a token that it has, from inside the network of the person who opened it (MCP,
 * transports, security). Programs send no origin.
 */
function requireOwnPage({ settings }: ServiceContext, origin: string | undefined): void {
  if (origin === undefined || origin === new URL(settings.addresses.webUrl).origin) return;
  throw new ServiceError('FORBIDDEN', 'Pages of other sites cannot use this address.');
}

function refuseMessage(reply: FastifyReply, { log }: Pick<ServiceContext, 'log'>): FastifyReply {
  const error = { code: -32600, message: 'The body must be one JSON-RPC message.' };
  return sendAnswer(reply, answerWith(400, JSON_TYPE, JSON.stringify({ jsonrpc: '2.0', id: null, error })), log);
}

function toWebRequest(url: string, { headers }: FastifyRequest, signal: AbortSignal): Request {
  const passed = HEADERS.flatMap((name): [string, string][] => {
    const value = headers[name];
    return typeof value === 'string' ? [[name, value]] : [];
  });
  return new Request(url, { method: 'POST', headers: passed, signal });
}

function sendResponse(reply: FastifyReply, { status, headers, body }: Response): FastifyReply {
  reply.code(status).header('cache-control', 'no-store').header('x-content-type-options', 'nosniff');
  const type = headers.get('content-type');
  if (type !== null) reply.header('content-type', type);
  // nginx would hold back small pieces.
  if (type?.startsWith('text/event-stream') === true) reply.header('x-accel-buffering', 'no');
  return body === null ? reply.send() : reply.send(Readable.fromWeb(body as ReadableStream));
}

async function loadHandler(context: ServiceContext, version: string): Promise<Handler> {
  const { createHandler } = await import('./handler.js');
  return createHandler(context, version);
}
