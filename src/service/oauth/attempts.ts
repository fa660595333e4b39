import { isIPv6 } from 'node:net';
import type { Clock } from '../../kit/clock.js';
import { createWindow } from '../../kit/sliding-window.js';
import { OAuthError } from './parameters.js';

const SUBJECTS_MAX = 50_000;

/** Counts attempts by origin, for limits that the specification's table does not have. */
export interface Attempts {
  /** Whole seconds to wait before the next attempt; 0 if it may happen now. */
  waitS(subject: string): number;
  add(subject: string): void;
  /** Whether one was added within the window. */
  has(subject: string): boolean;
  forget(subject: string): void;
}

/** Counts nothing. */
export const UNCOUNTED: Attempts = { waitS: () => 0, add: () => {}, has: () => false, forget: () => {} };

/** At most `count` attempts in any window of `windowMs`. */
export function createAttempts(clock: Clock, limit: { readonly count: number; readonly windowMs: number }): Attempts {
  const window = createWindow(clock, limit.windowMs, SUBJECTS_MAX);
  return {
    waitS: (subject) => Math.ceil(window.waitMs(subject, limit.count) / 1000),
    add: (subject) => window.add(subject, limit.count),
    has: window.has,
    forget: window.forget,
  };
}

/** Counts an attempt for each subject, unless one of them must wait: then the whole seconds until it may try. */
export function attempt(counted: readonly (readonly [Attempts, subject: string])[]): number {
  const waitS = Math.max(...counted.map(([attempts, subject]) => attempts.waitS(subject)));
  if (waitS === 0) for (const [attempts, subject] of counted) attempts.add(subject);
  return waitS;
}

export function tooManyRequests(waitS: number): OAuthError {
  return new OAuthError('temporarily_unavailable', 'Too many requests. Try again later.', undefined, {
    headers: { 'retry-after': String(waitS) },
  });
}

const GROUPS = 8;

/**
 * The subject of a limit by address: a single IPv4 address, even if it is mapped into IPv6, and an IPv6 address by
 * its first 64 bits, the minimum that one subscriber gets (D-121).
 */
export function toNetwork(address: string): string {
  const groups = parseGroups(address);
  if (groups === undefined) return toPlain(address);
  if (isMapped(groups)) return groups.slice(6).flatMap(toBytes).join('.');
  return `${toPrefix(groups, 4)}::/64`;
}

/** How much more a network of 48 bits may do than one network of 64 bits. */
export const WIDER_FACTOR = 5;

/** The first 48 bits of an IPv6 address, the maximum that a site gets; undefined for IPv4. */
export function toWiderNetwork(address: string): string | undefined {
  const groups = parseGroups(address);
  return groups === undefined || isMapped(groups) ? undefined : `${toPrefix(groups, 3)}::/48`;
}

const toPrefix = (groups: readonly number[], count: number): string =>
  groups
    .slice(0, count)
    .map((group) => group.toString(16))
    .join(':');

const isMapped = (groups: readonly number[]): boolean =>
  groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;

const WITH_PORT = /^(?:\[([^\]]+)\]|([^:]+)):\d{1,5}$/;

/** Without a zone, and without the port that some proxies add: with it, every connection would be a new subject. */
function toPlain(address: string): string {
  const [, ipv6, other] = WITH_PORT.exec(address) ?? [];
  return (ipv6 ?? other ?? address).replace(/%.*$/, '');
}

/** Undefined: it is not an IPv6 address. */
function parseGroups(address: string): number[] | undefined {
  const plain = toPlain(address);
  return isIPv6(plain) ? expand(plain) : undefined;
}

/** The eight groups of an IPv6 address. `URL` writes every form of it in the same way. */
function expand(address: string): number[] {
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const [before, after] = [head, tail].map((half) => half.split(':').filter((group) => group !== '')) as [
    string[],
    string[],
  ];
  const zeros = Array<string>(GROUPS - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}

function toBytes(group: number): [number, number] {
  return [group >> 8, group & 0xff];
}
