import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SharedDatabase, Transaction } from '../../../../src/service/core/database.js';
import { type RunningService, startService } from '../../../../src/service/service.js';
import { markAccountSuspended } from '../../../../src/service/store/accounts.js';
import { deleteAccountSessions } from '../../../../src/service/store/browser-sessions.js';
import { accountLock, agentLock } from '../../../../src/service/store/lock-names.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { markSocketsRevoked } from '../../../../src/service/store/processes.js';
import { deleteShareLinksOfAccount, insertShareLink } from '../../../../src/service/store/share-links.js';
import { type Actor, callApi, createActor, type Operator, operate } from '../../../support/actors.js';
import { newPerson, openBrowser, toCookieHeader } from '../../../support/browser.js';
import { mustGetCode, mustGrant } from '../../../support/grants.js';
import { type Answer, formBody, request } from '../../../support/http.js';
import { field } from '../../../support/json.js';
import { connect, type Tools, tokenFor } from '../../../support/mcp-tools.js';
import { multipart } from '../../../support/multipart.js';
import { discover, type Place, redeemCode, refresh, revoke } from '../../../support/oauth.js';
import { mustFindForm, signUp } from '../../../support/person.js';
import { drawPng } from '../../../support/pictures.js';
import { createSchema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

const ROUNDS = process.env['ASP_TEST_LONG'] === '1' ? 200 : 5;
const CALLERS = 64;

const schema = createSchema();
let one: RunningService;
let two: RunningService;
/** The service, through each of its two processes. */
let places: readonly [Place, Place];
let operator: Operator;
let alice: Actor;
let bob: Actor;

beforeAll(async () => {
  const options = { host: '127.0.0.1', port: 0, data: 'memory', databaseUrl: schema.url, areLimitsOn: false } as const;
  const seeds = [{ handle: '@seed.one' }, { handle: '@seed.two' }] as const;
  one = await startService({ ...options, seeds });
  two = await startService({ ...options, seeds, publicUrl: one.authUrl });
  const place = await discover(one.baseUrl);
  const doorOfTwo = (url: string): string => url.replace(`:${one.port}`, `:${two.port}`);
  places = [place, { ...place, tokenUrl: doorOfTwo(place.tokenUrl) }];
  operator = { url: one.operatorUrl, secret: one.operatorSecret };
  alice = await createActor(place, operator, 'alice');
  bob = await createActor(place, operator, 'bob');
});
afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await schema.drop();
});

const baseOfTwo = (): string => `http://127.0.0.1:${two.port}/v1`;
const atOnce = (ask: (place: Place) => Promise<Answer>): Promise<Answer[]> =>
  Promise.all(Array.from({ length: CALLERS }, (_, index) => ask(places[index % 2 === 0 ? 0 : 1])));
const successes = (answers: readonly Answer[]): Answer[] => answers.filter((answer) => answer.status === 200);

async function withDatabase<T>(work: (database: SharedDatabase) => Promise<T>): Promise<T> {
  const database = await openPostgres(schema.url);
  return work(database).finally(() => database.close());
}

function findAlice(): Promise<{ account_id: string }> {
  return withDatabase(async (database) => {
    const [row] = await database.read((query) =>
      query.all<{ account_id: string }>('SELECT account_id FROM agent WHERE handle = $1', alice.handle),
    );
    if (row === undefined) throw new Error('no alice');
    return row;
  });
}

type Change = (transaction: Transaction, at: number | null) => Promise<unknown>;

/** The answer to a call that waits for a named lock until a change is committed, which is undone afterwards. */
function askDuring([lock, change]: readonly [string, Change], ask: () => Promise<Answer>): Promise<Answer> {
  const waiting = "SELECT 1 AS found FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
  return withDatabase(async (database) => {
    const { asked } = await database.write(async (transaction) => {
      await transaction.lock([lock]);
      const asked = ask();
      await until('the call waits', async () => (await database.aside.all(waiting)).length > 0);
      await change(transaction, 1);
      return { asked };
    });
    const answer = await asked;
    await database.write((transaction) => change(transaction, null));
    return answer;
  });
}

describe(`${CALLERS} at once over two services`, () => {
  it(`a code is redeemed exactly once, and a second use revokes its tokens: ${ROUNDS} rounds`, async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { clientId, code, verifier } = await mustGetCode(places[0], operator, alice.handle);
      const answers = await atOnce((place) => redeemCode(place, clientId, code, verifier));
      const [won, ...others] = successes(answers);
      expect(others).toEqual([]);
      expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200, 400]));
      const token = String(field(won?.json, 'refresh_token'));
      expect((await refresh(places[1], clientId, token)).status).toBe(401);
    }
  });

  it('a code that is removed while it is redeemed is refused, without an alert about a copy', async () => {
    const { clientId, code, verifier } = await mustGetCode(places[0], operator, alice.handle);
    const isWaiting = `SELECT 1 AS found FROM pg_stat_activity WHERE wait_event_type = 'Lock'
      AND query LIKE 'UPDATE authorization_code%'`;
    const [answer, alerts] = await withDatabase(async (database) => {
      const { redeeming } = await database.write(async (transaction) => {
        await transaction.run('DELETE FROM authorization_code WHERE client_id = $1', clientId);
        const redeeming = redeemCode(places[1], clientId, code, verifier);
        await until('the code is waited for', async () => (await database.aside.all(isWaiting)).length > 0);
        return { redeeming };
      });
      const alerts = "SELECT id FROM activity WHERE kind = 'app-copied' AND detail = $1";
      return [await redeeming, await database.read((query) => query.all(alerts, clientId))] as const;
    });
    expect([answer.status, field(answer.json, 'error'), alerts]).toEqual([400, 'invalid_grant', []]);
  });

  it(`a refresh token is rotated exactly once, and its family ends revoked: ${ROUNDS} rounds`, async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { clientId, refreshToken } = await mustGrant(places[0], operator, alice.handle);
      const answers = await atOnce((place) => refresh(place, clientId, refreshToken));
      const [won, ...others] = successes(answers);
      expect(others).toEqual([]);
      expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200, 401]));
      const successor = String(field(won?.json, 'refresh_token'));
      expect((await refresh(places[1], clientId, successor)).status).toBe(401);
    }
  });

  it(`a message with one key is sent once, and all get the same bytes: ${ROUNDS} rounds`, async () => {
    const session = await alice.mustCreate({});
    const token = await alice.token();
    for (let round = 0; round < ROUNDS; round += 1) {
      const answers = await Promise.all(
        Array.from({ length: CALLERS }, (_, index) =>
          callApi(
            index % 2 === 0 ? one.baseUrl : baseOfTwo(),
            token,
            'POST',
            `/sessions/${session}/messages`,
            { content: 'x' },
            { key: `k${round}` },
          ),
        ),
      );
      const [first, ...others] = new Set(answers.map((answer) => `${answer.status} ${answer.text}`));
      expect(first).toMatch(/^201 /);
      expect(others).toEqual([]);
      expect(await alice.mustReplay(session)).toHaveLength(round + 1);
    }
  });
});

describe('One service in two processes', () => {
  it('shows at one what the other acknowledged', async () => {
    const session = await alice.mustCreate({});
    const token = await alice.token();
    for (let i = 1; i <= 20; i += 1) {
      const { sequence } = await alice.mustSend(session, `message ${i}`);
      const answer = await callApi(
        baseOfTwo(),
        token,
        'GET',
        `/sessions/${session}/events?after_sequence=${sequence - 1}`,
      );
      expect(field(answer.json, 'events.0.sequence')).toBe(sequence);
    }
  });

  it('sends a socket at one what the other gets, at once and in order, and counts it as online at both', async () => {
    const session = await alice.mustCreate({ invite: [bob.handle] });
    const socket = await bob.mustConnect(undefined, `ws://127.0.0.1:${two.port}/connect`);
    await bob.mustJoin(session);
    for (let i = 0; i < 30; i += 1) await alice.mustSend(session, `message ${i}`);
    const texts = () =>
      socket.frames
        .filter((frame) => field(frame, 'type') === 'session.message')
        .map((frame) => field(frame, 'payload.content'));
    await until('all messages have arrived', async () => texts().length >= 30);
    expect(texts()).toEqual(Array.from({ length: 30 }, (_, i) => `message ${i}`));
    const record = await alice.get(`/agents/${bob.owner}/${bob.name}`);
    expect(field(record.json, 'agent.is_online')).toBe(true);
    await socket.close();
  });

  it('keeps agents online when a third process starts and stops', async () => {
    const socket = await bob.mustConnect(undefined, `ws://127.0.0.1:${two.port}/connect`);
    const three = await startService({ host: '127.0.0.1', port: 0, data: 'memory', databaseUrl: schema.url });
    await three.stop();
    const record = await alice.get(`/agents/${bob.owner}/${bob.name}`);
    expect(field(record.json, 'agent.is_online')).toBe(true);
    await socket.close();
    await until(
      'bob is offline',
      async () => field((await alice.get(`/agents/${bob.owner}/${bob.name}`)).json, 'agent.is_online') === false,
    );
  });

  it('creates no agent for an account that is suspended at the same time', async () => {
    const scope = 'account:read account:agents:read';
    const { accessToken } = await mustGrant(places[0], operator, alice.handle, { scope });
    const body = { local_name: 'late', display_name: 'Late' };
    const { account_id: accountId } = await findAlice();
    const answer = await askDuring(
      [accountLock(accountId), (transaction, at) => markAccountSuspended(transaction, accountId, at)],
      () => callApi(baseOfTwo(), accessToken, 'POST', '/agents', body),
    );
    expect([answer.status, field(answer.json, 'error.code')]).toEqual([401, 'UNAUTHORIZED']);
    expect((await alice.get(`/agents/${alice.owner}/late`)).status).toBe(404);
  });

  it.each([
    ['others', () => ({ invite: [bob.handle] })],
    ['no one', () => ({})],
  ])('creates no session with %s for an agent that is removed at the same time', async (_, body) => {
    const token = await alice.token();
    const remove = (transaction: Transaction, at: number | null) =>
      transaction.run('UPDATE agent SET removed_at = $2 WHERE handle = $1', alice.handle, at);
    const answer = await askDuring([agentLock(alice.handle), remove], () =>
      callApi(baseOfTwo(), token, 'POST', '/sessions', body()),
    );
    expect([answer.status, field(answer.json, 'error.code')]).toEqual([401, 'UNAUTHORIZED']);
  });

  /** Ends a session of alice and bob, and lets alice reopen it while an agent is removed. */
  const reopenDuring = async ({ handle }: Actor): Promise<{ readonly sessionId: string; readonly answer: Answer }> => {
    const sessionId = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(sessionId);
    await alice.mustEnd(sessionId);
    const token = await alice.token();
    const remove: Change = (transaction, at) =>
      transaction.run('UPDATE agent SET removed_at = $2 WHERE handle = $1', handle, at);
    const answer = await askDuring([agentLock(handle), remove], () =>
      callApi(baseOfTwo(), token, 'POST', `/sessions/${sessionId}/reopen`, {}),
    );
    return { sessionId, answer };
  };

  it('reopens no session for an agent that is removed at the same time', async () => {
    const { sessionId, answer } = await reopenDuring(alice);
    expect([answer.status, field(answer.json, 'error.code')]).toEqual([401, 'UNAUTHORIZED']);
    expect(field((await alice.get(`/sessions/${sessionId}`)).json, 'state')).toBe('ended');
  });

  it('invites no earlier participant of a reopened session that is removed at the same time', async () => {
    const { sessionId, answer } = await reopenDuring(bob);
    expect(answer.status).toBe(200);
    expect(field((await alice.get(`/sessions/${sessionId}`)).json, 'participants')).toMatchObject([
      { handle: alice.handle, status: 'joined' },
      { handle: bob.handle, status: 'left' },
    ]);
  });

  it('closes the sockets at one of a grant revoked at the other, even if the notification is lost', async () => {
    const socket = await bob.mustConnect(undefined, `ws://127.0.0.1:${two.port}/connect`);
    await withDatabase((database) =>
      database.write((transaction) => markSocketsRevoked(transaction, bob.credentials.clientId, Date.now())),
    );
    expect(await socket.mustBeClosed(5_000)).toBe(1008);
  });

  it('closes the sockets at one of a grant revoked at the other', async () => {
    const { clientId, refreshToken, accessToken } = await mustGrant(places[0], operator, bob.handle, {
      resource: [places[0].baseUrl, places[0].wsUrl],
    });
    const socket = await bob.mustConnect(accessToken, `ws://127.0.0.1:${two.port}/connect`);
    expect((await revoke(places[0], clientId, refreshToken)).status).toBe(200);
    expect(await socket.mustBeClosed(2_000)).toBe(1008);
  });
});

describe('Two simultaneous changes of one session:', () => {
  it('an agent that is blocked while it is invited ends up outside', async () => {
    for (let round = 0; round < 10; round += 1) {
      const carol = await createActor(places[0], operator, 'carol');
      const session = await alice.mustCreate({});
      await Promise.all([
        alice.post(`/sessions/${session}/invite`, { invite: [carol.handle] }),
        callApi(baseOfTwo(), await carol.token(), 'POST', '/blocks', { handle: alice.handle }),
      ]);
      const { json } = await alice.get(`/sessions/${session}`);
      const statuses = (field(json, 'participants') as { handle: string; status: string }[])
        .filter((participant) => participant.handle !== alice.handle)
        .map((participant) => `${participant.handle === carol.handle} ${participant.status}`);
      const mine = (field(json, 'participants') as { handle: string; status: string }[]).find(
        (one) => one.handle === alice.handle,
      );
      // Either the invitation came too late, or the block removed alice from their shared session.
      expect([...statuses, mine?.status]).toSatisfy(
        (seen: string[]) => seen.join() === 'joined' || seen.join() === 'true invited,left',
      );
    }
  });

  it('changes of different parts of one agent are both kept', async () => {
    const token = await alice.token();
    for (let round = 0; round < 10; round += 1) {
      await Promise.all([
        alice.patch('/agents/me', { display_name: `name ${round}` }),
        callApi(baseOfTwo(), token, 'PATCH', '/agents/me', { description: `about ${round}` }),
      ]);
      expect((await alice.get('/agents/me')).json).toMatchObject({
        display_name: `name ${round}`,
        description: `about ${round}`,
      });
    }
  });
});

describe('The dashboard at two services', () => {
  const webs = (): readonly [string, string] => [one.webUrl, `http://127.0.0.1:${two.port}`];
  const enter = async (): Promise<{ cookie: string; csrf: string }> => {
    const link = await operate(operator, 'POST', '/sign-in-links', { account: alice.owner });
    const browser = openBrowser();
    await browser.open(String(field(link, 'url')));
    const page = await browser.open(`${one.webUrl}/dashboard/new-agent`);
    const { values } = mustFindForm(page, /^create agent$/i);
    return { cookie: toCookieHeader(browser.cookies), csrf: String(values['csrf']) };
  };
  const openSession = async (): Promise<string> => {
    const session = await alice.mustCreate({ topic: 'Shared' });
    await alice.mustSend(session, 'to be shared');
    return session;
  };
  const linksPath = (session: string): string => `/dashboard/sessions/${session}/links`;
  const post = (url: string, cookie: string, fields: Record<string, string>): Promise<Answer> =>
    request(url, {
      method: 'POST',
      headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' },
      body: formBody(fields),
    });
  const upload = (url: string, { cookie, csrf }: { cookie: string; csrf: string }, side: number): Promise<Answer> => {
    const picture = { name: 'picture', filename: 'me.png', type: 'image/png', bytes: drawPng(side, side) };
    const { type, body } = multipart([picture]);
    const boundary = type.slice(type.indexOf('=') + 1);
    const first = `--${boundary}\r\ncontent-disposition: form-data; name="csrf"\r\n\r\n${csrf}\r\n`;
    return request(`${url}/dashboard/agents/${alice.name}/picture`, {
      method: 'POST',
      headers: { cookie, 'content-type': type },
      body: Buffer.concat([Buffer.from(first), body]),
    });
  };
  /** The page that a form leads to, with the cookies that its answer set. */
  const follow = (answer: Answer, cookie: string, web: string): Promise<Answer> => {
    const set = answer.setCookies.map((one) => one.split(';')[0]);
    return request(`${web}${answer.headers['location']}`, { headers: { cookie: [cookie, ...set].join('; ') } });
  };
  const pathIn = ({ text }: Answer): string => /\/shared\/[\w-]{43}/.exec(text)?.[0] ?? 'no link';
  const countLinks = async (): Promise<number> =>
    withDatabase(async (database) => {
      const rows = await database.read((query) => query.all('SELECT id FROM share_link'));
      return rows.length;
    });

  it('makes one link if its form arrives at both, which both show and answer, until one revokes it', async () => {
    const { cookie, csrf } = await enter();
    const session = await openSession();
    const fields = { csrf, key: 'both', days: '7' };
    const sent = await Promise.all(webs().map((web) => post(`${web}${linksPath(session)}`, cookie, fields)));
    const pages = await Promise.all(sent.map((answer, index) => follow(answer, cookie, webs()[index] ?? '')));
    const [path = ''] = pages.map(pathIn);
    expect([pages.map(pathIn), await countLinks()]).toEqual([[path, path], 1]);
    for (const web of webs()) expect((await request(web + path)).text).toContain('to be shared');
    const id = /name="id" value="(\w+)"/.exec(pages[0]?.text ?? '')?.[1] ?? '';
    expect((await post(`${webs()[1]}/dashboard/links/revoke`, cookie, { csrf, id })).status).toBe(303);
    for (const web of webs()) expect((await request(web + path)).status).toBe(404);
  });

  it('makes no more than a hundred links if forms arrive at both', async () => {
    const { cookie, csrf } = await enter();
    const sessions = await Promise.all(Array.from({ length: 12 }, openSession));
    const { account_id: accountId } = await findAlice();
    const row = {
      account_id: accountId,
      session_id: sessions[0] ?? '',
      through_sequence: 1,
      last_sequence: 1,
      created_at: 1,
      view_handle: null,
    };
    await withDatabase((database) =>
      database.write(async (transaction) => {
        for (let made = 0; made < 95; made += 1) {
          const own = { id: `made ${made}`, secret_hash: `made ${made}`, expires_at: Date.now() + 600_000 };
          await insertShareLink(transaction, { ...row, ...own });
        }
      }),
    );
    const sent = await Promise.all(
      sessions.map((session, index) =>
        post(`${webs()[index % 2]}${linksPath(session)}`, cookie, { csrf, key: `form ${index}`, days: '1' }),
      ),
    );
    const statuses = sent.map(({ status }) => status).sort();
    expect([statuses, await countLinks()]).toEqual([[...Array(5).fill(303), ...Array(7).fill(403)], 100]);
    await withDatabase((database) =>
      database.write((transaction) => deleteShareLinksOfAccount(transaction, accountId)),
    );
  });

  it('leaves one link for a new password if operators make several at both', async () => {
    const person = newPerson('carol');
    const browser = openBrowser();
    await signUp(browser, await browser.open(`${one.webUrl}/dashboard`), person);
    const operators = [operator, { url: two.operatorUrl, secret: two.operatorSecret }] as const;
    const path = `/accounts/${person.username}/password-links`;
    const links = await Promise.all(
      Array.from({ length: 12 }, (_, index) => operate(operators[index % 2 === 0 ? 0 : 1], 'POST', path)),
    );
    const urls = links.map((link) => new URL(String(field(link, 'url'))));
    const opened = await Promise.all(urls.map(({ pathname, search }) => request(one.webUrl + pathname + search)));
    expect(opened.map(({ status }) => status).filter((status) => status !== 403)).toEqual([200]);
  });

  it('makes no link for a browser that is signed out at the same time', async () => {
    const { cookie, csrf } = await enter();
    const session = await openSession();
    const { account_id: accountId } = await findAlice();
    const signOut: Change = (transaction) => deleteAccountSessions(transaction, accountId, undefined);
    const answer = await askDuring([accountLock(accountId), signOut], () =>
      post(`${webs()[1]}${linksPath(session)}`, cookie, { csrf, key: 'late', days: '7' }),
    );
    expect([answer.status, answer.headers['location']?.split('?')[0], await countLinks()]).toEqual([
      303,
      '/oauth/sign-in',
      0,
    ]);
  });

  it('keeps one picture of an agent if two arrive, and none for an agent that is removed at the same time', async () => {
    const signedIn = await enter();
    const [{ id }] = (await withDatabase((database) =>
      database.read((query) => query.all('SELECT id FROM agent WHERE handle = $1', alice.handle)),
    )) as [{ id: string }];
    const pictures = () =>
      withDatabase((database) =>
        database.read((query) => query.all<{ id: string }>('SELECT id FROM attachment WHERE session_id = $1', id)),
      );
    for (let round = 0; round < ROUNDS; round += 1) {
      const sent = await Promise.all([8, 9, 10, 11].map((side) => upload(webs()[side % 2] ?? '', signedIn, side)));
      expect(sent.map(({ status }) => status)).toEqual([303, 303, 303, 303]);
      expect(await pictures()).toHaveLength(1);
    }
    const before = await pictures();
    const remove: Change = (transaction, at) =>
      transaction.run('UPDATE agent SET removed_at = $2 WHERE id = $1', id, at);
    const answer = await askDuring([agentLock(alice.handle), remove], () => upload(webs()[1], signedIn, 12));
    expect([answer.status, await pictures()]).toEqual([404, before]);
  });
});

describe('The tools for models at two services', () => {
  it('work if each call reaches a different service, and a waiting call sees events at the other', async () => {
    const doors = [one.mcpUrl, one.mcpUrl.replace(`:${one.port}`, `:${two.port}`)] as const;
    const open = async (actor: Actor): Promise<readonly [Tools, Tools]> => {
      const token = await tokenFor(places[0], actor, one.mcpUrl);
      return [await connect(doors[0], token), await connect(doors[1], token)];
    };
    const [alices, bobs] = [await open(alice), await open(bob)];
    const { session_id } = (await alices[0].call('send', { to: bob.handle, text: 'shall we?', new_session: true }))
      .value;
    const invited = (await bobs[1].call('read', { wait_s: 20 })).value;
    expect(invited.events.map((event) => event.session_id)).toEqual([session_id]);
    await bobs[0].call('session_join', { session_id });
    const asking = alices[1].call('send', { to: session_id, text: 'well?', wait_s: 30 });
    const seen: unknown[] = [];
    // A receipt for a page from one service counts at the other.
    for (let after = invited.next_cursor, turn = 0; !seen.includes('well?') && turn < 5; turn += 1) {
      const page = (await (bobs[turn % 2] ?? bobs[0]).call('read', { after, others_only: true, wait_s: 30 })).value;
      seen.push(...page.events.map(({ payload }) => payload.content));
      after = page.next_cursor;
    }
    expect(seen).toEqual(['shall we?', 'well?']);
    await bobs[0].call('reply', { session_id, text: 'we shall' });
    expect((await asking).value.reply?.content).toBe('we shall');
    for (const tools of [...alices, ...bobs]) await tools.close();
  });
});
