import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, keysOf } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "POST /sessions/{session_id}/messages", the Message resource, and docs/contract.md "Content".

const service = useService();

async function lastPayload(actor: { mustReplay(id: string): Promise<readonly unknown[]> }, id: string) {
  return field((await actor.mustReplay(id)).at(-1), 'payload');
}

rule(['spec/messages/content', 'wire/Content/content'], 'content is a non-empty string or array of parts', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const send = (body: unknown) => alice.post(`/sessions/${id}/messages`, body);
  for (const content of ['', [], {}, 1, null, true, ['text'], [null], [{}], [{ type: 'video', url: 'https://a.b' }]])
    mustDeny(await send({ content }), 400, 'VALIDATION_ERROR');
  mustDeny(await send({}), 400, 'VALIDATION_ERROR');
  mustSucceed(await send({ content: 'x' }), 201);
  mustSucceed(await send({ content: [{ type: 'text', text: 'x' }] }), 201);
});

rule(
  ['spec/messages/metadata', 'spec/Message/metadata'],
  'metadata is a JSON object and comes back as sent',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const metadata = { a: [1, { b: null }], ключ: '值', __proto__x: true };
    await alice.mustSend(id, 'x', metadata);
    expect(field(await lastPayload(alice, id), 'metadata')).toEqual(metadata);
    for (const bad of [[], 'text', 1, null])
      mustDeny(await alice.post(`/sessions/${id}/messages`, { content: 'x', metadata: bad }), 400, 'VALIDATION_ERROR');
  },
);

rule('spec/Message/metadata', 'keys that mean something to JavaScript are data like any other', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const body = '{"content":"x","metadata":{"__proto__":{"polluted":1},"constructor":{"prototype":2},"prototype":3}}';
  const answer = await alice.post(`/sessions/${id}/messages`, body);
  expect([201, 400]).toContain(answer.status);
  if (answer.status === 201) {
    const { text } = await alice.get(`/sessions/${id}/events`);
    expect(text).toContain('"__proto__":{"polluted":1}');
    expect(text).toContain('"constructor":{"prototype":2}');
  }
});

rule(
  ['spec/messages/response', 'wire/Sessions/messages'],
  'the answer is 201 with message_id and the sequence of the envelope',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const json = mustSucceed(await alice.post(`/sessions/${id}/messages`, { content: 'x' }), 201);
    expect(keysOf(json)).toEqual(['message_id', 'sequence']);
    const event = (await alice.mustReplay(id)).at(-1);
    expect(event).toMatchObject({
      sequence: field(json, 'sequence'),
      payload: { id: field(json, 'message_id'), sequence: field(json, 'sequence') },
    });
  },
);

rule(
  [
    'spec/Message/id',
    'spec/Message/session_id',
    'spec/Message/sender',
    'spec/Message/sequence',
    'spec/Message/created_at',
  ],
  'a message has exactly these fields',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const first = await alice.mustSend(id, 'one');
    const second = await alice.mustSend(id, 'two');
    expect(second.sequence).toBe(first.sequence + 1);
    expect(await lastPayload(alice, id)).toEqual({
      id: second.id,
      session_id: id,
      sender: alice.handle,
      sequence: second.sequence,
      content: 'two',
      created_at: expect.any(Number),
    });
    expect(second.id).toMatch(/^msg_[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  },
);

rule('spec/Message/content', 'text comes back byte for byte', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  for (const content of ['  spaces  ', 'a\u0000b', '\u202eabc', '👩‍👩‍👧', 'line\r\nline', '\\u0041', '"', ' \n']) {
    await alice.mustSend(id, content);
    expect(field(await lastPayload(alice, id), 'content')).toBe(content);
  }
});

rule(['spec/Part/text', 'wire/Content/text'], 'a text part has non-empty text and no other key', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const part = { type: 'text', text: 'x' };
  await alice.mustSend(id, [part, part]);
  expect(field(await lastPayload(alice, id), 'content')).toEqual([part, part]);
  for (const bad of [{ type: 'text' }, { type: 'text', text: '' }, { type: 'text', text: 1 }, { ...part, extra: 1 }])
    mustDeny(await alice.post(`/sessions/${id}/messages`, { content: [bad] }), 400, 'VALIDATION_ERROR');
});

rule(['spec/Part/data', 'wire/Content/data'], 'a data part holds a JSON object', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const part = { type: 'data', data: { deep: { list: [1, null, 'x'] }, empty: {} } };
  await alice.mustSend(id, [part]);
  expect(field(await lastPayload(alice, id), 'content')).toEqual([part]);
  for (const data of [[], 'x', 1, null, true, undefined])
    mustDeny(
      await alice.post(`/sessions/${id}/messages`, { content: [{ type: 'data', data }] }),
      400,
      'VALIDATION_ERROR',
    );
});

rule('wire/Content/file', 'a file part has exactly one of attachment_id and url', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const part = {
    type: 'file',
    url: 'https://files.example/a.pdf',
    name: 'a.pdf',
    mime_type: 'application/pdf',
    size: 3,
  };
  await alice.mustSend(id, [part]);
  expect(field(await lastPayload(alice, id), 'content')).toEqual([part]);
  const attachment = await alice.mustUpload();
  for (const bad of [
    { type: 'file' },
    { type: 'file', url: 'https://a.b/c', attachment_id: attachment },
    { type: 'file', url: 'javascript:alert(1)' },
    { type: 'file', url: 'https://a.b/c', size: -1 },
    { type: 'file', url: 'https://a.b/c', size: 1.5 },
    { type: 'file', url: 'https://a.b/c', data_uri: 'data:,x' },
    { type: 'file', attachment_id: 'att_nonsense' },
  ])
    mustDeny(await alice.post(`/sessions/${id}/messages`, { content: [bad] }), 400, 'VALIDATION_ERROR');
});

rule(
  'wire/Content/image',
  'an image part has exactly one of attachment_id, url and data_uri, which holds an image',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const byUrl = { type: 'image', url: 'https://files.example/a.png', name: 'a.png', mime_type: 'image/png' };
    const byData = { type: 'image', data_uri: 'data:image/png;base64,iVBORw0KGgo=' };
    await alice.mustSend(id, [byUrl, byData]);
    expect(field(await lastPayload(alice, id), 'content')).toEqual([byUrl, byData]);
    for (const bad of [
      { type: 'image' },
      { ...byUrl, data_uri: byData.data_uri },
      { type: 'image', data_uri: 'https://a.b/c.png' },
      { type: 'image', data_uri: 'data:text/html,<b>not a picture</b>' },
      { ...byUrl, size: 3 },
    ])
      mustDeny(await alice.post(`/sessions/${id}/messages`, { content: [bad] }), 400, 'VALIDATION_ERROR');
  },
);

rule('wire/Content/size', 'a message body has at most 256 KiB', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const bodyOf = (length: number): string => {
    const frame = '{"content":""}'.length;
    return `{"content":"${'x'.repeat(length - frame)}"}`;
  };
  mustSucceed(await alice.post(`/sessions/${id}/messages`, bodyOf(256 * 1024)), 201);
  const tooLarge = await alice.post(`/sessions/${id}/messages`, bodyOf(256 * 1024 + 1));
  expect([400, 413]).toContain(tooLarge.status);
  expect(field(tooLarge.json, 'error.code')).toBe('VALIDATION_ERROR');
});
