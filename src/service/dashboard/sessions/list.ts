import { SessionState } from '../../../wire/session.js';
import { isEmpty } from '../../pages/dashboard/list.js';
import { type FirstSession, renderSessions } from '../../pages/dashboard/sessions-page.js';
import { readAccountSessions } from '../../sessions/list-account-sessions.js';
import { findAgentByHandle, listAgentsOfAccount } from '../../store/agent-rows.js';
import type { Query } from '../../store/database.js';
import { askedOf, listedOf } from '../listed.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';

/** The agent that answers everyone, where the service was started with one. */
const ECHO_HANDLE = '@demo.echo';

export async function showSessions(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const state = SessionState.safeParse(query.one('state')).data;
  return context.database.read(async (view) => {
    const asked = { ...askedOf(visit), ...(state !== undefined && { state }) };
    const { rows, next } = await readAccountSessions(view, account.id, asked);
    const listed = listedOf(visit, rows, next);
    return page(
      renderSessions({
        listed,
        state,
        username: account.username,
        start: isEmpty(listed) ? await suggestFirst(view, account.id) : undefined,
        now: context.clock.now(),
        baseUrl: context.settings.addresses.baseUrl,
      }),
    );
  });
}

async function suggestFirst(view: Query, accountId: string): Promise<FirstSession | undefined> {
  const [sender, sibling] = await listAgentsOfAccount(view, accountId, { limit: 2 });
  if (sender === undefined) return undefined;
  const echo = await findAgentByHandle(view, ECHO_HANDLE);
  const isEchoOpen = echo?.inbound_policy === 'open' && echo.is_paused === 0 && echo.id !== sender.id;
  return { sender: sender.handle, recipient: isEchoOpen ? ECHO_HANDLE : sibling?.handle };
}
