import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, actorOf, askOperator, callApi } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import type { Answer } from '../../support/http.js';
import { field, list, text } from '../../support/json.js';
import { tokenFor } from '../../support/mcp-tools.js';
import {
  askClientToken,
  authorizationUrl,
  createVerifier,
  mustRegister,
  redeemCode,
  redirectParameters,
  refresh,
} from '../../support/oauth.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createBrowser, type TestBrowser } from '../authorization-server/browser.js';

const PASSWORD = 'correct horse battery';
const SIGN_IN = '/oauth/sign-in';
/** What a model sends into a session. */
const MESSAGE = (session: string): string =>
  JSON.stringify({ name: 'send', arguments: { to: session, text: 'from a model' } });

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
});
afterAll(() => service.stop());

const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
  askOperator(service.operator, method, path, body);

let people = 0;

/** A person who signed up: their signed-in browser, and an application that acts as their agent `main`. */
interface Member {
  readonly username: string;
  readonly browser: TestBrowser;
  readonly clientId: string;
  readonly accessToken: string;
  readonly refreshToken: string;
}

async function join(): Promise<Member> {
  people += 1;
  const username = `member-${people}`;
  const browser = createBrowser(service.webUrl);
  const clientId = await mustRegister(service.place);
  const { verifier, challenge } = createVerifier();
  const asked = await browser.get(authorizationUrl(service.place, { clientId, challenge }));
  const person = { username, display_name: 'A Member', password: PASSWORD };
  const consent = await browser.follow(await browser.submit(asked, '/oauth/sign-up', person));
  const agent = { decision: 'allow', agent: 'new', agent_name: 'main' };
  const code = redirectParameters(await browser.submit(consent, '/oauth/authorize', agent)).get('code') ?? '';
  const { json } = await redeemCode(service.place, clientId, code, verifier);
  return {
    username,
    browser,
    clientId,
    accessToken: text(json, 'access_token'),
    refreshToken: text(json, 'refresh_token'),
  };
}

const signIn = async (username: string): Promise<Answer> => {
  const browser = createBrowser(service.webUrl);
  return browser.submit(await browser.get(SIGN_IN), SIGN_IN, { username, password: PASSWORD });
};
const whoIs = ({ accessToken }: Member): Promise<Answer> => callApi(service.baseUrl, accessToken, 'GET', '/agents/me');
const stateOf = async (username: string): Promise<unknown> =>
  field((await ask('GET', `/accounts/${username}`)).json, 'state');

describe('the accounts of a service', () => {
  it('are listed by name, with what they have; one that is not there is NOT_FOUND', async () => {
    const { username } = await join();
    expect((await ask('GET', `/accounts/${username}`)).json).toMatchObject({
      username,
      display_name: 'A Member',
      state: 'active',
      tier: 'standard',
      is_local: false,
      agents: 1,
      clients: 0,
    });
    const names = list((await ask('GET', '/accounts')).json, 'accounts').map((one) => text(one, 'username'));
    expect(names).toContain(username);
    expect(names).toEqual([...names].sort());
    for (const method of ['GET', 'DELETE']) mustDeny(await ask(method, '/accounts/nobody'), 404, 'NOT_FOUND');
    mustDeny(await ask('PATCH', '/accounts/nobody', { suspended: true }), 404, 'NOT_FOUND');
    mustDeny(await ask('PATCH', `/accounts/${username}`, { tier: 'paid' }), 400, 'VALIDATION_ERROR');
  });

  it('may have open agents if the operator trusts them', async () => {
    const member = await join();
    const page = '/dashboard/agents/main';
    const open = async () =>
      member.browser.submit(await member.browser.get(page), page, { inbound_policy: 'open', visibility: 'public' });
    expect((await open()).status).toBe(403);
    expect(field((await ask('PATCH', `/accounts/${member.username}`, { tier: 'trusted' })).json, 'tier')).toBe(
      'trusted',
    );
    expect((await open()).status).toBe(303);
  });
});

describe('a suspended account', () => {
  it('can do nothing at once: no token, no socket, no browser, no application, no sign-in', async () => {
    const member = await join();
    const { agent, session } = await joined(member.username);
    const socket = await agent.mustConnect();
    expect((await whoIs(member)).status).toBe(200);

    expect((await ask('PATCH', `/accounts/${member.username}`, { suspended: true })).status).toBe(200);
    mustDeny(await whoIs(member), 401, 'UNAUTHORIZED');
    mustDeny(await agent.get(`/sessions/${session}`), 401, 'UNAUTHORIZED');
    expect(await socket.mustBeClosed()).toBe(1008);
    const refused = await agent.connect();
    expect('status' in refused && refused.status).toBe(401);
    expect((await askClientToken(service.place, agent.credentials, service.baseUrl)).status).toBe(401);
    expect((await refresh(service.place, member.clientId, member.refreshToken)).status).toBe(401);
    expect((await member.browser.get('/dashboard/agents')).headers['location']).toContain(SIGN_IN);
    const again = await signIn(member.username);
    expect([again.status, again.text]).toEqual([403, expect.stringContaining('suspended')]);
    expect(await stateOf(member.username)).toBe('suspended');
  });

  it('writes nothing, even if the body of a request was on its way', async () => {
    const member = await join();
    const { agent, peer, session } = await joined(member.username);
    const boundary = '--a-boundary\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n';
    const bodies = [
      [`/sessions/${session}/messages`, 'application/json', '{"content":', '"from the past"}'],
      ['/attachments', 'multipart/form-data; boundary=a-boundary', `${boundary}\r\nbegun`, '\r\n--a-boundary--\r\n'],
      ['/mcp', 'application/json', '{"jsonrpc":"2.0","id":1,', `"method":"tools/call","params":${MESSAGE(session)}}`],
    ] as const;
    const begun = bodies.map(async ([path, type, first, rest]) => {
      const isTool = path === '/mcp';
      const token = isTool ? await tokenFor(service.place, agent, service.mcpUrl) : await agent.token();
      const sent = httpRequest(isTool ? service.mcpUrl : `${service.baseUrl}${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          accept: 'application/json, text/event-stream',
          'content-type': type,
          'idempotency-key': path,
        },
      });
      sent.write(first);
      return { sent, rest };
    });
    const open = await Promise.all(begun);
    await pause(500);
    await ask('PATCH', `/accounts/${member.username}`, { suspended: true });
    const statuses = open.map(async ({ sent, rest }) => {
      sent.end(rest);
      const [answer] = (await once(sent, 'response')) as [IncomingMessage];
      answer.resume();
      return answer.statusCode;
    });
    expect(await Promise.all(statuses)).toEqual([401, 401, 401]);
    const types = (await peer.mustReplay(session)).map((event) => field(event, 'type'));
    expect(types).not.toContain('session.message');
  });

  it('reveals this only to people who know its password', async () => {
    const { username } = await join();
    await ask('PATCH', `/accounts/${username}`, { suspended: true });
    const browser = createBrowser(service.webUrl);
    const answer = await browser.submit(await browser.get(SIGN_IN), SIGN_IN, {
      username,
      password: 'not the password',
    });
    expect(answer.text).not.toContain('suspended');
  });

  it('has agents that no one can invite, until it is resumed', async () => {
    const member = await join();
    const { agent, peer } = await joined(member.username);
    const invite = () => peer.post('/sessions', { invite: [agent.handle] });
    await ask('PATCH', `/accounts/${member.username}`, { suspended: true });
    mustDeny(await invite(), 404, 'NOT_FOUND');
    await ask('PATCH', `/accounts/${member.username}`, { suspended: false });
    expect((await invite()).status).toBe(201);
    expect(await stateOf(member.username)).toBe('active');
    // A client with a secret works again. A person who signed in by hand must sign in again.
    expect((await askClientToken(service.place, agent.credentials, service.baseUrl)).status).toBe(200);
    expect((await refresh(service.place, member.clientId, member.refreshToken)).status).toBe(401);
    expect((await signIn(member.username)).status).toBe(303);
  });
});

describe('a removed account', () => {
  it('is gone with its agents, leaves its sessions, and its name is never given again', async () => {
    const member = await join();
    const { agent, peer, session } = await joined(member.username);
    expect((await ask('DELETE', `/accounts/${member.username}`)).json).toEqual({ ok: true });
    mustDeny(await ask('GET', `/accounts/${member.username}`), 404, 'NOT_FOUND');
    mustDeny(await whoIs(member), 401, 'UNAUTHORIZED');
    mustDeny(await agent.get(`/sessions/${session}`), 401, 'UNAUTHORIZED');
    mustDeny(await peer.get(`/agents/${member.username}/${agent.name}`), 404, 'AGENT_NOT_FOUND');
    const participants = list(await peer.mustRead(session), 'participants');
    const left = participants.find((one) => field(one, 'handle') === agent.handle);
    expect(field(left, 'status')).toBe('left');
    expect((await signIn(member.username)).status).toBe(400);
    const browser = createBrowser(service.webUrl);
    const person = { username: member.username, display_name: 'Another', password: PASSWORD };
    const taken = await browser.submit(await browser.get(SIGN_IN), '/oauth/sign-up', person);
    expect([taken.status, taken.text]).toEqual([400, expect.stringContaining('taken')]);
  });
});

/** Adds a second agent with its own client to an account, in a session with another account's agent. */
async function joined(username: string): Promise<{ agent: Actor; peer: Actor; session: string }> {
  const peer = await service.createAgent('peer');
  const handle = `@${username}.second`;
  const account = createBrowser(service.webUrl);
  await account.submit(await account.get(SIGN_IN), SIGN_IN, { username, password: PASSWORD });
  const made = await account.submit(await account.get('/dashboard/new-agent'), '/dashboard/new-agent', {
    name: 'second',
    display_name: 'Second',
  });
  expect(made.status).toBe(303);
  const client = (await ask('POST', '/clients', { handle })).json;
  const agent = actorOf(service.place, handle, {
    clientId: text(client, 'client_id'),
    clientSecret: text(client, 'client_secret'),
  });
  await agent.post('/agents/me/allowlist', { entries: [peer.handle] });
  const session = await peer.mustCreate({ invite: [handle] });
  await agent.mustJoin(session);
  return { agent, peer, session };
}

describe('An account that the operator exports', () => {
  const exported = async (username: string) => {
    const answer = await ask('POST', `/accounts/${username}/export`);
    return { status: answer.status, json: answer.json as Record<string, unknown> };
  };

  it('has the form of its owner’s download: what its agents may see, and nothing else', async () => {
    const { username, accessToken } = await join();
    const mine = actorOf(service.place, `@${username}.main`, { clientId: '', clientSecret: '' });
    const { json: created } = await mine.post('/sessions', { topic: 'seen' }, { token: accessToken });
    const id = text(created, 'session_id');
    await mine.post(`/sessions/${id}/messages`, { content: 'a heron' }, { token: accessToken });
    const other = await service.createAgent('other');
    await other.mustCreate({ topic: 'unseen' });
    const { status, json } = await exported(username);
    expect(status).toBe(200);
    expect(field(json, 'account')).toMatchObject({ username });
    expect(list(json, 'sessions')).toMatchObject([
      { id, topic: 'seen', events: [{ type: 'session.message', payload: { content: 'a heron' } }] },
    ]);
    expect(list(json, 'connected_apps')).toHaveLength(1);
    expect(JSON.stringify(json)).not.toMatch(/unseen|secret|hash/);
  });

  it('can be suspended, but not removed', async () => {
    const { username } = await join();
    await ask('PATCH', `/accounts/${username}`, { suspended: true });
    expect((await exported(username)).status).toBe(200);
    await ask('DELETE', `/accounts/${username}`);
    expect((await exported(username)).status).toBe(404);
  });
});
