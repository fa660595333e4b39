import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';

import { newWebhookSecret } from '../../src/kit/webhook.js';

/** A call of a webhook, after its signature was verified. */
interface Call {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly json: Readonly<Record<string, unknown>>;
}

type Answer = (reply: ServerResponse, call: Call) => void;

/** A server on this machine that takes webhooks. */
export interface WebhookReceiver {
  readonly secret: string;
  /** All calls in order, however they were answered. */
  readonly calls: Call[];
  /** Why calls were refused as malformed. */
  readonly faults: unknown[];
  /** Calls that have not been answered. */
  readonly open: ReadonlySet<ServerResponse>;
  url(path?: string): string;
  /** Those at a path, without tests. */
  eventsAt(path: string): Call[];
  /** Answers in place of 204, until it is called again without an answer. */
  answer(answer?: Answer): void;
  close(): Promise<void>;
}

export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const secret = newWebhookSecret();
  const verifier = new Webhook(secret);
  const calls: Call[] = [];
  const faults: unknown[] = [];
  const open = new Set<ServerResponse>();
  let custom: Answer | undefined;
  const server = createServer(async (incoming, reply) => {
    open.add(reply);
    reply.once('close', () => open.delete(reply));
    const chunks: Buffer[] = [];
    for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString('utf8');
    try {
      const timestamp = Number(incoming.headers['webhook-timestamp']);
      // The library refuses calls from another time than now; the clock of a test may be ahead.
      const isNow = Math.abs(timestamp - Date.now() / 1000) < 60;
      if (isNow) verifier.verify(body, incoming.headers as Record<string, string>);
      const call: Call = {
        path: incoming.url ?? '',
        headers: incoming.headers,
        json: JSON.parse(body) as Call['json'],
      };
      calls.push(call);
      if (custom === undefined) reply.writeHead(204).end();
      else custom(reply, call);
    } catch (error) {
      faults.push(error);
      reply.writeHead(400).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    secret,
    calls,
    faults,
    open,
    url: (path = '/hook') => `http://127.0.0.1:${port}${path}`,
    eventsAt: (path) => calls.filter((call) => call.path === path && call.json['type'] !== 'webhook.test'),
    answer(answer) {
      custom = answer;
    },
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
