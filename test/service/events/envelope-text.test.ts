import fc from 'fast-check';
import { expect, it } from 'vitest';
import { envelopeText } from '../../../src/service/messaging/events.js';
import { EventEnvelope } from '../../../src/wire/schemas/event.js';
import { ANY_CHARACTER } from '../../support/hostile-text.js';

it('An event has the same text on a socket as in a replay’s envelope', () => {
  const payload = fc.dictionary(fc.string({ unit: ANY_CHARACTER }), fc.jsonValue());
  fc.assert(
    fc.property(payload, fc.nat(), (said, sequence) => {
      const stored = JSON.stringify({ ...said, ['__proto__']: 1, 7: '\u2028\0' });
      const row = {
        type: 'session.message',
        session_id: 'sess_A',
        id: 'evt_A',
        sequence,
        created_at: 5,
        payload: stored,
      };
      const envelope = {
        ...{ type: row.type, session_id: row.session_id, event_id: row.id, sequence, created_at: 5 },
        payload: JSON.parse(stored) as unknown,
      };
      expect(envelopeText(row)).toBe(JSON.stringify(envelope));
      EventEnvelope.parse(JSON.parse(envelopeText(row)));
    }),
  );
});
