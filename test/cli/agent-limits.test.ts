import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { createTestClock } from '../support/clock.js';
import { startTestService, type TestService } from '../support/service.js';
import { optionsAs } from './acting.js';
import { freshHome, type Ran, runWords } from './captured-run.js';

const HOUR_MS = 60 * 60_000;

describe('what a coding agent sends', () => {
  let service: TestService;
  let alice: Actor;
  let bob: Actor;

  beforeAll(async () => {
    service = await startTestService({ areLimitsOn: false });
    [alice, bob] = await Promise.all([service.createAgent('alice'), service.createAgent('bob')]);
  });
  afterAll(() => service.stop());

  const openSession = async (): Promise<string> => {
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    return id;
  };
  const runsAs = (actor: Actor, environment: Readonly<Record<string, string>>, clock = createTestClock()) => {
    const options = optionsAs(service, actor, freshHome());
    return (words: readonly string[], stdin?: string): Promise<Ran> =>
      runWords(words, {
        ...options,
        clock,
        environment: { ...options.environment, ...environment },
        ...(stdin !== undefined && { stdin }),
      });
  };

  it.each(['send', 'reply'])('with asp %s stops at 20 messages in a session until a person writes', async (command) => {
    const id = await openSession();
    const run = runsAs(bob, { CLAUDECODE: '1' });
    let said = 0;
    const answer = async (): Promise<Ran> => {
      said += 1;
      await alice.mustSend(id, `question ${said}`);
      return run([command, id, `answer ${said}`]);
    };
    for (let sent = 0; sent < 20; sent += 1) expect((await answer()).err).not.toContain('error');
    const { code, err } = await answer();
    expect(code).toBe(11);
    expect(err).toContain(`Nothing was sent to ${id}: the limit max_replies for a coding agent is reached.`);
    expect(err).toContain('Stop here and tell the person you work for. To continue, someone of the same owner');
    const sister = await service.createAgent('sister', { owner: bob.owner });
    await alice.post(`/sessions/${id}/invite`, { invite: [sister.handle] });
    await sister.mustJoin(id);
    await sister.mustSend(id, 'go on', { sent_by: 'chat' });
    expect((await answer()).code).toBe(0);
  });

  it('can be repeated at a limit with the same key, because nothing is sent twice', async () => {
    const id = await openSession();
    const run = runsAs(bob, {});
    let sent = 0;
    const answer = async (): Promise<Ran> => {
      sent += 1;
      return run(['reply', '--for-agent', id, `answer ${sent}`, '--once', `answer-${sent}`]);
    };
    await alice.mustSend(id, 'question');
    while (sent < 20) expect(await answer()).toMatchObject({ code: 0 });
    expect((await answer()).code).toBe(11);
    sent -= 2;
    expect(await answer()).toMatchObject({ code: 0 });
  });

  it('is not limited in a session in which no one answers', async () => {
    const id = await openSession();
    const run = runsAs(bob, { CLAUDECODE: '1' });
    for (let sent = 0; sent < 25; sent += 1) expect((await run(['send', id, `step ${sent}`])).code).toBe(0);
    await alice.mustSend(id, 'why?');
    expect((await run(['send', id, 'because'])).code).toBe(11);
  });

  it('has an hourly limit over all sessions, across commands', async () => {
    const clock = createTestClock();
    const run = runsAs(bob, { CLAUDECODE: '1' }, clock);
    const answered = await openSession();
    await alice.mustSend(answered, 'question');
    const answer = ['reply', '--for-agent', answered, 'answer', '--once', 'answer'];
    expect((await run(answer)).code).toBe(0);
    for (let sent = 1; sent < 200; sent += 1)
      expect((await run(['send', alice.handle, 'hello', '--end'])).code).toBe(0);
    // The service has it already, and sends nothing twice.
    expect((await run(answer)).code).toBe(0);
    for (const words of [
      ['send', alice.handle, 'hello'],
      ['ask', alice.handle, 'hello?'],
      ['send', await openSession(), 'hello'],
    ]) {
      const { code, err } = await run(words);
      expect({ code, err }).toMatchObject({ code: 11 });
      expect(err).toContain('the limit max_replies_per_hour for a coding agent is reached.');
      expect(err).toContain('The count falls within an hour.');
    }
    const session = await openSession();
    await alice.mustSend(session, 'and now?');
    expect((await run(['reply', '--for-agent', session, 'wait'])).code).toBe(11);
    clock.advance(HOUR_MS);
    expect((await run(['send', alice.handle, 'hello', '--end'])).code).toBe(0);
  });

  it('also counts if it begins or reopens a session with a message', async () => {
    const run = runsAs(bob, { CLAUDECODE: '1' });
    const ended = await openSession();
    await bob.post(`/sessions/${ended}/end`);
    for (let sent = 0; sent < 200; sent += 1)
      expect((await run(['session', 'create', alice.handle, '-m', 'hello'])).code).toBe(0);
    for (const words of [
      ['send', alice.handle, 'hello'],
      ['session', 'create', alice.handle, '-m', 'hello'],
      ['session', 'reopen', ended, '-m', 'hello'],
    ]) {
      const { code, err } = await run(words);
      expect({ code, err }).toMatchObject({ code: 11 });
      expect(err).toContain('the limit max_replies_per_hour for a coding agent is reached.');
    }
    expect((await run(['session', 'create', alice.handle])).code).toBe(0);
    expect((await run(['session', 'reopen', ended])).code).toBe(0);
  });

  it('counts the lines of --lines as one message, because a program writes them', async () => {
    const run = runsAs(bob, { CLAUDECODE: '1' });
    const lines = Array.from({ length: 205 }, (_, at) => `line ${at}\n`).join('');
    expect((await run(['send', alice.handle, '--lines'], lines)).code).toBe(0);
    expect((await run(['send', alice.handle, 'hello'])).code).toBe(0);
  });

  it('is not limited for a person or a script of a person', async () => {
    const id = await openSession();
    const run = runsAs(bob, {});
    for (let sent = 0; sent < 22; sent += 1) {
      await alice.mustSend(id, `question ${sent}`);
      expect((await run(['send', id, `answer ${sent}`])).code).toBe(0);
    }
    for (let sent = 0; sent < 200; sent += 1)
      expect((await run(['send', alice.handle, 'hello', '--end'])).code).toBe(0);
  });
});
