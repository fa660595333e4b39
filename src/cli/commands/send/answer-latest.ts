import { LIST_LIMIT_MAX } from '../../../wire/limit.js';
import { HOPS, IN_REPLY_TO, isFailureNotice, readHops } from '../../../wire/message.js';
import type { Message } from '../../../wire/schemas/message.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { notFound } from '../../context/explain.js';
import { openRelations } from '../../context/relations.js';
import { messageText } from '../message/message-text.js';
import { findSession } from '../session/find-session.js';
import { lookAtSession, refuseInvited } from '../session/refusal.js';
import { readLastMessages, readSessionMessages } from '../session/session-events.js';
import { joinWaiting } from '../tail/follow.js';
import { PLAIN_MESSAGE, send } from './deliver.js';
import type { ReplyOptions } from './reply.js';

/** Sessions that `--last` looks at. */
const SESSIONS_MAX = 50;
const SHOWN_CHARS = 60;

/** Sends an answer to the latest message from another agent in a session, or to the one that this command is about. */
export async function answerLatest(context: Context, options: ReplyOptions): Promise<void> {
  const me = await context.actingHandle();
  const sessionId =
    options.session === undefined
      ? await findSessionToAnswer(context, me)
      : await findSession(context, options.session);
  const mayJoin = !context.globals.isDryRun;
  if (mayJoin && (await wantsToJoin(context, sessionId, options.joins))) await joinWaiting(context, [sessionId], me);
  const message = await findLatest(context, sessionId, me);
  const text = messageText(message).replace(/\s+/g, ' ');
  const shown = text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS - 1)}…` : text;
  await context.output.note(`Answering ${message.sender}: ${shown}`);
  await send(context, {
    ...PLAIN_MESSAGE,
    target: { kind: 'session', sessionId },
    text: options.text,
    files: options.files,
    isAsText: options.isAsText,
    metadata: { [IN_REPLY_TO]: message.id, [HOPS]: readHops(message) + 1 },
    isAnswer: true,
    isForAgent: options.isForAgent,
    waits: options.waits,
    isFenced: options.isFenced,
    ends: options.ends,
  });
}

/** Whether to accept an invitation first: from the option, or from the user's answer. */
async function wantsToJoin(context: Context, sessionId: string, isConfirmed: boolean): Promise<boolean> {
  if (isConfirmed || !context.prompts.canAsk) return isConfirmed;
  const seen = await lookAtSession(context, sessionId);
  if (seen?.mine !== 'invited' || seen.session.state !== 'active') return false;
  return context.prompts.confirm(`You are invited to ${sessionId} and have not joined. Join it?`, '--join');
}

async function findLatest(context: Context, sessionId: string, me: string): Promise<Message> {
  const isOthers = ({ sender }: Message): boolean => sender !== me;
  const { ASP_SESSION_ID: given, ASP_SEQUENCE: number } = context.environment;
  // In a command of asp run, later messages may have arrived in the meantime. Each of them gets its own answer.
  if (given === sessionId && number !== undefined && /^[1-9]\d{0,15}$/.test(number))
    for await (const message of readSessionMessages(context, sessionId, Number(number) - 1)) {
      if (message.sequence === Number(number) && isOthers(message)) return message;
      break;
    }
  let latest = (await readLastMessages(context, sessionId)).findLast(isOthers);
  // If only this agent has written for long, the whole session is searched.
  if (latest === undefined)
    for await (const message of readSessionMessages(context, sessionId)) if (isOthers(message)) latest = message;
  if (latest !== undefined) return latest;
  await refuseInvited(context, sessionId);
  throw await notFound(`${sessionId} has no message to answer.`, 'no one else has written in it.', [
    'asp',
    'session',
    'show',
    sessionId,
  ]);
}

/**
 * The most recently changed session whose last message is from another agent, or which an agent that this one knows has
 * invited it to: what is in it cannot be seen before. A stranger's invitation comes last, so that no stranger can take an
 * answer meant for someone else. A notice that a command failed needs no answer.
 */
async function findSessionToAnswer(context: Context, me: string): Promise<string> {
  const query = { state: 'active', limit: LIST_LIMIT_MAX } as const;
  const { sessions } = await read(context, 'listSessions', { query });
  const mine = sessions.flatMap(({ id, last_sequence: last, participants }) => {
    const status = participants.find(({ handle }) => handle === me)?.status;
    const others = participants.filter((one) => one.handle !== me && one.status === 'joined');
    return status === 'joined' || status === 'invited' ? [{ id, last, status, others }] : [];
  });
  const relationOf = openRelations(context);
  let fromStranger: string | undefined;
  for (const { id, last, status, others } of mine.slice(0, SESSIONS_MAX)) {
    if (status === 'invited') {
      for (const { handle } of others) if ((await relationOf(handle)) !== 'anyone') return id;
      fromStranger ??= id;
      continue;
    }
    const message = (await readLastMessages(context, id, last)).at(-1);
    if (message === undefined || message.sender === me || isFailureNotice(message)) continue;
    if (fromStranger !== undefined)
      await context.output.note(`You are also invited to ${fromStranger}, by an agent that is not on your allowlist.`);
    return id;
  }
  if (fromStranger !== undefined) return fromStranger;
  throw await notFound(
    'There is no message to answer.',
    'in each of your open sessions, the last message is your own, or there is none.',
    ['asp', 'inbox'],
  );
}
