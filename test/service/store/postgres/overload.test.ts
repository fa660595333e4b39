import pg from 'pg';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { readDatabaseAddress } from '../../../../src/service/store/database-address.js';
import type { Actor } from '../../../support/actors.js';
import { type Answer, request } from '../../../support/http.js';
import { field } from '../../../support/json.js';
import { startTestService, type TestService } from '../../../support/service.js';
import { createSchema, type Schema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

/** With this many connections, one is left for requests. */
const CONNECTIONS = 7;
/** Limits the database to 50 messages per second on any machine. */
const SLOW_SQL = `
  CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END';
  CREATE TRIGGER slow AFTER INSERT ON event FOR EACH ROW WHEN (NEW.type = 'session.message') EXECUTE FUNCTION slow()`;
const AGENTS = 10;
const PER_SECOND = 300;
const SECONDS = 3;

let schema: Schema;
let service: TestService;
beforeEach(async () => {
  schema = createSchema();
  service = await startTestService({
    databaseUrl: schema.url,
    areLimitsOn: false,
    databaseLimits: { connections: CONNECTIONS },
  });
});
afterEach(async () => {
  await service.stop();
  await schema.drop();
});

async function slowDown(): Promise<void> {
  const { connectionStrings, schema: name } = readDatabaseAddress(schema.url);
  const client = new pg.Client({ connectionString: connectionStrings[0] });
  await client.connect();
  await client.query(`SET search_path = ${name}`);
  await client.query(SLOW_SQL);
  await client.end();
}

vi.setConfig({ testTimeout: 180_000 });

it('six times more messages than the database accepts: refusals are 503, the service stays ready, nothing acknowledged is lost', async () => {
  const members: { agent: Actor; session: string }[] = [];
  for (let index = 0; index < AGENTS; index += 1) {
    const agent = await service.createAgent('alice');
    members.push({ agent, session: await agent.mustCreate() });
  }
  await slowDown();
  const sent: { content: string; answer: Promise<Answer> }[] = [];
  const ready: Promise<Answer>[] = [];
  for (let count = 0; count < PER_SECOND * SECONDS; count += 1) {
    const { agent, session } = members[count % AGENTS] as (typeof members)[number];
    const content = `message ${count}`;
    sent.push({ content, answer: agent.post(`/sessions/${session}/messages`, { content }) });
    if (count % 20 === 0) ready.push(request(`${service.authUrl}/ready`));
    await new Promise((resolve) => setTimeout(resolve, 1_000 / PER_SECOND));
  }
  const answers = await Promise.all(sent.map(async ({ content, answer }) => ({ content, answer: await answer })));
  const accepted = answers.filter(({ answer }) => answer.status === 201);
  const refused = answers.filter(({ answer }) => answer.status !== 201);
  expect(accepted.length).toBeGreaterThan(0);
  expect(refused.length).toBeGreaterThan(0);
  for (const { answer } of refused) {
    expect([answer.status, field(answer.json, 'error.code')]).toEqual([503, 'INTERNAL_ERROR']);
    expect(answer.headers['retry-after']).toBe('1');
  }
  expect(new Set((await Promise.all(ready)).map(({ status }) => status))).toEqual(new Set([200]));
  const [first] = members;
  await until('it accepts messages again', async () => {
    const { status } = await (first as (typeof members)[number]).agent.post(`/sessions/${first?.session}/messages`, {
      content: 'after',
    });
    return status === 201;
  });
  const kept = new Set<unknown>();
  for (const { agent, session } of members)
    for (const event of await agent.mustReplay(session)) kept.add(field(event, 'payload.content'));
  expect(accepted.filter(({ content }) => !kept.has(content))).toEqual([]);
  // Refused messages were not written either.
  expect(refused.filter(({ content }) => kept.has(content))).toEqual([]);
});
