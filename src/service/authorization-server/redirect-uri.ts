const LOOPBACK = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?((?:[/?].*)?)$/;
/** The authority stands between the second slash and the next one, and holds no user information. */
const WEB = /^https:\/\/[^/?@]+(?:[/?].*)?$/;
/** A scheme that is a domain name in reverse: at least two labels, then a path (RFC 8252 §7.1). */
const PRIVATE_USE = /^[a-z][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)+:\/(?:(?!\/).*|\/[^/?@]*(?:[/?].*)?)$/;
const PRINTABLE_ASCII = /^[\x21-\x7e]+$/;
const FORBIDDEN = /[#*"<>\\^`{|}]/;
const PORT_MAX = 65_535;

/**
 * Whether a client may register `uri`: https, plain http to this machine (RFC 8252 §7.3, §8.3), or a private-use scheme
 * (RFC 8252 §7.1; wire: OAuth, registration).
 */
export function isRegistrableRedirectUri(uri: string): boolean {
  if (!PRINTABLE_ASCII.test(uri) || FORBIDDEN.test(uri) || !URL.canParse(uri)) return false;
  if (LOOPBACK.test(uri)) return isUsablePort(LOOPBACK.exec(uri)?.[2]);
  return WEB.test(uri) || PRIVATE_USE.test(uri);
}

/** The same text; or loopback addresses that differ in their port and nothing else (RFC 9700 §2.1; RFC 8252 §7.3). */
export function isRegisteredRedirectUri(requested: string, registered: readonly string[]): boolean {
  return registered.some((uri) => uri === requested || isSameLoopback(uri, requested));
}

function isSameLoopback(registered: string, requested: string): boolean {
  const [, host, , rest] = LOOPBACK.exec(registered) ?? [];
  const [, requestedHost, port, requestedRest] = LOOPBACK.exec(requested) ?? [];
  return host !== undefined && host === requestedHost && rest === requestedRest && isUsablePort(port);
}

function isUsablePort(port: string | undefined): boolean {
  return port === undefined || (Number(port) > 0 && Number(port) <= PORT_MAX);
}

/** Who receives an answer at a redirect URI, in the terms of the person who is asked. */
export interface AnswerTarget {
  /** A program on this computer, a website, or the app that has claimed a scheme on this device. */
  readonly kind: 'program' | 'website' | 'app';
  /** Host and port; the scheme of an app. */
  readonly name: string;
  /** What a content security policy calls it (CSP 3 §2.3.1). */
  readonly policySource: string;
}

/** Describes a redirect URI that a client has registered. */
export function describeRedirectUri(redirectUri: string): AnswerTarget {
  const { protocol, host, hostname, origin } = new URL(redirectUri);
  if (protocol !== 'http:' && protocol !== 'https:')
    return { kind: 'app', name: protocol.slice(0, -1), policySource: protocol };
  return {
    kind: protocol === 'http:' ? 'program' : 'website',
    name: host,
    // A source list cannot name an IPv6 address.
    policySource: hostname.startsWith('[') ? protocol : origin,
  };
}

/** Where the answer goes, with `parameters` behind what `redirectUri` has already (RFC 6749 §3.1.2). */
export function withParameters(redirectUri: string, parameters: Readonly<Record<string, string | null>>): string {
  const added = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== null) added.append(name, value);
  const separator = !redirectUri.includes('?') ? '?' : /[?&]$/.test(redirectUri) ? '' : '&';
  return `${redirectUri}${separator}${added}`;
}
