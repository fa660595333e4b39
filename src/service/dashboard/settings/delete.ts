import { removeAccount } from '../../agents/close-account.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { renderDeleteAccount } from '../../pages/dashboard/settings-page.js';
import { renderDeletedPage } from '../../pages/message-page.js';
import { type DashboardAnswer, mistaken, page, type Refusal, refused, type Visit } from '../visit.js';

const NOT_IT = { field: 'username', message: 'This is not your username.' };

export async function showDeleteAccount(visit: Visit): Promise<DashboardAnswer> {
  return page(viewOf(visit, { mistakes: [], status: 200 }));
}

/** Takes the account away for good. What is typed shows that its owner sits here, and means this account. */
export async function actDeleteAccount(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  if (typedUsername(form).replace(/^@/, '').toLowerCase() !== account.username)
    return deleteAccountAgain(visit, form, mistaken(NOT_IT));
  if (account.password_hash !== null) {
    const refusal = await visit.findMistakeIn(form.one('password') ?? '', 'password');
    if (refusal !== undefined) return deleteAccountAgain(visit, form, refusal);
  }
  await removeAccount(context, account.id);
  const place = new URL(context.settings.addresses.webUrl).host;
  return { kind: 'sheet', html: renderDeletedPage({ place, username: account.username }) };
}

export async function deleteAccountAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return refused(viewOf(visit, refusal, typedUsername(form)), refusal);
}

const typedUsername = (form: Parameters): string => (form.one('username') ?? '').trim();

function viewOf({ account, csrf }: Visit, { mistakes }: Refusal, typed = '') {
  const { username, password_hash: hash } = account;
  return renderDeleteAccount({ username, hasPassword: hash !== null, csrf, mistakes, typed });
}
