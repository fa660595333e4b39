import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { ENDING } from './cases.js';
import { type Stage, startStage } from './stage.js';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => stage.close());

/** An answer without a webhook says that the agent has none. */
const HAS_MEANING = /^webhook /;
const remote = ENDING.filter(({ asks, line }) => asks === 'the interface' && !HAS_MEANING.test(line));

describe.each(['absent', 'null'] as const)('a service whose optional members are %s', (how) => {
  beforeEach(() => {
    stage.service.leavesOut = how;
  });

  for (const one of remote)
    it(`does not make asp ${one.line} fail`, async () => {
      stage.service.leavesOut = undefined;
      const whole = await stage.run(one, ['--json']);
      stage.service.leavesOut = how;
      const short = await stage.run(one, ['--json']);
      // Only the whole answer has the shared sessions.
      const expected = whole.err.replace('{"note":"You share a session."}\n', '');
      expect({ code: short.code, err: short.err }).toEqual({ code: whole.code, err: expected });
      const human = await stage.run(one, ['--color', 'never']);
      expect(human.code).toBe(whole.code);
      expect(human.out).not.toMatch(/\bundefined\b|\[object Object\]/);
    });
});
