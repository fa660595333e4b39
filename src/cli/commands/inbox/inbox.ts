import { fencePrinted } from '../../../kit/mcp.js';
import { sanitize, sanitizeLine } from '../../../kit/sanitize.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { type Args, command, describeTable, type GlobalOption, type Option } from '../../command.js';
import { remember } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { openRelations, relateSenders, withRelations } from '../../context/relations.js';
import { FENCE_EACH_OPTION, refuseFencedJson } from '../../options.js';
import type { Column } from '../../terminal/output.js';
import { timeColumn } from '../../terminal/relative-time.js';
import { ifGiven, readHandle, readSessionName, SESSION_ABOUT } from '../../values.js';
import { describeEvent, formatMessage, messageText, printFenced } from '../message/message-text.js';
import { findSession } from '../session/find-session.js';
import type { InboxItem } from './unread.js';

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 1000;

const OPTIONS = [
  { flags: '--invited', about: 'only invitations' },
  { flags: '--unread', about: 'only sessions with unread messages' },
  { flags: '--with <handle>', about: 'only sessions that this agent is in' },
  { flags: '--since <time>', about: 'only from this time on: RFC 3339, epoch ms, or 2h (ago)' },
  { flags: '--limit <count>', about: `maximum number of sessions (default ${LIMIT_DEFAULT})` },
  { flags: '--all', about: 'check every session' },
  {
    flags: '--fence',
    about: 'print the list between nonce lines, with the relation of each sender, for language models',
  },
] as const satisfies readonly Option[];

export type InboxOptions = Omit<ReturnType<typeof parse>, 'isFenced'>;

function parse(args: Args<(typeof OPTIONS)[number] | GlobalOption>, nowMs: number) {
  refuseFencedJson(args);
  args.refuseBoth('limit', 'all');
  return {
    isInvited: args.flag('invited'),
    isUnread: args.flag('unread'),
    handle: ifGiven(args.text('with'), readHandle),
    sinceMs: args.time('since', nowMs),
    limit: args.count('limit', { min: 1, max: LIMIT_MAX }) ?? LIMIT_DEFAULT,
    isAll: args.flag('all'),
    isFenced: args.flag('fence'),
  };
}

export const inbox = command({
  path: 'inbox',
  summary: 'list unread messages and invitations',
  details: [
    'A message is unread until you answer in its session, or read it with asp inbox read or asp chat. asp tail does',
    'not mark messages as read.',
  ].join('\n'),
  options: OPTIONS,
  examples: [
    { line: 'asp inbox', about: 'sessions with something new, latest first' },
    { line: 'asp inbox --invited', about: 'pending invitations' },
    { line: "asp inbox --unread --json | jq '[.items[].unread] | add'", about: 'the number of unread messages' },
  ],
  effect: 'read',
  stdout: describeTable('with, new, last, when, session'),
  parse,
  async run(context, options) {
    const { collectInbox } = await import('./unread.js');
    const { items, isCut } = await collectInbox(context, options);
    if (options.isFenced) await printFencedList(context, items);
    else {
      const related = await withRelations(context, items, (item) => findActor(item.last_event));
      await context.output.list({ items: related, next_cursor: null }, listColumns(context));
    }
    const latest = items.length === 1 ? 'This is the latest one' : `These are the latest ${items.length}`;
    const what = items.length === 0 ? 'Nothing new' : latest;
    if (isCut) await context.output.note(`${what}. Not every session was checked: use a higher --limit, or --all.`);
    else if (items.length === 0) await context.output.note('Nothing new.');
    const found = items.map((item) => ({ name: item.session_id, about: item.topic ?? item.with.join(', ') }));
    await remember(context, 'sessions', found);
  },
});

function listColumns(context: Context): readonly Column<InboxItem>[] {
  return [
    {
      title: 'with',
      value: (item) => item.with.join(', ') || '-',
      isFlexible: 'last',
      paint: (text, _, style) => style.cyan(text),
    },
    { title: 'new', value: describeNew, paint: (text, _, style) => style.bold(text) },
    { title: 'last', value: describeLast, isFlexible: true },
    timeColumn('when', ({ last_event: { created_at: at } }) => at, context.clock.now()),
    { title: 'session', value: (item) => item.session_id, isOptional: 'below' },
  ];
}

/** A line for each session. Words of others come last, as a JSON string. */
async function printFencedList(context: Context, items: readonly InboxItem[]): Promise<void> {
  if (items.length === 0) return;
  const senders = await relateSenders(openRelations(context), { events: items.map((item) => item.last_event) });
  const lines = items.map((item) => {
    const last = `last from ${sanitizeLine(findActor(item.last_event) ?? '-')}: ${JSON.stringify(sanitize(describeLast(item)))}`;
    return `${item.session_id}  new: ${describeNew(item)}  ${last}`;
  });
  await context.output.verbatim(`${fencePrinted(context.random, senders, lines.join('\n'))}\n`);
}

function describeNew({ unread, has_more: hasMore, status, state }: InboxItem): string {
  if (status === 'invited' && state === 'active') return 'invited';
  return unread === 0 ? '-' : `${unread}${hasMore ? '+' : ''}`;
}

function describeLast({ last_event: event, topic }: InboxItem): string {
  if (isMessageEvent(event)) return messageText(event.payload);
  const { initial_message: initial } = event.payload;
  const content = (initial as { content?: unknown } | undefined)?.content;
  if (typeof content === 'string') return content;
  return event.type === 'session.invited' ? (topic ?? describeEvent(event)) : describeEvent(event);
}

export const inboxRead = command({
  path: 'inbox read',
  summary: 'print the unread messages of a session and mark them as read',
  arguments: [{ usage: '<session>', about: SESSION_ABOUT }],
  options: [FENCE_EACH_OPTION],
  examples: [
    { line: 'asp inbox read @alice.bot', about: 'her messages since you last answered or read' },
    { line: "asp inbox read sess_… --json | jq -r '.messages[].content'", about: 'the texts, for a script' },
  ],
  effect: 'read',
  stdout: 'the unread messages, oldest first: time, sender and text',
  parse(args) {
    refuseFencedJson(args);
    return { session: readSessionName(args.argument('session')), isFenced: args.flag('fence') };
  },
  async run(context, { session, isFenced }) {
    const sessionId = await findSession(context, session);
    const { readUnread } = await import('./unread.js');
    const { unread, markRead } = await readUnread(context, sessionId);
    const { messages, unread_left: left } = unread;
    if (messages.length === 0) await (await import('../session/refusal.js')).refuseInvited(context, sessionId);
    const now = context.clock.now();
    if (isFenced) await printFenced(context, messages);
    else {
      const related = await withRelations(context, messages, ({ sender }) => sender);
      await context.output.document({ ...unread, messages: related }, (safe, style) =>
        safe.messages.map((message) => formatMessage(message, style, now, context.streams.stdout)).join('\n'),
      );
    }
    await markRead();
    if (messages.length === 0) await context.output.note('Nothing unread.');
    else if (left > 0) await context.output.note(`${left} more are unread: run the same command again.`);
    else await context.output.detail(`answer with: asp reply ${sessionId} "…"`);
  },
});
