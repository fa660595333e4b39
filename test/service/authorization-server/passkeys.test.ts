import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { insertPasskey, listPasskeys, markPasskeyUsed } from '../../../src/service/store/passkeys.js';
import { findPasskeyPlace, removePasskey } from '../../../src/service/web/passkeys.js';
import { openStage } from '../sessions/stage.js';

describe('The address of a service decides whether there are passkeys', () => {
  it.each([
    ['https://asp.example.org', 'asp.example.org'],
    ['http://localhost:8744', 'localhost'],
    ['https://asp.example.org:8443', 'asp.example.org'],
  ])('%s has passkeys for %s', (url, host) => {
    expect(findPasskeyPlace(url)).toEqual({ kind: 'usable', host, origin: url });
  });

  it.each([
    ['http://127.0.0.1:8744', /IP address 127\.0\.0\.1\. Start it with --public-url http:\/\/localhost:8744 /],
    ['http://[::1]:8744', /IP address \[::1\]/],
    ['https://192.0.2.1', /IP address 192\.0\.2\.1\. The operator can set one with --public-url\.$/],
    ['http://asp.example.org', /need https/],
  ])('%s has none, and says why', (url, why) => {
    expect(findPasskeyPlace(url)).toEqual({ kind: 'unusable', why: expect.stringMatching(why) });
  });
});

describe('The passkeys of an account', () => {
  let stage: Awaited<ReturnType<typeof openStage>>;
  beforeAll(async () => {
    stage = await openStage();
  });
  afterAll(() => stage.close());

  async function addTo(accountId: string, id: string, signCount = 0): Promise<void> {
    await stage.write(async (transaction) => {
      await insertPasskey(transaction, {
        id: `${accountId}${id}`,
        credential_id: `${accountId}${id}`,
        account_id: accountId,
        name: id,
        public_key: '',
        sign_count: signCount,
        transports: '',
        created_at: 0,
        last_used_at: null,
      });
    });
  }
  const namesOf = async (accountId: string): Promise<string[]> =>
    (await stage.context.database.read((query) => listPasskeys(query, accountId, 20))).map(({ name }) => name);

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
});
