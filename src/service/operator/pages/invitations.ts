import type { Invitation } from '../../../wire/schemas/operator.js';
import type { ServiceContext } from '../../core/context.js';
import type { Parameters } from '../../oauth/parameters.js';
import { type InvitationRow, listInvitations } from '../../store/operator.js';
import { OPERATOR_AREA, renderButton, renderEmpty, renderList, renderTrail } from '../../web/dashboard/frame.js';
import { type DashboardAnswer, moved, movedWithNote, page, readListed, type Visit } from '../../web/dashboard/visit.js';
import { hidden, renderSelection } from '../../web/form.js';
import { type Html, html } from '../../web/html.js';
import { renderDeadline, renderTime } from '../../web/time.js';
import { createInvitation, LAST_LINK, revokeInvitation, toInvitation } from '../accounts.js';
import { actAsOperator } from '../actions.js';
import { operatorOf, renderAreaPage } from './area.js';

const PATH = `${OPERATOR_AREA}/invitations`;
const DAY_MS = 24 * 60 * 60 * 1000;
const DAYS = ['1', '7', '30'] as const;

const SIGN_UP: Readonly<Record<ServiceContext['settings']['accountPolicy']['signUp'], string>> = {
  open: 'Everyone can sign up here, so no one needs an invitation.',
  invite: 'People need an invitation to sign up here. Each is for one person.',
  off: 'No one can sign up here, with or without an invitation.',
};

export async function showInvitations(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf, note } = visit;
  const now = context.clock.now();
  const listed = await context.database.read((query) =>
    readListed(visit, {
      scope: ['invitations'],
      start: [LAST_LINK],
      toPosition: ({ id }: InvitationRow) => [id],
      read: ([beforeId], limit) => listInvitations(query, beforeId, limit),
    }),
  );
  const nothing = renderEmpty('No invitations', html`<p>An invitation is a link that lets one person sign up.</p>`);
  const rows = renderList(PATH, listed, (row) => renderInvitation(toInvitation(row, now), csrf, now), nothing);
  const heading = { title: 'Invitations', about: SIGN_UP[context.settings.accountPolicy.signUp] };
  return page(renderAreaPage('invitations', { heading, note, body: html`${renderForm(csrf)}${rows}` }));
}

function renderForm(csrf: string): Html {
  const options = DAYS.map((days) => ({ value: days, label: days === '1' ? 'One day' : `${days} days` }));
  const selection = { id: 'days', name: 'days', label: 'Valid for', nothing: 'Choose', options };
  return html`<form method="post" action="${PATH}" class="card add">${hidden({ csrf })}${renderSelection(selection, '7', [])}<button class="button primary">Create invitation</button></form>`;
}

function renderInvitation({ id, state, account, created_at, expires_at }: Invitation, csrf: string, now: number): Html {
  const badge = {
    open: html`<span class="badge good">Open</span>`,
    used: html`<span class="badge">Used</span>`,
    expired: html`<span class="badge warn">Expired</span>`,
  }[state];
  const by = account !== null && html`<span class="mono wrap">@${account}</span>`;
  const until = state === 'open' && html`<span>Valid until ${renderDeadline(expires_at)}</span>`;
  const revoke = renderButton({ path: `${PATH}/${id}/revoke`, csrf, label: 'Revoke', about: id });
  return html`<li class="row"><div class="who grow"><span class="mono wrap">${id}</span>${by}</div><p class="badges">${badge}</p>
<p class="facts soft small"><span>Created ${renderTime(created_at, now)}</span>${until}</p>${state === 'open' && revoke}</li>`;
}

/** The link is on this page alone; its secret is not stored. */
export async function actInvite(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const days = DAYS.find((one) => one === form.one('days')) ?? '7';
  const changes = { lifetime_ms: Number(days) * DAY_MS };
  const action = { operation: 'createInvitation', target: '', changes } as const;
  const { url, expires_at: expiresAt } = await actAsOperator(context, operatorOf(visit), action, () =>
    createInvitation(context, changes),
  );
  const main = html`<div class="narrow stack">${renderTrail('Invitations', PATH)}<h1>Copy this link now</h1>
<section class="card secret stack"><p>You won’t see it again. One person who opens it can sign up.</p>
<p class="mono take">${url}</p><p class="soft small">Valid until ${renderDeadline(expiresAt)}.</p></section></div>`;
  return page({ title: 'Invitation · Operator', section: undefined, main });
}

export async function actRevoke(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const target = visit.part('id');
  const action = { operation: 'revokeInvitation', target } as const;
  await actAsOperator(context, operatorOf(visit), action, () => revokeInvitation(context, target));
  return movedWithNote(visit, PATH, 'invitation-revoked');
}

/** The address of a form that is not a page; a browser comes here after signing in again. */
export async function showFormOfInvitations(): Promise<DashboardAnswer> {
  return moved(PATH);
}
