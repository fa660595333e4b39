import { expect } from 'vitest';

import type { Answer } from './http.js';
import { field, keysOf } from './json.js';

const CHALLENGE: Readonly<Record<number, readonly string[]>> = {
  401: ['invalid_token'],
};

/** The answer is a success of this status; its JSON. */
export function mustSucceed(answer: Answer, status = 200): unknown {
  expect(answer.status, answer.text).toBe(status);
  return answer.text === '' ? undefined : answer.json;
}

/** The answer is a denial: the one envelope, this status and code, and the challenge that belongs to it. */
export function mustDeny(answer: Answer, status: number, code: string): void {
  expect({ status: answer.status, code: codeOf(answer) }, answer.text).toEqual({ status, code });
  mustBeEnvelope(answer);
}

/** Every non-2xx answer is `{"error":{"code","message"}}` as JSON; 401 and a missing scope carry their challenge. */
export function mustBeEnvelope(answer: Answer): void {
  expect(answer.headers['content-type']).toMatch(/^application\/json/);
  expect(keysOf(answer.json)).toEqual(['error']);
  expect(field(answer.json, 'error')).toMatchObject({ code: expect.any(String), message: expect.any(String) });
  expect(keysOf(field(answer.json, 'error')).filter((key) => key !== 'docs_url')).toEqual(['code', 'message']);
  const challenge = answer.headers['www-authenticate'];
  for (const error of CHALLENGE[answer.status] ?? []) expect(challenge).toContain(`Bearer error="${error}"`);
  if (codeOf(answer) === 'INSUFFICIENT_SCOPE') expect(challenge).toContain('Bearer error="insufficient_scope"');
  if (answer.status === 429) expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
}

export function codeOf(answer: Answer): unknown {
  try {
    return field(answer.json, 'error.code');
  } catch {
    return undefined;
  }
}

/** An OAuth error (RFC 6749 §5.2): its status and name, as JSON, never stored. */
export function mustRefuse(answer: Answer, status: number, error: string): void {
  expect({ status: answer.status, error: field(answer.json, 'error') }, answer.text).toEqual({ status, error });
  expect(answer.headers['cache-control']).toContain('no-store');
}
