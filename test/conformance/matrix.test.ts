import { expect } from 'vitest';

import { type Actor, callApi } from '../support/actors.js';
import { codeOf } from '../support/answers.js';
import { AGENT_SCOPE } from '../support/oauth.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// Who may do what: every role, reached through real calls, times every verb, every session state, and every token. The
// model below computes the expected results from the specification's States table alone.

const service = useService();

const ROLES = ['none', 'creator', 'joined', 'invited', 'left', 'creator who left', 'invited again'] as const;
const STATES = ['active', 'ended', 'reopened'] as const;
type Role = (typeof ROLES)[number];
type State = (typeof STATES)[number];
type Status = 'none' | 'invited' | 'joined' | 'left';

interface Verb {
  readonly name: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: unknown;
  readonly scope: 'sessions:read' | 'sessions:write';
  readonly success: number;
  readonly isAllowed: (status: Status, state: 'active' | 'ended') => boolean;
}

const isThere = (status: Status): boolean => status !== 'none';
const isJoinedAndActive = (status: Status, state: string): boolean => status === 'joined' && state === 'active';

const write = { method: 'POST', scope: 'sessions:write', success: 200 } as const;
const read = { method: 'GET', scope: 'sessions:read', success: 200, isAllowed: isThere } as const;
const VERBS: readonly Verb[] = [
  { name: 'read', path: '', ...read },
  { name: 'events', path: '/events', ...read },
  { name: 'delivery', path: '/delivery?sequence=2', ...read, isAllowed: (status) => status === 'joined' },
  {
    name: 'taken',
    path: '/taken',
    body: { sequences: [2] },
    ...write,
    isAllowed: (status) => status === 'joined',
  },
  {
    name: 'unanswered',
    path: '/unanswered',
    body: { sequence: 2, reason: 'failed' },
    ...write,
    success: 204,
    isAllowed: (status) => status === 'joined',
  },
  {
    name: 'claim',
    path: '/claim',
    body: { worker: 'one', event_id: 'evt_00000000000000000000000000', sequence: 2, lease_ms: 1_000 },
    ...write,
    isAllowed: read.isAllowed,
  },
  {
    name: 'join',
    path: '/join',
    ...write,
    isAllowed: (status, state) => state === 'active' && (status === 'invited' || status === 'joined'),
  },
  { name: 'invite', path: '/invite', body: { invite: ['@no.body'] }, ...write, isAllowed: isJoinedAndActive },
  { name: 'messages', path: '/messages', body: { content: 'x' }, ...write, success: 201, isAllowed: isJoinedAndActive },
  { name: 'leave', path: '/leave', ...write, isAllowed: (status) => status === 'joined' },
  { name: 'end', path: '/end', ...write, isAllowed: isJoinedAndActive },
  { name: 'reopen', path: '/reopen', ...write, isAllowed: (status, state) => status === 'joined' && state === 'ended' },
];

/** If someone else reopens the session, all earlier participants are invited again. */
function statusOf(role: Role, state: State): Status {
  if (role === 'none') return 'none';
  if (state === 'reopened') return 'invited';
  if (role === 'creator' || role === 'joined') return 'joined';
  return role === 'left' || role === 'creator who left' ? 'left' : 'invited';
}

/** Creates a session in this state in which `actor` has this role. */
async function stage(actor: Actor, host: Actor, role: Role, state: State): Promise<string> {
  const isCreator = role === 'creator' || role === 'creator who left';
  const [creator, guest] = isCreator ? [actor, host] : [host, actor];
  const invite = role === 'none' ? [] : [guest.handle];
  const id = await creator.mustCreate({ invite, initial_message: { content: 'x' } });
  if (role !== 'none' && role !== 'invited') await guest.mustJoin(id);
  if (role === 'creator who left' || role === 'left') await actor.mustLeave(id);
  if (role === 'invited again') {
    await actor.mustLeave(id);
    await host.mustInvite(id, actor.handle);
  }
  if (state !== 'active') await host.mustEnd(id);
  if (state === 'reopened') await host.mustReopen(id);
  return id;
}

function perform(id: string, verb: Verb, token: string | undefined) {
  return callApi(service.place.baseUrl, token, verb.method, `/sessions/${id}${verb.path}`, verb.body);
}

/** The answer to every wrong token, whatever the role. The service checks the token before it looks at the session. */
async function wrongTokens(actor: Actor, verb: Verb): Promise<readonly (readonly [string | undefined, string])[]> {
  const others = AGENT_SCOPE.filter((scope) => scope !== verb.scope);
  const tokens = await Promise.all(others.map((scope) => actor.token('api', [scope])));
  return [
    [undefined, '401 UNAUTHORIZED'],
    [await actor.token('ws'), '401 UNAUTHORIZED'],
    ...tokens.map((token) => [token, '403 INSUFFICIENT_SCOPE'] as const),
  ];
}

async function mustHold(role: Role, state: State): Promise<number> {
  const { actor, host } = await service.actors('actor', 'host');
  const shared = await stage(actor, host, role, state);
  const before = await host.mustReplay(shared);
  let cells = 0;
  for (const verb of VERBS) {
    for (const [token, due] of await wrongTokens(actor, verb)) {
      const answer = await perform(shared, verb, token);
      expect([role, state, verb.name, `${answer.status} ${codeOf(answer)}`]).toEqual([role, state, verb.name, due]);
      cells += 1;
    }
    const isAllowed = verb.isAllowed(statusOf(role, state), state === 'ended' ? 'ended' : 'active');
    const id = isAllowed ? await stage(actor, host, role, state) : shared;
    const answer = await perform(id, verb, await actor.token('api', [verb.scope]));
    const got = isAllowed ? String(answer.status) : `${answer.status} ${codeOf(answer)}`;
    const due = isAllowed ? String(verb.success) : '404 NOT_FOUND';
    expect([role, state, verb.name, got]).toEqual([role, state, verb.name, due]);
    cells += 1;
  }
  expect(await host.mustReplay(shared)).toEqual(before);
  return cells;
}

for (const role of ROLES) {
  rule(
    ['spec/States/rule-1', 'spec/States/rule-2', 'spec/States/rule-3'],
    `${role}: every verb in every state with every token follows the States table`,
    async () => {
      let cells = 0;
      for (const state of STATES) cells += await mustHold(role, state);
      expect(cells).toBe(STATES.length * VERBS.length * 8);
    },
  );
}

rule('spec/States/reopen', 'an agent that was joined at the end may reopen even after it left', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await alice.mustEnd(id);
  await bob.mustLeave(id);
  await bob.mustReopen(id);
  await bob.mustSend(id, 'again');
});

rule('spec/States/reopen', 'it is the last end that counts', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await alice.mustEnd(id);
  await alice.mustReopen(id);
  await alice.mustEnd(id);
  expect((await bob.post(`/sessions/${id}/reopen`)).status).toBe(404);
  await alice.mustReopen(id);
});
