import { findInvitation, isInvitationFor, isInvited } from '../../../agent/invitation.js';
import { noConnection, persist, trySettling, waitForService } from '../../../agent/persist.js';
import { createTakenReports, type TakenReports } from '../../../agent/taken-reports.js';
import { RequestError } from '../../../client/http/request-error.js';
import type { TailOptions as Following, TailItem, TailStart } from '../../../client/realtime/resume.js';
import { orAborted } from '../../../kit/clock.js';
import { formatQuantity } from '../../../kit/format.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { LIST_LIMIT_MAX } from '../../../wire/limit.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Session } from '../../../wire/schemas/session.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { CliError } from '../../errors.js';
import { openReadyFile, type ReadyFile, readyText } from '../../ready-file.js';
import { isReaderGone, readerGone } from '../../terminal/streams.js';
import type { AgentLines } from './agent-lines.js';
import { type ConsumeEvent, createCommandRunner, createForwarder, createPrinter, type Printer } from './consume.js';
import { type CursorFile, openCursorFile } from './cursor-file.js';
import type { EventOptions } from './tail.js';

/** Joins a session; the session may have ended in the meantime, which is not an error. */
async function join(context: Context, sessionId: string): Promise<void> {
  const client = await context.client();
  try {
    await client.call('joinSession', { path: { session_id: sessionId }, signal: context.signal });
    await context.output.detail(`joined ${sessionId}`);
  } catch (error) {
    if (!(error instanceof RequestError) || error.code !== 'NOT_FOUND') throw error;
    await context.output.detail(`could no longer join ${sessionId}`);
  }
}

/** The same in a tail. It waits for a service that is down, and a session that refuses it does not end the tail. */
async function joinIfPossible(context: Context, sessionId: string): Promise<void> {
  const joined = await persist(context, context.signal, () => join(context, sessionId));
  if (joined.kind === 'refused') await noteNotJoined(context, sessionId, joined.error);
}

/** The same in a tail that does not wait for the service. */
async function joinNow(context: Context, sessionId: string): Promise<void> {
  const joined = await trySettling(() => join(context, sessionId));
  if (joined.kind === 'refused') await noteNotJoined(context, sessionId, joined.error);
}

const noteNotJoined = ({ output }: Context, sessionId: string, { message }: RequestError): Promise<void> =>
  output.note(`Could not join ${sessionId}: ${message}`);

/** Accepts existing invitations: to these sessions, or to all. */
export async function joinWaiting(
  context: Context,
  sessionIds: readonly string[],
  me: string,
  admits: (session: Session) => Promise<boolean> = async () => true,
  enter: typeof join = join,
): Promise<void> {
  const joinInvited = async (session: Session): Promise<void> => {
    if (isInvited(session, me) && (await admits(session))) await enter(context, session.id);
  };
  for (const sessionId of sessionIds)
    await joinInvited(await read(context, 'getSession', { path: { session_id: sessionId } }, { subject: sessionId }));
  if (sessionIds.length > 0) return;
  const client = await context.client();
  const query = { state: 'active', limit: LIST_LIMIT_MAX } as const;
  for await (const { sessions } of client.pages('listSessions', { query, signal: context.signal }))
    for (const session of sessions) await joinInvited(session);
}

/** `session events` has none of the options that only a tail takes. */
export interface FollowOptions extends EventOptions {
  readonly isFollowing: boolean;
  readonly idleMs?: number | undefined;
  readonly isKept?: boolean;
  readonly hasControl?: boolean;
  readonly heartbeatMs?: number | undefined;
  readonly readyFile?: string | undefined;
  readonly joins?: boolean;
  /** For a coding agent: no line at the start if nothing is unread. */
  readonly isQuiet?: boolean;
}

const LAST_DEFAULT = 10;
const READER_CHECK_MS = 500;

interface Filter {
  readonly types: readonly string[];
  readonly from: readonly string[];
  /** Leaves out this agent's own events. */
  readonly notBy: string | undefined;
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
  readonly isMessageOnly: boolean;
  /** Only messages, and invitations of this agent. */
  readonly invitee: string | undefined;
}

function isWanted(event: EventEnvelope, filter: Filter): boolean {
  const { types, from, notBy, sinceMs, untilMs, isMessageOnly, invitee } = filter;
  if (isMessageOnly && event.type !== 'session.message') return false;
  if (invitee !== undefined && !isMessageEvent(event) && isInvitationFor(event, invitee) === false) return false;
  if (types.length > 0 && !types.includes(event.type)) return false;
  if (sinceMs !== undefined && event.created_at < sinceMs) return false;
  if (untilMs !== undefined && event.created_at > untilMs) return false;
  if (from.length === 0 && notBy === undefined) return true;
  const actor = findActor(event);
  if (from.length > 0 && (actor === undefined || !from.includes(actor))) return false;
  return notBy === undefined || actor !== notBy;
}

type EventItem = Extract<TailItem, { kind: 'event' }>;

/** The last N wanted events of each session, while its history is read. */
class Recent {
  readonly #count: number;
  readonly #kept = new Map<string, EventItem[]>();
  readonly #passed = new Map<string, EventItem>();

  constructor(count: number) {
    this.#count = count;
  }

  add(item: EventItem): void {
    const { session_id: sessionId } = item.event;
    const items = this.#kept.get(sessionId) ?? [];
    items.push(item);
    if (items.length > this.#count) items.shift();
    this.#kept.set(sessionId, items);
  }

  /** An event that is not wanted. The cursor moves past it once the kept ones are out. */
  pass(item: EventItem): void {
    this.#passed.set(item.event.session_id, item);
  }

  /** The buffered events, session by session, and the last unwanted one of each; then empties the buffer. */
  drain(): { readonly kept: readonly EventItem[]; readonly passed: readonly EventItem[] } {
    const drained = { kept: [...this.#kept.values()].flat(), passed: [...this.#passed.values()] };
    this.#kept.clear();
    this.#passed.clear();
    return drained;
  }
}

/** Why a tail stopped before its sessions did. */
type Stop = 'count' | 'idle' | 'until' | 'timeout' | 'reader';

/** A running tail. */
interface Tail {
  readonly context: Context;
  /** Its signal also aborts when the tail stops by its own rules. */
  readonly waiting: Context;
  /** Its signal also aborts at the deadline. */
  readonly inTime: Context;
  readonly options: FollowOptions;
  /** Whether it waits for a service that is down. */
  readonly waits: boolean;
  readonly filter: Filter;
  readonly printer: Printer;
  /** With --exec and --forward, in place of `printer`. */
  readonly consume: ConsumeEvent | undefined;
  /** With --for-agent, in place of `printer`: its lines wait for one another. */
  readonly lines: AgentLines | undefined;
  readonly cursorFile: CursorFile | undefined;
  readonly readyFile: ReadyFile;
  readonly reports: TakenReports;
  /** The last events of each session while its history is read, if they are filtered. */
  readonly recent: Recent | undefined;
  readonly me: string | undefined;
  readonly stop: (reason: Stop) => void;
  readonly noteActivity: () => void;
  /** Whether the idle time counts from now on. */
  readonly listen: (isTrue: boolean) => void;
  readonly ended: Set<string>;
  printed: number;
  isReady: boolean;
  /** A watching person was notified that there is no connection. */
  isOutageReported: boolean;
}

/** How a tail ended. */
interface End {
  readonly stopped: Stop | undefined;
  readonly printed: number;
}

/** Follows sessions and prints their events; ends by the rules of `asp tail`. */
export async function followSessions(context: Context, options: FollowOptions): Promise<void> {
  const { signal } = context;
  const end = await followToEnd(context, options).catch(async (error: unknown) => {
    const hasReaderLeft = isReaderGone(error) || isReaderGone(signal.reason);
    if (!signal.aborted && !hasReaderLeft) await tellEnd(context, options, { reason: 'error', code: getCode(error) });
    else if (!hasReaderLeft) await tellEnd(context, options, { reason: 'signal' });
    throw error;
  });
  if (end.stopped === 'reader') throw readerGone();
  const reason = signal.aborted ? 'signal' : end.stopped;
  if (reason !== undefined) await tellEnd(context, options, { reason });
  refuseIfTooFew(options, end);
}

async function followToEnd(context: Context, options: FollowOptions): Promise<End> {
  const [halt, late] = [new AbortController(), new AbortController()];
  let stopped: Stop | undefined;
  const stop = (reason: Stop): void => {
    stopped ??= reason;
    halt.abort(new Error(reason));
    if (reason === 'timeout') late.abort(halt.signal.reason);
  };
  const timers = startTimers(context, options, stop);
  const signal = AbortSignal.any([context.signal, halt.signal]);
  const waiting = { ...context, signal };
  const inTime = { ...context, signal: AbortSignal.any([context.signal, late.signal]) };
  const { isFollowing, view } = options;
  // As the connection does: with a deadline, a request is only repeated a few times.
  const waits = view === 'agent' || (isFollowing && context.globals.timeoutMs === undefined);
  let begun: Tail | undefined;
  let readyFile: ReadyFile | undefined;
  try {
    const { noteActivity, listen } = timers;
    // First: what follows may wait for the service, and must not do so while the file of a killed process is still there.
    readyFile = await openReadyFile(options.readyFile);
    const tail = await beginTail({ context, waiting, inTime, options, waits, readyFile, stop, noteActivity, listen });
    begun = tail;
    const client = await context.client();
    const follow = async (): Promise<void> => {
      const handle = await orAborted(ownHandle(context, options), signal);
      for await (const item of client.tail({ ...following(options, tail.cursorFile), handle, signal })) {
        const taking = takeItem(tail, item);
        if (taking !== undefined) await taking;
        if (stopped !== undefined || isOver(tail)) break;
      }
      await flushRecent(tail);
    };
    await explain({ subject: options.sessionIds.join(', ') || undefined }, follow());
  } catch (error) {
    if (stopped === undefined || context.signal.aborted) throw error;
  } finally {
    timers.stop();
    await readyFile?.remove();
    try {
      await begun?.lines?.close();
      // Prints the events that it took, even when a signal or --count ends the tail.
      await begun?.printer.flush();
    } finally {
      await begun?.cursorFile?.settle();
      await begun?.reports.settle();
    }
  }
  return { stopped, printed: begun?.printed ?? 0 };
}

/** The last line of a tail that did not simply end with its sessions. */
async function tellEnd(
  { output }: Context,
  { hasControl }: FollowOptions,
  end: { readonly reason: Stop | 'signal' | 'error'; readonly code?: string },
): Promise<void> {
  if (hasControl) await output.record({ type: 'asp.end', session_id: null, ...end });
}

function getCode(error: unknown): string {
  return error instanceof RequestError || error instanceof CliError ? error.code : 'ASP_BUG';
}

/** A monitor joins sessions of strangers only if its agent does: their text would reach its input. */
const knowsAll =
  ({ findRelation }: AgentLines, me: string) =>
  async ({ participants }: Session): Promise<boolean> => {
    const others = participants.filter(({ handle }) => handle !== me);
    const relations = await Promise.all(others.map(({ handle }) => findRelation(handle)));
    return relations.every((relation) => relation !== 'anyone');
  };

/** The agent's handle, so that its own departure ends a tail of named sessions; a token may not reveal it. */
async function ownHandle(context: Context, { sessionIds }: FollowOptions): Promise<string | undefined> {
  const { handle } = await context.agent();
  if (handle !== undefined || sessionIds.length === 0) return handle;
  return context.actingHandle().catch(() => undefined);
}

type Beginning = Pick<
  Tail,
  'context' | 'waiting' | 'inTime' | 'options' | 'waits' | 'readyFile' | 'stop' | 'noteActivity' | 'listen'
>;

async function beginTail(given: Beginning): Promise<Tail> {
  const { context, waiting, inTime, options, waits } = given;
  const { signal } = waiting;
  const ask = <Reply>(call: () => Promise<Reply>): Promise<Reply> =>
    waits ? waitForService(waiting, signal, call) : call();
  const isForAgent = options.view === 'agent';
  // Where a person looks, a local service that is not running is an error.
  if (!isForAgent) await context.profile();
  const needsHandle = isForAgent || options.isNotMe || options.joins;
  const me = needsHandle ? await ask(() => orAborted(context.actingHandle(), signal)) : undefined;
  const lines =
    isForAgent && me !== undefined ? new (await import('./agent-lines.js')).AgentLines(context, me) : undefined;
  await lines?.greet(waiting, options.isQuiet);
  const printer = await createPrinter(context, options.view, options.sessionIds.length === 1);
  const { command, forwardUrl, forwardSecretFile: secretFile, types, from, sinceMs, untilMs, last } = options;
  const filter = {
    types,
    from,
    notBy: options.isNotMe ? me : undefined,
    sinceMs,
    untilMs,
    isMessageOnly: options.view === 'text' || options.view === 'fence',
    invitee: isForAgent ? me : undefined,
  };
  const isFiltered = types.length + from.length > 0 || filter.notBy !== undefined || filter.isMessageOnly;
  const reports = createTakenReports(context, () => context.client());
  const cursorFile = options.cursorFile === undefined ? undefined : await openCursorFile(options.cursorFile);
  const consume =
    command !== undefined
      ? createCommandRunner(context, command, options.onError, reports, cursorFile?.begin)
      : forwardUrl !== undefined
        ? await createForwarder(inTime, { url: forwardUrl, secretFile, onError: options.onError }, printer)
        : undefined;
  const enter = waits && context.globals.retries !== 0 ? joinIfPossible : joinNow;
  if (options.joins && options.sessionIds.length > 0 && me !== undefined)
    await ask(() => joinWaiting(waiting, options.sessionIds, me, lines && knowsAll(lines, me), enter));
  return {
    ...given,
    lines,
    filter,
    printer,
    consume,
    cursorFile,
    reports,
    recent: last !== undefined && isFiltered ? new Recent(last) : undefined,
    me,
    ended: new Set(),
    printed: 0,
    isReady: false,
    isOutageReported: false,
  };
}

/** Where each session begins: from the cursor file, or else from the options. */
function following(options: FollowOptions, cursorFile: CursorFile | undefined): Omit<Following, 'signal'> {
  const { sessionIds, last, after, sinceMs, untilMs, isFollowing, types, from, isNotMe, view } = options;
  const cursors = cursorFile?.cursors ?? {};
  if (sessionIds.length === 0) return { cursors, isFollowing };
  const isFiltered = types.length + from.length > 0 || isNotMe || view === 'text' || view === 'fence';
  const getStart = (sessionId: string): TailStart => {
    const cursor = cursors[sessionId];
    if (cursor !== undefined) return { sessionId, ...cursor };
    if (after !== undefined) return { sessionId, after };
    const isWhole = sinceMs !== undefined || untilMs !== undefined || (last !== undefined && isFiltered);
    return isWhole && last !== 0 ? { sessionId, after: 0 } : { sessionId, last: last ?? LAST_DEFAULT };
  };
  return { sessions: sessionIds.map(getStart), isFollowing };
}

/** Returns a promise only if the caller must wait: a backlog has many events. */
function takeItem(tail: Tail, item: TailItem): void | Promise<void> {
  if (item.kind !== 'event') return takeChange(tail, item);
  const { event } = item;
  const { lines, me, options } = tail;
  if (event.type === 'session.joined' && findActor(event) === me) lines?.joined(event.session_id);
  if (options.joins && me !== undefined && isInvitationFor(event, me) !== false) return takeInvitation(tail, item, me);
  return takeWanted(tail, item);
}

function takeWanted(tail: Tail, item: EventItem): void | Promise<void> {
  const { recent, cursorFile } = tail;
  // A session that an earlier run has read goes on where that ended.
  const isNew = cursorFile?.cursors[item.event.session_id] === undefined;
  const held = item.isReplay && !tail.isReady && isNew ? recent : undefined;
  if (isWanted(item.event, tail.filter)) return held === undefined ? takeEvent(tail, item) : held.add(item);
  return held === undefined ? noteTaken(tail, item) : held.pass(item);
}

async function takeChange(tail: Tail, item: Exclude<TailItem, EventItem>): Promise<void> {
  const { context, options } = tail;
  switch (item.kind) {
    case 'ready':
      await flushRecent(tail);
      if (options.joins && options.sessionIds.length === 0 && tail.me !== undefined) await joinAll(tail, tail.me);
      await tellFollowing(tail, item.sessions);
      await markReady(tail);
      tail.listen(true);
      if (tail.isOutageReported)
        await context.output.note(`Connected again after ${Math.round(item.downMs / 1000)} s.`);
      tail.isOutageReported = false;
      return tellControl(tail, {
        type: 'asp.ready',
        sessions: item.sessions,
        reconnect: item.isReconnect,
        down_ms: item.downMs,
      });
    case 'reconnecting':
      tail.listen(false);
      await context.output.detail(`reconnecting in ${Math.ceil(item.delayMs / 1000)} s: ${item.reason}`);
      await tellOutage(tail, item.attempt, item.reason);
      return tellControl(tail, {
        type: 'asp.reconnecting',
        attempt: item.attempt,
        delay_ms: item.delayMs,
        reason: item.reason,
      });
    case 'gap': {
      const { sessionId, from, to, reason } = item;
      await context.output.note(`${sessionId}: could not load events ${from} to ${to ?? 'the end'}: ${reason}`);
      return tellControl(tail, { type: 'asp.gap', session_id: sessionId, from, to, reason });
    }
    case 'restored': {
      const { sessionId, after, from, epoch } = item;
      await tail.printer.flush();
      tail.cursorFile?.goBack(sessionId, { after, epoch });
      await context.output.note(
        `${sessionId}: the service was restored to an earlier state. Events ${after + 1} to ${from} are gone; continuing after ${after}.`,
      );
      return tellControl(tail, { type: 'asp.restored', session_id: sessionId, after, from });
    }
    case 'end':
      tail.ended.add(item.sessionId);
      return tellControl(tail, { type: 'asp.end', session_id: item.sessionId, reason: item.reason });
  }
}

/** Accepts the invitations from before the connection. */
async function joinAll({ waiting, lines }: Tail, me: string): Promise<void> {
  const enterAll = () => joinWaiting(waiting, [], me, lines && knowsAll(lines, me), joinIfPossible);
  const joined = await persist(waiting, waiting.signal, enterAll);
  if (joined.kind === 'refused') throw joined.error;
}

/** Joins, if the invitation is for this agent. It is printed unless the messages of the session tell more. */
async function takeInvitation(tail: Tail, item: EventItem, me: string): Promise<void> {
  const { context, waiting, options, lines } = tail;
  const { event } = item;
  const client = await context.client();
  const persists = tail.waits || options.sessionIds.length === 0;
  const enter = persists ? joinIfPossible : joinNow;
  const find = () => findInvitation(client, event, me, waiting.signal);
  const found = await (persists ? persist(waiting, waiting.signal, find) : trySettling(find));
  if (found.kind === 'refused' && found.error.code !== 'NOT_FOUND')
    await noteNotJoined(context, event.session_id, found.error);
  const invitation = found.kind === 'done' ? found.reply : undefined;
  if (invitation === undefined) return takeWanted(tail, item);
  const isToldByMessages = lines !== undefined && event.payload['initial_message'] === undefined;
  const { by } = invitation;
  if (isToldByMessages && by !== undefined && (await lines.findRelation(by)) !== 'anyone') {
    await enter(waiting, event.session_id);
    return noteTaken(tail, item);
  }
  if (lines === undefined) await enter(waiting, event.session_id);
  return takeWanted(tail, item);
}

function noteTaken({ lines, consume, printer, cursorFile }: Tail, { event, epoch }: EventItem): void {
  if (cursorFile === undefined) return;
  const advance = (): void => cursorFile.advance(event.session_id, { after: event.sequence, epoch });
  if (lines !== undefined) lines.after(event.session_id, advance);
  else if (consume !== undefined) advance();
  else printer.after(advance);
}

function takeEvent(tail: Tail, item: EventItem): void | Promise<void> {
  const { options } = tail;
  if (options.count !== undefined && tail.printed >= options.count) return;
  const taken = (): void => {
    noteTaken(tail, item);
    tail.printed += 1;
    tail.noteActivity();
    if (tail.printed === options.count) tail.stop('count');
  };
  const taking = tail.lines?.add(item.event) ?? tail.consume?.(item.event) ?? tail.printer.add(item.event);
  return taking === undefined ? taken() : taking.then(taken);
}

/**
 * Says once that there is no connection: before the first connection at once; later only to a person, and only if the
 * outage is not short.
 */
async function tellOutage(tail: Tail, attempt: number, reason: string): Promise<void> {
  if (tail.isOutageReported || (tail.isReady && (tail.options.view !== 'pretty' || attempt < 2))) return;
  tail.isOutageReported = true;
  await tail.context.output.note(noConnection(reason));
}

/** Says once, at a terminal, that it is connected: the next event may be far away. */
async function tellFollowing({ context, options, isReady, me }: Tail, count: number): Promise<void> {
  if (isReady || !options.isFollowing || !context.streams.stderr.isTerminal) return;
  // Sessions without new events count too, and the tail has not looked at them.
  const sessions = options.sessionIds.length === 0 ? 'all sessions' : formatQuantity(count, 'session');
  await context.output.note(`Following ${sessions}${me === undefined ? '' : ` of ${me}`}. Press Ctrl-C to stop.`);
}

async function flushRecent(tail: Tail): Promise<void> {
  const { kept = [], passed = [] } = tail.recent?.drain() ?? {};
  for (const item of kept) await takeEvent(tail, item);
  if (tail.printed !== tail.options.count) for (const item of passed) noteTaken(tail, item);
  await tail.printer.flush();
}

async function markReady(tail: Tail): Promise<void> {
  if (tail.isReady) return;
  tail.isReady = true;
  tail.noteActivity();
  await tail.readyFile.write(readyText(tail.context));
}

async function tellControl(
  { context, options, printer }: Tail,
  line: Readonly<Record<string, unknown>>,
): Promise<void> {
  await printer.flush();
  if (options.hasControl) await context.output.record(line);
}

/** A tail of named sessions ends when all of them have ended, unless `--keep`. */
function isOver({ options, ended }: Tail): boolean {
  const { sessionIds, isKept, isFollowing } = options;
  return sessionIds.length > 0 && (!isKept || !isFollowing) && sessionIds.every((id) => ended.has(id));
}

function startTimers(context: Context, options: FollowOptions, stop: Tail['stop']) {
  const { clock, globals, streams, output } = context;
  const cancels = new Map<string, () => void>();
  const after = (name: string, delayMs: number | undefined, action: () => void): void => {
    cancels.get(name)?.();
    if (delayMs !== undefined) cancels.set(name, clock.schedule(delayMs, action, true));
  };
  // Idle time does not count while existing events are read, or while there is no connection.
  let isListening = false;
  const noteActivity = (): void => {
    if (isListening) after('idle', options.idleMs, () => stop('idle'));
  };
  const listen = (isTrue: boolean): void => {
    isListening = isTrue;
    after('idle', undefined, () => {});
    noteActivity();
  };
  const every = (name: string, delayMs: number | undefined, action: () => void): void =>
    after(name, delayMs, () => {
      action();
      every(name, delayMs, action);
    });
  after('timeout', globals.timeoutMs, () => stop('timeout'));
  const untilMs = options.untilMs;
  if (untilMs !== undefined && options.isFollowing) after('until', untilMs - clock.now(), () => stop('until'));
  // Check at once too: a reader can only disappear after it was seen once.
  const checkReader = (): void => {
    if (streams.stdout.isAbandoned()) stop('reader');
  };
  checkReader();
  every('reader', READER_CHECK_MS, checkReader);
  every('heartbeat', options.heartbeatMs, () => {
    void output.record({ type: 'asp.heartbeat', at: clock.now() }).catch(() => {});
  });
  return {
    noteActivity,
    listen,
    stop: () => {
      for (const cancel of cancels.values()) cancel();
    },
  };
}

/** Exit 8 if the expected events did not come. */
function refuseIfTooFew(options: FollowOptions, { stopped, printed }: End): void {
  const isShort = options.count !== undefined && printed < options.count;
  const isTooLate = stopped === 'timeout' || (stopped === 'idle' && isShort);
  if (!isTooLate) return;
  const events =
    options.count === undefined
      ? formatQuantity(printed, 'event')
      : `${printed} of ${formatQuantity(options.count, 'event')}`;
  throw new CliError('ASP_TIMEOUT', {
    message: `Timed out after ${events}.`,
    isRetryable: true,
  });
}
