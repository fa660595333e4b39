import { describe, expect, it } from 'vitest';

import type { Context } from '../../src/cli/context/context.js';
import { openRelations } from '../../src/cli/context/relations.js';
import { type Clock, systemClock } from '../../src/kit/clock.js';
import { documentOf, optionsAs, startStage } from './acting.js';
import { freshHome, runWords } from './captured-run.js';

/** Relations of @bob.bot at a service whose allowlist is read by `call`. */
const relationsWith = (call: () => Promise<unknown>, clock: Clock = systemClock) =>
  openRelations({
    clock,
    signal: new AbortController().signal,
    output: { note: async () => {} },
    client: async () => ({ call }),
    actingHandle: async () => '@bob.bot',
  } as unknown as Context);

const REPLY = { status: 200, reply: { entries: ['@alice.*'] } };

describe('The relation of a sender', () => {
  it('is that of a stranger while the allowlist cannot be read, and is found as soon as it can', async () => {
    let isDown = true;
    const due: (() => void)[] = [];
    const schedule: Clock['schedule'] = (_delayMs, run) => {
      due.push(run);
      return () => {};
    };
    const answer = () => (isDown ? new Promise(() => {}) : Promise.resolve(REPLY));
    const relationOf = relationsWith(answer, { ...systemClock, schedule });
    const relation = relationOf('@alice.bot');
    await expect.poll(() => due).toHaveLength(1);
    due[0]?.();
    expect(await relation).toBe('anyone');
    isDown = false;
    expect(await relationOf('@alice.bot')).toBe('on your allowlist');
  });

  it('is that of a stranger if reading the allowlist fails', async () => {
    const relationOf = relationsWith(() => Promise.reject(new Error('broken')));
    expect(await relationOf('@alice.bot')).toBe('anyone');
  });

  it('of an agent of the same owner needs no allowlist', async () => {
    const relationOf = relationsWith(() => Promise.reject(new Error('broken')));
    expect(await relationOf('@bob.other')).toBe('same owner');
  });
});

describe('The JSON of other agents’ words', () => {
  it('names the relation of each author, with one request for all', async () => {
    const stage = await startStage();
    const { service, alice, bob } = stage;
    const sister = await service.createAgent('sister', { owner: bob.owner });
    const friend = await service.createAgent('friend');
    await bob.post(`/agents/${bob.owner}/${bob.name}/allowlist`, { entries: [alice.handle] });
    const id = await alice.mustCreate({ invite: [bob.handle, sister.handle, friend.handle] });
    for (const one of [bob, sister, friend]) await one.mustJoin(id);
    for (const one of [bob, alice, sister, friend]) await one.mustSend(id, 'hello');
    const run = async (words: string) => runWords(words, optionsAs(service, bob, home));
    const home = freshHome();
    const listed = await run(`message list ${id} --json --debug`);
    const relations = ({ items = [], messages = items }: { items?: unknown; messages?: unknown }) =>
      (messages as { asp: unknown }[]).map(({ asp }) => asp);
    expect(relations(documentOf(listed))).toEqual([
      { relation: 'you' },
      { relation: 'on your allowlist' },
      { relation: 'same owner' },
      { relation: 'anyone' },
    ]);
    expect(listed.err.match(/GET \S*allowlist/g)).toHaveLength(1);
    expect(relations(documentOf(await run('inbox --json')))).toEqual([{ relation: 'anyone' }]);
    const { out } = await run('inbox --jsonl');
    expect(JSON.parse(out).asp).toEqual({ relation: 'anyone' });
    expect(relations(documentOf(await run(`inbox read ${id} --json`)))).toEqual([
      { relation: 'on your allowlist' },
      { relation: 'same owner' },
      { relation: 'anyone' },
    ]);
    const plain = await run(`message list ${id} --debug`);
    expect(plain.err).not.toMatch(/GET \S*allowlist/);
    await stage.stop();
  });
});
