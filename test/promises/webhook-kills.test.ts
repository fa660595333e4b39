import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, startServe } from '../acceptance/program.js';
import { type Actor, actorOf, createActor } from '../support/actors.js';
import { mustSucceed } from '../support/answers.js';
import { field, list, text } from '../support/json.js';
import { createLedger } from '../support/ledger.js';
import { discover } from '../support/oauth.js';
import { operatorOf } from '../support/operator.js';
import { createTally, IS_LONG } from '../support/tally.js';
import { until } from '../support/until.js';
import { askWebhook, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.js';

const [KILLS, MESSAGES] = IS_LONG ? [50, 2_000] : [3, 90];
const WRITERS = 4;

describe('A service that is killed while it calls a webhook', () => {
  let home: Home;
  let receiver: WebhookReceiver;
  beforeEach(async () => {
    home = createHome();
    receiver = await startWebhookReceiver();
  });
  afterEach(async () => {
    await receiver.close();
    home.dispose();
  });

  it(
    'leaves out no event, keeps the order of each session, and counts nothing as delivered before it was answered',
    async () => {
      const tally = createTally('webhooks and kill -9');
      const words = ['--limits', 'off', '--webhooks', 'any'];
      let service = await startServe(home, words);
      const place = await discover(service.url);
      const operator = operatorOf(home);
      const [first, bob] = [await createActor(place, operator, 'alice'), await createActor(place, operator, 'bob')];
      const body = { url: receiver.url(), secret: receiver.secret };
      mustSucceed(await askWebhook({ place, operator }, bob, 'POST', body));
      let alice: Actor = first;
      const sessions = await Promise.all(
        Array.from({ length: WRITERS }, () => first.mustCreate({ invite: [bob.handle] })),
      );
      for (const session of sessions) await bob.mustJoin(session);

      /** The ids of events whose calls were answered with success, and all calls, by session. */
      const answered = new Set<unknown>();
      let faults = 0;
      receiver.answer((reply, { json }) => {
        const succeed = (): void => {
          answered.add(json['event_id']);
          reply.writeHead(204).end();
        };
        const dice = tally.random.below(100);
        if (dice < 2) {
          faults += 1;
          tally.fired('refusal');
          reply.writeHead(500).end();
        } else if (dice < 3) {
          faults += 1;
          tally.fired('cut');
          reply.destroy();
        } else if (dice < 30) setTimeout(succeed, tally.random.below(60));
        else succeed();
      });

      const ledger = createLedger();
      const isDone = (): boolean => ledger.counts.ok >= MESSAGES;
      const writers = sessions.map((session) =>
        ledger.writeUntil(isDone, session, async ({ key, content }) => {
          const answer = await alice.post(`/sessions/${session}/messages`, { content }, { key });
          if (answer.status === 401) alice = actorOf(place, first.handle, first.credentials);
          await pause(20);
          return answer;
        }),
      );
      /** Compares what the service says with what the receiver has answered. Returns the untrue states. */
      const findLies = async (): Promise<unknown[]> => {
        const lies: unknown[] = [];
        const writer = actorOf(place, first.handle, first.credentials);
        for (const session of sessions) {
          const messages = (await writer.mustReplay(session)).filter((one) => field(one, 'type') === 'session.message');
          for (const message of messages.slice(-8)) {
            const json = await writer.get(
              `/sessions/${session}/delivery?sequence=${Number(field(message, 'sequence'))}`,
            );
            const states = list(mustSucceed(json), 'recipients').map((one) => field(one, 'state'));
            if (!states.every((state) => state === 'stored') && !answered.has(field(message, 'event_id')))
              lies.push(message);
          }
        }
        return lies;
      };
      for (let kill = 1; kill <= KILLS; kill += 1) {
        while (ledger.counts.ok < (kill * MESSAGES) / (KILLS + 1)) await pause(5);
        // A call is on its way, as far as anyone can tell.
        await until('a call', async () => receiver.open.size > 0);
        service.running.kill('SIGKILL');
        await service.running.ended;
        tally.fired('kill');
        service = await startServe(home, words, service.url);
        expect(await findLies()).toEqual([]);
      }
      expect(await findLies()).toEqual([]);
      await Promise.all(writers);
      alice = actorOf(place, first.handle, first.credentials);
      const reader = actorOf(place, bob.handle, bob.credentials);

      const logs = await Promise.all(sessions.map((session) => alice.mustReplay(session)));
      const wanted = logs.flat().filter((event) => field(event, 'type') === 'session.message');
      await until(
        'every message',
        async () => wanted.every((event) => answered.has(field(event, 'event_id'))),
        IS_LONG ? 600_000 : 120_000,
      );
      let repeats = 0;
      for (const [index, session] of sessions.entries()) {
        const ids = receiver.eventsAt('/hook').filter(({ json }) => json['session_id'] === session);
        const sequences = ids.map(({ json }) => Number(json['sequence']));
        const firsts = sequences.filter((sequence, at) => sequences.indexOf(sequence) === at);
        expect(firsts).toEqual([...firsts].sort((one, other) => one - other));
        repeats += sequences.length - firsts.length;
        const log = logs[index] ?? [];
        for (const { json } of ids)
          expect(log).toContainEqual(expect.objectContaining({ event_id: json['event_id'], payload: json['payload'] }));
      }
      // A kill can repeat what was answered since the last record of it, a tenth of a second and a few calls before.
      expect(repeats).toBeLessThanOrEqual(faults + KILLS * 32);
      const last = wanted.at(-1);
      const states = await until('the state', async () => {
        const at = `/sessions/${text(last, 'session_id')}/delivery?sequence=${Number(field(last, 'sequence'))}`;
        const recipients = list(mustSucceed(await alice.get(at)), 'recipients');
        return recipients.every((one) => field(one, 'state') === 'delivered') && recipients;
      });
      expect(states).toHaveLength(1);
      expect(await reader.mustReplay(sessions[0] ?? '')).not.toEqual([]);
      await service.stop();
      tally.finish(['kill'], { ...ledger.counts, calls: receiver.calls.length, repeats, faults });
      expect(receiver.faults).toEqual([]);
    },
    IS_LONG ? 3_600_000 : 240_000,
  );
});
