import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../../src/kit/clock.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import { createNews, type News } from '../../../src/service/mcp/news.js';
import { SERVICE_TOOLS } from '../../../src/service/mcp/tools.js';
import { until } from '../../support/until.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let news: News;
let alice: AgentActor;
let bob: AgentActor;
let session: string;
const failures: unknown[] = [];
beforeEach(async () => {
  stage = await openStage();
  failures.length = 0;
  news = createNews({ ...stage.context, clock: systemClock });
  const [one, two] = [await stage.addAccount('alice'), await stage.addAccount('bob')];
  alice = await stage.addAgent(one, 'main', { inbound_policy: 'open' });
  bob = await stage.addAgent(two, 'main', { inbound_policy: 'open' });
  ({ session_id: session } = must(await stage.create(alice, { invite: [bob.handle] })));
  must(await stage.join(bob, session));
});
afterEach(async () => {
  news.stop();
  await stage.close();
});

/** Sends a message and waits for the reply. When something happens in the session, the wait fails with this error. */
async function ask(error: unknown): Promise<object> {
  const log = { info: () => {}, warn: () => {}, error: (_: string, cause: unknown) => void failures.push(cause) };
  const context = { ...stage.context, clock: systemClock, log };
  const actor = { ...alice, scopes: ['sessions:read', 'sessions:write'] } as const;
  const caller = { actor, gone: new AbortController().signal, recheck: () => Promise.reject(error) };
  const send = SERVICE_TOOLS.find(({ name }) => name === 'send');
  if (send === undefined) throw new Error('There is no such tool.');
  const asking = send.run({ context, news }, caller, { to: session, text: 'Deploy?', wait_s: 40 } as never);
  const isOver = asking.then(
    () => true,
    () => true,
  );
  const lunch = async () => {
    must(await stage.send(bob, session, { content: 'Lunch?', metadata: { in_reply_to: 'msg_x' } }));
    return Promise.race([isOver, pause(100, false)]);
  };
  await until('it fails', lunch);
  return asking;
}

const SENT = { session_id: expect.any(String), message_id: expect.any(String), sequence: expect.any(Number) };

it('a wait that fails after the message was sent returns what was sent, and the log has the reason', async () => {
  const fault = new Error('the disk is away');
  expect(await ask(fault)).toEqual({ ...SENT, reply: null });
  expect(failures).toEqual([fault]);
});

it('a wait in a session that is gone is over', async () => {
  expect(await ask(new ServiceError('NOT_FOUND'))).toEqual({ ...SENT, reply: null, is_over: true });
});

it('a caller whose token was revoked while it waited learns nothing more', async () => {
  await expect(ask(new ServiceError('UNAUTHORIZED'))).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
});
