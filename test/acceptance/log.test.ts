import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, callApi, createActor, type Operator } from '../support/actors.js';
import { mustGetCode, mustGrant } from '../support/grants.js';
import { request } from '../support/http.js';
import { discover, type Place, redeemCode, refresh, revoke } from '../support/oauth.js';
import { until } from '../support/until.js';
import { createHome, type Home, type ServiceProcess, startServe } from './program.js';

const CANARY = 'canary\r\nfake="line" level=info \u202e\u2028said';

interface Line {
  readonly time: string;
  readonly level: string;
  readonly event: string;
  readonly [field: string]: unknown;
}

/** Makes traffic and returns every secret that it used, none of which may appear in a log. */
async function makeTraffic(place: Place, operator: Operator): Promise<string[]> {
  const alice = await createActor(place, operator, 'alice');
  const bob = await createActor(place, operator, 'bob');
  const socket = await bob.mustConnect();
  const id = await alice.mustCreate({ topic: CANARY, invite: [bob.handle], initial_message: { content: CANARY } });
  await socket.mustReceiveEvent('session.invited', id);
  await socket.close();
  const attachment = await alice.mustUpload();
  await alice.mustSend(id, [{ type: 'file', attachment_id: attachment, name: 'canary-name.png' }]);
  const { url } = (await alice.get(`/attachments/${attachment}`)).json as { url: string };
  await request(url);
  await request(`${url}x`);
  await alice.get(`/search/messages?q=${encodeURIComponent('canary fake')}`);

  const grant = await mustGrant(place, operator, alice.handle);
  const unused = await mustGetCode(place, operator, alice.handle);
  await redeemCode(place, unused.clientId, `${unused.code}x`, unused.verifier);
  await redeemCode(place, unused.clientId, unused.code, `${unused.verifier}x`);
  const second = await refresh(place, grant.clientId, grant.refreshToken);
  const rotated = second.json as { access_token: string; refresh_token: string };
  await refresh(place, grant.clientId, grant.refreshToken);
  await revoke(place, grant.clientId, rotated.refresh_token);
  await failWithSecrets(place, grant.accessToken, alice);
  return [
    ...['canary', 'said', alice.credentials.clientSecret, bob.credentials.clientSecret, operator.secret],
    ...[await alice.token(), await bob.token('ws'), grant.accessToken, grant.refreshToken, rotated.access_token],
    ...[rotated.refresh_token, grant.code, grant.verifier, unused.code, unused.verifier, 'hunter2'],
    new URL(url).searchParams.get('signature') ?? 'no signature',
    ...[attachment, id, alice.owner],
  ];
}

/** Makes requests that fail where a log might repeat their secrets. */
async function failWithSecrets(place: Place, token: string, alice: Actor): Promise<void> {
  const { baseUrl } = place;
  await request(`${baseUrl}/sessions?access_token=${token}`);
  await request(`${baseUrl}/canary%0d%0alevel=info/${token}`);
  await request(`${baseUrl}/sessions/${token}`, { headers: { authorization: `Bearer ${token.slice(0, -4)}` } });
  await callApi(baseUrl, await alice.token(), 'POST', '/sessions', `{"topic": "canary`);
  await callApi(baseUrl, await alice.token(), 'POST', '/sessions', { canary: token });
  await request(`${place.tokenUrl}?client_secret=hunter2`, { method: 'POST', body: 'client_secret=hunter2' });
  await request(`${place.authorizeUrl}?code=hunter2&client_id=${token}&redirect_uri=https://canary.example`);
}

describe('the log of a service', () => {
  let home: Home;
  let service: ServiceProcess;
  beforeAll(() => {
    home = createHome();
  });
  afterAll(() => home.dispose());

  const serve = async (format: string, ...more: string[]): Promise<{ secrets: string[]; log: string }> => {
    service = await startServe(home, ['--log', format, '--limits', 'off', ...more]);
    const record = JSON.parse(readFileSync(join(home.directory, 'run/asp-cli/serve/default.json'), 'utf8'));
    const place = await discover(service.url);
    const secrets = await makeTraffic(place, { url: record.operator_url, secret: record.secret });
    await request(`${place.issuer}/health`);
    await until('the last request is logged', async () => /\/health/.test(service.running.stderr()));
    await service.stop();
    return { secrets: [...secrets, record.secret], log: service.running.stderr() };
  };

  it('as JSON is one document per line, with one line per request, and contains no secrets or message content', async () => {
    const { secrets, log } = await serve('json');
    const lines = log
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Line);
    expect(lines.length).toBeGreaterThan(25);
    for (const { time, level, event } of lines) {
      expect(new Date(time).toISOString()).toBe(time);
      expect(level).toMatch(/^(info|error|security)$/);
      expect(event).toMatch(/^[a-z_]+$/);
    }
    const requests = lines.filter(({ event }) => event === 'request');
    expect(requests).toContainEqual(
      expect.objectContaining({ method: 'POST', route: '/v1/sessions', status: 201, ms: expect.any(Number) }),
    );
    expect(requests).toContainEqual(expect.objectContaining({ route: '/v1/sessions/:session_id/messages' }));
    expect(requests).toContainEqual(expect.objectContaining({ route: 'none', status: 404 }));
    expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
    for (const secret of secrets) expect(log).not.toContain(secret);
    expect(log).not.toMatch(/eyJ|[\u007f-\u009f\u2028\u202e]/);
  });

  it('as text is one line per event, with no more content', async () => {
    const { secrets, log } = await serve('text');
    const requests = log.split('\n').filter((line) => / info request /.test(line));
    for (const line of requests)
      expect(line).toMatch(
        /^\d{4}-\d\d-\d\dT[\d:.]+Z info request method=[A-Z]+ route=[/\w:.*-]+ status=\d{3} ms=\d+ request_id=req_\w{20}$/,
      );
    expect(requests.length).toBeGreaterThan(20);
    for (const secret of secrets) expect(log).not.toContain(secret);
    expect(log).not.toMatch(/eyJ|[\u007f-\u009f\u2028\u202e]/);
  });

  it.each(['json', 'text'])(
    'at its most detailed, as %s, says who requested what, but contains no secret',
    async (format) => {
      const { secrets, log } = await serve(format, '--log-level', 'debug');
      for (const event of ['request_received', 'authenticated', 'refused', 'socket_closed', 'refresh_token_reused'])
        expect(log).toMatch(new RegExp(`(debug|info|security) ${event} |"event":"${event}"`));
      expect(log).toMatch(/agent_id[=":]+agt_/);
      const isOfRequest = /request_received|authenticated|refused|[ "]request[ "]/;
      for (const line of log.split('\n').filter((text) => isOfRequest.test(text)))
        expect(line).toMatch(/request_id[=":]+req_\w{20}/);
      for (const secret of secrets) if (!/^(att|sess)_/.test(secret)) expect(log).not.toContain(secret);
      expect(log).not.toMatch(/eyJ|[\u007f-\u009f\u2028\u202e]/);
    },
  );

  it('at error level has no line for requests that succeed or are refused', async () => {
    const { log } = await serveQuietly('--log', 'json', '--log-level', 'error');
    expect(log).not.toContain('"request"');
  });

  it('is text if only a level is set', async () => {
    const { log } = await serveQuietly('--log-level', 'info');
    expect(log).toMatch(/ info request method=GET route=\/health status=200 /);
  });

  it('does not mention requests by default', async () => {
    const { log } = await serveQuietly();
    expect(log).not.toMatch(/request method=|"request"/);
  });

  async function serveQuietly(...more: string[]): Promise<{ log: string }> {
    const quiet = await startServe(home, more);
    await request(`${new URL(quiet.url).origin}/health`);
    await quiet.stop();
    return { log: quiet.running.stderr() };
  }
});
