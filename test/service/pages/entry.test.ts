import { describe, expect, it } from 'vitest';

import { renderEntry } from '../../../src/service/pages/dashboard/entry.js';
import type { EventEnvelope } from '../../../src/wire/event.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../src/wire/limit.js';

const entryOf = (said: object, isWhole: boolean): string => {
  const event: EventEnvelope = {
    type: 'session.message',
    session_id: 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV',
    event_id: 'evt_01ARZ3NDEKTSV4RRFFQ69G5FAV',
    sequence: 7,
    created_at: 0,
    payload: { sender: '@eve.bot', ...said },
  };
  return renderEntry(event, { path: '/p', username: 'ada', through: 100, isWhole }).item.markup;
};

/** As large as a message may be, and as deep: laid out on lines of their own its brackets take sixty times the room. */
const BRACKETS: unknown = JSON.parse(`[${'['.repeat(55)}${']'.repeat(55)}]`);
const DEEP = { a: Array.from({ length: 2200 }, () => BRACKETS) };
const MANY = Array.from({ length: 9000 }, (_, index) => ({ type: 'text', text: `part ${index}.` }));

describe('A message in a transcript', () => {
  it.each([
    ['data', { content: [{ type: 'data', data: DEEP }] }],
    ['metadata', { content: 'x', metadata: DEEP }],
    ['a part that is not known', { content: [{ type: 'new', deep: DEEP }] }],
    ['many parts', { content: MANY }],
    ['many small data', { content: Array.from({ length: 1000 }, () => ({ type: 'data', data: { a: BRACKETS } })) }],
    ['a long text', { content: 'x'.repeat(250_000) }],
  ])('takes little room, whatever it holds: %s', (_, said) => {
    expect(entryOf(said, false).length).toBeLessThan(100_000);
    expect(entryOf(said, false)).toContain('href="/p/events/7"');
    expect(entryOf(said, true).length).toBeLessThan(8 * MESSAGE_BODY_MAX_BYTES);
  });

  it('is whole on a page of its own', () => {
    const whole = entryOf({ content: MANY, metadata: { trace: `${'m'.repeat(5000)} the end` } }, true);
    expect(whole).toContain('part 8999.');
    expect(whole).toContain('the end');
  });

  it('is laid out on lines where it is no deeper than people read', () => {
    const data = { order: { items: [{ sku: 'a' }] } };
    expect(entryOf({ content: [{ type: 'data', data }] }, false)).toContain('\n        &quot;sku&quot;: &quot;a&quot;');
    expect(entryOf({ content: 'x', metadata: data }, false)).toContain('\n        &quot;sku&quot;: &quot;a&quot;');
  });
});
