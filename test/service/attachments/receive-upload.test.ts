import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createIds } from '../../../src/kit/ids.js';
import { systemRandom } from '../../../src/kit/random.js';
import { openAttachmentFiles } from '../../../src/service/attachments/files.js';
import { receiveFile, receiveUpload, type UploadPart } from '../../../src/service/attachments/receive-upload.js';
import type { AttachmentFiles } from '../../../src/service/core/attachment-store.js';
import { ATTACHMENT_MAX_BYTES } from '../../../src/wire/limit.js';
import { createHandClock } from '../sessions/stage.js';
import { codeOf, fileOf, partOf } from './desk.js';

let directory: string;
let files: AttachmentFiles;
let context: Parameters<typeof receiveFile>[0];

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'asp-upload-'));
  files = await openAttachmentFiles(directory);
  context = { files, ids: createIds(createHandClock(), systemRandom) };
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const stored = (): string[] => readdirSync(join(directory, 'attachments'));

async function* partsOf(...parts: UploadPart[]): AsyncGenerator<UploadPart> {
  yield* parts;
}

describe('Attachments › what is stored', () => {
  it('is the bytes, in a file named by id that only the process’s user can read', async () => {
    const staged = await receiveFile(context, fileOf({ filename: '../../evil.txt', bytes: 'hällo' }));
    expect(staged).toMatchObject({ filename: 'evil.txt', contentType: 'text/plain', size: 6 });
    expect(stored()).toEqual([staged.id]);
    const path = join(directory, 'attachments', staged.id);
    expect(readFileSync(path, 'utf8')).toBe('hällo');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(directory, 'attachments')).mode & 0o777).toBe(0o700);
  });

  it('is removed unless a row claims it', async () => {
    const kept = await receiveFile(context, fileOf());
    const dropped = await receiveFile(context, fileOf());
    kept.keep();
    await Promise.all([kept.release(), dropped.release()]);
    expect(stored()).toEqual([kept.id]);
  });

  it('is in a private, temporary directory if the data is in memory', async () => {
    const temporary = await openAttachmentFiles(undefined);
    const staged = await receiveFile({ ...context, files: temporary }, fileOf());
    staged.keep();
    await staged.release();
    expect(await temporary.list()).toEqual([staged.id]);
    await temporary.close();
    expect(await codeOf(temporary.open(staged.id).then((file) => expect(file).toBeUndefined()))).toBe('ok');
  });
});

describe('Attachments › size', () => {
  it('exactly 10 MB is accepted, but one byte more is refused before the rest arrives', async () => {
    const exact = await receiveFile(context, fileOf({ bytes: Buffer.alloc(ATTACHMENT_MAX_BYTES, 'a') }));
    expect(exact.size).toBe(ATTACHMENT_MAX_BYTES);
    await exact.release();
    let sent = 0;
    const endless = Readable.from(
      (async function* () {
        for (; sent < 4 * ATTACHMENT_MAX_BYTES; sent += 65_536) yield Buffer.alloc(65_536, 'a');
      })(),
      { objectMode: false },
    );
    endless.resume = () => endless;
    expect(await codeOf(receiveFile(context, { ...fileOf(), stream: endless }))).toBe('VALIDATION_ERROR');
    expect(sent).toBeLessThan(ATTACHMENT_MAX_BYTES + 4 * 65_536);
    expect(stored()).toEqual([]);
  });

  it('one extra byte at the very end is refused, and so are a truncated file and an empty one', async () => {
    const oneMore = Buffer.alloc(ATTACHMENT_MAX_BYTES + 1, 'a');
    expect(await codeOf(receiveFile(context, fileOf({ bytes: oneMore })))).toBe('VALIDATION_ERROR');
    const cut = fileOf({ bytes: 'short' });
    const truncated = { ...cut, stream: Object.assign(cut.stream, { truncated: true }) };
    expect(await codeOf(receiveFile(context, truncated))).toBe('VALIDATION_ERROR');
    expect(await codeOf(receiveFile(context, fileOf({ bytes: '' })))).toBe('VALIDATION_ERROR');
    expect(stored()).toEqual([]);
  });
});

describe('Attachments › type', () => {
  it.each([
    'text/html',
    'image/svg+xml',
    'application/xml',
    'application/octet-stream',
    'image/webp',
    'x',
    '',
    'text/plain/x',
  ])('%j is refused', async (type) => {
    expect(await codeOf(receiveFile(context, fileOf({ type })))).toBe('VALIDATION_ERROR');
    expect(stored()).toEqual([]);
  });

  it('may be in upper case', async () => {
    expect(await receiveFile(context, fileOf({ type: 'TEXT/Plain' }))).toMatchObject({ contentType: 'text/plain' });
  });
});

describe('Attachments › exactly one part, file', () => {
  const field: UploadPart = { type: 'field', fieldname: 'file' };
  it.each([
    ['none', []],
    ['a field', [field]],
    ['another name', [partOf({ name: 'upload' })]],
    ['two files', [partOf(), partOf()]],
    ['a file and a field', [partOf(), field]],
    ['a field and a file', [field, partOf()]],
  ])('%s is refused and leaves nothing', async (_, parts) => {
    expect(await codeOf(receiveUpload(context, partsOf(...parts)))).toBe('VALIDATION_ERROR');
    expect(stored()).toEqual([]);
  });

  it('a body that ends within or after the file leaves nothing', async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from('beginning');
        throw new Error('aborted');
      })(),
      { objectMode: false },
    );
    expect(await codeOf(receiveUpload(context, partsOf({ ...partOf(), file: broken })))).toBe('VALIDATION_ERROR');
    const after = (async function* () {
      yield partOf();
      throw new Error('malformed');
    })();
    expect(await codeOf(receiveUpload(context, after))).toBe('VALIDATION_ERROR');
    expect(stored()).toEqual([]);
  });

  it('a failing disk is not the sender’s fault, and leaves nothing behind', async () => {
    const failing = { ...files, keep: () => Promise.reject(new Error('EIO')) };
    await expect(receiveFile({ ...context, files: failing }, fileOf())).rejects.toThrow('EIO');
    expect(stored()).toEqual([]);
  });
});

describe('Idempotency › the same upload', () => {
  it('is the same name, type and bytes', async () => {
    const fingerprint = async (given: Parameters<typeof fileOf>[0]): Promise<string> =>
      (await receiveFile(context, fileOf(given))).fingerprint;
    const first = await fingerprint({});
    expect(await fingerprint({})).toBe(first);
    expect(await fingerprint({ type: 'TEXT/plain' })).toBe(first);
    for (const other of [{ bytes: 'plaim' }, { filename: 'mote.txt' }, { type: 'text/csv' }])
      expect(await fingerprint(other)).not.toBe(first);
  });
});
