import { afterAll, beforeAll, describe, expect } from 'vitest';

import { callApi } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { list, text } from '../support/json.js';
import { until } from '../support/until.js';
import { accountTokenOf, askWebhook, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// Which addresses an account can have the service call for its agents: docs/contract.md, Webhooks.

describe('A service without webhooks', () => {
  const service = useService();
  rule('wire/Webhooks/absent', 'says that it calls none', async () => {
    const bob = await service.actor('bob');
    mustDeny(await askWebhook(service, bob, 'GET'), 403, 'FEATURE_NOT_AVAILABLE');
    mustDeny(await askWebhook(service, bob, 'POST', { url: 'https://example.org/x' }), 403, 'FEATURE_NOT_AVAILABLE');
  });
});

describe('A service with webhooks', () => {
  const service = useService({ webhooks: 'any' });
  let receiver: WebhookReceiver;
  beforeAll(async () => {
    receiver = await startWebhookReceiver();
  });
  afterAll(() => receiver.close());

  rule('wire/Webhooks/settings', 'keeps the webhook of an agent for its account alone', async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    expect(mustSucceed(await askWebhook(service, bob, 'GET'))).toEqual({ webhook: null });
    const body = { url: receiver.url('/settings'), secret: receiver.secret };
    const answer = mustSucceed(await askWebhook(service, bob, 'POST', body));
    expect(answer).toEqual({
      webhook: {
        url: body.url,
        status: 'new',
        set_at: expect.any(Number),
        answered_at: null,
        failing_since: null,
        failure: null,
        next_try_at: null,
      },
    });
    const path = `/agents/${bob.owner}/${bob.name}/webhook`;
    mustDeny(await bob.get(path), 403, 'FORBIDDEN');
    const accessToken = await accountTokenOf(service, alice.handle);
    mustDeny(await callApi(service.place.baseUrl, accessToken, 'GET', path), 403, 'FORBIDDEN');
    mustSucceed(await askWebhook(service, bob, 'DELETE'), 204);
    mustSucceed(await askWebhook(service, bob, 'DELETE'), 204);
    expect(mustSucceed(await askWebhook(service, bob, 'GET'))).toEqual({ webhook: null });
  });

  rule(
    ['wire/Webhooks/calls', 'wire/Webhooks/proof'],
    'sends a test and then what others do, and counts a message as delivered once its call is answered',
    async () => {
      const { alice, bob } = await service.actors('alice', 'bob');
      mustSucceed(await askWebhook(service, bob, 'POST', { url: receiver.url('/calls'), secret: receiver.secret }));
      const session = await alice.mustCreate({ invite: [bob.handle] });
      await bob.mustJoin(session);
      receiver.answer((reply, { json }) => reply.writeHead(json['type'] === 'session.message' ? 500 : 204).end());
      const { sequence } = await alice.mustSend(session, 'hello');
      await bob.mustSend(session, 'my own');
      const texts = (): unknown[] => receiver.textsAt('/calls');
      await until('the first try', async () => texts().length > 0);
      const stateOf = async (): Promise<string> => {
        const json = mustSucceed(await alice.get(`/sessions/${session}/delivery?sequence=${sequence}`));
        return text(list(json, 'recipients')[0], 'state');
      };
      expect(await stateOf()).toBe('stored');
      receiver.answer();
      await until('delivered', async () => (await stateOf()) === 'delivered');
      expect(new Set(texts())).toEqual(new Set(['hello']));
      expect(receiver.calls.filter((call) => call.path === '/calls')[0]?.json['type']).toBe('webhook.test');
      const replayed = (await bob.mustReplay(session)) as readonly Record<string, unknown>[];
      for (const { json } of receiver.eventsAt('/calls'))
        expect(json).toEqual(replayed.find((event) => event['sequence'] === json['sequence']));
      expect(receiver.faults).toEqual([]);
    },
  );
});
