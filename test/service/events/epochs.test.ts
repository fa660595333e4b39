import { describe, expect, it } from 'vitest';
import type { Query } from '../../../src/service/core/database.js';
import { replayEvents } from '../../../src/service/messaging/events.js';
import { beginEpoch, findCommonPosition, openEpoch, readEpoch } from '../../../src/service/store/epochs.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

const NOW = 1_800_000_000_000;

async function withStage(work: (stage: Stage) => Promise<void>): Promise<void> {
  const stage = await openStage();
  try {
    await work(stage);
  } finally {
    await stage.close();
  }
}

/** Simulates a restore: removes the session's events after `kept`. */
async function restore(stage: Stage, sessionId: string, kept: number): Promise<string> {
  return stage.write(async (transaction) => {
    await transaction.run('DELETE FROM event WHERE session_id = $1 AND sequence > $2', sessionId, kept);
    await transaction.run('UPDATE session SET last_sequence = $2 WHERE id = $1', sessionId, kept);
    return (await beginEpoch(transaction, `restored ${kept}`, NOW)).token;
  });
}

describe('the epoch of the data', () => {
  it('stays the same for data in its place, and changes for a copy', () =>
    withStage(async (stage) => {
      const { token } = stage.context.database.epoch();
      const origin = await stage.read((query) => query.get<{ origin: string }>('SELECT origin FROM epoch'));
      const same = await stage.write((query) => openEpoch(query, origin?.origin ?? '', NOW));
      expect(same.token).toBe(token);
      const other = await stage.write((query) => openEpoch(query, 'elsewhere', NOW));
      expect(other.token).not.toBe(token);
      expect(other.restoredAt).toBe(NOW);
      expect((await stage.read(readEpoch)).token).toBe(other.token);
    }));

  it('finds how far two histories agree, no matter which of them was cut, or how often', () =>
    withStage(async (stage) => {
      const alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
      const session = must(await stage.create(alice, {})).session_id;
      const send = async (count: number): Promise<void> => {
        for (let i = 0; i < count; i += 1) must(await stage.send(alice, session, { content: 'x' }));
      };
      const positionOf = async (sequence: number): Promise<number> => {
        const row = await stage.read((query: Query) =>
          query.get<{ position: number }>(
            'SELECT position FROM event WHERE session_id = $1 AND sequence = $2',
            session,
            sequence,
          ),
        );
        return row?.position ?? Number.NaN;
      };
      const common = (token: string) => stage.read((query) => findCommonPosition(query, token));
      const first = stage.context.database.epoch().token;
      await send(10);
      const second = await restore(stage, session, 4);
      await send(4);
      const third = await restore(stage, session, 6);
      expect(await common(third)).toBeUndefined();
      expect(await common(second)).toBe(await positionOf(6));
      expect(await common(first)).toBe(await positionOf(4));
      // For an epoch that this data has never had, the answer is the position before both restores.
      const unknown = 'f'.repeat(20);
      expect(await common(unknown)).toBe(await positionOf(4));
      expect(await common(`${unknown}.1`)).toBe(1);
    }));
});

describe('a replay after a restore', () => {
  it('begins after the last event that is still there, and says so, for a cursor of the epoch before', () =>
    withStage(async (stage) => {
      const alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
      const session = must(await stage.create(alice, {})).session_id;
      const replay = async (after: number, epoch?: string) => {
        const input = { path: { session_id: session }, query: { after_sequence: after, limit: 100, epoch } };
        const { text } = await stage.read((query) => replayEvents(stage.context, alice, input, query));
        const { events, ...head } = JSON.parse(text) as { events: { sequence: number }[] };
        return { ...head, sequences: events.map(({ sequence }) => sequence) };
      };
      const before = stage.context.database.epoch().token;
      for (let i = 0; i < 8; i += 1) must(await stage.send(alice, session, { content: `lost ${i}` }));
      expect(await replay(8, before)).toMatchObject({ sequences: [], last_sequence: 8 });
      await restore(stage, session, 4);
      for (let i = 0; i < 3; i += 1) must(await stage.send(alice, session, { content: `new ${i}` }));
      expect(await replay(8, before)).toMatchObject({ sequences: [5, 6, 7], resumed_after: 4, last_sequence: 7 });
      expect(await replay(6, before)).toMatchObject({ sequences: [5, 6, 7], resumed_after: 4 });
      expect(await replay(3, before)).not.toHaveProperty('resumed_after');
      expect(await replay(3, before)).toMatchObject({ sequences: [4, 5, 6, 7] });
      // Without an epoch, only the sequence shows that the cursor is past the end.
      expect(await replay(8)).toMatchObject({ sequences: [], last_sequence: 7 });
      expect(await replay(8)).not.toHaveProperty('resumed_after');
    }));

  it('reveals nothing about a session’s length to someone who may not see all of it', () =>
    withStage(async (stage) => {
      const alice = await stage.addAgent(await stage.addAccount('alice'), 'main');
      const bob = await stage.addAgent(await stage.addAccount('bob'), 'main', { inbound_policy: 'open' });
      const session = must(await stage.create(alice, { invite: [bob.handle] })).session_id;
      const replay = async (after: number, epoch?: string) => {
        const input = { path: { session_id: session }, query: { after_sequence: after, limit: 100, epoch } };
        const { text } = await stage.read((query) => replayEvents(stage.context, bob, input, query));
        return text.replace(/"epoch":"[^"]+"/, '');
      };
      const short = [await replay(0), await replay(500), await replay(500, 'f'.repeat(20))];
      for (let i = 0; i < 5; i += 1) must(await stage.send(alice, session, { content: 'x' }));
      expect([await replay(0), await replay(500), await replay(500, 'f'.repeat(20))]).toEqual(short);
      await restore(stage, session, 4);
      for (let i = 0; i < 9; i += 1) must(await stage.send(alice, session, { content: 'x' }));
      expect([await replay(0), await replay(500)]).toEqual(short.slice(0, 2));
      expect(JSON.parse(await replay(500, 'f'.repeat(20)).then((text) => text.replace('{,', '{')))).toMatchObject({
        last_sequence: 1,
        resumed_after: 1,
      });
    }));
});
