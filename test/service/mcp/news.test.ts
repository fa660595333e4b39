import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import { createNews, type News, type Watched } from '../../../src/service/mcp/news.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let clock: TestClock;
let news: News;
let maria: AgentActor;
let guest: AgentActor;
let stranger: AgentActor;
let session: string;

beforeEach(async () => {
  stage = await openStage();
  clock = createTestClock();
  news = createNews({ ...stage.context, clock });
  maria = await stage.addAgent(await stage.addAccount('maria'), 'main', { inboundPolicy: 'open' });
  guest = await stage.addAgent(await stage.addAccount('guest'), 'main', { inboundPolicy: 'open' });
  stranger = await stage.addAgent(await stage.addAccount('stranger'), 'main', { inboundPolicy: 'open' });
  session = must(await stage.create(maria, { invite: [guest.handle] })).session_id;
  must(await stage.join(guest, session));
});
afterEach(async () => {
  news.stop();
  await stage.close();
});

/** A call that waits, and how often it was woken. */
function wait(watched: Watched): { readonly wakes: () => number; readonly end: () => void } {
  const watch = news.watch(watched);
  const until = new AbortController();
  let wakes = 0;
  void (async () => {
    for (;;) {
      await watch.next(until.signal);
      if (until.signal.aborted) return;
      wakes += 1;
    }
  })();
  return {
    wakes: () => wakes,
    end: () => {
      until.abort();
      watch.end();
    },
  };
}

/** Lets the time of gathering pass, and what it asks be answered. */
async function gather(): Promise<void> {
  clock.advance(250);
  await stage.database.behind.read((query) => query.all('SELECT 1 AS one'));
  await new Promise((resolve) => setTimeout(resolve, 20));
}

describe('A call that waits', () => {
  it('for any session wakes for the sessions of its agent, and for no others', async () => {
    const [concerned, other] = [wait({ agentId: guest.agentId }), wait({ agentId: stranger.agentId })];
    must(await stage.send(maria, session, { content: 'hi' }));
    await gather();
    expect([concerned.wakes(), other.wakes()]).toEqual([1, 0]);
    must(await stage.invite(maria, session, [stranger.handle]));
    await gather();
    expect([concerned.wakes(), other.wakes()]).toEqual([2, 1]);
    concerned.end();
    other.end();
  });

  it('for one session wakes for it alone, and at once', async () => {
    const second = must(await stage.create(maria, { invite: [stranger.handle] })).session_id;
    const [first, other] = [wait({ sessionId: session }), wait({ sessionId: second })];
    must(await stage.send(maria, session, { content: 'hi' }));
    await new Promise((resolve) => setImmediate(resolve));
    expect([first.wakes(), other.wakes()]).toEqual([1, 0]);
    first.end();
    other.end();
  });

  it('costs one question for all agents and all sessions, and none when no one waits', async () => {
    news.stop();
    let questions = 0;
    const read: typeof stage.database.behind.read = (work) => {
      questions += 1;
      return stage.database.behind.read(work);
    };
    const database = { ...stage.database, behind: { ...stage.database.behind, read } };
    news = createNews({ ...stage.context, clock, database });
    const second = must(await stage.create(maria, { invite: [stranger.handle] })).session_id;
    await gather();
    expect(questions).toBe(0);
    const calls = [guest, stranger, maria, maria].map(({ agentId }) => wait({ agentId }));
    for (let count = 0; count < 5; count += 1) must(await stage.send(maria, session, { content: 'hi' }));
    must(await stage.send(maria, second, { content: 'hi' }));
    await gather();
    expect(questions).toBe(1);
    expect(calls.map(({ wakes }) => wakes())).toEqual([1, 1, 1, 1]);
    for (const call of calls) call.end();
  });

  it('wakes when its agent cannot be looked up', async () => {
    news.stop();
    const read = (): Promise<never> => Promise.reject(new Error('no database'));
    const database = { ...stage.database, behind: { ...stage.database.behind, read } };
    news = createNews({ ...stage.context, clock, database });
    const call = wait({ agentId: stranger.agentId });
    must(await stage.send(maria, session, { content: 'hi' }));
    await gather();
    expect(call.wakes()).toBe(1);
    call.end();
  });
});
