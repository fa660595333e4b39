import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../../support/actors.js';
import { field } from '../../support/json.js';
import { createRandom } from '../../support/seeded-random.js';
import { startTestService, type TestService } from '../../support/service.js';
import type { LiveSocket } from '../../support/socket.js';
import { IS_LONG } from '../../support/tally.js';

const STEPS = 700;

/** The facts about one recipient, independent of what the service reports. */
interface Recipient {
  readonly actor: Actor;
  readonly sockets: LiveSocket[];
  readonly taken: Set<number>;
  readonly answered: Set<number>;
  open: LiveSocket | undefined;
  isSilent: boolean;
}

/** Returns the messages that reached a client over any of its sockets. */
const received = ({ sockets }: Recipient): Set<unknown> =>
  new Set(
    sockets.flatMap(({ frames }) =>
      frames.filter((frame) => field(frame, 'type') === 'session.message').map((frame) => field(frame, 'sequence')),
    ),
  );

describe('The delivery states that a service reports are true', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService({ areLimitsOn: false });
  });
  afterAll(() => service.stop());

  it.each(IS_LONG ? [1, 2, 3] : [1])(
    'for clients that connect, disconnect, lie and crash in any order (seed %i)',
    async (seed) => {
      const random = createRandom(seed);
      const alice = await service.createAgent('alice');
      const recipients: Recipient[] = [];
      for (const name of ['bob', 'carol', 'dave']) {
        const actor = await service.createAgent(name);
        recipients.push({
          actor,
          sockets: [],
          taken: new Set(),
          answered: new Set(),
          open: undefined,
          isSilent: false,
        });
      }
      const id = await alice.mustCreate({ invite: recipients.map(({ actor }) => actor.handle) });
      const messages: { id: string; sequence: number }[] = [];
      const seen = { stored: 0, delivered: 0, taken: 0, answered: 0 };
      const path = `/sessions/${id}`;
      const message = () => random.pick(messages.slice(-30));

      const steps: readonly ((one: Recipient) => Promise<unknown>)[] = [
        async () => {
          const sent = await alice.post(`${path}/messages`, { content: 'x' });
          if (sent.status === 201)
            messages.push({
              id: String(field(sent.json, 'message_id')),
              sequence: Number(field(sent.json, 'sequence')),
            });
        },
        async (one) => {
          if (one.open !== undefined) return;
          one.open = await one.actor.mustConnect();
          one.sockets.push(one.open);
          // This socket receives but never confirms.
          if (random.below(3) === 0) one.open.stopReading();
        },
        async (one) => {
          one.open?.startReading();
          await one.open?.close();
          one.open = undefined;
        },
        ({ actor }) => actor.post(`${path}/join`),
        ({ actor }) => (random.below(8) === 0 ? actor.post(`${path}/leave`) : actor.post(`${path}/join`)),
        async ({ actor }) => random.below(3) === 0 && alice.post(`${path}/invite`, { invite: [actor.handle] }),
        () => alice.post(`${path}/${random.below(12) === 0 ? 'end' : 'reopen'}`),
        async (one) => {
          const answer = await one.actor.post(`${path}/taken`, { sequences: [message().sequence] });
          for (const sequence of (field(answer.json, 'taken') ?? []) as number[]) one.taken.add(sequence);
        },
        async (one) => {
          const { id: answered, sequence } = message();
          const reply = { content: 'y', metadata: { in_reply_to: answered } };
          if ((await one.actor.post(`${path}/messages`, reply)).status === 201) one.answered.add(sequence);
        },
        async (one) => {
          if (random.below(4) > 0) return;
          one.isSilent = !one.isSilent;
          await one.actor.patch('/agents/me', { reports_taken: !one.isSilent });
        },
      ];

      while (messages.length === 0) await steps[0]?.(random.pick(recipients));
      for (let step = 0; step < STEPS; step += 1) {
        await random.pick(steps)(random.pick(recipients));
        const { sequence } = message();
        const { json } = await alice.get(`${path}/delivery?sequence=${sequence}`);
        for (const told of field(json, 'recipients') as { handle: string; state: keyof typeof seen }[]) {
          const one = recipients.find(({ actor }) => actor.handle === told.handle);
          if (one === undefined) throw new Error(`${told.handle} is nobody's handle`);
          seen[told.state] += 1;
          const isTaken = one.taken.has(sequence) && !one.isSilent;
          const due = one.answered.has(sequence)
            ? ['answered']
            : isTaken
              ? ['taken']
              : received(one).has(sequence)
                ? ['stored', 'delivered']
                : ['stored'];
          expect(due, `${told.handle}, message ${sequence}, step ${step}`).toContain(told.state);
        }
      }
      for (const { open } of recipients) await open?.close();
      // Every state must occur, or the run proves nothing.
      for (const count of Object.values(seen)) expect(count).toBeGreaterThan(10);
    },
  );
});
