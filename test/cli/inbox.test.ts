import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { documentOf, type Stage, startStage } from './acting.js';
import { freshHome } from './captured-run.js';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage({ areLimitsOn: false });
});
afterAll(() => stage.stop());

let alice: Actor;
let bob: Actor;
let home: string;
beforeEach(async () => {
  [alice, bob] = await Promise.all([stage.service.createAgent('alice'), stage.service.createAgent('bob')]);
  home = freshHome();
});

const asBob = (words: string | readonly string[], options = {}) =>
  stage.as(bob, words, { machine: { homeDirectory: home, workingDirectory: home }, ...options });

interface Item {
  readonly session_id: string;
  readonly unread: number;
  readonly has_more: boolean;
  readonly status: string;
  readonly with: readonly string[];
  readonly last_event: { readonly type: string; readonly payload: { readonly content?: string } };
}
const inboxOf = async (words = ''): Promise<Item[]> =>
  documentOf(await asBob(`inbox --json ${words}`))['items'] as Item[];

async function shared(...texts: string[]): Promise<string> {
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  for (const text of texts) await alice.mustSend(id, text);
  return id;
}

describe('asp inbox', () => {
  it('is empty if nothing has happened', async () => {
    const { code, out, err } = await asBob('inbox');
    expect({ code, out, err }).toEqual({ code: 0, out: '', err: 'Nothing new.\n' });
  });

  it('lists sessions with unread messages, how many, and the last one', async () => {
    const id = await shared('one', 'two');
    expect(await inboxOf()).toMatchObject([
      {
        ...{ session_id: id, unread: 2, has_more: false, status: 'joined', with: [alice.handle] },
        last_event: { type: 'session.message', payload: { content: 'two' } },
      },
    ]);
    expect((await asBob('inbox')).out).toBe(
      `${alice.handle}\t2\ttwo\t${new Date((await lastAt(id)) ?? 0).toISOString()}\t${id}\n`,
    );
  });

  const lastAt = async (id: string): Promise<number | undefined> =>
    ((await bob.mustReplay(id)) as { created_at: number }[]).at(-1)?.created_at;

  it('lists invitations, with what they are about', async () => {
    const id = await alice.mustCreate({ invite: [bob.handle], topic: 'the release' });
    const { out } = await asBob('inbox');
    expect(out).toContain(`${alice.handle}\tinvited\tthe release\t`);
    expect(await inboxOf('--invited')).toMatchObject([{ session_id: id, status: 'invited', unread: 0 }]);
  });

  it('lists a message that ended its session', async () => {
    const body = { invite: [bob.handle], initial_message: { content: 'build ok' }, end_after_send: true };
    const id = await alice.mustCreate(body);
    expect(await inboxOf('--unread')).toMatchObject([{ session_id: id, unread: 1, status: 'invited' }]);
    expect((await asBob('inbox')).out).toContain('\t1\tbuild ok\t');
    expect((await asBob(['inbox', 'read', id])).out).toMatch(/build ok\n$/);
    expect(await inboxOf()).toEqual([]);
  });

  it('shows events other than messages once, and none of the agent’s own', async () => {
    const id = await bob.mustCreate({ invite: [alice.handle], initial_message: { content: 'hello?' } });
    expect(await inboxOf()).toEqual([]);
    await alice.mustJoin(id);
    expect(await inboxOf()).toMatchObject([{ unread: 0, last_event: { type: 'session.joined' } }]);
    expect(await inboxOf('--unread')).toEqual([]);
    await asBob(['inbox', 'read', id]);
    expect(await inboxOf()).toEqual([]);
  });

  it('counts a message as unread until the agent has answered', async () => {
    const id = await shared('one', 'two');
    await bob.mustSend(id, 'yes?');
    expect(await inboxOf()).toEqual([]);
    await alice.mustSend(id, 'three');
    expect(await inboxOf()).toMatchObject([{ unread: 1 }]);
  });

  it('does not treat joining as reading', async () => {
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'hello' } });
    await bob.mustJoin(id);
    expect(await inboxOf()).toMatchObject([{ unread: 1 }]);
  });

  it('does not treat following as reading', async () => {
    await shared('one');
    expect((await asBob(`tail ${alice.handle} --no-follow --text`)).out).toBe('one\n');
    expect(await inboxOf()).toMatchObject([{ unread: 1 }]);
  });

  it('says when there is more than it counted', async () => {
    const id = await shared();
    for (let at = 0; at < 200; at += 1) await alice.mustSend(id, `${at}`);
    await alice.mustSend(id, 'last');
    const [item] = await inboxOf();
    expect(item).toMatchObject({ unread: 200, has_more: true, last_event: { payload: { content: 'last' } } });
    expect((await asBob('inbox')).out).toContain('\t200+\tlast\t');
    const first = documentOf(await asBob(['inbox', 'read', id, '--json'])) as {
      messages: unknown[];
      unread_left: number;
    };
    expect([first.messages.length, first.unread_left]).toEqual([200, 1]);
    const second = documentOf(await asBob(['inbox', 'read', id, '--json']));
    expect(second).toMatchObject({ messages: [{ content: 'last' }], unread_left: 0 });
    expect(await inboxOf()).toEqual([]);
  });

  it('sends no requests for sessions without new events', async () => {
    for (let at = 0; at < 3; at += 1) await bob.mustSend(await shared('hi'), 'answered');
    const calls = async (): Promise<number> => {
      const { err } = await asBob('inbox --debug --json');
      return err.split('\n').filter((line) => line.includes('/events')).length;
    };
    expect(await calls()).toBeGreaterThan(0);
    expect(await calls()).toBe(0);
  });

  it('is a table that is not too wide on a narrow terminal, with the ids below', async () => {
    const id = await shared('a rather long text that does not fit on such a terminal in full');
    for (const columns of [40, 80]) {
      const { out } = await asBob('inbox --color never', { isTerminal: true, columns });
      expect(out).toMatch(columns < 70 ? /^WITH +NEW +LAST +WHEN\n/ : /SESSION\n/);
      expect(out).toContain(columns < 70 ? `\n  ${id}\n` : `  ${id}\n`);
      for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
      expect(out).toContain(columns < 70 ? alice.handle.slice(0, 12) : alice.handle);
    }
  });

  it('survives a damaged file of read marks', async () => {
    const id = await shared('one');
    await asBob(['inbox', 'read', id]);
    const folder = join(home, '.local', 'state', 'asp-cli', 'inbox');
    const [name = ''] = readdirSync(folder);
    writeFileSync(join(folder, name), '{"sessions":[');
    expect(await inboxOf()).toMatchObject([{ unread: 1 }]);
    await asBob(['inbox', 'read', id]);
    expect(await inboxOf()).toEqual([]);
  });
});

describe('asp inbox read', () => {
  it('prints whole messages and marks them as read', async () => {
    const id = await shared('one', 'two\nlines');
    const { code, out } = await asBob(['inbox', 'read', alice.handle]);
    expect(code).toBe(0);
    expect(out).toMatch(
      new RegExp(`^\\d\\d:\\d\\d ${alice.handle}  one\n\\d\\d:\\d\\d ${alice.handle}\n  two\n  lines\n$`),
    );
    expect(await asBob(['inbox', 'read', id])).toMatchObject({ code: 0, out: '', err: 'Nothing unread.\n' });
  });

  it('breaks lines between words on a narrow terminal', async () => {
    const text = 'This is too long for one line of such a terminal.';
    const id = await shared(text);
    const { out } = await asBob(['inbox', 'read', id, '--color', 'never'], { isTerminal: true, columns: 40 });
    const [head, ...lines] = out.trimEnd().split('\n');
    expect(head).toMatch(new RegExp(`^\\d\\d:\\d\\d ${alice.handle}$`));
    expect(lines).toEqual(['  This is too long for one line of such', '  a terminal.']);
  });

  it('keeps read marks from another process', async () => {
    const [one, two] = [await shared('one'), await shared('two')];
    await Promise.all([asBob(['inbox', 'read', one]), asBob(['inbox', 'read', two])]);
    await Promise.all([asBob(['inbox', 'read', one]), asBob(['inbox', 'read', two])]);
    expect(await inboxOf()).toEqual([]);
  });

  it('offers to join if the agent is only invited', async () => {
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'hello' } });
    const { code, err } = await asBob(['inbox', 'read', id]);
    expect(code).toBe(3);
    expect(err).toContain(`try:  asp session join ${id}`);
  });
});

describe('asp reply', () => {
  const messagesOf = async (id: string) =>
    ((await alice.mustReplay(id)) as { type: string; payload: Record<string, unknown> }[])
      .filter(({ type }) => type === 'session.message')
      .map(({ payload }) => payload);

  it('answers the latest message of someone else and names it', async () => {
    const id = await shared('one', 'two');
    await bob.mustSend(id, 'wait');
    const { code, out, err } = await asBob(['reply', alice.handle, 'done']);
    const [, two, , answer] = await messagesOf(id);
    expect(code).toBe(0);
    expect(answer).toMatchObject({ content: 'done', metadata: { in_reply_to: two?.['id'] } });
    expect(out).toBe(`${answer?.['id']}\n`);
    expect(err).toContain(`Answering ${alice.handle}: two\n`);
  });

  it('continues the chain of automatic replies', async () => {
    const id = await shared();
    await alice.mustSend(id, 'two', { hops: 3 });
    await asBob(['reply', id, 'done']);
    await asBob(['reply', id, 'in asp run'], { environment: { ASP_HOPS: '7' } });
    expect((await messagesOf(id)).slice(-2).map(({ metadata }) => metadata)).toMatchObject([{ hops: 4 }, { hops: 7 }]);
  });

  it('answers the message that a command of asp run got, and the latest one in other sessions', async () => {
    const id = await shared('one', 'two');
    const other = await shared('three', 'four');
    const [one] = await messagesOf(id);
    const environment = { ASP_SESSION_ID: id, ASP_SEQUENCE: String(one?.['sequence']) };
    for (const session of [id, other]) await asBob(['reply', session, 'done'], { environment });
    expect((await messagesOf(id)).at(-1)).toMatchObject({ metadata: { in_reply_to: one?.['id'] } });
    const [, four, answer] = await messagesOf(other);
    expect(answer).toMatchObject({ metadata: { in_reply_to: four?.['id'] } });
    await asBob(['reply', id, 'done'], { environment: { ...environment, ASP_SEQUENCE: '1' } });
    expect((await messagesOf(id)).at(-1)).toMatchObject({
      metadata: { in_reply_to: (await messagesOf(id))[1]?.['id'] },
    });
  });

  it('is recognized by the program that waits for it', async () => {
    const id = await shared();
    const waiting = stage.as(alice, ['send', id, 'are you there?', '--wait', '--json', '--timeout', '20s']);
    for (let count = 0; count === 0; ) count = (await messagesOf(id)).length;
    await asBob(['reply', '--last', 'yes']);
    expect(documentOf(await waiting)).toMatchObject({ reply_matched: true, reply: { content: 'yes' } });
  });

  it('--last answers in the latest session whose last message is not its own', async () => {
    const waiting = await shared('a question');
    const answered = await shared('hi');
    await bob.mustSend(answered, 'hi');
    expect(documentOf(await asBob(['reply', '--last', 'an answer', '--json']))).toMatchObject({
      session_id: waiting,
      in_reply_to: (await messagesOf(waiting))[0]?.['id'],
    });
    const { code, err } = await asBob(['reply', '--last', 'more']);
    expect(code).toBe(3);
    expect(err).toContain('There is no message to answer.');
  });

  it('offers to join if the agent is only invited, and joins with --join', async () => {
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'hello' } });
    const refused = await asBob(['reply', id, 'hi']);
    expect(refused.code).toBe(3);
    expect(refused.err).toContain(`You are invited to ${id} and have not joined.`);
    expect(refused.err).toContain(`try:  asp session join ${id}`);
    expect((await asBob(['reply', id, 'hi', '--join'])).code).toBe(0);
    expect((await messagesOf(id)).map(({ content }) => content)).toEqual(['hello', 'hi']);
  });

  it('--dry-run joins nothing, even with --join', async () => {
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'hello' } });
    const { code, err } = await asBob(['reply', id, 'hi', '--join', '--dry-run']);
    expect(code).toBe(3);
    expect(err).toContain(`You are invited to ${id} and have not joined.`);
    const { participants } = (await alice.get(`/sessions/${id}`)).json as { participants: object[] };
    expect(participants).toContainEqual(expect.objectContaining({ handle: bob.handle, status: 'invited' }));
  });

  it('--last takes a later invitation for the latest session, and does not answer an older one instead', async () => {
    const older = await shared('an old question');
    await bob.post(`/agents/${bob.owner}/${bob.name}/allowlist`, { entries: [alice.handle] });
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'a new question' } });
    const refused = await asBob(['reply', '--last', 'yes']);
    expect(refused.code).toBe(3);
    expect(refused.err).toContain(`You are invited to ${id} and have not joined.`);
    expect(refused.err).toContain(`try:  asp session join ${id}`);
    expect(await messagesOf(older)).toHaveLength(1);
    expect((await asBob(['reply', '--last', 'yes', '--join'])).code).toBe(0);
    expect((await messagesOf(id)).map(({ content }) => content)).toEqual(['a new question', 'yes']);
    expect((await asBob(['reply', '--last', 'late'])).code).toBe(0);
    expect((await messagesOf(older)).map(({ content }) => content)).toEqual(['an old question', 'late']);
  });

  it('--last does not give a stranger’s later invitation the answer to someone else', async () => {
    const older = await shared('an old question');
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'hi, stranger' } });
    const { code, err } = await asBob(['reply', '--last', 'yes', '--join']);
    expect({ code, answered: (await messagesOf(older)).at(-1)?.['content'] }).toEqual({ code: 0, answered: 'yes' });
    expect(err).toContain(`You are also invited to ${id}, by an agent that is not on your allowlist.`);
    // Nothing else waits now.
    expect((await asBob(['reply', '--last', 'hello'])).err).toContain(`You are invited to ${id} and have not joined.`);
  });

  it('takes its text from standard input', async () => {
    const id = await shared('one');
    expect((await asBob(['reply', id], { stdin: 'from a pipe\n' })).code).toBe(0);
    expect((await messagesOf(id)).at(-1)?.['content']).toBe('from a pipe');
  });

  it('refuses to answer if no one else has sent a message', async () => {
    const id = await shared();
    const { code, err } = await asBob(['reply', id, 'hi']);
    expect(code).toBe(3);
    expect(err).toContain(`${id} has no message to answer.`);
  });

  it.each([
    [['reply'], 'Name the session to answer in.'],
    [['reply', 'ok thanks'], "'ok thanks' is not a session."],
    [['reply', '--last', '@alice.bot', 'ok'], '--last and a session cannot be used together.'],
    [['reply', '@alice.bot', 'ok', '-m', 'ok'], 'There is more than one text.'],
    [['reply', '--last', 'ok', '--wait', '--end'], '--wait and --end cannot be used together.'],
    [
      ['reply', '@alice.bot', '-', '--file', '-'],
      'Standard input can be read only once, not by the answer and --file -.',
    ],
  ])('asp %j is refused', async (words, message) => {
    const { code, err } = await asBob(words);
    expect(code).toBe(2);
    expect(err).toContain(message);
  });
});
