import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ServiceOptions } from '../../../../src/service/service.js';
import { sessionLock } from '../../../../src/service/store/lock-names.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { type Actor, callApi } from '../../../support/actors.js';
import { createTestClock, type TestClock } from '../../../support/clock.js';
import { mustGrant } from '../../../support/grants.js';
import { field, text } from '../../../support/json.js';
import { revoke } from '../../../support/oauth.js';
import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { startTestService, type TestService } from '../../../support/service.js';
import type { LiveSocket } from '../../../support/socket.js';
import { type SocketCutter, startSocketCutter } from '../../../support/socket-cutter.js';
import { createSchema, type Schema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

const SECOND_MS = 1_000;
const GRACE_MS = 600_000;
/** Generous, because a busy machine needs long for minutes of clock time. */
const PATIENCE_MS = 45_000;
const DATABASE_PORT = Number(new URL(POSTGRES_URL).port || 5432);

vi.setConfig({ testTimeout: 3 * PATIENCE_MS });

let schema: Schema;
/** Between the first service and the database. */
let cutter: SocketCutter;
/** Each service has a separate clock. A service whose clock stops is stopped. */
let clocks: readonly [TestClock, TestClock];
let one: TestService;
let two: TestService;
let bob: Actor;
let faults: string[];

beforeEach(async () => {
  schema = createSchema();
  cutter = await startSocketCutter('all');
  cutter.targetPort = DATABASE_PORT;
  const url = new URL(schema.url);
  url.port = String(cutter.port);
  clocks = [createTestClock(), createTestClock()];
  faults = [];
  const log = {
    info: () => {},
    warn: () => {},
    error: (event: string, error: unknown) => void faults.push(`${event} ${error}`),
  };
  const common: Partial<ServiceOptions> = { areLimitsOn: false, presenceGraceMs: GRACE_MS };
  one = await startTestService({ ...common, clock: clocks[0], databaseUrl: url.href, log });
  two = await startTestService({ ...common, clock: clocks[1], databaseUrl: schema.url, publicUrl: one.authUrl });
  bob = await one.createAgent('bob');
});
afterEach(async () => {
  await two?.stop();
  await stopInTime();
  await cutter?.stop();
  await schema?.drop();
});

const isOnline = async (): Promise<boolean> => {
  const answer = await callApi(`http://127.0.0.1:${two.port}/v1`, await bob.token(), 'GET', '/agents/me');
  return field(answer.json, 'is_online') === true;
};
/** Advances a clock second by second, letting the resulting work finish, until `question` returns true. */
const goOnUntil = (what: string, clock: TestClock, question: () => Promise<boolean>): Promise<boolean> =>
  until(
    what,
    async () => {
      clock.advance(SECOND_MS);
      return question();
    },
    PATIENCE_MS,
  );
/** Expects a stop within twenty seconds, whatever the state of the database. */
const stopInTime = async (): Promise<void> => {
  let isOver = false;
  const stopped = one.stop().then(() => {
    isOver = true;
  });
  await until('all is done that can be', async () => isOver, 3_000).catch(() => {});
  for (let second = 0; second < 20 && !isOver; second += 1) {
    clocks[0].advance(SECOND_MS);
    await new Promise(setImmediate);
  }
  await stopped;
};
/** Keeps the first service silent until the second considers it dead and closes its records. */
const standStill = async (): Promise<void> => {
  await until('bob is online', isOnline);
  await goOnUntil('the stopped one is considered gone', clocks[1], async () => !(await isOnline()));
  clocks[0].advance(90 * SECOND_MS);
};
/** Advances the service's clock until it closes the socket. Returns the close code. */
const closedWith = async (socket: LiveSocket): Promise<number | undefined> => {
  let code: number | undefined;
  void socket.mustBeClosed(60_000).then((closed) => {
    code = closed;
  });
  await goOnUntil('the socket is closed', clocks[0], async () => code !== undefined);
  return code;
};

describe('A service that was stopped until the others considered it dead', () => {
  it('closes its old sockets with 1013 once it resumes; agents that come back are online, and stay so', async () => {
    const socket = await bob.mustConnect();
    await standStill();
    expect(await closedWith(socket)).toBe(1013);
    const again = await bob.mustConnect();
    expect(await isOnline()).toBe(true);
    for (let second = 0; second < 60; second += 1) {
      for (const clock of clocks) clock.advance(SECOND_MS);
      await again.mustPing();
      // An unrelated write, so that the writes of each second have time to finish.
      await bob.patch('/agents/me', { description: `second ${second}` });
    }
    expect(again.isOpen).toBe(true);
    expect(await isOnline()).toBe(true);
  });

  it('closes the sockets of a grant that was revoked in the meantime', async () => {
    const grant = await mustGrant(one.place, one.operator, bob.handle, { resource: one.place.wsUrl });
    const socket = await bob.mustConnect(grant.accessToken);
    await standStill();
    const revokeUrl = one.place.revokeUrl.replace(`:${one.port}`, `:${two.port}`);
    expect((await revoke({ ...one.place, revokeUrl }, grant.clientId, grant.refreshToken)).status).toBe(200);
    expect(await closedWith(socket)).toBe(1013);
  });

  it('has its agents disconnected once, and reconnected when they come back', async () => {
    const alice = await one.createAgent('alice');
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    const socket = await bob.mustConnect();
    await standStill();
    await closedWith(socket);
    await bob.mustConnect();
    const types = async () => (await alice.mustReplay(session)).map((event) => text(event, 'type')).slice(2);
    await until('bob is back', async () => (await types()).includes('session.reconnected'));
    expect(await types()).toEqual(['session.disconnected', 'session.reconnected']);
  });
});

describe('a service that loses its database', () => {
  const CUTS = {
    refused: () => {
      cutter.targetPort = 1;
      return cutter.cutAll('reset');
    },
    silent: () => {
      cutter.cutAfter(0, 'silence');
      return cutter.cutAll('silence');
    },
  };
  it.each(Object.keys(CUTS) as (keyof typeof CUTS)[])(
    'closes its sockets with 1013 within half a minute: %s',
    async (kind) => {
      const sockets = [await bob.mustConnect(), await bob.mustConnect()];
      await until('bob is online', isOnline);
      expect(CUTS[kind]()).toBeGreaterThan(0);
      let closed = 0;
      for (const socket of sockets)
        void socket.mustBeClosed(60_000).then((code) => {
          expect(code).toBe(1013);
          closed += 1;
        });
      for (let second = 0; second < 30 && closed < sockets.length; second += 1) {
        clocks[0].advance(SECOND_MS);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      await until('both are closed', async () => closed === sockets.length, PATIENCE_MS);
    },
  );

  it('does not keep an agent online forever that disconnected in the meantime', async () => {
    const socket = await bob.mustConnect();
    await until('bob is online', isOnline);
    CUTS.refused();
    await socket.close();
    await until(
      'the service could not forget the socket',
      async () => faults.some((fault) => fault.startsWith('presence_failed')),
      PATIENCE_MS,
    );
    cutter.targetPort = DATABASE_PORT;
    await goOnUntil('bob is offline', clocks[0], async () => !(await isOnline()));
  });
});

describe('An unrecorded absence', () => {
  it('is recorded as soon as possible', async () => {
    const alice = await one.createAgent('alice');
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    const socket = await bob.mustConnect();
    await until('bob is online', isOnline);
    const other = await openPostgres(schema.url);
    let letGo = (): void => {};
    const isHeld = new Promise<void>((resolve, reject) => {
      const held = other.write(async (transaction) => {
        await transaction.lock([sessionLock(session)]);
        resolve();
        await new Promise<void>((done) => {
          letGo = done;
        });
      });
      held.then(() => other.close()).catch(reject);
    });
    await isHeld;
    await socket.close();
    await until(
      'the service has waited for the session long enough',
      async () => faults.some((fault) => fault.includes('lock timeout')),
      PATIENCE_MS,
    );
    letGo();
    await until('bob counts as offline', async () => !(await isOnline()));
    await goOnUntil('bob is disconnected', clocks[0], async () =>
      (await alice.mustReplay(session)).some((event) => field(event, 'type') === 'session.disconnected'),
    );
  });
});
