import { createHmac, createPublicKey } from 'node:crypto';

import { type CryptoKey, exportJWK, exportSPKI, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/service/core/errors.js';
import {
  type AccessTokenGrant,
  createTokenVerifier,
  openSigningKeys,
  type SigningKeys,
  signAccessToken,
  type TokenVerifier,
} from '../../../src/service/oauth/access-tokens.js';
import { markAgentRemoved } from '../../../src/service/store/agents.js';
import { listSigningKeys } from '../../../src/service/store/keys.js';
import { openStage } from '../sessions/stage.js';

const REST = 'http://h/v1';
const SOCKET = 'ws://h/connect';

type Stage = Awaited<ReturnType<typeof openStage>>;
let stage: Stage;
let keys: SigningKeys;
let verifier: TokenVerifier;
let grant: AccessTokenGrant;

async function open(): Promise<void> {
  stage = await openStage();
  keys = await openSigningKeys(stage.context);
  verifier = createTokenVerifier(stage.context, keys);
  const account = await stage.addAccount('alice');
  const agent = await stage.addAgent(account, 'bot');
  grant = {
    accountId: account.id,
    agentId: agent.agentId,
    clientId: 'oac_1',
    scopes: ['sessions:read'],
    resources: [REST],
    grantId: 'fam_1',
  };
}
const close = (): Promise<void> => stage.close();

const sign = (changes: Partial<AccessTokenGrant> = {}) =>
  signAccessToken(stage.context, keys, { ...grant, ...changes });
const outcomeOf = async (token: string, audience = REST): Promise<string> => {
  try {
    return (await verifier.verify(token, audience)).kind;
  } catch (error) {
    if (error instanceof ServiceError) return error.code;
    throw error;
  }
};

/** Signs a token with the service's key and any claims and header. */
async function forge(claims: Record<string, unknown>, header: Record<string, unknown> = {}): Promise<string> {
  const [row] = await stage.context.database.read(listSigningKeys);
  const key = await importJWK(JSON.parse(row?.private_jwk ?? '') as JWK, 'RS256');
  const now = Math.floor(stage.context.clock.now() / 1000);
  const good = {
    iss: 'http://h',
    sub: grant.accountId,
    agent_id: grant.agentId,
    azp: 'oac_1',
    scope: 'sessions:read',
    aud: REST,
    iat: now,
    exp: now + 900,
    token_type: 'access',
    jti: 'j',
    gid: 'fam_1',
  };
  return new SignJWT({ ...good, ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: row?.kid ?? '', typ: 'at+jwt', ...header })
    .sign(key);
}

describe('Authentication › Using tokens', () => {
  beforeAll(open);
  afterAll(close);

  it('a valid token names the agent, its grant, and its expiry', async () => {
    expect(await verifier.verify(await sign(), REST)).toMatchObject({
      kind: 'agent',
      handle: '@alice.bot',
      agentId: grant.agentId,
      accountId: grant.accountId,
      scopes: ['sessions:read'],
      clientId: 'oac_1',
      grantId: 'fam_1',
      expiresAtMs: stage.context.clock.now() + 900_000,
    });
  });

  it('a token without an agent acts as the account', async () => {
    expect(await outcomeOf(await sign({ agentId: null, scopes: ['account:read'] }))).toBe('account');
  });

  it('an access token names its client in client_id, as RFC 9068 asks', async () => {
    const [head = '', payload = ''] = (await sign()).split('.');
    const read = (part: string): unknown => JSON.parse(Buffer.from(part, 'base64url').toString());
    expect(read(head)).toMatchObject({ typ: 'at+jwt' });
    expect(read(payload)).toMatchObject({ client_id: 'oac_1', azp: 'oac_1' });
  });

  it('is good for its own resources only', async () => {
    expect(await outcomeOf(await sign(), SOCKET)).toBe('UNAUTHORIZED');
    expect(await outcomeOf(await sign({ resources: [SOCKET] }), REST)).toBe('UNAUTHORIZED');
    const both = await sign({ resources: [REST, SOCKET] });
    expect([await outcomeOf(both, REST), await outcomeOf(both, SOCKET)]).toEqual(['agent', 'agent']);
  });

  it('is valid until the second of its expiry', async () => {
    const token = await sign();
    expect(await outcomeOf(token)).toBe('agent');
    stage.clock.advance(899_999);
    expect(await outcomeOf(token)).toBe('agent');
    stage.clock.advance(1);
    expect(await outcomeOf(token)).toBe('TOKEN_EXPIRED');
  });

  it('TOKEN_EXPIRED only if everything else is valid (D-18)', async () => {
    const past = Math.floor(stage.context.clock.now() / 1000) - 1;
    expect(await outcomeOf(await forge({ exp: past }))).toBe('TOKEN_EXPIRED');
    expect(await outcomeOf(await forge({ exp: past, aud: SOCKET }))).toBe('UNAUTHORIZED');
    expect(await outcomeOf(await forge({ exp: past, iss: 'http://evil' }))).toBe('UNAUTHORIZED');
    expect(await outcomeOf(await forge({ exp: past, token_type: 'refresh' }))).toBe('UNAUTHORIZED');
    expect(await outcomeOf(await forge({ exp: past, iat: past + 1000 }))).toBe('UNAUTHORIZED');
    const [head, payload] = (await forge({ exp: past })).split('.');
    expect(await outcomeOf(`${head}.${payload}.${'A'.repeat(342)}`)).toBe('UNAUTHORIZED');
  });

  it.each([
    ['another issuer', { iss: 'http://evil' }],
    ['the issuer with a slash', { iss: 'http://h/' }],
    ['no audience', { aud: undefined }],
    ['no audience at all', { aud: [] }],
    ['no expiry', { exp: undefined }],
    ['an expiry as text', { exp: '9999999999' }],
    ['an expiry that is no whole number', { exp: 9_999_999_999.5 }],
    ['no time of issue', { iat: undefined }],
    ['another type', { token_type: 'refresh' }],
    ['no type', { token_type: undefined }],
    ['no grant', { gid: undefined }],
    ['an agent of nobody', { agent_id: 'agt_nobody' }],
    ['an agent of another account', { sub: 'acct_other' }],
  ])('refuses %s', async (_what, claims) => {
    expect(await outcomeOf(await forge(claims))).toBe('UNAUTHORIZED');
  });

  it('refuses a token from more than a minute in the future', async () => {
    const now = Math.floor(stage.context.clock.now() / 1000);
    expect(await outcomeOf(await forge({ iat: now + 60 }))).toBe('agent');
    expect(await outcomeOf(await forge({ iat: now + 61 }))).toBe('UNAUTHORIZED');
  });

  it('refuses a token with a longer lifetime than this service allows', async () => {
    const now = Math.floor(stage.context.clock.now() / 1000);
    expect(await outcomeOf(await forge({ exp: now + 900 }))).toBe('agent');
    expect(await outcomeOf(await forge({ exp: now + 901 }))).toBe('UNAUTHORIZED');
    expect(await outcomeOf(await forge({ exp: now + 10 * 365 * 24 * 60 * 60 }))).toBe('UNAUTHORIZED');
  });

  it('refuses every algorithm and key except its own', async () => {
    const token = await sign();
    const [, payload = ''] = token.split('.');
    const { kid } = await keys.signingKey();
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const { keys: published } = await keys.publicKeySet();
    const pem = await exportSPKI((await importJWK(published[0] ?? {}, 'RS256')) as CryptoKey);
    const hmac = `${encode({ alg: 'HS256', kid })}.${payload}`;
    const own = await generateKeyPair('RS256', { extractable: true });
    const ec = await generateKeyPair('ES256');
    const resign = (alg: string, key: CryptoKey, header: Record<string, unknown> = {}) =>
      new SignJWT(JSON.parse(Buffer.from(payload, 'base64url').toString()))
        .setProtectedHeader({ alg, kid, typ: 'at+jwt', ...header })
        .sign(key);
    const bad = [
      `${encode({ alg: 'none', kid })}.${payload}.`,
      `${hmac}.${createHmac('sha256', pem).update(hmac).digest('base64url')}`,
      `${encode({ alg: 'rs256', kid })}.${payload}.${token.split('.')[2]}`,
      await resign('RS256', own.privateKey),
      await resign('RS256', own.privateKey, { jwk: await exportJWK(own.publicKey) }),
      await resign('RS256', own.privateKey, { jku: 'http://127.0.0.1:1/keys', x5u: 'http://127.0.0.1:1/x' }),
      await resign('ES256', ec.privateKey),
      await forge({}, { kid: undefined }),
      await forge({}, { typ: undefined }),
      await forge({}, { typ: 'JWT' }),
      await forge({}, { kid: "../../etc/passwd' OR 1=1 --" }),
      await forge({}, { kid: 'k'.repeat(10_000) }),
      await forge({}, { crit: ['b64'], b64: true }),
      ...['', '.', '..', 'a.b.c', `${token}x`, `x${token}`, token.slice(0, -10), `${token}.${token}`, 'e30.e30.e30'],
      'x'.repeat(100_000),
    ];
    for (const forged of bad)
      expect([forged.slice(0, 60), await outcomeOf(forged)]).toEqual([forged.slice(0, 60), 'UNAUTHORIZED']);
    expect(createPublicKey(pem).asymmetricKeyDetails?.modulusLength).toBe(2048);
  });

  it('checks the signature of a token that comes often at once only once, and a wrong one for all', async () => {
    let checks = 0;
    const verificationKey: SigningKeys['verificationKey'] = (kid) => {
      checks += 1;
      return keys.verificationKey(kid);
    };
    const counting = createTokenVerifier(stage.context, { ...keys, verificationKey });
    const together = (token: string, audience: string) =>
      Promise.allSettled(Array.from({ length: 16 }, () => counting.verify(token, audience)));
    const token = await sign();
    const good = await together(token, REST);
    expect({ checks, names: good.map(({ status }) => status) }).toEqual({
      checks: 1,
      names: Array(16).fill('fulfilled'),
    });
    const bad = await together(token, SOCKET);
    expect({ checks, names: bad.map(({ status }) => status) }).toEqual({
      checks: 2,
      names: Array(16).fill('rejected'),
    });
    await expect(counting.verify(token, SOCKET)).rejects.toThrow();
    expect(checks).toBe(3);
  });

  it('a removed agent’s tokens stop within seconds', async () => {
    const token = await sign();
    expect(await outcomeOf(token)).toBe('agent');
    await stage.context.database.write((transaction) => markAgentRemoved(transaction, grant.agentId ?? '', 1));
    stage.clock.advance(5_001);
    expect(await outcomeOf(token)).toBe('UNAUTHORIZED');
  });
});

describe('Authentication › Key rotation: the new key is published before signing with it', () => {
  beforeEach(open);
  afterEach(close);

  const kidOf = (token: string) =>
    (JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }).kid;
  const published = async () => (await keys.publicKeySet()).keys.map(({ kid }) => kid);

  it('oidcc-server-rotate-keys: no token fails before, during or after', async () => {
    const old = await sign();
    await keys.rotateKeys();
    expect(await published()).toHaveLength(2);
    expect(kidOf(await sign())).toBe(kidOf(old));
    stage.clock.advance(10 * 60_000 - 1);
    const last = await sign();
    expect(kidOf(last)).toBe(kidOf(old));
    stage.clock.advance(1);
    const fresh = await sign();
    expect(kidOf(fresh)).not.toBe(kidOf(old));
    expect([await outcomeOf(last), await outcomeOf(fresh)]).toEqual(['agent', 'agent']);

    stage.clock.advance(15 * 60_000);
    await keys.keepFresh();
    expect(await published()).toContain(kidOf(old));
    stage.clock.advance(5 * 60_000 + 1);
    await keys.keepFresh();
    expect(await published()).toEqual([kidOf(fresh)]);
  });

  it('a machine that sleeps for a day while the next key is created does not lose the signing key', async () => {
    const rotating = keys.rotateKeys();
    stage.clock.advance(24 * 60 * 60_000);
    const token = await sign();
    await rotating;
    expect(await outcomeOf(token)).toBe('agent');
    expect(await published()).toHaveLength(2);
  });

  it('two machines that rotate at once create one next key', async () => {
    const other = await openSigningKeys(stage.context);
    await Promise.all([keys.rotateKeys(), other.rotateKeys()]);
    expect(await stage.context.database.read(listSigningKeys)).toHaveLength(2);
  });

  it('a token signed with another machine’s key is valid, and unknown keys cost one lookup in 30 s', async () => {
    const other = await openSigningKeys(stage.context);
    await other.rotateKeys();
    stage.clock.advance(31_000);
    const fresh = await signAccessToken(stage.context, other, grant);
    expect(await outcomeOf(fresh)).toBe('agent');
    const counted = countReads(stage);
    const watched = createTokenVerifier(counted.context, await openSigningKeys(counted.context));
    const before = counted.reads();
    for (let index = 0; index < 100; index += 1) {
      const token = await forge({}, { kid: `unknown-${index}` });
      await expect(watched.verify(token, REST)).rejects.toThrow(ServiceError);
    }
    expect(counted.reads() - before).toBe(0);
  });

  it('rotates on its own when the newest key is 90 days old', async () => {
    stage.clock.advance(90 * 24 * 60 * 60 * 1000);
    await keys.keepFresh();
    expect(await published()).toHaveLength(1);
    stage.clock.advance(1);
    await keys.keepFresh();
    expect(await published()).toHaveLength(2);
  });
});

/** Returns the context with its reads counted. */
function countReads({ context }: Stage) {
  let reads = 0;
  const database: Stage['context']['database'] = {
    ...context.database,
    read(work) {
      reads += 1;
      return context.database.read(work);
    },
  };
  return { context: { ...context, database }, reads: () => reads };
}
