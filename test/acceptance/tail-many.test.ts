import { it } from 'vitest';

import { expectEachOnce, tailCrowd } from '../support/many-sessions.js';

const CROWD = { sessions: 300, messagesEach: 3, cuts: 3 };

it(`asp tail › ${CROWD.sessions} sessions: each event once, each session in order, across cuts and a restart`, async () => {
  expectEachOnce(await tailCrowd(CROWD), CROWD);
});
