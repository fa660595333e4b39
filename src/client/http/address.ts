import { isLoopbackHost } from '../../kit/loopback.js';
import { RequestError } from './request-error.js';

/**
 * `text` as an address that tokens may be sent to: https or wss, or their plain forms on loopback (OAuth 2.1 §1.5).
 * @throws RequestError `ASP_INSECURE_ADDRESS`.
 */
export function secureUrl(text: string, what = 'address'): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isSecure = url?.protocol === 'https:' || url?.protocol === 'wss:';
  const isPlain = url?.protocol === 'http:' || url?.protocol === 'ws:';
  if (
    url !== undefined &&
    url.username === '' &&
    url.password === '' &&
    (isSecure || (isPlain && isLoopbackHost(url.hostname)))
  )
    return url;
  throw new RequestError({
    code: 'ASP_INSECURE_ADDRESS',
    message: `The ${what} is not an https address (http works only on this machine).`,
  });
}

/** Whether `url` lies at or below `base`: same origin, and the path of `base` as leading segments. */
export function isBelow(base: URL, url: URL): boolean {
  const prefix = base.pathname.endsWith('/') ? base.pathname : `${base.pathname}/`;
  return url.origin === base.origin && (url.pathname === base.pathname || url.pathname.startsWith(prefix));
}

/** The addresses of a service. Only `baseUrl` is required; the rest is discovered (spec: Discovery; RFC 9728 §3). */
export interface ServiceAddresses {
  /** The REST resource, which usually ends in `/v1`. */
  readonly baseUrl: string;
  /** The authorization server's issuer. */
  readonly authUrl?: string | undefined;
  /** The WebSocket resource and address. */
  readonly wsUrl?: string | undefined;
}

/** The addresses as the service writes them: a base URL ends without a slash. */
export function readAddresses(service: ServiceAddresses): ServiceAddresses {
  return { ...service, baseUrl: service.baseUrl.replace(/\/+$/, '') };
}
