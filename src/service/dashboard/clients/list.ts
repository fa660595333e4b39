import { ID_PREFIX } from '../../../wire/id.js';
import { renderClients } from '../../pages/dashboard/clients-page.js';
import { decodeCursor, encodeCursor } from '../../store/cursor.js';
import { listClientsOfAccount } from '../../store/oauth-client-rows.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';
import { toShownClient } from './shown-client.js';

const PER_PAGE = 25;
/** Greater than every id: a ULID begins with a digit. */
const BEFORE_ALL = `${ID_PREFIX.oauthClient}Z`;

export async function showClients(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const scope = ['clients', account.id];
  const cursor = query.one('after');
  const [before] = decodeCursor(scope, cursor, [BEFORE_ALL]);
  const rows = await context.database.read((view) => listClientsOfAccount(view, account.id, before, PER_PAGE + 1));
  const shown = rows.slice(0, PER_PAGE);
  const last = shown.at(-1);
  const hasMore = rows.length > PER_PAGE && last !== undefined;
  return page(
    renderClients({
      clients: shown.map(toShownClient),
      next: hasMore ? encodeCursor(scope, [last.id]) : null,
      isFirst: cursor === undefined,
      now: context.clock.now(),
      note: query.one('note'),
    }),
  );
}
