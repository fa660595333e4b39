import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { callApi } from '../support/actors.js';
import { mustDeny } from '../support/answers.js';
import { AGENT_SCOPE } from '../support/oauth.js';
import { rule } from './rule.js';
import type { RuleId } from './rules.js';
import { useService } from './service.js';

// The specification, "Endpoints", row by row: no token, each scope alone, and the socket's token. With its own scope, a
// row answers anything but a denial of the token. With any other scope, it answers 403 before it checks anything else.

const service = useService();

interface Row {
  readonly method: string;
  readonly path: (alice: Actor, sessionId: string) => string;
  readonly scope: (typeof AGENT_SCOPE)[number];
  readonly body?: unknown;
}

const session = (verb: string) => (_: Actor, id: string) => `/sessions/${id}${verb}`;
const allowlist = (alice: Actor) => `/agents/${alice.owner}/${alice.name}/allowlist`;

const POST_SESSIONS: Row[] = [{ method: 'POST', path: () => '/sessions', scope: 'sessions:write', body: {} }];
const GET_SESSIONS: Row[] = [{ method: 'GET', path: () => '/sessions', scope: 'sessions:read' }];
const GET_SESSION: Row[] = [{ method: 'GET', path: session(''), scope: 'sessions:read' }];
const JOIN: Row[] = [{ method: 'POST', path: session('/join'), scope: 'sessions:write' }];
const INVITE: Row[] = [
  { method: 'POST', path: session('/invite'), scope: 'sessions:write', body: { invite: ['@no.body'] } },
];
const MESSAGES: Row[] = [
  { method: 'POST', path: session('/messages'), scope: 'sessions:write', body: { content: 'x' } },
];
const LEAVE: Row[] = [{ method: 'POST', path: session('/leave'), scope: 'sessions:write' }];
const END: Row[] = [{ method: 'POST', path: session('/end'), scope: 'sessions:write' }];
const REOPEN: Row[] = [{ method: 'POST', path: session('/reopen'), scope: 'sessions:write' }];
const EVENTS: Row[] = [{ method: 'GET', path: session('/events'), scope: 'sessions:read' }];
const ATTACHMENTS: Row[] = [
  { method: 'POST', path: () => '/attachments', scope: 'sessions:write', body: {} },
  { method: 'GET', path: () => '/attachments/att_01ARZ3NDEKTSV4RRFFQ69G5FAV', scope: 'sessions:read' },
];
const ME: Row[] = [
  { method: 'GET', path: () => '/agents/me', scope: 'agents:read' },
  { method: 'PATCH', path: () => '/agents/me', scope: 'agents:read', body: { description: 'x' } },
];
const AGENTS: Row[] = [
  { method: 'GET', path: () => '/agents', scope: 'agents:read' },
  { method: 'GET', path: (alice) => `/agents/${alice.owner}/${alice.name}`, scope: 'agents:read' },
  { method: 'GET', path: (alice) => `/agents/${alice.owner}/${alice.name}/card`, scope: 'agents:read' },
  { method: 'GET', path: () => '/search/agents?q=alice', scope: 'agents:read' },
  { method: 'GET', path: () => '/search/directory?q=alice', scope: 'agents:read' },
];
const ALLOWLIST: Row[] = [
  { method: 'GET', path: allowlist, scope: 'allowlist:read' },
  { method: 'POST', path: allowlist, scope: 'allowlist:write', body: { entries: ['@a.b'] } },
  { method: 'DELETE', path: (alice) => `${allowlist(alice)}/%40x.y`, scope: 'allowlist:write' },
];
const BLOCKS: Row[] = [
  { method: 'GET', path: () => '/blocks', scope: 'allowlist:read' },
  { method: 'POST', path: () => '/blocks', scope: 'allowlist:write', body: { handle: '@no.body' } },
  { method: 'DELETE', path: () => '/blocks/%40x.y', scope: 'allowlist:write' },
];

async function mustNeed(rows: readonly Row[]): Promise<void> {
  const alice = await service.actor('alice');
  for (const { method, path, scope, body } of rows) {
    const id = await alice.mustCreate();
    const address = path(alice, id);
    mustDeny(await callApi(service.place.baseUrl, undefined, method, address, body), 401, 'UNAUTHORIZED');
    const socketToken = await alice.token('ws');
    mustDeny(await alice.call(method, address, body, { token: socketToken }), 401, 'UNAUTHORIZED');
    for (const other of AGENT_SCOPE.filter((name) => name !== scope)) {
      const token = await alice.token('api', [other]);
      mustDeny(await alice.call(method, address, body, { token }), 403, 'INSUFFICIENT_SCOPE');
    }
    const answer = await alice.call(method, address, body, { token: await alice.token('api', [scope]) });
    expect([method, address, answer.status]).not.toEqual([method, address, expect.toBeOneOf([401, 403, 405, 500])]);
  }
}

const needs = (id: RuleId | readonly RuleId[]): string => `each scope alone opens what it should: ${String(id)}`;

rule(['spec/Endpoints/POST-sessions', 'spec/Scopes/sessions:write'], needs('spec/Endpoints/POST-sessions'), () =>
  mustNeed(POST_SESSIONS),
);
rule(['spec/Endpoints/GET-sessions', 'spec/Scopes/sessions:read'], needs('spec/Endpoints/GET-sessions'), () =>
  mustNeed(GET_SESSIONS),
);
rule('spec/Endpoints/GET-session', needs('spec/Endpoints/GET-session'), () => mustNeed(GET_SESSION));
rule('spec/Endpoints/join', needs('spec/Endpoints/join'), () => mustNeed(JOIN));
rule('spec/Endpoints/invite', needs('spec/Endpoints/invite'), () => mustNeed(INVITE));
rule('spec/Endpoints/messages', needs('spec/Endpoints/messages'), () => mustNeed(MESSAGES));
rule('spec/Endpoints/leave', needs('spec/Endpoints/leave'), () => mustNeed(LEAVE));
rule('spec/Endpoints/end', needs('spec/Endpoints/end'), () => mustNeed(END));
rule('spec/Endpoints/reopen', needs('spec/Endpoints/reopen'), () => mustNeed(REOPEN));
rule('spec/Endpoints/events', needs('spec/Endpoints/events'), () => mustNeed(EVENTS));
rule('spec/Endpoints/attachments', needs('spec/Endpoints/attachments'), () => mustNeed(ATTACHMENTS));
rule('spec/Endpoints/agents-me', needs('spec/Endpoints/agents-me'), () => mustNeed(ME));
rule(['spec/Endpoints/agents', 'spec/Scopes/agents:read'], needs('spec/Endpoints/agents'), () => mustNeed(AGENTS));
rule(
  ['spec/Endpoints/allowlist', 'spec/Scopes/allowlist:read', 'spec/Scopes/allowlist:write'],
  needs('spec/Endpoints/allowlist'),
  () => mustNeed(ALLOWLIST),
);
rule('spec/Endpoints/blocks', needs('spec/Endpoints/blocks'), () => mustNeed(BLOCKS));
