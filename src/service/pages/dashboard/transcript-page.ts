import type { Session } from '../../../wire/session.js';
import { type Html, html, strangersWords } from '../html.js';
import type { Entry } from './entry.js';
import type { View } from './frame.js';
import { renderTrail } from './parts.js';
import { renderState, renderTopic } from './sessions-page.js';
import { dayOf, renderDay, renderTime } from './time.js';
import { TRANSCRIPT_SCRIPT } from './transcript-script.js';

const STATUS_WORD = { joined: '', invited: 'invited', left: 'left' } as const;

/** An agent of the account that looks at the page. */
export interface OwnAgent {
  readonly handle: string;
  /** Its page, if it still has one. */
  readonly path: string | undefined;
}

export interface TranscriptPage {
  readonly session: Session;
  readonly ownAgents: readonly OwnAgent[];
  readonly username: string;
  readonly path: string;
  /** The newest last. */
  readonly entries: readonly Entry[];
  readonly hasEarlier: boolean;
  readonly pageSize: number;
  readonly isNewest: boolean;
  readonly now: number;
}

export function renderTranscript(transcript: TranscriptPage): View {
  const { session, path, entries, isNewest } = transcript;
  const last = entries.at(-1);
  const live = html` data-live="${path}/live" data-after="${last?.sequence ?? 0}"`;
  const main = html`<div class="stack transcript">${renderTrail('Sessions', '/dashboard/sessions')}
${isNewest && html`<noscript><a href="#end">Go to the newest message</a></noscript>`}<div id="head">${renderSessionHead(session, transcript, transcript.now)}</div>
<section class="log" id="log" role="log" aria-label="Transcript"${isNewest && live}>
${renderEarlier(transcript)}
${renderEntries(entries)}
${entries.length === 0 && html`<p class="soft" id="nothing">No messages visible to your agents yet.</p>`}
</section>
<p id="end"></p>
${isNewest ? renderLiveState(path) : renderLater(transcript)}</div>`;
  const title = strangersWords(session.topic ?? session.participants.map(({ handle }) => handle).join(', '));
  return { title, section: 'sessions', main, ...(isNewest && { script: TRANSCRIPT_SCRIPT }) };
}

/** What of a session changes while it is looked at. */
export function renderSessionHead(
  session: Session,
  { ownAgents, username }: Pick<TranscriptPage, 'ownAgents' | 'username'>,
  now: number,
): Html {
  const renderHandle = (handle: string): Html => {
    const own = ownAgents.find((agent) => agent.handle === handle);
    if (own === undefined) return html`<span class="mono">${handle}</span>`;
    const name = own.path === undefined ? handle : html`<a href="${own.path}">${handle}</a>`;
    return html`<span class="mono">${name}</span> <span class="soft">yours</span>`;
  };
  return html`<div class="session-head"><div class="between"><h1>${renderTopic(session)}</h1>${renderState(session, username)}</div>
<ul class="people" aria-label="Participants">${session.participants.map(
    ({ handle, status }) =>
      html`<li class="${status === 'left' ? 'gone' : status === 'invited' ? 'asked' : 'in'}">${renderHandle(handle)}${STATUS_WORD[status] !== '' && html` <span class="soft">${STATUS_WORD[status]}</span>`}</li>`,
  )}</ul>
<p class="soft small">Began ${renderTime(session.created_at, now)}${session.ended_at !== null && html`, ended ${renderTime(session.ended_at, now)}`} · <span class="mono take-id">${session.id}</span></p></div>`;
}

/** Each day begins with its name. */
function renderEntries(entries: readonly Entry[]): Html {
  const items = entries.map(({ createdAt, item }, index) => {
    const before = entries[index - 1];
    const isNewDay = before === undefined || dayOf(before.createdAt) !== dayOf(createdAt);
    return html`${isNewDay && html`<li class="day"><span>${renderDay(createdAt)}</span></li>`}${item}`;
  });
  return html`<ol class="entries">${items}</ol>`;
}

function renderEarlier({ entries, hasEarlier, path }: TranscriptPage): Html {
  const [first] = entries;
  const isThere = hasEarlier && first !== undefined;
  const before = first?.sequence ?? 0;
  return html`<p class="earlier" id="earlier" data-path="${path}"${!isThere && html` hidden`}><a class="button plain small-button" href="${path}?before=${before}#end">Earlier</a></p>`;
}

function renderLater({ entries, path, pageSize }: TranscriptPage): Html {
  const last = entries.at(-1);
  const later = last === undefined ? 0 : last.sequence + pageSize + 1;
  return html`<nav class="pager" aria-label="Pages">${last !== undefined && html`<a class="button plain" href="${path}?before=${later}">Later</a>`}<a class="button plain" href="${path}">Newest</a></nav>`;
}

/** Without the script this says how to see what is new; the script chooses which of the others holds. */
function renderLiveState(path: string): Html {
  return html`<div class="live-bar"><a class="button primary jump" id="jump" href="#end" hidden></a>
<p class="live" id="live" role="status"><span class="still"><a href="${path}">Reload for new messages</a></span>
<span class="on">Live</span><span class="slow">Updates every few seconds</span><span class="off">Connecting…</span>
<span class="signed-out">Updates stopped because you are signed out. <a href="${path}">Sign in</a></span>
<span class="gone">Updates stopped because this session is no longer available.</span></p></div>`;
}

/** One event with all of its text. */
export function renderWholeEvent(session: Session, path: string, entry: Entry): View {
  const main = html`<div class="stack transcript">${renderTrail('Transcript', path)}
<h1>${renderTopic(session)}</h1>
${renderEntries([entry])}</div>`;
  return { title: 'One message', section: 'sessions', main };
}
