import { describe, expect, it } from 'vitest';
import type * as z from 'zod/mini';
import { isHandle, joinHandle, splitHandle, toOwnerGlob } from '../../src/wire/handle.js';
import { ID_PREFIX, type IdKind, isId } from '../../src/wire/id.js';
import { EventEnvelope } from '../../src/wire/schemas/event.js';
import { Message } from '../../src/wire/schemas/message.js';
import { AccessTokenClaims, RegistrationRequest, TokenReply } from '../../src/wire/schemas/oauth.js';
import {
  AddAllowlistRequest,
  BlockRequest,
  Content,
  CreateAgentRequest,
  CreateSessionRequest,
  EmptyRequest,
  Handle,
  HandlePart,
  InviteRequest,
  ListSessionsQuery,
  OwnerGlob,
  ReopenRequest,
  ReplayQuery,
  Scope,
  SearchQuery,
  SendMessageRequest,
  UpdateActingAgentRequest,
} from '../../src/wire/schemas/requests.js';
import { isScope, SCOPE_DESCRIPTION, SCOPES, splitScope } from '../../src/wire/scope.js';

const ULID = '01ARZ3NDEKTSV4RRFFQ69G5FAV';
const att = (last: string): string => `att_${ULID.slice(0, -1)}${last}`;
const file = (id: string) => ({ type: 'file', attachment_id: id });

/** Each type, with valid and invalid values. */
const SHAPES: [name: string, schema: z.ZodMiniType, valid: unknown[], invalid: unknown[]][] = [
  [
    'Handle',
    Handle,
    ['@alice.bot', '@a.b', '@a-b_1.c-d_2', `@${'a'.repeat(64)}.${'b'.repeat(64)}`],
    [
      'alice.bot',
      '@alice',
      '@alice.',
      '@.bot',
      '@a.b.c',
      '@Alice.bot',
      '@alice.bot ',
      '@al ice.bot',
      '@älice.bot',
      '',
      '@a.b\n',
      `@a.${'b'.repeat(200)}`,
      7,
      null,
    ],
  ],
  ['HandlePart', HandlePart, ['a', 'a-b_1', 'a'.repeat(64)], ['', 'A', 'a.b', 'a b', 'a'.repeat(65)]],
  ['OwnerGlob', OwnerGlob, ['@alice.*'], ['@*.bot', '@alice.b*', '*', '@alice.**', 'alice.*']],
  [
    'Content',
    Content,
    [
      'hi',
      [{ type: 'text', text: 'hi' }],
      [{ type: 'data', data: {} }],
      [{ type: 'data', data: { a: [1, null, { b: 'c' }] } }],
      [file(att('A'))],
      [{ type: 'file', url: 'https://example.org/a.pdf', name: 'a.pdf', mime_type: 'application/pdf', size: 0 }],
      [{ type: 'image', attachment_id: att('A') }],
      [{ type: 'image', data_uri: 'data:image/png;base64,AAAA' }],
      [{ type: 'image', data_uri: 'DATA:Image/svg+xml,%3Csvg/%3E' }],
      [...'ABCDE'].map((last) => file(att(last))),
    ],
    [
      '',
      [],
      [{ type: 'text', text: '' }],
      [{ type: 'text' }],
      [{ type: 'text', text: 'hi', extra: 1 }],
      [{ type: 'video', url: 'https://example.org' }],
      [{ type: 'data', data: [] }],
      [{ type: 'data', data: 'x' }],
      [{ type: 'data', data: null }],
      [{ type: 'file' }],
      [{ type: 'file', attachment_id: att('A'), url: 'https://example.org' }],
      [{ type: 'file', url: 'javascript:alert(1)' }],
      [{ type: 'file', attachment_id: 'att_x' }],
      [{ type: 'file', url: 'https://example.org', size: -1 }],
      [{ type: 'image', url: 'https://example.org', data_uri: 'data:image/png,x' }],
      [{ type: 'image', data_uri: 'https://example.org' }],
      [{ type: 'image', data_uri: 'data:text/html,<script>alert(1)</script>' }],
      [{ type: 'image', data_uri: 'data:text/html;image/png,x' }],
      [{ type: 'image', data_uri: 'data:,x' }],
      [...'ABCDEF'].map((last) => file(att(last))),
      [file(att('A')), file(att('A'))],
      { type: 'text', text: 'hi' },
      null,
      7,
    ],
  ],
  [
    'SendMessageRequest',
    SendMessageRequest,
    [{ content: 'hi' }, { content: 'hi', metadata: { a: 1 } }, { content: 'hi', idempotency_key: 'k' }],
    [
      {},
      { content: 'hi', metadata: [] },
      { content: 'hi', sender: '@a.b' },
      { content: 'hi', idempotency_key: '' },
      { content: 'hi', idempotency_key: 'k'.repeat(256) },
    ],
  ],
  [
    'CreateSessionRequest',
    CreateSessionRequest,
    [
      {},
      { invite: [] },
      { invite: ['@a.b', '@a.b'], topic: '', initial_message: { content: 'hi' }, end_after_send: true },
      { end_after_send: false },
      { initial_message: { content: 'hi', metadata: {} } },
    ],
    [
      { invite: 'a.b' },
      { invite: ['a.b'] },
      { end_after_send: true },
      { topic: null },
      { topic: 'x'.repeat(501) },
      { creator: '@a.b' },
      { initial_message: 'hi' },
      { initial_message: { content: 'hi', sender: '@a.b' } },
      { invite: Array.from({ length: 101 }, () => '@a.b') },
      [],
      null,
    ],
  ],
  [
    'InviteRequest',
    InviteRequest,
    [{ invite: ['@a.b'] }],
    [{}, { invite: [] }, { invite: ['@a'] }, { invite: ['@a.b'], x: 1 }],
  ],
  [
    'ReopenRequest',
    ReopenRequest,
    [{}, { invite: ['@a.b'] }, { initial_message: { content: 'x' } }],
    [{ topic: 'x' }, { end_after_send: true }],
  ],
  ['EmptyRequest', EmptyRequest, [{}], [{ a: 1 }, [], null, 'x']],
  [
    'ListSessionsQuery',
    ListSessionsQuery,
    [{}, { state: 'ended', limit: '100', cursor: 'x' }],
    [
      { limit: '0' },
      { limit: '101' },
      { limit: '1e1' },
      { limit: '-1' },
      { limit: '1.0' },
      { limit: '' },
      { limit: ['1', '2'] },
      { state: 'open' },
      { cursor: '' },
      { offset: '1' },
    ],
  ],
  [
    'ReplayQuery',
    ReplayQuery,
    [{}, { after_sequence: '0', limit: '1000' }, { after_sequence: 7 }],
    [
      { after_sequence: '-1' },
      { after_sequence: '-0' },
      { after_sequence: '9007199254740993' },
      { after_sequence: '1e3' },
      { limit: '1001' },
      { limit: '0' },
    ],
  ],
  [
    'SearchQuery',
    SearchQuery,
    [{ q: 'ab' }, { q: 'x'.repeat(100), limit: '50' }],
    [{}, { q: 'a' }, { q: 'x'.repeat(101) }, { q: 'ab', limit: '51' }],
  ],
  [
    'CreateAgentRequest',
    CreateAgentRequest,
    [{ local_name: 'bot', display_name: 'Bot' }],
    [
      { local_name: 'Bot', display_name: 'x' },
      { local_name: 'bot' },
      { local_name: 'bot', display_name: '' },
      { local_name: 'bot', display_name: 'x', handle: '@a.b' },
    ],
  ],
  [
    'UpdateActingAgentRequest',
    UpdateActingAgentRequest,
    [{}, { description: null }, { skills: [{ name: 'a', description: '' }] }],
    [
      { inbound_policy: 'open' },
      { paused: true },
      { skills: Array.from({ length: 21 }, () => ({ name: 'a', description: '' })) },
    ],
  ],
  [
    'AddAllowlistRequest',
    AddAllowlistRequest,
    [{ entries: ['@a.b', '@a.*'] }],
    [{ entries: [] }, { entries: ['*'] }, {}],
  ],
  [
    'BlockRequest',
    BlockRequest,
    [{ handle: '@a.b' }, { handle: '@a.*' }],
    [{ handle: '@*.b' }, {}, { handle: '@a.b', reason: 'x' }],
  ],
  [
    'RegistrationRequest',
    RegistrationRequest,
    [{ redirect_uris: ['http://127.0.0.1/cb'] }, { redirect_uris: ['x'], logo_uri: 'ignored' }],
    [{}, { redirect_uris: [] }, { redirect_uris: 'x' }, { redirect_uris: [1] }],
  ],
];

describe('shapes › each type', () => {
  for (const [name, schema, valid, invalid] of SHAPES) {
    it.each(valid.map((value) => [JSON.stringify(value).slice(0, 90), value]))(`${name} accepts %s`, (_, value) => {
      expect(schema.safeParse(value).error).toBeUndefined();
    });
    it.each(invalid.map((value) => [JSON.stringify(value)?.slice(0, 90), value]))(`${name} refuses %s`, (_, value) => {
      expect(schema.safeParse(value).success).toBe(false);
    });
  }
});

describe('shapes › an answer may contain unknown things', () => {
  it('passes unknown event types, fields and part types through', () => {
    const event = {
      type: 'session.renamed',
      session_id: 's',
      event_id: 'e',
      sequence: 1,
      created_at: 1,
      payload: { a: 1 },
      extra: true,
    };
    expect(EventEnvelope.parse(event)).toEqual(event);
    const message = {
      id: 'm',
      session_id: 's',
      sender: '@a.b',
      sequence: 1,
      content: [{ type: 'video', x: 1 }],
      created_at: 1,
      y: 2,
    };
    expect(Message.parse(message)).toEqual(message);
  });

  it('takes a token answer without refresh token, and claims with one audience or several', () => {
    expect(TokenReply.safeParse({ access_token: 'x', token_type: 'bearer', expires_in: 900 }).success).toBe(true);
    const claims = { iss: 'i', sub: 's', azp: 'c', scope: '', iat: 1, exp: 2, token_type: 'access' };
    expect(AccessTokenClaims.safeParse({ ...claims, aud: 'a' }).success).toBe(true);
    expect(AccessTokenClaims.safeParse({ ...claims, aud: ['a', 'b'] }).success).toBe(true);
    expect(AccessTokenClaims.safeParse({ ...claims, aud: 'a', token_type: 'refresh' }).success).toBe(false);
  });
});

describe('handles and ids', () => {
  it('splits and joins a handle', () => {
    expect(splitHandle('@alice.bot')).toEqual({ owner: 'alice', name: 'bot' });
    expect(joinHandle('alice', 'bot')).toBe('@alice.bot');
    expect(toOwnerGlob('@alice.bot')).toBe('@alice.*');
    expect(isHandle('@alice.bot')).toBe(true);
    expect(isHandle('@alice.*')).toBe(false);
  });

  it.each(Object.keys(ID_PREFIX) as IdKind[])('knows a %s id by its prefix and its ULID', (kind) => {
    expect(isId(kind, `${ID_PREFIX[kind]}${ULID}`)).toBe(true);
    for (const wrong of [
      ULID,
      `${ID_PREFIX[kind]}${ULID.toLowerCase()}`,
      `${ID_PREFIX[kind]}${ULID}A`,
      `${ID_PREFIX[kind]}8${ULID.slice(1)}`,
      `x_${ULID}`,
    ])
      expect(isId(kind, wrong)).toBe(false);
  });
});

describe('scopes', () => {
  it('describes every scope in words', () => {
    expect(Object.keys(SCOPE_DESCRIPTION).sort()).toEqual([...SCOPES].sort());
    expect(Scope.options).toEqual(SCOPES);
    for (const scope of SCOPES) expect(isScope(scope)).toBe(true);
    expect(isScope('admin')).toBe(false);
  });

  it('splits a scope parameter, each token once', () => {
    expect(splitScope(' a  b a ')).toEqual(['a', 'b']);
    expect(splitScope('')).toEqual([]);
  });
});
