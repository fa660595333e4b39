import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { request } from '../support/http.js';
import { field, text } from '../support/json.js';
import { multipart } from '../support/multipart.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// docs/contract.md "Aliases". accounts.test.ts covers those of the account.

const service = useService();

rule('wire/Aliases/agents-me-allowlist', '/agents/me/allowlist is the acting agent’s allowlist', async () => {
  const alice = await service.actor('alice');
  const path = `/agents/${alice.owner}/${alice.name}/allowlist`;
  const added = mustSucceed(await alice.post('/agents/me/allowlist', { entries: ['@zoe.main'] }));
  expect(mustSucceed(await alice.get(path))).toEqual(added);
  expect(mustSucceed(await alice.get('/agents/me/allowlist'))).toEqual(added);
  const left = mustSucceed(await alice.delete('/agents/me/allowlist/%40zoe.main'));
  expect(mustSucceed(await alice.get(path))).toEqual(left);
});

rule('wire/Aliases/agents-me-blocks', '/agents/me/blocks is /blocks', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const block = mustSucceed(await alice.post('/agents/me/blocks', { handle: bob.handle }), 201);
  expect(field(mustSucceed(await alice.get('/blocks')), 'blocks')).toEqual([block]);
  expect(mustSucceed(await alice.get('/agents/me/blocks'))).toEqual(mustSucceed(await alice.get('/blocks')));
  const path = `/agents/me/blocks/${encodeURIComponent(bob.handle)}`;
  expect(mustSucceed(await alice.delete(path))).toEqual({ unblocked: true });
  expect(field(mustSucceed(await alice.get('/blocks')), 'blocks')).toEqual([]);
});

rule('wire/Aliases/search', '/search is /search/directory', async () => {
  const alice = await service.actor('alice');
  expect(mustSucceed(await alice.get(`/search?q=${alice.owner}`))).toEqual(
    mustSucceed(await alice.get(`/search/directory?q=${alice.owner}`)),
  );
});

rule('wire/Aliases/files', 'a file is an attachment under another name, and its parts come back as sent', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const bytes = 'name,count\nfile,1\n';
  const upload = async () => {
    const { type, body } = multipart([{ filename: 'a b.csv', type: 'text/csv', bytes }]);
    return mustSucceed(await alice.post('/files', body, { headers: { 'content-type': type } }), 201);
  };
  const [file, picture, other] = await Promise.all([upload(), upload(), upload()]);
  const id = text(file, 'id');
  expect(id).toMatch(/^file_[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  expect(file).toEqual({ id, filename: 'a b.csv', content_type: 'text/csv', size_bytes: bytes.length });

  const session = await alice.mustCreate({ invite: [bob.handle] });
  const attachmentId = text(other, 'id').replace('file_', 'att_');
  const content = [
    { type: 'file', file_id: id, size_bytes: 1 },
    { type: 'image', file_id: text(picture, 'id') },
    { type: 'file', attachment_id: attachmentId },
  ];
  await bob.mustJoin(session);
  mustSucceed(await alice.post(`/sessions/${session}/messages`, { content }), 201);
  const seen = (await bob.mustReplay(session)).at(-1);
  const names = { name: 'a b.csv', mime_type: 'text/csv' };
  expect(field(seen, 'payload.content')).toEqual([
    { ...content[0], ...names },
    { ...content[1], ...names },
    { ...content[2], ...names, size: bytes.length },
  ]);
  mustDeny(await alice.post(`/sessions/${session}/messages`, { content: [content[0]] }), 404, 'NOT_FOUND');

  for (const path of [`/files/${id}`, `/files/${id.replace('file_', 'att_')}`]) {
    const answer = await bob.get(path);
    expect(answer.status).toBe(302);
    expect(answer.json).toMatchObject({ id, size_bytes: bytes.length, url: answer.headers['location'] });
    expect((await request(answer.headers['location'] ?? '')).text).toBe(bytes);
  }
  expect(mustSucceed(await bob.get(`/attachments/${attachmentId}`))).toMatchObject({ id: attachmentId, size: 18 });
  const stranger = await service.actor('stranger');
  const denied = await stranger.get(`/files/${id}`);
  mustDeny(denied, 404, 'NOT_FOUND');
  expect((await stranger.get('/files/file_01ARZ3NDEKTSV4RRFFQ69G5FAV')).text).toBe(denied.text);
});

rule('wire/Aliases/files', 'a part names one attachment once, under one name', async () => {
  const alice = await service.actor('alice');
  const session = await alice.mustCreate();
  const id = await alice.mustUpload();
  const fileId = id.replace('att_', 'file_');
  const bad = [
    [{ type: 'file', attachment_id: id, file_id: fileId }],
    [
      { type: 'file', attachment_id: id },
      { type: 'file', file_id: fileId },
    ],
    [{ type: 'file', file_id: id }],
    [{ type: 'file', attachment_id: fileId }],
    [{ type: 'image', file_id: fileId, url: 'https://app.example/a.png' }],
    Array.from({ length: 6 }, (_, index) => ({ type: 'file', file_id: `file_0000000000000000000000000${index}` })),
  ];
  for (const content of bad)
    mustDeny(await alice.post(`/sessions/${session}/messages`, { content }), 400, 'VALIDATION_ERROR');
  mustSucceed(await alice.post(`/sessions/${session}/messages`, { content: [{ type: 'file', file_id: fileId }] }), 201);
});

rule('wire/Aliases/sockets', 'a socket opens at /connect, at / and below the base path', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const root = service.place.wsUrl.replace(/\/connect$/, '');
  const basePath = new URL(service.place.baseUrl).pathname;
  for (const url of [`${root}/connect`, `${root}/`, `${root}${basePath}/connect`]) {
    const socket = await alice.mustConnect(undefined, url);
    const id = await bob.mustCreate({ invite: [alice.handle] });
    await socket.mustReceiveEvent('session.invited', id);
    await socket.close();
  }
});
