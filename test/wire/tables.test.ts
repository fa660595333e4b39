import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import {
  ATTACHMENT_TYPE,
  attachmentTypeOfName,
  isAttachmentType,
  matchesSignature,
} from '../../src/wire/attachment.js';
import { ENDPOINT, ENDPOINT_ALIAS, endpointRow, fillPath, isWrite, type Operation } from '../../src/wire/endpoint.js';
import { ERROR, isErrorCode, isRetryableStatus } from '../../src/wire/error.js';
import { EVENT_TYPES } from '../../src/wire/event.js';
import * as limit from '../../src/wire/limit.js';
import { AGENT_REPLIES } from '../../src/wire/schemas/agent.js';
import { ATTACHMENT_REPLIES } from '../../src/wire/schemas/attachment.js';
import { DELIVERY_REPLIES } from '../../src/wire/schemas/delivery.js';
import { endpointSchemas } from '../../src/wire/schemas/endpoint.js';
import { EVENT_REPLIES } from '../../src/wire/schemas/event.js';
import { SESSION_REPLIES } from '../../src/wire/schemas/session.js';
import { isScope } from '../../src/wire/scope.js';

const operations = Object.keys(ENDPOINT) as Operation[];
/** The files that a row's `reply` can name. A client loads only the one that it needs. */
const FILES = {
  session: SESSION_REPLIES,
  event: EVENT_REPLIES,
  delivery: DELIVERY_REPLIES,
  attachment: ATTACHMENT_REPLIES,
  agent: AGENT_REPLIES,
};

/** The whole table, repeated here on purpose: change both together. */
const ENDPOINTS = `
POST /sessions sessions:write
GET /sessions sessions:read
GET /sessions/{session_id} sessions:read
POST /sessions/{session_id}/join sessions:write
POST /sessions/{session_id}/invite sessions:write
POST /sessions/{session_id}/messages sessions:write
POST /sessions/{session_id}/leave sessions:write
POST /sessions/{session_id}/end sessions:write
POST /sessions/{session_id}/reopen sessions:write
GET /sessions/{session_id}/events sessions:read
GET /sessions/{session_id}/delivery sessions:read
POST /sessions/{session_id}/taken sessions:write
POST /sessions/{session_id}/unanswered sessions:write
POST /sessions/{session_id}/claim sessions:write
GET /account account:read
GET /accounts/me/sessions account:read
POST /attachments sessions:write
GET /attachments/{attachment_id} sessions:read
GET /agents/me agents:read
PATCH /agents/me agents:read
GET /agents agents:read
POST /agents account:agents:read
GET /agents/{owner}/{name} agents:read
PATCH /agents/{owner}/{name} account:agents:read
DELETE /agents/{owner}/{name} account:agents:read
GET /agents/{owner}/{name}/webhook account:agents:read
POST /agents/{owner}/{name}/webhook account:agents:read
DELETE /agents/{owner}/{name}/webhook account:agents:read
GET /agents/{owner}/{name}/card agents:read
GET /search/agents agents:read
GET /search/directory agents:read
GET /search/messages agents:read+sessions:read
GET /agents/{owner}/{name}/allowlist allowlist:read
POST /agents/{owner}/{name}/allowlist allowlist:write
DELETE /agents/{owner}/{name}/allowlist/{entry} allowlist:write
GET /agents/{owner}/{name}/knocks allowlist:read
DELETE /agents/{owner}/{name}/knocks/{sender} allowlist:write
GET /blocks allowlist:read
POST /blocks allowlist:write
DELETE /blocks/{blocked} allowlist:write`;

describe('Endpoints › the table', () => {
  it('has every endpoint with its scope, and no other', () => {
    const rows = operations.map(
      (name) => `${ENDPOINT[name].method} ${ENDPOINT[name].path} ${ENDPOINT[name].scopes.join('+')}`,
    );
    expect(rows.sort(), 'repeat the row in ENDPOINTS of this test').toEqual(ENDPOINTS.trim().split('\n').sort());
  });

  it.each(operations)('%s has known scopes, a query only to read and a body only to write', (name) => {
    const row = endpointRow(name);
    expect(row.scopes.every(isScope)).toBe(true);
    expect(row.accountScopes !== undefined).toBe(row.actor === 'either');
    const { query, body, reply } = endpointSchemas(name);
    if (isWrite(row)) expect(query).toBeUndefined();
    else expect(row.body).toBeUndefined();
    expect(body !== undefined).toBe(row.body === 'json' || row.body === 'optional');
    expect(reply !== undefined).toBe(row.reply !== 'markdown' && row.reply !== 'nothing');
    expect(row.status === 204).toBe(row.reply === 'nothing');
    if (reply !== undefined) expect(Object.keys(FILES[row.reply as keyof typeof FILES])).toContain(name);
  });

  it('has each verb of a session in the matrix of who may do what', () => {
    const matrix = readFileSync(new URL('../conformance/matrix.test.ts', import.meta.url), 'utf8');
    const verbs = operations.flatMap(
      (name) => /^\/sessions\/\{session_id\}(\/.*)?$/.exec(ENDPOINT[name].path)?.[1] ?? [],
    );
    const forgotten = verbs.filter((verb) => !matrix.includes(`path: '${verb}`));
    expect(forgotten, 'add them to VERBS in test/conformance/matrix.test.ts').toEqual([]);
  });

  it('has aliases only for existing operations, with the same parameters or the acting agent in their place', () => {
    for (const alias of ENDPOINT_ALIAS) {
      const names = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map((match) => String(match[1]));
      const wanted = names(ENDPOINT[alias.operation].path).filter(
        (name) => !('agent' in alias && ['owner', 'name'].includes(name)),
      );
      expect(names(alias.path)).toEqual(wanted);
    }
  });

  it('fills a path with encoded segments and leaves none empty', () => {
    expect(fillPath('/agents/{owner}/{name}/allowlist/{entry}', { owner: 'a', name: 'b', entry: '@x.*/..' })).toBe(
      '/agents/a/b/allowlist/%40x.*%2F..',
    );
    expect(() => fillPath('/sessions/{session_id}', {})).toThrow(/session_id/);
  });
});

describe('Errors › the table', () => {
  const TABLE: Record<string, [status: number, exitCode: number, retry: string]> = {
    UNAUTHORIZED: [401, 4, 'refresh'],
    TOKEN_EXPIRED: [401, 4, 'refresh'],
    INSUFFICIENT_SCOPE: [403, 5, 'never'],
    FORBIDDEN: [403, 5, 'never'],
    FEATURE_NOT_AVAILABLE: [403, 5, 'never'],
    NOT_FOUND: [404, 3, 'never'],
    AGENT_NOT_FOUND: [404, 3, 'never'],
    VALIDATION_ERROR: [400, 2, 'never'],
    INVALID_HANDLE: [400, 2, 'never'],
    MISSING_IDEMPOTENCY_KEY: [400, 2, 'never'],
    IDEMPOTENCY_MISMATCH: [400, 6, 'never'],
    LOOP_GUARD: [403, 11, 'never'],
    DUPLICATE_HANDLE: [409, 6, 'never'],
    RATE_LIMITED: [429, 7, 'after'],
    INTERNAL_ERROR: [500, 9, 'backoff'],
  };

  it('has every code with its status, exit code and advice', () => {
    expect(
      Object.fromEntries(Object.entries(ERROR).map(([code, row]) => [code, [row.status, row.exit_code, row.retry]])),
    ).toEqual(TABLE);
    expect(isErrorCode('NOT_FOUND')).toBe(true);
    expect(isErrorCode('toString')).toBe(false);
  });

  it('Client handling: of the 4xx, only 408, 425 and 429 are retried', () => {
    const tried = Array.from({ length: 200 }, (_, index) => 400 + index).filter(isRetryableStatus);
    expect(tried.filter((status) => status < 500)).toEqual([408, 425, 429]);
    expect(tried.filter((status) => status >= 500)).toHaveLength(100);
  });
});

describe('Limits › the numbers', () => {
  it('has every rate limit of the table', () => {
    const rows = Object.entries(limit.RATE_LIMIT).map(([name, row]) => [
      name,
      row.count,
      row.window_ms / 60_000,
      row.subject,
    ]);
    expect(rows).toEqual([
      ['createSession', 30, 60, 'agent'],
      ['sendMessage', 60, 1, 'session'],
      ['sendToOpenAgent', 500, 60, 'open_agent'],
      ['search', 30, 1, 'agent'],
      ['uploadAttachment', 60, 60, 'agent'],
      ['general', 300, 1, 'agent'],
      ['issueToken', 120, 1, 'client'],
    ]);
  });

  it('has every constant of the table', () => {
    expect(limit).toMatchObject({
      ACCESS_TOKEN_LIFETIME_S: 900,
      REFRESH_TOKEN_IDLE_LIFETIME_S: 2_592_000,
      REFRESH_THRESHOLD_S: 60,
      ATTACHMENTS_PER_MESSAGE_MAX: 5,
      ATTACHMENT_MAX_BYTES: 10_485_760,
      ATTACHMENT_URL_LIFETIME_S: 300,
      PENDING_ATTACHMENT_LIFETIME_S: 3600,
      LIST_LIMIT_MAX: 100,
      LIST_LIMIT_DEFAULT: 50,
      CODE_VERIFIER_MIN_LENGTH: 43,
      CODE_VERIFIER_MAX_LENGTH: 128,
      IDEMPOTENCY_KEY_LIFETIME_S: 86_400,
      RETRY_JITTER_MS: [
        [0, 0],
        [1000, 3000],
        [4000, 8000],
        [10_000, 20_000],
      ],
    });
  });
});

describe('Events › the table', () => {
  it('has the types of the specification and those of the contract', () => {
    expect(EVENT_TYPES).toEqual([
      'session.invited',
      'session.joined',
      'session.message',
      'session.left',
      'session.ended',
      'session.reopened',
      'session.disconnected',
      'session.reconnected',
    ]);
  });
});

describe('Other limits › attachment types', () => {
  it('accepts the eight types of the specification', () => {
    expect(Object.keys(ATTACHMENT_TYPE).sort()).toEqual([
      'application/json',
      'application/pdf',
      'image/gif',
      'image/jpeg',
      'image/png',
      'text/csv',
      'text/markdown',
      'text/plain',
    ]);
    expect(isAttachmentType('image/svg+xml')).toBe(false);
    expect(isAttachmentType('constructor')).toBe(false);
  });

  it('finds the type by the extension, in any case', () => {
    expect(attachmentTypeOfName('A.JPEG')).toBe('image/jpeg');
    expect(attachmentTypeOfName('notes.md')).toBe('text/markdown');
    expect(attachmentTypeOfName('a.exe')).toBeUndefined();
    expect(attachmentTypeOfName('png')).toBe('image/png');
  });

  it.each([
    ['application/pdf', '%PDF-1.7', true],
    ['application/pdf', 'PDF', false],
    ['image/png', '\x89PNG\r\n\x1a\n', true],
    ['image/png', '\x89PNG', false],
    ['image/jpeg', '\xff\xd8\xff\xe0', true],
    ['image/gif', 'GIF89a', true],
    ['image/gif', 'GIF88a', false],
    ['text/plain', 'anything', true],
  ] as const)('Binary signature check: %s with %j is %s', (type, head, isRight) => {
    expect(matchesSignature(type, Buffer.from(head, 'latin1'))).toBe(isRight);
  });
});
