import { createReadStream, existsSync } from 'node:fs';
import { resolve } from 'node:path';

import { findIncoming, type Incoming } from '../../../agent/answer.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import { findInReplyTo } from '../../../wire/message.js';
import { EventEnvelope } from '../../../wire/schemas/event.js';
import { Message } from '../../../wire/schemas/message.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { fileFailure, linesOf } from '../../input.js';
import { readSessionName } from '../../values.js';
import { findSession } from '../session/find-session.js';
import { readSessionEvents } from '../session/session-events.js';

/** JSON escapes make a message longer. */
const LINE_MAX_BYTES = 8 * MESSAGE_BODY_MAX_BYTES;
/** An answer this many events after its message is still found. */
const LATE_EVENTS_MAX = 256;
const SESSIONS_MAX = 1_000;
const HANDLES_SHOWN = 5;

/** What happened, and who is replayed. */
export interface Recording {
  readonly me: string;
  readonly events: AsyncIterable<EventEnvelope>;
  readonly isFile: boolean;
}

/** A message for the agent, and what it answered. */
export interface Turn {
  readonly incoming: Incoming;
  readonly replies: readonly Message[];
}

/** A session of the acting agent, or a file. */
export async function openRecording(context: Context, name: string): Promise<Recording> {
  if (isFile(context, name)) {
    const me = context.globals.as ?? (await context.agent().catch(nothingChosen))?.handle;
    if (me === undefined)
      throw usageError('Nothing says whose replies are compared.', { why: 'name the agent with --as.' });
    return { me, events: readEvents(context, name), isFile: true };
  }
  const sessionId = await findSession(context, readSessionName(name));
  return { me: await context.actingHandle(), events: readSessionEvents(context, sessionId), isFile: false };
}

/** A handle without @ is a file if there is one. */
function isFile({ machine }: Context, name: string): boolean {
  if (name === '-') return true;
  if (/^(@|sess_|https?:)/i.test(name)) return false;
  return /[/\\]|\.jsonl?$/i.test(name) || existsSync(resolve(machine.workingDirectory, name));
}

/** A file needs no service. */
export function nothingChosen(error: unknown): undefined {
  if (!(error instanceof CliError)) throw error;
}

async function* readEvents({ streams, machine, signal }: Context, path: string): AsyncGenerator<EventEnvelope> {
  const file = path === '-' ? 'standard input' : path;
  const source: AsyncIterable<Uint8Array> =
    path === '-' ? streams.stdin.read(signal) : createReadStream(resolve(machine.workingDirectory, path));
  let number = 0;
  try {
    for await (const line of linesOf(source, LINE_MAX_BYTES)) {
      number += 1;
      if (line.trim() !== '') yield readEvent(line, `${file}:${number}`);
    }
  } catch (error) {
    if (error instanceof TypeError) throw usageError(`${file} is not UTF-8 text.`, { cause: error });
    throw fileFailure(path, error);
  }
}

function readEvent(line: string, where: string): EventEnvelope {
  const refuse = (field: string): CliError =>
    usageError(`${where}${field === '' ? '' : `: ${field}`} is not an event.`, {
      why: 'a recording has one event on each line, as JSON: asp session export, or asp tail.',
    });
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw refuse('');
  }
  const event = EventEnvelope.safeParse(value);
  if (!event.success) throw refuse(event.error.issues[0]?.path.join('.') ?? '');
  const message = isMessageEvent(event.data) ? Message.safeParse(event.data.payload) : undefined;
  if (message?.success === false) throw refuse(['payload', ...(message.error.issues[0]?.path ?? [])].join('.'));
  return event.data;
}

/** The state of a session up to the event that is being read. */
interface Place {
  /** Undefined: the agent created the session, or its invitation is still to come. */
  isIn: boolean | undefined;
  latest: Waiting | undefined;
}

interface Waiting {
  readonly incoming: Incoming;
  readonly replies: Message[];
  /** The number of its event. */
  readonly at: number;
}

/** The messages that the agent got, in order, each with its answers; `isWanted` decides by the sender. */
export async function* listTurns(
  { me, events, isFile: isChosen }: Recording,
  isWanted: (handle: string) => boolean,
): AsyncGenerator<Turn> {
  const places = new Map<string, Place>();
  const seen = new Set<string>();
  let waiting: Waiting[] = [];
  let isThere = !isChosen;
  let count = 0;
  const requirePresence = (): void => {
    if (isThere) return;
    const handles = [...seen].slice(0, HANDLES_SHOWN).join(', ');
    throw usageError(`${me} takes no part in this recording.`, {
      why: handles === '' ? 'it is empty.' : `it has ${handles}: name one with --as.`,
    });
  };
  for await (const event of events) {
    count += 1;
    const { session_id: id, type, payload } = event;
    const place: Place = places.get(id) ?? { isIn: undefined, latest: undefined };
    places.set(id, place);
    const [oldest] = places.keys();
    if (places.size > SESSIONS_MAX && oldest !== undefined) places.delete(oldest);
    const actor = findActor(event);
    if (actor !== undefined && seen.size < HANDLES_SHOWN) seen.add(actor);
    const isInvited = type === 'session.invited' && payload['invitee'] === me;
    if (isInvited || actor === me) isThere = true;
    if (isInvited && place.isIn === undefined) waiting = waiting.filter((one) => one.incoming.session_id !== id);
    if (isInvited || actor === me) place.isIn = type !== 'session.left';
    if (isMessageEvent(event) && actor === me) {
      const named = findInReplyTo(event.payload);
      const isAnswered = (one: Waiting): boolean =>
        named === undefined ? one === place.latest : one.incoming.payload.id === named;
      waiting.find(isAnswered)?.replies.push(event.payload);
    }
    const incoming = place.isIn === false ? undefined : findIncoming(event, me);
    const isNew = !waiting.some((one) => one.incoming.payload.id === incoming?.payload.id);
    if (incoming !== undefined && isNew) {
      // An answer to a message that is not wanted belongs to no other one.
      place.latest = isWanted(incoming.payload.sender) ? { incoming, replies: [], at: count } : undefined;
      if (place.latest !== undefined) waiting.push(place.latest);
    }
    while (waiting[0] !== undefined && count - waiting[0].at > LATE_EVENTS_MAX) {
      requirePresence();
      yield waiting[0];
      waiting = waiting.slice(1);
    }
  }
  requirePresence();
  yield* waiting;
}
