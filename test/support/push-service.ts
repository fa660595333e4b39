import { createDecipheriv, createECDH, createHmac, createPublicKey, type ECDH, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { jwtVerify } from 'jose';

import type { OutsideNetwork } from '../../src/service/core/public-internet.js';
import { type Authority, createAuthority } from './certificates.js';

const HOST = 'push.example';

/** What a browser gives to the service after it has subscribed. */
export interface Subscription {
  readonly endpoint: string;
  readonly p256dh: string;
  readonly auth: string;
}

/** A message that the push service accepted, as the browser decrypts it. */
export interface Pushed {
  readonly endpoint: string;
  readonly json: Readonly<Record<string, unknown>>;
  readonly headers: IncomingMessage['headers'];
  /** The claims of the JWT with which the sender identified itself. */
  readonly claims: Readonly<Record<string, unknown>>;
}

type Answer = (reply: ServerResponse) => void;

/** A push service on this machine that is as strict as the standards: RFC 8030, 8188, 8291 and 8292. */
export interface PushService {
  readonly network: OutsideNetwork;
  readonly host: string;
  /** Everything that was accepted, oldest first. */
  readonly pushed: Pushed[];
  /** The endpoints of all requests, accepted or not. */
  readonly asked: string[];
  /** Why it refused messages as malformed. */
  readonly faults: string[];
  /** Whether no request is on its way. */
  isIdle(): boolean;
  /** A new browser, for the sender with that public key. */
  subscribe(senderKey: string): Subscription;
  /** Answers the next messages to a browser in place of the push service. */
  answerNext(to: Subscription, ...answers: readonly Answer[]): void;
  /** Answers every request until it is called again without an answer. */
  answerAll(answer?: Answer): void;
  close(): Promise<void>;
}

interface Receiver {
  readonly keys: ECDH;
  readonly auth: Buffer;
  readonly senderKey: string;
}

/** Starts one. `folder` gets its certificates. */
export async function startPushService(folder: string): Promise<PushService> {
  const authority: Authority = createAuthority(folder);
  const own = authority.issue(HOST);
  const receivers = new Map<string, Receiver>();
  const pushed: Pushed[] = [];
  const asked: string[] = [];
  const faults: string[] = [];
  const nextAnswers = new Map<string, Answer[]>();
  let usualAnswer: Answer | undefined;
  const origin = (): string => `https://${HOST}:${(server.address() as AddressInfo).port}`;
  const take = async (incoming: IncomingMessage, reply: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
    const endpoint = `${origin()}${incoming.url ?? ''}`;
    asked.push(endpoint);
    const answer = nextAnswers.get(endpoint)?.shift() ?? usualAnswer;
    if (answer !== undefined) return answer(reply);
    const receiver = receivers.get(endpoint);
    if (receiver === undefined) return void reply.writeHead(404).end();
    const claims = await verifySender(incoming, receiver, origin());
    requireValidHeaders(incoming);
    const json = JSON.parse(decrypt(Buffer.concat(chunks), receiver).toString('utf8')) as Pushed['json'];
    pushed.push({ endpoint, json, headers: incoming.headers, claims });
    reply.writeHead(201, { location: `${origin()}/message/${pushed.length}` }).end();
  };
  const server = createServer(
    { cert: readFileSync(own.certificate), key: readFileSync(own.key) },
    (incoming, reply) => {
      take(incoming, reply).catch((error: unknown) => {
        faults.push(error instanceof Error ? error.message : String(error));
        reply.writeHead(400).end();
      });
    },
  );
  let connections = 0;
  server.on('connection', (socket) => {
    connections += 1;
    socket.once('close', () => {
      connections -= 1;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    network: {
      resolve: async (hostname) => (hostname === HOST ? ['127.0.0.1'] : []),
      isAllowed: (address) => address === '127.0.0.1',
      ca: readFileSync(authority.file, 'utf8'),
    },
    get host() {
      return new URL(origin()).host;
    },
    pushed,
    asked,
    faults,
    isIdle: () => connections === 0,
    subscribe(senderKey) {
      const keys = createECDH('prime256v1');
      keys.generateKeys();
      const auth = randomBytes(16);
      const endpoint = `${origin()}/push/${randomBytes(32).toString('base64url')}`;
      receivers.set(endpoint, { keys, auth, senderKey });
      return { endpoint, p256dh: keys.getPublicKey('base64url'), auth: auth.toString('base64url') };
    },
    answerNext: ({ endpoint }, ...answers) => void nextAnswers.set(endpoint, [...answers]),
    answerAll(answer) {
      usualAnswer = answer;
    },
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** RFC 8292: the sender is the one for which the browser subscribed, and names a contact. */
async function verifySender(
  { headers }: IncomingMessage,
  { senderKey }: Receiver,
  audience: string,
): Promise<Readonly<Record<string, unknown>>> {
  const [, token = '', key = ''] = /^vapid t=([^,\s]+), ?k=(\S+)$/.exec(headers.authorization ?? '') ?? [];
  if (key !== senderKey) throw new Error('the key is not that of the subscription');
  const point = Buffer.from(key, 'base64url');
  const x = point.subarray(1, 33).toString('base64url');
  const y = point.subarray(33).toString('base64url');
  const publicKey = createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  const { payload } = await jwtVerify(token, publicKey, { algorithms: ['ES256'], audience });
  const lifetimeS = Number(payload.exp) - Date.now() / 1000;
  if (!(lifetimeS > 0 && lifetimeS <= 24 * 60 * 60)) throw new Error('the token must expire within 24 hours');
  if (!/^(?:mailto:|https:)/.test(payload.sub ?? '')) throw new Error('the contact is missing');
  return payload;
}

/** RFC 8030 §5. */
function requireValidHeaders({ headers, method }: IncomingMessage): void {
  if (method !== 'POST') throw new Error('not a POST');
  if (!/^\d+$/.test(String(headers['ttl']))) throw new Error('no TTL');
  if (headers['content-encoding'] !== 'aes128gcm') throw new Error('another content encoding');
  const { topic, urgency } = headers;
  if (topic !== undefined && !/^[\w-]{1,32}$/.test(String(topic))) throw new Error('a malformed topic');
  if (urgency !== undefined && !/^(?:very-low|low|normal|high)$/.test(String(urgency)))
    throw new Error('an unknown urgency');
}

const hmac = (key: Buffer, ...parts: readonly (Buffer | string)[]): Buffer => {
  const digest = createHmac('sha256', key);
  for (const part of parts) digest.update(part);
  return digest.digest();
};
const LAST_RECORD = 2;
const MESSAGE_MAX_BYTES = 4_096;

/** Decrypts a message as a browser does (RFC 8291 §3.4, RFC 8188 §2). */
function decrypt(body: Buffer, { keys, auth }: Receiver): Buffer {
  if (body.length > MESSAGE_MAX_BYTES) throw new Error('the message is too large');
  const salt = body.subarray(0, 16);
  const keyLength = body.readUInt8(20);
  const sender = body.subarray(21, 21 + keyLength);
  const record = body.subarray(21 + keyLength);
  if (record.length > body.readUInt32BE(16)) throw new Error('more than one record');
  const shared = hmac(auth, keys.computeSecret(sender));
  const input = hmac(shared, 'WebPush: info\0', keys.getPublicKey(), sender, '\x01');
  const secret = hmac(salt, input);
  const key = hmac(secret, 'Content-Encoding: aes128gcm\0\x01').subarray(0, 16);
  const nonce = hmac(secret, 'Content-Encoding: nonce\0\x01').subarray(0, 12);
  const decipher = createDecipheriv('aes-128-gcm', key, nonce);
  decipher.setAuthTag(record.subarray(-16));
  const padded = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()]);
  const end = padded.findLastIndex((byte) => byte !== 0);
  if (padded[end] !== LAST_RECORD) throw new Error('the padding is malformed');
  return padded.subarray(0, end);
}
