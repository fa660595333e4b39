import { ID_PREFIX } from '../../../wire/id.js';
import { renderClients } from '../../pages/dashboard/clients-page.js';
import { type ClientOfAccountRow, listClientsOfAccount } from '../../store/oauth-client-rows.js';
import { readListed } from '../listed.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';
import { toShownClient } from './shown-client.js';

/** Greater than every id: a ULID begins with a digit. */
const BEFORE_ALL = `${ID_PREFIX.oauthClient}Z`;

export async function showClients(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, note } = visit;
  const { items, ...rest } = await context.database.read((view) =>
    readListed(visit, {
      scope: ['clients', account.id],
      start: [BEFORE_ALL],
      placeOf: ({ id }: ClientOfAccountRow) => [id],
      read: ([before], limit) => listClientsOfAccount(view, account.id, before, limit),
    }),
  );
  return page(
    renderClients({
      listed: { items: items.map(toShownClient), ...rest },
      now: context.clock.now(),
      note,
    }),
  );
}
