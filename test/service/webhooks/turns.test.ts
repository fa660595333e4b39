import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import type { Query } from '../../../src/service/core/database.js';
import { ANY_NETWORK } from '../../../src/service/core/public-internet.js';
import { startWebhookCalls } from '../../../src/service/messaging/webhook-calls.js';
import { putWebhook } from '../../../src/service/store/webhooks.js';
import { until } from '../../support/until.js';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let receiver: WebhookReceiver;
beforeEach(async () => {
  [stage, receiver] = [await openStage(), await startWebhookReceiver()];
});
afterEach(async () => {
  await receiver.close();
  await stage.close();
  expect(receiver.faults).toEqual([]);
});

/** A session of an agent and one with a webhook. */
async function talk(): Promise<{ readonly host: AgentActor; readonly id: string }> {
  const account = await stage.addAccount('crew');
  const [host, guest] = [await stage.addAgent(account, 'host'), await stage.addAgent(account, 'guest')];
  const id = must(await stage.create(host, { invite: [guest.handle] })).session_id;
  must(await stage.join(guest, id));
  const row = { agent_id: guest.agentId, account_id: account.id, url: receiver.url(), secret: receiver.secret };
  await stage.database.write((transaction) => putWebhook(transaction, { ...row, set_at: systemClock.now() }));
  return { host, id };
}

const countMessages = (): number => receiver.textsAt('/hook').length;

/** Runs `work` while a service calls webhooks. */
async function withCalls(
  context: Parameters<typeof startWebhookCalls>[0],
  work: () => Promise<void>,
  own = { isClockRight: true },
): Promise<void> {
  const calls = await startWebhookCalls(context, own, ANY_NETWORK);
  try {
    await work();
  } finally {
    await calls.stop();
  }
}

describe('A turn of a webhook', () => {
  it('proves nothing if a failover came before the answer, and the event comes again', async () => {
    let epoch = stage.database.epoch();
    const proved: number[] = [];
    const { inboxes } = stage.context;
    const { host, id } = await talk();
    const { sequence } = must(await stage.send(host, id, { content: 'hi' }));
    receiver.answer((reply) => {
      if (countMessages() === 1) epoch = { ...epoch, token: 'after the failover' };
      if (countMessages() === 2) expect(proved).not.toContain(sequence);
      reply.writeHead(204).end();
    });
    const context = {
      ...stage.context,
      clock: systemClock,
      database: { ...stage.database, epoch: () => epoch },
      inboxes: {
        settle: () => inboxes.settle(),
        settleFor: (agentId: string) => inboxes.settleFor(agentId),
        settleForAccount: (accountId: string) => inboxes.settleForAccount(accountId),
        delivered: (...[agentId, sessionId, progress]: Parameters<typeof inboxes.delivered>) => {
          proved.push(progress.sent);
          inboxes.delivered(agentId, sessionId, progress);
        },
      },
    };
    await withCalls(context, async () => {
      await until('it comes again', async () => countMessages() === 2);
      await until('it is proved', async () => proved.includes(sequence));
    });
  });

  it('does not begin while the clock of the service is wrong', async () => {
    const { host, id } = await talk();
    must(await stage.send(host, id, { content: 'hi' }));
    const own = { isClockRight: false };
    const work = async (): Promise<void> => {
      await pause(2_500);
      expect(receiver.calls).toEqual([]);
      own.isClockRight = true;
      await until('it is called', async () => countMessages() === 1);
    };
    await withCalls({ ...stage.context, clock: systemClock }, work, own);
  });

  it('does not wait for a time from before the clock was set back', async () => {
    const { host, id } = await talk();
    must(await stage.send(host, id, { content: 'hi' }));
    receiver.answer((reply) => void reply.writeHead(500).end());
    let aheadMs = 24 * 60 * 60_000;
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
    await withCalls({ ...stage.context, clock }, async () => {
      await until('it fails', async () => {
        const [row] = await stage.read((query) => query.all<{ failures: number }>('SELECT failures FROM webhook'));
        return row?.failures === 1;
      });
      receiver.answer();
      aheadMs = 0;
      await until('it is called again', async () => countMessages() === 1);
    });
  });

  it('does not call an address that was set before the service took only public ones', async () => {
    const { host, id } = await talk();
    must(await stage.send(host, id, { content: 'hi' }));
    const settings = { ...stage.context.settings, webhooks: 'public' } as const;
    const context = { ...stage.context, clock: systemClock, settings };
    // Its host is on the public internet, as far as the service can tell.
    await withCalls(context, async () => {
      await until('the failure', async () => {
        const [row] = await stage.read((query) => query.all<{ failure: string }>('SELECT failure FROM webhook'));
        return row?.failure === 'the service calls only https addresses with a host name';
      });
    });
    expect(receiver.calls).toEqual([]);
  });

  it('holds few large events at once, because its receiver may be slow', async () => {
    const { behind } = stage.database;
    const { host, id } = await talk();
    for (let n = 0; n < 12; n += 1) must(await stage.send(host, id, { content: 'x'.repeat(200_000) }));
    /** Characters of the events that were read at once. */
    const sizes: number[] = [];
    const read = async <T>(work: (query: Query) => Promise<T>): Promise<T> => {
      const result = await behind.read(work);
      sizes.push(JSON.stringify(result ?? null).length);
      return result;
    };
    const database = { ...stage.database, behind: { ...behind, read } };
    await withCalls({ ...stage.context, clock: systemClock, database }, async () => {
      await until('all of them', async () => countMessages() === 12);
    });
    expect(Math.max(...sizes)).toBeGreaterThan(200_000);
    expect(Math.max(...sizes)).toBeLessThan(700_000);
  });
});
