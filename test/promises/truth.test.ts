import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';

import { type Actor, actorOf } from '../support/actors.js';
import { mustSucceed } from '../support/answers.js';
import { field, list } from '../support/json.js';
import type { Place } from '../support/oauth.js';
import type { SeededRandom } from '../support/seeded-random.js';
import { startTestService, type TestService } from '../support/service.js';
import { createTally, IS_LONG } from '../support/tally.js';
import { until } from '../support/until.js';
import { createVerbs } from '../support/verbs.js';

/** Clients that live, lie and die one after the other, in lanes that run at the same time. */
const [CLIENTS, LANES] = IS_LONG ? [10_000, 10] : [240, 8];
const CLIENTS_OF_SESSION = 8;
const ORDER = ['stored', 'delivered', 'taken', 'answered'] as const;
const [STORED, DELIVERED, TAKEN, ANSWERED] = [0, 1, 2, 3];
/** Longer than the service takes to write down a pong. */
const SETTLED_MS = 250;
const FRAMES_MS = 1_500;

/** A message, and which of the states something proves. */
interface Told {
  readonly id: string;
  readonly sequence: number;
  /** No higher state is true. */
  most: number;
  /** No lower state is true once the service has written down what it has heard. */
  least: number;
  seen: number;
}

/** A session of an honest sender, and of a recipient whose clients cannot be trusted. */
interface Scene {
  readonly place: Place;
  readonly sender: Actor;
  readonly recipient: Actor;
  readonly session: string;
  readonly messages: Told[];
  isJoined: boolean;
  readonly random: SeededRandom;
}

/** An overloaded service asks for a repetition, which has the same key. */
function persistent(actor: Actor): Actor {
  const call: Actor['call'] = async (method, path, body, options = {}) => {
    const key = options.key === undefined ? randomUUID() : options.key;
    for (;;) {
      const answer = await actor.call(method, path, body, { ...options, key });
      if (answer.status !== 503) return answer;
      await pause(100);
    }
  };
  return {
    ...actor,
    ...createVerbs(call),
    call,
    get: (path, options) => call('GET', path, undefined, options),
    post: (path, body, options) => call('POST', path, body, options),
  };
}

const raise = (told: Told, most: number, least = STORED): void => {
  told.most = Math.max(told.most, most);
  told.least = Math.max(told.least, least);
};

/**
 * A socket that answers pings only as `handlePing` decides, which gets the payload and the messages that came before it.
 * Resolves when the socket is closed, at the latest when nothing new arrives.
 */
async function live(
  { place, recipient, session, messages }: Scene,
  handlePing: (socket: WebSocket, data: Buffer, received: readonly Told[]) => void,
): Promise<void> {
  const socket = new WebSocket(place.wsUrl, {
    headers: { authorization: `Bearer ${await recipient.token('ws')}` },
    autoPong: false,
    perMessageDeflate: false,
  });
  const received: Told[] = [];
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => {});
  socket.on('message', (data) => {
    const frame: unknown = JSON.parse(String(data));
    if (field(frame, 'type') !== 'session.message' || field(frame, 'session_id') !== session) return;
    const told = messages.find(({ sequence }) => sequence === field(frame, 'sequence'));
    if (told !== undefined) received.push(told);
  });
  socket.on('ping', (data) => handlePing(socket, data, received));
  const late = setTimeout(() => socket.terminate(), FRAMES_MS);
  await closed;
  clearTimeout(late);
}

/** Whether the ping asks if events have arrived: those that only keep a socket open say nothing. */
const asks = (data: Buffer): boolean => data.byteLength > 0;

const post = (actor: Actor, path: string, body: unknown) => actor.post(path, body);
const take = ({ recipient, session }: Scene, ...sequences: number[]) =>
  post(recipient, `/sessions/${session}/taken`, { sequences });
const answer = (actor: Actor, session: string, id: unknown) =>
  post(actor, `/sessions/${session}/messages`, { content: 'done', metadata: { in_reply_to: id } });

/** What a client does in its life, and what that proves. */
const LIVES: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
  'reads and dies without a pong': (scene) => live(scene, (socket) => socket.terminate()),
  'reads and leaves without a pong': (scene) => live(scene, (socket) => socket.close()),
  async 'pongs and dies'(scene) {
    await live(scene, (socket, data, received) => {
      if (asks(data)) for (const told of received) raise(told, DELIVERED);
      // Whether the pong leaves the machine is not known.
      socket.pong(data, undefined, () => socket.terminate());
    });
  },
  async 'pongs and leaves'(scene) {
    await live(scene, (socket, data, received) => {
      // Another question can come after the close, which has no answer.
      if (socket.readyState !== WebSocket.OPEN) return;
      if (asks(data)) for (const told of received) raise(told, DELIVERED, DELIVERED);
      socket.pong(data);
      socket.close();
    });
  },
  async 'pongs only to its first question'(scene) {
    let first: Buffer | undefined;
    await live(scene, (socket, data, received) => {
      // Whether the pong leaves the machine is not known.
      if (asks(data) && first === undefined) for (const told of received) raise(told, DELIVERED);
      first ??= asks(data) ? data : undefined;
      socket.pong(first);
      if (first !== undefined && !first.equals(data)) socket.close();
    });
  },
  async 'pongs with something else and dies'(scene) {
    const asked: Buffer[] = [];
    await live(scene, (socket, data) => {
      asked.push(data);
      const wrong = [Buffer.alloc(0), Buffer.from(`${data}0`), Buffer.from('1'), data.subarray(1)];
      for (const one of wrong) if (!asked.some((question) => question.equals(one))) socket.pong(one);
      socket.send('{"type":"pong"}');
      socket.send('{"type":"ping"}', () => socket.close());
    });
  },
  async 'dies between taking and acting'(scene) {
    let taken: Told | undefined;
    await live(scene, (socket, data, received) => {
      if (asks(data)) for (const told of received) raise(told, DELIVERED);
      taken ??= received.at(-1);
      socket.pong(data, undefined, () => socket.terminate());
    });
    if (taken === undefined || !scene.isJoined) return;
    raise(taken, TAKEN, TAKEN);
    mustSucceed(await take(scene, taken.sequence));
  },
  async 'dies while it reports that it takes'(scene) {
    const told = scene.random.pick(scene.messages);
    if (scene.isJoined) raise(told, TAKEN);
    const cut = new AbortController();
    const url = `${scene.place.baseUrl}/sessions/${scene.session}/taken`;
    const headers = {
      authorization: `Bearer ${await scene.recipient.token()}`,
      'content-type': 'application/json',
      'idempotency-key': `${scene.session}-${told.sequence}-${scene.random.below(1e9)}`,
    };
    const body = JSON.stringify({ sequences: [told.sequence] });
    const request = fetch(url, { method: 'POST', headers, body, signal: cut.signal }).catch(() => {});
    await pause(scene.random.below(4));
    cut.abort();
    await request;
  },
  async 'takes what it has not received, and what does not exist yet'(scene) {
    const told = scene.random.pick(scene.messages);
    const next = (await scene.sender.mustReplay(scene.session)).length + 1;
    const reply = await take(scene, told.sequence, next, next + 1, 1);
    if (!scene.isJoined) return;
    expect(mustSucceed(reply)).toEqual({ taken: [told.sequence] });
    raise(told, TAKEN, TAKEN);
  },
  async 'answers without taking'(scene) {
    if (!scene.isJoined) return;
    const told = scene.random.pick(scene.messages);
    raise(told, ANSWERED);
    mustSucceed(await answer(scene.recipient, scene.session, told.id), 201);
    raise(told, ANSWERED, ANSWERED);
  },
  async 'answers something else, or elsewhere'(scene) {
    const told = scene.random.pick(scene.messages);
    mustSucceed(await answer(scene.sender, scene.session, told.id), 201);
    const { session_id: id } = mustSucceed(
      await post(scene.recipient, '/sessions', { invite: [], initial_message: { content: 'a note' } }),
      201,
    ) as { session_id: string };
    mustSucceed(await answer(scene.recipient, id, told.id), 201);
    if (!scene.isJoined) return;
    for (const other of [`${told.id} `, told.id.toLowerCase(), { id: told.id }, 'msg_01J00000000000000000000000'])
      mustSucceed(await answer(scene.recipient, scene.session, other), 201);
  },
  async 'reads everything over REST'(scene) {
    if (scene.isJoined) await scene.recipient.mustReplay(scene.session);
  },
};

describe('the four states of a message', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({ areLimitsOn: false });
  });
  afterAll(() => service.stop());

  it(
    `${CLIENTS} clients that lie and die: no state is false`,
    async () => {
      const tally = createTally('truth');
      const untrue: string[] = [];
      let clients = 0;
      let checks = 0;

      const send = async (scene: Scene): Promise<void> => {
        const { id, sequence } = await scene.sender.mustSend(scene.session, 'please');
        scene.messages.push({ id, sequence, most: STORED, least: STORED, seen: STORED });
      };
      const stateOf = async ({ sender, recipient, session }: Scene, { sequence }: Told) => {
        const reply = mustSucceed(await sender.get(`/sessions/${session}/delivery?sequence=${sequence}`));
        const [found] = list(reply, 'recipients').filter((one) => field(one, 'handle') === recipient.handle);
        return found as { state: (typeof ORDER)[number]; taken_at: number | null; answered_sequence: number | null };
      };
      const check = async (scene: Scene, what: string): Promise<boolean> => {
        let isSettled = true;
        for (const told of scene.messages) {
          const { state, taken_at: takenAt, answered_sequence: answered } = await stateOf(scene, told);
          const rank = ORDER.indexOf(state);
          checks += 1;
          const at = `${scene.session}/${told.sequence} after a client that ${what}: ${state}`;
          if (rank > told.most) untrue.push(`${at}, but at most ${ORDER[told.most]}`);
          if (rank < told.seen) untrue.push(`${at}, but ${ORDER[told.seen]} before`);
          if (takenAt !== null && told.most < TAKEN) untrue.push(`${at}, taken at ${takenAt}`);
          if ((answered !== null) !== (state === 'answered')) untrue.push(`${at}, answered by ${answered}`);
          told.seen = Math.max(told.seen, rank);
          isSettled &&= rank >= told.least;
        }
        return isSettled;
      };
      const play = async (sender: Actor, recipient: Actor): Promise<void> => {
        const { random } = tally;
        const session = await sender.mustCreate({ invite: [recipient.handle] });
        const scene: Scene = {
          place: service.place,
          sender,
          recipient,
          session,
          messages: [],
          isJoined: false,
          random,
        };
        await send(scene);
        for (let life = 0; life < CLIENTS_OF_SESSION && clients < CLIENTS; life += 1) {
          clients += 1;
          if (!scene.isJoined && random.below(2) === 0) {
            await recipient.mustJoin(session);
            scene.isJoined = true;
          }
          if (random.below(3) === 0) await send(scene);
          const what = random.pick(Object.keys(LIVES));
          await LIVES[what]?.(scene);
          tally.fired(what);
          await check(scene, what);
        }
        await pause(SETTLED_MS);
        const isTold = await until('every state is reported', () => check(scene, 'is gone'), 20_000).catch(() => false);
        if (!isTold)
          untrue.push(
            `${session}: not reported: ${JSON.stringify(scene.messages.filter((one) => one.seen < one.least))}`,
          );
        await sender.mustEnd(session);
      };

      const lane = async (): Promise<void> => {
        const agents = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
        while (clients < CLIENTS) {
          // Tokens end after a quarter of an hour.
          const [sender, recipient] = agents.map(({ handle, credentials }) =>
            persistent(actorOf(service.place, handle, credentials)),
          ) as [Actor, Actor];
          for (let scenes = 0; scenes < 10 && clients < CLIENTS; scenes += 1) await play(sender, recipient);
        }
      };
      await Promise.all(Array.from({ length: LANES }, lane));

      tally.finish(Object.keys(LIVES), { clients, checks, untrue_states: untrue.length });
      expect(untrue).toEqual([]);
      expect(clients).toBe(CLIENTS);
    },
    IS_LONG ? 3_600_000 : 180_000,
  );
});
