import type { Parameters } from '../../authorization-server/parameters.js';
import { deleteAccountSessionOf, deleteAccountSessions } from '../../store/account-session-rows.js';
import { type DashboardAnswer, movedWithNote, type Visit } from '../visit.js';

const PATH = '/dashboard/settings';

/** Signs one of the account's browsers out, this one too. One that was signed out meanwhile is no mistake. */
export async function actEndBrowser(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const idHash = form.one('id') ?? '';
  await context.database.write((transaction) => deleteAccountSessionOf(transaction, account.id, idHash));
  return movedWithNote(visit, PATH, 'browser-ended');
}

export async function actEndOtherBrowsers(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, browser } = visit;
  await context.database.write((transaction) => deleteAccountSessions(transaction, account.id, browser.hash));
  return movedWithNote(visit, PATH, 'browsers-ended');
}
