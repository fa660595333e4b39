import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createTokenVerifier, openSigningKeys, signAccessToken } from '../../../src/service/oauth/access-tokens.js';
import { createKeySeal } from '../../../src/service/oauth/sealed-keys.js';
import { listSigningKeys } from '../../../src/service/store/keys.js';
import { openStage } from '../sessions/stage.js';

const REST = 'http://h/v1';
const [one, two] = [randomBytes(32), randomBytes(32)];

let stage: Awaited<ReturnType<typeof openStage>>;
beforeEach(async () => {
  stage = await openStage();
});
afterEach(() => stage.close());

const open = (...secrets: Buffer[]) => openSigningKeys(stage.context, createKeySeal(secrets));
const stored = async (): Promise<string[]> =>
  (await stage.context.database.read(listSigningKeys)).map(({ private_jwk: jwk }) => jwk);
const fails = async (...secrets: Buffer[]): Promise<unknown> => open(...secrets).catch((error: unknown) => error);

/** Signs a token with the keys. */
async function sign(keys: Awaited<ReturnType<typeof open>>): Promise<string> {
  const account = await stage.addAccount(`a${randomBytes(4).toString('hex')}`);
  const { agentId } = await stage.addAgent(account, 'bot');
  const grant = { clientId: 'oac_1', scopes: ['sessions:read'], resources: [REST], grantId: 'fam_1' } as const;
  return signAccessToken(stage.context, keys, { ...grant, accountId: account.id, agentId });
}
const verify = async (token: string, keys: Awaited<ReturnType<typeof open>>): Promise<string> =>
  (await createTokenVerifier(stage.context, keys).verify(token, REST)).kind;

describe('private signing keys', () => {
  it('are stored sealed, and work after a restart with the same key', async () => {
    const keys = await open(one);
    await keys.rotateKeys();
    const texts = await stored();
    expect(texts).toHaveLength(2);
    for (const text of texts) {
      expect(text).toMatch(/^sealed-1:[\w-]+$/);
      expect(Buffer.from(text.slice(9), 'base64url').toString('latin1')).not.toContain('"d"');
    }
    expect(new Set(texts).size).toBe(2);
    expect(await verify(await sign(keys), await open(one))).toBe('agent');
    expect(await stored()).toEqual(texts);
  });

  it('that are in the clear are sealed at the start, and tokens from before stay valid', async () => {
    const clear = await open();
    const token = await sign(clear);
    expect((await stored())[0]).toContain('"d"');
    const sealed = await open(one);
    expect((await stored())[0]).toMatch(/^sealed-1:/);
    expect(await verify(token, sealed)).toBe('agent');
  });

  it('keep a service without the right key from starting, and say what to do', async () => {
    await open(one);
    const before = await stored();
    for (const [secrets, what] of [
      [[], /has no key file\. Start it with the --key-file that sealed them/],
      [[two], /a key that is not in the key file\. .*delete all rows of the table signing_key/],
    ] as const) {
      const error = await fails(...secrets);
      expect(error).toMatchObject({ name: 'OperatorError', code: 'KEYS_NOT_USABLE' });
      expect(String(error)).toMatch(what);
    }
    expect(await stored()).toEqual(before);
  });

  it('that another service sealed with an unknown key end no token before they sign', async () => {
    const [behind, ahead] = [await open(one), await open(two, one)];
    const token = await sign(behind);
    await ahead.rotateKeys();
    expect(await behind.listKeys()).toHaveLength(2);
    expect(await verify(token, behind)).toBe('agent');
    expect(await verify(await sign(behind), ahead)).toBe('agent');
    stage.clock.advance(10 * 60_000);
    await expect(sign(behind)).rejects.toMatchObject({ code: 'KEYS_NOT_USABLE' });
    expect(await verify(await sign(ahead), behind)).toBe('agent');
  });

  it('are sealed again with a new key before the old one, which is then no longer needed', async () => {
    const token = await sign(await open(one));
    await open(two, one);
    expect(await verify(token, await open(two))).toBe('agent');
    expect(await fails(one)).toMatchObject({ code: 'KEYS_NOT_USABLE' });
  });

  it('do not open in the place of another key, or changed', async () => {
    const keys = await open(one);
    await keys.rotateKeys();
    const [first = '', second = ''] = await stored();
    const flipped = first.slice(0, -1) + (first.endsWith('A') ? 'Q' : 'A');
    for (const text of [second, flipped, 'sealed-1:', 'sealed-1:AAAA']) {
      await stage.context.database.write((transaction) =>
        transaction.run(
          'UPDATE signing_key SET private_jwk = $1 WHERE kid = (SELECT kid FROM signing_key ORDER BY signs_from LIMIT 1)',
          text,
        ),
      );
      expect(await fails(one)).toMatchObject({ code: 'KEYS_NOT_USABLE' });
    }
  });
});
