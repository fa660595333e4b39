import { isInvited } from '../../../agent/invitation.js';
import type { RequestError } from '../../../client/http/request-error.js';
import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../../wire/limit.js';
import type { Session } from '../../../wire/schemas/session.js';
import { type Argument, command, describeTable, type Option } from '../../command.js';
import { collectPages, notePage, type Page, printRequest, read, write } from '../../context/calls.js';
import { remember, rememberSession } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { type ErrorContext, explainedMessage, ifNotFound, notFound } from '../../context/explain.js';
import { CliError, usageError } from '../../errors.js';
import { type PageOptions, pageOptions, readPageOptions, refuseFencedJson } from '../../options.js';
import { factLine } from '../../terminal/fact-line.js';
import type { Column } from '../../terminal/output.js';
import { isoTime, relativeTime, timeColumn } from '../../terminal/relative-time.js';
import type { OutputStream } from '../../terminal/streams.js';
import type { Style } from '../../terminal/style.js';
import { ifGiven, readHandle, readHandles, readSessionName, SESSION_ABOUT } from '../../values.js';
import type { OutputOf } from '../schema/output-shapes.js';
import { findAgentLimits } from '../send/find-agent-limits.js';
import { findSession } from './find-session.js';
import { participantNames, readInvited, refuseOmissions, unreachableAgents, unseenSession } from './participants.js';
import type { Seen } from './refusal.js';

const SESSION = { usage: '<session>', about: SESSION_ABOUT } as const satisfies Argument;
const STRICT = {
  flags: '--strict',
  about: 'exit 10 if an invitee was left out',
} as const satisfies Option;

export const sessionList = command({
  path: 'session list',
  summary: 'list the sessions of this agent',
  options: [
    {
      flags: '--state <state>',
      about: 'only active or ended sessions, or pending invitations',
      choices: ['active', 'ended', 'invited'],
    },
    { flags: '--with <handle>', about: 'only sessions that this agent is in' },
    { flags: '--account', about: 'the sessions of all agents of the account (sign in with asp login --account)' },
    ...pageOptions(LIST_LIMIT_DEFAULT),
  ],
  examples: [
    { line: 'asp session list --state active', about: 'the active sessions' },
    { line: 'asp session list --state invited', about: 'sessions you could join' },
    { line: "asp sessions list --all --jsonl | jq -r '.id'", about: 'every id, for a script' },
  ],
  effect: 'read',
  stdout: describeTable(
    'session, state, topic, with, created, changed; with --account the agent to act as after the session',
  ),
  mixesShapesWith: ['account'],
  parse: (args) => ({
    ...readPageOptions(args, LIST_LIMIT_DEFAULT),
    state: args.text('state'),
    isAccount: args.flag('account'),
    handle: ifGiven(args.text('with'), readHandle),
  }),
  async run(context, { isAccount, ...options }) {
    const page = isAccount ? await listOfAccount(context, options) : await listOfAgent(context, options);
    await notePage(context, page, 'No sessions.');
  },
});

interface ListOptions extends PageOptions {
  readonly state: 'active' | 'ended' | 'invited' | undefined;
  readonly handle: string | undefined;
}

async function listOfAgent(context: Context, { state, handle, ...options }: ListOptions): Promise<Page<Session>> {
  const readPage = async (at: { limit: number; cursor?: string }): Promise<Page<Session>> => {
    const { sessions, next_cursor } = await read(context, 'listSessions', { query: { ...at, ...inState(state) } });
    return { items: sessions, next_cursor };
  };
  const me = state === 'invited' ? await context.actingHandle() : undefined;
  const isMatch = (session: Session): boolean => isListed(session, handle, me);
  const query = { limit: LIST_LIMIT_MAX, ...inState(state) };
  const isFiltered = state === 'invited' || handle !== undefined;
  const page = isWhole(options)
    ? await collectWhole((await context.client()).pages('listSessions', { query, signal: context.signal }), isMatch)
    : await collectPages(options, LIST_LIMIT_MAX, readPage, isFiltered ? isMatch : undefined);
  // A token may not reveal it.
  const reader = context.output.format === 'human' ? await context.actingHandle().catch(() => undefined) : undefined;
  const columns = sessionColumns<Session>(context.clock.now(), (session) => ({ session, acting_handle: reader }));
  await context.output.list(page, columns);
  await rememberAll(context, page.items);
  return page;
}

/** The sessions of all agents of the account; each row names the agent to act as. */
async function listOfAccount(context: Context, { state, handle, ...options }: ListOptions) {
  const { callAsAccount, withAccountClient } = await import('../../context/account.js');
  const isMatch = ({ session, acting_handle: me }: AccountRow): boolean =>
    isListed(session, handle, state === 'invited' ? me : undefined);
  const readPage = async (at: { limit: number; cursor?: string }): Promise<Page<AccountRow>> => {
    const { reply } = await callAsAccount(context, 'listAccountSessions', { query: { ...at, ...inState(state) } });
    return { items: reply.sessions, next_cursor: reply.next_cursor };
  };
  const query = { limit: LIST_LIMIT_MAX, ...inState(state) };
  const page = isWhole(options)
    ? await withAccountClient(context, (client) =>
        collectWhole(client.pages('listAccountSessions', { query, signal: context.signal }), isMatch),
      )
    : await collectPages(options, LIST_LIMIT_MAX, readPage, isMatch);
  const columns = sessionColumns<AccountRow>(context.clock.now(), (row) => row);
  columns.splice(1, 0, { title: 'as', value: ({ acting_handle: me }) => me });
  await context.output.list(page, columns);
  return page;
}

type AccountRow = { readonly session: Session; readonly acting_handle: string };

const isWhole = ({ isAll, cursor }: PageOptions): boolean => isAll && cursor === undefined;

/** Every item that matches. Those that moved past the reader come after the last page, and changed most recently. */
async function collectWhole<Item>(
  pages: AsyncIterable<{ readonly sessions: readonly Item[]; readonly next_cursor: string | null }>,
  isMatch: (item: Item) => boolean,
): Promise<Page<Item>> {
  const items: Item[] = [];
  const moved: Item[] = [];
  let isOver = false;
  for await (const { sessions, next_cursor: next } of pages) {
    (isOver ? moved : items).push(...sessions.filter(isMatch));
    isOver ||= next === null;
  }
  return { items: [...moved, ...items], next_cursor: null };
}

/** The service does not have the state `invited`; it lists invitations among the active sessions. */
function inState(state: ListOptions['state']): { state?: 'active' | 'ended' } {
  return state === undefined ? {} : { state: state === 'invited' ? 'active' : state };
}

/** `invited`: the user must name an agent to invite. */
function isListed(session: Session, handle: string | undefined, invited: string | undefined): boolean {
  return (
    (handle === undefined || session.participants.some((one) => one.handle === handle)) &&
    (invited === undefined || isInvited(session, invited))
  );
}

function sessionColumns<Item>(
  nowMs: number,
  rowOf: (item: Item) => { readonly session: Session; readonly acting_handle: string | undefined },
): Column<Item>[] {
  const names = (item: Item): string => {
    const { session, acting_handle: me } = rowOf(item);
    return participantNames(session, me);
  };
  const topic = (item: Item): string => rowOf(item).session.topic ?? '';
  return [
    { title: 'session', value: (item) => rowOf(item).session.id, isOptional: 'below' },
    {
      title: 'state',
      value: (item) => rowOf(item).session.state,
      paint: (text, _, style) => (text === 'active' ? style.green(text) : style.dim(text)),
    },
    { title: 'topic', value: (item) => topic(item) || '-', isFlexible: true, piped: topic },
    { title: 'with', value: (item) => names(item) || '-', isFlexible: true, piped: names },
    { ...timeColumn<Item>('created', (item) => rowOf(item).session.created_at, nowMs), isOptional: true },
    timeColumn('changed', (item) => rowOf(item).session.last_activity_at ?? null, nowMs),
  ];
}

export const sessionShow = command({
  path: 'session show',
  summary: 'show sessions and their participants',
  arguments: [{ usage: '<sessions...>', about: SESSION_ABOUT }],
  options: [{ flags: '--delivery', about: 'also show how far your last message got, for each recipient' }],
  examples: [
    { line: 'asp session show sess_…', about: 'topic, state and participants' },
    { line: "asp session show sess_… --json | jq '.participants'", about: 'the object as the service sends it' },
    { line: 'asp session show @alice.bot --delivery', about: 'whether it has your last message' },
    { line: 'asp session show sess_… sess_… --json', about: 'a line of JSON for each' },
  ],
  effect: 'read',
  stdout: 'each session, one fact per line',
  parse: (args) => ({ names: readSessionNames(args.argument('sessions')), hasDelivery: args.flag('delivery') }),
  async run(context, { names, hasDelivery }) {
    const failures: RequestError[] = [];
    let shown = 0;
    for (const name of names) {
      try {
        await showSession(context, await findSession(context, name), hasDelivery, shown === 0 ? '' : '\n');
        shown += 1;
      } catch (error) {
        const { isNotFound } = await import('./refusal.js');
        if (names.length === 1 || !isNotFound(error)) throw error;
        failures.push(error);
      }
    }
    const last = failures.at(-1);
    if (last === undefined) return;
    const why = failures.map(explainedMessage).join(' ');
    if (shown === 0) throw await notFound(`Showed none of ${names.length} sessions.`, why, ['asp', 'session', 'list']);
    throw new CliError('ASP_PARTIAL', { message: `Showed ${shown} of ${names.length} sessions.`, why, cause: last });
  },
});

/** `before` separates it from the one above it. */
async function showSession(context: Context, sessionId: string, hasDelivery: boolean, before: string): Promise<void> {
  const path = { session_id: sessionId };
  const session = await read(context, 'getSession', { path }, unseenSession(sessionId));
  const now = context.clock.now();
  const { stdout } = context.streams;
  if (hasDelivery) {
    const { deliveryText, readLastDelivery } = await import('./delivery.js');
    const delivery = await readLastDelivery(context, sessionId);
    await context.output.document({ ...session, delivery: delivery ?? null }, (safe, style) =>
      [
        before + sessionText(safe, style, now, stdout),
        '',
        safe.delivery === null ? 'No messages.' : deliveryText(safe.delivery, style, now),
      ].join('\n'),
    );
  } else await context.output.document(session, (safe, style) => before + sessionText(safe, style, now, stdout));
  await rememberAll(context, [session]);
}

function rememberAll(context: Context, sessions: readonly Session[]): Promise<void> {
  const items = sessions.map((session) => ({ name: session.id, about: session.topic ?? participantNames(session) }));
  return remember(context, 'sessions', items);
}

/** A session for people; its values are already sanitized. */
function sessionText(session: Session, style: Style, nowMs: number, stdout: OutputStream): string {
  const { id, state, topic, participants, created_at: createdAt, ended_at: endedAt } = session;
  const width = Math.max(...participants.map(({ handle }) => handle.length), 0);
  const time = (at: number): string => `${relativeTime(at, nowMs)} ${style.dim(`(${isoTime(at)})`)}`;
  const fact = (name: string, text: string): string => factLine(stdout, name, text);
  const paint = { joined: style.green, invited: style.yellow, left: style.dim };
  return [
    `${style.bold(id)}  ${state === 'active' ? style.green(state) : style.dim(state)}`,
    ...(topic === null ? [] : [fact('topic', topic.replace(/\s+/g, ' '))]),
    fact('created', time(createdAt)),
    ...(endedAt === null ? [] : [fact('ended', time(endedAt))]),
    '',
    ...participants.map(({ handle, status }) => `  ${handle.padEnd(width)}  ${paint[status](status)}`),
  ].join('\n');
}

/** What a command that changes a session prints, but for the agent. */
type Change = Omit<OutputOf<'session create'>, 'as'>;

/** The session id on stdout, the note on stderr. */
async function printChange(context: Context, change: Change, note: string): Promise<void> {
  const as = (await context.knownHandle()) ?? null;
  if (context.output.format === 'human') {
    const actor = as === null || change.changed === false ? '' : ` as ${as}`;
    await context.output.note(`${note}${actor}.`);
    if (change.omitted && change.omitted.length > 0)
      await context.output.note(`Left out: ${change.omitted.join(', ')}.`);
  }
  await context.output.document({ ...change, as }, (safe) => safe.session_id);
}

const impossible = (sessionId: string, action: string, reason: string): ErrorContext => ({
  subject: sessionId,
  ...ifNotFound(`You cannot ${action} ${sessionId}: ${reason}`, ['asp', 'session', 'show', sessionId]),
});

export const sessionCreate = command({
  path: 'session create',
  summary: 'create a session',
  arguments: [{ usage: '[handles...]', about: 'agents to invite' }],
  options: [
    { flags: '--topic <text>', about: 'the topic' },
    { flags: '-m, --message <text>', about: 'the first message; - reads standard input' },
    STRICT,
  ],
  examples: [
    { line: 'sid=$(asp session create alice.bot bob.bot --topic "release")', about: 'prints the session id' },
    { line: 'asp session create alice.bot -m "shall we?"', about: 'with a first message' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({
    text: args.text('message'),
    handles: readHandles(args.argument('handles')),
    topic: args.text('topic'),
    isStrict: args.flag('strict'),
  }),
  async run(context, { handles, topic, text, isStrict }) {
    const message = await readFirstMessage(context, text);
    const body = {
      ...(handles.length > 0 && { invite: handles }),
      ...(topic !== undefined && { topic }),
      ...(message !== undefined && { initial_message: { content: message } }),
    };
    const limits = message === undefined ? undefined : await findAgentLimits(context);
    await limits?.check({ content: message ?? '' }, undefined);
    if (context.globals.isDryRun) return printRequest(context, 'createSession', { body });
    const { reply, idempotencyKey } = await write(
      context,
      'createSession',
      { body },
      { ...unreachable(handles), isRepeatable: text !== '-' },
    );
    await limits?.count();
    const { session_id } = reply;
    const invited = handles.length < 2 ? handles : await readInvited(context, session_id, handles);
    const omitted = invited && handles.filter((handle) => !invited.includes(handle));
    const who = invited === null || invited.length === 0 ? '' : ` with ${invited.join(', ')}`;
    const idempotency_key = idempotencyKey ?? null;
    const change = { session_id, action: 'create', state: 'active', invited, omitted, idempotency_key } as const;
    await printChange(context, change, `Created ${session_id}${who}`);
    await rememberSession(context, { session_id, topic, invited });
    if (isStrict) refuseOmissions(omitted, 'The session was created.');
  },
});

async function readFirstMessage(context: Context, text: string | undefined): Promise<string | undefined> {
  return text === undefined ? undefined : (await import('../send/content.js')).readGivenText(context, text);
}

function unreachable(handles: readonly string[]): ErrorContext {
  const [first] = handles;
  if (first === undefined) return {};
  const named = handles.join(', ');
  return unreachableAgents(first, named, `Could not reach ${named}.`);
}

/** A change that needs no body, and how it is reported, even if nothing had to be changed. */
interface PlainChange {
  readonly operation: 'joinSession' | 'leaveSession' | 'endSession';
  readonly state: Change['state'];
  readonly note: (sessionId: string) => string;
  /** Why it may have been refused, as far as that is known. */
  readonly reason: string;
  readonly isSo: (seen: Seen) => boolean;
  readonly soNote: (sessionId: string) => string;
}

const PLAIN_CHANGE = {
  join: {
    operation: 'joinSession',
    state: 'active',
    note: (id) => `Joined ${id}`,
    reason: 'you are not invited, or it has ended.',
    isSo: ({ session, mine }) => session.state === 'active' && mine === 'joined',
    soNote: (id) => `In ${id} already`,
  },
  leave: {
    operation: 'leaveSession',
    state: null,
    note: (id) => `Left ${id}`,
    reason: 'you have not joined it, or it has ended.',
    isSo: ({ mine }) => mine === 'left',
    soNote: (id) => `you have already left ${id}`,
  },
  end: {
    operation: 'endSession',
    state: 'ended',
    note: (id) => `Ended ${id}`,
    reason: 'you have not joined it, or it has already ended.',
    isSo: ({ session }) => session.state === 'ended',
    soNote: (id) => `${id} has already ended`,
  },
} as const satisfies Readonly<Record<string, PlainChange>>;

/** Joins, leaves or ends a session. If that was already done, the command succeeds. */
async function changeSession(
  context: Context,
  session_id: string,
  action: keyof typeof PLAIN_CHANGE,
  suffix = '',
): Promise<void> {
  const { operation, state, note, reason, isSo, soNote }: PlainChange = PLAIN_CHANGE[action];
  const path = { session_id };
  if (context.globals.isDryRun) return printRequest(context, operation, { path }, undefined, suffix);
  const change = { session_id, action, state };
  try {
    const call = write(context, operation, { path }, impossible(session_id, action, reason), suffix);
    const { idempotencyKey } = await call;
    await printChange(context, { ...change, idempotency_key: idempotencyKey ?? null }, note(session_id));
  } catch (error) {
    const { explainRefusal, isNotFound, lookAtSession } = await import('./refusal.js');
    const seen = isNotFound(error) ? await lookAtSession(context, session_id) : undefined;
    if (seen === undefined || !isSo(seen)) throw await explainRefusal(context, session_id, error);
    await printChange(context, { ...change, idempotency_key: null, changed: false }, soNote(session_id));
  }
}

const readSessionNames = (texts: readonly string[]): string[] =>
  texts.flatMap((text) => text.split(',')).map(readSessionName);

/**
 * Leaves or ends sessions. All names are looked up before the first change. A session that refuses does not stop the
 * rest; any other failure does.
 */
async function changeSessions(context: Context, names: readonly string[], action: 'leave' | 'end'): Promise<void> {
  const found = new Set<string>();
  // One after the other: each may need an answer.
  for (const name of names) found.add(await findSession(context, name));
  const ids = [...found];
  const [only = ''] = ids;
  if (ids.length === 1) return changeSession(context, only, action);
  const failures: RequestError[] = [];
  let done = 0;
  // --once names the session already, so it means the same whatever else is ended with it.
  const isNumbered = context.globals.once === undefined;
  for (const [index, id] of ids.entries()) {
    try {
      await changeSession(context, id, action, isNumbered ? `/${index}` : '');
      done += 1;
    } catch (error) {
      const { isNotFound } = await import('./refusal.js');
      const { RequestError } = await import('../../../client/http/request-error.js');
      if (!(error instanceof RequestError) || (index === 0 && !isNotFound(error))) throw error;
      failures.push(error);
      if (!isNotFound(error)) break;
    }
  }
  const last = failures.at(-1);
  if (last === undefined) return;
  const untried = ids.length - done - failures.length;
  const reasons = failures.map(explainedMessage);
  const message = `${PLAIN_CHANGE[action].note(`${done} of ${ids.length} sessions`)}.`;
  const inDoubt = last.outcome === 'unknown' ? [`${ids[done + failures.length - 1]} may have changed.`] : [];
  const why = [...reasons, ...inDoubt, ...(untried > 0 ? ['The rest were not tried.'] : [])].join(' ');
  if (done === 0 && untried === 0) throw await notFound(message, why, ['asp', 'session', 'list']);
  const outcome = last.outcome === 'unknown' || done === 0 ? last.outcome : 'applied';
  throw new CliError('ASP_PARTIAL', { message, why, outcome, cause: last });
}

export const sessionJoin = command({
  path: 'session join',
  summary: 'join a session you are invited to',
  arguments: [SESSION],
  examples: [
    { line: 'asp session join sess_…', about: 'accept an invitation' },
    { line: 'asp session join sess_… && asp tail sess_…', about: 'and follow it' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({ session: readSessionName(args.argument('session')) }),
  run: async (context, { session }) => changeSession(context, await findSession(context, session, 'invited'), 'join'),
});

export const sessionInvite = command({
  path: 'session invite',
  summary: 'invite agents to a session',
  arguments: [SESSION, { usage: '<handles...>', about: 'agents to invite' }],
  options: [STRICT],
  examples: [
    { line: 'asp session invite sess_… carol.bot', about: 'one more agent' },
    { line: 'asp session invite sess_… carol.bot,dave.bot --strict', about: 'both, or exit 10' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({
    session: readSessionName(args.argument('session')),
    handles: readHandles(args.argument('handles')),
    isStrict: args.flag('strict'),
  }),
  async run(context, { session, handles, isStrict }) {
    const session_id = await findSession(context, session);
    const input = { path: { session_id }, body: { invite: handles } };
    if (context.globals.isDryRun) return printRequest(context, 'inviteToSession', input);
    const reason = 'you have not joined it, or it has ended.';
    const errorContext = impossible(session_id, 'invite anyone to', reason);
    const { reply, idempotencyKey } = await refusable(
      context,
      session_id,
      write(context, 'inviteToSession', input, errorContext),
    );
    const invited = reply.invited ?? (await readInvited(context, session_id, handles, ['invited']));
    const omitted = invited && handles.filter((handle) => !invited.includes(handle));
    const idempotency_key = idempotencyKey ?? null;
    const change = { session_id, action: 'invite', state: 'active', invited, omitted, idempotency_key } as const;
    await printChange(
      context,
      change,
      invited === null
        ? `The invitations to ${session_id} were made`
        : `Invited ${invited.length === 0 ? 'no one' : invited.join(', ')} to ${session_id}`,
    );
    if (isStrict) refuseOmissions(omitted, 'The rest of the command succeeded.');
  },
});

export const sessionLeave = command({
  path: 'session leave',
  summary: 'leave sessions',
  arguments: [{ usage: '<sessions...>', about: SESSION_ABOUT }],
  examples: [
    { line: 'asp session leave sess_…', about: 'the others stay' },
    { line: 'asp session leave sess_… --json', about: 'for a script' },
  ],
  effect: 'write',
  isDestructive: true,
  stdout: 'the session ids, one per line',
  parse: (args) => ({ sessions: readSessionNames(args.argument('sessions')) }),
  run: (context, { sessions }) => changeSessions(context, sessions, 'leave'),
});

export const sessionEnd = command({
  path: 'session end',
  summary: 'end sessions for everyone',
  arguments: [{ usage: '<sessions...>', about: SESSION_ABOUT }],
  examples: [
    { line: 'asp session end sess_…', about: 'stops messages; it can be reopened' },
    { line: 'asp session end sess_… --once "close-$TICKET"', about: 'safe to repeat' },
    { line: 'asp session end sess_… sess_…', about: 'both, even if one of them refuses' },
  ],
  effect: 'write',
  isDestructive: true,
  stdout: 'the session ids, one per line',
  parse: (args) => ({ sessions: readSessionNames(args.argument('sessions')) }),
  run: (context, { sessions }) => changeSessions(context, sessions, 'end'),
});

export const sessionReopen = command({
  path: 'session reopen',
  summary: 'reopen an ended session',
  arguments: [SESSION, { usage: '[handles...]', about: 'more agents to invite' }],
  options: [{ flags: '-m, --message <text>', about: 'the first message after reopening; - reads standard input' }],
  examples: [
    { line: 'asp session reopen sess_…', about: 'every earlier participant is invited again' },
    { line: 'asp session reopen sess_… carol.bot -m "one more thing"', about: 'with another agent and a message' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({
    text: args.text('message'),
    session: readSessionName(args.argument('session')),
    handles: readHandles(args.argument('handles')),
  }),
  async run(context, { session, handles, text }) {
    const session_id = await findSession(context, session, 'ended');
    const message = await readFirstMessage(context, text);
    const path = { session_id };
    const body = {
      ...(handles.length > 0 && { invite: handles }),
      ...(message !== undefined && { initial_message: { content: message } }),
    };
    const limits = message === undefined ? undefined : await findAgentLimits(context);
    await limits?.check({ content: message ?? '' }, session_id);
    if (context.globals.isDryRun) return printRequest(context, 'reopenSession', { path, body });
    const reason = 'it is active, or you had not joined it when it ended.';
    const errorContext = { ...impossible(session_id, 'reopen', reason), isRepeatable: text !== '-' };
    const change = { session_id, action: 'reopen', state: 'active' } as const;
    try {
      const { idempotencyKey } = await write(context, 'reopenSession', { path, body }, errorContext);
      await limits?.count();
      await printChange(context, { ...change, idempotency_key: idempotencyKey ?? null }, `Reopened ${session_id}`);
    } catch (error) {
      const { isNotFound, lookAtSession } = await import('./refusal.js');
      const seen = isNotFound(error) ? await lookAtSession(context, session_id) : undefined;
      if (seen?.session.state !== 'active') throw error;
      if (Object.keys(body).length > 0) throw await notReopened(session_id);
      await printChange(
        context,
        { ...change, idempotency_key: null, changed: false },
        `${session_id} is already active`,
      );
    }
  },
});

/** An active session accepts invitations and messages without reopening. */
const notReopened = (sessionId: string): Promise<Error> =>
  notFound(
    `${sessionId} is already active. No agent was invited and nothing was sent.`,
    'use asp session invite and asp send.',
    ['asp', 'session', 'show', sessionId],
  );

/** A refusal gives the reason if the session shows it. */
async function refusable<Value>(context: Context, sessionId: string, call: Promise<Value>): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    throw await (await import('./refusal.js')).explainRefusal(context, sessionId, error);
  }
}

export const sessionWait = command({
  path: 'session wait',
  summary: 'wait until something happens in a session',
  details: [
    'joined, left and ended succeed at once if the session is already in that state; message and reply consider only',
    'new events, or those after --after. A reply is a message from another agent; replies to a message other than the',
    'one you named, or sent as --after, are skipped. Prints the text of the message, otherwise the session id. Exits',
    'with 8 if it times out.',
  ].join('\n'),
  arguments: [SESSION],
  options: [
    { flags: '--for <condition>', about: 'joined[:handle], message, reply[:message], ended, left[:handle]' },
    { flags: '--after <sequence>', about: 'also consider events after this sequence' },
    { flags: '--fence', about: 'print the message between nonce lines, marked as untrusted, for language models' },
  ],
  examples: [
    { line: 'asp session wait sess_… --for joined:alice.bot --timeout 5m', about: 'until Alice has joined' },
    {
      line: 'answer=$(asp session wait sess_… --for reply --after 7)',
      about: 'the reply to your message with sequence 7',
    },
  ],
  effect: 'read',
  stdout: 'the text of the message, otherwise the session id',
  async parse(args) {
    const condition = args.text('for');
    const sessionId = readSessionName(args.argument('session'));
    if (condition === undefined)
      throw usageError('Missing --for: what should asp wait for?', {
        next: ['asp', 'session', 'wait', sessionId, '--for', 'reply'],
      });
    const { readCondition } = await import('./wait.js');
    const read = readCondition(condition);
    if (args.isSet('fence') && read.kind !== 'message' && read.kind !== 'reply')
      throw usageError('--fence says how a message is printed.', { why: 'use --for message or --for reply.' });
    refuseFencedJson(args);
    return {
      sessionId,
      condition: read,
      after: args.count('after'),
      isFenced: args.flag('fence'),
    };
  },
  async run(context, options) {
    const sessionId = await findSession(context, options.sessionId);
    await (await import('./wait.js')).waitInSession(context, { ...options, sessionId });
  },
});

export const sessionExport = command({
  path: 'session export',
  summary: 'export a session as JSON lines or Markdown',
  details: 'Exit 10 means that an attachment could not be saved.',
  arguments: [SESSION],
  options: [
    { flags: '-o, --output <dir|file|->', about: 'a folder, a file, or - for standard output (default -)' },
    {
      flags: '--format <jsonl|md>',
      about: 'the events as jsonl, or a transcript as md (default: md for a file named *.md, otherwise jsonl)',
      choices: ['jsonl', 'md'],
    },
    { flags: '--with-attachments', about: 'also save its files to the folder' },
    { flags: '--force', about: 'replace existing files' },
  ],
  examples: [
    { line: 'asp session export sess_… -o talk.md', about: 'for reading' },
    { line: 'asp session export sess_… -o backup/ --with-attachments', about: 'everything' },
  ],
  effect: 'read',
  stdout: 'the export; with -o its path',
  parse(args) {
    const output = args.text('output') ?? '-';
    const hasAttachments = args.flag('with-attachments');
    if (hasAttachments && output === '-')
      throw usageError('--with-attachments needs a folder.', { why: 'name it with --output.' });
    const format = args.text('format') ?? (/\.(md|markdown)$/i.test(output) ? 'md' : 'jsonl');
    if (format === 'md' && output === '-')
      for (const option of ['json', 'jsonl', 'fields', 'jq'] as const) args.refuseBoth('format', option);
    if (output === '-' && args.isSet('fields'))
      throw usageError('--fields cannot be used on standard output.', {
        why: 'there, each event has all of its fields. With a file or a folder as --output, it applies to the result.',
      });
    const sessionId = readSessionName(args.argument('session'));
    return { sessionId, output, format, hasAttachments, isForced: args.flag('force') };
  },
  async run(context, options) {
    const sessionId = await findSession(context, options.sessionId);
    await (await import('./export.js')).exportSession(context, { ...options, sessionId });
  },
});
