import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import { createFeed } from '../../../src/service/mcp/handler.js';
import { createNews, type News, type Watched } from '../../../src/service/mcp/news.js';
import { createLookout } from '../../../src/service/mcp/unread.js';
import { INBOX_URI, sessionUri } from '../../../src/wire/mcp.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import { until } from '../../support/until.js';
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
  maria = await stage.addAgent(await stage.addAccount('maria'), 'main', { inbound_policy: 'open' });
  guest = await stage.addAgent(await stage.addAccount('guest'), 'main', { inbound_policy: 'open' });
  stranger = await stage.addAgent(await stage.addAccount('stranger'), 'main', { inbound_policy: 'open' });
  session = must(await stage.create(maria, { invite: [guest.handle] })).session_id;
  must(await stage.join(guest, session));
});
afterEach(async () => {
  news.stop();
  await stage.close();
});

/** Starts a call that waits, and counts how often it wakes. */
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

/** Waits until the gathering time has passed and its queries are answered. */
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

  it('for one session wakes only for that session, and at once', async () => {
    const second = must(await stage.create(maria, { invite: [stranger.handle] })).session_id;
    const [first, other] = [wait({ sessionId: session }), wait({ sessionId: second })];
    must(await stage.send(maria, session, { content: 'hi' }));
    await new Promise((resolve) => setImmediate(resolve));
    expect([first.wakes(), other.wakes()]).toEqual([1, 0]);
    first.end();
    other.end();
  });

  it('costs one query for all agents and all sessions, and none if no one waits', async () => {
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

  it('wakes if its agent cannot be looked up', async () => {
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

describe('A subscription', () => {
  it('notices what others do in the inbox of its agent, once, and not what the agent does', async () => {
    const lookout = createLookout(stage.context, guest);
    await lookout.hasChanged('inbox');
    must(await stage.send(guest, session, { content: 'by guest' }));
    expect(await lookout.hasChanged('inbox')).toBe(false);
    must(await stage.send(maria, session, { content: 'for guest' }));
    must(await stage.send(guest, session, { content: 'by guest' }));
    expect(await lookout.hasChanged('inbox')).toBe(true);
    expect(await lookout.hasChanged('inbox')).toBe(false);
    must(await stage.create(maria, { invite: [stranger.handle] }));
    expect(await lookout.hasChanged('inbox')).toBe(false);
    must(await stage.create(maria, { invite: [guest.handle] }));
    expect(await lookout.hasChanged('inbox')).toBe(true);
  });

  it('notices what happens while it is being opened', async () => {
    const gone = new AbortController();
    const caller = { actor: guest, gone: gone.signal, recheck: async () => {} };
    const uris = [INBOX_URI, sessionUri(session)];
    const feed = await createFeed({ context: { ...stage.context, clock }, news }, caller, uris, () => {});
    must(await stage.send(maria, session, { content: 'in between' }));
    const heard: string[] = [];
    const close = feed.subscribe((event) => heard.push(event.kind === 'resource_updated' ? event.uri : event.kind));
    await until('both', async () => heard.length === 2);
    expect(heard).toEqual(uris);
    close();
    must(await stage.send(maria, session, { content: 'too late' }));
    clock.advance(10_000);
    await gather();
    expect(heard).toEqual(uris);
  });

  it('to a session notices only events that its agent may see', async () => {
    const [member, invited] = [createLookout(stage.context, guest), createLookout(stage.context, stranger)];
    const look = () => Promise.all([member, invited].map((each) => each.hasChanged({ sessionId: session })));
    expect(await look()).toEqual([true, false]);
    must(await stage.send(maria, session, { content: 'for members' }));
    expect(await look()).toEqual([true, false]);
    must(await stage.invite(maria, session, [stranger.handle]));
    expect(await look()).toEqual([true, true]);
    must(await stage.send(maria, session, { content: 'for members' }));
    expect(await look()).toEqual([true, false]);
    expect(await look()).toEqual([false, false]);
  });
});
