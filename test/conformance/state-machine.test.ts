import { randomInt } from 'node:crypto';

import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { field, list } from '../support/json.js';
import { createRandom, type SeededRandom } from '../support/seeded-random.js';
import { createSessionModel, type SessionModel } from '../support/session-model.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// Random session histories. Each command's status is checked against the model in test/support/session-model.ts, and
// after each history, so is what every agent sees. `ASP_TEST_SEED` repeats a run.

const service = useService();
const seed = Number(process.env['ASP_TEST_SEED'] ?? randomInt(2 ** 31));
const isLong = process.env['ASP_TEST_LONG'] === '1';
const [lives, commands] = isLong ? [150, 100] : [12, 60];

type Command = (actor: Actor, actors: readonly Actor[], random: SeededRandom) => Promise<readonly [unknown, unknown]>;

/** Each command returns the actual and the expected status. */
function commandsOn(id: string, model: SessionModel): readonly Command[] {
  const post = async (actor: Actor, verb: string, body?: unknown): Promise<number> =>
    (await actor.post(`/sessions/${id}/${verb}`, body)).status;
  const some = (actors: readonly Actor[], random: SeededRandom): string[] =>
    actors.map((actor) => actor.handle).filter(() => random.below(2) === 0);
  const join: Command = async (actor) => [await post(actor, 'join'), model.join(actor.handle)];
  const send: Command = async (actor) => [await post(actor, 'messages', { content: 'x' }), model.send(actor.handle)];
  const leave: Command = async (actor) => [await post(actor, 'leave'), model.leave(actor.handle)];
  const end: Command = async (actor) => [await post(actor, 'end'), model.end(actor.handle)];
  const reopen: Command = async (actor, actors, random) => {
    const invite = some(actors, random);
    return [await post(actor, 'reopen', { invite }), model.reopen(actor.handle, invite)];
  };
  const invite: Command = async (actor, actors, random) => {
    const invitees = [...some(actors, random), random.pick(actors).handle];
    const answer = await actor.post(`/sessions/${id}/invite`, { invite: invitees });
    return [answer.status === 200 ? field(answer.json, 'invited') : undefined, model.invite(actor.handle, invitees)];
  };
  return [join, join, join, send, send, send, invite, invite, leave, end, reopen, reopen];
}

async function mustAgree(actor: Actor, id: string, model: SessionModel, what: string): Promise<void> {
  const visible = model.visibleTo(actor.handle);
  const answer = await actor.get(`/sessions/${id}/events?limit=1000`);
  expect([what, answer.status]).toEqual([what, visible === undefined ? 404 : 200]);
  if (visible === undefined) return;
  const events = list(answer.json, 'events');
  expect([what, events.map((event) => field(event, 'sequence'))]).toEqual([what, visible]);
  for (const event of events) {
    const due = model.events[Number(field(event, 'sequence')) - 1];
    expect(field(event, 'type')).toBe(due?.type);
    const who = ['invitee', 'agent', 'sender', 'ended_by', 'reopened_by'].map((name) =>
      field(event, `payload.${name}`),
    );
    expect(who).toContain(due?.who);
  }
  const session = await actor.mustRead(id);
  expect(field(session, 'state')).toBe(model.state);
  for (const row of list(session, 'participants'))
    expect([what, field(row, 'status')]).toEqual([what, model.statusOf(String(field(row, 'handle')))]);
}

async function live(actors: readonly Actor[], random: SeededRandom, life: number): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const creator = random.pick(actors);
  const invite = actors
    .map((actor) => actor.handle)
    .filter((handle) => handle !== creator.handle && random.below(2) === 0);
  const id = await creator.mustCreate({ invite });
  const model = createSessionModel(creator.handle, invite);
  const list = commandsOn(id, model);
  for (let count = 0; count < commands; count += 1) {
    const actor = random.pick(actors);
    const [got, due] = await random.pick(list)(actor, actors, random);
    const what = `seed ${seed}, life ${life}, command ${count}`;
    expect([what, got]).toEqual([what, due]);
    counts.set(String(due), (counts.get(String(due)) ?? 0) + 1);
  }
  for (const actor of actors) await mustAgree(actor, id, model, `seed ${seed}, life ${life}, ${actor.handle}`);
  return counts;
}

rule(
  [
    'spec/States/join',
    'spec/States/invite',
    'spec/States/leave',
    'spec/States/end',
    'spec/States/reopen',
    'wire/Events/eligibility',
  ],
  `every history of a session is one that the table allows (seed ${seed})`,
  async () => {
    const random = createRandom(seed);
    const actors = await Promise.all(['alice', 'bob', 'carol', 'dave'].map((name) => service.actor(name)));
    let [done, denied] = [0, 0];
    for (let life = 0; life < lives; life += 1) {
      const counts = await live(actors, random, life);
      denied += (counts.get('404') ?? 0) + (counts.get('undefined') ?? 0);
      done += [...counts.values()].reduce((sum, count) => sum + count, 0);
    }
    // A run in which commands only succeed or are only denied has tested half.
    expect(denied / done).toBeGreaterThan(0.1);
    expect(denied / done).toBeLessThan(0.9);
  },
  600_000,
);
