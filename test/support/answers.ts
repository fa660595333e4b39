import { expect } from 'vitest';

import type { Answer } from './http.js';
import { field, keysOf } from './json.js';

const CHALLENGE: Readonly<Record<number, readonly string[]>> = {
  401: ['invalid_token'],
};

/** Expects success with this status and returns the JSON. */
export function mustSucceed(answer: Answer, status = 200): unknown {
  expect(answer.status, answer.text).toBe(status);
  return answer.text === '' ? undefined : answer.json;
}

/** Expects an error envelope with this status and code, and the challenge that belongs to it. */
export function mustDeny(answer: Answer, status: number, code: string): void {
  expect({ status: answer.status, code: codeOf(answer) }, answer.text).toEqual({ status, code });
  mustBeEnvelope(answer);
}

/** Expects `{"error":{"code","message"}}` as JSON, with a challenge if the status is 401 or a scope is missing. */
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

/** Expects an OAuth error (RFC 6749 §5.2) with this status and name, as JSON that must not be cached. */
export function mustRefuse(answer: Answer, status: number, error: string): void {
  expect({ status: answer.status, error: field(answer.json, 'error') }, answer.text).toEqual({ status, error });
  expect(answer.headers['cache-control']).toContain('no-store');
}
