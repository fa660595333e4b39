import { scryptSync } from 'node:crypto';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createFamilyId, startFamily } from '../../../src/service/oauth/token.js';
import { findAccount } from '../../../src/service/store/accounts.js';
import { insertAuthorizationCode } from '../../../src/service/store/authorizations.js';
import { findSignedInAccount, insertAccountSession } from '../../../src/service/store/browser-sessions.js';
import { putOAuthClient } from '../../../src/service/store/oauth-clients.js';
import { findPasswordMistake, hashPassword, matchesPassword, setPassword } from '../../../src/service/web/passwords.js';
import { openStage } from '../sessions/stage.js';
import { createBrowser } from './browser.js';
import { type Desk, openDesk } from './desk.js';

const EASY = /too easy to guess/;

describe('A password that a person chooses', () => {
  it.each([
    'password',
    'Password1',
    'P@ssw0rd!',
    'pa55word2024',
    '12345678',
    '987654321',
    'aaaaaaaa',
    'abababab',
    'abcd1234',
    'qwertyuiop',
    'qwerty123',
    '1qaz2wsx',
    'iloveyou!!',
    'Sunshine2023',
    'letmein123',
    'dragon99',
    'footballfootball',
    'jordan-hale',
    'JordanHale1990',
    'jordanhale!',
    '1jordanhale',
  ])('%s is refused: it is too easy to guess', (password) => {
    const username = password.includes('-') ? 'jordan-hale' : 'jordanhale';
    expect(findPasswordMistake(password, username)).toMatch(EASY);
  });

  it.each([
    'correct horse battery',
    'sunshine dragon football',
    'xk4-Qz9_tB',
    'q7Rt#m2Lp9',
    'my password is a long sentence',
    'jordanhale plays the tuba',
    'пароль-из-головы',
    '密码是一条很长的句子',
    '83749201-dragon-19283',
  ])('%s is taken', (password) => {
    expect(findPasswordMistake(password, 'jordanhale')).toBeUndefined();
  });

  it('is long enough, and not too long', () => {
    expect(findPasswordMistake('q7Rt#m2', 'jordanhale')).toMatch(/8 to 200/);
    expect(findPasswordMistake('q7Rt#m2L'.repeat(26), 'jordanhale')).toMatch(/8 to 200/);
  });

  it('is judged quickly, even if it is hostile', () => {
    const before = performance.now();
    for (let count = 0; count < 100; count += 1) findPasswordMistake('abcdefgh'.repeat(25), 'a'.repeat(64));
    expect(performance.now() - before).toBeLessThan(1_000);
  });
});

describe('The hash of a password', () => {
  const PASSWORD = 'correct horse battery';
  const toText = (N: number, key: Buffer): string =>
    `scrypt$${N}$8$1$${Buffer.alloc(16).toString('base64url')}$${key.toString('base64url')}`;

  it('is salted, and scrypt is asked for the cost that it names', async () => {
    const hash = await hashPassword(PASSWORD);
    expect(await hashPassword(PASSWORD)).not.toBe(hash);
    const [, salt = '', key] = /^scrypt\$32768\$8\$1\$([\w-]{22})\$([\w-]{43})$/.exec(hash) ?? [];
    // In tests, quick-cryptography.mjs makes 2 ** 8 of exactly this cost.
    const derived = scryptSync(PASSWORD, Buffer.from(salt, 'base64url'), 32, { N: 2 ** 8, r: 8, p: 1 });
    expect(key).toBe(derived.toString('base64url'));
    expect(await matchesPassword(hash, PASSWORD)).toBe(true);
    expect(await matchesPassword(hash, PASSWORD.toUpperCase())).toBe(false);
  });

  it('matches with the cost that it names, and not with another', async () => {
    const key = scryptSync(PASSWORD, Buffer.alloc(16), 32, { N: 2 ** 12, r: 8, p: 1 });
    expect(await matchesPassword(toText(2 ** 12, key), PASSWORD)).toBe(true);
    expect(await matchesPassword(toText(2 ** 13, key), PASSWORD)).toBe(false);
  });
});

describe('The sign-up page', () => {
  let desk: Desk;
  beforeAll(async () => {
    desk = await openDesk();
  });
  afterAll(() => desk.stop());

  it('refuses a password that is easy to guess, with the reason at the field, and keeps what was typed', async () => {
    const browser = createBrowser(desk.service.webUrl);
    const page = await browser.get('/oauth/sign-in');
    const person = { username: 'jordanhale', display_name: 'Jordan Hale' };
    const refused = await browser.submit(page, '/oauth/sign-up', { ...person, password: 'jordanhale1' });
    expect([refused.status, refused.text]).toEqual([400, expect.stringMatching(EASY)]);
    expect(refused.text).toContain('value="Jordan Hale"');
    const taken = await browser.submit(refused, '/oauth/sign-up', { ...person, password: 'correct horse battery' });
    expect(taken.status).toBe(303);
  });
});

describe('A new password', () => {
  it('signs out every browser but the one that set it, and every application with its sockets and codes', async () => {
    const stage = await openStage();
    const { context } = stage;
    const account = await stage.addAccount('maria');
    const other = await stage.addAccount('other');
    const { agentId } = await stage.addAgent(account, 'bot');
    const expiresAt = context.clock.now() + 1_000;
    const browsers = { here: account.id, there: account.id, elsewhere: other.id };
    const familyId = createFamilyId(context);
    await stage.write(async (transaction) => {
      for (const [id_hash, account_id] of Object.entries(browsers))
        await insertAccountSession(transaction, {
          id_hash,
          account_id,
          address: '192.0.2.1',
          browser_name: 'Firefox',
          created_at: 0,
          confirmed_at: 0,
          expires_at: expiresAt,
        });
      await putOAuthClient(transaction, { id: 'oac_1', name: 'asp', redirect_uris: '[]', scope: '', created_at: 0 });
      await startFamily(context, transaction, familyId, {
        client_id: 'oac_1',
        account_id: account.id,
        agent_id: agentId,
        scope: 'sessions:read',
        resources: '{"allowed":["http://h/v1"],"usual":["http://h/v1"]}',
        last_network: null,
        last_program: null,
      });
      for (const { id, username } of [account, other])
        await insertAuthorizationCode(transaction, {
          code_hash: username,
          client_id: 'oac_1',
          account_id: id,
          agent_id: null,
          redirect_uri: 'http://127.0.0.1/',
          scope: 'agents:read',
          code_challenge: '',
          resources: '{}',
          created_at: context.clock.now(),
          used_at: null,
          family_id: null,
        });
    });
    const passwordHash = await hashPassword('correct horse battery');
    await stage.write((transaction) =>
      setPassword(context, transaction, { accountId: account.id, passwordHash, keptBrowserHash: 'here' }),
    );
    const signedIn = await stage.read(async (query) => {
      const found: (string | undefined)[] = [];
      for (const hash of Object.keys(browsers))
        found.push((await findSignedInAccount(query, hash, context.clock.now()))?.username);
      return found;
    });
    expect(signedIn).toEqual(['maria', undefined, 'other']);
    expect(stage.signals).toContainEqual({ kind: 'revoked', grantId: familyId });
    const codes = await stage.read((query) => query.all('SELECT code_hash FROM authorization_code'));
    expect(codes).toEqual([{ code_hash: 'other' }]);
    const stored = await stage.read((query) => findAccount(query, account.id));
    expect(await matchesPassword(stored?.password_hash, 'correct horse battery')).toBe(true);
    await stage.close();
  });
});
