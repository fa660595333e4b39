import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';

import { newWebhookSecret } from '../../src/kit/webhook.js';
import { type Actor, callApi, type Operator } from './actors.js';
import { mustGrant } from './grants.js';
import type { Answer as HttpAnswer } from './http.js';
import { field } from './json.js';
import type { Place } from './oauth.js';

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
  /** The contents of the messages at a path. */
  textsAt(path: string): unknown[];
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
  const eventsAt = (path: string): Call[] =>
    calls.filter((call) => call.path === path && call.json['type'] !== 'webhook.test');
  return {
    secret,
    calls,
    faults,
    open,
    url: (path = '/hook') => `http://127.0.0.1:${port}${path}`,
    eventsAt,
    textsAt: (path) =>
      eventsAt(path)
        .filter(({ json }) => json['type'] === 'session.message')
        .map(({ json }) => field(field(json, 'payload'), 'content')),
    answer(answer) {
      custom = answer;
    },
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

const TOKEN_AGE_MAX_MS = 10 * 60_000;
/** Tokens of the accounts of agents, by handle, and when each was made. */
const tokens = new Map<string, { readonly token: string; readonly madeAt: number }>();

interface WebhookService {
  readonly place: Place;
  readonly operator: Operator;
}

/** A token of the account of an agent. `now` is the time of the service. */
export async function accountTokenOf(
  { place, operator }: WebhookService,
  handle: string,
  now = Date.now(),
): Promise<string> {
  const known = tokens.get(handle);
  if (known !== undefined && Math.abs(now - known.madeAt) < TOKEN_AGE_MAX_MS) return known.token;
  const scope = 'account:read account:agents:read';
  const { accessToken: token } = await mustGrant(place, operator, handle, { scope });
  tokens.set(handle, { token, madeAt: now });
  return token;
}

/** Calls the webhook endpoint of an agent as its account. */
export async function askWebhook(
  service: WebhookService,
  { handle, owner, name }: Pick<Actor, 'handle' | 'owner' | 'name'>,
  method: string,
  body?: unknown,
  now?: number,
): Promise<HttpAnswer> {
  const token = await accountTokenOf(service, handle, now);
  return callApi(service.place.baseUrl, token, method, `/agents/${owner}/${name}/webhook`, body);
}
