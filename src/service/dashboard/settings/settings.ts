import type { View } from '../../pages/dashboard/frame.js';
import { renderSettings, type SettingsPage } from '../../pages/dashboard/settings-page.js';
import { type AccountSessionRow, listAccountSessions } from '../../store/account-session-rows.js';
import { readListed } from '../listed.js';
import { type DashboardAnswer, page, type Visit } from '../visit.js';

export async function showSettings(visit: Visit): Promise<DashboardAnswer> {
  return page(await settingsView(visit, { mistakes: [], disconnectsApps: true }));
}

/** `form` is what was sent from the page, and what is wrong with it. */
export async function settingsView(visit: Visit, form: SettingsPage['form']): Promise<View> {
  const { context, account, browser, csrf, note } = visit;
  const now = context.clock.now();
  const { items, ...rest } = await context.database.read((view) =>
    readListed(visit, {
      scope: ['signed-in browsers', account.id],
      start: [Number.MAX_SAFE_INTEGER, ''],
      placeOf: (row: AccountSessionRow) => [row.created_at, row.id_hash],
      read: ([createdAt, idHash], limit) => listAccountSessions(view, account.id, now, { createdAt, idHash }, limit),
    }),
  );
  const browsers = items.map((row) => ({
    id: row.id_hash,
    name: row.browser_name,
    address: row.address,
    signedInAt: row.created_at,
    isThisOne: row.id_hash === browser.hash,
  }));
  return renderSettings({
    username: account.username,
    hasPassword: account.password_hash !== null,
    form,
    browsers: { items: browsers, ...rest },
    csrf,
    note,
    now,
  });
}
