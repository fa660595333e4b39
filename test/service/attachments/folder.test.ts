import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { ulid } from 'ulid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { RunningService, ServiceOptions } from '../../../src/service/service.js';
import type { Actor } from '../../support/actors.js';
import type { TestClock } from '../../support/clock.js';
import { request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { TEST_STORE } from '../../support/stores.js';
import { actorAt, createServices, type Data, type Services } from './services.js';

const HOUR_MS = 3_600_000;
const WEEK_MS = 7 * 24 * HOUR_MS;
const MANY = 50;

let services: Services;
let directory: string;
let clock: TestClock;
let lines: string[];

beforeEach(() => {
  services = createServices();
  ({ directory, clock, lines } = services);
});
afterEach(() => services.dispose());

const newData = (folder?: string): Data => services.newData(folder);
const start = (data: Data, more: Partial<ServiceOptions> = {}): Promise<RunningService> =>
  services.start(data, { metricsPort: 0, ...more });
const stop = (service: RunningService): Promise<void> => services.stop(service);

/** Sends one attachment through the service. Returns its id and the address of its bytes. */
async function withAttachment(service: RunningService): Promise<{ id: string; actor: Actor; url(): Promise<string> }> {
  const actor = await actorAt(service);
  const id = await actor.mustUpload();
  await actor.mustSend(await actor.mustCreate(), [{ type: 'file', attachment_id: id }]);
  return { id, actor, url: async () => String(field((await actor.get(`/attachments/${id}`)).json, 'url')) };
}

const attachmentsOf = ({ folder }: Data): string => join(folder, 'attachments');
const filesOf = (data: Data): string[] =>
  readdirSync(attachmentsOf(data))
    .filter((name) => name.startsWith('att_'))
    .sort();
function trashOf(data: Data): string[] {
  const trash = join(attachmentsOf(data), 'trash');
  return existsSync(trash) ? readdirSync(trash).sort() : [];
}

/** Creates three-hour-old files that have no row. */
function plantFiles(data: Data, count: number): void {
  mkdirSync(attachmentsOf(data), { recursive: true });
  for (let i = 0; i < count; i += 1)
    writeFileSync(join(attachmentsOf(data), `att_${ulid(clock.now() - 3 * HOUR_MS)}`), 'bytes');
}

const metric = async (service: RunningService, name: string): Promise<number> =>
  Number(new RegExp(`^${name} (\\d+)`, 'm').exec((await request(service.metricsUrl ?? '')).text)?.[1]);

describe('an attachments folder', () => {
  it('an attachments folder of a service is refused when the database is empty, and neither is touched', async () => {
    const data = newData();
    const service = await start(data);
    await withAttachment(service);
    await stop(service);
    const before = filesOf(data);
    const mistaken = newData(data.folder);
    if (mistaken.databaseUrl === undefined)
      renameSync(join(data.folder, 'asp.sqlite'), join(directory, 'aside.sqlite'));
    await expect(start(mistaken)).rejects.toMatchObject({
      code: 'DATABASE_NOT_USABLE',
      message: expect.stringMatching(/^The database is empty \(.+\), but the attachments folder belongs to/),
    });
    expect(filesOf(data)).toEqual(before);
    expect(existsSync(join(data.folder, 'asp.sqlite'))).toBe(false);
    if (mistaken.databaseUrl === undefined)
      renameSync(join(directory, 'aside.sqlite'), join(data.folder, 'asp.sqlite'));
    const again = await start(data);
    expect((await request(`${again.authUrl}/ready`)).status).toBe(200);
  });

  it('an attachments folder is refused when it belongs to a different database', async () => {
    const production = newData();
    const staging = newData(join(directory, 'staging'));
    for (const data of [production, staging]) {
      const service = await start(data);
      await withAttachment(service);
      await stop(service);
    }
    const before = filesOf(production);
    const mistaken = { ...staging, folder: production.folder };
    if (staging.databaseUrl === undefined)
      renameSync(join(staging.folder, 'asp.sqlite'), join(production.folder, 'asp.sqlite'));
    await expect(start(mistaken)).rejects.toMatchObject({
      code: 'ATTACHMENTS_NOT_USABLE',
      message: expect.stringContaining('belong to a different database. Nothing was changed.'),
    });
    expect(filesOf(production)).toEqual(before);
    const adopted = await start(mistaken, { adoptsAttachments: true });
    await stop(adopted);
    await start(mistaken);
    expect(filesOf(production)).toEqual(before);
  });

  it('an attachments folder without a mark is accepted if the database knows its files, and refused otherwise', async () => {
    const data = newData();
    const service = await start(data);
    await withAttachment(service);
    await stop(service);
    rmSync(join(attachmentsOf(data), 'identity'));
    await stop(await start(data));
    rmSync(join(attachmentsOf(data), 'identity'));
    plantFiles(data, MANY);
    await expect(start(data)).rejects.toMatchObject({
      message: expect.stringContaining(`which has rows for 1 of ${MANY + 1} files`),
    });
    expect(filesOf(data)).toHaveLength(MANY + 1);
  });

  it('an empty attachments folder is refused when the database knows attachments', async () => {
    const data = newData();
    const service = await start(data);
    await withAttachment(service);
    await stop(service);
    renameSync(attachmentsOf(data), join(directory, 'elsewhere'));
    await expect(start(data)).rejects.toMatchObject({
      message: expect.stringContaining('the database has some, and there are no files'),
    });
    rmSync(attachmentsOf(data), { recursive: true });
    renameSync(join(directory, 'elsewhere'), attachmentsOf(data));
    await start(data);
  });

  it.runIf(TEST_STORE === 'postgres')(
    'a refused attachments folder changes nothing: the service then starts with an empty one',
    async () => {
      const production = newData();
      await stop(await start(production));
      const data = newData(join(directory, 'own'));
      await stop(await start(data, { data: 'memory' }));
      const mistaken = { ...data, folder: production.folder };
      await expect(start(mistaken)).rejects.toThrow('belong to a different database. Nothing was changed.');
      await start(data);
    },
  );

  it.runIf(TEST_STORE === 'postgres')(
    'an attachments folder that was marked just before a crash still belongs to its database',
    async () => {
      const data = newData();
      await stop(await start(data));
      const url = new URL(data.databaseUrl ?? '');
      const client = new Client({ connectionString: data.databaseUrl });
      await client.connect();
      await client.query(`UPDATE ${url.searchParams.get('search_path')}.service_key SET attachments_home = NULL`);
      await client.end();
      await start(data);
      await expect(start({ ...data, folder: join(directory, 'own') })).rejects.toThrow('the other services');
    },
  );

  it.runIf(TEST_STORE === 'postgres')(
    'an attachments folder is refused when the other services on the database use a different one',
    async () => {
      const data = newData();
      const others = { ...data, folder: join(directory, 'own') };
      await Promise.all([start(data), start(data)]);
      await expect(start(others)).rejects.toMatchObject({
        code: 'ATTACHMENTS_NOT_USABLE',
        message: expect.stringContaining('are not those that the other services on this database use'),
      });
      await stop(await start(others, { adoptsAttachments: true }));
      await start(others);
    },
  );

  it('an attachments folder that is replaced while the service runs accepts no uploads and loses nothing', async () => {
    const data = newData();
    const service = await start(data);
    const { actor, url } = await withAttachment(service);
    const address = await url();
    renameSync(attachmentsOf(data), join(directory, 'elsewhere'));
    plantFiles(data, 3);
    expect((await actor.upload({ bytes: 'x' })).status).toBe(500);
    expect((await request(address)).status).toBe(500);
    await services.untilSwept('the sweep has looked', () =>
      lines.some((line) => line.startsWith('housekeeping_failed ')),
    );
    expect(filesOf(data)).toHaveLength(3);
    expect(lines.join('\n')).toContain('is no longer the attachments folder of this service');
  });
});

describe('the sweep of attachment files without a row', () => {
  it('files without a row go to the trash, though never at startup, and are removed after a week', async () => {
    const data = newData();
    const first = await start(data);
    const { id } = await withAttachment(first);
    await stop(first);
    plantFiles(data, 5);
    const service = await start(data);
    await services.passMinutes(50);
    expect(filesOf(data)).toHaveLength(6);
    const discarded = 'attachment_orphans_discarded {"count":5}';
    await services.untilSwept('they have been discarded', () => lines.includes(discarded));
    expect(trashOf(data)).toHaveLength(5);
    expect(filesOf(data)).toEqual([id]);
    expect(await metric(service, 'asp_attachment_orphans')).toBe(5);
    clock.advance(WEEK_MS);
    const emptied = 'attachment_trash_emptied {"removed":5,"restored":0}';
    await services.untilSwept('the trash has been emptied', () => lines.includes(emptied));
    expect(trashOf(data)).toEqual([]);
    expect(filesOf(data)).toEqual([id]);
  });

  it('many files without a row stay where they are, and the log and the metrics say so', async () => {
    const data = newData();
    const first = await start(data);
    await withAttachment(first);
    await stop(first);
    plantFiles(data, MANY);
    const service = await start(data);
    await services.untilSwept('it is said', () => lines.some((line) => line.startsWith('attachment_orphans_kept ')));
    expect(lines.join('\n')).toContain(`{"orphans":${MANY},"files":${MANY + 1}}`);
    expect(filesOf(data)).toHaveLength(MANY + 1);
    expect(trashOf(data)).toEqual([]);
    expect(await metric(service, 'asp_attachment_orphans')).toBe(MANY);
  });
});

describe('an attachment whose file is missing', () => {
  it('an attachment whose file is missing is a 500 that says so, in the log and the metrics too, and never a 404', async () => {
    const data = newData();
    const service = await start(data);
    const { id, url } = await withAttachment(service);
    expect((await request(await url())).status).toBe(200);
    rmSync(join(attachmentsOf(data), id));
    const answer = await request(await url());
    expect(answer.status).toBe(500);
    expect(field(answer.json, 'error')).toEqual({
      code: 'INTERNAL_ERROR',
      message: 'The file of this attachment is missing on the server.',
    });
    expect(lines.join('\n')).toContain('attachment_file_missing');
    expect(await metric(service, 'asp_attachment_files_missing_total')).toBe(1);
  });

  it('an attachment whose file was discarded by mistake comes back from the trash when it is read', async () => {
    const data = newData();
    const service = await start(data);
    const { id, url } = await withAttachment(service);
    const bytes = readFileSync(join(attachmentsOf(data), id));
    mkdirSync(join(attachmentsOf(data), 'trash'));
    renameSync(join(attachmentsOf(data), id), join(attachmentsOf(data), 'trash', id));
    const answer = await request(await url());
    expect(answer.status).toBe(200);
    expect(answer.text).toBe(bytes.toString('utf8'));
    expect(filesOf(data)).toEqual([id]);
  });
});
