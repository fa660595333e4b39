import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createBackup, restoreBackup } from '../../../src/service/operator/backup.js';
import { readBackupRecords } from '../../../src/service/operator/backup-records.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';
import { loadSqlite, lockDataDirectory } from '../../../src/service/store/sqlite-driver.js';
import { type Actor, actorOf } from '../../support/actors.js';
import { request } from '../../support/http.js';
import { list } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';

const MESSAGES = 300;

describe('a backup', () => {
  let folder: string;
  let data: string;
  let service: TestService;
  let alice: Actor;
  let attachment: string;
  let session: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'asp-backup-'));
    data = join(folder, 'data');
    service = await startTestService({ data: { directory: data }, areLimitsOn: false });
    alice = await service.createAgent('alice');
    session = await alice.mustCreate({ topic: 'kept' });
    attachment = await alice.mustUpload();
    await alice.mustSend(session, [{ type: 'file', attachment_id: attachment }]);
    await alice.mustUpload();
  });
  afterAll(async () => {
    await service.stop();
    await rm(folder, { recursive: true });
  });

  const backUp = (name: string, options: { isForced?: boolean; withKeys?: boolean } = {}) =>
    createBackup({
      directory: data,
      file: join(folder, name),
      isForced: options.isForced === true,
      withKeys: options.withKeys === true,
      now: Date.now(),
    });
  const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);
  const inDatabase = async <T>(directory: string, sql: string): Promise<T[]> => {
    const connection = (await loadSqlite())(join(directory, 'asp.sqlite'));
    try {
      return connection.prepare(sql).all() as T[];
    } finally {
      connection.close();
    }
  };

  it('made while messages arrive contains a prefix of each session without gaps, and everything acknowledged before', async () => {
    const busy = await alice.mustCreate();
    const before = [];
    for (let index = 0; index < 20; index += 1) before.push(await alice.mustSend(busy, `early ${index}`));
    const flowing = Array.from({ length: MESSAGES }, (_, index) => alice.mustSend(busy, `message ${index}`));
    await Promise.race(flowing);
    await backUp('flowing.tar');
    const sent = await Promise.all(flowing);

    const restored = join(folder, 'flowing');
    await restoreBackup(join(folder, 'flowing.tar'), restored);
    const rows = await inDatabase<{ sequence: number }>(
      restored,
      `SELECT sequence FROM event WHERE session_id = '${busy}' ORDER BY sequence`,
    );
    const sequences = rows.map(({ sequence }) => sequence);
    expect(sequences).toEqual(Array.from({ length: sequences.length }, (_, index) => index + 1));
    expect(sequences.length).toBeGreaterThanOrEqual(Math.max(...before.map(({ sequence }) => sequence)));
    expect(sequences.length).toBeLessThanOrEqual(Math.max(...sent.map(({ sequence }) => sequence)));
    const [row] = await inDatabase<{ last: number }>(
      restored,
      `SELECT last_sequence AS last FROM session WHERE id = '${busy}'`,
    );
    expect(row?.last).toBe(sequences.length);
  });

  it('restores a service with the same agents, clients, sessions and files', async () => {
    const made = await backUp('whole.tar');
    expect(made).toMatchObject({ attachments: 2, bytes: statSync(join(folder, 'whole.tar')).size });
    const restored = join(folder, 'whole');
    await restoreBackup(join(folder, 'whole.tar'), restored);
    const second = await startTestService({ data: { directory: restored }, areLimitsOn: false });
    const again = actorOf(second.place, alice.handle, alice.credentials);
    expect(await again.mustReplay(session)).toEqual(await alice.mustReplay(session));
    const link = (await again.get(`/attachments/${attachment}`)).json as { url: string; size: number };
    const file = await request(link.url);
    expect({ status: file.status, size: file.bytes.length }).toEqual({ status: 200, size: link.size });
    const { sequence } = await again.mustSend(session, 'after the restore');
    expect(await again.mustReplay(session)).toHaveLength(sequence);
    await second.stop();
  });

  it('includes files of sessions deleted while it is made, because they are in the trash', async () => {
    const [kept, trash] = [join(data, 'attachments', attachment), join(data, 'attachments', 'trash')];
    mkdirSync(trash, { recursive: true });
    renameSync(kept, join(trash, attachment));
    expect(await backUp('deleting.tar')).toMatchObject({ attachments: 2 });
    expect(await restoreBackup(join(folder, 'deleting.tar'), join(folder, 'deleting'))).toMatchObject({
      attachments: 2,
    });
    renameSync(join(trash, attachment), kept);
  });

  it('is recorded with its size, even if it failed; the list has the latest twenty, newest first', async () => {
    const made = await backUp('remembered.tar');
    await expect(backUp('remembered.tar')).rejects.toThrow('exists');
    const [failed, succeeded] = await readBackupRecords(data);
    expect(failed).toMatchObject({ outcome: 'EXISTS', bytes: null });
    expect(succeeded).toMatchObject({ outcome: 'done', bytes: made.bytes, attachments: made.attachments });
    expect([made.unrecorded, modeOf(join(data, 'backups.json'))]).toEqual([undefined, '600']);
    for (let count = 0; count < 20; count += 1) await expect(backUp('remembered.tar')).rejects.toThrow('exists');
    expect((await readBackupRecords(data)).map(({ outcome }) => outcome)).toEqual(Array(20).fill('EXISTS'));
  });

  it('succeeds even if it cannot be recorded', async () => {
    const file = join(data, 'backups.json');
    const before = readFileSync(file);
    await rm(file);
    mkdirSync(file);
    expect(await backUp('unremembered.tar')).toMatchObject({ unrecorded: { path: file, error: { code: 'EISDIR' } } });
    expect(await readBackupRecords(data)).toEqual([]);
    await rm(file, { recursive: true });
    writeFileSync(file, before, { mode: 0o600 });
  });

  it('unpacks with plain tar into data on which a service starts', async () => {
    await backUp('plain.tar');
    const unpacked = join(folder, 'plain');
    mkdirSync(unpacked, { mode: 0o700 });
    execFileSync('tar', ['-xf', join(folder, 'plain.tar'), '-C', unpacked]);
    expect(modeOf(join(unpacked, 'asp.sqlite'))).toBe('600');
    const third = await startTestService({ data: { directory: unpacked } });
    const again = actorOf(third.place, alice.handle, alice.credentials);
    expect(list(await again.mustRead(session), 'participants')).toHaveLength(1);
    await third.stop();
  });

  it('is readable only by its user, whatever the umask, and leaves no other files', async () => {
    const umask = process.umask(0);
    try {
      await backUp('private.tar');
      await restoreBackup(join(folder, 'private.tar'), join(folder, 'private'));
    } finally {
      process.umask(umask);
    }
    expect(modeOf(join(folder, 'private.tar'))).toBe('600');
    expect(modeOf(join(folder, 'private'))).toBe('700');
    expect(modeOf(join(folder, 'private', 'attachments'))).toBe('700');
    expect(modeOf(join(folder, 'private', 'asp.sqlite'))).toBe('600');
    expect(modeOf(join(folder, 'private', 'attachments', attachment))).toBe('600');
    expect(readdirSync(folder).filter((name) => name.startsWith('.'))).toEqual([]);
    expect(readdirSync(join(folder, 'private')).sort()).toEqual(['asp.sqlite', 'attachments']);
  });

  it('removes what a killed backup to the same file left an hour ago, and nothing of one that is running', async () => {
    const leave = (name: string, ages: Readonly<Record<string, number>>): void => {
      mkdirSync(join(folder, name));
      for (const [file, minutes] of Object.entries(ages)) {
        writeFileSync(join(folder, name, file), 'x');
        age(join(folder, name, file), minutes);
      }
      age(join(folder, name), 90);
    };
    const age = (path: string, minutes: number): void => {
      const at = new Date(Date.now() - minutes * 60_000);
      utimesSync(path, at, at);
    };
    leave('.nightly.tar.killed', { 'asp.sqlite': 80, 'part.tar': 70 });
    leave('.nightly.tar.active', { 'asp.sqlite': 80, 'part.tar': 50 });
    leave('.weekly.tar.killed', { 'asp.sqlite': 80 });
    leave('.nightly.tar.of-others', { 'asp.sqlite': 80 });
    await backUp('nightly.tar');
    const left = readdirSync(folder).filter((name) => name.startsWith('.'));
    for (const name of left) rmSync(join(folder, name), { recursive: true });
    expect(left.sort()).toEqual(['.nightly.tar.active', '.nightly.tar.of-others', '.weekly.tar.killed']);
    expect(existsSync(join(folder, 'nightly.tar'))).toBe(true);
  });

  it('never contains a private key unless requested', async () => {
    const [key] = await inDatabase<{ private_jwk: string }>(data, 'SELECT private_jwk FROM signing_key');
    const [own] = await inDatabase<{ secret: string }>(data, 'SELECT secret FROM service_key');
    const secrets = [(JSON.parse(key?.private_jwk ?? '{}') as { d: string }).d, own?.secret ?? ''];
    for (const secret of secrets) expect(secret.length).toBeGreaterThan(40);
    await backUp('keyless.tar');
    const keyless = readFileSync(join(folder, 'keyless.tar'));
    for (const secret of secrets) expect(keyless.includes(secret)).toBe(false);
    await backUp('keyed.tar', { withKeys: true });
    const keyed = readFileSync(join(folder, 'keyed.tar'));
    for (const secret of secrets) expect(keyed.includes(secret)).toBe(true);
  });

  it('never overwrites a file without --force', async () => {
    const path = join(folder, 'precious.tar');
    writeFileSync(path, 'precious');
    await expect(backUp('precious.tar')).rejects.toMatchObject({ code: 'EXISTS' });
    expect(readFileSync(path, 'utf8')).toBe('precious');
    await backUp('precious.tar', { isForced: true });
    expect(readFileSync(path).subarray(0, 10).toString()).toBe('asp.sqlite');
    expect(modeOf(path)).toBe('600');
  });

  it('that cannot be written names the file, not the temporary one', async () => {
    const file = '/proc/backup.tar';
    const made = createBackup({ directory: data, file, isForced: false, withKeys: false, now: Date.now() });
    await expect(made).rejects.toMatchObject({ code: 'ENOENT', path: file });
  });

  it('of a damaged database says that it is damaged, and leaves no archive', async () => {
    const harmed = join(folder, 'harmed');
    await backUp('sound.tar');
    await restoreBackup(join(folder, 'sound.tar'), harmed);
    const bytes = readFileSync(join(harmed, 'asp.sqlite'));
    writeFileSync(join(harmed, 'asp.sqlite'), bytes.fill(0xff, 4096 * 4, 4096 * 60));
    const options = { directory: harmed, file: join(folder, 'harmed.tar'), isForced: false, withKeys: false, now: 0 };
    await expect(createBackup(options)).rejects.toThrow(/asp\.sqlite is damaged \(.+\)/);
    expect(readdirSync(folder).filter((name) => name.includes('harmed'))).toEqual(['harmed']);
  });

  it('of a folder without a database is refused, and makes none', async () => {
    const empty = join(folder, 'empty');
    mkdirSync(empty);
    const made = createBackup({
      directory: empty,
      file: join(folder, 'empty.tar'),
      isForced: false,
      withKeys: false,
      now: 0,
    });
    await expect(made).rejects.toMatchObject({ code: 'NO_DATA' });
    expect(readdirSync(empty)).toEqual([]);
    expect(existsSync(join(folder, 'empty.tar'))).toBe(false);
  });

  describe('is refused, and leaves no folder behind,', () => {
    const refuse = async (name: string, bytes: Buffer, said: RegExp): Promise<void> => {
      writeFileSync(join(folder, `${name}.tar`), bytes);
      const target = join(folder, `restored-${name}`);
      await expect(restoreBackup(join(folder, `${name}.tar`), target)).rejects.toMatchObject({
        code: 'BROKEN',
        message: expect.stringMatching(said),
      });
      expect(existsSync(target)).toBe(false);
    };
    /** Takes a good archive and adds a file with tar. */
    const withFile = (name: string, path: string, text: string): Buffer => {
      const stage = join(folder, `stage-${name}`);
      mkdirSync(join(stage, 'attachments'), { recursive: true });
      writeFileSync(join(stage, 'payload'), text);
      const archive = join(folder, `made-${name}.tar`);
      writeFileSync(archive, readFileSync(join(folder, 'good.tar')));
      chmodSync(archive, 0o600);
      execFileSync('tar', [
        '-rPf',
        archive,
        '--format=ustar',
        `--transform=s,payload,${path},`,
        '-C',
        stage,
        'payload',
      ]);
      return readFileSync(archive);
    };
    beforeAll(() => backUp('good.tar'));

    it('when it is cut short anywhere', async () => {
      const good = readFileSync(join(folder, 'good.tar'));
      for (const [index, size] of [0, 100, 512, 5_000, good.length - 1024, good.length - 513].entries())
        await refuse(`cut-${index}`, good.subarray(0, size), /[Nn]ot an asp backup/);
    });

    it('when a byte of an attachment has changed', async () => {
      const bytes = Buffer.from(readFileSync(join(folder, 'good.tar')));
      const place = bytes.indexOf(`attachments/${attachment}`) + 512;
      bytes[place + 3] = (bytes[place + 3] ?? 0) ^ 0xff;
      await refuse('flipped', bytes, /attachment .* is missing or was changed/);
    });

    it('when the database is damaged', async () => {
      const bytes = Buffer.from(readFileSync(join(folder, 'good.tar')));
      bytes.fill(0xff, 512 + 4096, 512 + 4096 * 6);
      await refuse('damaged', bytes, /damaged/);
    });

    it('when it contains a path to somewhere else', async () => {
      for (const [index, path] of ['../outside', '/tmp/outside', 'attachments/../../outside', 'asp.lock'].entries())
        await refuse(`foreign-${index}`, withFile(`foreign-${index}`, path, 'x'), /it contains/);
      expect(existsSync(join(folder, 'outside'))).toBe(false);
    });

    it('if it is not an archive', () =>
      refuse('text', Buffer.from('hello '.repeat(1000)), /Not an asp backup, or truncated/));

    it('when a newer program wrote it', async () => {
      const newer = join(folder, 'newer');
      await restoreBackup(join(folder, 'good.tar'), newer);
      await inDatabase(newer, 'INSERT INTO schema_version VALUES (9999, 9999) RETURNING version');
      await createBackup({
        directory: newer,
        file: join(folder, 'newer.tar'),
        isForced: false,
        withKeys: false,
        now: 0,
      });
      await refuse('newer-again', readFileSync(join(folder, 'newer.tar')), /newer asp \(schema version 9999/);
    });
  });

  describe('of which a restore was killed', () => {
    let target: string;
    beforeEach(async () => {
      await backUp('killed.tar');
      target = await mkdtemp(join(folder, 'killed-'));
    });
    afterEach(() => rmSync(join(folder, 'killed.tar')));
    const restore = () => restoreBackup(join(folder, 'killed.tar'), target);
    const leave = (...names: readonly string[]): void => {
      for (const name of names) {
        mkdirSync(dirname(join(target, name)), { recursive: true });
        writeFileSync(join(target, name), 'half');
      }
    };

    it.each([
      { when: 'it unpacked', names: ['.restoring/asp.sqlite', '.restoring/attachments/att_1'] },
      { when: 'it put its files in place', names: ['.restoring/asp.sqlite', 'attachments/att_1'] },
    ])('while $when: a service refuses the folder, and the next restore succeeds', async ({ names }) => {
      leave(...names);
      const refusal = { code: 'DATABASE_NOT_USABLE', message: expect.stringContaining('not to the end') };
      await expect(openSqlite({ directory: target })).rejects.toMatchObject(refusal);
      await restore();
      expect(readdirSync(target).sort()).toEqual(['asp.sqlite', 'attachments']);
      expect(existsSync(join(target, 'attachments', 'att_1'))).toBe(false);
    });

    it.each([
      { what: 'other files', names: ['.restoring/asp.sqlite', 'note.txt'] },
      { what: 'attachments of other data', names: ['.restoring/attachments/att_1', 'attachments/att_2'] },
      { what: 'a database', names: ['.restoring/asp.sqlite', 'asp.sqlite'] },
    ])('keeps a folder that also has $what', async ({ names }) => {
      leave(...names);
      await expect(restore()).rejects.toMatchObject({ code: 'NOT_EMPTY' });
      for (const name of names) expect(readFileSync(join(target, name), 'utf8')).toBe('half');
    });

    it('is not confused with one that is running', async () => {
      leave('.restoring/asp.sqlite');
      const lock = lockDataDirectory(await loadSqlite(), join(target, '.restoring/asp.lock'), target);
      const refusal = { code: 'NOT_EMPTY', message: expect.stringContaining('is being restored') };
      await expect(restore()).rejects.toMatchObject(refusal);
      expect(existsSync(join(target, '.restoring/asp.sqlite'))).toBe(true);
      lock.release();
      await restore();
    });
  });

  it('is never restored over other data', async () => {
    await backUp('second.tar');
    for (const name of ['note.txt', '.hidden']) {
      const target = await mkdtemp(join(folder, 'used-'));
      writeFileSync(join(target, name), 'mine');
      await expect(restoreBackup(join(folder, 'second.tar'), target)).rejects.toMatchObject({ code: 'NOT_EMPTY' });
      expect(readdirSync(target)).toEqual([name]);
    }
    await expect(restoreBackup(join(folder, 'second.tar'), data)).rejects.toMatchObject({ code: 'NOT_EMPTY' });
  });
});
