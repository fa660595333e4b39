import { isInvited } from '../../../agent/invitation.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import { isId } from '../../../wire/id.js';
import { LIST_LIMIT_MAX } from '../../../wire/limit.js';
import type { Session, SessionState } from '../../../wire/schemas/session.js';
import type { Context } from '../../context/context.js';
import { notFound } from '../../context/explain.js';
import { CliError, usageError } from '../../errors.js';
import { relativeTime } from '../../terminal/relative-time.js';
import { messageText } from '../message/message-text.js';
import { participantNames } from './participants.js';

/** How many sessions are searched for a name. */
const SCANNED_MAX = 1000;
const CANDIDATES_SHOWN = 3;

/** How to choose if several sessions match a name. */
type Wanted = 'any' | 'invited' | 'ended';

/** The id of a session that the user named (see `readSessionName`); a whole id is not looked up. */
export async function findSession(context: Context, name: string, wanted: Wanted = 'any'): Promise<string> {
  if (isId('session', name)) return name;
  return name.startsWith('@') ? findByHandle(context, name, wanted) : findByPart(context, name);
}

/** By the beginning or the end of its id. */
async function findByPart(context: Context, part: string): Promise<string> {
  const isEnd = part.startsWith('…');
  const [shown, begins, begin] = isEnd ? [part.slice(1), 'ends', 'end'] : [part, 'begins', 'begin'];
  const found: Session[] = [];
  for await (const session of listSessions(context))
    if (isEnd ? session.id.endsWith(shown) : session.id.startsWith(shown)) found.push(session);
  if (found.length > 1) throw ambiguous(context, `${found.length} session ids ${begin} with ${shown}.`, found);
  const [only] = found;
  if (only !== undefined) return only.id;
  throw await notFound(
    `No session id ${begins} with ${shown}.`,
    `asp searched the latest ${SCANNED_MAX.toLocaleString('en-US')} sessions of this agent.`,
    ['asp', 'session', 'list'],
  );
}

async function findByHandle(context: Context, handle: string, wanted: Wanted): Promise<string> {
  const found = await findSessionsWith(context, handle, wanted);
  if (found.length > 1) return chooseAmong(context, handle, found);
  const [only] = found;
  if (only !== undefined) return only.id;
  throw await notFound(
    `You have no session with ${handle}.`,
    `asp session list shows those you have; asp send ${handle} "hello" starts one.`,
    ['asp', 'session', 'list'],
  );
}

/** More than one session is shared with an agent. */
export async function severalWith(context: Context, handle: string, found: readonly Session[]): Promise<CliError> {
  const me = await context.actingHandle();
  // Every candidate has these two, so only the others tell them apart.
  const others = found.map((session) => ({
    ...session,
    participants: session.participants.filter((one) => one.handle !== me && one.handle !== handle),
  }));
  const next = ['asp', 'session', 'list', '--with', handle];
  return ambiguous(context, `You have ${found.length} sessions with ${handle}.`, others, next);
}

/** How many sessions a person can choose from; each costs a request. */
const CHOICES_MAX = 10;
/** The columns of a line that are left to no choice: a mark, and a bar whose color codes clack counts. */
const BESIDE_CHOICE = 15;
/** The ending of an id tells sessions apart; on a narrower terminal, the last message matters more. */
const ENDING = 6;
const ENDING_FROM = 50;

/**
 * The id of the session that a person chooses, by the last message of each.
 * @throws CliError `ASP_USAGE` if no one can be asked
 */
export async function chooseAmong(context: Context, handle: string, found: readonly Session[]): Promise<string> {
  if (!context.prompts.canAsk) throw await severalWith(context, handle, found);
  const latest = newestFirst(found).slice(0, CHOICES_MAX);
  const me = await context.actingHandle();
  const lines = await Promise.all(latest.map((session) => describeLatest(context, session, me)));
  const { shorten } = await import('../../terminal/output.js');
  const ages = latest.map((session) => relativeTime(activeAt(session), context.clock.now()));
  const wide = Math.max(...ages.map(({ length }) => length));
  const width = context.streams.stderr.columns - BESIDE_CHOICE;
  const list = (hasEnding: boolean): string[] =>
    latest.map(({ id }, index) => {
      const ending = hasEnding ? `…${id.slice(-ENDING)}  ` : '';
      return shorten(`${ages[index]?.padEnd(wide)}  ${ending}${lines[index]}`, width);
    });
  const short = list(width >= ENDING_FROM);
  const choices = new Set(short).size < short.length ? list(true) : short;
  const all = found.length > latest.length ? ` The latest ${latest.length}:` : '';
  const question = `You have ${found.length} sessions with ${handle}. Which one?${all}`;
  const chosen = await context.prompts.choose(question, choices, 'a session id');
  return latest[choices.indexOf(chosen)]?.id ?? '';
}

const activeAt = ({ last_activity_at: at, ended_at: ended, created_at: created }: Session): number =>
  at ?? ended ?? created;

const newestFirst = (sessions: readonly Session[]): Session[] =>
  [...sessions].sort((left, right) => activeAt(right) - activeAt(left));

/** The topic of a session and its last message, on one line. An invited agent cannot read it yet. */
async function describeLatest(context: Context, session: Session, me: string): Promise<string> {
  const { id, topic, last_sequence: last } = session;
  const { readLastMessages } = await import('./session-events.js');
  const message = isInvited(session, me)
    ? undefined
    : (await readLastMessages(context, id, last).catch(orNothing)).at(-1);
  const said = message === undefined ? '' : messageText(message);
  const begin = message === undefined || message.sender !== me ? '' : 'you: ';
  const state = isInvited(session, me) ? 'you are invited' : 'no messages';
  const parts = [...(topic === null ? [] : [topic]), message === undefined ? state : `${begin}${said}`];
  return sanitizeLine(parts.join(' · ')).replace(/\s+/g, ' ');
}

/** Without its last message, a session can still be chosen. */
async function orNothing(error: unknown): Promise<[]> {
  const { RequestError } = await import('../../../client/http/request-error.js');
  if (error instanceof RequestError || error instanceof CliError) return [];
  throw error;
}

/**
 * The open sessions that an agent shares with this one, or else the ended ones; sessions of only the two come before
 * groups.
 */
export async function findSessionsWith(
  context: Context,
  handle: string,
  wanted: Wanted = 'any',
): Promise<readonly Session[]> {
  const me = await context.actingHandle();
  const states: readonly SessionState[] = wanted === 'ended' ? ['ended'] : ['active', 'ended'];
  for (const state of states) {
    let found: Session[] = [];
    for await (const session of listSessions(context, state)) if (isBetween(session, me, handle)) found.push(session);
    for (const isBetter of [
      ...(wanted === 'invited' ? [(session: Session) => isInvited(session, me)] : []),
      ({ participants }: Session) => participants.length <= 2,
    ]) {
      const better = found.filter(isBetter);
      if (better.length > 0) found = better;
    }
    if (found.length > 0) return found;
  }
  return [];
}

/** In an active session, agents that left are no longer in it. */
function isBetween({ state, participants }: Session, me: string, handle: string): boolean {
  const isIn = (name: string): boolean =>
    participants.some((one) => one.handle === name && (state === 'ended' || one.status !== 'left'));
  return isIn(me) && (handle === me ? participants.length === 1 : isIn(handle));
}

/** The latest sessions, at most about {@link SCANNED_MAX}. */
async function* listSessions(context: Context, state?: SessionState): AsyncGenerator<Session> {
  const client = await context.client();
  const query = { limit: LIST_LIMIT_MAX, ...(state !== undefined && { state }) };
  let scanned = 0;
  for await (const { sessions } of client.pages('listSessions', { query, signal: context.signal })) {
    yield* sessions;
    scanned += LIST_LIMIT_MAX;
    if (scanned >= SCANNED_MAX) return;
  }
}

function ambiguous({ clock }: Context, message: string, found: readonly Session[], next?: readonly string[]): CliError {
  const shown = newestFirst(found)
    .slice(0, CANDIDATES_SHOWN)
    .map((session) => {
      const topic = session.topic === null ? '' : JSON.stringify(session.topic.trim());
      const facts = [participantNames(session), topic, relativeTime(activeAt(session), clock.now())];
      return `${session.id} (${facts.filter((fact) => fact !== '').join(', ')})`;
    });
  const rest = found.length > shown.length ? ` and ${found.length - shown.length} more` : '';
  return usageError(message, {
    why: `use the id: ${shown.join('; ')}${rest}.`,
    next: next ?? ['asp', 'session', 'list'],
  });
}
