import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Actor, actorOf, createActor } from '../support/actors.js';
import { mustBeEnvelope } from '../support/answers.js';
import type { Answer } from '../support/http.js';
import { discover } from '../support/oauth.js';
import { createHome, type Home, startServe } from './program.js';

const ROUNDS = process.env['ASP_TEST_LONG'] === '1' ? 100 : 4;
const SENDERS = 8;

interface Load {
  /** The acknowledged sequences. */
  readonly acknowledged: number[];
  readonly refused: Answer[];
  /** Resolves when no sender can send anymore. */
  readonly over: Promise<unknown>;
}

/** Sends without a pause until the service is gone. */
function load(alice: Actor, session: string): Load {
  const acknowledged: number[] = [];
  const refused: Answer[] = [];
  const send = async (): Promise<void> => {
    for (let index = 0; ; index += 1) {
      const answer = await alice
        .post(`/sessions/${session}/messages`, { content: `message ${index}` })
        .catch(() => null);
      if (answer === null) return;
      if (answer.status === 201) acknowledged.push((answer.json as { sequence: number }).sequence);
      else refused.push(answer);
    }
  };
  return { acknowledged, refused, over: Promise.all(Array.from({ length: SENDERS }, send)) };
}

describe('SIGTERM under load', () => {
  let home: Home;
  beforeEach(() => {
    home = createHome();
  });
  afterEach(() => home.dispose());

  it('ends the service within 10 s; sockets get 1001, requests their answer or 503, and nothing acknowledged is lost', async () => {
    let known: { handle: string; credentials: Actor['credentials']; session: string } | undefined;
    const acknowledged: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const service = await startServe(home, ['--limits', 'off']);
      const record = JSON.parse(readFileSync(join(home.directory, 'run/asp-cli/serve/default.json'), 'utf8'));
      const place = await discover(service.url);
      if (known === undefined) {
        const first = await createActor(place, { url: record.operator_url, secret: record.secret }, 'alice');
        known = { handle: first.handle, credentials: first.credentials, session: await first.mustCreate() };
      }
      const alice = actorOf(place, known.handle, known.credentials);
      const socket = await alice.mustConnect();
      const running = load(alice, known.session);
      await pause(300 + round * 50);
      const before = performance.now();
      service.running.kill('SIGTERM');
      expect(await socket.mustBeClosed()).toBe(1001);
      const { status, signal } = await service.running.ended;
      expect({ status, signal }).toEqual({ status: 0, signal: null });
      expect(performance.now() - before).toBeLessThan(10_000);
      await running.over;
      expect(running.acknowledged.length).toBeGreaterThan(0);
      acknowledged.push(...running.acknowledged);
      for (const answer of running.refused) {
        expect(answer.status).toBe(503);
        mustBeEnvelope(answer);
      }
    }

    const last = await startServe(home, ['--limits', 'off']);
    const { handle, credentials, session } = known ?? {
      handle: '',
      credentials: { clientId: '', clientSecret: '' },
      session: '',
    };
    const events = (await actorOf(await discover(last.url), handle, credentials).mustReplay(session)) as {
      sequence: number;
    }[];
    const sequences = new Set(events.map(({ sequence }) => sequence));
    expect(acknowledged.filter((sequence) => !sequences.has(sequence))).toEqual([]);
    expect(sequences.size).toBe(events.at(-1)?.sequence);
    await last.stop();
  });
});
