import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Actor, createActor, operate } from '../../support/actors.js';
import { openBrowser, type Page } from '../../support/browser.js';
import { type Answer, request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { multipart } from '../../support/multipart.js';
import { mustFindForm } from '../../support/person.js';
import { drawPng, JPEG_WITH_COMMENT, pngChunk } from '../../support/pictures.js';
import { bodyOf, cookieOf, openStage, type Stage, type Visitor } from './stage.js';

const HOUR_MS = 60 * 60_000;
const PNG = drawPng(16, 16);
const NOTED = drawPng(16, 16, pngChunk('tEXt', Buffer.from('made by Eve')));

let stage: Stage;
let ada: Visitor;
let mine: Actor;
let other: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false });
});
afterAll(() => stage.close());
beforeEach(async () => {
  mine = await createActor(stage.desk.place, stage.operator, 'mine');
  other = await createActor(stage.desk.place, stage.operator, 'bob');
  ada = await stage.enterLocally(mine.owner);
});

const profile = (): string => `/dashboard/agents/${mine.name}/profile`;
const address = (): string => `${stage.web}/agents/${mine.handle}/picture`;

/** Sends the form the way a browser does, and follows it to the page that answers. */
async function upload(bytes: Uint8Array | string, visitor = ada, secret?: string): Promise<Answer> {
  const { values } = mustFindForm(await ada.open(profile()), /^upload picture$/i);
  const { type, body } = multipart([{ name: 'picture', filename: 'me.png', type: 'image/png', bytes }]);
  const boundary = type.slice(type.indexOf('=') + 1);
  const csrf = `--${boundary}\r\ncontent-disposition: form-data; name="csrf"\r\n\r\n${secret ?? values['csrf']}\r\n`;
  return request(`${stage.web}/dashboard/agents/${mine.name}/picture`, {
    method: 'POST',
    headers: { cookie: cookieOf(visitor), 'content-type': type, 'sec-fetch-site': 'same-origin' },
    body: Buffer.concat([Buffer.from(csrf), body]),
  });
}
const follow = async (url: string, headers = {}): Promise<Answer> => {
  const answer = await request(url, { headers });
  return answer.status === 302 || answer.status === 303
    ? request(new URL(String(answer.headers['location']), stage.web).href)
    : answer;
};
const recordOf = async (asker: Actor): Promise<unknown> =>
  field((await asker.get(`/agents/${mine.owner}/${mine.name}`)).json, 'agent');
const bytesUsed = async (): Promise<unknown> =>
  field(await operate(stage.operator, 'GET', `/accounts/${mine.owner}`), 'attachment_bytes');
const publicPage = (): Promise<Page> => openBrowser().open(`${stage.web}/agents/${mine.handle}`);

describe('The picture of an agent', () => {
  it('is shown on its public page and in the preview, without what a program wrote into the file', async () => {
    expect((await upload(NOTED)).status).toBe(303);
    const page = await publicPage();
    expect(page.answer.text).toContain(`<img class="portrait" src="/agents/${mine.handle}/picture"`);
    expect(page.answer.headers['content-security-policy']).toContain("img-src data: 'self'");
    const picture = await follow(address());
    expect([picture.status, picture.headers['content-type'], picture.bytes.equals(PNG)]).toEqual([
      200,
      'image/png',
      true,
    ]);
    expect(picture.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      'cross-origin-resource-policy': 'same-origin',
    });
    const shown = await ada.press(profile(), /^preview$/i, {});
    expect(shown.answer.text.match(/<img class="portrait"/g)).toHaveLength(2);
    expect(await recordOf(other)).toMatchObject({ image_url: address() });
  });

  it('is not where an agent could take the looks of another: in lists, in transcripts, when an app asks', async () => {
    await upload(PNG);
    const session = await mine.mustCreate({ topic: 'Looks' });
    await mine.mustSend(session, 'hello');
    const bare = await publicPage();
    expect(bare.answer.text).toContain('<img');
    for (const path of [
      '/dashboard/agents',
      `/dashboard/agents/${mine.name}`,
      '/dashboard/sessions',
      `/dashboard/sessions/${session}`,
      `/dashboard/search?q=${mine.name}`,
      '/dashboard/needs-you',
    ]) {
      expect([path, bodyOf(await ada.open(path)).includes('<img')]).toEqual([path, false]);
    }
  });

  it('of a private agent exists for its owner alone', async () => {
    await upload(PNG);
    await ada.press(`/dashboard/agents/${mine.name}`, /^save$/i, { visibility: 'private' });
    const nothing = await request(`${stage.web}/agents/@nobody.here/picture`);
    const hidden = await request(address(), { headers: { cookie: cookieOf(ada) } });
    expect([hidden.status, hidden.text]).toEqual([404, nothing.text]);
    expect(await recordOf(mine)).toMatchObject({ image_url: null });
    const own = await follow(`${stage.web}/dashboard/agents/${mine.name}/picture`, { cookie: cookieOf(ada) });
    expect([own.status, own.bytes.equals(PNG)]).toEqual([200, true]);
  });

  it('that does not exist looks like an agent that does not exist', async () => {
    const [none, nobody] = [await request(address()), await request(`${stage.web}/agents/@nobody.here/picture`)];
    expect([none.status, none.text]).toEqual([404, nobody.text]);
    expect((await publicPage()).answer.text).not.toContain('<img');
  });

  it('can be a JPEG, is replaced by the next one, and is removed with one button', async () => {
    await upload(PNG);
    await upload(JPEG_WITH_COMMENT);
    const second = await follow(address());
    expect([second.headers['content-type'], second.text.includes('made by Eve')]).toEqual(['image/jpeg', false]);
    const removed = await ada.press(profile(), /^remove picture$/i);
    expect(removed.text).toContain('The picture was removed.');
    expect((await request(address())).status).toBe(404);
    expect(removed.text).not.toContain('Remove picture');
  });

  it('stays as long as its agent does, and goes with it', async () => {
    await upload(PNG);
    stage.desk.clock.advance(2 * HOUR_MS);
    ada = await stage.enterLocally(mine.owner);
    expect((await follow(address())).bytes.equals(PNG)).toBe(true);
    expect(await bytesUsed()).toBe(PNG.length);
    await ada.press(`/dashboard/agents/${mine.name}/remove`, /^remove agent$/i);
    expect((await request(address())).status).toBe(404);
  });

  it.each([
    ['page', '<!doctype html><script>alert(1)</script>', 'This file is not a complete PNG or JPEG'],
    ['GIF', Buffer.from('474946383961080008000000003b', 'hex'), 'This file is not a complete PNG or JPEG'],
    ['picture that is cut off', PNG.subarray(0, -20), 'This file is not a complete PNG or JPEG'],
    ['picture with too many pixels', drawPng(2049, 1), 'at most 2048 pixels on each side'],
    ['file of more than 1 MB', Buffer.alloc(1024 * 1024 + 1), 'Choose a picture of at most 1 MB.'],
    ['empty file', '', 'Choose a picture of at most 1 MB.'],
  ])('cannot be a %s; the one before stays', async (_, bytes, reason) => {
    await upload(JPEG_WITH_COMMENT);
    await ada.press(profile(), /^save profile$/i, { display_name: 'Mine', card_body: 'Ask me.', skill_1: 'Plans' });
    const refused = await upload(bytes);
    // The rest of the page is as it was: saving it must not empty the profile.
    expect(refused.text).toMatch(/value="Mine"[\s\S]*Ask me\.<\/textarea>[\s\S]*value="Plans"/);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(reason);
    expect(refused.text).toMatch(/id="picture"[^>]* aria-invalid="true" autofocus/);
    expect((await follow(address())).headers['content-type']).toBe('image/jpeg');
  });

  it('is not changed by another account, nor without the secret of the form', async () => {
    await upload(PNG);
    const eve = await stage.enter('eve');
    const [refused, { values }] = [
      await upload(JPEG_WITH_COMMENT, eve),
      mustFindForm(await eve.open('/dashboard/new-agent'), /^create agent$/i),
    ];
    expect(refused.status).toBe(403);
    // The address names an agent of the account that sends the form.
    await upload(JPEG_WITH_COMMENT, eve, String(values['csrf']));
    expect((await follow(address())).headers['content-type']).toBe('image/png');
  });

  it('is not changed by a browser that was signed out while the file was on its way', async () => {
    await upload(PNG);
    const late = await stage.enterLocally(mine.owner);
    const { values } = mustFindForm(await late.open(profile()), /^upload picture$/i);
    const { type, body } = multipart([
      { name: 'picture', filename: 'me.jpg', type: 'image/jpeg', bytes: JPEG_WITH_COMMENT },
    ]);
    const boundary = type.slice(type.indexOf('=') + 1);
    const sent = httpRequest(`${stage.web}/dashboard/agents/${mine.name}/picture`, {
      method: 'POST',
      headers: { cookie: cookieOf(late), 'content-type': type, 'sec-fetch-site': 'same-origin' },
    });
    sent.write(`--${boundary}\r\ncontent-disposition: form-data; name="csrf"\r\n\r\n${values['csrf']}\r\n`);
    sent.write(body.subarray(0, -60));
    await pause(500);
    const bytes = await bytesUsed();
    await ada.press('/dashboard/settings', /^sign out others$/i);
    sent.end(body.subarray(-60));
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.resume();
    expect([answer.statusCode, answer.headers.location?.split('?')[0]]).toEqual([303, '/oauth/sign-in']);
    expect([(await follow(address())).headers['content-type'], await bytesUsed()]).toEqual(['image/png', bytes]);
  });

  it('cannot be fetched or sent as an attachment', async () => {
    await upload(PNG);
    const { headers } = await request(address());
    const id = /att_\w+/.exec(String(headers['location']))?.[0] ?? '';
    for (const asker of [mine, other]) expect((await asker.get(`/attachments/${id}`)).status).toBe(404);
    const session = await mine.mustCreate({});
    const sent = await mine.post(`/sessions/${session}/messages`, {
      content: [{ type: 'image', attachment_id: id }],
    });
    expect([sent.status, (await follow(address())).bytes.equals(PNG)]).toEqual([sent.status, true]);
    expect(sent.status).toBeGreaterThanOrEqual(400);
  });
});
