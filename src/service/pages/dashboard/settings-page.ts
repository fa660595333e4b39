import { type Html, html } from '../html.js';
import type { View } from './frame.js';
import { type Listed, renderList } from './list.js';
import { type NoteName, renderButton, renderHeading, renderNote } from './parts.js';
import { renderTime } from './time.js';

const PATH = '/dashboard/settings';

/** A browser in which somebody is signed in. */
export interface ShownBrowser {
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly signedInAt: number;
  readonly isThisOne: boolean;
}

export interface SettingsPage {
  readonly browsers: Listed<ShownBrowser>;
  readonly csrf: string;
  readonly note: NoteName | undefined;
  readonly now: number;
}

export function renderSettings(page: SettingsPage): View {
  const main = html`<div class="stack measure">${renderHeading({ title: 'Settings' })}${renderNote(page.note)}
${renderBrowsers(page)}</div>`;
  return { title: 'Settings', section: undefined, main };
}

function renderBrowsers({ browsers, csrf, now }: SettingsPage): Html {
  const hasOthers = browsers.next !== null || browsers.items.some(({ isThisOne }) => !isThisOne);
  const endOthers =
    hasOthers && renderButton({ path: `${PATH}/browsers/end-others`, csrf, label: 'Sign out all others' });
  return html`<section class="stack" aria-labelledby="browsers"><div class="between"><h2 id="browsers">Signed-in browsers</h2>${endOthers}</div>
${renderList(PATH, browsers, (one) => renderBrowser(one, csrf, now), html``)}</section>`;
}

function renderBrowser({ id, name, address, signedInAt, isThisOne }: ShownBrowser, csrf: string, now: number): Html {
  const end = renderButton({
    path: `${PATH}/browsers/end`,
    csrf,
    label: 'Sign out',
    about: html`${name}, ${address}`,
    values: { id },
  });
  return html`<li class="row"><div class="who grow"><b>${name}</b><span class="soft small">Signed in ${renderTime(signedInAt, now)} from <span class="mono wrap">${address}</span></span></div>
${isThisOne ? html`<span class="badge good">This browser</span>` : end}</li>`;
}
