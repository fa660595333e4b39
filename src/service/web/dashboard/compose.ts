import { ATTACHMENT_TYPE } from '../../../wire/attachment.js';
import { ATTACHMENTS_PER_MESSAGE_MAX, INVITEES_PER_CALL_MAX } from '../../../wire/limit.js';
import { Handle } from '../../../wire/schemas/requests.js';
import type { AccountView } from '../../messaging/events.js';
import { findTransition, type Verb } from '../../messaging/sessions.js';
import type { OwnParticipationRow } from '../../store/participants.js';
import { hidden, type Mistake, renderField, renderProblem } from '../form.js';
import { type Html, html, untrustedText } from '../html.js';
import { addressIn } from './entries.js';
import { renderButton } from './frame.js';
import { toPlainText } from './markdown.js';

export const TEXT_MAX_LENGTH = 200_000;
const ACCEPTED = Object.entries(ATTACHMENT_TYPE).flatMap(([type, { extensions }]) => [
  type,
  ...extensions.map((one) => `.${one}`),
]);

/** The account's agents in a session, by what each may do there now. */
export interface Roles {
  readonly writers: readonly OwnParticipationRow[];
  readonly invited: readonly OwnParticipationRow[];
  readonly reopeners: readonly OwnParticipationRow[];
  /** Those that can leave. */
  readonly joined: readonly OwnParticipationRow[];
}

export function findRoles({ participations }: AccountView): Roles {
  const present = participations.filter(({ agent_removed_at: removedAt }) => removedAt === null);
  const able = (verb: Verb): OwnParticipationRow[] => present.filter((one) => findTransition(verb, one) !== undefined);
  return {
    writers: able('send'),
    invited: able('join').filter(({ status }) => status === 'invited'),
    reopeners: able('reopen'),
    joined: able('leave'),
  };
}

/** The agent that answers a question: one that can write, or else one that joins for it. */
export function findAnswerer(view: AccountView, asker: string | undefined): OwnParticipationRow | undefined {
  const { writers, invited } = findRoles(view);
  return [...writers, ...invited].find(({ handle }) => handle !== asker);
}

/** The handles that someone typed into a field. */
export function splitHandles(text = ''): string[] {
  return text.split(/[\s,]+/).filter((handle) => handle !== '');
}

/** The problem with typed handles; undefined: none. A field for them has no length: browsers cut what is pasted there. */
export function findMistakenHandles(handles: readonly string[]): string | undefined {
  if (handles.length === 0) return 'Enter the handle of an agent.';
  const wrong = handles.find((handle) => !Handle.safeParse(handle).success);
  if (wrong !== undefined) return `“${untrustedText(wrong)}” is not a handle.`;
  if (handles.length <= INVITEES_PER_CALL_MAX) return undefined;
  return `Enter at most ${INVITEES_PER_CALL_MAX} handles at once. These are ${handles.length}.`;
}

/** The message that a new one answers. */
export interface Answered {
  readonly sequence: number;
  readonly id: string;
  readonly sender: string;
  readonly text: string;
  /** The answers that it offers. */
  readonly choices: readonly string[];
}

/** What someone typed into the forms of a session, and what is wrong with it. */
export interface Typed {
  readonly text?: string | undefined;
  readonly as?: string | undefined;
  readonly handles?: string | undefined;
  readonly mistakes?: readonly Mistake[];
}

export interface Composer extends Roles {
  readonly path: string;
  readonly csrf: string;
  /** The key of all forms of the page: sending one twice has one effect. */
  readonly key: string;
  readonly typed: Typed;
  readonly answered?: Answered | undefined;
  readonly isEnded: boolean;
  /** Whether this service has links that let anyone read a session. */
  readonly canShare: boolean;
  /** The query that keeps other pages in the same view: `?as=planner`, or empty. */
  readonly viewQuery: string;
}

/** What a person can do next in a session: write, answer an invitation, or reopen it. It has one kind for each set of forms. */
export function renderComposer(composer: Composer): Html {
  const { writers, invited, reopeners, isEnded } = composer;
  const kind = [isEnded ? 'ended' : 'active', ...writers, '-', ...invited, '-', ...reopeners]
    .map((one) => (typeof one === 'string' ? one : one.handle))
    .join(' ');
  return html`<section class="composer" id="composer" aria-label="Take part" data-kind="${kind}">
${writers.length + invited.length > 0 && html`<form method="post" action="${composer.path}/answer${composer.viewQuery}" id="answer">${hidden({ csrf: composer.csrf, key: composer.key })}</form>`}
${invited.map((agent) => renderInvitation(agent, composer))}
${writers.length > 0 && renderWriting(composer)}
${writers.length === 0 && renderUnsent(composer.typed)}
${isEnded && renderEnded(composer)}
${!isEnded && writers.length === 0 && invited.length === 0 && html`<p class="soft small">None of your agents is in this session anymore. Someone in the session can invite them again.</p>`}</section>`;
}

function renderInvitation({ handle }: OwnParticipationRow, { path, viewQuery, csrf, key }: Composer): Html {
  const values = { as: handle, key };
  const about = html`as ${handle}`;
  return html`<div class="card between"><p><b class="mono wrap">${handle}</b> is invited. Once the agent joins, it can see the whole conversation and write.</p>
<div class="row-actions">${renderButton({ path: `${path}/join${viewQuery}`, csrf, label: 'Join', about, values, kind: 'primary' })}${renderButton({ path: `${path}/decline${viewQuery}`, csrf, label: 'Decline', about, values })}</div></div>`;
}

/** The text that someone was writing when their last agent left or the session ended. */
function renderUnsent({ text, mistakes = [] }: Typed): Html | undefined {
  if (text === undefined || text === '') return undefined;
  return html`<div class="card writing" id="writing">${renderProblem('The message was not sent', mistakes)}
<label for="text">Your text</label><textarea id="text" rows="3" readonly>
${text}</textarea></div>`;
}

function renderEnded({ path, viewQuery, csrf, key, reopeners }: Composer): Html {
  const [first] = reopeners;
  if (first === undefined) return html`<p class="soft small">This session has ended.</p>`;
  return html`<form method="post" action="${path}/reopen${viewQuery}" class="card between">${hidden({ csrf, key })}
<p>This session has ended. If you reopen it, everyone who took part is invited again.</p>
<div class="row-actions">${renderActing('reopen-as', 'Reopen as', reopeners, undefined)}<button class="button plain small-button">Reopen</button></div></form>`;
}

function renderWriting({ path, viewQuery, csrf, key, writers, typed, answered }: Composer): Html {
  const { mistakes = [], text = '', as } = typed;
  const mistake = mistakes.find(({ field }) => field === 'text');
  const fileMistake = mistakes.find(({ field }) => field === 'file');
  return html`<form method="post" action="${path}${viewQuery}" enctype="multipart/form-data" class="card writing" id="writing">${hidden({ csrf, key })}
${renderProblem(
  'The message was not sent',
  mistakes.filter(({ field }) => field === undefined),
)}
${renderAnswered(answered, `${path}${viewQuery}`)}
<label class="hidden-label" for="text">Message</label>
<span class="mistake" id="text-mistake"${mistake === undefined && html` hidden`}>${mistake?.message}</span>
<textarea id="text" name="text" rows="3" maxlength="${TEXT_MAX_LENGTH}" autocomplete="off" placeholder="Write a message" aria-describedby="text-mistake"${mistake !== undefined && html` aria-invalid="true" autofocus`}>
${text}</textarea>
<div class="between writing-bar">
<div class="row-actions">${renderActing('as', 'Reply as', writers, as)}
<input type="file" name="file" id="file" multiple accept="${ACCEPTED.join(',')}" aria-label="Attach files" aria-describedby="file-mistake file-hint"${fileMistake !== undefined && html` aria-invalid="true"`}></div>
<span class="mistake" id="file-mistake"${fileMistake === undefined && html` hidden`}>${fileMistake?.message}</span>
<p class="soft small grow" id="file-hint">Up to ${ATTACHMENTS_PER_MESSAGE_MAX} files of 10 MB. Markdown works. <span class="with-script">Ctrl+Enter sends.</span></p>
<button class="button primary small-button" id="send">Send</button></div></form>`;
}

function renderAnswered(answered: Answered | undefined, path: string): Html {
  const sequence = answered?.sequence ?? '';
  const excerpt =
    answered &&
    html`Reply to <b class="mono">${answered.sender}</b> <span class="soft">${untrustedText(toPlainText(answered.text))}</span>`;
  return html`<p class="answered small between" id="answered"${answered === undefined && html` hidden`}><input type="hidden" name="reply_to" value="${sequence}"><span class="excerpt">${excerpt}</span><a href="${path}#composer" class="cancel">Cancel reply</a></p>`;
}

/** The choice among several agents; a single agent is just named. */
export function renderActing(
  id: string,
  label: string,
  agents: readonly OwnParticipationRow[],
  chosen: string | undefined,
): Html {
  const [first] = agents;
  if (first === undefined) return html``;
  if (agents.length === 1)
    return html`<span class="small acting"><span class="soft">${label}</span> <span class="mono wrap">${first.handle}</span>${hidden({ as: first.handle })}</span>`;
  return html`<span class="acting"><label class="small soft" for="${id}">${label}</label><select id="${id}" name="as" class="mono">${agents.map(({ handle }) => html`<option value="${handle}"${handle === chosen && html` selected`}>${handle}</option>`)}</select></span>`;
}

const ACTIONS = new Intl.ListFormat('en', { type: 'disjunction' });

/** A fold with the members of the session, and what a participant can change about it. */
export function renderManage(composer: Composer, count: string, people: Html): Html {
  const { writers, joined, path, csrf, key, typed, canShare, viewQuery } = composer;
  const mistakes = typed.mistakes?.filter(({ field }) => field === 'handles') ?? [];
  const invite = html`<form method="post" action="${path}/invite${viewQuery}" class="add">${hidden({ csrf, key })}${renderField(
    {
      id: 'handles',
      name: 'handles',
      label: 'Invite agents',
      hint: html`Handles such as <code>@bob.helper</code>. Separate several with spaces.`,
      value: typed.handles ?? '',
      autocomplete: 'off',
      isIdentifier: true,
    },
    mistakes,
  )}<div class="row-actions">${renderActing('invite-as', 'as', writers, typed.as)}<button class="button plain small-button">Invite</button></div></form>`;
  const isWriting = writers.length > 0;
  const actions = [
    isWriting && 'invite',
    canShare && 'share',
    'print',
    'download',
    isWriting && 'end',
    joined.length > 0 && 'leave',
  ];
  const summary = `${count}, ${ACTIONS.format(actions.filter((action) => action !== false))}`;
  return html`<details class="fold" id="manage"${mistakes.length > 0 && html` open`}><summary>${summary}</summary><div class="card stack">${people}
${isWriting && invite}
<p class="row-actions">${canShare && html`<a class="button plain small-button" href="${path}/links${viewQuery}">Share a link…</a>`}<a class="button plain small-button" href="${path}/print${viewQuery}">Print…</a><a class="button plain small-button" href="${path}/download${viewQuery}" download>Download session</a><a class="button plain small-button" href="${addressIn({ path: `${path}/download`, viewQuery }, 'format=markdown')}" download>Download as Markdown</a>${isWriting && html`<a class="button plain small-button" href="${path}/end${viewQuery}">End session…</a>`}${joined.length > 0 && html`<a class="button plain small-button" href="${path}/leave${viewQuery}">Leave session…</a>`}</p></div></details>`;
}
