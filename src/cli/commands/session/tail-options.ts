import { isLoopbackHost } from '../../../kit/loopback.js';
import { EVENT_TYPES } from '../../../wire/event.js';
import { UsageError } from '../../terminal/cli-error.js';
import { suggest } from '../../words/suggest.js';
import { readCount, readHandles, readId, readTime } from '../../words/values.js';
import type { Words } from '../../words/words.js';

export type TailView = 'lines' | 'pretty' | 'text' | 'fence';

export interface TailOptions {
  /** Empty: every session of the acting agent. */
  readonly sessionIds: readonly string[];
  readonly last: number | undefined;
  readonly after: number | undefined;
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
  readonly isFollowing: boolean;
  readonly types: readonly string[];
  readonly from: readonly string[];
  readonly isNotMe: boolean;
  readonly count: number | undefined;
  readonly idleMs: number | undefined;
  readonly isKept: boolean;
  readonly cursorFile: string | undefined;
  readonly view: TailView;
  readonly hasControl: boolean;
  readonly heartbeatMs: number | undefined;
  readonly readyFile: string | undefined;
  readonly joins: boolean;
  readonly command: string | undefined;
  readonly forwardUrl: string | undefined;
}

/** `message` and `session.message` are the same; a type nobody knows yet is taken as it is when it has a dot. */
function readType(word: string): string {
  const known: readonly string[] = EVENT_TYPES;
  const type = word.includes('.') ? word : `session.${word}`;
  if (known.includes(type) || word.includes('.')) return type;
  const near = suggest(type, known)[0];
  throw new UsageError(`'${word}' is not a type of event.`, {
    why: near === undefined ? `types: ${known.join(', ')}.` : `did you mean ${near}?`,
  });
}

function viewOf(words: Words): TailView {
  const views = ['pretty', 'text', 'fence'] as const;
  for (const [index, view] of views.entries()) {
    for (const other of views.slice(index + 1)) words.refuseBoth(view, other);
    for (const option of ['json', 'jsonl', 'fields']) words.refuseBoth(view, option);
  }
  return views.find((view) => words.flag(view)) ?? 'lines';
}

/** An address that events may be posted to: encrypted, or on this machine. */
function readForwardUrl(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHost(url.hostname))) return url.href;
  throw new UsageError(`--forward '${text}' is not an https address.`, { why: 'http is for this machine only.' });
}

export function readTailOptions(words: Words, nowMs: number): TailOptions {
  const sessionIds = [...new Set(words.arguments.flatMap((word) => word.split(',')))].map((id) =>
    readId('session', id),
  );
  for (const [one, other] of [
    ['last', 'after'],
    ['last', 'since'],
    ['after', 'since'],
    ['exec', 'forward'],
    ['exec', 'pretty'],
    ['exec', 'text'],
    ['exec', 'fence'],
    ['follow', 'no-follow'],
  ] as const)
    words.refuseBoth(one, other);
  const isFollowing = !words.flag('no-follow');
  if (sessionIds.length === 0) {
    for (const option of ['last', 'after', 'since'])
      if (words.text(option) !== undefined)
        throw new UsageError(`--${option} needs a session.`, {
          why: 'a tail of every session begins where the last connection ended, or where --cursor-file says.',
          next: ['asp', 'session', 'list'],
        });
    if (!isFollowing) throw new UsageError('--no-follow needs a session.', { next: ['asp', 'session', 'list'] });
  }
  const time = (option: string): number | undefined => {
    const text = words.text(option);
    return text === undefined ? undefined : readTime(`--${option}`, text, nowMs);
  };
  const untilMs = time('until');
  const after = words.text('after');
  const heartbeatMs = words.duration('heartbeat');
  const view = viewOf(words);
  return {
    sessionIds,
    last: words.count('last'),
    after: after === undefined ? undefined : readCount('--after', after),
    sinceMs: time('since'),
    untilMs,
    isFollowing: isFollowing && (untilMs === undefined || untilMs > nowMs),
    types: words
      .texts('type')
      .flatMap((word) => word.split(','))
      .map(readType),
    from: readHandles(words.texts('from')),
    isNotMe: words.flag('not-me'),
    count: words.count('count', { min: 1 }),
    idleMs: words.duration('idle'),
    isKept: words.flag('keep'),
    cursorFile: words.text('cursor-file'),
    view,
    hasControl: words.flag('control') || heartbeatMs !== undefined,
    heartbeatMs,
    readyFile: words.text('ready-file'),
    joins: words.flag('join'),
    command: words.text('exec'),
    forwardUrl: readForwardUrl(words.text('forward')),
  };
}
