import { randomUUID } from 'node:crypto';
import { Agent, request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Home, type ServiceProcess, startServe } from '../acceptance/program.js';
import { type Actor, createActor, operate } from '../support/actors.js';
import { mustGrant } from '../support/grants.js';
import { discover } from '../support/oauth.js';
import { operatorOf } from '../support/operator.js';
import { createTally } from '../support/tally.js';

const PAIRS = 4_000;
const WARM_UP = 500;
/** The greatest allowed distance of the AUC from 0.5. Its standard error here is 0.0065. */
const AUC_AWAY_MAX = 0.03;
const MISSING = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';
const NOBODY = '@nobody-at-all.main';

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

let home: Home;
let service: ServiceProcess;
let alice: Actor;
let stranger: Actor;
let invited: Actor;
let left: Actor;
let paused: Actor;
let closed: Actor;
let blocking: Actor;
let holding: Actor;
let hidden: Actor;
let session: string;
let ended: string;
const line = new Agent({ keepAlive: true, maxSockets: 1 });

beforeAll(async () => {
  home = createHome();
  service = await startServe(home, ['--limits', 'off']);
  const place = await discover(service.url);
  const operator = operatorOf(home);
  const actor = (name: string, policy: 'open' | 'allowlist' | 'hold' = 'open') =>
    createActor(place, operator, name, { policy });
  alice = await actor('alice');
  stranger = await actor('stranger');
  invited = await actor('invited');
  left = await actor('left');
  paused = await actor('paused');
  closed = await actor('closed', 'allowlist');
  blocking = await actor('blocking');
  holding = await actor('holding', 'hold');
  session = await alice.mustCreate({ invite: [invited.handle, left.handle] });
  await left.mustJoin(session);
  await left.mustLeave(session);
  ended = await alice.mustCreate({ invite: [left.handle] });
  await left.mustJoin(ended);
  await left.mustLeave(ended);
  await alice.mustEnd(ended);
  await operate(operator, 'PATCH', `/agents/${encodeURIComponent(paused.handle)}`, { paused: true });
  expect((await blocking.post('/blocks', { handle: stranger.handle })).status).toBeLessThan(300);
  hidden = await actor('hidden');
  const profile = { card_body: 'x'.repeat(10_000), skills: [{ name: 'hiding', description: 'x'.repeat(1_000) }] };
  expect((await hidden.patch('/agents/me', profile)).status).toBe(200);
  const { accessToken } = await mustGrant(place, operator, hidden.handle, {
    scope: 'account:read account:agents:read',
  });
  const changed = await hidden.patch(agentPath(hidden.handle), { visibility: 'private' }, { token: accessToken });
  expect(changed.status).toBe(200);
});
afterAll(async () => {
  line.destroy();
  await service.stop();
  await home.dispose();
});

/** Returns the microseconds from the first byte sent to the last received. */
function time(token: string, { method, path, body }: Call): Promise<number> {
  const sent = body === undefined ? '' : JSON.stringify(body);
  const headers = {
    authorization: `Bearer ${token}`,
    ...(method === 'GET' ? {} : { 'idempotency-key': randomUUID() }),
    ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) }),
  };
  return new Promise((resolve, reject) => {
    const startedAt = process.hrtime.bigint();
    const asked = httpRequest(`${service.url}${path}`, { method, headers, agent: line }, (answer) => {
      answer.resume();
      answer.on('end', () => {
        if (answer.statusCode === 404) resolve(Number(process.hrtime.bigint() - startedAt) / 1000);
        else reject(new Error(`${method} ${path}: ${answer.statusCode}`));
      });
    });
    asked.on('error', reject);
    asked.end(sent);
  });
}

/**
 * Returns the share of pairs in which the first took longer (Mann and Whitney). 0.5 means they are indistinguishable.
 */
function auc(first: readonly number[], second: readonly number[]): number {
  const all = [...first.map((value) => [value, 1] as const), ...second.map((value) => [value, 0] as const)];
  all.sort(([one], [other]) => one - other);
  let ranks = 0;
  for (let start = 0; start < all.length; ) {
    let end = start;
    while (end < all.length && all[end]?.[0] === all[start]?.[0]) end += 1;
    const shared = (start + 1 + end) / 2;
    for (let at = start; at < end; at += 1) if (all[at]?.[1] === 1) ranks += shared;
    start = end;
  }
  return (ranks - (first.length * (first.length + 1)) / 2) / (first.length * second.length);
}

const agentPath = (handle: string): string => `/agents/${handle.slice(1).replace('.', '/')}`;
const lookUp = (handle: string, more = ''): Call => ({ method: 'GET', path: agentPath(handle) + more });
const read = (id: string): Call => ({ method: 'GET', path: `/sessions/${id}` });
const replay = (id: string): Call => ({ method: 'GET', path: `/sessions/${id}/events` });
const send = (id: string): Call => ({ method: 'POST', path: `/sessions/${id}/messages`, body: { content: 'x' } });
const join = (id: string): Call => ({ method: 'POST', path: `/sessions/${id}/join` });
const invite = (handle: string): Call => ({ method: 'POST', path: '/sessions', body: { invite: [handle] } });

/** For each reason to answer "not found": the agent, the call, and a call to compare it with. */
const REASONS: Readonly<Record<string, () => readonly [Actor, Call, Call]>> = {
  'GET /sessions/{id}, not a member': () => [stranger, read(session), read(MISSING)],
  'GET /sessions/{id}/events, not a member': () => [stranger, replay(session), replay(MISSING)],
  'POST messages, not a member': () => [stranger, send(session), send(MISSING)],
  'POST messages, invited': () => [invited, send(session), send(MISSING)],
  'POST messages, left': () => [left, send(session), send(MISSING)],
  'POST join, session ended': () => [left, join(ended), join(MISSING)],
  'POST /sessions, paused': () => [stranger, invite(paused.handle), invite(NOBODY)],
  'POST /sessions, not allowlisted': () => [stranger, invite(closed.handle), invite(NOBODY)],
  'GET /agents/{owner}/{name}, private': () => [stranger, lookUp(hidden.handle), lookUp(NOBODY)],
  'GET /agents/{owner}/{name}/card, private': () => [stranger, lookUp(hidden.handle, '/card'), lookUp(NOBODY, '/card')],
  'POST /sessions, blocked': () => [stranger, invite(blocking.handle), invite(NOBODY)],
  'POST /sessions, held': () => [stranger, invite(holding.handle), invite(NOBODY)],
  'POST /sessions, held or blocked': () => [stranger, invite(holding.handle), invite(blocking.handle)],
};

describe('The time of a 404 reveals nothing', () => {
  const tally = createTally('the time of a 404');
  const found: Record<string, number> = {};
  let answers = 0;
  afterAll(() => {
    tally.finish(['pair'], { ok: answers, failed: 0, indeterminate: 0, pairs: PAIRS, auc: found });
  });

  it.each(Object.entries(REASONS))(
    '%s',
    async (reason, choose) => {
      const [actor, denied, missing] = choose();
      const token = await actor.token();
      const [deniedTimes, missingTimes]: [number[], number[]] = [[], []];
      for (let pair = 0; pair < WARM_UP + PAIRS; pair += 1) {
        const isTurned = pair % 2 === 1;
        const first = await time(token, isTurned ? missing : denied);
        const second = await time(token, isTurned ? denied : missing);
        answers += 2;
        if (pair < WARM_UP) continue;
        deniedTimes.push(isTurned ? second : first);
        missingTimes.push(isTurned ? first : second);
        tally.fired('pair');
      }
      const share = auc(deniedTimes, missingTimes);
      found[reason] = Number(share.toFixed(3));
      expect(Math.abs(share - 0.5)).toBeLessThanOrEqual(AUC_AWAY_MAX);
    },
    1_200_000,
  );
});
