import { randomUUID } from 'node:crypto';

import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// docs/contract.md "Limits of our own": a service with --loop-guard.

const LIMIT = 5;
const service = useService({ loopGuard: LIMIT });

rule(
  'wire/Limits/loop-guard',
  'after N messages without a person, further ones are 403 LOOP_GUARD until a person writes; nothing is stored',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    const send = (count: number, key: string = randomUUID()) =>
      (count % 2 ? bob : alice).post(`/sessions/${id}/messages`, { content: `${count}` }, { key });
    for (let round = 0; round < 2; round += 1) {
      for (let count = 0; count < LIMIT; count += 1) mustSucceed(await send(count), 201);
      const before = (await alice.mustReplay(id)).length;
      const key = randomUUID();
      for (let attempt = 0; attempt < 2; attempt += 1) mustDeny(await send(0, key), 403, 'LOOP_GUARD');
      expect((await send(1)).headers['retry-after']).toBeUndefined();
      expect((await alice.mustReplay(id)).length).toBe(before);
      const said = { content: 'go on', metadata: { sent_by: 'dashboard' } };
      mustSucceed(await bob.post(`/sessions/${id}/messages`, said), 201);
      mustSucceed(await send(0, key), 201);
      mustSucceed(await bob.post(`/sessions/${id}/messages`, said), 201);
    }
  },
);

rule(
  'wire/Limits/loop-guard',
  'a session that is only read, joined and ended is not guarded, and outsiders get the answer of a missing one',
  async () => {
    const { alice, bob, eve } = await service.actors('alice', 'bob', 'eve');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    for (let count = 0; count < LIMIT; count += 1) await alice.mustSend(id, `${count}`);
    const missing = await eve.post(`/sessions/sess_${'0'.repeat(26)}/messages`, { content: 'x' });
    expect((await eve.post(`/sessions/${id}/messages`, { content: 'x' })).text).toBe(missing.text);
    await bob.mustJoin(id);
    mustDeny(await bob.post(`/sessions/${id}/messages`, { content: 'x' }), 403, 'LOOP_GUARD');
    mustSucceed(await bob.post(`/sessions/${id}/end`, {}), 200);
    const again = { initial_message: { content: 'again' } };
    mustDeny(await alice.post(`/sessions/${id}/reopen`, again), 403, 'LOOP_GUARD');
    mustSucceed(await alice.post(`/sessions/${id}/reopen`, {}), 200);
  },
);
