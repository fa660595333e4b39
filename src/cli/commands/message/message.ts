import { MESSAGE_SEARCH_LIMIT_MAX, SEARCH_LIMIT_DEFAULT } from '../../../wire/limit.js';
import type { QueryInputOf } from '../../../wire/schemas/endpoint.js';
import type { Message } from '../../../wire/schemas/message.js';
import { command, describeTable } from '../../command.js';
import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { withRelations } from '../../context/relations.js';
import { FENCE_EACH_OPTION, refuseFencedJson } from '../../options.js';
import type { Column } from '../../terminal/output.js';
import { timeColumn } from '../../terminal/relative-time.js';
import { ifGiven, readHandle, readHandles, readSearchText, readSessionName, SESSION_ABOUT } from '../../values.js';
import { findSession } from '../session/find-session.js';
import { messageText, printFenced } from './message-text.js';

const LIST_DEFAULT = 50;
const LIST_MAX = 100_000;

export const messageList = command({
  path: 'message list',
  summary: 'list messages of a session: the last 50, or the first after a sequence',
  arguments: [{ usage: '<session>', about: SESSION_ABOUT }],
  options: [
    { flags: '-n, --last <count>', about: 'print the last N messages' },
    { flags: '--after <sequence>', about: 'messages after this sequence, oldest first' },
    { flags: '--limit <count>', about: `maximum number of results (default ${LIST_DEFAULT})` },
    { flags: '--all', about: 'all messages' },
    { flags: '--since <time>', about: 'only from this time on: RFC 3339, epoch ms, or 2h (ago)' },
    { flags: '--from <handles>', about: 'only messages from these agents', isRepeatable: true },
    FENCE_EACH_OPTION,
  ],
  examples: [
    { line: 'asp message list sess_… -n 5', about: 'the last five' },
    { line: "asp messages list sess_… --all --jsonl | jq -r '.content'", about: 'every text, for a script' },
  ],
  effect: 'read',
  stdout: describeTable('sequence, when, from, text'),
  parse(args, nowMs) {
    for (const option of ['limit', 'all', 'after'] as const) args.refuseBoth('last', option);
    args.refuseBoth('limit', 'all');
    refuseFencedJson(args);
    const range = { min: 1, max: LIST_MAX };
    const limit = args.count('last', range) ?? args.count('limit', range) ?? LIST_DEFAULT;
    return {
      session: readSessionName(args.argument('session')),
      after: args.count('after'),
      limit: args.flag('all') ? Number.POSITIVE_INFINITY : limit,
      sinceMs: args.time('since', nowMs),
      from: readHandles(args.texts('from')),
      isFenced: args.flag('fence'),
    };
  },
  // The last messages, or the first ones after a sequence; other events are left out.
  async run(context, { session, after, limit, sinceMs = 0, from, isFenced }) {
    const sessionId = await findSession(context, session);
    const { readSessionMessages } = await import('../session/session-events.js');
    const items: Message[] = [];
    let next: string | null = null;
    for await (const message of readSessionMessages(context, sessionId, after)) {
      if (message.created_at < sinceMs || (from.length > 0 && !from.includes(message.sender))) continue;
      if (after !== undefined && items.length === limit) {
        next = String(items.at(-1)?.sequence ?? after);
        break;
      }
      items.push(message);
      if (items.length > limit) items.shift();
    }
    if (isFenced) await printFenced(context, items);
    else {
      const related = await withRelations(context, items, ({ sender }) => sender);
      await context.output.list({ items: related, next_cursor: next }, messageColumns(context.clock.now()));
    }
    if (items.length === 0) await (await import('../session/refusal.js')).noteNone(context, sessionId, 'No messages.');
    else if (next !== null) await context.output.note(`Showing the first ${items.length}. More: --after ${next}`);
  },
});

function messageColumns(nowMs: number): readonly Column<Message>[] {
  return [
    { title: 'sequence', value: ({ sequence }) => String(sequence) },
    { ...timeColumn<Message>('when', ({ created_at: at }) => at, nowMs), isOptional: true },
    { title: 'from', value: ({ sender }) => sender, paint: (text, _, style) => style.cyan(text) },
    { title: 'text', value: messageText, isFlexible: true },
  ];
}

/**
 * The newest `limit` matches. A later page is about sessions with older activity, but may have newer messages, and some
 * of the first page again if the service indexed them in the meantime.
 */
async function searchAll(
  context: Context,
  query: QueryInputOf<'searchMessages'> & { readonly limit: number },
): Promise<Message[]> {
  const client = await context.client();
  let newest: Message[] | undefined;
  for await (const { messages } of client.pages('searchMessages', { query, signal: context.signal }))
    newest = newest === undefined ? messages : mergeNewest(newest, messages).slice(0, query.limit);
  return newest ?? [];
}

function mergeNewest(one: readonly Message[], other: readonly Message[]): Message[] {
  const all = new Map([...one, ...other].map((message) => [message.id, message]));
  return [...all.values()].sort((left, right) => right.created_at - left.created_at);
}

const NO_SEARCH = { messages: { ASP_NOT_OFFERED: 'The service does not search messages.' } };

export const messageSearch = command({
  path: 'message search',
  summary: 'search messages in the sessions this agent has joined, newest first',
  arguments: [{ usage: '<text...>', about: 'whole words, 2 to 100 characters' }],
  options: [
    { flags: '--session <session>', about: 'only in this session' },
    { flags: '--with <handle>', about: 'only in sessions with this agent' },
    {
      flags: '--limit <count>',
      about: `maximum number of results, up to ${MESSAGE_SEARCH_LIMIT_MAX} (default ${SEARCH_LIMIT_DEFAULT})`,
    },
  ],
  examples: [
    { line: 'asp message search deploy', about: 'everywhere' },
    { line: 'asp message search release notes --with alice.bot --json', about: 'with one agent, for a script' },
  ],
  effect: 'read',
  stdout: describeTable('session, sequence, when, from, text'),
  parse: (args) => ({
    text: readSearchText(args.argument('text').join(' ')),
    session: ifGiven(args.text('session'), readSessionName),
    counterpart: ifGiven(args.text('with'), readHandle),
    limit: args.count('limit', { min: 1, max: MESSAGE_SEARCH_LIMIT_MAX }) ?? SEARCH_LIMIT_DEFAULT,
  }),
  async run(context, { text: q, session, counterpart, limit }) {
    const sessionId = session && (await findSession(context, session));
    const inSession = sessionId === undefined ? {} : { session_id: sessionId };
    const query = { q, limit, ...inSession, ...(counterpart !== undefined && { counterpart }) };
    const messages = await explain(NO_SEARCH, searchAll(context, query));
    const inColumn: Column<Message> = { title: 'session', value: ({ session_id: id }) => id, isOptional: 'below' };
    const columns = messageColumns(context.clock.now());
    const page = { items: messages, next_cursor: null };
    await context.output.list(page, sessionId === undefined ? [inColumn, ...columns] : columns);
    if (messages.length === 0)
      await context.output.note('No message matches in the sessions that this agent has joined.');
  },
});
