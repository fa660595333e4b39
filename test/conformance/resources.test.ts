import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, keysOf, list } from '../support/json.js';
import { claimsOf } from '../support/oauth.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Resources and their fields": each table lists exactly these fields and no others.

const service = useService();
const ULID = '[0-7][0-9A-HJKMNP-TV-Z]{25}';

function mustBeRecent(time: unknown): void {
  expect(time).toSatisfy(Number.isInteger);
  expect(Math.abs(Number(time) - Date.now())).toBeLessThan(120_000);
}

rule(
  ['spec/Handle/form', 'wire/Common/handle', 'spec/Errors/INVALID_HANDLE', 'spec/Service/rule-3'],
  'anything that is not @owner.agent_name in a handle position is INVALID_HANDLE',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const bad = [
      'alice.bot',
      '@alice',
      '@alice.',
      '@.bot',
      '@a.b.c',
      '@Alice.bot',
      '@alice.bót',
      ' @alice.bot',
      '@a.b ',
      '',
      '@аlice.bot',
    ];
    for (const handle of bad) {
      mustDeny(await alice.post('/sessions', { invite: [handle] }), 400, 'INVALID_HANDLE');
      mustDeny(await alice.post(`/sessions/${id}/invite`, { invite: [handle] }), 400, 'INVALID_HANDLE');
      mustDeny(await alice.post('/blocks', { handle }), 400, 'INVALID_HANDLE');
    }
    for (const notText of [1, null, {}, ['@a.b']])
      mustDeny(await alice.post('/sessions', { invite: [notText] }), 400, 'INVALID_HANDLE');
    mustDeny(await alice.post('/sessions', { invite: '@a.b' }), 400, 'VALIDATION_ERROR');
    expect(await alice.mustInvite(id, '@a-b_c.9-_x')).toEqual([]);
  },
);

rule('spec/Handle/form', 'a very long handle is refused quickly', async () => {
  const alice = await service.actor('alice');
  const started = performance.now();
  mustDeny(await alice.post('/sessions', { invite: [`@${'a'.repeat(100_000)}.b`] }), 400, 'INVALID_HANDLE');
  expect(performance.now() - started).toBeLessThan(2_000);
});

rule(
  [
    'spec/Session/id',
    'spec/Session/state',
    'spec/Session/topic',
    'spec/Session/participants',
    'spec/Session/created_at',
    'spec/Session/ended_at',
    'spec/Participant/handle',
    'spec/Participant/status',
    'spec/Participant/joined_at',
    'spec/Participant/left_at',
    'wire/Common/null',
    'wire/Common/time',
  ],
  'a session and its participants have exactly these fields, null if empty',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    const active = await alice.mustRead(id);
    expect(keysOf(active)).toEqual(['created_at', 'ended_at', 'id', 'participants', 'state', 'topic']);
    expect(active).toMatchObject({ id, state: 'active', topic: null, ended_at: null });
    mustBeRecent(field(active, 'created_at'));
    for (const row of list(active, 'participants'))
      expect(keysOf(row)).toEqual(['handle', 'joined_at', 'left_at', 'status']);
    expect(field(active, 'participants.1')).toEqual({
      handle: bob.handle,
      status: 'invited',
      joined_at: null,
      left_at: null,
    });
    await bob.mustJoin(id);
    await bob.mustLeave(id);
    await alice.mustEnd(id);
    const ended = await alice.mustRead(id);
    expect(field(ended, 'state')).toBe('ended');
    for (const path of ['ended_at', 'participants.0.joined_at', 'participants.1.joined_at', 'participants.1.left_at'])
      mustBeRecent(field(ended, path));
  },
);

rule(
  [
    'spec/Envelope/type',
    'spec/Envelope/session_id',
    'spec/Envelope/event_id',
    'spec/Envelope/sequence',
    'spec/Envelope/created_at',
    'spec/Envelope/payload',
  ],
  'an envelope has exactly these fields',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'x' } });
    const events = await alice.mustReplay(id);
    expect(events).toHaveLength(2);
    for (const [index, event] of events.entries()) {
      expect(keysOf(event)).toEqual(['created_at', 'event_id', 'payload', 'sequence', 'session_id', 'type']);
      expect(event).toMatchObject({ session_id: id, sequence: index + 1, payload: expect.any(Object) });
      expect(field(event, 'event_id')).toMatch(new RegExp(`^evt_${ULID}$`));
      mustBeRecent(field(event, 'created_at'));
    }
    mustBeRecent(field(events[1], 'payload.created_at'));
  },
);

rule(['spec/Service/rule-8', 'wire/Common/ids'], 'ids consist of their prefix and an uppercase ULID', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const message = await alice.mustSend(id, 'x');
  const [event] = await alice.mustReplay(id);
  const me = mustSucceed(await alice.get('/agents/me'));
  const claims = claimsOf(await alice.token());
  const found: readonly (readonly [string, unknown])[] = [
    ['sess', id],
    ['msg', message.id],
    ['evt', field(event, 'event_id')],
    ['att', await alice.mustUpload()],
    ['agt', field(me, 'id')],
    ['acct', field(me, 'owner_id')],
    ['acct', field(claims, 'sub')],
    ['oac', field(claims, 'azp')],
  ];
  for (const [prefix, value] of found) expect(value).toMatch(new RegExp(`^${prefix}_${ULID}$`));
});

rule(
  [
    'spec/Claims/iss',
    'spec/Claims/sub',
    'spec/Claims/agent_id',
    'spec/Claims/azp',
    'spec/Claims/scope',
    'spec/Claims/aud',
    'spec/Claims/iat',
    'spec/Claims/exp',
    'spec/Claims/token_type',
    'wire/OAuth/claims',
    'spec/Constants/access-token',
  ],
  'an access token has its agent, client, scopes, resource, and expiry',
  async () => {
    const alice = await service.actor('alice');
    const me = mustSucceed(await alice.get('/agents/me'));
    const claims = claimsOf(await alice.token('api', ['agents:read', 'sessions:read']));
    expect(claims).toMatchObject({
      iss: service.place.issuer,
      sub: field(me, 'owner_id'),
      agent_id: field(me, 'id'),
      azp: alice.credentials.clientId,
      scope: 'agents:read sessions:read',
      aud: service.place.baseUrl,
      token_type: 'access',
    });
    expect(Math.abs(Number(field(claims, 'iat')) - Date.now() / 1000)).toBeLessThan(60);
    expect(Number(field(claims, 'exp')) - Number(field(claims, 'iat'))).toBe(900);
  },
);
