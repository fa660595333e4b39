import { chownSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ulid } from 'ulid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openAttachmentBucket } from '../../../src/service/attachments/bucket.js';
import { readBucketAddress } from '../../../src/service/attachments/bucket-address.js';
import type { AttachmentFiles } from '../../../src/service/core/attachment-store.js';
import type { RunningService, ServiceOptions } from '../../../src/service/service.js';
import type { Actor } from '../../support/actors.js';
import type { TestClock } from '../../support/clock.js';
import { request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { type ObjectStore, startObjectStore } from '../../support/object-store.js';
import { TEST_STORE } from '../../support/stores.js';
import { actorAt, createServices, type Data, type Services } from './services.js';

const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;

let store: ObjectStore;
let services: Services;
let clock: TestClock;
let lines: string[];

beforeEach(async () => {
  store = await startObjectStore();
  services = createServices();
  ({ clock, lines } = services);
});
afterEach(async () => {
  await services.dispose();
  await store.stop();
});

const newData = (name: string): Data => services.newData(join(services.directory, name));
const start = (data: Data, more: Partial<ServiceOptions> = {}): Promise<RunningService> =>
  services.start(data, { bucket: bucketAt(), ...more });
const stop = (service: RunningService): Promise<void> => services.stop(service);

const bucketAt = (path = `${store.bucket}/of/asp`): NonNullable<ServiceOptions['bucket']> => ({
  address: readBucketAddress(`s3://${path}`, { endpoint: store.endpoint, region: 'eu-central-1' }),
  credentials: store.credentials,
});

async function sendFile(actor: Actor, bytes: string): Promise<string> {
  const id = await actor.mustUpload({ bytes, type: 'text/plain' });
  await actor.mustSend(await actor.mustCreate(), [{ type: 'file', attachment_id: id }]);
  return id;
}

async function signedPath(actor: Actor, id: string): Promise<string> {
  const { pathname, search } = new URL(String(field((await actor.get(`/attachments/${id}`)).json, 'url')));
  return `${pathname}${search}`;
}

async function download(
  { webUrl }: RunningService,
  path: string,
  headers: Record<string, string> = {},
): Promise<[number, string]> {
  const { status, text } = await request(`${webUrl}${path}`, { headers });
  return [status, text];
}

/** Runs `work` with the temporary folder of this process in the folder of the test. */
async function inOwnFolder(work: () => Promise<void>): Promise<void> {
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = services.directory;
  try {
    await work();
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
}

const temporaryFolders = (): string[] => readdirSync(services.directory).filter((name) => name.startsWith('asp-'));

const attachmentsIn = (): string[] => store.names().filter((name) => name.startsWith('of/asp/att_'));

describe('Attachments in a bucket', () => {
  it('are whole in the bucket before their upload is acknowledged, and can be read by a service that starts later', async () => {
    const data = newData('data');
    const first = await start(data);
    const actor = await actorAt(first);
    const id = await sendFile(actor, 'the bytes of a file');
    expect(store.names()).toEqual([`of/asp/${id}`, 'of/asp/identity']);
    const path = await signedPath(actor, id);
    expect(await download(first, path)).toEqual([200, 'the bytes of a file']);
    expect(store.requests.filter((line) => line.endsWith(id))).toEqual([`PUT /attachments/of/asp/${id}`]);
    await stop(first);
    const again = await start(data);
    expect(await download(again, path)).toEqual([200, 'the bytes of a file']);
    expect(await download(again, path, { range: 'bytes=4-8' })).toEqual([206, 'bytes']);
    expect(store.requests.filter((line) => line === `GET /attachments/of/asp/${id}`)).toHaveLength(1);
  });

  it.runIf(TEST_STORE === 'postgres')('are found by each of the services that share a database', async () => {
    const data = newData('data');
    const [one, two] = await Promise.all([start(data), start({ ...data, folder: join(services.directory, 'other') })]);
    const actor = await actorAt(one);
    const id = await sendFile(actor, 'shared');
    expect(await download(two, await signedPath(actor, id))).toEqual([200, 'shared']);
  });

  it('are the only thing refused while the bucket does not answer; the log says when that began and ended', async () => {
    const service = await start(newData('data'));
    const actor = await actorAt(service);
    const id = await sendFile(actor, 'before');
    const session = await actor.mustCreate();
    store.fate = () => 'cut';
    for (let time = 0; time < 2; time += 1) {
      const refused = await actor.upload({ bytes: 'during', type: 'text/plain' });
      expect([refused.status, field(field(refused.json, 'error'), 'code')]).toEqual([503, 'INTERNAL_ERROR']);
      expect(refused.headers['retry-after']).toBeDefined();
    }
    await actor.mustSend(session, 'still here');
    expect(await download(service, await signedPath(actor, id))).toEqual([200, 'before']);
    store.fate = () => undefined;
    await sendFile(actor, 'after');
    const outages = lines.filter((line) => /^attachments_(down|up) /.test(line));
    expect(outages.map((line) => line.split(' ')[0])).toEqual(['attachments_down', 'attachments_up']);
  });

  it('leave nothing on this machine if the bucket refuses them', () =>
    inOwnFolder(async () => {
      const service = await start(newData('data'));
      const actor = await actorAt(service);
      const [folder = ''] = temporaryFolders();
      store.fate = (line) => (line.startsWith('PUT') || line.startsWith('DELETE') ? 403 : undefined);
      expect((await actor.upload({ bytes: 'refused', type: 'text/plain' })).status).toBe(503);
      expect(readdirSync(join(services.directory, folder))).toEqual([]);
      await stop(service);
      expect(temporaryFolders()).toEqual([]);
    }));

  it('can be sent and read after a cleaner of temporary folders has removed theirs', () =>
    inOwnFolder(async () => {
      const service = await start(newData('data'));
      const actor = await actorAt(service);
      const path = await signedPath(actor, await sendFile(actor, 'before'));
      const [folder = ''] = temporaryFolders();
      const clean = () => rmSync(join(services.directory, folder), { recursive: true });
      clean();
      expect(await download(service, path)).toEqual([200, 'before']);
      clean();
      expect((await actor.upload({ bytes: 'after', type: 'text/plain' })).status).toBe(201);
    }));

  const foreignFolders: [whose: string, replace: (folder: string, other: string) => void][] = [
    ['a link', (folder, other) => symlinkSync(other, folder)],
  ];
  if (process.getuid?.() === 0)
    foreignFolders.push([
      "another user's",
      (folder) => {
        mkdirSync(folder);
        chownSync(folder, 65_534, 65_534);
      },
    ]);
  it.each(foreignFolders)(
    'never go through a temporary folder that is %s after a cleaner has removed theirs',
    (_, replace) =>
      inOwnFolder(async () => {
        const files = await openAttachmentBucket(bucketAt());
        const [folder = ''] = temporaryFolders().map((name) => join(services.directory, name));
        const [sent, cached, fetched, late] = Array.from({ length: 4 }, () => `att_${ulid()}`) as [
          string,
          string,
          string,
          string,
        ];
        await put(files, cached, 'cached');
        await put(files, fetched, 'fetched');
        await files.openHere(cached).then((file) => file?.close());
        await (await files.create(sent)).close();
        const other = join(services.directory, 'other');
        mkdirSync(other);
        rmSync(folder, { recursive: true });
        replace(folder, other);
        for (const id of [sent, cached]) writeFileSync(join(folder, id), 'theirs');
        await expect(files.keep(sent)).rejects.toThrow(folder);
        expect(store.names().filter((name) => name.endsWith(sent))).toEqual([]);
        await expect(files.openHere(cached)).rejects.toThrow(folder);
        await files.remove(sent);
        await expect(files.create(late)).rejects.toThrow(folder);
        const again = await openAttachmentBucket(bucketAt());
        const [place = ''] = temporaryFolders()
          .map((name) => join(services.directory, name))
          .filter((path) => path !== folder);
        rmSync(place, { recursive: true });
        replace(place, other);
        await expect(again.open(fetched)).rejects.toThrow(place);
        expect(readdirSync(place)).not.toContain(fetched);
        expect(readdirSync(folder).sort()).toEqual([sent, cached].sort());
        expect(readFileSync(join(folder, sent), 'utf8')).toBe('theirs');
        for (const path of [folder, place]) rmSync(path, { recursive: true });
      }),
  );

  it('survive requests that fail once: cut off, limited, or a store error', async () => {
    const service = await start(newData('data'));
    const actor = await actorAt(service);
    for (const fate of ['cut', 429, 500, 503] as const) {
      const seen = new Set<string>();
      store.fate = (line) => {
        if (seen.has(line)) return undefined;
        seen.add(line);
        return fate;
      };
      const id = await sendFile(actor, `after ${fate}`);
      expect(await download(service, await signedPath(actor, id))).toEqual([200, `after ${fate}`]);
    }
    expect(attachmentsIn()).toHaveLength(4);
  });

  it('leave nothing in the bucket when they are refused, and ask it for nothing', async () => {
    const service = await start(newData('data'));
    const actor = await actorAt(service);
    store.requests.length = 0;
    expect((await actor.upload({ bytes: 'not a picture', type: 'image/png' })).status).toBe(400);
    expect(store.requests).toEqual([]);
    expect(attachmentsIn()).toEqual([]);
  });

  it('are removed when no message refers to them, and those without a row go to the trash and come back', async () => {
    const data = newData('data');
    const first = await start(data);
    const sender = await actorAt(first);
    const kept = await sendFile(sender, 'kept');
    const path = await signedPath(sender, kept);
    await stop(first);
    const files = await openAttachmentBucket(bucketAt());
    await files.discard(kept, clock.now());
    expect(attachmentsIn()).toEqual([]);
    const service = await start(data);
    expect(await download(service, path)).toEqual([200, 'kept']);
    expect(attachmentsIn()).toEqual([`of/asp/${kept}`]);

    const orphan = `att_${ulid(clock.now() - 3 * HOUR_MS)}`;
    await put(files, orphan, 'no row');
    await (await actorAt(service, 'bob')).mustUpload({ bytes: 'never sent', type: 'text/plain' });
    await services.untilSwept('only what is in use is left', () => attachmentsIn().length === 1);
    expect(await files.listTrash()).toMatchObject([{ id: orphan }]);
    clock.advance(WEEK_MS);
    await services.untilSwept('the trash is empty', () => !store.names().some((name) => name.includes('/trash/')));
    expect(attachmentsIn()).toEqual([`of/asp/${kept}`]);
    await files.close();
  });

  it('of a different database are refused, and so are a missing bucket and a wrong key', async () => {
    const production = newData('production');
    await stop(await start(production));
    const staging = newData('staging');
    await expect(start(staging)).rejects.toMatchObject({ message: expect.stringContaining('belong') });
    await expect(start(staging, { bucket: bucketAt('nowhere') })).rejects.toMatchObject({
      code: 'ATTACHMENTS_NOT_USABLE',
      message: expect.stringMatching(/^The bucket s3:\/\/nowhere cannot be used: .*404: NoSuchBucket/),
    });
    const wrong = { ...bucketAt(), credentials: { accessKeyId: 'tests', secretAccessKey: 'wrong' } };
    await expect(start(staging, { bucket: wrong })).rejects.toMatchObject({
      code: 'ATTACHMENTS_NOT_USABLE',
      message: expect.stringMatching(/403: SignatureDoesNotMatch/),
    });
    store.fate = (line) => (line.includes('list-type=2') ? 403 : undefined);
    await expect(start(newData('unlisted'), { bucket: bucketAt(`${store.bucket}/unlisted`) })).rejects.toMatchObject({
      code: 'ATTACHMENTS_NOT_USABLE',
    });
  });
});

async function put(files: AttachmentFiles, id: string, text: string): Promise<void> {
  const handle = await files.create(id);
  await handle.writeFile(text);
  await handle.close();
  await files.keep(id);
  files.release(id);
}

describe('A bucket of attachments', () => {
  it('is listed page by page, without the trash and the uploads that are not finished', async () => {
    const files = await openAttachmentBucket(bucketAt());
    const ids = Array.from({ length: 1_050 }, () => `att_${ulid()}`);
    for (const id of ids) await put(files, id, 'x');
    await files.discard(ids[0] ?? '', 1);
    const unfinished = await files.create(`att_${ulid()}`);
    expect((await files.list()).sort()).toEqual(ids.slice(1).sort());
    expect(await files.listTrash()).toMatchObject([{ id: ids[0], discardedAt: 1 }]);
    await unfinished.close();
    await files.close();
  });

  it('caches the most recently used files, up to a number of bytes', async () => {
    const files = await openAttachmentBucket({ ...bucketAt(), cacheBytes: 25 });
    const ids = Array.from({ length: 4 }, () => `att_${ulid()}`);
    const read = async (id: string): Promise<void> => void (await (await files.open(id))?.close());
    for (const id of ids.slice(0, 2)) await put(files, id, '0123456789');
    await read(ids[0] ?? '');
    await put(files, ids[2] ?? '', '0123456789');
    const here = async (): Promise<boolean[]> =>
      Promise.all(
        ids.map(async (id) => {
          const file = await files.openHere(id);
          await file?.close();
          return file !== undefined;
        }),
      );
    expect(await here()).toEqual([true, false, true, false]);
    await read(ids[1] ?? '');
    expect(await here()).toEqual([false, true, true, false]);
    await files.close();
  });

  it.each([
    ['http://bucket', 'must look like s3://bucket/prefix'],
    ['s3://Bucket', 'must look like s3://bucket/prefix'],
    ['s3://bucket/a/../b', 'must not contain . or ..'],
    ['s3://bucket?secret=x', "takes region and endpoint, and not 'secret'"],
    ['s3://bucket?region=a_b', "'a_b' is not the name of a region"],
    ['s3://bucket?endpoint=ftp://x', 'must be a plain http or https URL'],
    ['s3://bucket?endpoint=https://me:secret@x', 'must be a plain http or https URL'],
  ])('has an address that is refused if it is wrong: %s', (text, reason) => {
    expect(() => readBucketAddress(text)).toThrow(reason);
    expect(() => readBucketAddress(text)).not.toThrow('me:secret');
  });

  it('has an address with a region and an endpoint, or the ones of the environment', () => {
    expect(readBucketAddress('s3://my-bucket/a//b/')).toEqual({
      url: 'https://s3.us-east-1.amazonaws.com/my-bucket',
      bucket: 'my-bucket',
      prefix: 'a/b/',
      region: 'us-east-1',
      shown: 's3://my-bucket/a/b',
    });
    const address = 's3://my-bucket?region=eu-west-3&endpoint=http://minio:9000/';
    expect(readBucketAddress(address, { region: 'x', endpoint: 'https://y' })).toMatchObject({
      url: 'http://minio:9000/my-bucket',
      prefix: '',
      region: 'eu-west-3',
    });
  });
});
