import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '@nats-io/transport-node';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type RunningService, type ServiceOptions, startService } from '../../../src/service/service.js';
import { seal } from '../../../src/service/store/keys.js';
import { openPostgres } from '../../../src/service/store/postgres.js';
import { missing } from '../../acceptance/program.js';
import { type Actor, createActor, type Operator } from '../../support/actors.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { mustGrant } from '../../support/grants.js';
import { request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { NATS_URL, whyNoNats } from '../../support/nats-server.js';
import { GARBAGE } from '../../support/notification-garbage.js';
import { discover, type Place, revoke } from '../../support/oauth.js';
import type { LiveSocket } from '../../support/socket.js';
import { type SocketCutter, startSocketCutter } from '../../support/socket-cutter.js';
import { createSchema, type Schema, takeSchema } from '../../support/stores.js';
import { until } from '../../support/until.js';

const CANARY = 'CANARY-bus-password';
const NOBODY = 'nats://127.0.0.1:1';
const reason = await whyNoNats();
const noBinary = missing('nats-server');
/** A commit that takes this long is still running after its position counts as settled, by the clock of the machine. */
const HELD_UP_MS = 8_000;
const because = (why: string | undefined): string => (why === undefined ? '' : ` (not here: ${why})`);

/** The log of a service. */
interface Said {
  readonly log: NonNullable<ServiceOptions['log']>;
  readonly lines: string[];
  count(event: string): number;
}

function createLog(): Said {
  const lines: string[] = [];
  return {
    lines,
    count: (event) => lines.filter((line) => line.startsWith(`${event} `)).length,
    log: {
      info: (event, fields) => lines.push(`${event} ${JSON.stringify(fields)}`),
      warn: (event, error, fields) => lines.push(`${event} ${error} ${JSON.stringify(fields)}`),
      error: (event, error, fields) =>
        lines.push(`${event} ${error instanceof Error ? error.stack : ''} ${JSON.stringify(fields)}`),
    },
  };
}

/** Two services on one database with a frozen clock, so that the poll finds nothing unless a test advances it. */
interface Pair {
  readonly clock: TestClock;
  /** The same one, unless a test asks for another. */
  readonly clockOfTwo: TestClock;
  readonly schema: Schema;
  readonly said: readonly [Said, Said];
  readonly place: Place;
  readonly operator: Operator;
  readonly socketUrlOfTwo: string;
  readonly two: RunningService;
  alice: Actor;
  bob: Actor;
  stop(): Promise<void>;
}

async function startPair(busOfOne: string, busOfTwo: string, clockOfTwo?: TestClock): Promise<Pair> {
  const [clock, schema] = [createTestClock(), takeSchema()];
  const said = [createLog(), createLog()] as const;
  const options = { host: '127.0.0.1', port: 0, data: 'memory', databaseUrl: schema.url, areLimitsOn: false } as const;
  const one = await startService({ ...options, clock, bus: { url: busOfOne }, log: said[0].log });
  const two = await startService({
    ...options,
    clock: clockOfTwo ?? clock,
    bus: { url: busOfTwo },
    log: said[1].log,
    publicUrl: one.authUrl,
    metricsPort: 0,
  });
  const place = await discover(one.baseUrl);
  const operator = { url: one.operatorUrl, secret: one.operatorSecret };
  return {
    clock,
    clockOfTwo: clockOfTwo ?? clock,
    schema,
    said,
    place,
    operator,
    two,
    socketUrlOfTwo: `ws://127.0.0.1:${two.port}/connect`,
    alice: await createActor(place, operator, 'alice'),
    bob: await createActor(place, operator, 'bob'),
    async stop() {
      await two.stop();
      await one.stop();
      await schema.drop();
    },
  };
}

/**
 * Ignores other sessions: a socket may also receive events that an earlier socket of this agent did not confirm in
 * time.
 */
const textsOf = (socket: LiveSocket, session: string): unknown[] =>
  socket.frames
    .filter((frame) => field(frame, 'type') === 'session.message' && field(frame, 'session_id') === session)
    .map((frame) => field(frame, 'payload.content'));

/** A service connects to NATS while it starts. Once a probe arrives, it is connected. */
async function mustHear(pair: Pair, socket: LiveSocket, session: string): Promise<void> {
  let count = 0;
  await until('a bell is heard', async () => {
    count += 1;
    await pair.alice.mustSend(session, `probe ${count}`);
    return textsOf(socket, session).length > 0;
  });
  await until('all probes are there', async () => textsOf(socket, session).includes(`probe ${count}`));
}

/** Returns the subject on which the services of a schema notify each other. */
async function findSubject({ url }: Schema): Promise<string> {
  const database = await openPostgres(url);
  const sealed = await database.read((query) => seal(query, 'bells', 'subject'));
  await database.close();
  return `asp.bells.${sealed.toString('hex').slice(0, 32)}`;
}

describe.skipIf(reason !== undefined)(`notifications over NATS${because(reason)}`, () => {
  let pair: Pair;
  beforeAll(async () => {
    pair = await startPair(NATS_URL, NATS_URL);
  });
  afterAll(() => pair?.stop());

  it('wake a socket at the other service at once, and it gets every event once and in order', async () => {
    const session = await pair.alice.mustCreate({ invite: [pair.bob.handle] });
    const socket = await pair.bob.mustConnect(undefined, pair.socketUrlOfTwo);
    await pair.bob.mustJoin(session);
    await mustHear(pair, socket, session);
    const before = textsOf(socket, session).length;
    for (let i = 0; i < 30; i += 1) await pair.alice.mustSend(session, `message ${i}`);
    await until('all have arrived', async () => textsOf(socket, session).length >= before + 30);
    expect(textsOf(socket, session).slice(before)).toEqual(Array.from({ length: 30 }, (_, i) => `message ${i}`));
    await socket.close();
  });

  it('close the sockets of a revoked grant at the other service', async () => {
    const { clientId, refreshToken, accessToken } = await mustGrant(pair.place, pair.operator, pair.bob.handle, {
      resource: [pair.place.baseUrl, pair.place.wsUrl],
    });
    const socket = await pair.bob.mustConnect(accessToken, pair.socketUrlOfTwo);
    expect((await revoke(pair.place, clientId, refreshToken)).status).toBe(200);
    expect(await socket.mustBeClosed(5_000)).toBe(1008);
  });

  it('garbage on the subject of the services changes nothing', async () => {
    const connection = await connect({ servers: NATS_URL });
    const subject = await findSubject(pair.schema);
    const session = await pair.alice.mustCreate({ invite: [pair.bob.handle] });
    const socket = await pair.bob.mustConnect(undefined, pair.socketUrlOfTwo);
    await pair.bob.mustJoin(session);
    await mustHear(pair, socket, session);
    const before = textsOf(socket, session).length;
    for (let i = 0; i < 10; i += 1) {
      for (const text of GARBAGE) connection.publish(subject, text);
      connection.publish(subject, Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28]));
      connection.publish(subject, 'x'.repeat(1_000_000));
      await connection.flush();
      await pair.alice.mustSend(session, `message ${i}`);
    }
    await until('all have arrived', async () => textsOf(socket, session).length >= before + 10);
    expect(textsOf(socket, session).slice(before)).toEqual(Array.from({ length: 10 }, (_, i) => `message ${i}`));
    expect(pair.said.map((one) => one.count('bus_failed'))).toEqual([0, 0]);
    await socket.close();
    await connection.close();
  });

  it('are not heard by services of another schema', async () => {
    const subjects = new Set<string>();
    const connection = await connect({ servers: NATS_URL });
    connection.subscribe('asp.bells.*', { callback: (_, message) => void subjects.add(message.subject) });
    await connection.flush();
    const other = await startPair(NATS_URL, NATS_URL);
    await until('both have rung', async () => {
      for (const { alice, bob } of [pair, other]) await alice.mustCreate({ invite: [bob.handle] });
      return subjects.size >= 2;
    });
    await other.stop();
    await connection.close();
  });
});

describe.skipIf(reason !== undefined)(`when the line to NATS is cut${because(reason)}`, () => {
  let cutter: SocketCutter;
  let pair: Pair;
  beforeAll(async () => {
    cutter = await startSocketCutter('all');
    cutter.targetPort = Number(new URL(NATS_URL).port || 4222);
    pair = await startPair(NATS_URL, `nats://127.0.0.1:${cutter.port}`);
  });
  afterAll(async () => {
    await pair?.stop();
    await cutter?.stop();
  });

  it('every event still arrives once, by polling; and notifications resume when the connection heals', async () => {
    const { alice, bob, clock, said } = pair;
    const session = await alice.mustCreate({ invite: [bob.handle] });
    const socket = await bob.mustConnect(undefined, pair.socketUrlOfTwo);
    await bob.mustJoin(session);
    await mustHear(pair, socket, session);
    const before = textsOf(socket, session).length;
    const measured = async (): Promise<object> => {
      const { text } = await request(pair.two.metricsUrl ?? '');
      return Object.fromEntries(
        [...text.matchAll(/^asp_bus_connected\{bus="(\w+)"\} (\d)$/gm)].map(([, bus, isUp]) => [bus, isUp]),
      );
    };

    const { targetPort } = cutter;
    cutter.targetPort = 1;
    expect(cutter.cutAll('reset')).toBeGreaterThan(0);
    await until('the service has noticed', async () => said[1].count('bus_down') === 1);
    for (let i = 0; i < 10; i += 1) await alice.mustSend(session, `unheard ${i}`);
    expect((await request(`http://127.0.0.1:${pair.two.port}/ready`)).status).toBe(200);
    expect(await measured()).toEqual({ listen: '1', nats: '0' });
    expect(textsOf(socket, session)).toHaveLength(before);
    await until('the poll has found them', async () => {
      clock.advance(1_000);
      return textsOf(socket, session).length >= before + 10;
    });

    cutter.targetPort = targetPort;
    await until('the line is up', async () => said[1].count('bus_up') === 1);
    expect(await measured()).toEqual({ listen: '1', nats: '1' });
    await alice.mustSend(session, 'heard');
    await until('it is heard without the poll', async () => textsOf(socket, session).includes('heard'));
    expect(textsOf(socket, session).slice(before)).toEqual([
      ...Array.from({ length: 10 }, (_, i) => `unheard ${i}`),
      'heard',
    ]);
    expect(said[1].count('bus_down')).toBe(1);
    await socket.close();
  });
});

describe.skipIf(reason !== undefined)(`of an agent with a socket at each service${because(reason)}`, () => {
  let cutter: SocketCutter;
  let pair: Pair;
  beforeAll(async () => {
    cutter = await startSocketCutter('all');
    cutter.targetPort = Number(new URL(NATS_URL).port || 4222);
    pair = await startPair(NATS_URL, `nats://127.0.0.1:${cutter.port}`, createTestClock());
  });
  afterAll(async () => {
    await pair?.stop();
    await cutter?.stop();
  });

  it('each gets every event in order, even if one is not notified and the other has already confirmed', async () => {
    const { alice, bob, clock, clockOfTwo, said } = pair;
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    const sockets = [await bob.mustConnect(), await bob.mustConnect(undefined, pair.socketUrlOfTwo)] as const;
    await mustHear(pair, sockets[1], session);
    const before = textsOf(sockets[1], session).length;
    const { targetPort } = cutter;
    cutter.targetPort = 1;
    cutter.cutAll('reset');
    await until('the service has noticed', async () => said[1].count('bus_down') === 1);
    // A session that the second service has never heard of, and one that it follows.
    const unknown = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(unknown);
    await alice.mustSend(unknown, 'unheard');
    const { sequence } = await alice.mustSend(session, 'unheard');
    const database = await openPostgres(pair.schema.url);
    const listUnconfirmed = () =>
      database.read((query) =>
        query.all(
          `SELECT 1 FROM agent JOIN inbox ON inbox.agent_id = agent.id
           WHERE handle = $1 AND is_pending = 1 AND session_id IN ($2, $3)`,
          bob.handle,
          session,
          unknown,
        ),
      );
    await until('the first socket has confirmed them', async () => {
      clock.advance(100);
      return (await listUnconfirmed()).length === 0;
    });
    expect(textsOf(sockets[1], session)).toHaveLength(before);

    cutter.targetPort = targetPort;
    await until('the line is up', async () => said[1].count('bus_up') === 1);
    await until('the poll has found them', async () => {
      clockOfTwo.advance(1_000);
      await pause(20);
      return [session, unknown].every((id) => textsOf(sockets[1], id).includes('unheard'));
    });
    await alice.mustSend(session, 'heard');
    await alice.mustSend(unknown, 'heard');
    for (const id of [session, unknown])
      await until('the next one is there', async () => textsOf(sockets[1], id).includes('heard'));
    const sequences = sockets[1].frames
      .filter((frame) => field(frame, 'session_id') === session)
      .map((frame) => field(frame, 'sequence'));
    expect(sequences.slice(-2)).toEqual([sequence, sequence + 1]);
    const all = sockets[1].frames.filter((frame) => field(frame, 'session_id') === unknown);
    expect(all.map((frame) => field(frame, 'sequence'))).toEqual([1, 2, 3, 4]);
    for (const socket of sockets) await socket.close();
    await database.close();
  });

  it('each gets an event whose commit took long, even if one is not notified', async () => {
    const { alice, bob, clock, clockOfTwo, said } = pair;
    const [session, heard] = [
      await alice.mustCreate({ invite: [bob.handle] }),
      await alice.mustCreate({ invite: [bob.handle] }),
    ];
    for (const each of [session, heard]) await bob.mustJoin(each);
    const sockets = [await bob.mustConnect(), await bob.mustConnect(undefined, pair.socketUrlOfTwo)] as const;
    await mustHear(pair, sockets[1], heard);
    const holder = new pg.Client({ connectionString: pair.schema.url });
    await holder.connect();
    await holder.query(`SET search_path = ${new URL(pair.schema.url).searchParams.get('search_path')}`);
    const untilConfirmed = (sequence: number) =>
      until('the first socket has confirmed it', async () => {
        clock.advance(100);
        const { rows } = await holder.query(
          `SELECT 1 FROM agent JOIN inbox ON inbox.agent_id = agent.id
           WHERE handle = $1 AND session_id = $2 AND delivered_sequence = $3 AND is_pending = 0`,
          [bob.handle, session, sequence],
        );
        return rows.length > 0;
      });
    await untilConfirmed(2);
    await holder.query(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext(TG_TABLE_SCHEMA)); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON event DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.payload LIKE '%held up%') EXECUTE FUNCTION hold();
      SELECT pg_advisory_lock(hashtext(current_schema()))`);
    const sent = alice.mustSend(session, 'held up');
    await until('its commit waits', async () => {
      const blocked = 'SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))';
      const { rows } = await holder.query(blocked);
      return rows.length > 0;
    });
    const { targetPort } = cutter;
    const [downs, ups] = [said[1].count('bus_down'), said[1].count('bus_up')];
    cutter.targetPort = 1;
    cutter.cutAll('reset');
    await until('the service has noticed', async () => said[1].count('bus_down') > downs);
    // Other events are committed in the meantime, and the polls of the second service find them.
    for (const startedAt = performance.now(); performance.now() - startedAt < HELD_UP_MS; ) {
      await alice.mustSend(heard, 'meanwhile');
      clockOfTwo.advance(1_000);
      await pause(100);
    }
    expect(textsOf(sockets[0], session)).not.toContain('held up');
    await holder.query('SELECT pg_advisory_unlock_all()');
    await untilConfirmed((await sent).sequence);
    cutter.targetPort = targetPort;
    await until('the line is up', async () => said[1].count('bus_up') > ups);
    await until('the poll has found it', async () => {
      clockOfTwo.advance(1_000);
      await pause(20);
      return textsOf(sockets[1], session).includes('held up');
    });
    for (const socket of sockets) await socket.close();
    await holder.query('DROP FUNCTION hold CASCADE');
    await holder.end();
  });
});

describe('without NATS', () => {
  it('a service starts, says so once, and is ready; events come at once over the database', async () => {
    const pair = await startPair(NOBODY.replace('//', `//asp:${CANARY}@`), NOBODY);
    const { alice, bob, said } = pair;
    const session = await alice.mustCreate({ invite: [bob.handle] });
    const socket = await bob.mustConnect(undefined, pair.socketUrlOfTwo);
    await bob.mustJoin(session);
    await mustHear(pair, socket, session);
    expect((await request(`http://127.0.0.1:${pair.two.port}/ready`)).status).toBe(200);
    await until('it is said', async () => said.every((one) => one.count('bus_down') === 1));
    await socket.close();
    await pair.stop();
    expect(said.flatMap(({ lines }) => lines).join('')).not.toContain(CANARY);
  });

  it('a service with an invalid bus setting does not start', async () => {
    const { url: databaseUrl, drop } = createSchema();
    const options = { host: '127.0.0.1', port: 0, data: 'memory', databaseUrl } as const;
    const started = startService({ ...options, bus: { url: 'http://bus' } });
    await expect(started).rejects.toMatchObject({ code: 'BUS_NOT_USABLE' });
    await drop();
  });
});

describe.skipIf(noBinary !== undefined)(`a NATS that asks for a password${because(noBinary)}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'asp-nats-'));
  const words = ['-a', '127.0.0.1', '-p', '-1', '--ports_file_dir', folder, '--user', 'asp', '--pass', CANARY];
  let server: ReturnType<typeof spawn> | undefined;
  let host = '';
  beforeAll(async () => {
    server = spawn('nats-server', words, { stdio: 'ignore' });
    host = await until('it says where it is', async () => {
      const [file] = readdirSync(folder);
      const text = file === undefined ? '' : readFileSync(join(folder, file), 'utf8');
      return text === '' ? undefined : new URL((JSON.parse(text) as { nats: string[] }).nats[0] ?? '').host;
    });
  });
  afterAll(() => {
    server?.kill();
    rmSync(folder, { recursive: true, force: true });
  });

  it('accepts services that know it; others get an error, and no log line shows their attempt', async () => {
    const pair = await startPair(`nats://asp:${CANARY}@${host}`, `nats://asp:${CANARY}-wrong@${host}`);
    await until('one of them is refused', async () => pair.said[1].count('bus_down') === 1);
    expect(pair.said[0].count('bus_down')).toBe(0);
    await pair.stop();
    expect(pair.said.flatMap(({ lines }) => lines).join('')).not.toContain(CANARY);
  });
});
