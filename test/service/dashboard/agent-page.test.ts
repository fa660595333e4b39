import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, createActor, operate } from '../../support/actors.js';
import { openBrowser, type Page } from '../../support/browser.js';
import { linksOf } from '../../support/html-form.js';
import { type Answer, request } from '../../support/http.js';
import { bodyOf, openStage, type Stage, type Visitor } from './stage.js';

const HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)>"\'&\u202etxt.exe';

let stage: Stage;
let ada: Visitor;
let mine: Actor;
let other: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false });
  const { operator } = stage;
  await operate(operator, 'POST', '/agents', { handle: '@ada.first', inbound_policy: 'open' });
  mine = await createActor(stage.desk.place, operator, 'mine', { owner: 'ada' });
  other = await createActor(stage.desk.place, operator, 'bob');
  ada = await stage.enterLocally('ada');
});
afterAll(() => stage.close());

describe('The overview of an agent', () => {
  const open = (): Promise<Page> => ada.open(`/dashboard/agents/${mine.name}`);

  it('shows its latest sessions, what is waiting for it, and who can act as it', async () => {
    const sessions: string[] = [];
    for (let index = 0; index < 7; index += 1) {
      const session = await other.mustCreate({ topic: `Topic ${index}`, invite: [mine.handle] });
      if (index > 0) await mine.mustJoin(session);
      if (index > 0) await other.mustSend(session, 'waiting');
      sessions.push(session);
      stage.desk.clock.advance(1_000);
    }
    const page = await open();
    expect(page.text).toContain('It has unread events in 7 sessions.');
    expect(page.text).toMatch(/Last seen just now/);
    const shown = [...bodyOf(page).matchAll(/row-link" href="\/dashboard\/sessions\/(sess_\w+)/g)].map(([, id]) => id);
    expect(shown).toEqual(sessions.slice(2).reverse());
    const links = linksOf(bodyOf(page)).map(({ href }) => href);
    expect(links).toContain(`/dashboard/sessions?agent=${mine.name}`);
    expect(links).toContain(`/dashboard/clients/${mine.credentials.clientId}`);
    expect((await ada.open(`/dashboard/sessions?agent=${mine.name}`)).text).toContain('Topic 0');
  });

  it('shows nothing of the other agents of its owner', async () => {
    const page = await ada.open('/dashboard/agents/first');
    for (const part of ['Topic', 'waits for it', mine.credentials.clientId, 'Last seen'])
      expect(bodyOf(page)).not.toContain(part);
  });
});

describe('The shareable page of an agent', () => {
  const visit = (handle: string): Promise<Page> => openBrowser().open(`${stage.web}/agents/${handle}`);

  it('answers HEAD like GET, without a body', async () => {
    for (const path of [mine.handle, `${mine.handle}/picture`, '@nobody.here']) {
      const url = `${stage.web}/agents/${path}`;
      const [get, head] = [await request(url), await request(url, { method: 'HEAD' })];
      const without = ({ headers }: Answer) => ({ ...headers, date: '', 'x-request-id': '' });
      expect([head.status, without(head), head.text]).toEqual([get.status, without(get), '']);
    }
  });

  it('shows strangers what its owner wrote, made harmless, and the command that writes to it', async () => {
    const path = `/dashboard/agents/${mine.name}`;
    const profile = { description: HOSTILE, card_body: `# Rules\n\n- **one**\n\n${HOSTILE}`, skill_1: HOSTILE };
    await ada.press(`${path}/profile`, /^save profile$/i, { display_name: 'Ada’s helper', ...profile });
    const [link] = linksOf(bodyOf(await ada.open(path))).filter(({ label }) => label === 'Public page');
    expect(link?.href).toBe(`/agents/${mine.handle}`);
    const page = await visit(mine.handle);
    expect(page.answer.status).toBe(200);
    for (const part of ['Ada’s helper', mine.handle, 'Rules', `send ${mine.handle} hello`])
      expect(page.text).toContain(part);
    expect(page.answer.text).toContain('<strong>one</strong>');
    expect(page.answer.text).not.toMatch(/<script>(?!if\(navigator\.clipboard)|<script [a-z]|<img|\u202e/);
    expect(page.answer.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-[^']+';/);
    expect(page.answer.headers['x-frame-options']).toBe('DENY');
    expect(page.answer.setCookies).toEqual([]);
  });

  it('highlights the code in its card as in a transcript', async () => {
    const path = `/dashboard/agents/${mine.name}/profile`;
    const card_body = '```js\nlet a = "<b>";\n```\n\n```none\nlet a\n```';
    await ada.press(path, /^save profile$/i, { display_name: 'Ada’s helper', card_body });
    const page = await visit(mine.handle);
    expect(page.answer.text).toContain(
      '<span class="code-keyword">let</span> a = <span class="code-string">&quot;&lt;b&gt;&quot;</span>;',
    );
    expect(page.answer.text.match(/code-keyword">/g)).toHaveLength(1);
    // Its style, too, is on the page.
    expect(page.answer.text).toContain('.code-keyword');
  });

  it('is the same for a private, removed, suspended, or missing agent', async () => {
    const owner = await createActor(stage.desk.place, stage.operator, 'gone');
    await ada.press('/dashboard/agents/first', /^save$/i, { visibility: 'private' });
    await ada.createAgent('short');
    await ada.press('/dashboard/agents/short/remove', /^remove agent$/i);
    await operate(stage.operator, 'PATCH', `/accounts/${owner.owner}`, { suspended: true });
    const answers = await Promise.all(
      ['@ada.first', '@ada.short', owner.handle, '@no.body', 'nonsense', '%40ada.first%2F..'].map(visit),
    );
    expect(new Set(answers.map(({ answer }) => `${answer.status} ${answer.text}`)).size).toBe(1);
    expect(answers[0]?.answer.status).toBe(404);
  });
});

describe('First steps', () => {
  const steps = async (visitor: Visitor): Promise<string> => {
    const [, section = ''] =
      /aria-labelledby="steps">([\s\S]*?)<\/section>/.exec(bodyOf(await visitor.open('/dashboard/agents'))) ?? [];
    return section.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ');
  };

  it('are listed until each is done', async () => {
    const zoe = await stage.enter('zoe');
    expect(await steps(zoe)).toMatch(
      /Create an agent \(done\) .*Connect a program.*Let another agent in.*Send a first/,
    );
    const shown = await steps(zoe);
    expect(shown).toContain(`${stage.web}/mcp`);
    for (const way of ['From JavaScript or TypeScript', 'From a coding agent', 'From CI or a server'])
      expect(shown).toContain(way);
    expect(shown).toMatch(/asp -p \S+ --as @zoe\S*\.main connect claude-code/);
    await stage.connect(zoe, 'asp on laptop');
    expect(await steps(zoe)).toMatch(/Connect a program \(done\).*Let another agent in [^(]/);
    await zoe.press('/dashboard/agents/main/allowlist', /^add$/i, { entry: other.handle });
    expect(await steps(zoe)).toMatch(/Let another agent in \(done\).*Send a first message [^(]/);
    await other.mustCreate({ topic: 'the first', invite: [zoe.handle] });
    expect(await steps(zoe)).toBe('');
  });
});
