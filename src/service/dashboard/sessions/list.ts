import { SessionState } from '../../../wire/session.js';
import { renderSessions } from '../../pages/dashboard/sessions-page.js';
import { readAccountSessions } from '../../sessions/list-account-sessions.js';
import { askedOf, listedOf } from '../listed.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';

export async function showSessions(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const state = SessionState.safeParse(query.one('state')).data;
  const { rows, next } = await context.database.read((view) =>
    readAccountSessions(view, account.id, { ...askedOf(visit), ...(state !== undefined && { state }) }),
  );
  return page(
    renderSessions({
      listed: listedOf(visit, rows, next),
      state,
      now: context.clock.now(),
      baseUrl: context.settings.addresses.baseUrl,
    }),
  );
}
