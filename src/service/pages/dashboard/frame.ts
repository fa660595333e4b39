import { headersFor, policyHashOf, renderDocument, renderScript } from '../document.js';
import { renderFace } from '../face.js';
import { hidden } from '../form.js';
import { type Html, html } from '../html.js';
import { MARK } from '../icon.js';
import { DASHBOARD_STYLE } from './style.js';
import { TIME_SCRIPT } from './time-script.js';

const headersWith = headersFor(DASHBOARD_STYLE);

/** The parts of the dashboard, as its navigation lists them. */
const SECTIONS = {
  agents: { label: 'Agents', path: '/dashboard/agents' },
  sessions: { label: 'Sessions', path: '/dashboard/sessions' },
  clients: { label: 'Credentials', path: '/dashboard/clients' },
  applications: { label: 'Apps', path: '/dashboard/applications' },
} as const;
export type Section = keyof typeof SECTIONS;

/** What one page of the dashboard shows within the frame. */
export interface View {
  /** Of the browser's tab; what went wrong stands first, so that it is also heard first. */
  readonly title: string;
  readonly section: Section | undefined;
  readonly main: Html;
  /** What the page does by itself once it is there; it may ask this service for more. */
  readonly script?: string;
}

export interface Frame {
  /** The host of the service, so that a person sees whose page this is. */
  readonly place: string;
  readonly account: { readonly username: string; readonly displayName: string };
  readonly signOutPath: string;
  readonly csrf: string;
}

/** A whole page of the dashboard. */
export function renderFrame({ title, section, main, script }: View, frame: Frame): string {
  const body = html`<body>
<a class="skip" href="#main">Skip to content</a>
<header class="bar"><div class="bar-inside">
<a class="brand" href="/dashboard">${MARK}<strong>asp</strong></a>
<nav aria-label="Dashboard"><ul>${Object.entries(SECTIONS).map(([name, { label, path }]) => html`<li><a href="${path}"${name === section && html` aria-current="page"`}>${label}</a></li>`)}</ul></nav>
${renderAccountMenu(frame)}
</div></header>
<main id="main" class="page" tabindex="-1">${main}${script !== undefined && renderScript(script)}</main>
<footer class="foot"><span class="mono">${frame.place}</span></footer>
</body>`;
  return renderDocument({ title, style: DASHBOARD_STYLE, script: TIME_SCRIPT, body });
}

function renderAccountMenu({ account, signOutPath, csrf }: Frame): Html {
  return html`<button class="account" type="button" popovertarget="account-menu">${renderFace(account.displayName, 'small')}<span class="account-name"><span class="hidden-label">Account: </span><bdi>${account.username}</bdi></span></button>
<div class="menu" id="account-menu" popover><p class="who"><b><bdi>${account.displayName}</bdi></b><span class="mono">@${account.username}</span></p>
<a class="button plain" href="/dashboard/settings">Settings</a>
<form method="post" action="${signOutPath}">${hidden({ csrf })}<button class="button plain">Sign out</button></form></div>`;
}

export function frameHeaders({ script }: View): Record<string, string> {
  const scripts = script === undefined ? [TIME_SCRIPT] : [TIME_SCRIPT, script];
  return headersWith({
    'script-src': scripts.map(policyHashOf),
    ...(script !== undefined && { 'connect-src': ["'self'"] }),
  });
}
