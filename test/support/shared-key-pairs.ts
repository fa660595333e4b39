import type { webcrypto } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** This many consecutive services have different keys. */
const PAIRS = 16;
/** The parameters with which a service creates its first signing key. */
const WANTED = { name: 'RSASSA-PKCS1-v1_5', modulusLength: 2048 };

type Pair = webcrypto.CryptoKeyPair;
type Generate = (
  algorithm: webcrypto.RsaHashedKeyGenParams,
  isExtractable: boolean,
  usages: webcrypto.KeyUsage[],
) => Promise<Pair>;

const { subtle } = globalThis.crypto;
const prototype = Object.getPrototypeOf(subtle) as { generateKey: Generate & { isShared?: true } };

/**
 * Shares a few key pairs among the services that run inside test processes. Generating one takes a tenth of a second of
 * CPU time, and the tests start a service a thousand times. The pairs are generated on first use and shared by all
 * processes of a run.
 */
function shareKeyPairs(generate: Generate, folder: string): Generate & { isShared: true } {
  const pairs: (Promise<Pair> | undefined)[] = [];
  let next = process.pid;

  const load = async (at: number, [algorithm, isExtractable, usages]: Parameters<Generate>): Promise<Pair> => {
    const file = join(folder, `key-pair-${at}.json`);
    try {
      const { privateKey, publicKey } = JSON.parse(readFileSync(file, 'utf8')) as Record<
        keyof Pair,
        webcrypto.JsonWebKey
      >;
      return {
        privateKey: await subtle.importKey('jwk', privateKey, algorithm, isExtractable, ['sign']),
        publicKey: await subtle.importKey('jwk', publicKey, algorithm, true, ['verify']),
      };
    } catch {
      const pair = await generate.call(subtle, algorithm, isExtractable, usages);
      const [privateKey, publicKey] = await Promise.all([
        subtle.exportKey('jwk', pair.privateKey),
        subtle.exportKey('jwk', pair.publicKey),
      ]);
      writeFileSync(`${file}.${process.pid}`, JSON.stringify({ privateKey, publicKey }), { mode: 0o600 });
      renameSync(`${file}.${process.pid}`, file);
      return pair;
    }
  };

  const shared: Generate = (...wanted) => {
    const [{ name, modulusLength }, isExtractable] = wanted;
    if (name !== WANTED.name || modulusLength !== WANTED.modulusLength || !isExtractable)
      return generate.call(subtle, ...wanted);
    const at = next % PAIRS;
    next += 1;
    const pair = pairs[at] ?? load(at, wanted);
    pairs[at] = pair;
    return pair;
  };
  return Object.assign(shared, { isShared: true as const });
}

const folder = process.env['ASP_TEST_FOLDER'];
if (folder !== undefined && prototype.generateKey.isShared !== true)
  prototype.generateKey = shareKeyPairs(prototype.generateKey, folder);
