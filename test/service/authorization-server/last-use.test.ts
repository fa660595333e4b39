import { afterAll, beforeAll, expect, it } from 'vitest';

import { createConfidentialClient } from '../../../src/service/oauth/clients.js';
import { createFamilyId, startFamily } from '../../../src/service/oauth/token.js';
import {
  revokeGrantsOfAgent,
  revokeRefreshFamily,
  revokeSignInsOfAccount,
} from '../../../src/service/store/authorizations.js';
import { openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage.close());

it.each([
  ['the app', 'ada', (family) => stage.write((t) => revokeRefreshFamily(t, family.id, 1))],
  ['its agent', 'ben', (family) => stage.write((t) => revokeGrantsOfAgent(t, { ...family, id: family.agentId }, 1))],
  ['its account', 'cy', (family) => stage.write((t) => revokeSignInsOfAccount(t, family.accountId, 1))],
] satisfies [
  string,
  string,
  (family: { readonly id: string; readonly agentId: string; readonly accountId: string }) => Promise<unknown>,
][])('the network and program of an app are forgotten with the sign-in of %s', async (_, name, end) => {
  const account = await stage.addAccount(name);
  const { agentId } = await stage.addAgent(account, 'bot');
  const id = createFamilyId(stage.context);
  await stage.write(async (transaction) => {
    const { clientId } = await createConfidentialClient(stage.context, transaction, {
      ...{ name: 'ci', accountId: account.id, agentId, scopes: ['sessions:read'] },
    });
    await startFamily(stage.context, transaction, id, {
      ...{ client_id: clientId, account_id: account.id, agent_id: agentId, scope: 'sessions:read', resources: '{}' },
      ...{ last_network: '192.0.2.1', last_program: 'asp-cli/1' },
    });
  });
  await end({ id, agentId, accountId: account.id });
  const row = await stage.context.database.read((query) =>
    query.get('SELECT revoked_at, last_network, last_program FROM refresh_family WHERE id = $1', id),
  );
  expect(row).toEqual({ revoked_at: 1, last_network: null, last_program: null });
});
