import type { ErrorCode } from '../../wire/error.js';
import type { View } from '../pages/dashboard/frame.js';
import { hiddenEntries } from '../pages/form.js';
import { html } from '../pages/html.js';

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

interface Refused {
  readonly code: ErrorCode;
  readonly message: string;
  /** The form that was refused, to be sent again as it is. */
  readonly retry?: {
    readonly path: string;
    readonly csrf: string;
    readonly entries: readonly (readonly [name: string, value: string])[];
  };
}

/** Why a form was refused as a whole, in words. */
export function refusedView({ code, message, retry }: Refused): View {
  const title = code === 'RATE_LIMITED' ? 'Too many changes' : 'This cannot be done';
  const entries = retry?.entries.filter(([name]) => name !== 'csrf') ?? [];
  const form =
    retry &&
    html`<form method="post" action="${retry.path}">${hiddenEntries([...entries, ['csrf', retry.csrf]])}<button class="button plain">Try again</button></form>`;
  return {
    title: `Problem: ${title}`,
    section: undefined,
    main: html`<div class="stack"><div class="head"><h1>${title}</h1></div><p>${message}</p><p class="soft">Nothing was changed.</p>${form}</div>`,
  };
}
