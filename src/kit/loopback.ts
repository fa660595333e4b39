import { promises } from 'node:fs';
import type { Socket } from 'node:net';
import { networkInterfaces } from 'node:os';

const HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|::1|\[::1\])$/;
const PEER = /^(?:::1|(?:::ffff:)?127(?:\.\d{1,3}){3})$/;

/** Whether a host, as written in an address, is this machine itself. */
export function isLoopbackHost(host: string): boolean {
  return HOST.test(host);
}

/** Whether the other end of a connection is on this machine. */
export function isLoopbackPeer(address: string | undefined): boolean {
  return PEER.test(address ?? '');
}

const ESTABLISHED = '01';
const ROOT = 0;

type Connection = Pick<Socket, 'remoteAddress' | 'remotePort' | 'localPort' | 'readyState'>;

/** An address without the marks that the system adds: of IPv4 within IPv6, and of the interface. */
const toPlain = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '').replace(/%.*$/, '');

/** Whether an address is one of this machine: a connection from there may be one of its users. */
export function isOwnAddress(address: string, interfaces = networkInterfaces()): boolean {
  const own = Object.values(interfaces).flatMap((all = []) => all.map((one) => toPlain(one.address)));
  return isLoopbackPeer(address) || own.includes(toPlain(address));
}

/**
 * Whether the other end of a connection belongs to another user of this machine, or is gone, so that no one can tell
 * anymore; root may act for every user. False for other machines. Only Linux shows who owns a connection
 * (proc(5)): elsewhere the answer is false.
 */
export async function isOfAnotherUser(connection: Connection): Promise<boolean> {
  const { remoteAddress, remotePort, localPort } = connection;
  const user = process.getuid?.();
  if (process.platform !== 'linux' || user === undefined) return false;
  if (remoteAddress === undefined) return true;
  const addresses = toTableAddresses(remoteAddress);
  const isAllowed = ({ state, owner }: Line): boolean => state === ESTABLISHED && (owner === user || owner === ROOT);
  for (let reads = 0; reads < READS_MAX && connection.readyState === 'open'; reads += 1) {
    const lines = await readConnections();
    // Without even the port that it came to, the tables are not those of this machine.
    if (!lines.some(({ from }) => from.port === localPort)) return false;
    const theirs = lines.filter(
      ({ from, to }) => from.port === remotePort && to.port === localPort && addresses.includes(from.address),
    );
    if (theirs.length > 0) return !theirs.every(isAllowed);
  }
  return isOwnAddress(remoteAddress);
}

/** Lines may be missing from a table that changes while it is read. */
const READS_MAX = 3;

async function readConnections(): Promise<Line[]> {
  const read = (table: string): Promise<string> => promises.readFile(`/proc/net/${table}`, 'utf8').catch(() => '');
  return (await Promise.all([read('tcp'), read('tcp6')])).flatMap((text) => text.split('\n').map(readLine));
}

interface End {
  readonly address: string;
  readonly port: number;
}

interface Line {
  readonly from: End;
  readonly to: End;
  readonly state: string;
  readonly owner: number;
}

function readLine(text: string): Line {
  const [, from = '', to = '', state = '', , , , owner = ''] = text.trim().split(/\s+/);
  return { from: readEnd(from), to: readEnd(to), state, owner: Number.parseInt(owner, 10) };
}

function readEnd(text: string): End {
  const [address = '', port = ''] = text.split(':');
  return { address, port: Number.parseInt(port, 16) };
}

/** An address in the tables of IPv4 and IPv6: four bytes at a time, in the order of the processor. */
export function toTableAddresses(address: string): string[] {
  const plain = toPlain(address);
  if (plain.includes(':')) return [toWords(toBytes(plain))];
  const word = toWords(plain.split('.').map(Number));
  return [word, `${'0'.repeat(16)}FFFF0000${word}`];
}

function toWords(bytes: readonly number[]): string {
  const words = Array.from({ length: bytes.length / 4 }, (_, index) => bytes.slice(4 * index, 4 * index + 4));
  return Buffer.from(words.flatMap((word) => word.toReversed()))
    .toString('hex')
    .toUpperCase();
}

/** The 16 bytes of an IPv6 address; `::` stands for the groups that are not written. */
function toBytes(address: string): number[] {
  const [before = [], after = []] = address
    .split('::')
    .map((text) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16))));
  const zeros = Array<number>(8 - before.length - after.length).fill(0);
  return [...before, ...zeros, ...after].flatMap((group) => [group >> 8, group & 0xff]);
}
