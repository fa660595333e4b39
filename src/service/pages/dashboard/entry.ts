import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import type { Message } from '../../../wire/message.js';
import { renderFace } from '../face.js';
import { type Html, html } from '../html.js';
import { renderMetadata, renderParts } from './message-parts.js';
import { renderClock } from './time.js';

/** Where an entry stands, and who looks at it. */
export interface EntryPlace {
  /** Of the session's page. */
  readonly path: string;
  readonly username: string;
  /** Up to this event the reader sees messages as events of their own; beyond, the first one inside an invitation. */
  readonly through: number;
  /** All of a long text; else its beginning, and the way to the rest. */
  readonly isWhole?: boolean;
}

/** One event of a session, as an item of its list. */
export interface Entry {
  readonly sequence: number;
  readonly createdAt: number;
  readonly item: Html;
}

/** It says by itself what a reader needs, since it may come alone. */
export function renderEntry(event: EventEnvelope, place: EntryPlace): Entry {
  const { sequence, created_at: createdAt } = event;
  const item = isMessageEvent(event) ? renderSaid(event, event.payload, place) : renderHappening(event, place);
  return { sequence, createdAt, item };
}

function renderSaid(event: EventEnvelope, message: Message, place: EntryPlace): Html {
  const isOwn = message.sender.startsWith(`@${place.username}.`);
  return renderItem(
    event,
    `said${isOwn ? ' own' : ''}`,
    html`${renderFace(message.sender.slice(1), 'small')}<div class="saying"><p class="by"><b class="mono">${message.sender}</b> ${renderMoment(event, place)}</p>${renderBubble(event, message, place)}</div>`,
  );
}

function renderBubble({ sequence }: EventEnvelope, { content, metadata }: Message, place: EntryPlace): Html {
  const { path, isWhole = false } = place;
  const parts = { path, sequence, isWhole };
  return html`<div class="bubble">${renderParts(content, parts)}${metadata !== undefined && renderMetadata(metadata, parts)}</div>`;
}

function renderHappening(event: EventEnvelope, place: EntryPlace): Html {
  const { initial_message: first } = event.payload as { initial_message?: Message };
  const message = first !== undefined && event.sequence > place.through && renderBubble(event, first, place);
  return renderItem(
    event,
    'happening',
    html`<div class="saying"><p class="by"><span>${describe(event)}</span> ${renderMoment(event, place)}</p>${message}</div>`,
  );
}

function renderItem({ sequence }: EventEnvelope, kind: string, body: Html): Html {
  return html`<li class="entry ${kind}" id="e${sequence}" data-sequence="${sequence}">${body}</li>`;
}

/** The time of an event leads to its address, which stays right however much is said after it. */
function renderMoment({ sequence, created_at: at }: EventEnvelope, { path }: EntryPlace): Html {
  return html`<a class="at" href="${path}?around=${sequence}#e${sequence}">${renderClock(at)}</a>`;
}

/** What happened, as a sentence. */
function describe({ type, payload }: EventEnvelope): Html {
  const who = (name: string): Html => html`<b class="mono">${String(payload[name] ?? 'somebody')}</b>`;
  switch (type) {
    case 'session.invited':
      return html`${who('by')} invited ${who('invitee')}`;
    case 'session.joined':
      return html`${who('agent')} joined`;
    case 'session.left':
      return payload['reason'] === 'grace_expired'
        ? html`${who('agent')} left after being offline too long`
        : html`${who('agent')} left`;
    case 'session.ended':
      return html`${who('ended_by')} ended the session`;
    case 'session.reopened':
      return html`${who('reopened_by')} reopened the session`;
    case 'session.disconnected':
      return html`${who('agent')} lost its connection`;
    case 'session.reconnected':
      return html`${who('agent')} is connected again`;
    default:
      return html`<span class="mono">${type}</span>`;
  }
}
