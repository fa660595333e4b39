import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type Clock, systemClock } from '../../src/kit/clock.js';
import type { Actor } from '../support/actors.js';
import { until } from '../support/until.js';
import { documentOf, type Stage, startStage } from './acting.js';
import type { Ran } from './captured-run.js';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage({ areLimitsOn: false });
});
afterAll(() => stage.stop());

let alice: Actor;
let bob: Actor;
beforeEach(async () => {
  [alice, bob] = await Promise.all([stage.service.createAgent('alice'), stage.service.createAgent('bob')]);
});

interface Asked {
  readonly ended: Promise<Ran>;
  readonly session: string;
  readonly question: Readonly<Record<string, unknown>>;
}

/** Asks bob a question in a new session. */
async function ask(...given: readonly (string | Readonly<Record<string, string>>)[]): Promise<Asked> {
  const words = given.filter((one) => typeof one === 'string');
  const environment = given.find((one) => typeof one === 'object') ?? {};
  const ended = stage.as(alice, ['ask', bob.handle, 'Deploy?', '--timeout', '20s', ...words], { environment });
  const session = await until('the question', async () => {
    const { sessions } = (await bob.get('/sessions')).json as { sessions: { id: string; state: string }[] };
    return sessions.find(({ state }) => state === 'active')?.id;
  });
  await bob.mustJoin(session);
  const events = (await bob.mustReplay(session)) as { type: string; payload: Record<string, unknown> }[];
  return { ended, session, question: events.find(({ type }) => type === 'session.message')?.payload ?? {} };
}

const say = async (session: string, content: string, metadata: object, sender = bob): Promise<void> => {
  expect((await sender.post(`/sessions/${session}/messages`, { content, metadata })).status).toBe(201);
};

const stateOf = async (session: string): Promise<unknown> =>
  ((await alice.get(`/sessions/${session}`)).json as { state: string }).state;

describe('asp ask', () => {
  it('prints only the answer, and ends the session it created', async () => {
    const { ended, session } = await ask();
    await bob.mustSend(session, 'tomorrow');
    expect(await ended).toMatchObject({ code: 0, out: 'tomorrow\n' });
    expect(await stateOf(session)).toBe('ended');
  });

  it('offers the choices in the question’s metadata, and prints the chosen one as it was offered', async () => {
    const { ended, session, question } = await ask('--choices', 'Yes, Not now', '--json');
    expect(question['metadata']).toEqual({ choices: ['Yes', 'Not now'], awaits_reply: true });
    await bob.mustSend(session, ' not NOW\n');
    expect(documentOf(await ended)).toMatchObject({ choice: 'Not now', reply: { content: ' not NOW\n' } });
    const second = await ask('--choices', 'Yes,No');
    await bob.mustSend(second.session, 'no');
    expect((await second.ended).out).toBe('No\n');
  });

  it('keeps waiting after something that is not a choice, and shows it', async () => {
    const { ended, session } = await ask('--choices', 'yes,no');
    await bob.mustSend(session, 'which version?');
    await bob.mustSend(session, 'yes');
    const { code, out, err } = await ended;
    expect({ code, out }).toEqual({ code: 0, out: 'yes\n' });
    expect(err).toContain(`${bob.handle} said: which version?\n`);
    expect(err).toContain('That is not one of the choices (yes, no). Still waiting.\n');
  });

  it('after something that is not a choice, names a command that waits for the next answer', async () => {
    const { ended, session, question } = await ask('--choices', 'yes,no', '--wait', '1s');
    await bob.mustSend(session, 'which version?');
    const { code, err } = await ended;
    expect(code).toBe(8);
    const said = ((await bob.mustReplay(session)) as { type: string; sequence: number; payload: object }[]).at(-1);
    expect(said?.payload).toMatchObject({ content: 'which version?' });
    expect(err).toContain(`${session}: none of the choices arrived in time. Your message was sent.`);
    const [, next = ''] = /try: {2}asp (.*)/.exec(err) ?? [];
    expect(next).toBe(`session wait ${session} --for reply:${question['id']} --after ${said?.sequence} --timeout 1s`);
    await bob.mustSend(session, 'yes');
    expect(await stage.as(alice, next)).toMatchObject({ code: 0, out: 'yes\n' });
  });

  it('shows each line of what is not a choice on its own line, indented or between the lines of --fence', async () => {
    const plain = await ask('--choices', 'yes,no');
    await bob.mustSend(plain.session, 'one\ntwo');
    await bob.mustSend(plain.session, 'yes');
    expect((await plain.ended).err).toContain(`${bob.handle} said: one\n  two\nThat is not one of the choices`);
    const fenced = await ask('--choices', 'yes,no', '--fence');
    await bob.mustSend(fenced.session, 'one\ntwo');
    await bob.mustSend(fenced.session, 'yes');
    const { out, err } = await fenced.ended;
    expect(out).toBe('yes\n');
    expect(err).toMatch(/^=== (\S{16}) begin untrusted message .* ===\none\ntwo\n=== \1 end untrusted message ===$/m);
  });

  it('--fence overrides ASP_FORMAT when a choice is printed, as options do', async () => {
    const { ended, session } = await ask('--choices', 'yes,no', '--fence', { ASP_FORMAT: 'json' });
    await bob.mustSend(session, 'yes');
    expect((await ended).out).toBe('yes\n');
  });

  it('--expect exits 12 after any other choice, which is printed anyway', async () => {
    const yes = await ask('--choices', 'yes,no', '--expect', 'YES');
    await bob.mustSend(yes.session, 'yes');
    expect(await yes.ended).toMatchObject({ code: 0, out: 'yes\n' });
    const no = await ask('--choices', 'yes,no', '--expect', 'yes', '--json');
    await bob.mustSend(no.session, 'no');
    const { code, out, err } = await no.ended;
    expect(code).toBe(12);
    expect(JSON.parse(out)).toMatchObject({ choice: 'no', state: 'ended' });
    expect(JSON.parse(err)).toMatchObject({
      error: { code: 'ASP_OTHER_ANSWER', outcome: 'applied', message: `${bob.handle} answered no, not yes.` },
    });
  });

  it('exits 12 if the agent could not process the question', async () => {
    const { ended, session, question } = await ask('--choices', 'yes,no');
    await say(session, 'It broke.', { failed: true, in_reply_to: question['id'] });
    expect(await ended).toMatchObject({ code: 12, err: expect.stringContaining('could not process the question.') });
  });

  it('ignores the answer to another question', async () => {
    const { ended, session, question } = await ask('--choices', 'yes,no');
    const other = `msg_${'0'.repeat(26)}`;
    await say(session, 'no', { in_reply_to: other });
    await say(session, 'yes', { in_reply_to: question['id'] });
    expect(await ended).toMatchObject({ code: 0, out: 'yes\n' });
  });

  it('asks in an existing session, and leaves it open', async () => {
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    const ended = stage.as(alice, ['ask', session, 'ready?', '--timeout', '20s']);
    await until('the question', async () => JSON.stringify(await bob.mustReplay(session)).includes('ready?'));
    await bob.mustSend(session, 'yes');
    expect(await ended).toMatchObject({ code: 0, out: 'yes\n' });
    expect(await stateOf(session)).toBe('active');
  });

  it('in a group accepts only a message that names the question, and skips other remarks', async () => {
    const carol = await stage.service.createAgent('carol');
    const session = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    await Promise.all([bob.mustJoin(session), carol.mustJoin(session)]);
    const ended = stage.as(alice, ['ask', session, 'ready?', '--timeout', '20s']);
    const question = await until('the question', async () => {
      const events = (await bob.mustReplay(session)) as { payload: { id: string; content?: string } }[];
      return events.find(({ payload }) => payload.content === 'ready?')?.payload;
    });
    await carol.mustSend(session, 'lunch?');
    await bob.mustSend(session, 'at noon');
    await say(session, 'ready', { in_reply_to: question.id });
    expect(await ended).toMatchObject({ code: 0, out: 'ready\n' });
    const after = String((await alice.mustSend(session, 'and now?')).sequence);
    const waiting = stage.as(alice, [
      'session',
      'wait',
      session,
      '--for',
      'reply',
      '--after',
      after,
      '--timeout',
      '20s',
    ]);
    await carol.mustSend(session, 'noise');
    await carol.post(`/sessions/${session}/leave`);
    await bob.mustSend(session, 'go');
    expect(await waiting).toMatchObject({ code: 0, out: 'go\n' });
  });

  it('accepts a plain message from the one agent that was asked, even after it invited another one', async () => {
    const carol = await stage.service.createAgent('carol');
    const { ended, session } = await ask();
    await bob.post(`/sessions/${session}/invite`, { invite: [carol.handle] });
    await carol.mustJoin(session);
    await carol.mustSend(session, 'hello, who asks?');
    await bob.mustSend(session, 'tomorrow');
    expect(await ended).toMatchObject({ code: 0, out: 'tomorrow\n' });
  });

  it('reports a deadline only once, even if its timer is early', async () => {
    const schedule: Clock['schedule'] = (delayMs, ...rest) => systemClock.schedule(delayMs * 0.8, ...rest);
    const clock = { ...systemClock, schedule };
    const { code, err } = await stage.as(alice, ['ask', bob.handle, 'Deploy?', '--timeout', '1s'], { clock });
    expect(code).toBe(8);
    expect(err).toContain('no reply arrived in time');
    expect(err).not.toContain('To keep waiting');
  });

  it('--wait limits the wait for the answer, and the error names the command to keep waiting', async () => {
    const { code, err } = await stage.as(alice, ['ask', bob.handle, 'Deploy?', '--wait', '1s', '--json']);
    expect(code).toBe(8);
    const { error } = JSON.parse(err) as { error: { next: string[] } };
    expect(error).toMatchObject({ code: 'ASP_TIMEOUT', outcome: 'applied' });
    const [, ...next] = error.next;
    const [, , session = ''] = next;
    expect(await stateOf(session)).toBe('active');
    await bob.mustJoin(session);
    await bob.mustSend(session, 'late but here');
    expect(await stage.as(alice, next)).toMatchObject({ code: 0, out: 'late but here\n' });
  });

  it('--wait 0s only asks, and the command to keep waiting does wait', async () => {
    const { code, err } = await stage.as(alice, ['ask', bob.handle, 'Deploy?', '--wait', '0s', '--json']);
    expect(code).toBe(8);
    expect((JSON.parse(err) as { error: { next: string[] } }).error.next).not.toContain('--timeout');
  });

  it('asks once with the same --once, and prints the answer that came in between', async () => {
    const first = await ask('--once', 'deploy-1', '--choices', 'yes,no', '--wait', '1s');
    expect((await first.ended).code).toBe(8);
    await bob.mustSend(first.session, 'no');
    const again = ['ask', bob.handle, 'Deploy?', '--once', 'deploy-1', '--choices', 'yes,no', '--timeout', '20s'];
    expect(await stage.as(alice, again)).toMatchObject({ code: 0, out: 'no\n' });
    expect(((await bob.get('/sessions')).json as { sessions: unknown[] }).sessions).toHaveLength(1);
  });

  it.each([
    ['--choices yes', '--choices takes 2 to 10 choices.'],
    ['--choices yes,,no', "--choices: '' cannot be a choice."],
    ['--choices yes,YES', "--choices names 'YES' twice."],
    ['--choices yes,no\u200b', 'all of them visible.'],
    ['--expect yes', "--expect 'yes' is not one of the choices."],
    ['--choices yes,no --expect maybe', "--expect 'maybe' is not one of the choices."],
    ['-F note.txt', 'There is more than one question.'],
  ])('%s is refused before anything is sent', async (words, message) => {
    const { code, err } = await stage.as(alice, ['ask', bob.handle, 'Deploy?', ...words.split(' ')]);
    expect(code).toBe(2);
    expect(err).toContain(message);
    expect(((await bob.get('/sessions')).json as { sessions: unknown[] }).sessions).toHaveLength(0);
  });

  it('goes to one agent, and names the recipient if it comes last', async () => {
    expect((await stage.as(alice, ['ask', `${bob.handle},@carol.bot`, 'Deploy?'])).err).toContain(
      'A question goes to one agent.',
    );
    expect((await stage.as(alice, ['ask', 'Deploy?', bob.handle])).err).toContain(`asp ask ${bob.handle}`);
  });
});

describe('the choices of a question', () => {
  it('are shown wherever the message’s text is', async () => {
    const session = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(session);
    await say(session, 'Deploy?', { choices: ['yes', 'no'] }, alice);
    expect((await stage.as(bob, `message list ${session}`)).out).toContain('[choices: yes, no]');
    expect((await stage.as(bob, `inbox read ${session}`)).out).toContain('[choices: yes, no]');
  });

  it.each([[['only one']], [['', 'x']], ['yes,no'], [[1, 2]], [Array.from({ length: 11 }, (_, at) => `c${at}`)]])(
    'are not shown if they are invalid: %j',
    async (choices) => {
      const session = await alice.mustCreate({ invite: [bob.handle] });
      await bob.mustJoin(session);
      await say(session, 'Deploy?', { choices }, alice);
      expect((await stage.as(bob, `inbox read ${session}`)).out).not.toContain('[choices');
    },
  );
});
