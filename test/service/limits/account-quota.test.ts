import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { DEFAULT_ACCOUNT_QUOTA } from '../../../src/service/core/context.js';
import { type Actor, actorOf, operate } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import { text } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createBrowser, type TestBrowser } from '../authorization-server/browser.js';

const QUOTA = { agents: 2, clients: 1, attachmentBytes: 1_000, sessionsPerHour: 3 };
const NEW_AGENT = '/dashboard/new-agent';
const NEW_CLIENT = '/dashboard/new-client';

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ accountPolicy: { quota: QUOTA } });
});
afterAll(() => service.stop());

async function signUp(username: string): Promise<TestBrowser> {
  const browser = createBrowser(service.webUrl);
  const page = await browser.get('/oauth/sign-in');
  const person = { username, display_name: 'A Person', password: 'correct horse battery' };
  expect((await browser.submit(page, '/oauth/sign-up', person)).status).toBe(303);
  return browser;
}
const makeAgent = async (browser: TestBrowser, name: string) =>
  browser.submit(await browser.get(NEW_AGENT), NEW_AGENT, { name, display_name: name });
const makeClient = async (browser: TestBrowser, agent: string) =>
  browser.submit(await browser.get(NEW_CLIENT), NEW_CLIENT, { name: 'ci', agent, scope: 'sessions:read' });

/** Adds an agent to the account, with a client created by the operator. */
async function actAs(username: string, name: string): Promise<Actor> {
  const handle = `@${username}.${name}`;
  const client = await operate(service.operator, 'POST', '/clients', { handle });
  return actorOf(service.place, handle, {
    clientId: text(client, 'client_id'),
    clientSecret: text(client, 'client_secret'),
  });
}

describe('The quota of an account', () => {
  it('limits agents: a form for one too many says so and creates none; removing one makes room', async () => {
    const browser = await signUp('agents');
    for (const name of ['one', 'two']) expect((await makeAgent(browser, name)).status).toBe(303);
    const refused = await makeAgent(browser, 'three');
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('at most 2 agents')]);
    await operate(service.operator, 'DELETE', `/agents/${encodeURIComponent('@agents.one')}`);
    expect((await makeAgent(browser, 'three')).status).toBe(303);
  });

  it('counts agents created at the same moment one after another', async () => {
    const browser = await signUp('hasty');
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => makeAgent(browser, name)));
    expect(answers.map(({ status }) => status).sort()).toEqual([303, 303, 403, 403]);
  });

  it('limits clients with a secret', async () => {
    const browser = await signUp('clients');
    await makeAgent(browser, 'main');
    expect((await makeClient(browser, 'main')).status).toBe(303);
    const refused = await makeClient(browser, 'main');
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('at most 1 clients')]);
  });

  it('limits the total attachment bytes of all its agents', async () => {
    const browser = await signUp('storage');
    for (const name of ['one', 'two']) await makeAgent(browser, name);
    const [one, two] = [await actAs('storage', 'one'), await actAs('storage', 'two')];
    const file = (size: number) => ({ bytes: 'a'.repeat(size) });
    expect((await one.upload(file(600))).status).toBe(201);
    mustDeny(await two.upload(file(401)), 403, 'FEATURE_NOT_AVAILABLE');
    expect((await two.upload(file(400))).status).toBe(201);
    expect(await operate(service.operator, 'GET', '/accounts/storage')).toMatchObject({
      attachment_bytes: 1_000,
      quota: { attachment_bytes: 1_000, agents: 2, clients: 1, sessions_per_hour: 3 },
    });
  });

  it('limits new sessions per hour of all its agents together', async () => {
    const browser = await signUp('sessions');
    for (const name of ['one', 'two']) await makeAgent(browser, name);
    const [one, two] = [await actAs('sessions', 'one'), await actAs('sessions', 'two')];
    for (const agent of [one, two, one]) await agent.mustCreate();
    const refused = await two.post('/sessions', {});
    mustDeny(refused, 429, 'RATE_LIMITED');
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(3_500);
  });

  it('refuses a new session the same way, whether or not the invited agent can be reached', async () => {
    const browser = await signUp('prober');
    await makeAgent(browser, 'one');
    const prober = await actAs('prober', 'one');
    const open = await service.createAgent('reachable', { policy: 'open' });
    for (let count = 0; count < QUOTA.sessionsPerHour; count += 1) await prober.mustCreate();
    for (const handle of [open.handle, '@no.one'])
      mustDeny(await prober.post('/sessions', { invite: [handle] }), 429, 'RATE_LIMITED');
  });

  it('does not limit trusted or local accounts', async () => {
    const browser = await signUp('trusted');
    await operate(service.operator, 'PATCH', '/accounts/trusted', { tier: 'trusted' });
    for (const name of ['one', 'two', 'three']) expect((await makeAgent(browser, name)).status).toBe(303);
    const local = await service.createAgent('local');
    for (let count = 0; count < 5; count += 1) await local.mustCreate();
    expect(await operate(service.operator, 'GET', `/accounts/${local.owner}`)).toMatchObject({ quota: null });
  });

  it('is a hundred agents by default', () => {
    expect(DEFAULT_ACCOUNT_QUOTA).toEqual({
      agents: 100,
      clients: 50,
      attachmentBytes: 2_147_483_648,
      sessionsPerHour: 300,
    });
  });
});
