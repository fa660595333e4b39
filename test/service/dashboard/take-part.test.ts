import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MESSAGE_BODY_MAX_BYTES } from '../../../src/wire/limit.js';
import { type Actor, createActor, operate } from '../../support/actors.js';
import type { FormValues, Page } from '../../support/browser.js';
import { request } from '../../support/http.js';
import { field, list } from '../../support/json.js';
import { multipart, SAMPLE } from '../../support/multipart.js';
import { mustFindForm } from '../../support/person.js';
import { bodyOf, cookieOf, openStage, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
let eve: Visitor;
let mine: Actor;
let other: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: true });
  const { operator } = stage;
  const { place } = stage.desk;
  mine = await createActor(place, operator, 'helper');
  other = await createActor(place, operator, 'bob');
  ada = await stage.enterLocally(mine.owner);
  eve = await stage.enter('eve');
});
afterAll(() => stage.close());

const at = (session: string, part = ''): string => `/dashboard/sessions/${session}${part}`;
const openSession = async (): Promise<string> => {
  const session = await mine.mustCreate({ invite: [other.handle] });
  await other.mustJoin(session);
  return session;
};
const send = (session: string, values: FormValues): Promise<Page> => ada.press(at(session), /^send$/i, values);
const messagesOf = async (session: string): Promise<unknown[]> =>
  (await other.mustReplay(session))
    .filter((event) => field(event, 'type') === 'session.message')
    .map((event) => field(event, 'payload'));
const typesOf = async (session: string): Promise<unknown[]> =>
  (await other.mustReplay(session)).map((event) => field(event, 'type'));

/** Sends the form with files the way a browser does. */
const upload = async (
  session: string,
  fields: Record<string, string>,
  files: readonly { filename: string; type: string; bytes: Uint8Array | string }[],
  headers: Record<string, string> = {},
) => {
  const form = mustFindForm(await ada.open(at(session)), /^send$/i);
  const values = Object.entries({ ...form.values, ...fields }).filter(([name]) => name !== 'file');
  const boundary = 'a-boundary';
  const head = values
    .map(([name, value]) => `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
    .join('');
  const { body } = multipart(files.map((file) => ({ name: 'file', ...file })));
  const own = body.toString('latin1').slice(2, body.indexOf('\r\n'));
  const tail = body.toString('latin1').replaceAll(own, boundary);
  return request(`${stage.web}${at(session)}`, {
    method: 'POST',
    headers: {
      cookie: cookieOf(ada),
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'sec-fetch-site': 'same-origin',
      ...headers,
    },
    body: Buffer.concat([Buffer.from(head), Buffer.from(tail, 'latin1')]),
  });
};

describe('A person who writes in a session', () => {
  it('writes as one of their agents, marked as written on the dashboard', async () => {
    const session = await openSession();
    const page = await send(session, { text: 'Two lines\r\nof **mine**  \r\n' });
    expect(page.answer.status).toBe(200);
    expect(page.text).toContain('via dashboard');
    expect(await messagesOf(session)).toMatchObject([
      { sender: mine.handle, content: 'Two lines\nof **mine**', metadata: { sent_by: 'dashboard' } },
    ]);
    // The page shows the mark in words and does not repeat it as data.
    expect(bodyOf(page)).not.toContain('<summary>Metadata</summary>');
  });

  it('answers a message, and both the transcript and the program can see which', async () => {
    const session = await openSession();
    const { id } = await other.mustSend(session, 'ready?');
    const page = await ada.open(`${at(session)}?reply=3`);
    expect(page.text).toContain(`Reply to ${other.handle} ready?`);
    const shown = await ada.browser.submit(page, mustFindForm(page, /^send$/i), { text: 'yes' }, /^send$/i);
    expect(shown.text).toContain(`In reply to ${other.handle}, message 3`);
    expect((await messagesOf(session)).at(-1)).toMatchObject({ metadata: { sent_by: 'dashboard', in_reply_to: id } });
    const states = (await other.get(`/sessions/${session}/delivery?sequence=4`)).json;
    expect(field(states, 'message_id')).toBe(field((await messagesOf(session)).at(-1), 'id'));
  });

  it('sends once, no matter how often the form arrives; a corrected text is a new message', async () => {
    const session = await openSession();
    const page = await ada.open(at(session));
    const form = mustFindForm(page, /^send$/i);
    const press = (text: string): Promise<Page> => ada.browser.submit(page, form, { text }, /^send$/i);
    await Promise.all([press('once'), press('once'), press('once')]);
    await press('once');
    await press('corrected');
    expect((await messagesOf(session)).map((message) => field(message, 'content'))).toEqual(['once', 'corrected']);
  });

  it('chooses which of their agents writes', async () => {
    const sister = await createActor(stage.desk.place, stage.operator, 'second', { owner: mine.owner });
    const session = await mine.mustCreate({ invite: [other.handle, sister.handle] });
    await other.mustJoin(session);
    await sister.mustJoin(session);
    for (const { handle } of [mine, sister]) {
      const options = bodyOf(await ada.open(at(session)));
      expect(options).toContain(`<option value="${handle}"`);
      await send(session, { text: 'hello', as: handle });
    }
    expect((await messagesOf(session)).map((message) => field(message, 'sender'))).toEqual([
      mine.handle,
      sister.handle,
    ]);
  });

  it('keeps a text that is too long for a message', async () => {
    const session = await openSession();
    const text = 'x'.repeat(MESSAGE_BODY_MAX_BYTES);
    const page = await send(session, { text });
    expect([page.answer.status, page.text.includes('The message is too long. Attach it as a file.')]).toEqual([
      400,
      true,
    ]);
    expect(mustFindForm(page, /^send$/i).values['text']).toBe(text);
    expect(await messagesOf(session)).toEqual([]);
  });

  it('sees at the field what is missing', async () => {
    const session = await openSession();
    const page = await send(session, { text: '  \r\n ' });
    expect([page.answer.status, page.text.includes('Write a message, or attach a file.')]).toEqual([400, true]);
    expect(bodyOf(page)).toMatch(/<textarea id="text"[^>]*aria-invalid="true" autofocus/);
    expect(await messagesOf(session)).toEqual([]);
  });

  it('keeps the text when the session is at its limit, and learns when it can be sent', async () => {
    const session = await openSession();
    for (let sent = 0; sent < 60; sent += 1) await other.mustSend(session, `number ${sent}`);
    const page = await send(session, { text: 'one too many' });
    expect([page.answer.status, Number(page.answer.headers['retry-after']) > 0]).toEqual([429, true]);
    expect(mustFindForm(page, /^send$/i).values['text']).toBe('one too many');
    expect(page.text).toMatch(/Try again in \d+ seconds/);
    expect(await messagesOf(session)).toHaveLength(60);
  });

  it('keeps the text when their agent has left in the meantime', async () => {
    const session = await openSession();
    const page = await ada.open(at(session));
    await mine.mustEnd(session);
    const late = await ada.browser.submit(page, mustFindForm(page, /^send$/i), { text: 'too late' }, /^send$/i);
    expect([late.answer.status, late.text.includes('can’t write in this session')]).toEqual([400, true]);
    expect(bodyOf(late)).toContain('too late</textarea>');
    expect(await messagesOf(session)).toEqual([]);
  });

  it('cannot name an agent that is not theirs, or write where none of theirs has joined', async () => {
    const session = await openSession();
    const form = mustFindForm(await ada.open(at(session)), /^send$/i);
    const forged = await ada.press(at(session), /^send$/i, { text: 'as another', as: other.handle });
    expect(forged.answer.status).toBe(400);
    const uninvited = await other.mustCreate({ invite: [mine.handle] });
    const refused = await ada.browser.submit(
      await ada.open(at(uninvited)),
      { ...form, action: at(uninvited) },
      { text: 'not joined' },
      /^send$/i,
    );
    expect(refused.answer.status).toBe(400);
    expect([await messagesOf(session), await messagesOf(uninvited)]).toEqual([[], []]);
  });

  it('sends nothing once they are signed out, even if a file of the message was on its way', async () => {
    const session = await other.mustCreate({ invite: [mine.handle] });
    await mine.mustJoin(session);
    const late = await stage.enterLocally(mine.owner);
    const { values } = mustFindForm(await late.open(at(session)), /^send$/i);
    const fields = Object.entries({ ...values, text: 'from the past' }).filter(([name]) => name !== 'file');
    const sent = httpRequest(`${stage.web}${at(session)}`, {
      method: 'POST',
      headers: {
        cookie: cookieOf(late),
        'content-type': 'multipart/form-data; boundary=a-boundary',
        'sec-fetch-site': 'same-origin',
      },
    });
    for (const [name, value] of fields)
      sent.write(`--a-boundary\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`);
    sent.write(
      '--a-boundary\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\ncontent-type: text/plain\r\n\r\nbegun',
    );
    await pause(500);
    const bytesOf = async (): Promise<unknown> =>
      field(await operate(stage.operator, 'GET', `/accounts/${mine.owner}`), 'attachment_bytes');
    const bytes = await bytesOf();
    await ada.press('/dashboard/settings', /^sign out others$/i);
    sent.end(' and done\r\n--a-boundary--\r\n');
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(403);
    expect(await readText(answer)).toMatch(/You were signed out[\s\S]*from the past/);
    expect(await messagesOf(session)).toEqual([]);
    expect(await bytesOf()).toBe(bytes);
    expect(new URL((await late.open(at(session))).url).pathname).toBe('/oauth/sign-in');
  });

  it('attaches files: the text and up to five of them are one message', async () => {
    const session = await openSession();
    const files = [
      { filename: 'plot.png', type: 'image/png', bytes: SAMPLE['image/png'] ?? '' },
      // Browsers send this type for files they do not know.
      { filename: 'notes.md', type: 'application/octet-stream', bytes: '# notes' },
      { filename: '', type: 'application/octet-stream', bytes: '' },
    ];
    expect((await upload(session, { text: 'see these' }, files)).status).toBe(303);
    const [message] = await messagesOf(session);
    expect(list(message, 'content')).toMatchObject([
      { type: 'text', text: 'see these' },
      { type: 'image', name: 'plot.png', mime_type: 'image/png' },
      { type: 'file', name: 'notes.md', mime_type: 'text/markdown', size: 7 },
    ]);
  });

  it('a form with files that arrives twice makes one message, and the files count once', async () => {
    const session = await openSession();
    const key = 'the-same-key';
    const files = [{ filename: 'a.txt', type: 'text/plain', bytes: 'abc' }];
    const answers = await Promise.all([1, 2].map(() => upload(session, { text: 'twice', key }, files)));
    expect(answers.map(({ status }) => status)).toEqual([303, 303]);
    expect(await messagesOf(session)).toHaveLength(1);
  });

  it.each([
    ['run.exe', 'application/x-msdownload', 'MZ', '“run.exe” was not attached. This content type is not supported.'],
    ['fake.png', 'image/png', 'no picture', '“fake.png” was not attached. The file is not valid image/png.'],
    ['void.txt', 'text/plain', '', '“void.txt” was not attached. The file is empty.'],
  ])('learns why %s cannot be attached, and keeps the text', async (filename, type, bytes, why) => {
    const session = await openSession();
    const answer = await upload(session, { text: 'with a file' }, [{ filename, type, bytes }]);
    expect(answer.status).toBe(400);
    expect(answer.text).toContain(why);
    expect(answer.text).toContain('with a file</textarea>');
    expect(await messagesOf(session)).toEqual([]);
  });

  it('attaches at most five, and nothing from another page or without the secret', async () => {
    const session = await openSession();
    const file = { filename: 'a.txt', type: 'text/plain', bytes: 'a' };
    const many = await upload(session, { text: 'six' }, Array(6).fill(file));
    expect([many.status, many.text.includes('Attach at most 5 files')]).toEqual([400, true]);
    expect((await upload(session, { csrf: 'x' }, [file], { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await upload(session, { csrf: 'x', text: 'x' }, [file])).text).toContain('You signed in again');
    expect(await messagesOf(session)).toEqual([]);
  });
});

describe('A person who answers an invitation', () => {
  it('joins as the invited agent, and can write', async () => {
    const session = await other.mustCreate({ invite: [mine.handle] });
    const page = await ada.press(at(session), /^join/i);
    expect(page.text).toContain('Your agent has joined the session.');
    await send(session, { text: 'here I am' });
    expect(await typesOf(session)).toEqual(['session.invited', 'session.joined', 'session.message']);
  });

  it('declines it: the others learn that it left, and it can be invited again', async () => {
    const session = await other.mustCreate({ invite: [mine.handle] });
    const page = await ada.press(at(session), /^decline/i);
    expect(page.text).toContain('The invitation was declined.');
    expect(page.text).not.toMatch(/\bJoin\b/);
    expect((await mine.post(`/sessions/${session}/join`)).status).toBe(404);
    const [, left] = await other.mustReplay(session);
    expect(left).toMatchObject({ type: 'session.left', payload: { agent: mine.handle, reason: 'left' } });
    expect((await mine.mustReplay(session)).map((event) => field(event, 'sequence'))).toEqual([1, 2]);
    await other.mustInvite(session, mine.handle);
    await ada.press(at(session), /^join/i);
    expect((await mine.mustReplay(session)).map((event) => field(event, 'sequence'))).toEqual([1, 2, 3, 4]);
  });

  it('learns when it is too late', async () => {
    const session = await other.mustCreate({ invite: [mine.handle] });
    const page = await ada.open(at(session));
    await other.mustEnd(session);
    for (const button of [/^join/i, /^decline/i]) {
      const late = await ada.browser.submit(page, mustFindForm(page, button), {}, button);
      expect(late.text).toContain('Nothing was changed: the session changed in the meantime.');
    }
    expect(await typesOf(session)).toEqual(['session.invited', 'session.ended']);
  });
});

describe('A person who is asked to choose', () => {
  const ask = (session: string, content = 'Deploy?', choices: unknown = ['yes', 'no', '<b>later</b>']) =>
    other.post(`/sessions/${session}/messages`, { content, metadata: { choices } });
  const labelsOn = (page: Page): string[] =>
    page.forms.flatMap(({ action, buttons }) => (action.endsWith('/answer') ? buttons.map(({ label }) => label) : []));

  it('answers with one button, and the answer names the question', async () => {
    const session = await openSession();
    await ask(session);
    const before = await ada.open(at(session));
    expect(labelsOn(before)).toEqual(['yes', 'no', '<b>later</b>']);
    expect(bodyOf(before)).not.toContain('<summary>Metadata</summary>');
    const page = await ada.press(at(session), /^no$/);
    const [question, answer] = await messagesOf(session);
    expect(answer).toMatchObject({
      sender: mine.handle,
      content: 'no',
      metadata: { sent_by: 'dashboard', in_reply_to: field(question, 'id') },
    });
    expect(labelsOn(page)).toEqual([]);
    // Pressing the same button again on the old page changes nothing.
    await ada.browser.submit(before, mustFindForm(before, /^no$/), {}, /^no$/);
    expect(await messagesOf(session)).toHaveLength(2);
  });

  it('gives a question one answer, no matter what is pressed on another page', async () => {
    const session = await openSession();
    await ask(session);
    const [first, second] = [await ada.open(at(session)), await ada.open(at(session))];
    await ada.browser.submit(first, mustFindForm(first, /^yes$/), {}, /^yes$/);
    const late = await ada.browser.submit(second, mustFindForm(second, /^no$/), {}, /^no$/);
    expect(late.text).toContain('Nothing was changed: the session changed in the meantime.');
    expect((await messagesOf(session)).map((message) => field(message, 'content'))).toEqual(['Deploy?', 'yes']);
  });

  it('answers as the agent that was asked, not as the one that asked', async () => {
    const asking = await createActor(stage.desk.place, stage.operator, 'ci', { owner: mine.owner });
    const session = await asking.mustCreate({
      invite: [mine.handle],
      initial_message: { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } },
    });
    await mine.mustJoin(session);
    await ada.press(at(session), /^yes$/);
    expect(field((await asking.mustReplay(session)).at(-1), 'payload')).toMatchObject({ sender: mine.handle });
  });

  it('sees no buttons for their own question, in an ended session, and for invalid choices', async () => {
    const session = await openSession();
    await mine.post(`/sessions/${session}/messages`, { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } });
    const lists = [
      ['yes'],
      ['', 'no'],
      'yes',
      [1, 2],
      Array.from({ length: 11 }, (_, index) => `${index}`),
      ['yes', 'YES'],
    ];
    const hidden = ['no\u{e0041}', 'no\u200b', '\u202eno', 'no ', 'n\u2028o'].map((choice) => ['yes', choice]);
    for (const choices of [...lists, ...hidden]) expect((await ask(session, 'x', choices)).status).toBe(201);
    expect(labelsOn(await ada.open(at(session)))).toEqual([]);
    await ask(session);
    const page = await ada.open(at(session));
    await other.mustEnd(session);
    expect(labelsOn(await ada.open(at(session)))).toEqual([]);
    const late = await ada.browser.submit(page, mustFindForm(page, /^yes$/), {}, /^yes$/);
    expect(late.text).toContain('Nothing was changed: the session changed in the meantime.');
  });

  it('does not join with an agent that the page did not name', async () => {
    const sister = await createActor(stage.desk.place, stage.operator, 'sister', { owner: mine.owner });
    const session = await openSession();
    await ask(session);
    const page = await ada.open(at(session));
    await mine.post(`/sessions/${session}/leave`);
    await other.post(`/sessions/${session}/invite`, { invite: [sister.handle] });
    const late = await ada.browser.submit(page, mustFindForm(page, /^yes$/), {}, /^yes$/);
    expect(late.text).toContain('Nothing was changed: the session changed in the meantime.');
    expect(await messagesOf(session)).toHaveLength(1);
    const joined = (await other.mustReplay(session)).filter((event) => field(event, 'type') === 'session.joined');
    expect(JSON.stringify(joined)).not.toContain(sister.handle);
  });

  it('does not join again with an agent that left after the page was shown', async () => {
    const session = await openSession();
    await ask(session);
    const page = await ada.open(at(session));
    await mine.post(`/sessions/${session}/leave`);
    await other.post(`/sessions/${session}/invite`, { invite: [mine.handle] });
    const late = await ada.browser.submit(page, mustFindForm(page, /^yes$/), {}, /^yes$/);
    expect(late.text).toContain('Nothing was changed: the session changed in the meantime.');
    expect((await other.mustReplay(session)).map((event) => field(event, 'type')).at(-1)).toBe('session.invited');
  });

  it('cannot press a button that does not exist', async () => {
    const session = await openSession();
    await ask(session);
    const { csrf, key } = mustFindForm(await ada.open(at(session)), /^yes$/).values;
    const wrong = ['1.0', '99.0', '3.7', '-1.0', '3.x', '3.0.0'].map((text) => `${text} answer ${mine.handle}`);
    for (const answer of ['', '1', '3.0', '3.0 answer', '3.0 join @nobody.here', ...wrong]) {
      const sent = await request(`${stage.web}${at(session, '/answer')}`, {
        method: 'POST',
        headers: { cookie: cookieOf(ada), 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ csrf: csrf ?? '', key: key ?? '', answer }).toString(),
      });
      expect(sent.status, answer).toBe(303);
    }
    expect(await messagesOf(session)).toHaveLength(1);
  });
});

describe('A person who manages a session', () => {
  it('gets the same answer for a form sent twice, which takes effect once', async () => {
    const invited = await other.mustCreate({ invite: [mine.handle] });
    const twice = async (path: string, button: RegExp): Promise<Page[]> => {
      const page = await ada.open(path);
      const form = mustFindForm(page, button);
      return [await ada.browser.submit(page, form, {}, button), await ada.browser.submit(page, form, {}, button)];
    };
    const declined = await twice(at(invited), /^decline/i);
    const session = await openSession();
    const ended = await twice(at(session, '/end'), /^end session$/i);
    const reopened = await twice(at(session), /^reopen$/i);
    await other.mustJoin(session);
    const left = await twice(at(session, '/leave'), /^leave session$/i);
    const notes = [
      'The invitation was declined.',
      'The session has ended.',
      'The session is open again.',
      'Your agent has left',
    ];
    for (const [index, pages] of [declined, ended, reopened, left].entries())
      for (const page of pages) expect(page.text).toContain(notes[index]);
    expect(await typesOf(invited)).toEqual(['session.invited', 'session.left']);
    expect((await typesOf(session)).slice(2)).toEqual([
      'session.ended',
      'session.reopened',
      'session.invited',
      'session.joined',
      'session.left',
    ]);
  });

  it('invites through the trust gate, which gives no reason', async () => {
    const session = await openSession();
    const carol = await createActor(stage.desk.place, stage.operator, 'carol');
    const closed = await createActor(stage.desk.place, stage.operator, 'closed', { policy: 'allowlist' });
    const invite = async (handles: string): Promise<Page> => ada.press(at(session), /^invite$/i, { handles });
    expect((await invite(`${carol.handle}, ${closed.handle}`)).text).toContain('Some agents were invited.');
    const [hidden, missing] = [await invite(closed.handle), await invite('@no.body')];
    for (const page of [hidden, missing]) {
      expect(page.text).toContain('No one was invited.');
      // No tick, as after what was done.
      expect(page.text).not.toContain('class="done"');
    }
    const wrong = await invite(`${carol.handle} not-a-handle`);
    expect([wrong.answer.status, wrong.text.includes('“not-a-handle” is not a handle.')]).toEqual([400, true]);
    expect(mustFindForm(wrong, /^invite$/i).values['handles']).toBe(`${carol.handle} not-a-handle`);
    const many = '@no.body '.repeat(101).trim();
    const refused = await invite(many);
    expect([refused.answer.status, refused.text.includes('Enter at most 100 handles at once.')]).toEqual([400, true]);
    expect(mustFindForm(refused, /^invite$/i).values['handles']).toBe(many);
    expect(/<input[^>]*name="handles"[^>]*>/.exec(refused.answer.text)?.[0]).not.toContain('maxlength');
    expect((await typesOf(session)).filter((type) => type === 'session.invited')).toHaveLength(2);
  });

  it('ends a session after a confirmation, and reopens it', async () => {
    const session = await openSession();
    const asked = await ada.open(at(session, '/end'));
    expect(asked.text).toContain('End this session for everyone?');
    expect((await ada.press(at(session, '/end'), /^end session$/i)).text).toContain('The session has ended.');
    const page = await ada.press(at(session), /^reopen$/i);
    expect(page.text).toContain('The session is open again.');
    const types = await mine.mustReplay(session);
    expect(types.map((event) => field(event, 'type')).slice(-3)).toEqual([
      'session.ended',
      'session.reopened',
      'session.invited',
    ]);
  });

  it('lets an agent leave after a confirmation, and keeps what it saw', async () => {
    const session = await openSession();
    await other.mustSend(session, 'seen before');
    const left = await ada.press(at(session, '/leave'), /^leave session$/i);
    expect(left.text).toContain('Your agent has left the session.');
    expect(left.text).toContain('seen before');
    expect(left.text).toContain('None of your agents is in this session anymore.');
    expect((await typesOf(session)).at(-1)).toBe('session.left');
  });

  it('blocks or allows the other agent from there', async () => {
    const session = await openSession();
    const href = `${at(session, '/trust')}?handle=${encodeURIComponent(other.handle)}`;
    expect(bodyOf(await ada.open(at(session)))).toContain(`href="${href}"`);
    expect((await ada.press(href, /^allow$/i)).text).toContain('Added to the allowlist.');
    const listed = await mine.get(`/agents/${mine.owner}/${mine.name}/allowlist`);
    expect(list(listed.json, 'entries')).toContain(other.handle);
    expect((await ada.press(href, /^block$/i)).text).toContain('Blocked.');
    expect((await other.post(`/sessions/${session}/messages`, { content: 'still here?' })).status).toBe(404);
    await ada.press(`/dashboard/agents/${mine.name}/blocks`, /^unblock/i);
    const own = await ada.open(`${at(session, '/trust')}?handle=${encodeURIComponent(mine.handle)}`);
    expect(own.answer.status).toBe(404);
  });
});

describe('A stranger to the session', () => {
  it('gets the same answer as for a session that does not exist, whatever the form', async () => {
    const session = await openSession();
    const csrf = String(mustFindForm(await eve.open('/dashboard/new-agent'), /^create agent$/i).values['csrf']);
    const parts = ['', '/answer', '/join', '/decline', '/invite', '/leave', '/end', '/reopen', '/trust'];
    const answers: string[] = [];
    for (const id of [session, 'sess_01HZZZZZZZZZZZZZZZZZZZZZZZ'])
      for (const part of parts) {
        const answer = await request(`${stage.web}${at(id, part)}`, {
          method: 'POST',
          headers: { cookie: cookieOf(eve), 'content-type': 'application/x-www-form-urlencoded' },
          body: new URLSearchParams({
            csrf,
            key: 'k',
            as: mine.handle,
            text: 'x',
            handle: other.handle,
            handles: other.handle,
          }).toString(),
        });
        answers.push(`${answer.status} ${answer.text}`);
      }
    expect([new Set(answers).size, answers[0]?.slice(0, 4)]).toEqual([1, '404 ']);
    for (const part of ['/leave', '/end', `/trust?handle=${encodeURIComponent(other.handle)}`])
      expect((await eve.open(at(session, part))).answer.status).toBe(404);
    expect(await typesOf(session)).toEqual(['session.invited', 'session.joined']);
  });
});
