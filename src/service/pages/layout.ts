import { headersFor, renderDocument } from './document.js';
import { type Html, html } from './html.js';
import { MARK } from './icon.js';
import { STYLE } from './style.js';

const headersWith = headersFor(STYLE);

export interface Page {
  readonly title: string;
  /** The host of the service, so that a person sees whose page this is. */
  readonly place: string;
  readonly main: Html;
  readonly below?: Html;
}

/** A document that is one sheet of paper. */
export function layOut({ title, place, main, below }: Page): string {
  const body = html`<body>
<header class="masthead">${MARK}<strong>asp</strong><span class="place">${place}</span></header>
<main class="sheet">${main}</main>
${below !== undefined && html`<footer class="below">${below}</footer>`}
</body>`;
  return renderDocument({ title, style: STYLE, body });
}

/**
 * `formTargets` are origins to which a form of the page may lead in the end: Chromium holds `form-action` against the
 * redirect after a form too.
 */
export function pageHeaders(formTargets: readonly string[] = []): Record<string, string> {
  return headersWith({ 'form-action': ["'self'", ...formTargets] });
}
