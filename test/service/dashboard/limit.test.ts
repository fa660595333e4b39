import { expect, it } from 'vitest';

import { mustFindForm } from '../../support/person.js';
import { openStage } from './stage.js';

// On a store with a clock of its own a minute could pass while they are sent.
it('changes are as many as an account token may make in a minute', async () => {
  const stage = await openStage({ areLimitsOn: true });
  try {
    const ada = await stage.enter('ada');
    const page = await ada.open('/dashboard/agents/main/blocks');
    const send = () => ada.browser.submit(page, mustFindForm(page, /^block$/i), { handle: 'nobody' });
    // Making the agent was one.
    for (let sent = 1; sent < 300; sent += 1) expect((await send()).answer.status).toBe(400);
    const refused = await send();
    expect(refused.answer.status).toBe(429);
    expect(refused.answer.headers['retry-after']).toBe('60');
    expect(refused.text).toContain('Too many changes');
    expect((await ada.open('/dashboard/agents')).answer.status).toBe(200);
    stage.desk.clock.advance(60_000);
    expect((await send()).answer.status).toBe(400);
  } finally {
    await stage.close();
  }
});
