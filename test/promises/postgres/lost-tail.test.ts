import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { connect, createClientCredential, type TailItem } from '../../../src/library/library.js';
import { openPostgres } from '../../../src/service/store/postgres.js';
import { createActor } from '../../support/actors.js';
import { startCluster } from '../../support/cluster.js';
import { field } from '../../support/json.js';
import { discover } from '../../support/oauth.js';
import { operatorOf } from '../../support/operator.js';
import { startPrivatePostgres, whyNoPrivatePostgres } from '../../support/private-postgres.js';
import { createSchema } from '../../support/stores.js';
import { until } from '../../support/until.js';

const reason = whyNoPrivatePostgres();
const PATIENCE_MS = 60_000;
const DUMP = reason === undefined ? newestProgram('pg_dump') : '';

function newestProgram(name: string): string {
  const folder = '/usr/lib/postgresql';
  const [newest = ''] = readdirSync(folder).toSorted().reverse();
  return join(folder, newest, 'bin', name);
}

describe.skipIf(reason !== undefined)('a failover that loses the last acknowledged events', () => {
  it('a connected client misses no event with a reused number and learns which events are gone', async () => {
    const primary = await startPrivatePostgres();
    const standby = await primary.createStandby();
    const cluster = await startCluster({ count: 1, databaseUrl: primary.url, name: 'lost-tail' });
    const [node] = cluster.nodes;
    if (node === undefined) throw new Error('no node');
    const place = await discover(node.baseUrl);
    const [alice, bob] = [
      await createActor(place, operatorOf(node.home), 'alice'),
      await createActor(place, operatorOf(node.home), 'bob'),
    ];
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    const service = { baseUrl: node.baseUrl };
    const client = connect({ service, credential: createClientCredential({ service, ...bob.credentials }) });
    const items: TailItem[] = [];
    const stop = new AbortController();
    const reading = (async () => {
      for await (const item of client.tail({ signal: stop.signal })) items.push(item);
    })();
    const contents = (): unknown[] =>
      items.flatMap((item) =>
        item.kind === 'event' && item.event.type === 'session.message' ? [field(item.event, 'payload.content')] : [],
      );
    const { sequence: kept } = await alice.mustSend(session, 'kept');
    await until('the first has arrived', async () => contents().includes('kept'));

    // From here on, the standby receives nothing.
    await standby.crash();
    for (let i = 1; i <= 5; i += 1) await alice.mustSend(session, `lost ${i}`);
    await until('they have arrived', async () => contents().includes('lost 5'));
    await primary.crash();
    await standby.restartImmediately();
    await standby.promote();
    node.cutter.targetPort = standby.port;
    node.cutter.cutAll('reset');
    const send = async (content: string): Promise<boolean> =>
      (await alice.post(`/sessions/${session}/messages`, { content })).status === 201;
    await until('it writes again', () => send('new 1'), PATIENCE_MS);
    expect(await send('new 2')).toBe(true);

    await until('the new lines have arrived', async () => contents().includes('new 2'), PATIENCE_MS);
    expect(contents()).toEqual(['kept', ...[1, 2, 3, 4, 5].map((i) => `lost ${i}`), 'new 1', 'new 2']);
    expect(items).toContainEqual(
      expect.objectContaining({ kind: 'restored', sessionId: session, after: kept, from: kept + 5 }),
    );
    stop.abort();
    await reading;
    await cluster.stop();
    await standby.stop();
    await primary.stop();
  });
});

describe.skipIf(reason !== undefined)('a dump of PostgreSQL', () => {
  it('data restored from a dump is in a new epoch, even in its original place', async () => {
    const schema = createSchema();
    const folder = mkdtempSync(join(tmpdir(), 'asp-dump-'));
    const file = join(folder, 'dump');
    const url = new URL(schema.url);
    const name = url.searchParams.get('search_path') ?? '';
    url.search = '';
    const epoch = async (): Promise<string> => {
      const database = await openPostgres(schema.url);
      const { token } = database.epoch();
      await database.close();
      return token;
    };
    const before = await epoch();
    expect(await epoch()).toBe(before);
    execFileSync(DUMP, ['-Fc', '-n', name, '-f', file, url.href]);
    await schema.drop();
    execFileSync(newestProgram('pg_restore'), ['-d', url.href, file]);
    const after = await epoch();
    expect(after).not.toBe(before);
    expect(await epoch()).toBe(after);
    rmSync(folder, { recursive: true });
    await schema.drop();
  });
});
