import { SCOPE_DESCRIPTION, type Scope } from '../../wire/scope.js';
import type { AnswerTarget } from '../authorization-server/redirect-uri.js';
import { renderFace } from './face.js';
import { hidden, type Mistake, renderField, renderProblem } from './form.js';
import { type Html, html, strangersText } from './html.js';
import { CAUTION, PLUS, TICK } from './icon.js';
import { layOut } from './layout.js';

/** The value of the choice that makes an agent. */
export const NEW_AGENT = 'new';

/** With more agents than these, what the application may do would be far below. */
const LISTED_WHOLE_MAX = 6;

export interface ConsentAgent {
  readonly handle: string;
  readonly displayName: string;
}

export interface ConsentPage {
  readonly place: string;
  readonly request: string;
  readonly csrf: string;
  readonly decidePath: string;
  readonly signOutPath: string;
  readonly clientName: string;
  /** Where the application describes itself; undefined for one that registered itself. */
  readonly clientUrl: string | undefined;
  readonly answerTarget: Pick<AnswerTarget, 'kind' | 'name'>;
  readonly scopes: readonly Scope[];
  readonly account: { readonly username: string; readonly displayName: string };
  /** Undefined: the account itself is asked for. */
  readonly agents: readonly ConsentAgent[] | undefined;
  /** A handle, NEW_AGENT, or nothing yet. */
  readonly chosen: string | undefined;
  /** An agent that was asked for by name and is not this account's. */
  readonly missingHandle: string | undefined;
  readonly mistakes: readonly Mistake[];
  readonly filled: { readonly name?: string; readonly displayName?: string };
}

/** Asks a person whether an application may act as one of their agents, and as which. */
export function renderConsentPage(page: ConsentPage): string {
  const { clientName, agents } = page;
  const name = strangersText(clientName);
  const main = html`<form method="post" action="${page.decidePath}" class="stack">
${hidden({ request: page.request, csrf: page.csrf })}
<div class="stack-tight">
<h1>${agents === undefined ? html`Let “${name}” use your account?` : html`Let “${name}” act as your agent?`}</h1>
<p class="soft">${renderReturn(page)}</p>
</div>
${renderProblem('There is a problem', page.mistakes)}
<div class="notice">${CAUTION}<p>${renderOrigin(page.clientUrl)} Allow it only if you started it yourself just now.</p></div>
${agents !== undefined && renderPicker(page, agents)}
<section class="stack-tight" aria-labelledby="can"><h2 id="can">It will be able to</h2>
<ul class="ticks">${page.scopes.map((scope) => html`<li>${TICK}<span>${SCOPE_DESCRIPTION[scope]}</span></li>`)}</ul></section>
<div class="actions"><button class="button primary" name="decision" value="allow">Allow</button><button class="button plain" name="decision" value="deny" formnovalidate>Deny</button></div>
<p class="soft small">Access ends when the application signs out, or after 30 days without use.</p>
</form>`;
  const below = html`<form method="post" action="${page.signOutPath}">${hidden({ request: page.request, csrf: page.csrf })}
<span>Signed in as <bdi>${page.account.displayName}</bdi> <span class="mono wrap">@${page.account.username}</span></span><button class="link">Use another account</button></form>`;
  const title = agents === undefined ? 'Allow access to your account' : 'Allow access to an agent';
  return layOut({
    title: page.mistakes.length > 0 ? `Problem: ${title}` : title,
    place: page.place,
    main,
    below,
  });
}

/** Who vouches for the name of the application: nobody, or whoever holds the host of its address. */
function renderOrigin(clientUrl: string | undefined): Html {
  if (clientUrl === undefined) return html`This application registered itself, and nobody has verified its name.`;
  return html`This application is described by <strong class="wrap">${new URL(clientUrl).host}</strong>, at <span class="mono wrap">${clientUrl}</span>. Nobody here has verified it.`;
}

function renderReturn({ answerTarget: { kind, name } }: ConsentPage): Html {
  if (kind === 'program')
    return html`The answer goes to a program on this computer, at <span class="mono wrap">${name}</span>.`;
  if (kind === 'app')
    return html`The answer goes to the app on this device that opens <strong class="wrap">${name}:</strong> links.`;
  return html`The answer goes to <strong class="wrap">${name}</strong>.`;
}

function renderPicker(page: ConsentPage, agents: readonly ConsentAgent[]): Html {
  const { account, chosen, missingHandle } = page;
  const isLong = agents.length > LISTED_WHOLE_MAX;
  // Within a list that scrolls, what is chosen must be seen.
  const listed = isLong
    ? agents.toSorted((one, other) => Number(other.handle === chosen) - Number(one.handle === chosen))
    : agents;
  return html`<fieldset>
<legend>${agents.length === 0 ? 'Create the agent it acts as' : 'It acts as'}</legend>
${missingHandle !== undefined && html`<p class="small soft wrap">It asked for <span class="mono">${missingHandle}</span>, which is not an agent of @${account.username}.</p>`}
<div class="choices${isLong && ' many'}">
${listed.map((agent, index) => renderAgent(agent, index, chosen === agent.handle))}
${renderNewAgent(page, chosen === NEW_AGENT)}
</div>
</fieldset>`;
}

function renderAgent({ handle, displayName }: ConsentAgent, index: number, isChosen: boolean): Html {
  return html`<div class="choice"><label for="agent-${index}">
<input type="radio" id="agent-${index}" name="agent" value="${handle}" required${isChosen && html` checked`}>
${renderFace(displayName)}
<span class="who"><b><bdi>${displayName}</bdi></b><span class="mono">${handle}</span></span>
</label></div>`;
}

function renderNewAgent({ account, mistakes, filled }: ConsentPage, isChosen: boolean): Html {
  return html`<div class="choice"><label for="agent-new">
<input type="radio" id="agent-new" name="agent" value="${NEW_AGENT}" required${isChosen && html` checked`}>
<span class="face" aria-hidden="true">${PLUS}</span>
<span class="who"><b>A new agent</b><span class="soft small">You give it a name</span></span>
</label>
<div class="more">
${renderField(
  {
    id: 'agent-name',
    name: 'agent_name',
    label: 'Address',
    prefix: `@${account.username}.`,
    value: filled.name ?? '',
    hint: html`Lowercase letters, digits, <code>_</code> and <code>-</code>. It cannot be changed later.`,
    autocomplete: 'off',
    maxLength: 64,
    isIdentifier: true,
    isRequired: false,
  },
  mistakes,
)}
${renderField(
  {
    id: 'agent-display-name',
    name: 'agent_display_name',
    label: 'Display name (optional)',
    value: filled.displayName ?? '',
    autocomplete: 'off',
    maxLength: 100,
    isRequired: false,
  },
  mistakes,
)}
</div></div>`;
}
