import { findPasswordMistake, hashPassword } from '../../authorization-server/account/password.js';
import { setPassword } from '../../authorization-server/account/set-password.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { ServiceError } from '../../service-error.js';
import { findAccount } from '../../store/account-rows.js';
import { type DashboardAnswer, mistaken, movedWithNote, type Refusal, refused, type Visit } from '../visit.js';
import { settingsView } from './settings.js';

/** Changes the password. Whoever knew the old one is signed out everywhere but here. */
export async function actPassword(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, browser } = visit;
  if (account.password_hash === null) throw new ServiceError('NOT_FOUND');
  const password = form.one('new_password') ?? '';
  const message = findPasswordMistake(password, account.username);
  if (message !== undefined) return passwordAgain(visit, form, mistaken({ field: 'new-password', message }));
  const refusal = await visit.findMistakeIn(form.one('current_password') ?? '', 'current-password');
  if (refusal !== undefined) return passwordAgain(visit, form, refusal);
  const passwordHash = await hashPassword(password);
  const areApplicationsKept = !disconnectsApps(form);
  await context.database.write(async (transaction) => {
    const current = await findAccount(transaction, account.id);
    // Another browser was faster, and has signed this one out.
    if (current?.password_hash !== account.password_hash) throw new ServiceError('NOT_FOUND');
    await setPassword(context, transaction, {
      accountId: account.id,
      passwordHash,
      keptBrowserHash: browser.hash,
      areApplicationsKept,
    });
  });
  const note = areApplicationsKept ? 'password-changed' : 'password-changed-apps';
  return movedWithNote(visit, '/dashboard/settings', note);
}

export async function passwordAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  const { mistakes } = refusal;
  return refused(await settingsView(visit, { mistakes, disconnectsApps: disconnectsApps(form) }), refusal);
}

const disconnectsApps = (form: Parameters): boolean => form.one('disconnect_apps') === 'true';
