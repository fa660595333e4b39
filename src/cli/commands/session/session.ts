import { LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX } from '../../../wire/limit.js';
import type { Session } from '../../../wire/session.js';
import { type Argument, command, describeTable, type Option } from '../../command.js';
import { printRequest, read, write } from '../../context/calls.js';
import { collectPages, notePage } from '../../context/collect-pages.js';
import { remember } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { type ErrorContext, notFound } from '../../context/explain.js';
import { UsageError } from '../../errors.js';
import { pageOptions, readPageOptions } from '../../options.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';
import type { Style } from '../../terminal/style.js';
import { readCount, readHandles, readId } from '../../values.js';
import { participantNames, unseenSession } from './facts.js';
import { readInvited, refuseOmissions } from './invitees.js';
import type { Seen } from './refusal.js';

const SESSION = { usage: '<session>', about: 'sess_…' } as const satisfies Argument;
const STRICT = {
  flags: '--strict',
  about: 'exit 10 if someone who was to be invited was left out',
} as const satisfies Option;

export const sessionList = command({
  path: 'session list',
  summary: 'list the sessions of this agent',
  options: [
    { flags: '--state <state>', about: 'only those that are', choices: ['active', 'ended'] },
    ...pageOptions(LIST_LIMIT_DEFAULT),
  ],
  examples: [
    { line: 'asp session list --state active', about: 'what is going on' },
    { line: "asp sessions list --all --jsonl | jq -r '.id'", about: 'every id, for a script' },
  ],
  effect: 'read',
  stdout: describeTable('session, state, topic, with, created'),
  parse: (args) => ({ ...readPageOptions(args, LIST_LIMIT_DEFAULT), state: args.text('state') }),
  async run(context, { state, ...options }) {
    const page = await collectPages<Session>(options, LIST_LIMIT_MAX, async (query) => {
      const inState = state === undefined ? {} : { state };
      const { sessions, next_cursor } = await read(context, 'listSessions', { query: { ...query, ...inState } });
      return { items: sessions, next_cursor };
    });
    const now = context.clock.now();
    await context.output.list(page, [
      { title: 'session', value: ({ id }) => id },
      {
        title: 'state',
        value: (session) => session.state,
        paint: (text, session, style) => (session.state === 'active' ? style.green(text) : style.dim(text)),
      },
      { title: 'topic', value: ({ topic }) => topic ?? '-', isFlexible: true, piped: ({ topic }) => topic ?? '' },
      { title: 'with', value: participantNames, isFlexible: true },
      {
        title: 'created',
        value: ({ created_at: at }) => relativeTime(at, now),
        piped: ({ created_at: at }) => isoTime(at),
        paint: (text, _, style) => style.dim(text),
      },
    ]);
    const ids = page.items.map(({ id }) => id);
    await remember(context, 'sessions', ids);
    await notePage(context, page, 'No sessions.');
  },
});

export const sessionShow = command({
  path: 'session show',
  summary: 'show a session and who takes part',
  arguments: [SESSION],
  examples: [
    { line: 'asp session show sess_…', about: 'topic, state and participants' },
    { line: "asp session show sess_… --json | jq '.participants'", about: 'the wire object' },
  ],
  effect: 'read',
  stdout: 'the session, a line for each fact',
  parse: (args) => ({ sessionId: readId('session', args.argument('session')) }),
  async run(context, { sessionId }) {
    const path = { session_id: sessionId };
    const session = await read(context, 'getSession', { path }, unseenSession(sessionId));
    await context.output.document(session, (safe, style) => sessionText(safe, style, context.clock.now()));
    await remember(context, 'sessions', [session.id]);
  },
});

/** A session for people; its values are safe already. */
function sessionText(session: Session, style: Style, nowMs: number): string {
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

/** What a command that changes a session prints. */
interface Change {
  readonly session_id: string;
  readonly action: string;
  /** Null where the service does not say. */
  readonly state: 'active' | 'ended' | null;
  /** Both null where it could not be read who was left out. */
  readonly invited?: readonly string[] | null;
  readonly omitted?: readonly string[] | null;
  readonly idempotency_key: string | null;
  /** False where it was so already. */
  readonly changed?: false;
}

/** The session id on stdout, the note on stderr. */
async function printChange(context: Context, change: Change, note: string): Promise<void> {
  const as = (await context.knownHandle()) ?? null;
  if (context.output.format === 'human') {
    await context.output.note(`${note}${as === null ? '' : ` as ${as}`}.`);
    if (change.omitted && change.omitted.length > 0)
      await context.output.note(`Left out: ${change.omitted.join(', ')}.`);
  }
  await context.output.document({ ...change, as }, (safe) => safe.session_id);
}

const impossible = (sessionId: string, action: string, reason: string): ErrorContext => ({
  subject: sessionId,
  messages: { NOT_FOUND: `You cannot ${action} ${sessionId}: ${reason}` },
  next: { NOT_FOUND: ['asp', 'session', 'show', sessionId] },
});

export const sessionCreate = command({
  path: 'session create',
  summary: 'create a session',
  arguments: [{ usage: '[handles...]', about: 'whom to invite' }],
  options: [
    { flags: '--topic <text>', about: 'what it is about' },
    { flags: '-m, --message <text>', about: 'the first message, sent with the creation; - reads standard input' },
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
    if (context.globals.isDryRun) return printRequest(context, 'createSession', { body });
    const { reply, idempotencyKey } = await write(
      context,
      'createSession',
      { body },
      { ...unreachable(handles), isRepeatable: text !== '-' },
    );
    const { session_id } = reply;
    const invited = handles.length < 2 ? handles : await readInvited(context, session_id, handles);
    const omitted = invited && handles.filter((handle) => !invited.includes(handle));
    const who = invited === null || invited.length === 0 ? '' : ` with ${invited.join(', ')}`;
    const idempotency_key = idempotencyKey ?? null;
    const change = { session_id, action: 'create', state: 'active', invited, omitted, idempotency_key } as const;
    await printChange(context, change, `Created ${session_id}${who}`);
    await remember(context, 'sessions', [session_id]);
    await remember(context, 'handles', invited ?? []);
    if (isStrict) refuseOmissions(omitted, 'The session was created.');
  },
});

async function readFirstMessage(context: Context, text: string | undefined): Promise<string | undefined> {
  return text === undefined ? undefined : (await import('../send/content.js')).readGivenText(context, text);
}

function unreachable(handles: readonly string[]): ErrorContext {
  const [first] = handles;
  if (first === undefined) return {};
  return {
    subject: handles.join(', '),
    messages: { NOT_FOUND: `${handles.join(', ')} could not be reached.` },
    reasons: {
      NOT_FOUND:
        'the service gives one answer for an unknown handle, a block, an allowlist and a paused agent; it does not say which.',
    },
    next: { NOT_FOUND: ['asp', 'agent', 'show', first.slice(1)] },
  };
}

/** How a change is told, and when there is nothing to change. */
interface Telling {
  readonly note: string;
  /** Why it may have been refused, as far as that is known. */
  readonly reason: string;
  readonly isSo: (seen: Seen) => boolean;
  readonly soNote: string;
}

/** A change that needs no body. One that was made already is a success. */
async function changeSession(
  context: Context,
  operation: 'joinSession' | 'leaveSession' | 'endSession',
  change: Omit<Change, 'idempotency_key'>,
  { note, reason, isSo, soNote }: Telling,
): Promise<void> {
  const { session_id, action } = change;
  const path = { session_id };
  if (context.globals.isDryRun) return printRequest(context, operation, { path });
  try {
    const { idempotencyKey } = await write(context, operation, { path }, impossible(session_id, action, reason));
    await printChange(context, { ...change, idempotency_key: idempotencyKey ?? null }, note);
  } catch (error) {
    const { explainRefusal, isNotFound, lookAtSession } = await import('./refusal.js');
    const seen = isNotFound(error) ? await lookAtSession(context, session_id) : undefined;
    if (seen === undefined || !isSo(seen)) throw await explainRefusal(context, session_id, error);
    await printChange(context, { ...change, idempotency_key: null, changed: false }, soNote);
  }
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
  parse: (args) => ({ session_id: readId('session', args.argument('session')) }),
  run: (context, { session_id }) =>
    changeSession(
      context,
      'joinSession',
      { session_id, action: 'join', state: 'active' },
      {
        note: `Joined ${session_id}`,
        reason: 'you are not invited, or it has ended.',
        isSo: ({ session, mine }) => session.state === 'active' && mine === 'joined',
        soNote: `In ${session_id} already`,
      },
    ),
});

export const sessionInvite = command({
  path: 'session invite',
  summary: 'invite agents into a session',
  arguments: [SESSION, { usage: '<handles...>', about: 'whom to invite' }],
  options: [STRICT],
  examples: [
    { line: 'asp session invite sess_… carol.bot', about: 'one more' },
    { line: 'asp session invite sess_… carol.bot,dave.bot --strict', about: 'both or exit 10' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({
    session_id: readId('session', args.argument('session')),
    handles: readHandles(args.argument('handles')),
    isStrict: args.flag('strict'),
  }),
  async run(context, { session_id, handles, isStrict }) {
    const input = { path: { session_id }, body: { invite: handles } };
    if (context.globals.isDryRun) return printRequest(context, 'inviteToSession', input);
    const reason = 'you have not joined it, or it has ended.';
    const errorContext = impossible(session_id, 'invite anyone to', reason);
    const { reply, idempotencyKey } = await refusable(
      context,
      session_id,
      write(context, 'inviteToSession', input, errorContext),
    );
    const { invited } = reply;
    const omitted = handles.filter((handle) => !invited.includes(handle));
    const idempotency_key = idempotencyKey ?? null;
    const change = { session_id, action: 'invite', state: 'active', invited, omitted, idempotency_key } as const;
    await printChange(
      context,
      change,
      `Invited ${invited.length === 0 ? 'nobody' : invited.join(', ')} to ${session_id}`,
    );
    if (isStrict) refuseOmissions(omitted, 'The rest was done.');
  },
});

export const sessionLeave = command({
  path: 'session leave',
  summary: 'leave a session',
  arguments: [SESSION],
  examples: [
    { line: 'asp session leave sess_…', about: 'the others go on' },
    { line: 'asp session leave sess_… --json', about: 'for a script' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({ session_id: readId('session', args.argument('session')) }),
  run: (context, { session_id }) =>
    changeSession(
      context,
      'leaveSession',
      { session_id, action: 'leave', state: null },
      {
        note: `Left ${session_id}`,
        reason: 'you have not joined it, or it has ended.',
        isSo: ({ mine }) => mine === 'left',
        soNote: `${session_id} was left already`,
      },
    ),
});

export const sessionEnd = command({
  path: 'session end',
  summary: 'end a session for everyone',
  arguments: [SESSION],
  examples: [
    { line: 'asp session end sess_…', about: 'no more messages; it can be reopened' },
    { line: 'asp session end sess_… --once "close-$TICKET"', about: 'safe to repeat' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({ session_id: readId('session', args.argument('session')) }),
  run: (context, { session_id }) =>
    changeSession(
      context,
      'endSession',
      { session_id, action: 'end', state: 'ended' },
      {
        note: `Ended ${session_id}`,
        reason: 'you have not joined it, or it has already ended.',
        isSo: ({ session }) => session.state === 'ended',
        soNote: `${session_id} has already ended`,
      },
    ),
});

export const sessionReopen = command({
  path: 'session reopen',
  summary: 'reopen an ended session',
  arguments: [SESSION, { usage: '[handles...]', about: 'whom to invite in addition' }],
  options: [{ flags: '-m, --message <text>', about: 'the first message after the reopening; - reads standard input' }],
  examples: [
    { line: 'asp session reopen sess_…', about: 'everyone who took part is invited again' },
    { line: 'asp session reopen sess_… carol.bot -m "one more thing"', about: 'with someone new and a message' },
  ],
  effect: 'write',
  stdout: 'the session id',
  parse: (args) => ({
    text: args.text('message'),
    session_id: readId('session', args.argument('session')),
    handles: readHandles(args.argument('handles')),
  }),
  async run(context, { session_id, handles, text }) {
    const message = await readFirstMessage(context, text);
    const path = { session_id };
    const body = {
      ...(handles.length > 0 && { invite: handles }),
      ...(message !== undefined && { initial_message: { content: message } }),
    };
    if (context.globals.isDryRun) return printRequest(context, 'reopenSession', { path, body });
    const reason = 'it is active, or you had not joined it when it ended.';
    const errorContext = { ...impossible(session_id, 'reopen', reason), isRepeatable: text !== '-' };
    const change = { session_id, action: 'reopen', state: 'active' } as const;
    try {
      const { idempotencyKey } = await write(context, 'reopenSession', { path, body }, errorContext);
      await printChange(context, { ...change, idempotency_key: idempotencyKey ?? null }, `Reopened ${session_id}`);
    } catch (error) {
      const { isNotFound, lookAtSession } = await import('./refusal.js');
      const seen = isNotFound(error) ? await lookAtSession(context, session_id) : undefined;
      if (seen?.session.state !== 'active') throw error;
      if (Object.keys(body).length > 0) throw await notReopened(session_id);
      await printChange(
        context,
        { ...change, idempotency_key: null, changed: false },
        `${session_id} is active already`,
      );
    }
  },
});

/** An active session takes invitations and messages without being reopened. */
const notReopened = (sessionId: string): Promise<Error> =>
  notFound(
    `${sessionId} is active already. Nobody was invited and nothing was sent.`,
    'invite with asp session invite, and write with asp send.',
    ['asp', 'session', 'show', sessionId],
  );

/** A refusal says what keeps the agent from it, where one look at the session shows that. */
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
    'joined, left and ended are met at once when the session is that way already; message and reply are waited for from',
    'now on, or after --after. A reply is a message of someone else; one that says it answers another message than the one',
    'you sent as --after, or named, is passed over. Prints the text of the message, else the session id. Exit 8 if it does',
    'not come in time.',
  ].join('\n'),
  arguments: [SESSION],
  options: [
    { flags: '--for <condition>', about: 'joined[:handle], message, reply[:message], ended, left[:handle]' },
    { flags: '--after <sequence>', about: 'what comes after this sequence counts too' },
  ],
  examples: [
    { line: 'asp session wait sess_… --for joined:alice.bot --timeout 5m', about: 'until she is there' },
    { line: 'answer=$(asp session wait sess_… --for reply --after 7)', about: 'the reply to what was sent as 7' },
  ],
  effect: 'read',
  stdout: 'the text of the message that came, else the session id',
  async parse(args) {
    const condition = args.text('for');
    const after = args.text('after');
    const sessionId = readId('session', args.argument('session'));
    if (condition === undefined)
      throw new UsageError('Missing --for: what should asp wait for?', {
        next: ['asp', 'session', 'wait', sessionId, '--for', 'reply'],
      });
    const { readCondition } = await import('./wait.js');
    return {
      sessionId,
      condition: readCondition(condition),
      after: after === undefined ? undefined : readCount('--after', after),
    };
  },
  run: async (context, options) => (await import('./wait.js')).waitInSession(context, options),
});

export const sessionExport = command({
  path: 'session export',
  summary: 'write all of a session, as JSON lines or Markdown',
  arguments: [SESSION],
  options: [
    { flags: '-o, --output <dir|file|->', about: 'a folder, a file, or - for standard output (-)' },
    {
      flags: '--format <jsonl|md>',
      about: 'the events as they are, or a transcript (md for a file named *.md, else jsonl)',
      choices: ['jsonl', 'md'],
    },
    { flags: '--with-attachments', about: 'its files too, into the folder' },
    { flags: '--force', about: 'replace files that are there' },
  ],
  examples: [
    { line: 'asp session export sess_… -o talk.md', about: 'to read' },
    { line: 'asp session export sess_… -o backup/ --with-attachments', about: 'everything' },
  ],
  effect: 'read',
  stdout: 'what was exported; with -o its path',
  parse(args) {
    const output = args.text('output') ?? '-';
    const hasAttachments = args.flag('with-attachments');
    if (hasAttachments && output === '-')
      throw new UsageError('--with-attachments needs a folder.', { why: 'name it with --output.' });
    const format = args.text('format') ?? (/\.(md|markdown)$/i.test(output) ? 'md' : 'jsonl');
    if (format === 'md' && output === '-')
      for (const option of ['json', 'jsonl', 'fields'] as const) args.refuseBoth('format', option);
    const sessionId = readId('session', args.argument('session'));
    return { sessionId, output, format, hasAttachments, isForced: args.flag('force') };
  },
  run: async (context, options) => (await import('./export.js')).exportSession(context, options),
});
