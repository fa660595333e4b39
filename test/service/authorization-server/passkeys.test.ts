import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  deletePasskeysOfAccount,
  deleteUsedChallengesBefore,
  findPasskey,
  insertPasskey,
  listPasskeys,
  markChallengeUsed,
  markPasskeyUsed,
  type PasskeyRow,
} from '../../../src/service/store/passkeys.js';
import { findRelyingParty, removePasskey } from '../../../src/service/web/passkeys.js';
import { openStage } from '../sessions/stage.js';

describe('The address of a service decides whether there are passkeys', () => {
  it.each([
    ['https://asp.example.org', 'asp.example.org'],
    ['http://localhost:8744', 'localhost'],
    ['https://asp.example.org:8443', 'asp.example.org'],
  ])('%s has passkeys for %s', (url, host) => {
    expect(findRelyingParty(url)).toEqual({ kind: 'usable', host, origin: url });
  });

  it.each([
    [
      'http://127.0.0.1:8744',
      /IP address 127\.0\.0\.1\. Start it with <code [^>]*>--public-url http:\/\/localhost:8744<\/code> /,
    ],
    ['http://[::1]:8744', /IP address \[::1\]/],
    ['https://192.0.2.1', /IP address 192\.0\.2\.1\. The operator can set one with <code>--public-url<\/code>\.$/],
    ['http://asp.example.org', /need https/],
  ])('%s has none, and says why', (url, why) => {
    expect(findRelyingParty(url)).toEqual({ kind: 'unusable', why: { markup: expect.stringMatching(why) } });
  });
});

describe('The passkeys of an account', () => {
  let stage: Awaited<ReturnType<typeof openStage>>;
  beforeAll(async () => {
    stage = await openStage();
  });
  afterAll(() => stage.close());

  const describePasskey = (accountId: string, id: string, signCount = 0): PasskeyRow => ({
    id: `${accountId}${id}`,
    credential_id: `${accountId}${id}`,
    account_id: accountId,
    name: id,
    public_key: 'cHVibGlj',
    sign_count: signCount,
    transports: 'internal usb',
    created_at: 1_800_000_000_000,
    last_used_at: null,
  });
  const addTo = (accountId: string, id: string, signCount = 0): Promise<boolean> =>
    stage.context.database.write((transaction) =>
      insertPasskey(transaction, describePasskey(accountId, id, signCount)),
    );
  const namesOf = async (accountId: string): Promise<string[]> =>
    (await stage.context.database.read((query) => listPasskeys(query, accountId))).map(({ name }) => name);

  it('the last way into an account stays, even if both of two passkeys are removed at once', async () => {
    const { id } = await stage.addAccount('lone');
    await stage.write(async (transaction) => {
      await transaction.run('UPDATE account SET is_local = 0, password_hash = NULL WHERE id = $1', id);
    });
    await addTo(id, 'a');
    await addTo(id, 'b');
    const removed = await Promise.all(['a', 'b'].map((one) => removePasskey(stage.context, id, `${id}${one}`)));
    expect(removed.sort()).toEqual([false, true]);
    expect(await namesOf(id)).toHaveLength(1);
    await stage.write(async (transaction) => {
      await transaction.run("UPDATE account SET password_hash = 'x' WHERE id = $1", id);
    });
    const [last] = await namesOf(id);
    expect(await removePasskey(stage.context, id, `${id}${last}`)).toBe(true);
    expect(await namesOf(id)).toEqual([]);
  });

  it('an account cannot remove another’s passkey', async () => {
    const [mine, other] = [await stage.addAccount('mine'), await stage.addAccount('theirs')];
    await addTo(other.id, 'a');
    await removePasskey(stage.context, mine.id, `${other.id}a`);
    expect(await namesOf(other.id)).toEqual(['a']);
  });

  it.each([
    ['grows', 5, [6, 7], [true, true]],
    ['stays the same', 5, [5], [false]],
    ['falls', 5, [4, 0], [false, false]],
    ['is not kept by the authenticator', 0, [0, 0], [true, true]],
  ])('a signature counter that %s: from %i, %j are %j', async (about, start, counts, expected) => {
    const { id } = await stage.addAccount(`count-${about.replaceAll(/\W/g, '-')}`);
    await addTo(id, 'a', start);
    const accepted: boolean[] = [];
    for (const count of counts)
      await stage.write(async (transaction) => {
        accepted.push(await markPasskeyUsed(transaction, `${id}a`, count, 1));
      });
    expect(accepted).toEqual(expected);
  });

  it('only one of two answers with the same counter is accepted', async () => {
    const { id } = await stage.addAccount('twice');
    await addTo(id, 'a', 1);
    const use = (): Promise<boolean> =>
      stage.context.database.write((transaction) => markPasskeyUsed(transaction, `${id}a`, 2, 1));
    expect((await Promise.all([use(), use()])).sort()).toEqual([false, true]);
  });

  it('a passkey is found by its credential id, with everything that was stored, and with its last use', async () => {
    const { id } = await stage.addAccount('found');
    await addTo(id, 'a', 1);
    const find = (credentialId: string): Promise<PasskeyRow | undefined> =>
      stage.context.database.read((query) => findPasskey(query, credentialId));
    expect(await find(`${id}a`)).toEqual(describePasskey(id, 'a', 1));
    await stage.context.database.write((transaction) => markPasskeyUsed(transaction, `${id}a`, 2, 1_800_000_000_001));
    const used = { ...describePasskey(id, 'a', 2), last_used_at: 1_800_000_000_001 };
    expect(await find(`${id}a`)).toEqual(used);
    expect(await find(`${id}b`)).toBeUndefined();
  });

  it('a credential id belongs to one account only', async () => {
    const [first, second] = [await stage.addAccount('first'), await stage.addAccount('second')];
    expect(await addTo(first.id, 'a')).toBe(true);
    const copy = { ...describePasskey(second.id, 'a'), credential_id: `${first.id}a` };
    expect(await stage.context.database.write((transaction) => insertPasskey(transaction, copy))).toBe(false);
    expect([await namesOf(first.id), await namesOf(second.id)]).toEqual([['a'], []]);
  });

  it('all passkeys of an account can be removed at once, and no others', async () => {
    const [mine, other] = [await stage.addAccount('emptied'), await stage.addAccount('kept')];
    for (const name of ['a', 'b']) await addTo(mine.id, name);
    await addTo(other.id, 'a');
    const remove = (): Promise<number> =>
      stage.context.database.write((transaction) => deletePasskeysOfAccount(transaction, mine.id));
    expect([await remove(), await remove()]).toEqual([2, 0]);
    expect([await namesOf(mine.id), await namesOf(other.id)]).toEqual([[], ['a']]);
  });

  it('a challenge is used once, even by two at the same time, until it is forgotten', async () => {
    const use = (hash: string): Promise<boolean> =>
      stage.context.database.write((transaction) => markChallengeUsed(transaction, hash, 1_800_000_000_000));
    const forget = (before: number): Promise<number> =>
      stage.context.database.write((transaction) => deleteUsedChallengesBefore(transaction, before));
    expect((await Promise.all([use('one'), use('one')])).sort()).toEqual([false, true]);
    expect(await use('other')).toBe(true);
    expect(await forget(1_800_000_000_000)).toBe(0);
    expect(await use('one')).toBe(false);
    expect(await forget(1_800_000_000_001)).toBe(2);
    expect(await use('one')).toBe(true);
  });
});
