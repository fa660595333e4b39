import type { Session } from '../../../wire/session.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';
import type { Style } from '../../terminal/style.js';

export function participantNames({ participants }: Session): string {
  return participants.map(({ handle, status }) => (status === 'joined' ? handle : `${handle} (${status})`)).join(', ');
}

/** A session for people; its values are safe already. */
export function sessionText(session: Session, style: Style, nowMs: number): string {
  const { id, state, topic, participants, created_at: createdAt, ended_at: endedAt } = session;
  const width = Math.max(...participants.map(({ handle }) => handle.length), 0);
  const time = (at: number): string => `${relativeTime(at, nowMs)} ${style.dim(`(${isoTime(at)})`)}`;
  const paint = { joined: style.green, invited: style.yellow, left: style.dim };
  return [
    `${style.bold(id)}  ${state === 'active' ? style.green(state) : style.dim(state)}`,
    ...(topic === null ? [] : [`topic    ${topic.replace(/\s+/g, ' ')}`]),
    `created  ${time(createdAt)}`,
    ...(endedAt === null ? [] : [`ended    ${time(endedAt)}`]),
    '',
    ...participants.map(({ handle, status }) => `  ${handle.padEnd(width)}  ${paint[status](status)}`),
  ].join('\n');
}
