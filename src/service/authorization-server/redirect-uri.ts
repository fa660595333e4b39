const LOOPBACK = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]))(?::(\d{1,5}))?((?:[/?].*)?)$/;
const PRINTABLE_ASCII = /^[\x21-\x7e]+$/;
const FORBIDDEN = /[#*"<>\\^`{|}]/;
const USER_INFO = /^https:\/\/[^/?]*@/;
const PORT_MAX = 65_535;

/** Whether a client may register `uri`: an https address, or a loopback literal over http (RFC 8252 §7.3, §8.3; wire: OAuth). */
export function isRegistrableRedirectUri(uri: string): boolean {
  if (!PRINTABLE_ASCII.test(uri) || FORBIDDEN.test(uri)) return false;
  if (LOOPBACK.test(uri)) return isUsablePort(LOOPBACK.exec(uri)?.[2]) && URL.canParse(uri);
  if (!uri.startsWith('https://') || USER_INFO.test(uri) || !URL.canParse(uri)) return false;
  return new URL(uri).hostname !== '';
}

/** The same text; or loopback literals that differ in their port and nothing else (RFC 9700 §2.1; RFC 8252 §7.3). */
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

/** Where the answer goes, with `parameters` behind what `redirectUri` has already (RFC 6749 §3.1.2). */
export function withParameters(redirectUri: string, parameters: Readonly<Record<string, string | null>>): string {
  const added = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== null) added.append(name, value);
  const separator = !redirectUri.includes('?') ? '?' : /[?&]$/.test(redirectUri) ? '' : '&';
  return `${redirectUri}${separator}${added}`;
}
