import { createOutageNotes, persist } from '../../../agent/persist.js';
import { createTakenReports, type TakenReports } from '../../../agent/taken-reports.js';
import type { Client } from '../../../client/client.js';
import { quoteArgs } from '../../../kit/format.js';
import { randomUuid } from '../../../kit/random.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import { textWidth, wrapText } from '../../../kit/wrap.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { CHAT, SENT_BY } from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { JsonObject } from '../../../wire/schemas/requests.js';
import { isAgentCalling } from '../../context/agent-hint.js';
import { write } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { explain, notFound, withContext, withScopeOptions } from '../../context/explain.js';
import { openLineEditor } from '../../terminal/line-editor.js';
import { sanitizeDeep } from '../../terminal/output.js';
import type { Style } from '../../terminal/style.js';
import { openReadMarks, type ReadMarks } from '../inbox/unread.js';
import { describeEvent, formatMessage } from '../message/message-text.js';
import { readLines } from '../send/content.js';
import { chooseAmong, findSession, findSessionsWith } from '../session/find-session.js';
import { unreachableAgents } from '../session/participants.js';
import { explainRefusal, lookAtSession } from '../session/refusal.js';
import { readLastMessages } from '../session/session-events.js';
import { joinWaiting } from '../tail/follow.js';
import type { ChatOptions } from './chat.js';

/** Where lines come from and messages go to: a person at a terminal, or pipes. */
interface Conversation {
  readonly isWithPerson: boolean;
  /** The lines that a person typed and that wait for the one that is being sent. */
  readonly waiting?: number;
  /** Resolves once a person can type no more. */
  readonly ended?: Promise<void>;
  lines(): AsyncIterable<string>;
  print(text: string): Promise<void>;
  close(): void;
}

interface Chat {
  readonly context: Context;
  readonly client: Client;
  readonly me: string;
  readonly conversation: Conversation;
  readonly style: Style;
  readonly marks: ReadMarks;
  readonly reports: TakenReports;
  /** Messages sent from this chat: they are already on the screen. */
  readonly sent: Set<string>;
  /** The line that is being sent. */
  sending: Promise<unknown>;
  isSending: boolean;
}

const HELP =
  'Every line is sent, except /help and /quit; //help sends /help. /quit or Ctrl-D leaves the chat, and you stay in the session.';

const wrapped = ({ streams: { stdout } }: Context, line: string): string =>
  stdout.isTerminal ? wrapText(line, textWidth(stdout)) : line;

/** Ends with the input, with the session, or when the agent leaves the session. */
export async function converse(context: Context, options: ChatOptions): Promise<void> {
  const me = await context.actingHandle();
  const found = await chooseSession(context, options.name);
  if (found !== undefined) await requireJoined(context, found, me, options.joins);
  const conversation = await openConversation(context);
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const chat: Chat = {
    context,
    client: await context.client(),
    me,
    conversation,
    style: await context.output.style(),
    marks: await openReadMarks(context, me),
    reports: createTakenReports(context, () => context.client()),
    sent: new Set(),
    sending: Promise.resolve(),
    isSending: false,
  };
  void conversation.ended?.then(async () => {
    if (chat.isSending && !signal.aborted) await context.output.note('Still sending what you typed. Ctrl-C gives up.');
  });
  let following: Promise<void> | undefined;
  let isOver = false;
  let failure: unknown;
  const follow = (sessionId: string, after: number): void => {
    following = explain({ subject: sessionId }, followSession(chat, sessionId, after, signal))
      .then(() => {
        isOver = !signal.aborted;
      })
      .catch((error: unknown) => {
        if (!signal.aborted) failure = error;
      })
      .finally(() => conversation.close());
  };
  let sessionId = found;
  context.signal.addEventListener('abort', conversation.close, { once: true });
  try {
    if (conversation.isWithPerson) await greet(chat, options.name, found === undefined);
    if (sessionId !== undefined) follow(sessionId, await showHistory(chat, sessionId, options));
    for await (const typed of conversation.lines()) {
      const word = conversation.isWithPerson ? typed.trim() : undefined;
      if (isOver || failure !== undefined || word === '/quit') break;
      if (word === '/help') await conversation.print(chat.style.dim(wrapped(context, HELP)));
      if (typed.trim() === '' || word === '/help') continue;
      const line = word === '//help' || word === '//quit' ? word.slice(1) : typed;
      if (sessionId !== undefined) await sendLine(chat, sessionId, line, signal);
      else {
        const started = await startSession(chat, options, line);
        sessionId = started.sessionId;
        follow(sessionId, started.sequence);
      }
    }
  } finally {
    stop.abort(new Error('the chat is over'));
    context.signal.removeEventListener('abort', conversation.close);
    conversation.close();
    await following;
    await Promise.all([chat.marks.save(), chat.reports.settle()]);
  }
  if (failure !== undefined) throw failure;
  context.signal.throwIfAborted();
  if (!isOver && sessionId !== undefined && conversation.isWithPerson) {
    const words = withScopeOptions(['asp', 'chat', sessionId], context.globals);
    await context.output.note('You left the chat. The session is still open. To continue:');
    await context.output.note(`  ${quoteArgs(words)}`);
  }
}

/** The session to chat in; undefined if there is none yet with this agent. If there are several, asks the person. */
async function chooseSession(context: Context, name: string): Promise<string | undefined> {
  if (!name.startsWith('@')) return findSession(context, name);
  const found = (await findSessionsWith(context, name)).filter(({ state }) => state === 'active');
  if (found.length < 2) return found[0]?.id;
  return chooseAmong(context, name, found);
}

async function requireJoined(context: Context, sessionId: string, me: string, joins: boolean): Promise<void> {
  const seen = await lookAtSession(context, sessionId);
  if (seen?.session.state === 'active' && seen.mine === 'invited') {
    const question = `You are invited to ${sessionId} and have not joined. Join it?`;
    if (joins || (context.prompts.canAsk && (await context.prompts.confirm(question, '--join'))))
      return joinWaiting(context, [sessionId], me);
  }
  if (seen?.session.state === 'active' && seen.mine === 'joined') return;
  const refusal = await notFound(
    `${sessionId} cannot be seen by this agent.`,
    'it does not exist, or this agent is not in it.',
    ['asp', 'session', 'list'],
  );
  throw await explainRefusal(context, sessionId, refusal);
}

async function openConversation(context: Context): Promise<Conversation> {
  const { streams, globals, interrupt } = context;
  const isWithPerson = streams.stdin.isTerminal && streams.stderr.isTerminal && context.output.format === 'human';
  if (isWithPerson) {
    const isAccessible = globals.isAccessible || context.environment['TERM'] === 'dumb';
    return Object.assign(await openLineEditor(streams, { isAccessible, prompt: '> ', interrupt }), { isWithPerson });
  }
  const stop = new AbortController();
  const reading = { ...context, signal: AbortSignal.any([context.signal, stop.signal]) };
  return {
    isWithPerson,
    async *lines() {
      try {
        yield* readLines(reading);
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    },
    print: (text) => streams.stdout.write(`${text}\n`),
    close: () => stop.abort(new Error('the chat is over')),
  };
}

async function greet({ context, conversation, style, me }: Chat, name: string, isNew: boolean): Promise<void> {
  const what = isNew ? `Your first line starts a session with ${name}.` : `This is ${name}.`;
  await conversation.print(style.dim(wrapped(context, `${what} You are ${me}. Ctrl-D leaves.`)));
}

/** Shows the last messages; events after the returned sequence are new. */
async function showHistory(chat: Chat, sessionId: string, { last, showsUnread }: ChatOptions): Promise<number> {
  const messages = await readLastMessages(chat.context, sessionId);
  const firstUnread = messages.findIndex(({ sequence }) => sequence > chat.marks.get(sessionId));
  const from = Math.max(0, messages.length - last);
  const isWhole = showsUnread && firstUnread !== -1;
  for (const message of messages.slice(isWhole ? Math.min(from, firstUnread) : from)) {
    const { session_id, sequence, created_at } = message;
    await showEvent(chat, {
      type: 'session.message',
      session_id,
      event_id: '',
      sequence,
      created_at,
      payload: message,
    });
  }
  return messages.at(-1)?.sequence ?? 0;
}

async function followSession(chat: Chat, sessionId: string, after: number, signal: AbortSignal): Promise<void> {
  const { context, client, me, conversation, style } = chat;
  // Notes would go to stderr, which shows the line being typed, so they go where the messages go.
  const note = (text: string): Promise<void> => conversation.print(style.dim(wrapped(context, sanitizeLine(text))));
  const output = { ...context.output, ...(conversation.isWithPerson && { note }) };
  const noteOutage = createOutageNotes({ output });
  const items = client.tail({ sessions: [{ sessionId, after }], handle: me, signal });
  for await (const item of items) {
    await noteOutage(item);
    if (item.kind === 'event') await showNew(chat, item.event);
    if (item.kind === 'end' || (item.kind === 'event' && item.event.type === 'session.ended')) return;
  }
}

/** Messages typed here are already on the screen; the agent's messages from elsewhere are not. */
async function showNew(chat: Chat, event: EventEnvelope): Promise<void> {
  if (findActor(event) === chat.me) {
    await chat.sending.catch(() => {});
    if (!isMessageEvent(event) || chat.sent.delete(event.payload.id)) return;
  }
  await showEvent(chat, event);
}

async function showEvent(chat: Chat, event: EventEnvelope): Promise<void> {
  const { context, conversation, style, me, marks, reports } = chat;
  if (context.output.format === 'human') {
    const text = isMessageEvent(event)
      ? formatMessage(sanitizeDeep(event.payload), style, context.clock.now(), context.streams.stdout)
      : style.dim(wrapped(context, `· ${sanitizeLine(describeEvent(event))}`));
    await conversation.print(text);
  } else await context.output.record(event);
  if (!conversation.isWithPerson || !isMessageEvent(event)) return;
  marks.advance(event.session_id, event.sequence);
  if (event.payload.sender !== me) reports.note(event.session_id, event.sequence);
}

async function startSession(
  chat: Chat,
  { name, topic }: ChatOptions,
  line: string,
): Promise<{ sessionId: string; sequence: number }> {
  const { context, sent } = chat;
  const body = {
    invite: [name],
    initial_message: toMessage(chat, line),
    ...(topic !== undefined && { topic }),
  };
  const creating = write(
    context,
    'createSession',
    { body },
    unreachableAgents(name, name, `${name} could not be reached.`),
  );
  const { reply } = await whileSending(chat, context.signal, creating);
  if (reply.message_id !== null) sent.add(reply.message_id);
  return { sessionId: reply.session_id, sequence: reply.sequence ?? 0 };
}

/**
 * Says that a person typed the line, unless it came from a pipe, or from a coding agent, which may have a terminal for
 * its commands (wire: Content and attachments, replies).
 */
function toMessage({ context, conversation }: Chat, line: string): { content: string; metadata?: JsonObject } {
  const isFromPerson = conversation.isWithPerson && !isAgentCalling(context.environment);
  return { content: line, ...(isFromPerson && { metadata: { [SENT_BY]: CHAT } }) };
}

const describeUnsent = (count: number): string =>
  `Your last ${count === 1 ? 'line' : `${count} lines`} may not have been sent.`;

/** If the person gives up in the meantime, says how much of what they typed may be lost. */
async function whileSending<Result>(chat: Chat, signal: AbortSignal, sending: Promise<Result>): Promise<Result> {
  const { context, conversation } = chat;
  chat.isSending = true;
  try {
    return await sending;
  } catch (error) {
    if (signal.aborted && conversation.waiting !== undefined)
      await context.output.note(describeUnsent(1 + conversation.waiting));
    throw error;
  } finally {
    chat.isSending = false;
  }
}

/** Sends a line with one key for all attempts, and waits for a service that is down. */
async function sendLine(chat: Chat, sessionId: string, line: string, signal: AbortSignal): Promise<void> {
  const { context, client, sent } = chat;
  const path = { session_id: sessionId };
  const idempotencyKey = randomUuid(context.random);
  const sending = persist(context, signal, () =>
    client.call('sendMessage', { path, body: toMessage(chat, line), idempotencyKey, signal }),
  ).then((settled) => {
    if (settled.kind === 'done') sent.add(settled.reply.reply.message_id);
    return settled;
  });
  chat.sending = sending;
  const settled = await whileSending(chat, signal, explain({ subject: sessionId }, sending));
  if (settled.kind === 'done') return;
  const outcomeText = { not_applied: 'Your last line was not sent.', applied: '', unknown: 'It may have been sent.' };
  throw await explainRefusal(context, sessionId, withContext(settled.error, { subject: sessionId, outcomeText }));
}
