import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import { createMemoryLimits } from '../../../src/service/core/rate-limits.js';
import { REFUSALS_LIFETIME_MS } from '../../../src/service/core/refusals.js';
import { withIdempotency } from '../../../src/service/messaging/idempotency.js';
import { createSession } from '../../../src/service/messaging/sessions.js';
import { codeOf } from '../attachments/desk.js';
import { createHandClock, must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let closed: AgentActor;
let stranger: AgentActor;

beforeEach(async () => {
  stage = await openStage();
  closed = await stage.addAgent(await stage.addAccount('closed'), 'main');
  stranger = await stage.addAgent(await stage.addAccount('stranger'), 'main', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

/** Invites one agent as a request does: a refusal is recorded after its transaction. */
function invite({ context }: Stage, actor: AgentActor, handle: string): Promise<string> {
  const asked = { actorId: actor.agentId, endpoint: 'POST /sessions', key: randomUUID(), fingerprint: '' };
  return codeOf(
    withIdempotency(context, asked, async (transaction) => {
      const reply = await createSession(context, actor, { body: { invite: [handle] } }, transaction);
      return { status: 201, body: JSON.stringify(reply) };
    }),
  );
}

const knock = async (actor = stranger): Promise<void> =>
  expect(await invite(stage, actor, closed.handle)).toBe('NOT_FOUND');
const refusedAt = ({ agentId }: AgentActor) => stage.context.refusals.listInvitations(agentId);
const reasonsAt = (agent = closed): string[] => refusedAt(agent).map(({ sender, reason }) => `${sender} ${reason}`);

describe('The invitations that an agent refused', () => {
  it('are remembered with their sender, the reason, how often and when', async () => {
    const start = stage.clock.now();
    await knock();
    stage.clock.advance(1000);
    await knock();
    expect(refusedAt(closed)).toEqual([
      { sender: stranger.handle, reason: 'unlisted', times: 2, firstAt: start, lastAt: start + 1000 },
    ]);
    expect(refusedAt(stranger)).toEqual([]);
    stage.clock.advance(REFUSALS_LIFETIME_MS);
    expect(refusedAt(closed)).toEqual([]);
    await knock();
    expect(refusedAt(closed)).toMatchObject([{ times: 1 }]);
  });

  it('name a pause and a block by the agent', async () => {
    await stage.changeAgent(closed, { is_paused: 1 });
    await knock();
    await stage.changeAgent(closed, { is_paused: 0 });
    await stage.block(closed, stranger);
    await knock();
    expect(reasonsAt()).toEqual([`${stranger.handle} blocked`, `${stranger.handle} paused`]);
  });

  it('never tell that the inviter blocks the agent', async () => {
    await stage.block(stranger, closed);
    await knock();
    await stage.changeAgent(closed, { is_paused: 1 });
    await knock();
    expect(refusedAt(closed)).toEqual([]);
  });

  it('leave out strangers that the agent holds, because they are among its knocks', async () => {
    await stage.changeAgent(closed, { inbound_policy: 'hold' });
    await knock();
    expect(refusedAt(closed)).toEqual([]);
  });

  it('include those into a session and on reopening', async () => {
    const other = await stage.addAgent(await stage.addAccount('other'), 'main', { inbound_policy: 'open' });
    const { session_id: id } = must(await stage.create(stranger, { invite: [other.handle] }));
    must(await stage.invite(stranger, id, [closed.handle]));
    must(await stage.end(stranger, id));
    must(await stage.reopen(stranger, id, { invite: [closed.handle] }));
    expect(refusedAt(closed)).toMatchObject([{ times: 2 }]);
  });

  it('are bounded for each agent, and for each owner of senders', async () => {
    const crowd = await stage.addAccount('crowd');
    for (let count = 0; count < 7; count += 1) await knock(await stage.addAgent(crowd, `one-${count}`));
    expect(reasonsAt()).toEqual([6, 5, 4, 3, 2].map((count) => `@crowd.one-${count} unlisted`));
    for (let count = 0; count < 26; count += 1)
      await knock(await stage.addAgent(await stage.addAccount(`single-${count}`), 'main'));
    expect(reasonsAt()).toHaveLength(25);
    expect(reasonsAt().at(-1)).toBe('@single-1.main unlisted');
  });
});

it('An open agent that too many strangers invited says so to its owner', async () => {
  const clock = createHandClock();
  const limited = await openStage({ limits: createMemoryLimits(clock) });
  try {
    const open = await limited.addAgent(await limited.addAccount('open'), 'main', { inbound_policy: 'open' });
    const account = await limited.addAccount('eager');
    for (let agent = 0; agent < 2; agent += 1) {
      const eager = await limited.addAgent(account, `one-${agent}`);
      for (let sent = 0; sent < 25; sent += 1) must(await limited.create(eager, { invite: [open.handle] }));
    }
    const last = await limited.addAgent(account, 'last');
    expect(await invite(limited, last, open.handle)).toBe('NOT_FOUND');
    expect(limited.context.refusals.listInvitations(open.agentId)).toMatchObject([
      { sender: last.handle, reason: 'too many', times: 1 },
    ]);
  } finally {
    await limited.close();
  }
});
