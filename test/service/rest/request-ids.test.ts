import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { Log } from '../../../src/service/core/context.js';
import { findScope, follow, readTraceParent, unfollow } from '../../../src/service/core/request-scope.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';
import { loadSqlite } from '../../../src/service/store/sqlite-driver.js';
import type { Actor } from '../../support/actors.js';
import { type Answer, formBody, request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { openSocket } from '../../support/socket.js';
import { TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { createBrowser } from '../authorization-server/browser.js';

/** Posts a form whose body arrives in a separate event after the head. */
function postSlowly(url: string, id: string, body: string): Promise<void> {
  const headers = { 'x-request-id': id, 'content-type': 'application/x-www-form-urlencoded' };
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method: 'POST', headers: { ...headers, 'content-length': body.length } });
    sent.on('error', reject).on('response', (answer) => answer.resume().on('end', resolve));
    sent.flushHeaders();
    setTimeout(() => sent.end(body), 30);
  });
}

type Line = Readonly<Record<string, unknown>>;

const OWN = /^req_[0-9a-f]{20}$/;
const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN_ID = '00f067aa0ba902b7';

describe('the id of a request', () => {
  const directory = mkdtempSync(join(tmpdir(), 'asp-request-ids-'));
  const lines: Line[] = [];
  const keep =
    (level: string) =>
    (event: string, ...[given, more]: unknown[]): void => {
      const fields = level === 'warn' || level === 'error' ? more : given;
      lines.push({ level, event, ...(fields as Line | undefined) });
    };
  const log: Log = {
    debug: keep('debug'),
    info: keep('info'),
    warn: keep('warn'),
    error: keep('error'),
    security: keep('security'),
  };
  let service: TestService;
  let alice: Actor;
  beforeAll(async () => {
    service = await startTestService({ data: { directory }, log, areLimitsOn: false });
    alice = await service.createAgent('alice');
  });
  beforeEach(() => {
    lines.length = 0;
  });
  afterAll(async () => {
    await service.stop();
    rmSync(directory, { recursive: true });
  });

  const idOf = ({ headers }: Answer): string => headers['x-request-id'] ?? 'none';
  const allLinesOf = (id: string): Line[] => lines.filter((line) => line['request_id'] === id);
  const linesOf = (id: string): Line[] => allLinesOf(id).filter(({ event }) => event !== 'database');
  const ask = (headers: Record<string, string>, path = '/sessions'): Promise<Answer> =>
    request(`${service.baseUrl}${path}`, { headers });

  it('is in every answer and its log line, and is always unique', async () => {
    const answers = [
      await alice.get('/agents/me'),
      await alice.get('/agents/me'),
      await ask({}),
      await ask({}, '/nothing/here'),
      await ask({ host: 'bad host' }),
      await request(`${service.webUrl}/health`),
      await request(`${service.webUrl}/dashboard`),
      await request(service.place.tokenUrl, { method: 'POST', body: 'x' }),
      await request(`${service.baseUrl}/%zz`),
    ];
    const ids = answers.map(idOf);
    for (const id of ids) expect(id).toMatch(OWN);
    expect(new Set(ids).size).toBe(answers.length);
    await until('each has its line', async () => lines.filter(({ event }) => event === 'request').length >= 9);
    for (const [index, id] of ids.entries())
      expect(linesOf(id)).toContainEqual(expect.objectContaining({ event: 'request', status: answers[index]?.status }));
  });

  it('is the one that the caller sent if it is 8 to 64 letters, digits, dots, dashes and underscores', async () => {
    const good = ['01890a5d-ac96-774b-bcce-b302099a8057', 'a1b2c3d4', `x${'-_.'.repeat(21)}`];
    for (const id of good) expect(idOf(await ask({ 'x-request-id': id }))).toBe(id);
    const bad = ['', 'short', 'a'.repeat(65), '-leading-dash', 'with space', 'semi;colon', 'a"quote"b', 'ümläuteee'];
    for (const id of bad) expect(idOf(await ask({ 'x-request-id': Buffer.from(id).toString('latin1') }))).toMatch(OWN);
    // The form in which Node.js joins two headers.
    expect(idOf(await ask({ 'x-request-id': 'first-first, second-second' }))).toMatch(OWN);
  });

  it('is in everything that the request causes, down to a failure of the disk', async () => {
    const attachment = await alice.mustUpload();
    const { url } = (await alice.get(`/attachments/${attachment}`)).json as { url: string };
    for (const name of readdirSync(join(directory, 'attachments')))
      if (name.startsWith('att_')) rmSync(join(directory, 'attachments', name));
    lines.length = 0;
    const answer = await request(url, { headers: { 'x-request-id': 'quoted-by-a-user' } });
    expect(answer.status).toBe(500);
    await until('it has its line', async () => lines.some(({ event }) => event === 'request'));
    expect(linesOf('quoted-by-a-user')).toMatchObject([
      { level: 'debug', event: 'request_received', method: 'GET', address: '127.0.0.1' },
      { level: 'error', event: 'attachment_file_missing' },
      { level: 'debug', event: 'refused', error: 'INTERNAL_ERROR' },
      { level: 'warn', event: 'request', status: 500 },
    ]);
  });

  it('is in the log lines after a form is received', async () => {
    const browser = createBrowser(service.webUrl);
    const page = await browser.get('/oauth/sign-in');
    lines.length = 0;
    await browser.submit(page, '/oauth/sign-in', { username: 'nobody', password: 'wrong wrong wrong' });
    const [failed] = lines.filter(({ event }) => event === 'sign_in_failed');
    expect(failed?.['request_id']).toMatch(OWN);
    await until('it has its line', async () => lines.some(({ event }) => event === 'request'));
    expect(linesOf(String(failed?.['request_id']))).toContainEqual(
      expect.objectContaining({ event: 'request', method: 'POST', route: '/oauth/sign-in' }),
    );
  });

  it('connects a request with its agent, account, and database use in the log', async () => {
    const answer = await alice.get('/agents/me');
    expect(allLinesOf(idOf(answer))).toContainEqual(
      expect.objectContaining({ event: 'database', operation: 'read', ms: expect.any(Number) }),
    );
    expect(linesOf(idOf(answer))).toContainEqual({
      level: 'debug',
      event: 'authenticated',
      account_id: expect.stringMatching(/^acct_/),
      agent_id: expect.stringMatching(/^agt_/),
      request_id: idOf(answer),
    });
  });

  it.skipIf(TEST_STORE === 'postgres')(
    'is in the lines about a failure and on its page, also without debugging',
    async () => {
      const broken = mkdtempSync(join(tmpdir(), 'asp-request-ids-'));
      const { debug: _, ...withoutDebug } = log;
      const other = await startTestService({ data: { directory: broken }, log: withoutDebug, areLimitsOn: false });
      const bob = await other.createAgent('bob');
      await bob.token('api');
      const browser = createBrowser(other.webUrl);
      const form = await browser.get('/oauth/sign-in');
      const connection = (await loadSqlite())(join(broken, 'asp.sqlite'));
      connection.exec('ALTER TABLE account RENAME TO account_gone');
      connection.close();
      lines.length = 0;
      const page = await browser.submit(form, '/oauth/sign-in', { username: 'maria', password: 'wrong wrong wrong' });
      const [failed] = lines.filter(({ event }) => event === 'page_failed');
      expect(failed).toMatchObject({ level: 'error', request_id: expect.stringMatching(OWN) });
      expect(page.text).toContain(String(failed?.['request_id']));
      const answer = await bob.get('/agents/me');
      expect(answer.status).toBe(500);
      await until('it has its line', async () => linesOf(idOf(answer)).length > 1);
      expect(linesOf(idOf(answer))).toMatchObject([
        { level: 'error', event: 'request_failed' },
        { level: 'warn', event: 'request', status: 500 },
      ]);
      const refused = await browser.get('/oauth/authorize?client_id=nobody');
      expect(refused.text).not.toMatch(/req_[0-9a-f]{20}/);
      await other.stop();
      rmSync(broken, { recursive: true });
    },
  );

  it('is in a WebSocket’s handshake, its refusal, and its closing log line', async () => {
    const refused = (await openSocket(service.wsUrl, { authorization: 'Bearer no' })) as Answer;
    expect(refused.status).toBe(401);
    expect(linesOf(idOf(refused))).toMatchObject([
      { event: 'refused', error: 'UNAUTHORIZED' },
      { event: 'request', method: 'GET', route: '/connect', status: 401 },
    ]);
    const socket = await openSocket(service.wsUrl, {
      authorization: `Bearer ${await alice.token('ws')}`,
      'x-request-id': 'the-socket-of-alice',
    });
    if (!('mustPing' in socket)) throw new Error(socket.text);
    await socket.mustPing();
    await socket.close();
    await until('it ended', async () => lines.some(({ event }) => event === 'socket_closed'));
    expect(linesOf('the-socket-of-alice')).toMatchObject([
      { event: 'authenticated' },
      { event: 'request', route: '/connect', status: 101 },
      { event: 'socket_closed', close_code: 1006, ms: expect.any(Number) },
    ]);
  });

  it('is logged with the trace of a valid traceparent, but not of an invalid one', async () => {
    const traced = await ask({ traceparent: `00-${TRACE_ID}-${SPAN_ID}-01` });
    await until('it has its line', async () => linesOf(idOf(traced)).some(({ event }) => event === 'request'));
    for (const line of linesOf(idOf(traced))) expect(line).toMatchObject({ trace_id: TRACE_ID, span_id: SPAN_ID });
    const untraced = await ask({ traceparent: `00-${'0'.repeat(32)}-${SPAN_ID}-01` });
    await until('it has its line', async () => linesOf(idOf(untraced)).some(({ event }) => event === 'request'));
    for (const line of linesOf(idOf(untraced))) expect(line).not.toHaveProperty('trace_id');
  });

  it('belongs to one request, even among many at once and with bodies that arrive slowly', async () => {
    const ids = Array.from({ length: 40 }, () => randomBytes(16).toString('hex'));
    await Promise.all(
      ids.map(async (id, index) => {
        const body = formBody({ grant_type: 'client_credentials', client_id: id, client_secret: 'x'.repeat(index) });
        await postSlowly(service.place.tokenUrl, id, body);
        await ask({ 'x-request-id': `${id}-again` });
      }),
    );
    await until('each has its line', async () => lines.filter(({ event }) => event === 'request').length >= 80);
    for (const id of ids)
      expect(linesOf(id).map(({ event }) => event)).toEqual(['request_received', 'oauth_refused', 'request']);
  });
});

describe('a write', () => {
  it('belongs to its own request, although writes of other requests share its commit', async () => {
    const database = await openSqlite('memory');
    const seen: string[] = [];
    const keys = { one: {}, two: {} };
    const write = (requestId: 'one' | 'two'): Promise<void> =>
      follow(keys[requestId], { requestId }, () =>
        database.write(async (transaction) => {
          await transaction.get('SELECT 1');
          seen.push(`${requestId} writes as ${findScope()?.requestId}`);
          transaction.afterCommit(() => seen.push(`${requestId} ends as ${findScope()?.requestId}`));
        }),
      );
    const behind = database.write(async () => void seen.push(`no request writes as ${findScope()?.requestId}`));
    await Promise.all([write('one'), behind, write('two')]);
    await database.close();
    for (const key of Object.values(keys)) unfollow(key);
    expect(seen.sort()).toEqual([
      'no request writes as undefined',
      'one ends as one',
      'one writes as one',
      'two ends as two',
      'two writes as two',
    ]);
  });
});

describe('work for a request', () => {
  it('belongs to it until the request is over, and no longer', async () => {
    // A separate copy, because other services in this process may still follow requests.
    const copy = '../../../src/service/core/request-scope.js?copy';
    const { findScope, follow, unfollow }: typeof import('../../../src/service/core/request-scope.js') = await import(
      copy
    );
    const [one, two] = [{}, {}];
    const seen: (string | undefined)[] = [];
    const turns = new EventEmitter();
    const look = async (): Promise<void> => {
      await Promise.resolve();
      seen.push(findScope()?.requestId);
      for (const turn of ['first', 'second']) {
        await once(turns, turn);
        seen.push(findScope()?.requestId);
      }
    };
    const first = follow(one, { requestId: 'one' }, look);
    const second = follow(two, { requestId: 'two' }, look);
    await new Promise(setImmediate);
    unfollow(one);
    await follow(two, { requestId: 'two' }, async () => seen.push(`still ${findScope()?.requestId}`));
    turns.emit('first');
    await new Promise(setImmediate);
    unfollow(two);
    turns.emit('second');
    await Promise.all([first, second]);
    expect(seen).toEqual(['one', 'two', 'still two', undefined, 'two', undefined, undefined]);
  });
});

describe('a traceparent', () => {
  it('is read according to its specification', () => {
    const read = (header: string) => readTraceParent(header);
    expect(read(`00-${TRACE_ID}-${SPAN_ID}-01`)).toEqual({ traceId: TRACE_ID, spanId: SPAN_ID, isSampled: true });
    expect(read(`00-${TRACE_ID}-${SPAN_ID}-fe`)).toMatchObject({ isSampled: false });
    expect(read(`cc-${TRACE_ID}-${SPAN_ID}-01-more`)).toMatchObject({ traceId: TRACE_ID });
    for (const bad of [
      '',
      `ff-${TRACE_ID}-${SPAN_ID}-01`,
      `00-${TRACE_ID}-${SPAN_ID}-01-more`,
      `00-${TRACE_ID.toUpperCase()}-${SPAN_ID}-01`,
      `00-${TRACE_ID}-${'0'.repeat(16)}-01`,
      `00-${TRACE_ID.slice(1)}-${SPAN_ID}-01`,
      `00-${TRACE_ID}-${SPAN_ID}-1`,
    ])
      expect(read(bad), bad).toBeUndefined();
  });
});
