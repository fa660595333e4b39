// Generating a key pair or hashing a password takes a tenth of a second of CPU time, and the tests start a service more than a
// thousand times and send a password almost as often. So services take the next of a few pairs, which are generated on first use and
// shared by all processes of a run, and scrypt gets a smaller cost. Test processes load this file at their start; a service in its
// own process does so with `--import`, `?folder=…&next=…`.
import crypto from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

/** This many consecutive services have different keys. */
const PAIRS = 16;
/** The parameters with which a service creates its first signing key. */
const WANTED = { name: 'RSASSA-PKCS1-v1_5', modulusLength: 2048 };

const { subtle } = globalThis.crypto;
const prototype = Object.getPrototypeOf(subtle);

function shareKeyPairs(generate, folder, first) {
  const pairs = [];
  let next = first;

  const load = async (at, [algorithm, isExtractable, usages]) => {
    const file = join(folder, `key-pair-${at}.json`);
    try {
      const { privateKey, publicKey } = JSON.parse(readFileSync(file, 'utf8'));
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

  const shared = (...wanted) => {
    const [{ name, modulusLength }, isExtractable] = wanted;
    if (name !== WANTED.name || modulusLength !== WANTED.modulusLength || !isExtractable)
      return generate.call(subtle, ...wanted);
    const at = next % PAIRS;
    next += 1;
    pairs[at] ??= load(at, wanted);
    return pairs[at];
  };
  return Object.assign(shared, { isShared: true });
}

const given = new URL(import.meta.url).searchParams;
const folder = given.get('folder') ?? process.env['ASP_TEST_FOLDER'];
const first = Number(given.get('next') ?? process.pid);
if (folder !== undefined && prototype.generateKey.isShared !== true)
  prototype.generateKey = shareKeyPairs(prototype.generateKey, folder, first);

/** The cost of the passwords of accounts and of files; other costs stay as they are. */
const COST = { N: 2 ** 15, r: 8, p: 1 };
const SMALL_N = 2 ** 8;

function makeCheap(derive) {
  const cheap = (password, salt, length, options, done) => {
    const isDear = Object.entries(COST).every(([name, value]) => options[name] === value);
    derive(password, salt, length, isDear ? { ...options, N: SMALL_N } : options, done);
  };
  return Object.assign(cheap, { isCheap: true });
}

if (crypto.scrypt.isCheap !== true) {
  crypto.scrypt = makeCheap(crypto.scrypt);
  syncBuiltinESMExports();
}
