import { describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/service/core/errors.js';
import { answerOfError } from '../../../src/service/http/answers.js';
import { ERROR, type ErrorCode, errorRow } from '../../../src/wire/error.js';

function answer(error: unknown) {
  const logged: unknown[] = [];
  const log = { info: () => {}, warn: () => {}, error: (_event: string, thrown: unknown) => logged.push(thrown) };
  return { ...answerOfError(error, log, undefined), logged };
}

describe('The answer to a thrown error', () => {
  it.each(Object.keys(ERROR) as ErrorCode[])('is that of its row: %s', (code) => {
    const row = errorRow(code);
    const { status, headers, body, logged } = answer(new ServiceError(code));
    expect(status).toBe(row.status);
    expect(JSON.parse(body)).toEqual({ error: { code, message: row.message } });
    const challenge = row.challenge === undefined ? undefined : `Bearer error="${row.challenge}"`;
    expect(new Map(headers).get('www-authenticate')).toBe(challenge);
    expect(logged).toEqual([]);
  });

  it('reveals only that a fault happened, and leaves the rest to the log', () => {
    const secret = 'token eyJhbGciOi at /home/someone/asp.sqlite';
    for (const thrown of [new Error(secret), new TypeError(secret), secret, undefined, { code: 'NOT_FOUND' }]) {
      const { status, body, logged } = answer(thrown);
      expect(status).toBe(500);
      expect(JSON.parse(body)).toEqual({ error: { code: 'INTERNAL_ERROR', message: ERROR.INTERNAL_ERROR.message } });
      expect(logged).toEqual([thrown]);
    }
  });

  it('names the wait in whole seconds, and the methods of a 405', () => {
    const limited = new Map(answer(new ServiceError('RATE_LIMITED', undefined, { retryAfterS: 17 })).headers);
    expect(limited.get('retry-after')).toBe('17');
    const refused = answer(new ServiceError('VALIDATION_ERROR', 'x', { status: 405, allow: 'GET' }));
    expect([refused.status, new Map(refused.headers).get('allow')]).toEqual([405, 'GET']);
  });
});
