import { it } from 'vitest';

import { expectEachOnce, tailCrowd } from '../support/many-sessions.js';

const CROWD = { sessions: 3_000, messagesEach: 4, cuts: 12 };

it(`asp tail › ${CROWD.sessions} sessions, ${CROWD.sessions * CROWD.messagesEach} messages: each event once, each session in order`, async () => {
  expectEachOnce(await tailCrowd(CROWD), CROWD);
}, 1_800_000);
