import { isIPv6 } from 'node:net';

const GROUPS = 8;

/**
 * Whom a limit by address counts: an IPv4 address by itself, also where it comes mapped into IPv6, and an IPv6 address by
 * its first 64 bits, which are what one subscriber is given at least (D-121).
 */
export function networkOf(address: string): string {
  const groups = groupsOf(address);
  if (groups === undefined) return address.replace(/%.*$/, '');
  if (isMapped(groups)) return groups.slice(6).flatMap(bytesOf).join('.');
  return `${prefixOf(groups, 4)}::/64`;
}

/** The first 48 bits of an IPv6 address, which are what a site is given at most; undefined for IPv4. */
export function widerNetworkOf(address: string): string | undefined {
  const groups = groupsOf(address);
  return groups === undefined || isMapped(groups) ? undefined : `${prefixOf(groups, 3)}::/48`;
}

const prefixOf = (groups: readonly number[], count: number): string =>
  groups
    .slice(0, count)
    .map((group) => group.toString(16))
    .join(':');

const isMapped = (groups: readonly number[]): boolean =>
  groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;

/** Undefined: it is no IPv6 address. */
function groupsOf(address: string): number[] | undefined {
  const plain = address.replace(/%.*$/, '');
  return isIPv6(plain) ? expand(plain) : undefined;
}

/** The eight groups of an IPv6 address. `URL` writes every form of it in one. */
function expand(address: string): number[] {
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const [before, after] = [head, tail].map((half) => half.split(':').filter((group) => group !== '')) as [
    string[],
    string[],
  ];
  const zeros = Array<string>(GROUPS - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}

function bytesOf(group: number): [number, number] {
  return [group >> 8, group & 0xff];
}
