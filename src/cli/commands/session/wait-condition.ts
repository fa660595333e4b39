import { type EventEnvelope, isMessageEvent } from '../../../wire/event.js';
import type { Session } from '../../../wire/session.js';
import { UsageError } from '../../terminal/cli-error.js';
import { suggest } from '../../words/suggest.js';
import { readHandle } from '../../words/values.js';

const KINDS = ['joined', 'message', 'reply', 'ended', 'left'] as const;

/** What `session wait` waits for; `handle`: that this very agent joined or left. */
export interface WaitCondition {
  readonly kind: (typeof KINDS)[number];
  readonly handle: string | undefined;
}

/** `joined`, `joined:alice.bot`, `message`, `reply`, `ended`, `left`, `left:alice.bot`. */
export function readCondition(text: string): WaitCondition {
  const [word = '', handle, ...rest] = text.split(':');
  const kind = KINDS.find((one) => one === word);
  const takesHandle = kind === 'joined' || kind === 'left';
  if (kind !== undefined && rest.length === 0 && (handle === undefined || takesHandle))
    return { kind, handle: handle === undefined ? undefined : readHandle(handle) };
  const near = suggest(word, KINDS)[0];
  throw new UsageError(`--for '${text}' is nothing to wait for.`, {
    why:
      near === undefined || near === word
        ? 'it is joined, joined:<handle>, message, reply, ended, left or left:<handle>.'
        : `did you mean ${near}?`,
  });
}

/** Whether a session is that way already; messages are only waited for. */
export function isMetBySession({ kind, handle }: WaitCondition, session: Session, me: string): boolean {
  if (kind === 'ended') return session.state === 'ended';
  if (kind !== 'joined' && kind !== 'left') return false;
  const isMeant = (one: string): boolean => (handle === undefined ? one !== me : one === handle);
  return session.participants.some((participant) => participant.status === kind && isMeant(participant.handle));
}

export function isMetByEvent({ kind, handle }: WaitCondition, event: EventEnvelope, me: string): boolean {
  if (kind === 'message') return isMessageEvent(event);
  if (kind === 'reply') return isMessageEvent(event) && event.payload.sender !== me;
  if (event.type !== `session.${kind}`) return false;
  if (kind === 'ended') return true;
  const { agent } = event.payload;
  return handle === undefined ? agent !== me : agent === handle;
}
