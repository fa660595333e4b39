import { durationMs, UNIT_MS } from '../kit/duration.js';
import { isHandle, OWNER_GLOB_PATTERN, toHandle } from '../wire/handle.js';
import { ID_PREFIX, type IdKind, isId } from '../wire/id.js';
import { usageError } from './errors.js';

/** What `read` makes of a text that may be left out. */
export const ifGiven = <Value>(text: string | undefined, read: (text: string) => Value): Value | undefined =>
  text === undefined ? undefined : read(text);

/** Milliseconds as people write them: `1ms`, `30s`, `5m`. */
export function durationText(ms: number): string {
  const [unit = 'ms', size = 1] =
    Object.entries(UNIT_MS).findLast(([, unitMs]) => ms >= unitMs && ms % unitMs === 0) ?? [];
  return `${ms / size}${unit}`;
}

export function readDuration(option: string, text: string, longestMs?: number): number {
  const value = durationMs(text, longestMs);
  if (value === undefined)
    throw usageError(`${option} '${text}' is not a duration.`, {
      why: 'durations look like 500ms, 30s, 10m, 2h, 7d.',
    });
  return value;
}

/** A duration within limits. */
export function readDurationFrom(
  option: string,
  text: string,
  { min = 0, max }: { readonly min?: number; readonly max: number },
): number {
  const ms = readDuration(option, text, Number.MAX_SAFE_INTEGER);
  if (ms >= min && ms <= max) return ms;
  const range =
    min === 0 ? `longer than ${durationText(max)}` : `not from ${durationText(min)} to ${durationText(max)}`;
  throw usageError(`${option} '${text}' is ${range}.`);
}

const SIZE_UNIT: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/** A number of bytes: `500`, `64K`, `10M`, `2G`, in units of 1024. */
export function readSize(option: string, text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,12})([kmg]?)$/i.exec(text) ?? [];
  const bytes = Number(digits) * (SIZE_UNIT[unit.toLowerCase()] ?? 1);
  if (digits !== '' && Number.isSafeInteger(bytes)) return bytes;
  throw usageError(`${option} '${text}' is not a size.`, { why: 'sizes look like 500, 64K, 10M, 2G.' });
}

/** RFC 3339, epoch milliseconds, or a duration that means "ago"; in epoch milliseconds. */
export function readTime(option: string, text: string, nowMs: number): number {
  const ago = durationMs(text);
  if (ago !== undefined) return nowMs - ago;
  if (/^\d{10,16}$/.test(text)) return Number(text);
  const parsed = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/i.test(text)
    ? Date.parse(text.replace(' ', 'T'))
    : Number.NaN;
  if (Number.isNaN(parsed))
    throw usageError(`${option} '${text}' is not a time.`, {
      why: 'times look like 2026-11-21T09:00:00Z, 1795251600000 (epoch ms), or 2h (ago).',
    });
  return parsed;
}

export function readCount(option: string, text: string, range: { min?: number; max?: number } = {}): number {
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = range;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isInteger(value) || value < min || value > max)
    throw usageError(
      `${option} '${text}' is not a whole number ${max < 1e15 ? `from ${min} to ${max}` : `of at least ${min}`}.`,
    );
  return value;
}

/** `@owner.name` from `@owner.name` or `owner.name`, or undefined. */
export function parseHandle(text: string): string | undefined {
  const handle = toHandle(text);
  return isHandle(handle) ? handle : undefined;
}

/** Every agent of an owner, `@owner.*`; undefined when the text is not that. */
export function parseOwnerGlob(text: string): string | undefined {
  const glob = toHandle(text);
  return OWNER_GLOB_PATTERN.test(glob) ? glob : undefined;
}

/** `source` is what gave the text, if that is not an argument. */
export function readHandle(text: string, source?: string): string {
  const handle = parseHandle(text);
  if (handle !== undefined) return handle;
  const kind = findIdKind(text);
  if (kind !== undefined)
    throw usageError(`'${text}' is ${KINDS[kind].name}, but a handle (@owner.name) belongs here.`, {
      next: commandAbout(kind, text),
    });
  const words = text.split(/\s+/);
  const near = parseHandle(text.toLowerCase().replace(/(?<=.)[@/]/, '.'));
  const form = near === undefined ? 'a handle has the form @owner.agent_name, in lower case.' : `did you mean ${near}?`;
  throw usageError(`${source === undefined ? '' : `${source} `}'${text}' is not a handle.`, {
    why:
      words.length > 1 && words.every((word) => parseHandle(word) !== undefined)
        ? 'separate several handles with commas.'
        : form,
    correction: near === undefined ? undefined : { typed: text, meant: near },
  });
}

/** Items from texts that may each be a comma-separated list; each once, in order. */
export function readList<Item>(texts: readonly string[], read: (text: string) => Item): Item[] {
  const each = texts.flatMap((text) => text.split(',')).filter((text) => text !== '');
  return [...new Set(each.map(read))];
}

export const readHandles = (texts: readonly string[]): string[] => readList(texts, (text) => readHandle(text));

const SEARCH_TEXT_LENGTHS = { min: 2, max: 100 } as const;

/** The text of a search (spec: Search; wire: Agents, search, trust). */
export function readSearchText(text: string): string {
  const { length } = [...text.trim()];
  if (length >= SEARCH_TEXT_LENGTHS.min && length <= SEARCH_TEXT_LENGTHS.max) return text.trim();
  throw usageError(`A search has ${SEARCH_TEXT_LENGTHS.min} to ${SEARCH_TEXT_LENGTHS.max} characters.`);
}

const KINDS: Readonly<Record<IdKind, { name: string; help: readonly string[] }>> = {
  session: { name: 'a session id', help: ['asp', 'session', 'show'] },
  message: { name: 'a message id', help: ['asp', 'message', 'search', '--help'] },
  event: { name: 'an event id', help: ['asp', 'session', 'events', '--help'] },
  attachment: { name: 'an attachment id', help: ['asp', 'attachment', 'show'] },
  agent: { name: 'an agent id', help: ['asp', 'agent', 'show', '--help'] },
  account: { name: 'an account id', help: ['asp', 'whoami'] },
  oauthClient: { name: 'an OAuth client id', help: ['asp', 'auth', 'clients'] },
};

/** The kind of id that a text claims to be by its prefix. */
export function findIdKind(text: string): IdKind | undefined {
  // `sess_a.bot` is a handle: its owner has that name.
  if (parseHandle(text) !== undefined) return undefined;
  for (const [kind, prefix] of Object.entries(ID_PREFIX)) if (text.startsWith(prefix)) return kind as IdKind;
  return undefined;
}

/** The command that an id belongs to, with the id if it takes one. */
function commandAbout(kind: IdKind, text: string): readonly string[] {
  const { help } = KINDS[kind];
  const takesId = !help.includes('--help') && help.length > 2 && kind !== 'oauthClient';
  return takesId && isId(kind, text) ? [...help, text] : help;
}

/** An id of `kind`. Any other text gets an error that names the command it belongs to. */
export function readId(kind: IdKind, text: string): string {
  if (isId(kind, text)) return text;
  const { name } = KINDS[kind];
  const prefix = ID_PREFIX[kind];
  const other = findIdKind(text);
  if (other !== undefined && other !== kind) {
    throw usageError(`'${text}' is ${KINDS[other].name}, but ${name} (${prefix}…) belongs here.`, {
      next: commandAbout(other, text),
    });
  }
  if (other === undefined && parseHandle(text) !== undefined)
    throw usageError(`'${text}' is a handle, but ${name} (${prefix}…) belongs here.`, {
      next: kind === 'session' ? ['asp', 'session', 'list'] : ['asp', 'agent', 'show', text],
    });
  throw usageError(`'${text}' is not ${name}.`, {
    why: `${name} is ${prefix} and 26 uppercase letters and digits.`,
  });
}

/** How help describes an argument that names a session. */
export const SESSION_ABOUT = 'sess_…, its beginning, @owner.name, or the address of its page';

const SESSION_PREFIX = /^sess_([0-7][0-9A-HJKMNP-TV-Z]{3,25})(\u2026|\.\.\.)?$/i;
/** What a double click on an id selects in some terminals. */
const BARE_ID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i;
const SESSION_END = /^(?:\u2026|\.\.\.)([0-9A-HJKMNP-TV-Z]{4,26})$/i;
const SESSION_IN_URL = /\/(sess_[0-7][0-9A-HJKMNP-TV-Z]{25})(?=[/?#]|$)/;

/**
 * A session as people name it: its id, the beginning of its id, its end as `asp tail --pretty` shows it, the handle of
 * the agent they talk to in it, or the address of its page. Returns `sess_…`, whole or not, `…end`, or `@owner.name`.
 */
export function readSessionName(text: string): string {
  const handle = parseHandle(text);
  if (handle !== undefined) return handle;
  if (/^https?:\/\//i.test(text)) {
    const id = SESSION_IN_URL.exec(text)?.[1];
    if (id !== undefined) return id;
    throw usageError(`'${text}' is not the address of a session.`, {
      why: 'the address of a session contains its id (sess_…).',
    });
  }
  const prefix = SESSION_PREFIX.exec(text)?.[1] ?? BARE_ID.exec(text)?.[0];
  if (prefix !== undefined) return `${ID_PREFIX.session}${prefix.toUpperCase()}`;
  if (/^-\d+$/.test(text))
    throw usageError(`'${text}' is not an option.`, { why: `the last events are -n ${text.slice(1)}.` });
  const end = SESSION_END.exec(text)?.[1];
  if (end !== undefined) return `…${end.toUpperCase()}`;
  if (findIdKind(text) !== undefined) return readId('session', text);
  throw usageError(`'${text}' is not a session.`, {
    why: `a session is ${SESSION_ABOUT}.`,
    next: ['asp', 'session', 'list'],
  });
}
