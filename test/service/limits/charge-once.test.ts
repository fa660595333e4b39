import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chargeOnce, createMemoryLimits } from '../../../src/service/core/rate-limits.js';
import { RATE_LIMIT } from '../../../src/wire/limit.js';
import { createTestClock } from '../../support/clock.js';
import { startTestService, type TestService } from '../../support/service.js';
import { TEST_STORE } from '../../support/stores.js';

const MESSAGES = RATE_LIMIT.sendMessage.count;

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

describe('A write that runs again', () => {
  const setUp = () => {
    const limits = createMemoryLimits(createTestClock());
    return { limits, nextRun: chargeOnce(limits), used: () => limits.getUsed('general', 'a') };
  };
  const general = (weight: number) => ({ name: 'general', subjectId: 'a', weight }) as const;

  it('takes nothing again that an earlier run has taken, and the rest if it needs more', async () => {
    const { nextRun, used } = setUp();
    const first = nextRun();
    await Promise.all([first.take('general', 'a'), first.take('general', 'a')]);
    expect(await used()).toBe(2);
    const second = nextRun();
    await second.takeAll([general(1)]);
    expect(await used()).toBe(2);
    await second.takeAll([general(4)]);
    expect(await used()).toBe(5);
    await nextRun().takeAll([general(5)]);
    expect(await used()).toBe(5);
  });

  it('is not refused what an earlier run has taken, although the limit is used up', async () => {
    const { limits, nextRun, used } = setUp();
    const { count } = RATE_LIMIT.general;
    const first = nextRun();
    await first.take('general', 'a');
    await limits.takeAll([general(count - 1)]);
    await expect(first.take('general', 'a')).rejects.toThrow();
    const second = nextRun();
    await second.check(general(1));
    await expect(second.takeAll([general(2)])).rejects.toThrow();
    await second.take('general', 'a');
    await expect(second.check(general(1))).rejects.toThrow();
    expect(await used()).toBe(count);
  });
});

describe('A message', () => {
  it.runIf(TEST_STORE === 'postgres')(
    'costs one call, even if the message of another agent undid the commit that both shared',
    async () => {
      const [alice, mallory] = await Promise.all([service.createAgent('alice'), service.createAgent('mallory')]);
      const [own, other] = await Promise.all([alice.mustCreate({}), mallory.mustCreate({})]);
      const missing = { content: [{ type: 'file', attachment_id: 'att_01ARZ3NDEKTSV4RRFFQ69G5FAV' }] };
      const sent: number[] = [];
      for (let index = 0; index < MESSAGES; index += 1) {
        const [refused, { status }] = await Promise.all([
          mallory.post(`/sessions/${other}/messages`, missing),
          alice.post(`/sessions/${own}/messages`, { content: `${index}` }),
        ]);
        expect(refused.status).toBe(404);
        sent.push(status);
      }
      expect(sent).toEqual(Array(MESSAGES).fill(201));
    },
  );
});
