import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createPresence } from '../../../src/service/messaging/presence.js';
import { insertSocket, listSocketsOf, putProcess } from '../../../src/service/store/processes.js';
import { openStage, type Stage } from '../sessions/stage.js';

const SOCKETS = 1_000;

let stage: Stage;
beforeEach(async () => {
  stage = await openStage();
});
afterEach(() => stage.close());

describe('the sockets of a service that has stopped', () => {
  it('are forgotten in a few writes when the next one starts', async () => {
    const alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
    await stage.write(async (transaction) => {
      await putProcess(transaction, 'gone', 0);
      for (let index = 0; index < SOCKETS; index += 1)
        await insertSocket(transaction, {
          ...{ id: `socket ${index}`, process_id: 'gone', agent_id: alice.agentId },
          ...{ grant_id: 'grant', opened_at: 1 },
        });
    });
    const { database } = stage.context;
    let writes = 0;
    const write: typeof database.write = (work, holds) => {
      writes += 1;
      return database.write(work, holds);
    };
    const counted = { ...database, write, ...(database.writeVolatile && { writeVolatile: write }) };
    const presence = createPresence(
      { ...stage.context, database: counted },
      { processId: 'next', isClockRight: true },
      new Set(),
    );
    await presence.start();
    await presence.stop();
    expect(await stage.read((query) => listSocketsOf(query, 'gone'))).toEqual([]);
    expect(writes).toBeLessThan(SOCKETS / 50);
  });
});
