import type { webcrypto } from 'node:crypto';

import type { World } from './world.js';

const { subtle } = globalThis.crypto;
/** Limits how often a run rotates its keys, because generating a pair takes long. */
export const ROTATIONS_MAX = 3;

/**
 * Controls the platform's cryptography, which works on other threads. Each call waits for its turn, and nothing else
 * runs until it is done. All runs get the same few key pairs, in the same order.
 */
export interface Cryptography {
  /** Makes this run the caller, and starts over with the key pairs. */
  use(world: World): void;
  restore(): void;
}

export async function guardCryptography(): Promise<Cryptography> {
  const algorithm = {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
  };
  const pairs: webcrypto.CryptoKeyPair[] = [];
  for (let count = 0; count <= ROTATIONS_MAX; count += 1)
    pairs.push(await subtle.generateKey(algorithm, true, ['sign', 'verify']));
  let world: World | undefined;
  let given = 0;

  const guard = (name: 'sign' | 'verify' | 'digest'): void => {
    const real = subtle[name].bind(subtle) as (...given: unknown[]) => Promise<unknown>;
    const guarded = async (...parameters: unknown[]): Promise<unknown> => {
      await world?.turn('sign');
      return world === undefined ? real(...parameters) : world.outside(real(...parameters));
    };
    Object.defineProperty(subtle, name, { value: guarded, configurable: true, writable: true });
  };
  const names = ['sign', 'verify', 'digest'] as const;
  for (const name of names) guard(name);
  const nextPair = async (): Promise<webcrypto.CryptoKeyPair> => {
    await world?.turn('sign');
    const pair = pairs[given];
    given += 1;
    if (pair === undefined) throw new Error('This run has had all key pairs.');
    return pair;
  };
  Object.defineProperty(subtle, 'generateKey', { value: nextPair, configurable: true, writable: true });

  return {
    use(next) {
      // The first pair belongs to the starting state.
      given = world === undefined ? 0 : 1;
      world = next;
    },
    restore() {
      for (const name of [...names, 'generateKey'] as const) Reflect.deleteProperty(subtle, name);
    },
  };
}
