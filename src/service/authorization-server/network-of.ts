import { isIPv6 } from 'node:net';

const GROUPS = 8;

/**
 * Whom a limit by address counts: an IPv4 address by itself, also where it comes mapped into IPv6, and an IPv6 address by
 * its first 64 bits, which are what one subscriber is given at least (D-121).
 */
export function networkOf(address: string): string {
  const plain = address.replace(/%.*$/, '');
  if (!isIPv6(plain)) return plain;
  const groups = expand(plain);
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isMapped) return groups.slice(6).flatMap(bytesOf).join('.');
  const prefix = groups.slice(0, 4).map((group) => group.toString(16));
  return `${prefix.join(':')}::/64`;
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
