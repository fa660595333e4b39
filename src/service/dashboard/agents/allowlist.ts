import { AddAllowlistRequest, AllowlistEntry } from '../../../wire/trust.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { renderAllowlist } from '../../pages/dashboard/trust-pages.js';
import { strangersWords } from '../../pages/html.js';
import { ServiceError } from '../../service-error.js';
import { listAllowlistPage } from '../../store/allowlist-rows.js';
import { addToAllowlist } from '../../trust/add-to-allowlist.js';
import { removeFromAllowlist } from '../../trust/remove-from-allowlist.js';
import { readListed } from '../listed.js';
import { type DashboardAnswer, mistaken, type Refusal, type Visit } from '../visit.js';
import { agentPathOf } from './own-agent.js';
import { changeTrustList, showTrustList, type TrustList } from './trust-list.js';

const ALLOWLIST: TrustList<string> = {
  path: 'allowlist',
  render: renderAllowlist,
  read: (visit, { agentId }, view) =>
    readListed(visit, {
      scope: ['allowlist', agentId],
      start: [''],
      placeOf: (entry) => [entry],
      read: ([after], limit) => listAllowlistPage(view, agentId, after, limit),
    }),
};

export async function showAllowlist(visit: Visit): Promise<DashboardAnswer> {
  return showTrustList(visit, ALLOWLIST);
}

export async function actAllowlist(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const typed = (form.one('entry') ?? '').split(/[\s,]+/).filter((entry) => entry !== '');
  const wrong = typed.find((entry) => !AllowlistEntry.safeParse(entry).success);
  if (wrong !== undefined) return allowlistAgain(visit, form, mistaken({ field: 'entry', message: malformed(wrong) }));
  const read = AddAllowlistRequest.safeParse({ entries: typed });
  if (!read.success) return allowlistAgain(visit, form, mistaken({ field: 'entry', message: MISSING }));
  const input = { path: agentPathOf(visit), body: read.data };
  try {
    return await changeTrustList(visit, ALLOWLIST, 'listed', (actor, transaction) =>
      addToAllowlist(visit.context, actor, input, transaction),
    );
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'VALIDATION_ERROR') throw error;
    return allowlistAgain(visit, form, mistaken({ field: 'entry', message: error.message }));
  }
}

const MISSING = 'Enter handles such as @bob.helper, or @bob.* for all agents of @bob.';
const malformed = (entry: string): string =>
  `“${strangersWords(entry)}” is not a handle. Enter handles such as @bob.helper, or @bob.* for all agents of @bob.`;

export async function allowlistAgain(visit: Visit, form: Parameters, refusal: Refusal): Promise<DashboardAnswer> {
  return showTrustList(visit, ALLOWLIST, { ...refusal, typed: form.one('entry') ?? '' });
}

export async function actRemoveEntry(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const input = { path: { ...agentPathOf(visit), entry: form.one('entry') ?? '' } };
  return changeTrustList(visit, ALLOWLIST, 'unlisted', (actor, transaction) =>
    removeFromAllowlist(visit.context, actor, input, transaction),
  );
}
