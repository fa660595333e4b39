import { rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import { systemClock, wait } from '../../../../src/kit/clock.js';
import { createIds } from '../../../../src/kit/ids.js';
import { systemRandom } from '../../../../src/kit/random.js';
import { append } from '../../../../src/service/messaging/events.js';
import { createLocalBus } from '../../../../src/service/messaging/shared-bus.js';
import { openSqlite } from '../../../../src/service/store/sqlite.js';

const WRITERS = 16;
const VALUE = 'x'.repeat(8192);

/** Writes a line to the pipe before it returns, so that a kill cannot take it back. */
const say = (line: string): void => {
  writeSync(1, `${line}\n`);
};

const [mode = '', directory = '', sessionId = ''] = process.argv.slice(2);
const clock = systemClock;
const context = { clock, ids: createIds(clock, systemRandom), bus: createLocalBus(() => {}) };
const database = await openSqlite({ directory });
say('open');

const put = (name: string): Promise<boolean> =>
  database
    .write((transaction) => transaction.run('INSERT INTO note (name, value) VALUES ($1, $2)', name, VALUE))
    .then(
      () => true,
      () => false,
    );

/** Appends events forever and prints the number of each acknowledged one. */
async function appendForEver(): Promise<void> {
  while (true) {
    const sequence = await database.write((transaction) =>
      append(context, transaction, sessionId, 1, async () => [{ type: 'session.joined', payload: { agent: '@a.b' } }]),
    );
    say(`ack ${sequence}`);
  }
}

/** Writes until the disk is full and a little longer, then makes room and writes again. */
async function fill(): Promise<void> {
  await database.write((transaction) => transaction.run('CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT)'));
  let refusals = 0;
  for (let i = 0; refusals < 20 && i < 100_000; i += 1) {
    const names = [`a${i}`, `b${i}`, `c${i}`];
    const kept = await Promise.all(names.map(put));
    for (const [index, isKept] of kept.entries()) if (isKept) say(`ack ${names[index]}`);
    if (kept.includes(false)) refusals += 1;
  }
  say(`refused ${refusals}`);
  const rows = await database.read((query) => query.all('SELECT name FROM note'));
  say(`readable ${rows.length}`);
  rmSync(join(directory, 'filler'), { force: true });
  for (let i = 0; i < 50; i += 1) {
    if (await put(`late${i}`)) {
      say(`ack late${i}`);
      say('recovered');
      break;
    }
    await wait(clock, 20);
  }
  await database.close();
}

/** Makes one write after another, whether they succeed or fail. */
async function insist(): Promise<void> {
  await database.write((transaction) => transaction.run('CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT)'));
  for (let i = 0; i < 300; i += 1) say(`${(await put(`n${i}`)) ? 'ack' : 'refused'} n${i}`);
  say('done');
  await database.close();
}

if (mode === 'append') await Promise.all(Array.from({ length: WRITERS }, appendForEver));
else if (mode === 'fill') await fill();
else if (mode === 'insist') await insist();
else if (mode === 'hold') await wait(clock, 600_000);
