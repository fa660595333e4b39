import { describe, expect, it } from 'vitest';
import * as z from 'zod/mini';
import { MISFIT, readAs } from '../../../src/client/http/read-as.js';
import type { Operation } from '../../../src/wire/endpoint.js';
import { AGENT_REPLIES } from '../../../src/wire/schemas/agent.js';
import { ATTACHMENT_REPLIES } from '../../../src/wire/schemas/attachment.js';
import { DELIVERY_REPLIES } from '../../../src/wire/schemas/delivery.js';
import { EVENT_REPLIES } from '../../../src/wire/schemas/event.js';
import { SESSION_REPLIES } from '../../../src/wire/schemas/session.js';
import { REPLY } from '../../support/canned-replies.js';

const SCHEMAS: readonly (readonly [string, z.ZodMiniType])[] = Object.entries({
  ...SESSION_REPLIES,
  ...EVENT_REPLIES,
  ...DELIVERY_REPLIES,
  ...ATTACHMENT_REPLIES,
  ...AGENT_REPLIES,
});
const INSTEAD: readonly unknown[] = [undefined, null, 1, 1.5, 2 ** 60, '', 'x', true, [], [null], {}, { type: 1 }];

/** Yields a variant of the document for each place and each other value, or none, in that place. */
function* variantsOf(document: unknown): Generator<unknown> {
  yield* INSTEAD;
  if (typeof document !== 'object' || document === null) return;
  for (const [name, member] of Object.entries(document))
    for (const other of variantsOf(member)) {
      const copy: unknown = structuredClone(document);
      Reflect.set(copy as object, name, other);
      // Drops undefined members, as JSON does.
      yield JSON.parse(JSON.stringify(copy));
    }
}

describe('the reply of each endpoint', () => {
  for (const [operation, schema] of SCHEMAS)
    it(`is read as Zod would read it, with optional members filled in: ${operation}`, () => {
      const wording = { text: 'some text', filesUrl: 'http://127.0.0.1/files' };
      const canned = REPLY[operation as Operation](wording, new URLSearchParams());
      expect(readAs(schema, canned)).toEqual(z.parse(schema, canned));
      const count = { accepted: 0, refused: 0 };
      for (const variant of variantsOf(canned)) {
        const read = readAs(schema, structuredClone(variant));
        const parsed = z.safeParse(schema, variant);
        if (parsed.success) expect(read).toEqual(parsed.data);
        if (read !== MISFIT) expect(z.safeParse(schema, read)).toEqual({ success: true, data: read });
        count[read === MISFIT ? 'refused' : 'accepted'] += 1;
      }
      expect(count.refused).toBeGreaterThan(0);
      expect(count.accepted).toBeGreaterThan(0);
    });
});

it('does not copy a page that needs no change', () => {
  const page = REPLY.replayEvents({ text: 'some text', filesUrl: '' }, new URLSearchParams());
  expect(readAs(EVENT_REPLIES.replayEvents, page)).toBe(page);
});

it('keeps a member __proto__ of a payload as data, as the service does', () => {
  const page = REPLY.replayEvents({ text: 'some text', filesUrl: '' }, new URLSearchParams());
  const text = JSON.stringify(page).replaceAll('"payload":{', '"payload":{"__proto__":{"polluted":1},');
  const read = readAs(EVENT_REPLIES.replayEvents, JSON.parse(text));
  if (read === MISFIT) throw new Error('a misfit');
  expect(JSON.stringify(read)).toBe(text);
  for (const { payload } of read.events)
    expect([Object.getPrototypeOf(payload), payload['polluted']]).toEqual([Object.prototype, undefined]);
  expect(read.events.length).toBeGreaterThan(0);
});
