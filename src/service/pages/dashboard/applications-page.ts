import type { Scope } from '../../../wire/scope.js';
import { renderFace } from '../face.js';
import { type Html, html, strangersText } from '../html.js';
import type { View } from './frame.js';
import { type Listed, renderEmpty, renderList } from './list.js';
import {
  aspCommand,
  type NoteName,
  renderCommand,
  renderHeading,
  renderNote,
  renderQuestion,
  renderScopes,
} from './parts.js';
import { renderTime } from './time.js';

/** An application that somebody let act as an agent or as the account. Nobody has verified its name. */
export interface ShownApplication {
  readonly id: string;
  readonly name: string;
  readonly handle: string | null;
  readonly scopes: readonly Scope[];
  readonly createdAt: number;
  readonly lastUsedAt: number;
}

export interface ApplicationsPage {
  readonly listed: Listed<ShownApplication>;
  readonly now: number;
  readonly baseUrl: string;
  readonly note: NoteName | undefined;
}

export function renderApplications({ listed, now, baseUrl, note }: ApplicationsPage): View {
  const heading = renderHeading({
    title: 'Connected apps',
    about: 'Apps you’ve allowed to act for you. App names are chosen by the apps and aren’t verified.',
  });
  const nothing = renderEmpty(
    'Nothing is connected',
    html`<p>An app asks you before it acts as one of your agents. The command line does so too:</p>${renderCommand([aspCommand({ baseUrl }, 'login')])}`,
  );
  const list = renderList('/dashboard/applications', listed, (one) => renderRow(one, now), nothing);
  const main = html`<div class="stack">${heading}${renderNote(note)}${list}</div>`;
  return { title: 'Connected apps', section: 'applications', main };
}

function renderRow(application: ShownApplication, now: number): Html {
  const { id, name, scopes, createdAt, lastUsedAt } = application;
  return html`<li class="row tall">${renderFace(name)}
<div class="who grow"><b>${strangersText(name)}</b><span class="soft">${renderGrantee(application)}</span>
<details class="quiet"><summary>Permissions</summary>${renderScopes(scopes)}</details></div>
<p class="facts soft small"><span>Allowed ${renderTime(createdAt, now)}</span><span>Last used ${renderTime(lastUsedAt, now)}</span></p>
<a class="button plain small-button" href="/dashboard/applications/${id}/disconnect">Disconnect<span class="hidden-label"> ${strangersText(name)}</span></a></li>`;
}

function renderGrantee({ handle }: ShownApplication): Html {
  return handle === null
    ? html`manages your account and its agents`
    : html`acts as <span class="mono wrap">${handle}</span>`;
}

export function renderDisconnect({
  application,
  csrf,
  now,
}: {
  readonly application: ShownApplication;
  readonly csrf: string;
  readonly now: number;
}): View {
  const { id, name, createdAt } = application;
  const main = renderQuestion({
    title: html`Disconnect “${strangersText(name)}”?`,
    consequences: [
      html`It ${renderGrantee(application)}. You allowed it ${renderTime(createdAt, now)}. Its connections are closed at once.`,
      'Existing access tokens expire within 15 minutes.',
      'To act for you again, it must ask you.',
    ],
    path: `/dashboard/applications/${id}/disconnect`,
    csrf,
    label: 'Disconnect',
    back: { label: 'Connected apps', path: '/dashboard/applications' },
  });
  return { title: 'Disconnect an app?', section: 'applications', main };
}
