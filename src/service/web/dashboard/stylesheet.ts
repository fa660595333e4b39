import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DASHBOARD_STYLE } from '../assets.js';

export const STYLESHEET_ROUTE = '/dashboard/styles/:name';

const HASH = createHash('sha256').update(DASHBOARD_STYLE).digest('base64url').slice(0, 20);
/** Where pages find their style. Another style has another path. */
export const STYLESHEET_PATH = STYLESHEET_ROUTE.replace(':name', `${HASH}.css`);

/** The style holds no secret, so its compressed length gives nothing away. */
const COMPRESS = { br: promisify<string, Buffer>(brotliCompress), gzip: promisify<string, Buffer>(gzip) } as const;
type Encoding = keyof typeof COMPRESS;
const compressed = new Map<Encoding, Promise<Buffer>>();

/** Once for each encoding, when a browser first asks for it. */
function compress(encoding: Encoding): Promise<Buffer> {
  const known = compressed.get(encoding) ?? COMPRESS[encoding](DASHBOARD_STYLE);
  compressed.set(encoding, known);
  return known;
}

/** The best encoding that the browser accepts; undefined: none (RFC 9110 §12.5.3). */
function chooseEncoding(accepted: string): Encoding | undefined {
  const names = accepted
    .toLowerCase()
    .split(',')
    .filter((one) => !/;\s*q=0(?:\.0*)?\s*$/.test(one))
    .map((one) => one.split(';')[0]?.trim());
  return (['br', 'gzip'] as const).find((encoding) => names.includes(encoding));
}

/**
 * For everyone: people who open a shared session are not signed in. A page of another version gets this version's style,
 * which is better than none, but must ask again next time.
 */
export async function sendStylesheet(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const encoding = chooseEncoding(String(request.headers['accept-encoding'] ?? ''));
  const isCurrent = request.url.split('?', 1)[0] === STYLESHEET_PATH;
  reply.headers({
    'content-type': 'text/css; charset=utf-8',
    'cache-control': isCurrent ? 'public, max-age=31536000, immutable' : 'no-store',
    vary: 'accept-encoding',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  });
  if (encoding === undefined) return reply.send(DASHBOARD_STYLE);
  return reply.header('content-encoding', encoding).send(await compress(encoding));
}
