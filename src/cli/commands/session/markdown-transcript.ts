import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import type { Session } from '../../../wire/session.js';
import { isoTime } from '../../terminal/relative-time.js';
import { sanitize, sanitizeLine } from '../../terminal/sanitize.js';
import { messageText } from '../message/message-text.js';
import { describeEvent } from './event-facts.js';
import { participantNames } from './session-view.js';

/** What Markdown takes for more than text, on one line. */
const plain = (text: string): string => sanitizeLine(text).replace(/[\\`*_{}[\]<>#|!~]/g, '\\$&');

export function markdownHead(session: Session): string {
  const title = session.topic === null ? session.id : plain(session.topic);
  return [
    `# ${title}`,
    '',
    `${session.id}, ${session.state}, begun ${isoTime(session.created_at)}`,
    '',
    `With ${plain(participantNames(session))}`,
    '',
  ].join('\n');
}

/** A message is a quotation: nothing in it can pass for a heading of ours. Everything else is a line. */
export function markdownEvent(event: EventEnvelope): string {
  const time = isoTime(event.created_at);
  if (!isMessageEvent(event)) return `*${plain(describeEvent(event))}, ${time}*\n`;
  const text = sanitize(messageText(event.payload.content));
  const quoted = text
    .split('\n')
    .map((line) => `> ${line}`)
    .join('\n');
  return `**${plain(event.payload.sender)}**, ${time}, ${event.sequence}\n\n${quoted}\n`;
}
