import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { MESSAGE_BODY_MAX_BYTES, OWN_RATE_LIMIT, TOPIC_MAX_LENGTH } from '../../../src/wire/limit.js';
import { type Actor, createActor } from '../../support/actors.js';
import type { FormValues, Page } from '../../support/browser.js';
import { field } from '../../support/json.js';
import { mustFindForm } from '../../support/person.js';
import { bodyOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

const PATH = '/dashboard/new-session';
const START = /^start session$/i;

let stage: Stage;
let mine: Actor;
let ada: Visitor;
let bob: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false });
});
afterAll(() => stage.close());
beforeEach(async () => {
  mine = await create('ada');
  ada = await stage.enterLocally(mine.owner);
  bob = await create('bob');
});

const create = (name: string, options = {}): Promise<Actor> =>
  createActor(stage.desk.place, stage.operator, name, options);
const start = (values: FormValues): Promise<Page> => ada.press(PATH, START, { agent: 'main', ...values });
const sessionsOf = async (actor: Actor): Promise<{ id: string; topic: string | null }[]> =>
  ((await actor.get('/sessions')).json as { sessions: { id: string; topic: string | null }[] }).sessions;
const attributeOf = (page: Page, name: string): string | undefined => mustFindForm(page, START).values[name];

describe('A person who starts a session', () => {
  it('names an agent, others, a topic and a first message, which is marked as written by a person', async () => {
    const carol = await create('carol');
    const page = await start({ handles: `${bob.handle}, ${carol.handle}`, topic: 'Launch', text: 'Are you\r\nthere?' });
    const [session] = await sessionsOf(bob);
    expect(session).toMatchObject({ topic: 'Launch' });
    expect(pathOf(page)).toBe(`/dashboard/sessions/${session?.id}`);
    expect(page.text).toContain('The session was started.');
    await carol.mustJoin(session?.id ?? '');
    expect(field((await carol.mustReplay(session?.id ?? '')).at(-2), 'payload')).toMatchObject({
      sender: mine.handle,
      content: 'Are you\nthere?',
      metadata: { sent_by: 'dashboard' },
    });
  });

  it('can leave out the topic and the message', async () => {
    await start({ handles: bob.handle });
    expect(await sessionsOf(bob)).toMatchObject([{ topic: null }]);
  });

  it('starts one session with two presses of the button', async () => {
    const page = await ada.open(PATH);
    const values = { agent: 'main', handles: bob.handle, text: 'once' };
    const pages = [1, 2].map(() => ada.browser.submit(page, mustFindForm(page, START), values, START));
    const [first, second] = (await Promise.all(pages)).map(pathOf);
    expect(first).toBe(second);
    expect(await sessionsOf(bob)).toHaveLength(1);
  });

  it('learns that some agents could not be invited, but not why', async () => {
    const closed = await create('closed', { policy: 'allowlist' });
    const page = await start({ handles: `${bob.handle} ${closed.handle}` });
    expect(page.text).toContain('The session was started. Some agents can’t be invited.');
    const refusals = [closed.handle, '@no.body'].map(async (handles) => {
      const { answer, text } = await start({ handles, topic: 'Launch', text: 'Hello' });
      return [answer.status, text.replaceAll(handles, '')];
    });
    const [first, second] = await Promise.all(refusals);
    expect(first?.[0]).toBe(400);
    expect(first?.[1]).toContain('None of them can be invited.');
    expect(first).toEqual(second);
  });

  it('keeps everything that was typed when something is wrong', async () => {
    const typed = { handles: 'not-a-handle', topic: 'Launch', text: 'Hello\n<b>you</b>' };
    const page = await start(typed);
    expect(page.answer.status).toBe(400);
    expect(page.text).toContain('“not-a-handle” is not a handle.');
    for (const [name, value] of Object.entries(typed)) expect(attributeOf(page, name)).toBe(value);
    expect(bodyOf(page)).not.toContain('<b>you');
    await ada.browser.submit(page, mustFindForm(page, START), { handles: bob.handle }, START);
    expect(await sessionsOf(bob)).toHaveLength(1);
  });

  it.each([
    ['no agent of the account', { agent: 'nobody' }, 'Choose one of your agents.'],
    ['another account’s agent', { agent: '@bob.main' }, 'Choose one of your agents.'],
    ['too many to invite', { handles: '@no.body '.repeat(101) }, 'Enter at most 100 handles at once. These are 101.'],
    ['no one to invite', { handles: ' , ' }, 'Enter the handle of an agent.'],
    ['a topic that is too long', { topic: 'x'.repeat(TOPIC_MAX_LENGTH + 1) }, 'topic'],
    ['a message that is too long', { text: 'x'.repeat(MESSAGE_BODY_MAX_BYTES) }, 'The message is too long.'],
  ])('starts nothing with %s', async (_, values, reason) => {
    const page = await start({ handles: bob.handle, ...values });
    expect(page.answer.status).toBe(400);
    expect(page.text).toContain(reason);
    expect(await sessionsOf(bob)).toEqual([]);
  });

  it('invites the last of a hundred long handles, because no field cuts them', async () => {
    expect(/<input[^>]*name="handles"[^>]*>/.exec((await ada.open(PATH)).answer.text)?.[0]).not.toContain('maxlength');
    const handles = [...Array.from({ length: 99 }, (_, at) => `@no.${'x'.repeat(28)}-${at + 100}`), bob.handle].join(
      ' ',
    );
    expect(handles.length).toBeGreaterThan(3_000);
    expect((await start({ handles })).text).toContain('Some agents can’t be invited.');
    expect(await sessionsOf(bob)).toHaveLength(1);
  });

  it('cannot use an agent that may not start sessions', async () => {
    await ada.press('/dashboard/agents/main', /^save$/i, { can_initiate_sessions: undefined });
    const page = await start({ handles: bob.handle });
    expect([page.answer.status, page.text.includes('This agent can’t start sessions.')]).toEqual([400, true]);
  });

  it('finds the form filled in from the page of an agent', async () => {
    const shared = await ada.open(`/agents/${bob.handle}`);
    const page = await ada.browser.follow(shared, /start a session/i);
    expect(attributeOf(page, 'handles')).toBe(bob.handle);
    const hostile = await ada.open(`${PATH}?handles=${encodeURIComponent('"><script>alert(1)</script>')}`);
    expect(bodyOf(hostile)).not.toContain('<script>alert');
  });

  it('creates an agent first if there is none', async () => {
    const eve = await stage.enter('eve');
    await eve.press('/dashboard/agents/main/remove', /^remove agent$/i);
    const page = await eve.open(PATH);
    expect(page.text).toContain('You need an agent first');
    expect(bodyOf(page)).toContain('href="/dashboard/new-agent"');
  });
});

describe('The download of a session', () => {
  const linesOf = async (session: string, query = ''): Promise<unknown[]> => {
    const { answer } = await ada.open(`/dashboard/sessions/${session}/download${query}`);
    expect(answer.headers['content-disposition']).toBe(`attachment; filename="${session}.jsonl"`);
    expect(answer.headers['content-type']).toBe('application/x-ndjson; charset=utf-8');
    return answer.text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  };

  it('has every event that the account may see, each once, as programs get it', async () => {
    const session = await bob.mustCreate({ invite: [mine.handle] });
    await mine.mustJoin(session);
    for (let count = 0; count < 30; count += 1) await bob.mustSend(session, `${count}\n${'é'.repeat(30_000)}`);
    expect(await linesOf(session)).toEqual(await mine.mustReplay(session));
    expect((await linesOf(session)).at(-1)).toMatchObject({ sequence: 32 });
  });

  it('ends where the agent left', async () => {
    const session = await bob.mustCreate({ invite: [mine.handle] });
    await mine.mustJoin(session);
    await bob.mustSend(session, 'for all');
    await mine.mustLeave(session);
    await bob.mustSend(session, 'after it left');
    const text = JSON.stringify(await linesOf(session));
    expect([text.includes('for all'), text.includes('after it left')]).toEqual([true, false]);
  });

  it('has what the page that leads to it shows, even if that is the view of one agent', async () => {
    const session = await bob.mustCreate({ invite: [mine.handle] });
    await mine.mustJoin(session);
    const sister = await createActor(stage.desk.place, stage.operator, 'sister', { owner: mine.owner });
    await bob.mustInvite(session, sister.handle);
    await sister.mustJoin(session);
    await sister.mustLeave(session);
    await bob.mustSend(session, 'after it left');
    const path = `/dashboard/sessions/${session}`;
    const query = `?as=${sister.name}`;
    expect(bodyOf(await ada.open(path + query))).toContain(`href="${path}/download${query}"`);
    expect(await linesOf(session, query)).toEqual(await sister.mustReplay(session));
    expect((await linesOf(session)).length).toBe((await linesOf(session, query)).length + 1);
    expect((await ada.open(`${path}/download?as=nobody`)).answer.status).toBe(404);
  });

  it('is an unknown address for sessions of others', async () => {
    const carol = await create('carol');
    const foreign = await bob.mustCreate({ invite: [carol.handle] });
    for (const session of [foreign, 'sess_none', foreign.replace(/.$/, '0')])
      expect((await ada.open(`/dashboard/sessions/${session}/download`)).answer.status).toBe(404);
  });

  it('has its own limit', async () => {
    const limited = await openStage({ areLimitsOn: true });
    try {
      const eve = await limited.enter('eve');
      const app = await limited.connect(eve, 'laptop');
      expect(app.accessToken).not.toBe('');
      const second = await createActor(limited.desk.place, limited.operator, 'second');
      const page = await eve.press(PATH, START, { agent: 'main', handles: second.handle });
      const path = `${pathOf(page)}/download`;
      for (let count = 0; count < OWN_RATE_LIMIT.exportSession.count; count += 1)
        expect((await eve.open(path)).answer.status).toBe(200);
      expect((await eve.open(path)).answer.status).toBe(429);
    } finally {
      await limited.close();
    }
  });
});
