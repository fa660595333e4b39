import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { checkContinues } from '../support/open-session.js';
import { documentOf, type Stage, startStage } from './acting.js';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => stage.stop());

let alice: Actor;
let bob: Actor;
beforeEach(async () => {
  [alice, bob] = await Promise.all([stage.service.createAgent('alice'), stage.service.createAgent('bob')]);
});

async function shared(...texts: string[]): Promise<string> {
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  for (const text of texts) await alice.mustSend(id, text);
  return id;
}
const asAlice = (words: readonly string[]) => stage.as(alice, words);

describe('A session named by the other agent', () => {
  it('works as @owner.name and owner.name, wherever a session id does', async () => {
    const id = await shared('hello');
    for (const name of [bob.handle, bob.handle.slice(1)]) {
      expect(documentOf(await asAlice(['session', 'show', name, '--json']))).toMatchObject({ id });
      expect((await asAlice(['message', 'list', name])).out).toMatch(/hello/);
      expect((await asAlice(['tail', name, '--no-follow', '--text'])).out).toBe('hello\n');
      expect((await asAlice(['session', 'export', name])).out).toMatch(/hello/);
      expect((await asAlice(['session', 'wait', name, '--for', 'joined', '--timeout', '5s'])).code).toBe(0);
      expect((await asAlice(['attachment', 'list', name])).code).toBe(0);
      expect((await asAlice(['message', 'search', 'hello', '--session', name])).out).toMatch(/hello/);
    }
    expect(documentOf(await asAlice(['session', 'end', bob.handle, '--json']))).toMatchObject({ session_id: id });
  });

  it('means the open session, not those that have ended', async () => {
    await alice.mustEnd(await shared());
    const open = await shared();
    expect(documentOf(await asAlice(['session', 'show', bob.handle, '--json']))).toMatchObject({ id: open });
  });

  it('means the ended session if none is open, and for reopening it', async () => {
    const ended = await shared();
    await alice.mustEnd(ended);
    expect(documentOf(await asAlice(['session', 'show', bob.handle, '--json']))).toMatchObject({ id: ended });
    await alice.mustCreate({ invite: [bob.handle] });
    expect(documentOf(await asAlice(['session', 'reopen', bob.handle, '--json']))).toMatchObject({ session_id: ended });
  });

  it('means the session of the two, not a group that both are in', async () => {
    const carol = await stage.service.createAgent('carol');
    const group = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    expect(documentOf(await asAlice(['session', 'show', bob.handle, '--json']))).toMatchObject({ id: group });
    const pair = await shared();
    expect(documentOf(await asAlice(['session', 'show', bob.handle, '--json']))).toMatchObject({ id: pair });
  });

  it('means the invitation for joining', async () => {
    await shared();
    const invitation = await alice.mustCreate({ invite: [bob.handle] });
    expect(documentOf(await stage.as(bob, ['session', 'join', alice.handle, '--json']))).toMatchObject({
      session_id: invitation,
    });
  });

  it('leaves out sessions that one of the two has left', async () => {
    const left = await shared();
    await bob.mustLeave(left);
    const open = await shared();
    expect(documentOf(await asAlice(['session', 'show', bob.handle, '--json']))).toMatchObject({ id: open });
  });

  it('is refused with the candidates when there are several', async () => {
    const ids = [await shared(), await shared()];
    const { code, err, out } = await asAlice(['session', 'end', bob.handle]);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(`You have 2 sessions with ${bob.handle}.`);
    // The latest comes first, with the time of its last change.
    const [older, newer] = ids;
    expect(err.replace(/\s+/g, ' ')).toContain(`${newer} (just now); ${older} (just now)`);
    expect(err).toContain(`try:  asp session list --with ${bob.handle}`);
  });

  it('is refused with the other participants of each group when there are only groups', async () => {
    const [carol, dave] = await Promise.all([stage.service.createAgent('carol'), stage.service.createAgent('dave')]);
    const older = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    const newer = await alice.mustCreate({ invite: [bob.handle, dave.handle], topic: ' launch ' });
    const { err } = await asAlice(['session', 'end', bob.handle]);
    const candidates = [
      `${newer} (${dave.handle} (invited), "launch", just now)`,
      `${older} (${carol.handle} (invited), just now)`,
    ];
    expect(err.replace(/\s+/g, ' ')).toContain(`use the id: ${candidates.join('; ')}.`);
  });

  it('gets an error if there is none', async () => {
    const { code, err } = await asAlice(['session', 'end', '@nobody.here']);
    expect(code).toBe(3);
    expect(err).toContain('You have no session with @nobody.here.');
    // To end a session, no one starts one first.
    expect(err).toContain('try:  asp session list\n');
  });

  it('means the open session of the two for asp send --continue, never a group', async () => {
    const carol = await stage.service.createAgent('carol');
    const group = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    const sentTo = async (): Promise<string> => {
      const { out } = await asAlice(['send', bob.handle, 'hi', '--continue', '--json']);
      return (JSON.parse(out) as { session_id: string }).session_id;
    };
    const started = await sentTo();
    expect(started).not.toBe(group);
    expect(await sentTo()).toBe(started);
    const other = await alice.mustCreate({ invite: [bob.handle] });
    const { code, err } = await asAlice(['send', bob.handle, 'hi', '--continue']);
    expect(code).toBe(2);
    for (const id of [started, other]) expect(err).toContain(id);
    for (const words of [
      ['--once', 'x'],
      ['--idempotency-key', 'x'],
    ])
      expect((await asAlice(['send', bob.handle, 'hi', '--continue', ...words])).code).toBe(2);
    expect((await asAlice(['send', started, 'hi', '--continue'])).code).toBe(2);
  });

  it('means for asp send --continue what it means for the tools of models', async () => {
    const [me, other, third] = await Promise.all(
      ['me', 'other', 'third'].map((name) => stage.service.createAgent(name)),
    );
    if (me === undefined || other === undefined || third === undefined) throw new Error('no agents');
    const send = async (): Promise<string> => {
      const { code, out, err } = await stage.as(me, ['send', other.handle, 'hi', '--continue', '--json']);
      if (code !== 0) throw new Error(err);
      return (JSON.parse(out) as { session_id: string }).session_id;
    };
    await checkContinues({ me, other, third, send });
    // A note to oneself has one participant.
    const note = async (): Promise<unknown> =>
      documentOf(await stage.as(me, ['send', me.handle, 'hi', '--continue', '--json']))['session_id'];
    expect(await note()).toBe(await note());
  });

  it('still starts a new session with asp send', async () => {
    const id = await shared();
    const { session_id: sent } = documentOf(await asAlice(['send', bob.handle, 'new', '--json']));
    expect(sent).not.toBe(id);
  });
});

describe('A session named by the end of its id', () => {
  it('works as asp tail --pretty shows it, and with three dots', async () => {
    const id = await shared();
    for (const name of [`…${id.slice(-6)}`, `...${id.slice(-6).toLowerCase()}`])
      expect(documentOf(await asAlice(['session', 'show', name, '--json']))).toMatchObject({ id });
    expect((await asAlice(['session', 'show', `…${id.slice(-3)}`])).code).toBe(2);
    const { code, err } = await asAlice(['session', 'show', '…0000000']);
    expect(code).toBe(3);
    expect(err).toContain('No session id ends with 0000000.');
  });
});

describe('A session named by the beginning of its id', () => {
  it('works in either case, even as shortened in tables', async () => {
    const id = await shared();
    for (const name of [id.slice(0, -3), id.slice(0, -3).toLowerCase(), `${id.slice(0, -3)}…`])
      expect(documentOf(await asAlice(['session', 'show', name, '--json']))).toMatchObject({ id });
    expect(documentOf(await asAlice(['send', id.slice(0, -3), 'hello', '--json']))).toMatchObject({ session_id: id });
  });

  it('is refused with the candidates if several match', async () => {
    const ids = [await shared(), await shared()];
    const { code, err } = await asAlice(['session', 'show', ids[0]?.slice(0, 9) ?? '']);
    expect(code).toBe(2);
    for (const id of ids) expect(err).toContain(id);
  });

  it('gets an error if there is none', async () => {
    const { code, err } = await asAlice(['session', 'show', 'sess_0000']);
    expect(code).toBe(3);
    expect(err).toContain('No session id begins with sess_0000.');
  });

  it('is expected where a word that names nothing stands', async () => {
    const { code, err } = await asAlice(['chat', 'bob']);
    expect(code).toBe(2);
    expect(err).toContain("'bob' is not a session.");
    expect(err).toContain('@owner.name');
  });

  it('may lack its sess_ if it is whole, as a double click in a terminal selects it', async () => {
    const id = await shared();
    const bare = id.slice('sess_'.length);
    for (const name of [bare, bare.toLowerCase()])
      expect(documentOf(await asAlice(['session', 'show', name, '--json']))).toMatchObject({ id });
    expect((await asAlice(['session', 'show', bare.slice(0, 20)])).err).toContain('is not a session.');
  });

  it.each(['sess_', 'sess_01', 'sess_!!!!', `sess_${'0'.repeat(27)}`])('%s is not valid', async (name) => {
    const { code, err } = await asAlice(['session', 'show', name]);
    expect(code).toBe(2);
    expect(err).toContain('is not a session id');
  });
});

describe('A session named by the address of its page', () => {
  it('works as pasted from the dashboard', async () => {
    const id = await shared();
    for (const tail of ['', '?after=3', '/events/2', '#end']) {
      const address = `${stage.service.webUrl}/dashboard/sessions/${id}${tail}`;
      expect(documentOf(await asAlice(['session', 'show', address, '--json']))).toMatchObject({ id });
    }
    const address = `${stage.service.webUrl}/dashboard/sessions/${id}`;
    expect(documentOf(await asAlice(['send', address, 'hello', '--json']))).toMatchObject({ session_id: id });
  });

  it('is refused if the address is of something else', async () => {
    const { code, err } = await asAlice(['session', 'show', `${stage.service.webUrl}/dashboard/agents`]);
    expect(code).toBe(2);
    expect(err).toContain('is not the address of a session');
  });
});

describe('asp session list', () => {
  const idsOf = async (words: string): Promise<unknown[]> => {
    const { items } = documentOf(await stage.as(bob, `session list --json ${words}`)) as { items: { id: string }[] };
    return items.map(({ id }) => id);
  };

  it('--state invited lists what the agent is invited to and has not joined', async () => {
    await shared();
    const invitations = [
      await alice.mustCreate({ invite: [bob.handle] }),
      await alice.mustCreate({ invite: [bob.handle] }),
    ];
    await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'bye' }, end_after_send: true });
    expect(await idsOf('--state invited')).toEqual(invitations.reverse());
  });

  it('names the others in each session, and not the agent itself', async () => {
    const id = await alice.mustCreate({ invite: [bob.handle] });
    const { out } = await stage.as(bob, 'session list');
    expect(out).toMatch(new RegExp(`^${id}\tactive\t\t${alice.handle}\t`, 'm'));
  });

  it('--with lists the sessions that an agent is in', async () => {
    const carol = await stage.service.createAgent('carol');
    await shared();
    const group = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    expect(await idsOf(`--with ${carol.handle}`)).toEqual([group]);
  });

  it('pages through what matches, each session once', async () => {
    const invitations: string[] = [];
    for (let at = 0; at < 5; at += 1) {
      invitations.unshift(await alice.mustCreate({ invite: [bob.handle] }));
      await shared();
    }
    const seen: unknown[] = [];
    let cursor = '';
    do {
      const words = `session list --state invited --limit 2 --json ${cursor === '' ? '' : `--cursor ${cursor}`}`;
      const page = documentOf(await stage.as(bob, words)) as { items: { id: string }[]; next_cursor: string | null };
      expect(page.items.length).toBeLessThanOrEqual(2);
      seen.push(...page.items.map(({ id }) => id));
      cursor = page.next_cursor ?? '';
    } while (cursor !== '');
    expect(seen).toEqual(invitations);
  });
});
