import type { AgentActor } from '../../src/service/core/context.js';
import type { Transaction } from '../../src/service/core/database.js';
import { indexMessages } from '../../src/service/messaging/search-messages.js';
import { createSession, joinSession, sendMessage } from '../../src/service/messaging/sessions.js';
import type { Place } from './place.js';

const PER_TRANSACTION = 500;

/** How many sessions carol takes part in, no matter how many others exist. */
const CAROLS_SESSIONS = 500;

/** Creates `count` sessions of alice's and spreads those that carol joins among them. Returns the ids of carol's. */
export async function fillSessions(place: Place, count: number): Promise<string[]> {
  const { alice, carol, others } = place;
  const every = Math.max(1, Math.floor(count / CAROLS_SESSIONS));
  const carols: string[] = [];
  await inBatches(place, count, async (index, transaction) => {
    const isCarols = index % every === 0 && carols.length < CAROLS_SESSIONS;
    const guest = isCarols ? carol : (others[index % others.length] as AgentActor);
    const content = `heron word${index % 997}${index === 0 ? ' quartz' : ''}`;
    const body = { invite: [guest.handle], topic: `topic ${index}`, initial_message: { content } };
    const { session_id } = await createSession(place.context, alice, { body }, transaction);
    if (!isCarols) return;
    await joinSession(place.context, carol, { path: { session_id }, body: {} }, transaction);
    carols.push(session_id);
  });
  return carols;
}

/** Creates a session between alice and another agent with this many messages. */
export async function fillEvents(place: Place, count: number): Promise<string> {
  const { context, alice, others } = place;
  const guest = others[0] as AgentActor;
  const { session_id } = await context.database.write((transaction) =>
    createSession(context, alice, { body: { invite: [guest.handle] } }, transaction),
  );
  await inBatches(place, count, async (index, transaction) => {
    const body = { content: `heron word${index % 997}` };
    await sendMessage(context, alice, { path: { session_id }, body }, transaction);
  });
  return session_id;
}

export async function indexEverything({ context }: Place): Promise<void> {
  while (await indexMessages(context));
}

async function inBatches(
  { context }: Place,
  count: number,
  step: (index: number, transaction: Transaction) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < count; start += PER_TRANSACTION) {
    await context.database.write(async (transaction) => {
      for (let index = start; index < Math.min(count, start + PER_TRANSACTION); index += 1)
        await step(index, transaction);
    });
    await context.inboxes.settle();
  }
}
