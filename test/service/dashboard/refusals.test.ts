import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, createActor } from '../../support/actors.js';
import { mustDeny, mustSucceed } from '../../support/answers.js';
import { request } from '../../support/http.js';
import { askClientToken } from '../../support/oauth.js';
import { mustFindForm } from '../../support/person.js';
import { openStage, pathOf, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
let eve: Visitor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: true });
  [ada, eve] = [await stage.enter('ada'), await stage.enter('eve')];
});
afterAll(() => stage.close());

const TRAFFIC = '/dashboard/traffic';
const newStranger = (): Promise<Actor> => createActor(stage.desk.place, stage.operator, 'stranger');
const knock = async (stranger: Actor, handle: string): Promise<void> =>
  mustDeny(
    await stranger.post('/sessions', { invite: [handle], initial_message: { content: 'psst' } }),
    404,
    'NOT_FOUND',
  );

describe('Refused invitations', () => {
  it('are shown to the owner of the agent, who can allow the sender from there', async () => {
    const stranger = await newStranger();
    await knock(stranger, ada.handle);
    await knock(stranger, ada.handle);
    const seen = await ada.open(TRAFFIC);
    expect(seen.text).toContain(`${stranger.handle} Not on the allowlist Refused 2 times at ${ada.handle}`);
    expect(seen.text).not.toContain('psst');
    expect((await eve.open(TRAFFIC)).text).not.toContain(stranger.handle);
    const allowed = await ada.press(TRAFFIC, /^allow/i);
    expect([pathOf(allowed), allowed.text.includes('Added to the allowlist.')]).toEqual([TRAFFIC, true]);
    expect(allowed.text).not.toContain(stranger.handle);
    mustSucceed(await stranger.post('/sessions', { invite: [ada.handle] }), 201);
  });

  it('are on the page of the agent, with a way to its block', async () => {
    const stranger = await newStranger();
    await knock(stranger, ada.handle);
    const path = '/dashboard/agents/main/knocks';
    const blocked = await ada.press(path, /^block/i);
    expect([pathOf(blocked), blocked.text.includes('Blocked.')]).toEqual([path, true]);
    expect(blocked.text).not.toContain('Not on the allowlist');
    const unblocked = await ada.browser.submit(blocked, mustFindForm(blocked, /^unblock/i), {}, /^unblock/i);
    expect(pathOf(unblocked)).toBe('/dashboard/agents/main/blocks');
    await ada.press('/dashboard/agents/main/blocks', /^block$/i, { handle: stranger.handle });
    await knock(stranger, ada.handle);
    const seen = await ada.open(path);
    expect(seen.text).toContain(`${stranger.handle} Blocked Refused just now`);
    expect(seen.answer.text).toContain(`/blocks?q=${encodeURIComponent(stranger.handle)}`);
  });
});

describe('Calls beyond a rate limit', () => {
  it('are shown to the owner of the agent: which limit, how often, and when last', async () => {
    const { accessToken } = await stage.connect(ada, 'Searcher');
    const search = () =>
      request(`${stage.desk.place.baseUrl}/search/agents?q=helper`, {
        headers: { authorization: `Bearer ${accessToken}` },
      });
    for (let sent = 0; sent < 30; sent += 1) expect((await search()).status).toBe(200);
    expect((await ada.open('/dashboard/agents/main')).text).not.toContain('refused');
    expect([(await search()).status, (await search()).status]).toEqual([429, 429]);
    expect((await ada.open('/dashboard/agents/main')).text).toContain(
      'Searches a minute, 2 calls refused, last just now',
    );
    expect((await ada.open(TRAFFIC)).text).toContain(`${ada.handle} Searches: 2 calls refused, last just now`);
    expect((await eve.open(TRAFFIC)).text).not.toContain('Searches');
  });

  it('are shown for an API credential that asks for too many tokens', async () => {
    const page = await eve.press('/dashboard/new-client', /^create api credential$/i, {
      name: 'Hasty',
      agent: 'main',
      scope: ['sessions:read'],
    });
    const path = pathOf(page);
    const credentials = { clientId: path.split('/').at(-1) ?? '', clientSecret: 'wrong' };
    const ask = async () => (await askClientToken(stage.desk.place, credentials, stage.desk.place.baseUrl)).status;
    for (let sent = 0; sent < 120; sent += 1) expect(await ask()).toBe(401);
    expect(await ask()).toBe(429);
    expect((await eve.open(path)).text).toContain('Rate limit of tokens Reached: one call refused just now');
    expect((await eve.open(TRAFFIC)).text).toContain('Hasty (API credential) Tokens: one call refused just now');
    expect((await ada.open(TRAFFIC)).text).not.toContain('Hasty');
  });
});
