import { randomUUID } from 'node:crypto';

import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { rawRequest, withoutRequestIdentity } from '../support/raw-http.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Non-enumeration rules" (ASP section 6.2). These tests compare answers as raw bytes from the
// socket: status line, header names with their order and case, lengths, and body. Only the date and the request id may
// differ.

const service = useService();
const MISSING = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';

async function rawCall(actor: Actor, method: string, path: string, body?: unknown): Promise<string> {
  const sent = body === undefined ? '' : JSON.stringify(body);
  const answer = await rawRequest(
    `${service.place.baseUrl}${path}`,
    method,
    {
      authorization: `Bearer ${await actor.token()}`,
      ...(method === 'GET' ? {} : { 'idempotency-key': randomUUID() }),
      ...(sent === '' ? {} : { 'content-type': 'application/json' }),
    },
    sent,
  );
  return withoutRequestIdentity(answer);
}

/** Creates alice's session, and an agent for every relation to it that has something denied. */
async function cast() {
  const { alice, invited, left, stranger } = await service.actors('alice', 'invited', 'left', 'stranger');
  const id = await alice.mustCreate({ invite: [invited.handle, left.handle] });
  await left.mustJoin(id);
  await left.mustLeave(id);
  return { alice, invited, left, stranger, id };
}

rule(
  ['spec/Non-enumeration/rule-2', 'wire/Common/envelope', 'spec/Errors/NOT_FOUND'],
  'every ineligible call equals the same call on a missing session, byte for byte',
  async () => {
    const { alice, invited, left, stranger, id } = await cast();
    const bodies: Readonly<Record<string, unknown>> = {
      messages: { content: 'x' },
      invite: { invite: [stranger.handle] },
    };
    const denied: readonly (readonly [Actor, readonly string[]])[] = [
      [stranger, ['join', 'invite', 'messages', 'leave', 'end', 'reopen']],
      [invited, ['invite', 'messages', 'leave', 'end', 'reopen']],
      [left, ['join', 'invite', 'messages', 'leave', 'end', 'reopen']],
      [alice, ['reopen']],
    ];
    for (const [actor, verbs] of denied) {
      for (const verb of verbs) {
        const here = await rawCall(actor, 'POST', `/sessions/${id}/${verb}`, bodies[verb]);
        const nowhere = await rawCall(actor, 'POST', `/sessions/${MISSING}/${verb}`, bodies[verb]);
        expect(here).toMatch(/^HTTP\/1\.1 404 /);
        expect(here, `${actor.handle} ${verb}`).toBe(nowhere);
      }
    }
    for (const path of ['', '/events', '/events?after_sequence=3&limit=1'])
      expect(await rawCall(stranger, 'GET', `/sessions/${id}${path}`)).toBe(
        await rawCall(stranger, 'GET', `/sessions/${MISSING}${path}`),
      );
  },
);

rule('spec/Non-enumeration/rule-2', 'the same holds for calls on an ended session', async () => {
  const { alice, invited, left, stranger, id } = await cast();
  await alice.mustEnd(id);
  const bodies: Readonly<Record<string, unknown>> = {
    messages: { content: 'x' },
    invite: { invite: [stranger.handle] },
  };
  // A participant who was joined at the end may still leave or reopen.
  for (const actor of [alice, invited, left, stranger])
    for (const verb of ['join', 'invite', 'messages', 'end', ...(actor === alice ? [] : ['leave', 'reopen'])])
      expect(await rawCall(actor, 'POST', `/sessions/${id}/${verb}`, bodies[verb]), verb).toBe(
        await rawCall(actor, 'POST', `/sessions/${MISSING}/${verb}`, bodies[verb]),
      );
});

rule('wire/Common/envelope', 'a malformed body or id reveals nothing about the session either', async () => {
  const { stranger, id } = await cast();
  for (const body of [{ content: '' }, { content: 'x', extra: 1 }, []])
    expect(await rawCall(stranger, 'POST', `/sessions/${id}/messages`, body)).toBe(
      await rawCall(stranger, 'POST', `/sessions/${MISSING}/messages`, body),
    );
  const odd = ['x', 'sess_', 'sess_x', `${MISSING}x`, MISSING.toLowerCase(), '%00', '..%2f..'];
  for (const bad of odd) mustDeny(await stranger.get(`/sessions/${bad}`), 404, 'NOT_FOUND');
});

rule(
  ['spec/Non-enumeration/rule-1', 'spec/Non-enumeration/rule-4', 'spec/Service/rule-4'],
  'a create for an unknown, blocking, blocked, closed or paused handle gets the same answer, byte for byte',
  async () => {
    const { alice, blocking, blocked, paused } = await service.actors('alice', 'blocking', 'blocked', 'paused');
    const closed = await service.actor('closed', { policy: 'allowlist' });
    const holding = await service.actor('holding', { policy: 'hold' });
    mustSucceed(await blocking.post('/blocks', { handle: alice.handle }), 201);
    mustSucceed(await alice.post('/blocks', { handle: blocked.handle }), 201);
    await service.pause(paused);
    const unknown = await rawCall(alice, 'POST', '/sessions', { invite: ['@no.body'] });
    expect(unknown).toMatch(/^HTTP\/1\.1 404 /);
    for (const actor of [blocking, blocked, paused, closed, holding])
      expect(await rawCall(alice, 'POST', '/sessions', { invite: [actor.handle] }), actor.handle).toBe(unknown);
    expect(unknown.split('\r\n\r\n')[1]).toBe(
      (await rawCall(alice, 'GET', `/sessions/${MISSING}`)).split('\r\n\r\n')[1],
    );
  },
);

rule(
  ['spec/Non-enumeration/rule-1', 'spec/Non-enumeration/rule-3', 'wire/Sessions/invite'],
  'an invite of any of these, of the inviter, or of a participant gets the same answer, and uses no sequence',
  async () => {
    const { alice, blocking, paused, joined } = await service.actors('alice', 'blocking', 'paused', 'joined');
    const closed = await service.actor('closed', { policy: 'allowlist' });
    const holding = await service.actor('holding', { policy: 'hold' });
    mustSucceed(await blocking.post('/blocks', { handle: alice.handle }), 201);
    await service.pause(paused);
    const id = await alice.mustCreate({ invite: [joined.handle] });
    await joined.mustJoin(id);
    const unknown = await rawCall(alice, 'POST', `/sessions/${id}/invite`, { invite: ['@no.body'] });
    expect(unknown).toMatch(/^HTTP\/1\.1 200 /);
    for (const actor of [blocking, paused, closed, holding, joined, alice])
      expect(await rawCall(alice, 'POST', `/sessions/${id}/invite`, { invite: [actor.handle] }), actor.handle).toBe(
        unknown,
      );
    expect((await alice.mustSend(id, 'next')).sequence).toBe(3);
  },
);

rule('spec/Non-enumeration/rule-5', 'a capability denial keeps its code, and is checked before existence', async () => {
  const { alice, stranger } = await service.actors('alice', 'stranger');
  const id = await alice.mustCreate();
  const token = await stranger.token('api', ['agents:read']);
  for (const session of [id, MISSING]) {
    mustDeny(await stranger.get(`/sessions/${session}`, { token }), 403, 'INSUFFICIENT_SCOPE');
    mustDeny(await stranger.post(`/sessions/${session}/join`, {}, { token }), 403, 'INSUFFICIENT_SCOPE');
  }
});

rule('spec/Client/NOT_FOUND', 'trying again changes nothing', async () => {
  const { alice, stranger } = await service.actors('alice', 'stranger');
  const id = await alice.mustCreate();
  const first = await rawCall(stranger, 'GET', `/sessions/${id}`);
  for (let count = 0; count < 3; count += 1) expect(await rawCall(stranger, 'GET', `/sessions/${id}`)).toBe(first);
});

rule('spec/Non-enumeration/rule-1', 'an invited agent sees only its own rows of the session', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  const before = (await bob.get(`/sessions/${id}/events`)).text;
  for (let count = 0; count < 5; count += 1) await alice.mustSend(id, `secret ${count}`);
  expect((await bob.get(`/sessions/${id}/events`)).text).toBe(before);
  expect((await bob.get(`/sessions/${id}`)).text).not.toContain('secret');
});
