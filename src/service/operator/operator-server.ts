import type { RequestListener } from 'node:http';
import type { FastifyInstance } from 'fastify';

import type { ServiceContext } from '../context.js';
import { listen } from '../listen.js';
import { createApp } from '../rest/create-app.js';
import { createHostGuard, loopbackNames } from '../rest/host-guard.js';
import { createHttpServer } from '../rest/http-server.js';
import { OPERATOR_PATH, type OperatorOptions, registerOperator } from './register-operator.js';

const HOST = '127.0.0.1';

export interface OperatorServer {
  /** Below it the operator's endpoints are. */
  readonly url: string;
  close(): Promise<void>;
}

interface Offer {
  /** Where the service's own address is for this machine; undefined: nowhere. */
  readonly root: string | undefined;
  readonly options: OperatorOptions;
}

/** Mounts the operator's endpoints on the service's own address where that tells who is on this machine, else beside it. */
export async function offerOperator(
  app: FastifyInstance,
  context: ServiceContext,
  { root, options }: Offer,
): Promise<OperatorServer> {
  if (root === undefined) return serveOperator(context, options);
  registerOperator(app, context, options);
  return { url: `${root}${OPERATOR_PATH}`, close: async () => {} };
}

/** The operator's endpoints on a port of their own, for a service whose own address is reached through somebody else. */
async function serveOperator(context: ServiceContext, options: OperatorOptions): Promise<OperatorServer> {
  let listener: RequestListener = (_request, response) => response.writeHead(503).end();
  const server = createHttpServer((request, response) => listener(request, response));
  const port = await listen(server, HOST, 0);
  const root = `http://${HOST}:${port}`;
  const app = createApp({
    server,
    useListener: (next) => {
      listener = next;
    },
    guardHost: createHostGuard(loopbackNames(port, root)),
    isBehindProxy: false,
    clock: context.clock,
    log: context.log,
    meter: context.meter,
  });
  registerOperator(app.fastify, context, options);
  await app.fastify.ready();
  return {
    url: `${root}${OPERATOR_PATH}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
      await app.fastify.close();
    },
  };
}
