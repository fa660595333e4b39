import Fastify from 'fastify';
import { describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/service/core/errors.js';
import { answerOfError, answerWith, JSON_TYPE, sendAnswer } from '../../../src/service/http/answers.js';
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

  it('leaves one that comes while an answer is sent to the log, and cuts the answer', async () => {
    const logged: unknown[] = [];
    const log = { info: () => {}, warn: () => {}, error: (_event: string, thrown: unknown) => logged.push(thrown) };
    const fault = new Error('The disk reported an error.');
    async function* write(): AsyncGenerator<string> {
      yield '1';
      throw fault;
    }
    const app = Fastify();
    app.get('/', (_request, reply) => sendAnswer(reply, { ...answerWith(200, JSON_TYPE, '['), more: write() }, log));
    const address = await app.listen({ host: '127.0.0.1', port: 0 });
    await expect(fetch(address).then((answer) => answer.text())).rejects.toThrow();
    expect(logged).toEqual([fault]);
    await app.close();
  });
});
