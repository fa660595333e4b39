import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Fastify from 'fastify';
import { describe, expect, it } from 'vitest';

import type { ServiceContext } from '../../../src/service/core/context.js';
import type { Database } from '../../../src/service/core/database.js';
import { createHealth } from '../../../src/service/health.js';
import { answerOfError, sendAnswer } from '../../../src/service/http/answers.js';
import { registerProbes } from '../../../src/service/http/rest.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';
import { mustDeny } from '../../support/answers.js';
import { createTestClock } from '../../support/clock.js';
import { answerOf, request } from '../../support/http.js';
import { startTestService } from '../../support/service.js';
import { openStage } from '../sessions/stage.js';

/** Calls the probes of a service with this database. */
async function probe(database: Database, whileAsked: (clock: ReturnType<typeof createTestClock>) => void = () => {}) {
  const stage = await openStage();
  const clock = createTestClock();
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  const context: ServiceContext = { ...stage.context, clock, database, log };
  const app = Fastify();
  app.setErrorHandler((error, _request, reply) => sendAnswer(reply, answerOfError(error, log, undefined), log));
  const health = createHealth(context);
  await health.start().catch(() => {});
  registerProbes(app, context, health);
  const asked = app.inject('/ready');
  const answered = asked.then(({ statusCode, headers, rawPayload }) =>
    answerOf(statusCode, headers as Record<string, string>, rawPayload),
  );
  await new Promise((resolve) => setTimeout(resolve, 50));
  whileAsked(clock);
  const answer = await answered;
  await app.close();
  await stage.close();
  return answer;
}

it('HEAD gets the status of each public document and probe, without a body', async () => {
  const service = await startTestService();
  const paths = [
    '/health',
    '/ready',
    '/openapi.json',
    '/.well-known/oauth-authorization-server',
    '/.well-known/jwks.json',
  ];
  for (const path of [...paths, '/v1/.well-known/oauth-protected-resource']) {
    const [get, head] = await Promise.all(
      ['GET', 'HEAD'].map((method) => request(`${service.authUrl}${path}`, { method })),
    );
    expect({ path, status: head?.status, text: head?.text }).toEqual({ path, status: 200, text: '' });
    expect(head?.headers['content-length']).toBe(get?.headers['content-length']);
  }
  await service.stop();
});

describe('readiness', () => {
  it('answers like health while requests are accepted', async () => {
    const service = await startTestService();
    const answer = await request(`${service.authUrl}/ready`);
    expect({ status: answer.status, text: answer.text }).toEqual({ status: 200, text: '{"ok":true}' });
    expect(answer.headers['cache-control']).toBe('no-store');
    await service.stop();
  });

  it('is denied with 503 and the envelope while the database does not respond', async () => {
    const stage = await openStage();
    const silent: Database = { ...stage.context.database, read: () => new Promise(() => {}) };
    const answer = await probe(silent, (clock) => clock.advance(2_000));
    mustDeny(answer, 503, 'INTERNAL_ERROR');
    expect(answer.headers['retry-after']).toBe('1');
    await stage.close();
  });

  it('is denied once the database is closed', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'asp-ready-'));
    const database = await openSqlite({ directory });
    await database.close();
    mustDeny(await probe(database), 503, 'INTERNAL_ERROR');
    await rm(directory, { recursive: true });
  });

  it('is denied on open connections while the service stops', async () => {
    const service = await startTestService();
    await request(`${service.authUrl}/ready`);
    const stopping = service.stop();
    const answer = await request(`${service.authUrl}/ready`).catch(() => undefined);
    if (answer !== undefined) mustDeny(answer, 503, 'INTERNAL_ERROR');
    await stopping;
  });
});
