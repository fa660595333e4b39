import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';

import type { AgentActor, ServiceContext } from '../../../src/service/core/context.js';
import type { Query } from '../../../src/service/core/database.js';
import { unmetered } from '../../../src/service/core/meter.js';
import { Batch } from '../../../src/service/messaging/delivery.js';
import { Feed } from '../../../src/service/messaging/feed.js';
import { LiveSocket as ServerSocket, Upkeep } from '../../../src/service/messaging/live-socket.js';
import { listEvents } from '../../../src/service/store/events.js';
import type { Actor } from '../../support/actors.js';
import { createTestClock } from '../../support/clock.js';
import { type CountedService, startCountedService } from '../../support/counted-service.js';
import { field, whole } from '../../support/json.js';
import type { LiveSocket } from '../../support/socket.js';
import { TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { must, openStage } from '../sessions/stage.js';

const undo: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

async function start(): Promise<{ clock: ReturnType<typeof createTestClock>; service: CountedService }> {
  const clock = createTestClock();
  const service = await startCountedService({ clock });
  undo.push(service.stop);
  return { clock, service };
}

async function connect(actor: Actor): Promise<LiveSocket> {
  const socket = await actor.mustConnect();
  undo.push(() => socket.close());
  return socket;
}

const hasReceived = (sockets: readonly LiveSocket[], count: number) =>
  until(`${count} events each`, async () => sockets.every(({ frames }) => frames.length >= count));

describe('a message', () => {
  it('goes to 30 sockets that are up to date without another query', async () => {
    const { service } = await start();
    const host = await service.createAgent('host');
    const guests: Actor[] = [];
    for (let index = 0; index < 30; index += 1) guests.push(await service.createAgent(`guest${index}`));
    const id = await host.mustCreate({ invite: guests.map(({ handle }) => handle) });
    for (const guest of guests) await guest.mustJoin(id);
    await host.mustSend(id, 'to nobody');
    service.reset();
    await host.mustSend(id, 'to nobody');
    const alone = service.counts.statements;
    const sockets = await Promise.all(guests.map(connect));
    await host.mustSend(id, 'first');
    await hasReceived(sockets, 1);
    await until('the last event', async () => sockets.every(({ frames }) => whole(frames.at(-1), 'sequence') === 63));
    const before = sockets.map(({ frames }) => frames.length);
    await until('nobody reads the log any more', async () => {
      service.reset();
      await pause(300);
      return service.counts.statements === 0;
    });

    service.reset();
    for (let count = 0; count < 5; count += 1) await host.mustSend(id, `live ${count}`);
    await until('all of them', async () =>
      sockets.every(({ frames }, index) => frames.length >= (before[index] ?? 0) + 5),
    );
    expect(service.asked.filter((sql) => sql.includes('FROM event'))).toEqual([]);
    expect(service.counts.statements).toBe(5 * alone);
    const replayed = await host.mustReplay(id);
    for (const { frames } of sockets) expect(frames.slice(-5)).toEqual(replayed.slice(-5));
  });

  it('has the same bytes from memory as from the log, whatever its content', async () => {
    const stage = await openStage();
    undo.push(stage.close);
    const account = await stage.addAccount('bytes');
    const host = (await stage.addAgent(account, 'host')) as AgentActor;
    const id = must(await stage.create(host, { topic: 'é' })).session_id;
    const contents = ['a\u0000b', '\u2028 "quoted" \\ \ud83d\udc26', '\ud800 alone', '{"x":[1,2]}'];
    for (const content of contents) must(await stage.send(host, id, { content }));
    const live = stage.signals.flatMap((signal) => (signal.kind === 'events' ? (signal.events ?? []) : []));
    const logged = await stage.read((query) => listEvents(query, id, 0, 10, 10));
    expect(logged).toHaveLength(contents.length);
    const framesOf = (events: typeof logged) => new Batch(id, events).frames.map(({ bytes }) => bytes.toString('hex'));
    expect(framesOf(live)).toEqual(framesOf(logged));
  });

  it('reaches an agent that joins and leaves while connected as far as its status allows', async () => {
    const { service } = await start();
    const [host, guest] = [await service.createAgent('host'), await service.createAgent('guest')];
    const id = await host.mustCreate({ invite: [guest.handle] });
    const [mine, its] = [await connect(host), await connect(guest)];
    for (let count = 0; count < 3; count += 1) await host.mustSend(id, 'before');
    await hasReceived([mine], 4);
    await hasReceived([its], 1);
    await guest.mustJoin(id);
    await host.mustSend(id, 'joined');
    await hasReceived([mine, its], 6);
    await guest.mustLeave(id);
    await host.mustSend(id, 'gone');
    await hasReceived([mine], 8);
    await its.mustReceiveEvent('session.left', id);
    await its.mustPing();
    const sequences = its.frames
      .filter((frame) => field(frame, 'type') !== 'pong')
      .map((frame) => whole(frame, 'sequence'));
    expect(sequences).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });
});

/** Opens the sockets of a feed, each for the agent that its path stands for. */
async function serveFeed(context: ServiceContext, feed: Feed, findAgent: (path: string) => string) {
  const upkeep = new Upkeep(context.clock);
  const server = createServer();
  const protocol = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, connection, head) =>
    protocol.handleUpgrade(request, connection, head, (ws) => {
      const agentId = findAgent(request.url ?? '');
      const owner = { socketId: 's', agentId, grantId: 'g', expiresAtMs: context.clock.now() + 60_000 };
      feed.add(new ServerSocket(context, upkeep, owner, { ws, connection, scope: undefined }), 0);
    }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, protocol, port: (server.address() as AddressInfo).port };
}

describe('an agent that joins while the members of its session are read', () => {
  it('gets the messages after that', async () => {
    const stage = await openStage();
    undo.push(stage.close);
    const account = await stage.addAccount('readers');
    const [host, guest] = [await stage.addAgent(account, 'host'), await stage.addAgent(account, 'guest')];
    const id = must(await stage.create(host, { invite: [guest.handle] })).session_id;
    const { behind } = stage.context.database;
    let held: Promise<void> | undefined;
    const context = {
      ...stage.context,
      database: {
        ...stage.context.database,
        behind: {
          ...behind,
          async read<T>(work: (query: Query) => Promise<T>): Promise<T> {
            const result = await behind.read(work);
            await held;
            return result;
          },
        },
      },
    };
    const feed = new Feed(context, 'process');
    const { server, protocol, port } = await serveFeed(context, feed, (path) =>
      path === '/host' ? host.agentId : guest.agentId,
    );
    const [mine, its]: [unknown[], unknown[]] = [[], []];
    const clients = [mine, its].map((frames, index) => {
      const client = new WebSocket(`ws://127.0.0.1:${port}/${index === 0 ? 'host' : 'guest'}`);
      client.on('message', (data) => frames.push(field(JSON.parse(String(data)), 'type')));
      return client;
    });
    undo.push(async () => {
      feed.stop();
      for (const client of clients) client.terminate();
      server.close();
      await until('the sockets are gone', async () => protocol.clients.size === 0);
      await context.inboxes.settle();
    });
    await until('the invitation', async () => its.includes('session.invited'));
    let release = (): void => {};
    held = new Promise((resolve) => {
      release = resolve;
    });
    must(await stage.send(host, id, { content: 'before' }));
    await pause(100);
    must(await stage.join(guest, id));
    await pause(100);
    held = undefined;
    release();
    await until('the join', async () => mine.includes('session.joined'));
    must(await stage.send(host, id, { content: 'after' }));
    await until('the message', async () => mine.filter((type) => type === 'session.message').length === 2);
    await until('the same', async () => its.filter((type) => type === 'session.message').length === 2);
  });
});

describe('a message to many sockets', () => {
  const AGENTS = 10;
  const SOCKETS_EACH = 10;
  const SOCKETS = AGENTS * SOCKETS_EACH;

  it('lets everything else on the event loop go first again and again', async () => {
    const stage = await openStage();
    undo.push(stage.close);
    let delivered = 0;
    const meter = {
      ...unmetered,
      delivered: () => {
        delivered += 1;
      },
    };
    const context = { ...stage.context, meter };
    const account = await stage.addAccount('readers');
    const host = await stage.addAgent(account, 'host');
    const guests: AgentActor[] = [];
    for (let index = 0; index < AGENTS; index += 1) guests.push(await stage.addAgent(account, `guest${index}`));
    const id = must(await stage.create(host, { invite: guests.map(({ handle }) => handle) })).session_id;
    for (const guest of guests) must(await stage.join(guest, id));
    const feed = new Feed(context, 'process');
    const upToDate = new Set<WebSocket>();
    const { server, protocol, port } = await serveFeed(
      context,
      feed,
      (path) => guests[Number(path.slice(1))]?.agentId ?? '',
    );
    const clients = Array.from({ length: SOCKETS }, (_, index) => {
      const client = new WebSocket(`ws://127.0.0.1:${port}/${index % AGENTS}`);
      client.on('message', (data) => {
        if (String(data).includes('"first"')) upToDate.add(client);
      });
      return client;
    });
    undo.push(async () => {
      feed.stop();
      for (const client of clients) client.terminate();
      server.close();
      // The feed may still be looking for events: without sockets it ends before this does.
      await until('the sockets are gone', async () => protocol.clients.size === 0);
      await context.inboxes.settle();
    });
    await Promise.all(clients.map((client) => once(client, 'open')));
    must(await stage.send(host, id, { content: 'first' }));
    await until('all are up to date', async () => upToDate.size === SOCKETS);

    delivered = 0;
    let before = 0;
    const turns: number[] = [];
    must(await stage.send(host, id, { content: 'second' }));
    while (delivered < SOCKETS) {
      await new Promise((resolve) => setImmediate(resolve));
      if (delivered > before) turns.push(delivered - before);
      before = delivered;
    }
    expect(delivered).toBe(SOCKETS);
    expect(Math.max(...turns)).toBeLessThanOrEqual(SOCKETS / 2);
  });
});

describe('A thousand idle sockets', () => {
  const AGENTS = 63;
  const SOCKETS_EACH = 16;
  const SECONDS = 30;
  /** Allows for chores that happen to come due in one half or the other. */
  const CHORES = 5;

  it('add no database queries, or at most one statement per second if services share it', async () => {
    const { clock, service } = await start();
    const idle = async (): Promise<string[]> => {
      await service.settle();
      service.reset();
      for (let second = 0; second < SECONDS; second += 1) {
        clock.advance(1_000);
        await service.settle();
      }
      return [...service.asked];
    };
    const without = await idle();
    const agents: Actor[] = [];
    for (let index = 0; index < AGENTS; index += 1) agents.push(await service.createAgent(`idle${index}`));
    let count = 0;
    for (const agent of agents)
      count += (await Promise.all(Array.from({ length: SOCKETS_EACH }, () => connect(agent)))).length;
    expect(count).toBeGreaterThan(1_000);
    clock.advance(1_000);
    const withThem = await idle();
    const more = withThem.length - without.length;
    expect(without.length).toBeGreaterThan(SECONDS / 2);
    expect(more).toBeLessThanOrEqual(TEST_STORE === 'postgres' ? 1.5 * SECONDS : CHORES);
    // On PostgreSQL, the poll runs every half minute anyway.
    expect(withThem.filter((sql) => sql.includes('inbox')).length).toBeLessThanOrEqual(
      TEST_STORE === 'postgres' ? 2 : 0,
    );
  });
});
