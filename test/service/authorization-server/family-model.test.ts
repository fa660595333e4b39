import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OAuthError, readParameters } from '../../../src/service/oauth/parameters.js';
import { revokeToken } from '../../../src/service/oauth/revoke.js';
import { hashSecret } from '../../../src/service/oauth/secret.js';
import { createFamilyId, grantRefreshToken, startFamily } from '../../../src/service/oauth/token.js';
import { undoRotation } from '../../../src/service/store/authorizations.js';
import { insertOAuthClient, type OAuthClientRow } from '../../../src/service/store/oauth-clients.js';
import { formBody } from '../../support/http.js';
import { TEST_STORE } from '../../support/stores.js';
import { IS_LONG } from '../../support/tally.js';
import { openStage } from '../sessions/stage.js';

const RUNS = IS_LONG ? 10_000 : TEST_STORE === 'postgres' ? 100 : 300;
const PATIENCE_MS = IS_LONG ? 1_800_000 : 300_000;
const DAY_MS = 24 * 60 * 60 * 1000;
const REST = 'http://h/v1';
const SCOPE = 'sessions:read sessions:write';

type Stage = Awaited<ReturnType<typeof openStage>>;
let stage: Stage;
let clients: readonly OAuthClientRow[];
let account: Awaited<ReturnType<Stage['addAccount']>>;
let agentId: string;

beforeAll(async () => {
  stage = await openStage();
  account = await stage.addAccount('alice');
  ({ agentId } = await stage.addAgent(account, 'bot'));
  clients = ['oac_one', 'oac_two'].map((id) => ({
    id,
    kind: 'public',
    name: id,
    redirect_uris: '[]',
    scope: SCOPE,
    secret_hash: null,
    old_secret_hash: null,
    old_secret_until: null,
    expires_at: null,
    account_id: null,
    agent_id: null,
    created_at: 0,
    last_used_at: 1,
    revoked_at: null,
  }));
  await stage.context.database.write(async (transaction) => {
    for (const client of clients) await insertOAuthClient(transaction, client);
  });
});
afterAll(() => stage.close());

/** A family as the specification describes it, independent of how the service stores it. */
interface Family {
  readonly owner: number;
  readonly tokens: string[];
  newest: number;
  isRevoked: boolean;
  usedAt: number;
}

type Step =
  | { readonly kind: 'login'; readonly client: number }
  | {
      readonly kind: 'refresh';
      readonly family: number;
      readonly token: number;
      readonly client: number;
      readonly ask: 'all' | 'less' | 'more' | 'elsewhere';
      readonly isCut: boolean;
    }
  | { readonly kind: 'revoke'; readonly family: number; readonly token: number; readonly client: number }
  | { readonly kind: 'wait'; readonly days: number };

const which = fc.nat({ max: 5 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('login' as const), client: fc.nat({ max: 1 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('refresh' as const),
      family: which,
      // 0 is the newest token, 1 its parent, and so on.
      token: fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, { weight: 2, arbitrary: which }),
      client: fc.nat({ max: 3 }).map((drawn) => (drawn === 3 ? 1 : 0)),
      ask: fc.constantFrom('all', 'all', 'less', 'more', 'elsewhere'),
      isCut: fc.nat({ max: 4 }).map((drawn) => drawn === 0),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('revoke' as const),
      family: which,
      token: which,
      client: fc.nat({ max: 1 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), days: fc.constantFrom(1, 15, 29, 31) }) },
);

describe('Authentication › Refresh, random histories', () => {
  it('token families follow the model', { timeout: PATIENCE_MS }, async () => {
    const counts = { granted: 0, refused: 0, revoked: 0, undone: 0 };
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 30 }), async (steps) => {
        const families: Family[] = [];
        await take({ kind: 'login', client: 0 }, families, counts);
        for (const next of steps) await take(next, families, counts);
        for (const family of families) await expectAlive(family);
      }),
      { numRuns: RUNS },
    );
    expect(Object.values(counts).every((count) => count > RUNS / 10)).toBe(true);
  });
});

async function take(next: Step, families: Family[], counts: Record<string, number>): Promise<void> {
  if (next.kind === 'wait') return stage.clock.advance(next.days * DAY_MS);
  if (next.kind === 'login') {
    const token = await login(next.client);
    families.push({ owner: next.client, tokens: [token], newest: 0, isRevoked: false, usedAt: stage.clock.now() });
    return;
  }
  const family = families[next.family % families.length] as Family;
  const index = Math.max(0, family.newest - next.token);
  const token = family.tokens[index] as string;
  const client = next.client === 0 ? family.owner : 1 - family.owner;
  if (next.kind === 'revoke') {
    await revokeToken(stage.context, token, (clients[client] as OAuthClientRow).id);
    if (client === family.owner) family.isRevoked = true;
    counts['revoked'] = (counts['revoked'] ?? 0) + 1;
    return;
  }
  const expected = expectedOf(family, index, client, next.ask);
  const { outcome, successor } = await present(token, client, next.ask);
  expect(outcome).toBe(expected);
  counts[outcome === 'granted' ? 'granted' : 'refused'] =
    (counts[outcome === 'granted' ? 'granted' : 'refused'] ?? 0) + 1;
  if (successor === undefined) return;
  family.usedAt = stage.clock.now();
  if (next.isCut) {
    const isUndone = await stage.write((transaction) =>
      undoRotation(transaction, hashSecret(token), hashSecret(successor)),
    );
    expect(isUndone).toBe(true);
    expect((await present(successor, client, 'all')).outcome).toBe('invalid_client');
    counts['undone'] = (counts['undone'] ?? 0) + 1;
    return;
  }
  family.tokens.push(successor);
  family.newest += 1;
}

/** Applies the specification's rules in order. Presenting an ancestor ends the family. */
function expectedOf(family: Family, index: number, client: number, ask: string): string {
  if (client !== family.owner || family.isRevoked) return 'invalid_client';
  if (stage.clock.now() - family.usedAt > 30 * DAY_MS) return 'invalid_client';
  if (index !== family.newest) {
    family.isRevoked = true;
    return 'invalid_client';
  }
  if (ask === 'more') return 'invalid_scope';
  return ask === 'elsewhere' ? 'invalid_target' : 'granted';
}

async function expectAlive(family: Family): Promise<void> {
  const { outcome } = await present(family.tokens[family.newest] as string, family.owner, 'all');
  const isAlive = !family.isRevoked && stage.clock.now() - family.usedAt <= 30 * DAY_MS;
  expect(outcome).toBe(isAlive ? 'granted' : 'invalid_client');
}

function login(client: number): Promise<string> {
  return stage.write((transaction) =>
    startFamily(stage.context, transaction, createFamilyId(stage.context), {
      client_id: (clients[client] as OAuthClientRow).id,
      account_id: account.id,
      agent_id: agentId,
      scope: SCOPE,
      resources: JSON.stringify({ allowed: [REST], usual: [REST] }),
      ...NOWHERE,
    }),
  );
}

const NOWHERE = { last_network: null, last_program: null };

const SCOPE_OF = { all: undefined, less: 'sessions:read', more: `${SCOPE} agents:read`, elsewhere: undefined } as const;

async function present(token: string, client: number, ask: keyof typeof SCOPE_OF) {
  const parameters = readParameters(
    formBody({ refresh_token: token, scope: SCOPE_OF[ask], resource: ask === 'elsewhere' ? 'http://else' : REST }),
  );
  try {
    const result = await stage.write((transaction) =>
      grantRefreshToken(stage.context, transaction, {
        parameters,
        presented: { id: '', secret: undefined, isBasic: false },
        from: NOWHERE,
        client: clients[client] as OAuthClientRow,
      }),
    );
    if (result instanceof OAuthError) return { outcome: result.error, successor: undefined };
    expect(result.scopes.join(' ')).toBe(SCOPE_OF[ask] ?? SCOPE);
    return { outcome: 'granted', successor: result.refreshToken };
  } catch (error) {
    if (error instanceof OAuthError) return { outcome: error.error, successor: undefined };
    throw error;
  }
}
