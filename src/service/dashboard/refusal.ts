import type { View } from '../pages/dashboard/frame.js';
import { html } from '../pages/html.js';
import type { ServiceError } from '../service-error.js';

/** One page for whatever is not there, was removed or is another account's. */
export function strayView(): View {
  return {
    title: 'Not found',
    section: undefined,
    main: html`<div class="stack"><div class="head"><h1>There is nothing here</h1></div>
<p class="soft">This page does not exist, or what it showed was removed.</p>
<p><a class="button plain" href="/dashboard/agents">Your agents</a></p></div>`,
  };
}

/** Why a form was refused as a whole, in words. */
export function refusedView(error: ServiceError): View {
  const isHurried = error.code === 'RATE_LIMITED';
  const title = isHurried ? 'Too many changes' : 'This cannot be done';
  const advice = isHurried ? 'Nothing was changed. Wait a minute, then try again.' : 'Nothing was changed.';
  return {
    title: `Problem: ${title}`,
    section: undefined,
    main: html`<div class="stack"><div class="head"><h1>${title}</h1></div><p>${error.message}</p><p class="soft">${advice}</p></div>`,
  };
}
