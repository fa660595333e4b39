import type { Session } from '../../../wire/session.js';
import { rememberWords } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { read } from '../../context/write.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';
import type { Column } from '../../terminal/table.js';
import type { Words } from '../../words/words.js';
import { participantNames } from './session-view.js';

export interface ListOptions {
  readonly state: 'active' | 'ended' | undefined;
  readonly limit: number;
  readonly isAll: boolean;
  readonly cursor: string | undefined;
}

const PAGE_MAX = 100;
const LIMIT_DEFAULT = 50;

export function parse(words: Words): ListOptions {
  words.refuseBoth('limit', 'all');
  const state = words.text('state');
  return {
    state: state === 'active' || state === 'ended' ? state : undefined,
    limit: words.count('limit', { min: 1, max: 100_000 }) ?? LIMIT_DEFAULT,
    isAll: words.flag('all'),
    cursor: words.text('cursor'),
  };
}

export async function run(context: Context, options: ListOptions): Promise<void> {
  const items: Session[] = [];
  let next: string | null = options.cursor ?? null;
  const wanted = options.isAll ? Number.POSITIVE_INFINITY : options.limit;
  do {
    const query = {
      limit: Math.min(PAGE_MAX, wanted - items.length),
      ...(options.state !== undefined && { state: options.state }),
      ...(next !== null && { cursor: next }),
    };
    const page = await read(context, 'listSessions', { query });
    items.push(...page.sessions);
    next = page.next_cursor;
  } while (next !== null && items.length < wanted);
  await context.output.list({ items, next_cursor: next }, columnsAt(context.clock.now()));
  await rememberWords(
    context,
    'sessions',
    items.map(({ id }) => id),
  );
  if (items.length === 0) await context.output.note('No sessions.');
  else if (next !== null) await context.output.note(`There are more: --all, or --cursor ${next}`);
}

function columnsAt(nowMs: number): readonly Column<Session>[] {
  return [
    { title: 'session', value: ({ id }) => id },
    {
      title: 'state',
      value: ({ state }) => state,
      paint: (text, { state }, style) => (state === 'active' ? style.green(text) : style.dim(text)),
    },
    { title: 'topic', value: ({ topic }) => topic ?? '-', isFlexible: true, piped: ({ topic }) => topic ?? '' },
    {
      title: 'with',
      value: (session) => participantNames(session),
      isFlexible: true,
    },
    {
      title: 'created',
      value: ({ created_at: at }) => relativeTime(at, nowMs),
      piped: ({ created_at: at }) => isoTime(at),
      paint: (text, _, style) => style.dim(text),
    },
  ];
}
