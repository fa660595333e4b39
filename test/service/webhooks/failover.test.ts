import { expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { ANY_NETWORK } from '../../../src/service/core/public-internet.js';
import { startWebhookCalls } from '../../../src/service/messaging/webhook-calls.js';
import { putWebhook } from '../../../src/service/store/webhooks.js';
import { until } from '../../support/until.js';
import { startWebhookReceiver } from '../../support/webhook-receiver.js';
import { must, openStage } from '../sessions/stage.js';

it('A webhook gets an event again, and nothing is proved, if a failover came before its answer', async () => {
  const stage = await openStage();
  const receiver = await startWebhookReceiver();
  let epoch = stage.database.epoch();
  const proved: number[] = [];
  const { inboxes } = stage.context;
  const context = {
    ...stage.context,
    clock: systemClock,
    database: { ...stage.database, epoch: () => epoch },
    inboxes: {
      ...inboxes,
      delivered: (...[agentId, sessionId, progress]: Parameters<typeof inboxes.delivered>) => {
        proved.push(progress.sent);
        inboxes.delivered(agentId, sessionId, progress);
      },
    },
  };
  const account = await stage.addAccount('crew');
  const [host, guest] = [await stage.addAgent(account, 'host'), await stage.addAgent(account, 'guest')];
  const id = must(await stage.create(host, { invite: [guest.handle] })).session_id;
  must(await stage.join(guest, id));
  const { sequence } = must(await stage.send(host, id, { content: 'hi' }));
  const row = { agent_id: guest.agentId, account_id: account.id, url: receiver.url(), secret: receiver.secret };
  await stage.database.write((transaction) => putWebhook(transaction, { ...row, set_at: systemClock.now() }));
  const messages = (): unknown[] => receiver.eventsAt('/hook').filter(({ json }) => json['type'] === 'session.message');
  receiver.answer((reply) => {
    if (messages().length === 1) epoch = { ...epoch, token: 'after the failover' };
    if (messages().length === 2) expect(proved).not.toContain(sequence);
    reply.writeHead(204).end();
  });
  const calls = await startWebhookCalls(context, ANY_NETWORK);
  try {
    await until('it comes again', async () => messages().length === 2);
    await until('it is proved', async () => proved.includes(sequence));
  } finally {
    await calls.stop();
    await receiver.close();
    await stage.close();
  }
  expect(receiver.faults).toEqual([]);
});
