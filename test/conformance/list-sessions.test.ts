import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, keysOf, list, text } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "GET /sessions" and "GET /sessions/{session_id}".

const service = useService();
const idsOf = (json: unknown): unknown[] => list(json, 'sessions').map((session) => field(session, 'id'));

rule(
  ['wire/Sessions/GET-sessions', 'spec/GET-sessions/next_cursor', 'wire/Common/lists'],
  'the answer has sessions and next_cursor, last changed first',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const [first, second] = [await alice.mustCreate({ topic: 'one' }), await alice.mustCreate({ topic: 'two' })];
    const json = mustSucceed(await alice.get('/sessions'));
    expect(keysOf(json)).toEqual(['next_cursor', 'sessions']);
    expect(field(json, 'next_cursor')).toBeNull();
    expect(idsOf(json)).toEqual([second, first]);
    await alice.mustSend(first, 'newer');
    expect(idsOf((await alice.get('/sessions')).json)).toEqual([first, second]);
    await alice.mustInvite(second, bob.handle);
    expect(idsOf((await alice.get('/sessions')).json)).toEqual([second, first]);
    const read = (await alice.mustRead(first)) as object;
    expect(list((await alice.get('/sessions')).json, 'sessions')[1]).toEqual({
      ...read,
      last_sequence: 1,
      last_activity_at: expect.any(Number),
    });
  },
);

rule('wire/Sessions/GET-sessions', 'each session has the time of its last change that the caller may see', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
  await bob.mustJoin(id);
  await bob.mustLeave(id);
  const timeFor = async (actor: typeof alice): Promise<unknown> =>
    field(list((await actor.get('/sessions')).json, 'sessions')[0], 'last_activity_at');
  const before = await Promise.all([bob, carol].map(timeFor));
  expect(before).toEqual([expect.any(Number), expect.any(Number)]);
  await alice.mustSend(id, 'neither of the others may see this');
  expect(await Promise.all([bob, carol].map(timeFor))).toEqual(before);
  const { json } = await alice.get(`/sessions/${id}/events`);
  expect(await timeFor(alice)).toBe(field(list(json, 'events').at(-1), 'created_at'));
});

rule('wire/Sessions/GET-sessions', 'the list has all sessions that the agent is in or has left', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const invited = await alice.mustCreate({ invite: [bob.handle] });
  const left = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(left);
  await bob.mustLeave(left);
  const own = await bob.mustCreate();
  expect(idsOf((await bob.get('/sessions')).json).sort()).toEqual([invited, left, own].sort());
  expect(idsOf((await carol.get('/sessions')).json)).toEqual([]);
});

rule('spec/GET-sessions/state', 'the filter is only active or ended', async () => {
  const alice = await service.actor('alice');
  const active = await alice.mustCreate();
  const ended = await alice.mustCreate();
  await alice.mustEnd(ended);
  expect(idsOf((await alice.get('/sessions?state=active')).json)).toEqual([active]);
  expect(idsOf((await alice.get('/sessions?state=ended')).json)).toEqual([ended]);
  for (const state of ['', 'Active', 'joined', 'active,ended'])
    mustDeny(await alice.get(`/sessions?state=${state}`), 400, 'VALIDATION_ERROR');
});

rule(['spec/GET-sessions/limit', 'spec/Constants/list-limit'], 'the limit is 1 to 100, by default 50', async () => {
  const alice = await service.actor('alice');
  for (let count = 0; count < 51; count += 1) await alice.mustCreate();
  expect(idsOf((await alice.get('/sessions')).json)).toHaveLength(50);
  expect(idsOf((await alice.get('/sessions?limit=1')).json)).toHaveLength(1);
  expect(idsOf((await alice.get('/sessions?limit=100')).json)).toHaveLength(51);
  for (const limit of ['0', '101', '-1', '1.5', '1e1', 'x', '', '%20'])
    mustDeny(await alice.get(`/sessions?limit=${limit}`), 400, 'VALIDATION_ERROR');
});

rule('spec/GET-sessions/cursor', 'following next_cursor visits every session once', async () => {
  const alice = await service.actor('alice');
  const made: string[] = [];
  for (let count = 0; count < 7; count += 1) made.unshift(await alice.mustCreate());
  const seen: unknown[] = [];
  let cursor: unknown = '';
  while (cursor !== null) {
    const query = cursor === '' ? '' : `&cursor=${encodeURIComponent(String(cursor))}`;
    const { json } = await alice.get(`/sessions?limit=3${query}`);
    seen.push(...idsOf(json));
    cursor = field(json, 'next_cursor');
  }
  expect(seen).toEqual(made);
});

rule(['wire/Common/lists', 'spec/Errors/VALIDATION_ERROR'], 'a malformed cursor is 400', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  await alice.mustCreate();
  await alice.mustCreate();
  const cursor = text((await alice.get('/sessions?limit=1')).json, 'next_cursor');
  for (const bad of ['x', '', '-1', '1e300', "' OR 1=1 --", `${cursor}x`, cursor.slice(1), '%00', 'A'.repeat(5000)])
    mustDeny(await alice.get(`/sessions?cursor=${encodeURIComponent(bad)}`), 400, 'VALIDATION_ERROR');
  // A cursor carries no authority. It does not show another agent its owner's sessions.
  const other = await bob.get(`/sessions?cursor=${encodeURIComponent(cursor)}`);
  if (other.status === 200) expect(idsOf(other.json)).toEqual([]);
  else mustDeny(other, 400, 'VALIDATION_ERROR');
});

rule(
  ['spec/GET-session/participant', 'wire/Sessions/GET-session'],
  'the answer is the bare Session, only for current and former participants',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    expect(field(mustSucceed(await bob.get(`/sessions/${id}`)), 'id')).toBe(id);
    await bob.mustJoin(id);
    await bob.mustLeave(id);
    expect(field(mustSucceed(await bob.get(`/sessions/${id}`)), 'id')).toBe(id);
    mustDeny(await carol.get(`/sessions/${id}`), 404, 'NOT_FOUND');
  },
);
