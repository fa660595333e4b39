import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createPresence, type Presence } from '../../../../src/service/realtime/presence.js';
import { hasSocket } from '../../../../src/service/store/socket-rows.js';
import { openStage, type Stage } from '../../sessions/stage.js';

let stage: Stage;
const running: Presence[] = [];

beforeEach(async () => {
  stage = await openStage();
});
afterEach(async () => {
  for (const presence of running.splice(0)) await presence.stop();
  await stage.close();
});

const isOnline = (agentId: string): Promise<boolean> => stage.read((query) => hasSocket(query, agentId));

async function startProcess(name: string): Promise<Presence> {
  const presence = createPresence(stage.context, name);
  await presence.start();
  running.push(presence);
  return presence;
}

describe('sockets of a service that is gone', () => {
  it('count until it has been silent for a minute, and then no more', async () => {
    const alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
    const one = await startProcess('one');
    await one.opened({ socketId: 's1', agentId: alice.agentId, grantId: 'g', expiresAtMs: 0 });
    await startProcess('two');
    expect(await isOnline(alice.agentId)).toBe(true);
    stage.clock.advance(60_000);
    await startProcess('three');
    expect(await isOnline(alice.agentId)).toBe(true);
    stage.clock.advance(1);
    await startProcess('four');
    expect(await isOnline(alice.agentId)).toBe(false);
  });

  it('that has stopped in order count no more for the next that looks', async () => {
    const alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
    const one = await startProcess('one');
    await one.opened({ socketId: 's1', agentId: alice.agentId, grantId: 'g', expiresAtMs: 0 });
    await one.stop();
    await startProcess('two');
    expect(await isOnline(alice.agentId)).toBe(false);
  });
});
