import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DASHBOARD_STYLE } from '../assets.js';

export const STYLESHEET_ROUTE = '/dashboard/styles/:name';

const HASH = createHash('sha256').update(DASHBOARD_STYLE).digest('base64url').slice(0, 20);
/** Where pages find their style. Another style has another path. */
export const STYLESHEET_PATH = STYLESHEET_ROUTE.replace(':name', `${HASH}.css`);

/** Each compresses the style once, when a browser first asks for it. The style holds no secret that its length could tell. */
const COMPRESSED = { br: promisify<string, Buffer>(brotliCompress), gzip: promisify<string, Buffer>(gzip) } as const;
type Encoding = keyof typeof COMPRESSED;
const compressed = new Map<Encoding, Promise<Buffer>>();

function compress(encoding: Encoding): Promise<Buffer> {
  const known = compressed.get(encoding) ?? COMPRESSED[encoding](DASHBOARD_STYLE);
  compressed.set(encoding, known);
  return known;
}

/** The smallest form that the browser understands; undefined: as it is (RFC 9110 §12.5.3). */
function chooseEncoding(accepted = ''): Encoding | undefined {
  const names = accepted
    .toLowerCase()
    .split(',')
    .filter((one) => !/;\s*q=0(?:\.0*)?\s*$/.test(one))
    .map((one) => one.split(';')[0]?.trim());
  return (['br', 'gzip'] as const).find((encoding) => names.includes(encoding));
}

/**
 * For everyone, because pages need it before anyone has signed in. A page of another version gets this version's style,
 * which fits better than none, but must ask again next time.
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
