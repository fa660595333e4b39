import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { request } from '../support/http.js';
import { field, keysOf, text } from '../support/json.js';
import { multipart, SAMPLE } from '../support/multipart.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "POST /attachments", the Attachment resource and the limits; docs/contract.md.

const service = useService();
const MEGABYTE = 1024 * 1024;

rule(
  [
    'spec/POST-attachments/request',
    'spec/POST-attachments/response',
    'spec/Attachment/id',
    'spec/Attachment/filename',
    'spec/Attachment/content_type',
    'spec/Attachment/size',
    'wire/Attachments/POST',
  ],
  '201 with exactly id, filename, content_type and size',
  async () => {
    const alice = await service.actor('alice');
    const answer = await alice.upload({ filename: 'note.txt', type: 'text/plain', bytes: 'hällo' });
    expect(mustSucceed(answer, 201)).toEqual({
      id: expect.stringMatching(/^att_/),
      filename: 'note.txt',
      content_type: 'text/plain',
      size: 6,
    });
  },
);

rule(['spec/Constants/attachment-types', 'spec/Attachment/content_type'], 'the eight types and no others', async () => {
  const alice = await service.actor('alice');
  for (const [type, bytes] of Object.entries(SAMPLE))
    expect(field(mustSucceed(await alice.upload({ filename: 'f', type, bytes }), 201), 'content_type')).toBe(type);
  for (const type of ['text/html', 'image/svg+xml', 'application/xml', 'application/octet-stream', 'image/webp', 'x'])
    mustDeny(await alice.upload({ filename: 'f', type, bytes: 'plain' }), 400, 'VALIDATION_ERROR');
});

rule('spec/Constants/signatures', 'what claims to be PDF, PNG, JPEG or GIF must begin as one', async () => {
  const alice = await service.actor('alice');
  const signed = ['application/pdf', 'image/png', 'image/jpeg', 'image/gif'];
  for (const declared of signed) {
    for (const actual of Object.keys(SAMPLE).filter((type) => type !== declared))
      mustDeny(
        await alice.upload({ filename: 'f', type: declared, bytes: SAMPLE[actual] ?? '' }),
        400,
        'VALIDATION_ERROR',
      );
    mustDeny(await alice.upload({ filename: 'f', type: declared, bytes: 'x' }), 400, 'VALIDATION_ERROR');
  }
});

rule('wire/Attachments/POST', 'text must be UTF-8 without NUL', async () => {
  const alice = await service.actor('alice');
  for (const type of ['text/plain', 'text/markdown', 'text/csv', 'application/json']) {
    for (const bytes of [Buffer.from([0x61, 0xff, 0x62]), Buffer.from([0xc3]), Buffer.from('a\u0000b')])
      mustDeny(await alice.upload({ filename: 'f', type, bytes }), 400, 'VALIDATION_ERROR');
  }
  mustSucceed(await alice.upload({ filename: 'f', type: 'text/plain', bytes: '\ufeffgrüße 👋' }), 201);
});

rule('wire/Attachments/POST', 'exactly one part, named file, not empty', async () => {
  const alice = await service.actor('alice');
  const send = (parts: Parameters<typeof multipart>[0]) => {
    const { type, body } = multipart(parts);
    return alice.post('/attachments', body, { headers: { 'content-type': type } });
  };
  for (const parts of [
    [],
    [{ bytes: '' }],
    [{ name: 'upload', bytes: 'x' }],
    [{ bytes: 'x' }, { bytes: 'y' }],
    [{ bytes: 'x' }, { name: 'other', bytes: 'y' }],
  ])
    mustDeny(await send(parts), 400, 'VALIDATION_ERROR');
  for (const type of ['multipart/form-data', 'application/json', 'multipart/mixed; boundary=x'])
    expect((await alice.post('/attachments', '--x\r\n', { headers: { 'content-type': type } })).status).toBeOneOf([
      400, 415,
    ]);
});

rule(
  ['spec/Constants/attachment-size', 'wire/Attachments/POST'],
  'exactly 10 MB is accepted, one byte more is not',
  async () => {
    const alice = await service.actor('alice');
    const fits = await alice.upload({ filename: 'f.txt', type: 'text/plain', bytes: Buffer.alloc(10 * MEGABYTE, 'a') });
    expect(field(mustSucceed(fits, 201), 'size')).toBe(10 * MEGABYTE);
    const tooLarge = { filename: 'f.txt', type: 'text/plain', bytes: Buffer.alloc(10 * MEGABYTE + 1, 'a') };
    mustDeny(await alice.upload(tooLarge), 400, 'VALIDATION_ERROR');
  },
);

rule('wire/Attachments/filename', 'the name is a safe base name', async () => {
  const alice = await service.actor('alice');
  const names: readonly (readonly [string, string])[] = [
    ['../../etc/passwd', 'passwd'],
    ['C:\\temp\\a.txt', 'a.txt'],
    ['a<>b|c.txt', 'a_b_c.txt'],
    ['...hidden...', 'hidden'],
    ['with space-_.txt', 'with space-_.txt'],
    ['grüße.txt', 'gr_e.txt'],
    ['..', 'file'],
    ['/', 'file'],
    [`${'n'.repeat(300)}.txt`, ''],
  ];
  for (const [given, kept] of names) {
    const json = mustSucceed(await alice.upload({ filename: given, type: 'text/plain', bytes: 'x' }), 201);
    const filename = text(json, 'filename');
    expect(filename.length).toBeLessThanOrEqual(180);
    expect(filename).toMatch(/^[A-Za-z0-9._ -]+$/);
    if (kept !== '') expect(filename).toBe(kept);
  }
});

rule(
  ['wire/Attachments/GET', 'spec/Attachment/private', 'wire/Attachments/url'],
  'a fresh signed address returns the bytes, as a download, without a bearer',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustUpload({ filename: 'a.txt', type: 'text/plain', bytes: 'the bytes' });
    const json = mustSucceed(await alice.get(`/attachments/${id}`));
    expect(keysOf(json)).toEqual(['content_type', 'filename', 'id', 'size', 'url', 'url_expires_at']);
    const url = text(json, 'url');
    const file = await request(url);
    expect([file.status, file.text]).toEqual([200, 'the bytes']);
    expect(file.headers['content-disposition']).toMatch(/^attachment/);
    expect(file.headers['x-content-type-options']).toBe('nosniff');
    expect(Number(field(json, 'url_expires_at')) - Date.now()).toBeGreaterThan(4 * 60_000);
    expect(Number(field(json, 'url_expires_at')) - Date.now()).toBeLessThan(6 * 60_000);
  },
);

rule('wire/Attachments/url', 'any change of the address is 404', async () => {
  const alice = await service.actor('alice');
  const read = async () => text((await alice.get(`/attachments/${await alice.mustUpload()}`)).json, 'url');
  const [url, other] = [new URL(await read()), new URL(await read())];
  for (const name of url.searchParams.keys()) {
    const changed = new URL(url);
    changed.searchParams.set(name, `${url.searchParams.get(name)}0`);
    expect((await request(changed.href)).status).toBe(404);
    const bare = new URL(url);
    bare.searchParams.delete(name);
    expect((await request(bare.href)).status).toBe(404);
  }
  const swapped = new URL(url);
  swapped.pathname = other.pathname;
  if (swapped.pathname !== url.pathname) expect((await request(swapped.href)).status).toBe(404);
  expect((await request(url.href, { method: 'POST' })).status).toBeOneOf([404, 405]);
  expect((await request(url.href)).status).toBe(200);
});

rule('wire/Attachments/GET', 'pending: only its uploader sees it', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustUpload();
  mustSucceed(await alice.get(`/attachments/${id}`));
  mustDeny(await bob.get(`/attachments/${id}`), 404, 'NOT_FOUND');
  mustDeny(await alice.get('/attachments/att_01ARZ3NDEKTSV4RRFFQ69G5FAV'), 404, 'NOT_FOUND');
});

rule(['wire/Attachments/GET', 'spec/Service/rule-6'], 'attached: those who may see the message see it', async () => {
  const { alice, bob, carol, dave } = await service.actors('alice', 'bob', 'carol', 'dave');
  const erin = await service.actor('erin');
  const session = await alice.mustCreate({ invite: [bob.handle, carol.handle, dave.handle] });
  await bob.mustJoin(session);
  await carol.mustJoin(session);
  await carol.mustLeave(session);
  const id = await alice.mustUpload();
  await alice.mustSend(session, [{ type: 'file', attachment_id: id }]);
  for (const actor of [alice, bob]) mustSucceed(await actor.get(`/attachments/${id}`));
  for (const actor of [carol, dave, erin]) mustDeny(await actor.get(`/attachments/${id}`), 404, 'NOT_FOUND');
  await bob.mustLeave(session);
  mustSucceed(await bob.get(`/attachments/${id}`));
  await dave.mustJoin(session);
  mustSucceed(await dave.get(`/attachments/${id}`));
});

rule(
  ['spec/Part/file', 'spec/Part/image', 'wire/Content/echo'],
  'a part keeps its attachment_id, and gets the name, type and size that the sender left out',
  async () => {
    const alice = await service.actor('alice');
    const session = await alice.mustCreate();
    const bytes = SAMPLE['image/png'] ?? Buffer.alloc(0);
    const [file, image] = [
      await alice.mustUpload({ filename: 'p.png' }),
      await alice.mustUpload({ filename: 'q.png' }),
    ];
    const named = await alice.mustUpload({ filename: 'r.png' });
    await alice.mustSend(session, [
      { type: 'file', attachment_id: file },
      { type: 'image', attachment_id: image },
      { type: 'file', attachment_id: named, name: 'mine', mime_type: 'application/x-mine', size: 1 },
    ]);
    expect(field((await alice.mustReplay(session)).at(-1), 'payload.content')).toEqual([
      { type: 'file', attachment_id: file, name: 'p.png', mime_type: 'image/png', size: bytes.length },
      { type: 'image', attachment_id: image, name: 'q.png', mime_type: 'image/png' },
      { type: 'file', attachment_id: named, name: 'mine', mime_type: 'application/x-mine', size: 1 },
    ]);
  },
);

rule(
  ['spec/messages/attachments', 'spec/Constants/attachments-per-message'],
  'five attachments a message; a sixth is 400 and claims nothing',
  async () => {
    const alice = await service.actor('alice');
    const session = await alice.mustCreate();
    const ids = await Promise.all([1, 2, 3, 4, 5, 6].map(() => alice.mustUpload()));
    const parts = ids.map((attachment_id, index) => ({ type: index % 2 === 0 ? 'file' : 'image', attachment_id }));
    mustDeny(await alice.post(`/sessions/${session}/messages`, { content: parts }), 400, 'VALIDATION_ERROR');
    await alice.mustSend(session, parts.slice(0, 5));
    await alice.mustSend(session, parts.slice(5));
  },
);

rule('wire/Attachments/claim', 'unknown, foreign and claimed ones get one 404; nothing else is claimed', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const session = await alice.mustCreate();
  const [claimed, free, foreign] = [await alice.mustUpload(), await alice.mustUpload(), await bob.mustUpload()];
  await alice.mustSend(session, [{ type: 'file', attachment_id: claimed }]);
  const answers = [];
  for (const bad of ['att_01ARZ3NDEKTSV4RRFFQ69G5FAV', foreign, claimed]) {
    const content = [
      { type: 'file', attachment_id: free },
      { type: 'image', attachment_id: bad },
    ];
    answers.push(await alice.post(`/sessions/${session}/messages`, { content }));
  }
  for (const answer of answers) {
    mustDeny(answer, 404, 'NOT_FOUND');
    expect(answer.text).toBe(answers[0]?.text);
  }
  await alice.mustSend(session, [{ type: 'file', attachment_id: free }]);
  expect(await alice.mustReplay(session)).toHaveLength(2);
});

rule('wire/Attachments/claim', 'the first message of a session claims too', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const content = [{ type: 'file', attachment_id: await alice.mustUpload() }];
  const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content } });
  mustDeny(await alice.post(`/sessions/${id}/messages`, { content }), 404, 'NOT_FOUND');
  mustDeny(await alice.post('/sessions', { initial_message: { content } }), 404, 'NOT_FOUND');
});
