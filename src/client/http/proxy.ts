import { isLoopback } from './address.js';

/** Which proxy stands between this machine and a service. Loopback addresses never use one. */
export interface ProxySettings {
  /** The proxy's address for `url`, or undefined for none. */
  proxyFor(url: URL): URL | undefined;
}

/** No proxy at all. */
export const noProxy: ProxySettings = { proxyFor: () => undefined };

/**
 * The proxy that `HTTPS_PROXY`, or else `ALL_PROXY`, names (lower case too), except for what `NO_PROXY` lists: `*`, a host,
 * a domain with or without its leading dot (its subdomains too), either with `:port`, or an IPv4 range such as `10.0.0.0/8`.
 */
export function proxyFromEnvironment(environment: Readonly<Record<string, string | undefined>>): ProxySettings {
  const names = ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'];
  const named = names.map((name) => environment[name]).find((value) => value !== undefined && value !== '');
  if (named === undefined) return noProxy;
  const text = named.includes('://') ? named : `http://${named}`;
  const proxy = URL.canParse(text) ? new URL(text) : undefined;
  if (proxy === undefined || (proxy.protocol !== 'http:' && proxy.protocol !== 'https:')) return noProxy;
  const exceptions = (environment['no_proxy'] ?? environment['NO_PROXY'] ?? '')
    .split(/[\s,]+/)
    .filter((entry) => entry !== '');
  return {
    proxyFor(url) {
      if (isLoopback(url) || exceptions.some((entry) => isExcepted(entry.toLowerCase(), url))) return undefined;
      return proxy;
    },
  };
}

function isExcepted(entry: string, url: URL): boolean {
  if (entry === '*') return true;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const range = /^(\d+\.\d+\.\d+\.\d+)\/(\d+)$/.exec(entry);
  if (range !== null) return isInRange(host, range[1] ?? '', Number(range[2]));
  const withPort = /^(.*?)(?::(\d+))?$/.exec(entry.replace(/^\[([^\]]*)\]/, '$1'));
  const port = url.port === '' ? '443' : url.port;
  if (withPort?.[2] !== undefined && !entry.includes('::') && withPort[2] !== port) return false;
  const domain = (withPort?.[1] ?? entry).replace(/^\*?\./, '');
  return host === domain || host.endsWith(`.${domain}`);
}

function isInRange(host: string, network: string, bits: number): boolean {
  const [address, base] = [ipv4(host), ipv4(network)];
  if (address === undefined || base === undefined || bits > 32) return false;
  const size = 2 ** (32 - bits);
  return Math.floor(address / size) === Math.floor(base / size);
}

function ipv4(text: string): number | undefined {
  const parts = text.split('.').map(Number);
  if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) return undefined;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}
