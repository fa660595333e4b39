import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { createHome, type Home, type ServiceProcess, startServe } from '../acceptance/program.js';
import { createActor } from '../support/actors.js';
import { field } from '../support/json.js';
import { createLedger, findFaults } from '../support/ledger.js';
import { discover } from '../support/oauth.js';
import { operatorOf } from '../support/operator.js';
import { createTally } from '../support/tally.js';
import { until } from '../support/until.js';

const [MESSAGES, WRITERS, SESSIONS] = [20_000, 64, 50];

let home: Home;
let service: ServiceProcess;
beforeAll(async () => {
  home = createHome();
  service = await startServe(home, ['--limits', 'off']);
});
afterAll(async () => {
  await service.stop();
  await home.dispose();
});

it(`Events › one order without gaps for answers, replays and sockets: ${MESSAGES} messages, ${WRITERS} writers, ${SESSIONS} sessions`, async () => {
  const tally = createTally('one order');
  const place = await discover(service.url);
  const operator = operatorOf(home);
  const alice = await createActor(place, operator, 'alice');
  const readers = await Promise.all(['bob', 'carol'].map((name) => createActor(place, operator, name)));
  const sessions = await Promise.all(
    Array.from({ length: SESSIONS }, () => alice.mustCreate({ invite: readers.map(({ handle }) => handle) })),
  );
  for (const reader of readers) for (const session of sessions) await reader.mustJoin(session);
  const sockets = await Promise.all(readers.map((reader) => reader.mustConnect()));
  const ledger = createLedger();
  await Promise.all(
    Array.from({ length: WRITERS }, (_, index) => {
      const session = sessions[index % SESSIONS] ?? '';
      return ledger.writeUntil(
        () => ledger.counts.ok >= MESSAGES,
        session,
        ({ key, content }) => alice.post(`/sessions/${session}/messages`, { content }, { key }),
      );
    }),
  );

  const faults: string[] = [];
  let events = 0;
  for (const session of sessions) {
    const log = await alice.mustReplay(session);
    events += log.length;
    faults.push(...findFaults(session, log, ledger));
    for (const socket of sockets) {
      const ofSession = () =>
        socket.frames.filter(
          (frame) => field(frame, 'session_id') === session && field(frame, 'type') === 'session.message',
        );
      const messages = log.filter((event) => field(event, 'type') === 'session.message');
      await until('the socket has all', async () => ofSession().length >= messages.length, 60_000);
      expect(ofSession()).toEqual(messages);
      tally.fired('compared');
    }
    await pause(0);
  }
  for (const socket of sockets) await socket.close();
  tally.finish(['compared'], { ...ledger.counts, events, wrong: faults.length });
  expect(faults).toEqual([]);
  expect(ledger.counts.ok).toBeGreaterThanOrEqual(MESSAGES);
}, 1_800_000);
