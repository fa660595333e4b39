import { randomBytes, scrypt } from 'node:crypto';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { parseIfJson } from '../../kit/parse-json.js';

import { fileFault, readPrivateFile, removePrivateFile, writePrivateFile } from '../../kit/private-file.js';
import { seal, splitSealed, unseal } from '../../kit/seal.js';
import { RequestError } from '../http/request-error.js';
import { type SecretStore, storeLocked, storeUnavailable, toName } from './secret-store.js';

const SCRYPT = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 } as const;
const KEY_BYTES = 32;

const Sealed = z.strictObject({
  v: z.literal(1),
  kdf: z.literal('scrypt'),
  salt: z.string(),
  iv: z.string(),
  tag: z.string(),
  data: z.string(),
});
const Plain = z.strictObject({ v: z.literal(1), secret: z.string() });

/**
 * Secrets in private files (0600), one per login, replaced atomically; encrypted if there is a passphrase (scrypt,
 * AES-256-GCM). It is not a keychain: anyone who can read the user's files can read an unencrypted one.
 */
export function createFileStore(directory: string, passphrase: string | undefined): SecretStore {
  const getPath = (name: string): string => join(directory, `${name}.json`);
  return {
    kind: 'file',
    get: (key) =>
      guard(getPath(toName(key)), async (path) => {
        const text = await readPrivateFile(path);
        return text === undefined ? undefined : await decrypt(text, passphrase, toName(key));
      }),
    set: (key, secret) =>
      guard(getPath(toName(key)), async (path) => {
        const content = passphrase === undefined ? { v: 1, secret } : await encrypt(secret, passphrase, toName(key));
        await writePrivateFile(path, JSON.stringify(content));
      }),
    delete: (key) => guard(getPath(toName(key)), removePrivateFile),
  };
}

async function guard<Result>(path: string, work: (path: string) => Promise<Result>): Promise<Result> {
  try {
    return await work(path);
  } catch (error) {
    if (error instanceof RequestError) throw error;
    const reason = fileFault(error) ?? 'reading or writing failed';
    throw storeUnavailable(`Could not use the login file ${path}: ${reason}.`, error);
  }
}

async function encrypt(secret: string, passphrase: string, name: string): Promise<z.infer<typeof Sealed>> {
  const salt = randomBytes(16);
  const { nonce, tag, data } = splitSealed(seal(await deriveKey(passphrase, salt), name, secret));
  const text = (bytes: Buffer): string => bytes.toString('base64');
  return { v: 1, kdf: 'scrypt', salt: text(salt), iv: text(nonce), tag: text(tag), data: text(data) };
}

async function decrypt(text: string, passphrase: string | undefined, name: string): Promise<string> {
  const content = parseIfJson(text);
  const plain = Plain.safeParse(content);
  if (plain.success) return plain.data.secret;
  const sealed = Sealed.safeParse(content);
  if (!sealed.success) throw storeUnavailable('The login file is damaged: sign in again.');
  if (passphrase === undefined)
    throw storeLocked('The login file is encrypted: set ASP_STORE_PASSPHRASE to its passphrase.');
  const bytes = (value: string): Buffer => Buffer.from(value, 'base64');
  const { salt, iv, tag, data } = sealed.data;
  try {
    return unseal(await deriveKey(passphrase, bytes(salt)), name, Buffer.concat([iv, tag, data].map(bytes)));
  } catch {
    throw storeLocked('The login file is encrypted with a different passphrase than the one in ASP_STORE_PASSPHRASE.');
  }
}

function deriveKey(passphrase: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) =>
    scrypt(passphrase, salt, KEY_BYTES, SCRYPT, (error, key) => (error === null ? resolve(key) : reject(error))),
  );
}
