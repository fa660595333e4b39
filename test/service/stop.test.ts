import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { mustDeny } from '../support/answers.js';
import { createTestClock } from '../support/clock.js';
import { type Answer, request } from '../support/http.js';
import { field, text } from '../support/json.js';
import { startTestService } from '../support/service.js';
import { stopWithSockets } from '../support/stop-with-sockets.js';
import { until } from '../support/until.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'asp-stop-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

describe('a service that is stopped', () => {
  it('under load loses nothing acknowledged, answers or refuses the rest, and ends in time', async () => {
    const service = await startTestService({
      data: { directory },
      areLimitsOn: false,
      seeds: [{ handle: '@alice.bot' }],
    });
    const alice = await service.createAgent('alice');
    const id = await alice.mustCreate();
    const acknowledged = new Set<string>();
    const refusals: Answer[] = [];
    let isOver = false;
    const say = async (): Promise<void> => {
      while (!isOver) {
        // A connection may end before it has answered. Such a message is neither acknowledged nor refused.
        const answer = await alice.post(`/sessions/${id}/messages`, { content: 'x' }).catch(() => undefined);
        if (answer?.status === 201) acknowledged.add(text(answer.json, 'message_id'));
        else if (answer !== undefined) refusals.push(answer);
        else return;
      }
    };
    const speaking = Promise.all(Array.from({ length: 16 }, say));
    await until('there is load', async () => acknowledged.size > 100);
    const from = performance.now();
    await service.stop();
    expect(performance.now() - from).toBeLessThan(10_000);
    isOver = true;
    await speaking;
    for (const refusal of refusals) mustDeny(refusal, 503, 'INTERNAL_ERROR');

    const again = await startTestService({ data: { directory }, areLimitsOn: false, port: service.port });
    const kept = new Set((await alice.mustReplay(id)).map((event) => field(event, 'payload.id')));
    expect([...acknowledged].filter((messageId) => !kept.has(messageId))).toEqual([]);
    await again.stop();
  });

  it('gives callers that never finish only 10 seconds', async () => {
    const clock = createTestClock();
    const service = await startTestService({ clock });
    const alice = await service.createAgent('alice');
    const unfinished = connect({ host: '127.0.0.1', port: service.port });
    unfinished.on('error', () => {});
    const isClosed = new Promise<void>((resolve) => unfinished.once('close', () => resolve()));
    const head = `POST /v1/sessions HTTP/1.1\r\nhost: 127.0.0.1:${service.port}\r\nauthorization: Bearer ${await alice.token()}\r\n`;
    unfinished.write(
      `${head}idempotency-key: k\r\ncontent-type: application/json\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n`,
    );
    await new Promise((resolve) => unfinished.once('data', resolve));
    let isStopped = false;
    const stopped = service.stop().then(() => {
      isStopped = true;
    });
    clock.advance(9_999);
    await new Promise(setImmediate);
    expect(isStopped).toBe(false);
    clock.advance(1);
    await stopped;
    await isClosed;
  });

  it('does not wait for silent connections', async () => {
    const service = await startTestService();
    const idle = connect({ host: '127.0.0.1', port: service.port });
    await new Promise((resolve) => idle.once('connect', resolve));
    idle.on('error', () => {});
    const from = performance.now();
    await service.stop();
    expect(performance.now() - from).toBeLessThan(5_000);
    idle.destroy();
  });

  it('fails its readiness at once while it drains, and ends connections with their answers, but keeps serving', async () => {
    const service = await startTestService();
    const alice = await service.createAgent('alice');
    const socket = await alice.mustConnect();
    const id = await alice.mustCreate();
    expect((await request(`${service.authUrl}/ready`)).status).toBe(200);
    service.drain();
    mustDeny(await request(`${service.authUrl}/ready`), 503, 'INTERNAL_ERROR');
    expect((await request(`${service.authUrl}/health`)).status).toBe(200);
    const sent = await alice.post(`/sessions/${id}/messages`, { content: 'still here' });
    expect({ status: sent.status, connection: sent.headers['connection'] }).toEqual({
      status: 201,
      connection: 'close',
    });
    await socket.mustReceiveEvent('session.message', id);
    const late = await alice.mustConnect();
    await late.mustPing();
    await service.stop();
  });

  it('closes its sockets in steps, with other work in between', async () => {
    const clock = createTestClock();
    const service = await startTestService({ clock, areLimitsOn: false });
    expect(await stopWithSockets(service, clock, 112)).toBe(100);
  });

  it('can be stopped twice', async () => {
    const service = await startTestService();
    await Promise.all([service.stop(), service.stop()]);
    await service.stop();
  });
});
