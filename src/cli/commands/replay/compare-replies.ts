import { createReadStream, existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { findIncoming, type Incoming, type Produced, type Responder } from '../../../agent/answer.js';
import { createRelations, type FindRelation } from '../../../agent/relation.js';
import { putLast } from '../../../kit/bounded-map.js';
import { parseIfJson } from '../../../kit/parse-json.js';
import { bounded, toPattern } from '../../../kit/pattern.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import { findInReplyTo, isFailureNotice, textOfMessage } from '../../../wire/message.js';
import { EventEnvelope } from '../../../wire/schemas/event.js';
import { Message } from '../../../wire/schemas/message.js';
import type { Context } from '../../context/context.js';
import { CliError, usageError } from '../../errors.js';
import { fileFailure, linesOf } from '../../input.js';
import { formatDiff } from '../../terminal/diff.js';
import { shorten } from '../../terminal/output.js';
import type { Style } from '../../terminal/style.js';
import { durationText, readSessionName } from '../../values.js';
import { partTypeOf } from '../attachment/transfer.js';
import { messageText } from '../message/message-text.js';
import { startCommandGuard } from '../run/command-guard.js';
import { type JsonSources, keepLast, readFile } from '../run/reply-json.js';
import { startResponder } from '../run/run-agent.js';
import { agentEnvironment } from '../run/run-command.js';
import type { OutputOf } from '../schema/output-shapes.js';
import { findSession } from '../session/find-session.js';
import { readSessionEvents } from '../session/session-events.js';
import type { ReplayOptions } from './replay.js';

const SHOWN_WIDTH = 60;

/** Whether the command answers a message as it was answered. */
type Comparison = OutputOf<'replay'>;
/** What an agent answered to a message. */
type Answer = Comparison['recorded'];

/** Only the service knows how a sender is related to the agent. */
async function findRelations(context: Context, { me, isFile }: Recording): Promise<FindRelation> {
  if (isFile) return async () => 'anyone';
  return createRelations({ context, client: await context.client(), me, signal: context.signal });
}

/** Runs the command for each recorded message, prints how its answers differ, and sends nothing. */
export async function compareReplies(context: Context, options: ReplayOptions): Promise<void> {
  const { clock, output, signal } = context;
  const patterns = options.ignored.map(readPattern);
  const recording = await openRecording(context, options.recording);
  const { me } = recording;
  const { from, rules } = options;
  const isWanted = (handle: string): boolean => from === 'anyone' || from.length === 0 || from.includes(handle);
  const environment = (await agentEnvironment(context, me).catch(nothingChosen)) ?? { ASP_AGENT: me };
  const guard = startCommandGuard(context);
  const counts = { same: 0, different: 0 };
  let responder: Responder | undefined;
  try {
    const findRelation = await findRelations(context, recording);
    let earlier: readonly Message[] = [];
    const sources: JsonSources = {
      findRelation,
      attach: async (_event, path) => {
        const file = await readFile(context, path);
        return { type: partTypeOf(file), name: file.filename, mime_type: file.contentType };
      },
      readRecent: async () => earlier,
    };
    responder = await startResponder({
      ...{ context, me, rules, guard, signal, findRelation, sources, progressPath: undefined },
      environment: { ...environment, ASP_REPLAY: '1' },
    });
    const { respond } = responder;
    for await (const turn of listTurns(recording, isWanted, rules.protocol === 'acp' ? 0 : rules.recent)) {
      const beganAt = clock.monotonic();
      earlier = turn.earlier;
      let times = 0;
      const begin = async (): Promise<number> => ++times;
      const produced = await respond(turn.incoming, signal, { begin, onTaken: () => {} }).catch((error: unknown) => {
        throw signal.aborted ? cutShort(context, turn, counts.same + counts.different) : error;
      });
      const durationMs = Math.round(clock.monotonic() - beganAt);
      const comparison = compare(turn, produced, patterns, durationMs);
      counts[comparison.outcome] += 1;
      await output.document(comparison, describe);
    }
  } finally {
    await responder?.close();
    guard.close();
  }
  const total = counts.same + counts.different;
  if (total === 0) throw usageError(`There is no message for ${me} in this recording.`);
  if (counts.different > 0)
    throw new CliError('ASP_NOT_AS_EXPECTED', {
      message: `${counts.different} of ${total} replies ${counts.different === 1 ? 'differs' : 'differ'} from the recording.`,
    });
  await output.note(`${total === 1 ? 'The reply is' : `All ${total} replies are`} the same. Nothing was sent.`);
}

/** The deadline passed while the command had a message. After a signal from outside, no one reads it. */
function cutShort({ deadline }: Context, { incoming: { payload } }: Turn, compared: number): CliError {
  const { sequence, sender } = payload;
  const given =
    deadline === undefined ? '' : `--timeout or ASP_TIMEOUT set a deadline of ${durationText(deadline.afterMs)}; `;
  return new CliError('ASP_TIMEOUT', {
    message: `The deadline passed before message ${sequence} was answered (${sender}: ${shownText(payload)}).`,
    why: `${given}${compared === 1 ? '1 reply was' : `${compared} replies were`} compared before it.`,
    isRetryable: true,
  });
}

/** The beginning of a message. */
const shownText = (message: Pick<Message, 'content'>): string =>
  shorten(sanitizeLine(textOfMessage(message)), SHOWN_WIDTH);

function readPattern(source: string): RegExp {
  const pattern = source === '' ? undefined : toPattern(source, 'g');
  if (pattern === undefined) throw usageError(`--ignore '${source}' is not a regular expression.`);
  return pattern;
}

function compare(
  { incoming, replies }: Turn,
  produced: Produced,
  patterns: readonly RegExp[],
  durationMs: number,
): Comparison {
  const recorded = recordedAnswer(replies);
  const replayed = producedAnswer(produced);
  const isSame =
    recorded.outcome === replayed.outcome &&
    (recorded.outcome === 'failed' ||
      isDeepStrictEqual(comparable(recorded, patterns), comparable(replayed, patterns)));
  const { session_id, event_id, payload } = incoming;
  const { id: message_id, sequence, sender: from, content } = payload;
  return {
    ...{ session_id, event_id, message_id, sequence, from, content },
    outcome: isSame ? 'same' : 'different',
    ...{ recorded, replayed, exit_code: produced.exitCode, tries: produced.tries, duration_ms: durationMs },
  };
}

function recordedAnswer(replies: readonly Message[]): Answer {
  const messages = replies.map(({ content }) => content);
  const outcome = replies.some(isFailureNotice) ? 'failed' : messages.length > 0 ? 'replied' : 'silent';
  return { outcome, messages, why: null };
}

function producedAnswer(produced: Produced): Answer {
  if (produced.kind === 'failed') return { outcome: 'failed', messages: [], why: produced.why };
  const messages = produced.text === '' ? [] : [produced.content ?? produced.text];
  return { outcome: messages.length > 0 ? 'replied' : 'silent', messages, why: null };
}

/**
 * Text without the spaces around it and without what is ignored; a single text part is its text. A named file is its
 * name and type: nothing is uploaded in a replay, so it has no id.
 */
function comparable({ messages }: Answer, patterns: readonly RegExp[]): unknown {
  const plain = (text: string): string =>
    patterns.reduce((left, pattern) => bounded(() => left.replace(pattern, '')) ?? left, text).trim();
  return messages.map((content) => {
    const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content;
    return parts.map((part) => {
      if (part.type === 'text' && typeof part['text'] === 'string') return { ...part, text: plain(part['text']) };
      if (part['name'] === undefined) return part;
      return { type: part.type, name: part['name'], mime_type: part['mime_type'], url: part['url'] };
    });
  });
}

function describe({ sequence, from, content, outcome, recorded, replayed }: Comparison, style: Style): string {
  const verdict = outcome === 'same' ? style.green('same     ') : style.red('different');
  const head = `${verdict}  ${sequence}  ${style.cyan(from)}: ${shownText({ content })}`;
  if (outcome === 'same') return head;
  const diff = formatDiff(shownAnswer(recorded), shownAnswer(replayed));
  // The same words in parts of other types.
  const exact = diff === '' ? formatDiff(JSON.stringify(recorded.messages), JSON.stringify(replayed.messages)) : diff;
  const lines = exact.split('\n').map((line) => `    ${line.startsWith('-') ? style.red(line) : style.green(line)}`);
  return [head, ...lines].join('\n');
}

function shownAnswer({ outcome, messages, why }: Answer): string {
  if (outcome === 'silent') return '(no reply)';
  if (outcome === 'failed') return `(failed${why === null ? '' : `: ${why}`})`;
  return messages.map((content) => messageText({ content })).join('\n\n');
}

/** JSON escapes make a message longer. */
const LINE_MAX_BYTES = 8 * MESSAGE_BODY_MAX_BYTES;
/** An answer this many events after its message is still found. */
const LATE_EVENTS_MAX = 256;
const SESSIONS_MAX = 1_000;
const HANDLES_SHOWN = 5;

/** What happened, and who is replayed. */
interface Recording {
  readonly me: string;
  readonly events: AsyncIterable<EventEnvelope>;
  readonly isFile: boolean;
}

/** A message for the agent, and what it answered. */
interface Turn {
  readonly incoming: Incoming;
  readonly replies: readonly Message[];
  /** The messages before it in its session, as many as the command gets. */
  readonly earlier: readonly Message[];
}

/** A session of the acting agent, or a file. */
async function openRecording(context: Context, name: string): Promise<Recording> {
  if (isFile(context, name)) {
    const me = context.globals.as ?? (await context.agent().catch(nothingChosen))?.handle;
    if (me === undefined) throw usageError('Whose replies should be compared?', { why: 'name the agent with --as.' });
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
function nothingChosen(error: unknown): undefined {
  if (!(error instanceof CliError)) throw error;
}

async function* readEvents({ streams, machine, signal }: Context, path: string): AsyncGenerator<EventEnvelope> {
  const file = path === '-' ? 'standard input' : path;
  const source: AsyncIterable<Uint8Array> =
    path === '-' ? streams.stdin.read(signal) : createReadStream(resolve(machine.workingDirectory, path));
  let number = 0;
  const last = new Map<string, number>();
  try {
    for await (const line of linesOf(source, file, LINE_MAX_BYTES)) {
      number += 1;
      if (line.trim() === '') continue;
      const event = readEvent(line, `${file}:${number}`);
      const { session_id: id, sequence } = event;
      const before = last.get(id) ?? sequence;
      // Sorting would need all of it in memory, and what is read from asp tail may have no end.
      if (sequence < before)
        throw usageError(`${file}:${number} is not in order: event ${sequence} of ${id} comes after event ${before}.`, {
          why: 'a recording has the events of each session by sequence, as asp session export and asp tail print them.',
        });
      putLast(last, id, sequence, SESSIONS_MAX);
      yield event;
    }
  } catch (error) {
    throw fileFailure(path, error);
  }
}

function readEvent(line: string, where: string): EventEnvelope {
  const refuse = (field: string): CliError =>
    usageError(`${where} is not an event${field === '' ? '' : `: ${field} is missing or not valid`}.`, {
      why: 'a recording has one event on each line, as JSON: asp session export, or asp tail.',
    });
  const event = EventEnvelope.safeParse(parseIfJson(line));
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
  recent: readonly Message[];
}

interface Waiting {
  readonly incoming: Incoming;
  readonly earlier: readonly Message[];
  readonly replies: Message[];
  /** The number of its event. */
  readonly at: number;
}

/** The messages that the agent got, in order, each with its answers; `isWanted` decides by the sender. */
async function* listTurns(
  { me, events, isFile: isChosen }: Recording,
  isWanted: (handle: string) => boolean,
  recentMax: number,
): AsyncGenerator<Turn> {
  const places = new Map<string, Place>();
  const seen = new Set<string>();
  let waiting: Waiting[] = [];
  let isThere = !isChosen;
  let count = 0;
  const requirePresence = (): void => {
    if (isThere) return;
    const handles = [...seen].slice(0, HANDLES_SHOWN).join(', ');
    if (handles === '') throw usageError('This recording has no messages.');
    throw usageError(`${me} is not in this recording.`, { why: `it has ${handles}: name one with --as.` });
  };
  for await (const event of events) {
    count += 1;
    const { session_id: id, type, payload } = event;
    const place: Place = places.get(id) ?? { isIn: undefined, latest: undefined, recent: [] };
    putLast(places, id, place, SESSIONS_MAX);
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
      place.latest = isWanted(incoming.payload.sender)
        ? { incoming, earlier: place.recent, replies: [], at: count }
        : undefined;
      if (place.latest !== undefined) waiting.push(place.latest);
    }
    if (recentMax > 0 && isMessageEvent(event)) place.recent = keepLast([...place.recent, event.payload], recentMax);
    while (waiting[0] !== undefined && count - waiting[0].at > LATE_EVENTS_MAX) {
      requirePresence();
      yield waiting[0];
      waiting = waiting.slice(1);
    }
  }
  requirePresence();
  yield* waiting;
}
