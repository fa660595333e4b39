import { expect, it } from 'vitest';

import { mustFindForm } from '../../support/person.js';
import { bodyOf, openStage } from './stage.js';

// With a real clock, a minute could pass while the test sends the requests.
it('a form beyond the limit keeps what was typed, and says when it can be sent again', async () => {
  const stage = await openStage({ areLimitsOn: true });
  try {
    const ada = await stage.enter('ada');
    await ada.createAgent('second');
    const page = await ada.open('/dashboard/agents/main/blocks');
    const send = () => ada.browser.submit(page, mustFindForm(page, /^block$/i), { handle: 'nobody' });
    // Creating the two agents used two requests.
    for (let sent = 2; sent < 300; sent += 1) expect((await send()).answer.status).toBe(400);
    const refused = await send();
    expect(refused.answer.status).toBe(429);
    expect(refused.answer.headers['retry-after']).toBe('60');
    expect(refused.text).toContain('Too many changes. Try again in 60 seconds.');
    expect(mustFindForm(refused, /^block$/i).values['handle']).toBe('nobody');
    stage.desk.clock.advance(18_000);

    const typed = { name: 'third', display_name: 'The “third”', description: 'What it does\nin two lines' };
    const made = await ada.press('/dashboard/new-agent', /^create agent$/i, typed);
    expect([made.answer.status, made.answer.headers['retry-after']]).toEqual([429, '42']);
    expect(mustFindForm(made, /^create agent$/i).values).toMatchObject(typed);
    const profile = { display_name: 'Main', description: 'It helps', card_body: '# Card', skill_1: 'Sorting' };
    const saved = await ada.press('/dashboard/agents/main/profile', /^save profile$/i, profile);
    expect(mustFindForm(saved, /^save profile$/i).values).toMatchObject(profile);
    const access = { visibility: 'private', can_initiate_sessions: undefined };
    const chosen = mustFindForm(await ada.press('/dashboard/agents/main', /^save$/i, access), /^save$/i);
    expect([chosen.values['visibility'], chosen.ticked]).toEqual(['private', {}]);
    const listed = await ada.press('/dashboard/agents/main/allowlist', /^add$/i, { entry: '@bob.helper' });
    expect(mustFindForm(listed, /^add$/i).values['entry']).toBe('@bob.helper');
    const client = { name: 'Nightly', agent: 'second', scope: ['sessions:read'] };
    const created = await ada.press('/dashboard/new-client', /^create api credential$/i, client);
    const form = mustFindForm(created, /^create api credential$/i);
    expect([form.values['name'], form.ticked['scope']]).toEqual(['Nightly', ['sessions:read']]);
    expect(bodyOf(created)).toContain('value="second" selected');

    // A single button is offered again with its value.
    const paused = await ada.press('/dashboard/agents/main', /^pause$/i);
    expect([paused.answer.status, mustFindForm(paused, /^try again$/i).values['paused']]).toEqual([429, 'true']);
    expect((await ada.open('/dashboard/agents')).answer.status).toBe(200);
    stage.desk.clock.advance(60_000);
    const again = await ada.browser.submit(paused, mustFindForm(paused, /^try again$/i), {}, /^try again$/i);
    expect(again.text).toContain('The agent is paused');
    expect((await send()).answer.status).toBe(400);
  } finally {
    await stage.close();
  }
});
