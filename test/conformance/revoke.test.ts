import { expect } from 'vitest';

import { actorOf, callApi, operate } from '../support/actors.js';
import { mustRefuse, mustSucceed } from '../support/answers.js';
import { newPerson, openBrowser } from '../support/browser.js';
import { mustGrant } from '../support/grants.js';
import { text } from '../support/json.js';
import { askClientToken, mustRegister, refresh, revoke } from '../support/oauth.js';
import { mustFindForm, signUp } from '../support/person.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "POST /revoke" (RFC 7009).

const service = useService();
const both = () => [service.place.baseUrl, service.place.wsUrl];
const grantTo = (handle: string, options = {}) => mustGrant(service.place, service.operator, handle, options);

rule(
  ['spec/revoke/family', 'wire/OAuth/revoke', 'wire/Live/close-codes'],
  'revoking ends the family and closes its sockets with 1008, and no others',
  async () => {
    const alice = await service.actor('alice');
    const grant = await grantTo(alice.handle, { resource: both() });
    const other = await grantTo(alice.handle, { clientId: grant.clientId, resource: both() });
    const rotated = mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken, { resource: both() }));
    const [first, second] = [
      await alice.mustConnect(grant.accessToken),
      await alice.mustConnect(text(rotated, 'access_token')),
    ];
    const bystander = await alice.mustConnect(other.accessToken);
    const answer = await revoke(service.place, grant.clientId, text(rotated, 'refresh_token'));
    expect([answer.status, answer.text]).toEqual([200, '']);
    expect([await first.mustBeClosed(2_000), await second.mustBeClosed(2_000)]).toEqual([1008, 1008]);
    mustRefuse(await refresh(service.place, grant.clientId, text(rotated, 'refresh_token')), 401, 'invalid_client');
    await bystander.mustPing();
    mustSucceed(await refresh(service.place, other.clientId, other.refreshToken));
    await bystander.close();
  },
);

rule('spec/revoke/family', 'an ancestor of the current token revokes as well', async () => {
  const alice = await service.actor('alice');
  const grant = await grantTo(alice.handle);
  const rotated = mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
  expect((await revoke(service.place, grant.clientId, grant.refreshToken)).status).toBe(200);
  mustRefuse(await refresh(service.place, grant.clientId, text(rotated, 'refresh_token')), 401, 'invalid_client');
});

rule('spec/revoke/always-200', 'unknown, foreign, garbled and already revoked tokens get the same answer', async () => {
  const alice = await service.actor('alice');
  const grant = await grantTo(alice.handle);
  const stranger = await mustRegister(service.place);
  const answers = [
    await revoke(service.place, stranger, grant.refreshToken),
    await revoke(service.place, grant.clientId, 'nonsense'),
    await revoke(service.place, grant.clientId, '\u0000'),
    await revoke(service.place, 'oac_01ARZ3NDEKTSV4RRFFQ69G5FAV', grant.refreshToken),
  ];
  const rotated = mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
  const current = text(rotated, 'refresh_token');
  answers.push(await revoke(service.place, grant.clientId, current, 'access_token'));
  mustRefuse(await refresh(service.place, grant.clientId, current), 401, 'invalid_client');
  answers.push(await revoke(service.place, grant.clientId, current));
  for (const answer of answers) expect([answer.status, answer.text]).toEqual([200, '']);
});

rule(['spec/revoke/access-token', 'spec/Refresh/stateless'], 'access tokens stay valid', async () => {
  const alice = await service.actor('alice');
  const grant = await grantTo(alice.handle);
  const works = async () => mustSucceed(await callApi(service.place.baseUrl, grant.accessToken, 'GET', '/agents/me'));
  expect((await revoke(service.place, grant.clientId, grant.accessToken, 'access_token')).status).toBe(200);
  await works();
  mustSucceed(await refresh(service.place, grant.clientId, grant.refreshToken));
  await revoke(service.place, grant.clientId, grant.refreshToken);
  await works();
});

rule(
  'spec/revoke/client',
  'when its agent is removed, a confidential client loses its sockets and gets no more tokens',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const [socket, bystander] = [await alice.mustConnect(), await bob.mustConnect()];
    await operate(service.operator, 'DELETE', `/agents/${encodeURIComponent(alice.handle)}`);
    expect(await socket.mustBeClosed(2_000)).toBe(1008);
    mustRefuse(await askClientToken(service.place, alice.credentials, service.place.baseUrl), 401, 'invalid_client');
    await bystander.mustPing();
    await bystander.close();
  },
);

rule(
  ['spec/revoke/client', 'spec/Flows/client_credentials'],
  'a client created and revoked in the dashboard loses its sockets and gets no more tokens, and others continue',
  async () => {
    const [browser, person] = [openBrowser(), newPerson('alice')];
    const dashboard = new URL('/dashboard', service.place.authorizeUrl).href;
    const press = async (address: string, button: RegExp, values = {}) => {
      const page = await browser.open(new URL(address, dashboard).href);
      return browser.submit(page, mustFindForm(page, button), values, button);
    };
    await signUp(browser, await browser.open(dashboard), person);
    await press('/dashboard/new-agent', /^create agent$/i, { name: person.agentName, display_name: 'Main' });
    const make = async (name: string) => {
      const page = await press('/dashboard/new-client', /^create api credential$/i, { name, agent: person.handle });
      const [clientId = ''] = /oac_[0-9A-Z]{26}/.exec(page.text) ?? [];
      const [clientSecret = ''] = /asp_cs_[\w-]+/.exec(page.text) ?? [];
      expect((await browser.open(page.url)).text).not.toContain(clientSecret);
      return { address: page.url, actor: actorOf(service.place, person.handle, { clientId, clientSecret }) };
    };
    const [leaving, staying] = [await make('leaving'), await make('staying')];
    const [socket, bystander] = [await leaving.actor.mustConnect(), await staying.actor.mustConnect()];
    mustSucceed(await leaving.actor.get('/agents/me'));
    await press(`${leaving.address}/revoke`, /^revoke api credential$/i);
    expect(await socket.mustBeClosed(2_000)).toBe(1008);
    for (const resource of both()) {
      mustRefuse(await askClientToken(service.place, leaving.actor.credentials, resource), 401, 'invalid_client');
    }
    mustSucceed(await leaving.actor.get('/agents/me'));
    mustSucceed(await askClientToken(service.place, staying.actor.credentials, service.place.baseUrl));
    await bystander.mustPing();
    await bystander.close();
  },
);
