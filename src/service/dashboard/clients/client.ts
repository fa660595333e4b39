import { revokeConfidentialClient } from '../../authorization-server/confidential-client.js';
import { renderClient, renderRevokeClient } from '../../pages/dashboard/clients-page.js';
import { type DashboardAnswer, movedWithNote, page, type Visit } from '../visit.js';
import { takeSecret } from './secret-cookie.js';
import { requireClientOf, toShownClient } from './shown-client.js';

/** Shows a client, and once, just after it was made, its secret too. */
export async function showClient(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const row = await context.database.read((query) => requireClientOf(visit, query));
  const shown = takeSecret(visit, row);
  const view = renderClient({
    client: toShownClient(row),
    secret: shown?.secret,
    baseUrl: context.settings.addresses.baseUrl,
    now: context.clock.now(),
  });
  return page(view, { headers: shown?.headers ?? {} });
}

export async function showRevokeClient(visit: Visit): Promise<DashboardAnswer> {
  const row = await visit.context.database.read((query) => requireClientOf(visit, query));
  return page(renderRevokeClient({ client: toShownClient(row), csrf: visit.csrf }));
}

export async function actRevokeClient(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  await context.database.write(async (transaction) => {
    const row = await requireClientOf(visit, transaction);
    await revokeConfidentialClient(context, transaction, row.id);
  });
  return movedWithNote(visit, '/dashboard/clients', 'revoked');
}
