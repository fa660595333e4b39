import { SessionState } from '../../../wire/session.js';
import { renderSessions } from '../../pages/dashboard/sessions-page.js';
import { readAccountSessions } from '../../sessions/list-account-sessions.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';

const PER_PAGE = 25;

export async function showSessions({ context, account, query }: Visit): Promise<DashboardAnswer> {
  const cursor = query.one('after');
  const asked = SessionState.safeParse(query.one('state'));
  const state = asked.success ? asked.data : undefined;
  const { rows, next } = await context.database.read((view) =>
    readAccountSessions(view, account.id, {
      limit: PER_PAGE,
      ...(state !== undefined && { state }),
      ...(cursor !== undefined && { cursor }),
    }),
  );
  return page(
    renderSessions({
      rows,
      next,
      state,
      isFirst: cursor === undefined,
      now: context.clock.now(),
      baseUrl: context.settings.addresses.baseUrl,
    }),
  );
}
