import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import type { ReplyText } from '../../../src/service/messaging/events.js';
import { replayEvents } from '../../../src/service/messaging/events.js';
import { UNREAD_MAX_BYTES } from '../../../src/wire/limit.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

const REPLAYS = 60;
const LARGE = 'é'.repeat(120 * 1024);

let stage: Stage;
let alice: AgentActor;
let sessionId: string;
beforeEach(async () => {
  stage = await openStage();
  alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
  sessionId = must(await stage.create(alice, {})).session_id;
  for (const content of [LARGE, 'short', LARGE, 'the last']) must(await stage.send(alice, sessionId, { content }));
});
afterEach(() => stage.close());

function replay(limit = 1000): Promise<ReplyText> {
  const input = { path: { session_id: sessionId }, query: { after_sequence: 0, limit } };
  return stage.context.database.read((query) => replayEvents(stage.context, alice, input, query));
}

/** Opens a replay as its reader does. The test decides how much to take. */
function open({ text, more }: ReplyText): { take(): Promise<boolean>; leave(): Promise<void>; text(): string } {
  const parts = [Buffer.from(text)];
  const rest = more?.[Symbol.asyncIterator]();
  return {
    async take() {
      const next = await rest?.next();
      if (next?.value !== undefined) parts.push(Buffer.from(next.value));
      return next?.done === false;
    },
    async leave() {
      await rest?.return?.();
    },
    text: () => Buffer.concat(parts).toString(),
  };
}

describe('Replays that are not read to the end', () => {
  it(`keep at most ${UNREAD_MAX_BYTES} bytes in memory together, and are still complete when read`, async () => {
    const { unread } = stage.context;
    const whole = open(await replay());
    while (await whole.take());
    expect(unread.total).toBe(0);
    const replays = await Promise.all(Array.from({ length: REPLAYS }, async () => open(await replay())));
    for (let step = 1; step <= 3; step += 1) {
      for (const one of replays) expect(await one.take()).toBe(true);
      expect(REPLAYS * Buffer.byteLength(LARGE)).toBeGreaterThan(UNREAD_MAX_BYTES);
      expect(unread.total).toBeLessThanOrEqual(UNREAD_MAX_BYTES);
      expect(unread.total).toBeGreaterThan(0);
    }
    for (const one of replays) while (await one.take());
    for (const one of replays) expect(one.text()).toBe(whole.text());
    expect(JSON.parse(whole.text())).toMatchObject({ next_cursor: null, events: { length: 4 } });
    expect(unread.total).toBe(0);
  });

  it('hand over pieces of at most 64 KiB', async () => {
    const { more = [] } = await replay();
    for await (const part of more) expect(part.length).toBeLessThanOrEqual(64 * 1024);
  });

  it('keep nothing once their readers have left', async () => {
    const replays = await Promise.all(Array.from({ length: 3 }, async () => open(await replay())));
    for (const one of replays) await one.take();
    expect(stage.context.unread.total).toBeGreaterThan(0);
    for (const one of replays) await one.leave();
    expect(stage.context.unread.total).toBe(0);
  });

  it('end at their limit, and say how to continue', async () => {
    for (const limit of [1, 2, 3]) {
      const one = open(await replay(limit));
      while (await one.take());
      expect(JSON.parse(one.text())).toMatchObject({ next_cursor: String(limit), events: { length: limit } });
    }
  });

  it('continue with the same bytes when more messages arrived in the meantime', async () => {
    const { unread } = stage.context;
    const release = unread.hold(UNREAD_MAX_BYTES);
    const one = open(await replay());
    await one.take();
    must(await stage.send(alice, sessionId, { content: 'meanwhile' }));
    while (await one.take());
    release?.();
    const { events } = JSON.parse(one.text()) as { events: { payload: { content?: unknown } }[] };
    expect(events.map(({ payload }) => payload.content).filter(Boolean)).toContain(LARGE);
    expect(events.at(-1)?.payload.content).toBe('meanwhile');
  });
});
