import { describe, expect, it } from 'vitest';
import { isOwnAddress, toTableAddresses } from '../../src/kit/loopback.js';

const INTERFACES = {
  lo: [{ address: '127.0.0.1' }, { address: '::1' }],
  eth0: [{ address: '192.0.2.7' }, { address: '2001:db8::7' }, { address: 'fe80::7' }],
} as unknown as Parameters<typeof isOwnAddress>[1];

describe('An address', () => {
  it.each(['127.0.0.1', '127.9.9.9', '::1', '192.0.2.7', '::ffff:192.0.2.7', '2001:db8::7', 'fe80::7', 'fe80::7%eth0'])(
    'is one of this machine: %s',
    (address) => expect(isOwnAddress(address, INTERFACES)).toBe(true),
  );

  it.each(['192.0.2.8', '::ffff:192.0.2.8', '2001:db8::8', 'fe80::8%eth0', ''])(
    'is one of another machine: %s',
    (address) => expect(isOwnAddress(address, INTERFACES)).toBe(false),
  );

  it.each([
    ['127.0.0.1', ['0100007F', '0000000000000000FFFF00000100007F']],
    ['::ffff:192.0.2.7', ['070200C0', '0000000000000000FFFF0000070200C0']],
    ['::1', ['00000000000000000000000001000000']],
    ['2001:db8::7', ['B80D0120000000000000000007000000']],
    ['fe80::7%eth0', ['000080FE000000000000000007000000']],
    ['2001:db8:1:2:3:4:5:6', ['B80D0120020001000400030006000500']],
  ])('is found in the tables of Linux: %s', (address, found) => expect(toTableAddresses(address)).toEqual(found));
});
