import { createHash } from 'node:crypto';
import { type FileHandle, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { backoffMs, type Clock, systemClock, wait } from '../../kit/clock.js';
import { messageOf } from '../../kit/format.js';
import {
  isFileError,
  isUnsafeFile,
  makePrivateDirectory,
  replaceFile,
  requireOwnDirectory,
} from '../../kit/private-file.js';
import { ID_PREFIX, isId } from '../../wire/id.js';
import type { AttachmentFiles, DiscardedFile } from '../core/attachment-store.js';
import { OperatorError } from '../core/errors.js';
import { IDENTITY_FILE, TRASH_FOLDER } from '../store/data-directory.js';
import type { BucketAddress } from './bucket-address.js';

export interface BucketCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface BucketOptions {
  readonly address: BucketAddress;
  readonly credentials: BucketCredentials;
  /** How many bytes of attachments to keep on this machine, so that they need not be fetched again. */
  readonly cacheBytes?: number;
  readonly clock?: Clock;
  /** Called with the store's answer when the object store stops working, and without arguments when it works again. */
  readonly onOutage?: (fault?: Error) => void;
}

/** Attachments in a bucket. Services on many machines can share it. */
export interface AttachmentBucket extends AttachmentFiles {
  /** Throws an `OperatorError` that says why the bucket cannot be used. */
  look(): Promise<{ readonly path: string; readonly isClaimed: boolean; readonly hasFiles: boolean }>;
}

const CACHE_BYTES = 256 * 1024 * 1024;

/**
 * Uploads wait in a temporary folder until they are complete, and are in the bucket before their row is committed. Fetched files
 * stay in that folder for a while: an attachment never changes. Cleaners of temporary folders remove it after a few days without
 * a file. From then on another user can make one with its name, so every use of it checks whose it is.
 */
export async function openAttachmentBucket(options: BucketOptions): Promise<AttachmentBucket> {
  const { address, cacheBytes = CACHE_BYTES } = options;
  const objects = await connect(options);
  const directory = await mkdtemp(join(tmpdir(), 'asp-'));
  const cache = createFileCache(directory, cacheBytes);
  /** The uploads of this process, and whether parts of them may be in the bucket. */
  const held = new Map<string, 'here' | 'sent'>();
  const fetching = new Map<string, Promise<boolean>>();
  let claimed: string | undefined;
  const readIdentity = async (): Promise<string | undefined> => {
    const bytes = await objects.get(IDENTITY_FILE);
    return bytes?.toString('utf8').trim();
  };
  const requireOwn = async (): Promise<void> => {
    if (claimed !== undefined && (await readIdentity()) !== claimed)
      throw new Error(`${address.shown} no longer holds the attachments of this service.`);
  };
  const fetchOnce = async (id: string): Promise<boolean> => {
    const bytes = await objects.get(id);
    if (bytes === undefined) return false;
    await makePrivateDirectory(directory);
    await replaceFile(join(directory, id), bytes, { isDurable: false });
    await cache.add(id, bytes.length);
    return true;
  };
  const discarded = async (id?: string): Promise<(DiscardedFile & { readonly key: string })[]> => {
    const keys = await objects.list(`${TRASH_FOLDER}/${id ?? ''}`);
    return keys.flatMap((key) => {
      const [, found = '', at] = TRASHED.exec(key) ?? [];
      return at !== undefined && isId('attachment', found) ? [{ key, id: found, discardedAt: Number(at) }] : [];
    });
  };
  return {
    async create(id) {
      requireId(id);
      held.set(id, 'here');
      await makePrivateDirectory(directory);
      return open(join(directory, id), 'wx', 0o600);
    },
    async keep(id) {
      await requireOwnDirectory(directory);
      held.set(id, 'sent');
      const bytes = await readFile(join(directory, id));
      await objects.put(id, bytes);
      await cache.add(id, bytes.length);
    },
    async open(id) {
      requireId(id);
      const cached = await cache.open(id);
      if (cached !== undefined) return cached;
      const running = fetching.get(id) ?? fetchOnce(id).finally(() => fetching.delete(id));
      fetching.set(id, running);
      return (await running) ? cache.open(id) : undefined;
    },
    openHere(id) {
      requireId(id);
      return cache.open(id);
    },
    async remove(id) {
      requireId(id);
      const mayBeThere = held.get(id) !== 'here';
      held.delete(id);
      await cache.remove(id);
      if (mayBeThere) await objects.remove(id);
    },
    release: (id) => void held.delete(id),
    async list() {
      const keys = await objects.list(ATTACHMENT_START);
      return keys.filter((key) => isId('attachment', key) && !held.has(key));
    },

    async discard(id, now) {
      requireId(id);
      await requireOwn();
      if (await objects.copy(id, `${TRASH_FOLDER}/${id}.${Math.trunc(now)}`)) await objects.remove(id);
      await cache.remove(id);
    },
    async restore(id) {
      requireId(id);
      const [found] = await discarded(id);
      if (found === undefined || !(await objects.copy(found.key, id))) return false;
      await objects.remove(found.key);
      return true;
    },
    listTrash: () => discarded(),
    async removeFromTrash(id) {
      requireId(id);
      await requireOwn();
      for (const { key } of await discarded(id)) await objects.remove(key);
    },

    readIdentity,
    async claim(identity) {
      if ((await readIdentity()) !== identity) await objects.put(IDENTITY_FILE, Buffer.from(`${identity}\n`));
      claimed = identity;
    },
    async look() {
      try {
        const isClaimed = (await readIdentity()) !== undefined;
        const hasFiles = (await objects.list(ATTACHMENT_START, 1)).length > 0;
        return { path: address.shown, isClaimed, hasFiles };
      } catch (error) {
        const reason = messageOf(error);
        const message = `The bucket ${address.shown} cannot be used: ${reason}`;
        throw new OperatorError('ATTACHMENTS_NOT_USABLE', message, error);
      }
    },
    close: () => rm(directory, { recursive: true, force: true }),
  };
}

const ATTACHMENT_START = ID_PREFIX.attachment;
const TRASHED = new RegExp(`^${TRASH_FOLDER}/(\\w+)\\.(\\d+)$`);

function requireId(id: string): void {
  if (!isId('attachment', id)) throw new TypeError('not an attachment id');
}

/** Files of this process, the one that was used longest ago removed first. */
interface FileCache {
  /** The file is there, under its id. */
  add(id: string, bytes: number): Promise<void>;
  open(id: string): Promise<FileHandle | undefined>;
  remove(id: string): Promise<void>;
}

function createFileCache(directory: string, bytesMax: number): FileCache {
  const sizes = new Map<string, number>();
  let total = 0;
  const remove = async (id: string): Promise<void> => {
    total -= sizes.get(id) ?? 0;
    sizes.delete(id);
    try {
      await requireOwnDirectory(directory);
      await rm(join(directory, id), { force: true });
    } catch (error) {
      if (!isUnsafeFile(error) && !isFileError(error, 'ENOENT')) throw error;
    }
  };
  return {
    async add(id, bytes) {
      total += bytes - (sizes.get(id) ?? 0);
      sizes.set(id, bytes);
      for (const oldest of sizes.keys()) if (total > bytesMax && oldest !== id) await remove(oldest);
    },
    async open(id) {
      const bytes = sizes.get(id);
      if (bytes === undefined) return undefined;
      sizes.delete(id);
      sizes.set(id, bytes);
      try {
        await requireOwnDirectory(directory);
        return await open(join(directory, id));
      } catch (error) {
        if (!isFileError(error, 'ENOENT')) throw error;
        await remove(id);
        return undefined;
      }
    },
    remove,
  };
}

/** The objects below the prefix, by the rest of their names. */
interface Objects {
  /** Undefined: there is no such object. */
  get(key: string): Promise<Buffer | undefined>;
  put(key: string, bytes: Buffer): Promise<void>;
  /** False: there is no such object. */
  copy(from: string, to: string): Promise<boolean>;
  /** A missing object counts as removed. */
  remove(key: string): Promise<void>;
  /** The names that begin with `start`; with `max`, no more than that. */
  list(start: string, max?: number): Promise<string[]>;
}

const TRIES = 4;
const FIRST_PAUSE_MS = 100;
const TIMEOUT_MS = 15_000;
/** After this long, a failed request is not repeated. */
const PATIENCE_MS = 10_000;
const NAMES_PER_PAGE = 1_000;

/** Every request can be repeated: the same object, the same bytes. */
async function connect(options: BucketOptions): Promise<Objects> {
  const { address, credentials, clock = systemClock, onOutage = () => {} } = options;
  // Loaded here, so that nothing else waits for it.
  const { AwsClient } = await import('aws4fetch');
  let isDown = false;
  const fail = (reason: Error): OperatorError => {
    if (!isDown) onOutage(reason);
    isDown = true;
    return new OperatorError('ATTACHMENTS_LOST', reason.message, reason);
  };
  /** Undefined: there is no such object. */
  const accept = (reply: Reply): Reply | undefined => {
    const isThere = reply.status === 200 || reply.status === 204;
    if (!isThere && !isMissing(reply)) throw fail(new Error(describe(reply)));
    if (isDown) onOutage();
    isDown = false;
    return isThere ? reply : undefined;
  };
  const client = new AwsClient({ ...credentials, service: 's3', region: address.region, retries: 0 });
  const attempt = async (url: string, init: RequestInit): Promise<Reply | Error> => {
    try {
      const answer = await client.fetch(url, { ...init, redirect: 'manual', signal: AbortSignal.timeout(TIMEOUT_MS) });
      const bytes = Buffer.from(await answer.arrayBuffer());
      const reply = { status: answer.status, bytes };
      return answer.status >= 500 || answer.status === 429 ? new Error(describe(reply)) : reply;
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined;
      return new Error('The object store does not respond.', { cause: cause ?? error });
    }
  };
  const send = async (url: string, init: RequestInit = {}): Promise<Reply> => {
    const startedAt = clock.monotonic();
    for (let tries = 1; ; tries += 1) {
      const reply = await attempt(url, init);
      if (!(reply instanceof Error)) return reply;
      if (tries === TRIES || clock.monotonic() - startedAt > PATIENCE_MS) throw fail(reply);
      await wait(clock, backoffMs(FIRST_PAUSE_MS, tries));
    }
  };
  const requireThere = (reply: Reply): Reply => {
    if (accept(reply) === undefined) throw fail(new Error(describe(reply)));
    return reply;
  };
  const urlOf = (key: string): string => `${address.url}/${address.prefix}${key}`;
  return {
    async get(key) {
      return accept(await send(urlOf(key)))?.bytes;
    },
    async put(key, bytes) {
      const headers = { 'x-amz-content-sha256': createHash('sha256').update(bytes).digest('hex') };
      requireThere(await send(urlOf(key), { method: 'PUT', body: new Uint8Array(bytes), headers }));
    },
    async copy(from, to) {
      const headers = { 'x-amz-copy-source': `/${address.bucket}/${address.prefix}${from}` };
      const reply = accept(await send(urlOf(to), { method: 'PUT', headers }));
      // The store answers 200 before it begins to copy, and may fail after that.
      if (reply !== undefined && readTag(reply.bytes, 'Code') !== undefined) throw fail(new Error(describe(reply)));
      return reply !== undefined;
    },
    async remove(key) {
      accept(await send(urlOf(key), { method: 'DELETE' }));
    },
    async list(start, max = Number.POSITIVE_INFINITY) {
      const names: string[] = [];
      for (let token: string | undefined = ''; token !== undefined && names.length < max; ) {
        const query = new URLSearchParams({
          'list-type': '2',
          prefix: `${address.prefix}${start}`,
          'max-keys': String(Math.min(max, NAMES_PER_PAGE)),
          ...(token !== '' && { 'continuation-token': token }),
        });
        const { bytes } = requireThere(await send(`${address.url}?${query}`));
        const text = bytes.toString('utf8');
        for (const [, key = ''] of text.matchAll(/<Key>([^<]*)<\/Key>/g)) names.push(key.slice(address.prefix.length));
        token = readTag(text, 'NextContinuationToken');
      }
      return names;
    },
  };
}

interface Reply {
  readonly status: number;
  readonly bytes: Buffer;
}

function isMissing({ status, bytes }: Reply): boolean {
  return status === 404 && readTag(bytes, 'Code') !== 'NoSuchBucket';
}

function describe({ status, bytes }: Reply): string {
  const [code, message] = ['Code', 'Message'].map((name) => readTag(bytes, name));
  return [`The object store answered ${status}`, code, message].filter((part) => part !== undefined).join(': ');
}

/** The text of an element of an XML reply. Names of objects and tokens have no other markup in them. */
function readTag(xml: Buffer | string, name: string): string | undefined {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml.toString('utf8'))?.[1];
  return text?.replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, entity: keyof typeof ENTITIES) => ENTITIES[entity]);
}

const ENTITIES = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };
