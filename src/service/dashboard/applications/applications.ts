import { REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../../wire/limit.js';
import { revokeFamily } from '../../authorization-server/revoke.js';
import { parseScopes } from '../../authorization-server/scope-and-resource.js';
import {
  renderApplications,
  renderDisconnect,
  type ShownApplication,
} from '../../pages/dashboard/applications-page.js';
import { ServiceError } from '../../service-error.js';
import type { Query } from '../../store/database.js';
import { type FamilyOfAccountRow, findFamilyOfAccount, listFamiliesOfAccount } from '../../store/refresh-rows.js';
import { readListed } from '../listed.js';
import { type DashboardAnswer, movedWithNote, page, type Visit } from '../visit.js';

export async function showApplications(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, note } = visit;
  const { items, ...rest } = await context.database.read((view) =>
    readListed(visit, {
      scope: ['applications', account.id],
      start: [Number.MAX_SAFE_INTEGER, ''],
      placeOf: (row: FamilyOfAccountRow) => [row.created_at, row.id],
      read: ([createdAt, id], limit) =>
        listFamiliesOfAccount(view, account.id, livesSince(visit), { createdAt, id }, limit),
    }),
  );
  return page(
    renderApplications({
      listed: { items: items.map(toShown), ...rest },
      now: context.clock.now(),
      baseUrl: context.settings.addresses.baseUrl,
      note,
    }),
  );
}

export async function showDisconnect(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf } = visit;
  const row = await context.database.read((query) => requireFamily(visit, query));
  return page(renderDisconnect({ application: toShown(row), csrf, now: context.clock.now() }));
}

/** Ends the family: its tokens are refused and its sockets closed, as if the application had signed out. */
export async function actDisconnect(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  await context.database.write(async (transaction) => {
    const row = await requireFamily(visit, transaction);
    await revokeFamily(context, transaction, row.id);
  });
  return movedWithNote(visit, '/dashboard/applications', 'disconnected');
}

async function requireFamily(visit: Visit, query: Query): Promise<FamilyOfAccountRow> {
  const row = await findFamilyOfAccount(query, visit.account.id, livesSince(visit), visit.part('id'));
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return row;
}

/** What was not used for longer has expired (spec: Refresh). */
const livesSince = ({ context }: Visit): number => context.clock.now() - REFRESH_TOKEN_IDLE_LIFETIME_S * 1000;

function toShown(row: FamilyOfAccountRow): ShownApplication {
  return {
    id: row.id,
    name: row.client_name,
    handle: row.handle,
    scopes: parseScopes(row.scope),
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
  };
}
