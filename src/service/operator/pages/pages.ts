import { OPERATOR_AREA } from '../../web/dashboard/frame.js';
import type { PageRow } from '../../web/dashboard/visit.js';
import {
  actDisconnectApp,
  actDistrustAccount,
  actEraseAccount,
  actInvite,
  actPasswordLink,
  actPauseAgent,
  actRemoveAccount,
  actResume,
  actRevokeClient,
  actRevokeInvitation,
  actSuspend,
  actTrustAccount,
  showAccount,
  showAccounts,
  showAgents,
  showEraseAccount,
  showFormOfAccount,
  showFormOfInvitations,
  showInvitations,
  showRemoveAccount,
} from './accounts.js';
import { forOperators } from './area.js';
import { showLog } from './log.js';
import { createOverview, createRotation, type OverviewSources } from './overview.js';

const ACCOUNT = `${OPERATOR_AREA}/accounts/:account`;
const INVITATIONS = `${OPERATOR_AREA}/invitations`;

/** Every address of the operator's area. */
export function createOperatorRows(sources: OverviewSources): readonly PageRow[] {
  return forOperators([{ path: OPERATOR_AREA, show: createOverview(sources) }, createRotation(sources), ...ROWS]);
}

const ROWS: readonly PageRow[] = [
  { path: `${OPERATOR_AREA}/accounts`, show: showAccounts },
  { path: `${OPERATOR_AREA}/agents`, show: showAgents },
  { path: ACCOUNT, show: showAccount },
  { path: `${ACCOUNT}/suspend`, show: showFormOfAccount, act: actSuspend },
  { path: `${ACCOUNT}/resume`, show: showFormOfAccount, act: actResume },
  { path: `${ACCOUNT}/trust`, show: showFormOfAccount, act: actTrustAccount },
  { path: `${ACCOUNT}/distrust`, show: showFormOfAccount, act: actDistrustAccount },
  { path: `${ACCOUNT}/agents/:name/pause`, show: showFormOfAccount, act: actPauseAgent },
  { path: `${ACCOUNT}/clients/:id/revoke`, show: showFormOfAccount, act: actRevokeClient },
  { path: `${ACCOUNT}/apps/:id/disconnect`, show: showFormOfAccount, act: actDisconnectApp },
  { path: `${ACCOUNT}/password-link`, show: showFormOfAccount, act: actPasswordLink },
  { path: `${ACCOUNT}/erase`, show: showEraseAccount, act: actEraseAccount },
  { path: `${ACCOUNT}/remove`, show: showRemoveAccount, act: actRemoveAccount },
  { path: INVITATIONS, show: showInvitations, act: actInvite },
  { path: `${INVITATIONS}/:id/revoke`, show: showFormOfInvitations, act: actRevokeInvitation },
  { path: `${OPERATOR_AREA}/log`, show: showLog },
];
