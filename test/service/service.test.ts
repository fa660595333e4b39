import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { request } from '../support/http.js';
import { startTestService, type TestService } from '../support/service.js';

describe('a service', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startTestService();
  });
  afterAll(() => service.stop());

  it('says only that it is healthy (wire: Common rules, health)', async () => {
    const answer = await request(`${service.authUrl}/health`);
    expect(answer.status).toBe(200);
    expect(answer.text).toBe('{"ok":true}');
  });

  it('lets two agents hold a session, live', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const socket = await bob.mustConnect();
    const created = await alice.post('/sessions', { invite: [bob.handle], initial_message: { content: 'hello' } });
    expect(created.status, created.text).toBe(201);
    const { session_id: id } = created.json as { session_id: string };
    await socket.mustReceiveEvent('session.invited', id);
    expect((await bob.post(`/sessions/${id}/join`)).status).toBe(200);
    await socket.mustReceiveEvent('session.joined', id);
    const sent = await alice.post(`/sessions/${id}/messages`, { content: 'how are you?' });
    expect(sent.status).toBe(201);
    await socket.mustReceiveEvent('session.message', id);
    await socket.close();
  });
});
