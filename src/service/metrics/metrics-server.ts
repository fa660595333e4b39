import { createServer } from 'node:http';

import type { Log } from '../context.js';
import { listen } from '../listen.js';
import { createHostGuard, loopbackNames } from '../rest/host-guard.js';
import { ServiceError } from '../service-error.js';
import type { Metrics } from './metrics.js';

const HOST = '127.0.0.1';
const PATH = '/metrics';

export interface MetricsServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Offers the metrics to programs on this machine, on a port of their own: the service's own address never shows them (D-60). */
export async function serveMetrics(metrics: Metrics, port: number, log: Log): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    const answer = (status: number, type: string, text: string): void => {
      response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(text);
    };
    try {
      guardHost(request);
    } catch (error) {
      return answer(error instanceof ServiceError ? error.status : 500, 'text/plain', '');
    }
    if (request.url?.split('?', 1)[0] !== PATH) return answer(404, 'text/plain', '');
    if (request.method !== 'GET') return answer(405, 'text/plain', '');
    metrics.read().then(
      ({ type, text }) => answer(200, type, text),
      (error) => {
        log.error('metrics_failed', error);
        answer(500, 'text/plain', '');
      },
    );
  });
  const bound = await listen(server, HOST, port);
  const url = `http://${HOST}:${bound}${PATH}`;
  const guardHost = createHostGuard(loopbackNames(bound, url));
  return {
    url,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
