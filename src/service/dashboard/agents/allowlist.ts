import { AddAllowlistRequest } from '../../../wire/trust.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { renderAllowlist } from '../../pages/dashboard/trust-pages.js';
import type { Mistake } from '../../pages/form.js';
import { ServiceError } from '../../service-error.js';
import { listAllowlistPage } from '../../store/allowlist-rows.js';
import { addToAllowlist } from '../../trust/add-to-allowlist.js';
import { removeFromAllowlist } from '../../trust/remove-from-allowlist.js';
import { readListed } from '../listed.js';
import type { DashboardAnswer, Visit } from '../visit.js';
import { agentPathOf } from './own-agent.js';
import { changeTrustList, showTrustList, type TrustList } from './trust-list.js';

const MALFORMED: Mistake = {
  field: 'entry',
  message: 'Enter addresses such as @bob.helper, or @bob.* for all agents of @bob.',
};

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
  const typed = form.one('entry') ?? '';
  const read = AddAllowlistRequest.safeParse({ entries: typed.split(/[\s,]+/).filter((entry) => entry !== '') });
  if (!read.success) return showTrustList(visit, ALLOWLIST, { mistake: MALFORMED, typed });
  const input = { path: agentPathOf(visit), body: read.data };
  try {
    return await changeTrustList(visit, ALLOWLIST, 'listed', (actor, transaction) =>
      addToAllowlist(visit.context, actor, input, transaction),
    );
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'VALIDATION_ERROR') throw error;
    return showTrustList(visit, ALLOWLIST, { mistake: { field: 'entry', message: error.message }, typed });
  }
}

export async function actRemoveEntry(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const input = { path: { ...agentPathOf(visit), entry: form.one('entry') ?? '' } };
  return changeTrustList(visit, ALLOWLIST, 'listed', (actor, transaction) =>
    removeFromAllowlist(visit.context, actor, input, transaction),
  );
}
